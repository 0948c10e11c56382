"""OnlineGP: the model that wires the parts."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Annotated, Any

import numpy as np

from streamgp.arrays import Numbers
from streamgp.compiled import compile_now
from streamgp.contract import freerun, inputs
from streamgp.contract.checks import MOVE_IS_DUE, check
from streamgp.contract.conditions import NOISE, TIME, Moment, refuse_past
from streamgp.contract.joint import JointPrediction
from streamgp.contract.lanes import ALONE
from streamgp.contract.model import Change, Relevance
from streamgp.contract.prediction import Prediction
from streamgp.contract.snapshot import require
from streamgp.contract.stackable import Row
from streamgp.kernels import Kernel, SquaredExponential
from streamgp.kernels.program import Program
from streamgp.kernels.temporal import COORDINATES, BesideInputs, components
from streamgp.kernels.temporal import hyperparameters as temporal_hyperparameters
from streamgp.linalg import triangular
from streamgp.process import features as feature_kinds
from streamgp.process import mean as prior_mean
from streamgp.process import memory as memory_part
from streamgp.process import observation, slopes, stream, temporal
from streamgp.process.adapt import sngd
from streamgp.process.adapt.sngd import SNGD
from streamgp.process.budget import DISCARD, DTC, ERROR, KL, LOWEST_STAYING, NEVER, OLDEST, PAPER, Budget, floor
from streamgp.process.features import Basis, Features, Fourier
from streamgp.process.forgetting import Forgetting, NoForgetting
from streamgp.process.joint import Draws, Function, Pasts
from streamgp.process.likelihood import DEFAULT_NOISE, Likelihood, LikelihoodSetting, chosen
from streamgp.process.likelihood import refuse as refuse_targets
from streamgp.process.mean import LinearMean, Mean, MeanSetting, Weights
from streamgp.process.memory import Memory, Window
from streamgp.process.memory_model import MemoryModel
from streamgp.process.predictive import TimePrediction
from streamgp.process.row import HALVINGS, LEARNED, PRIOR, SEEN, SPACING
from streamgp.process.state import ABSORBED, ADMITTED, LAYOUT, REPLACED, STOPPED
from streamgp.process.uncertain import moments
from streamgp.settings import FloatArray, Setting, number, one_of, optional, positive_vector
from streamgp.vocabulary import FORMS, LEAST_NOISE, Form, Noise, Outputs

REBUILD = 1
TRACE_LENGTH = 512
SLACK = 1e-6  # of a restored variance in [0, 1]: rounding leaves far less

# Settings of the parts that the plan has under the same names.
HANDED_OVER = (
    *("retention", "jitter", "capacity", "novelty", "absorb", "evict", "removal"),
    *("covariance_scale", "covariance_fresh", "mean_scale", "half_life", "injects", "dof"),
    *("interval", "rest", "patience", "rate", "decay", "tolerance", "damping"),
)

Adapt = Annotated[SNGD | None, Setting("SNGD() keeps learning the hyperparameters; None: they stay")]


class OnlineGP(MemoryModel):
    """A Gaussian process learned from a stream, put together from parts.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> model = sg.OnlineGP(sg.Basis(sg.Matern(2.5, lengthscale=2.0)), memory=sg.Window(2), noise=0.01)
        >>> x = np.linspace(0.0, 6.0, 200)
        >>> p = model.track(x[:-1], np.sin(x[1:]))
        >>> p.mean.shape, model.size < 100
        ((199,), True)
    """

    def __init__(
        self,
        features: Annotated[Features, Setting("Basis(kernel), Fourier(...) or Linear(...)")],
        *,
        memory: Annotated[Memory | None, Setting("Window(depth) or Reservoir(...); None: no memory")] = None,
        noise: Annotated[
            Noise,
            Setting(
                'variance of the observation noise; one for each output with outputs="separate"; 0 with '
                'Budget(absorb="dtc", evict="never"): least squares'
            ),
        ] = DEFAULT_NOISE,
        likelihood: LikelihoodSetting = None,
        budget: Annotated[
            Budget | None,
            Setting("capacity, novelty, absorption and eviction of a growing Basis; None: Budget()"),
        ] = None,
        forgetting: Annotated[
            Forgetting | None,
            Setting("BackToPrior(factor) or Injection(factor), also of half_life=; None: nothing is forgotten"),
        ] = None,
        adapt: Adapt = None,
        outputs: Outputs = "shared",
        form: Annotated[
            Form | None,
            Setting(
                '"covariance", or "cholesky" (the information form: a triangular factor, updated by rotations; for '
                'features with a fixed number of weights); None: "cholesky" for Linear, unless it goes back to the '
                "prior or has a kernel over time, a LinearMean or a likelihood of its own",
                check=optional(one_of(*FORMS)),
            ),
        ] = None,
        time: BesideInputs = None,
        mean: MeanSetting = None,
    ) -> None:
        self._compose(features, memory, noise, budget, forgetting, adapt, outputs, form, likelihood, time, mean)

    _batch = 1
    _estimate_power = False
    _direct = True  # predictions are what compiled code says, with nothing to add
    # Squares of errors; missing targets; no time yet.
    _may_overflow = ("targets", "power", "gradient", "fisher", "density", "path", "clock")

    def _compose(
        self,
        features: Features,
        memory: Memory | None,
        noise: Any,
        budget: Budget | None = None,
        forgetting: Forgetting | None = None,
        adapt: SNGD | None = None,
        outputs: str = "shared",
        form: str | None = None,
        likelihood: Likelihood | None = None,
        time: Kernel | None = None,
        mean: Mean | None = None,
    ) -> None:
        """Check the parts against each other and compile the layout."""
        self._likelihood = chosen(noise, likelihood)
        noise = self._likelihood.noise
        self._features = _part("features", features, Features, "Basis(kernel), Fourier(...) or Linear(...)")
        self._memory = Window(1) if memory is None else _part("memory", memory, Memory, "Window(3) or Reservoir(50)")
        self._budget = Budget() if budget is None else _part("budget", budget, Budget, "Budget(capacity=100)")
        self._forgetting = (
            NoForgetting()
            if forgetting is None
            else _part("forgetting", forgetting, Forgetting, "BackToPrior(0.999) or Injection(0.999)")
        )
        kernel = time if time is None else _part("time", time, Kernel, "Matern(1.5, lengthscale='3h') + Periodic('1d')")
        self._terms = [] if kernel is None else components(kernel)
        self._linear = mean if isinstance(mean, LinearMean) else None
        self._beside = (
            self._terms
        )  # what has coordinates beside the features: with the first row also the mean's weights
        self._needs_time = self._forgetting.half_life > 0 or bool(self._terms)
        self._shared = outputs == "shared"
        growing = self._features.kind == feature_kinds.DICTIONARY
        self._least_squares = growing and np.ndim(noise) == 0 and noise == 0
        self._noise = np.zeros(1) if self._least_squares else positive_vector("noise", noise)
        if not self._least_squares and self._noise.min() < LEAST_NOISE:
            raise ValueError(
                f"noise must be at least {LEAST_NOISE:g}, below which arithmetic cannot tell it from 0; got {noise!r}. "
                "Give a larger one, or use other units"
            )
        self._keeps_rows = growing and self._budget.removal == DISCARD
        if self._least_squares:
            self._check_least_squares()
        elif self._keeps_rows:
            self._check_kept()
        if self._shared and self._noise.size != 1:
            raise ValueError(
                f"noise has {self._noise.size} values, but the outputs share one covariance; "
                'give one value, or outputs="separate"'
            )
        fades = self._forgetting.forgets and not self._forgetting.injects
        if form is None:  # raw inputs of any size go into Linear, and only the information form takes them
            gaussian = self._likelihood.kind == observation.GAUSSIAN
            alone = not self._terms and self._linear is None
            form = FORMS[self._features.kind == feature_kinds.LINEAR and gaussian and not fades and alone]
        self._factored = form == "cholesky"
        if self._factored and growing:
            raise ValueError(
                'form="cholesky" needs a fixed number of weights: Fourier, Linear, or a Basis on given points; '
                'use form="covariance" with a basis that grows'
            )
        if self._factored and fades:
            raise ValueError('form="cholesky" cannot go back to the prior; use Injection(...) or form="covariance"')
        self._mean = mean
        if mean is not None:
            self._check_mean()
        self._adapt = None if adapt is None else _part("adapt", adapt, SNGD, "SNGD(interval=25)")
        self._one_step = self._adapt is None
        if self._adapt is not None:
            self._check_adaptable(self._adapt)
        if self._likelihood.kind != observation.GAUSSIAN:
            self._check_likelihood()
        if self._terms:
            self._check_temporal()
        if self._linear is not None:
            self._check_linear_mean()
        self._run = self._loop()
        compile_now(self._run, check, *(() if adapt is None else (sngd.finish_interval,)))

    def _loop(self) -> Any:
        """The compiled loop for this kind of process."""
        if self._keeps_rows:
            return stream.run_kept
        if self._features.kind == feature_kinds.DICTIONARY:
            return stream.run_growing if self._adapt is None else stream.run_growing_adapting
        return stream.run_fixed if self._adapt is None else stream.run_fixed_adapting

    def _check_likelihood(self) -> None:
        """A likelihood that is not Gaussian is learned one row and one output at a time, in covariance form."""
        self._observes, self._direct = self._likelihood.targets, False
        cannot = {
            'form="cholesky" adds up Gaussian observations: use form="covariance"': self._factored,
            'removal="discard" keeps Gaussian observations: use another removal': self._keeps_rows,
            "batch learns Gaussian observations together: use batch=1": self._batch > 1,
            "adapt follows the gradient of a Gaussian density: use adapt=None": self._adapt is not None,
            "feedback takes the mean of the function for a missing target: use feedback=None": (
                self._memory.feeds_back and self._likelihood.targets != "numbers"
            ),
            "estimate_power scales Gaussian noise: use estimate_power=False": self._estimate_power,
        }
        for why, is_so in cannot.items():
            if is_so:
                raise ValueError(f"{why} with likelihood={self._likelihood!r}")

    def _check_mean(self) -> None:
        self._direct = False
        if self._likelihood.targets != "numbers":
            raise ValueError(f"mean is taken from the targets, and {self._likelihood.targets} have none: use mean=None")
        if self._memory.feeds_back:
            raise ValueError("feedback puts targets into the reservoir, not what is above the mean: use feedback=None")

    def _check_temporal(self) -> None:
        """A kernel over time needs a covariance between its coordinates and the weights, row by row."""
        cannot = {
            'form="cholesky" has no covariance that time could move: use form="covariance"': self._factored,
            'removal="discard" keeps rows whatever their time: use another removal': self._keeps_rows,
            "noise=0 is least squares, which knows no covariance: use a noise above 0": self._least_squares,
            "batch learns rows of different times together: use batch=1": self._batch > 1,
            "injection is capped at a prior that does not move: forget back to the prior": self._forgetting.injects,
            'on_move="rebuild" learns the targets of basis points whatever their time: use on_move="rebase"': (
                self._adapt is not None and self._adapt.on_move == REBUILD
            ),
        }
        for why, is_so in cannot.items():
            if is_so:
                raise ValueError(f"{why} with a kernel over time (time=)")

    def _check_linear_mean(self) -> None:
        """The weights of the mean need a covariance with the function, row by row."""
        cannot = {
            'form="cholesky" has a factor of the features alone: use form="covariance"': self._factored,
            'removal="discard" keeps rows and no posterior: use another removal': self._keeps_rows,
            "noise=0 is least squares, which knows no covariance: use a noise above 0": self._least_squares,
            "batch learns rows together by the features alone: use batch=1": self._batch > 1,
            "injection is capped at the prior of features alone: forget back to the prior": self._forgetting.injects,
            'on_move="rebuild" learns the targets of basis points without their mean: use on_move="rebase"': (
                self._adapt is not None and self._adapt.on_move == REBUILD
            ),
        }
        for why, is_so in cannot.items():
            if is_so:
                raise ValueError(f"{why} with mean=LinearMean(...)")

    def _check_adaptable(self, adapt: SNGD) -> None:
        if self._least_squares or self._keeps_rows or self._features.kind == feature_kinds.LINEAR:
            raise ValueError("adapt works on a posterior over a Basis or Fourier features; this model has another")
        if self._batch > 1:
            raise ValueError("adapt learns from each next row: use batch=1, or adapt=None")
        if self._factored and self._features.kind == feature_kinds.POINTS:
            raise ValueError('adapt needs form="covariance" with given basis points')
        if adapt.on_move == REBUILD and self._features.kind != feature_kinds.DICTIONARY:
            raise ValueError('on_move="rebuild" needs basis points with targets of their own; use on_move="rebase"')

    def _check_least_squares(self) -> None:
        budget = self._budget
        if budget.evict != NEVER or budget.absorb != DTC or not self._shared or self._forgetting.forgets:
            raise ValueError(
                "noise=0 is least squares on a dictionary that only grows, as in KRLS(noise=0): it needs "
                'Budget(absorb="dtc", evict="never"), shared outputs and no forgetting; otherwise give a noise above 0'
            )

    def _check_kept(self) -> None:
        budget = self._budget
        if budget.evict not in (ERROR, OLDEST) or budget.novelty > 0 or self._forgetting.forgets or not self._shared:
            raise ValueError(
                'removal="discard" keeps the exact GP on some rows: it needs evict="oldest" or "error", novelty=0, '
                "shared outputs and no forgetting"
            )

    # The state.

    def _start(self, d: int, p: int) -> None:
        self._refuse_outputs(p)
        seen = self._state.clock[SEEN, 0] if self._d is not None and self._beside else np.nan
        self._beside = self._terms + ([] if self._linear is None else [self._linear.component(d)])
        program = self._program(self._memory.width(d))
        sizes = self._sizes(d, p, program)
        numbers = Numbers(LAYOUT, sizes, self._plan(sizes))
        self._fill(numbers, program)
        self._place(numbers)
        if self._beside:  # rows may have come, but no target
            self._state.clock[SEEN] = seen
        parts = p + 2 * sizes["covariances"]
        self._no_targets, self._no_predictions = np.empty((0, p)), np.empty((parts, 0))
        self._no_conditions, self._one = np.empty((0, NOISE + 1)), Row.empty()
        self._one_prediction = self._one.out[:, :, 0]

    def _refuse_outputs(self, p: int) -> None:
        if not self._shared and self._noise.size not in (1, p):
            raise ValueError(f"noise has {self._noise.size} values, but there are {p} outputs; give 1 or {p}")
        if self._shared and p > 1 and self._likelihood.kind != observation.GAUSSIAN:
            raise ValueError(
                f"there are {p} outputs, and with likelihood={self._likelihood!r} each needs a covariance of its own: "
                'use outputs="separate"'
            )

    def _program(self, width: int) -> Program:
        """The kernel as compiled code reads it; without a kernel its parameters are the variance of the features."""
        parts = self._features
        if parts.points is not None and parts.points.shape[1] != width:
            raise ValueError(f"the basis points have {parts.points.shape[1]} columns, but the inputs have {width}")
        if parts.kernel is not None:
            bound: Program = parts.kernel.program(width, self._memory.depth)
            return bound
        return Program(np.zeros((0, 5), np.int64), np.array([parts.variance] if isinstance(parts, Fourier) else []))

    def _sizes(self, d: int, p: int, program: Program) -> dict[str, int]:
        """What the symbols in the shapes of the arrays stand for."""
        parts, budget, adapt, width = self._features, self._budget, self._adapt, self._memory.width(d)
        frequencies, points, q = parts.features if isinstance(parts, Fourier) else 0, 0, 1 if self._shared else p
        if parts.kernel is not None:
            points = budget.capacity + 1 if parts.points is None else len(parts.points)
        theta = 0 if adapt is None else program.parameters.size + q
        scored = parts.kind == feature_kinds.DICTIONARY and budget.evict in (PAPER, KL) and not self._keeps_rows
        rebuilds = adapt is not None and adapt.on_move == REBUILD
        weights = points or 2 * frequencies or width + int(parts.constant)
        blocks, temporal = sum(len(term.blocks) for term in self._beside), self._temporal_coordinates()
        return memory_part.sizes(self._memory, d, p) | {
            "covariances": q,
            "width": width,
            "parameters": program.parameters.size,
            "frequencies": frequencies,
            "points": points,
            "scored": q if scored else 0,
            "weights": weights,
            "temporal": temporal,
            "mean_weights": 0 if self._linear is None else self._linear.count(d),
            "coordinates": temporal + weights,
            "blocks": blocks,
            "now": PRIOR + 1 if blocks else 0,
            "matrices": 0 if self._keeps_rows else q,
            "clock": SPACING + 1 if blocks else HALVINGS + 1 if self._needs_time else 0,
            "kept": points if self._keeps_rows or rebuilds else 0,
            "theta": theta,
            "path": TRACE_LENGTH if theta else 0,
            "path_columns": 2 + theta,
            "steps": len(program.operations),
            "derivatives": program.parameters.size if theta else 0,
            "kernel_scratch": program.scratch(points, width) if points else 0,
        }

    def _plan(self, sizes: dict[str, int]) -> dict[str, Any]:
        """What compiled code reads of the settings: the parts' own by their names, and what follows from them."""
        parts = self._memory, self._features, self._budget, self._forgetting, self._likelihood, self._adapt
        plan = {name: getattr(part, name) for part in parts for name in HANDED_OVER if hasattr(part, name)}
        counted = "outputs", "covariances", "weights", "temporal", "mean_weights", "theta"
        plan |= {name: sizes[name] for name in counted}
        if self._adapt is not None:
            plan |= {"per_row": self._adapt.parameters_per_row, "longest": self._adapt.clip}
            plan["rebuild"] = self._adapt.on_move == REBUILD
        return plan | {
            "features": self._features.kind,
            "feedback": self._memory.feeds_back,
            "weight_scale": self._features.delta**-0.5,
            "factored": self._factored,
            "least_squares": self._least_squares,
            "batch": self._batch,
            "check_every": self._rows_between_checks(),
            "power": self._estimate_power,
            "likelihood": self._likelihood.kind,
            "temporal_variance": sum(block.feature[0] ** 2 for term in self._terms for block in term.blocks),
        }

    def _fill(self, numbers: Numbers, program: Program) -> None:
        """Write down what is known before the first row: hyperparameters, given points, the prior."""
        parts, state = self._features, numbers.state
        numbers.counters["path_stride"] = 1
        numbers.work.operations.view(np.int64)[:] = program.operations
        state.noise[:] = self._noise
        state.parameters[:] = program.parameters
        state.clock[LEARNED : LEARNED + 1] = state.clock[SEEN : SEEN + 1] = np.nan
        if self._beside:
            work = numbers.work
            work.table[:], work.feature[:] = temporal.tabulated(self._beside)
            work.now[:] = np.nan
        if isinstance(parts, Fourier):
            state.frequencies[:] = parts.frequencies(state.frequencies.shape[1], self._memory.depth)
        if parts.points is not None:
            numbers.counters["points"] = len(parts.points)
            _place_points(parts, state, self._memory.depth, adapting=self._adapt is not None)
        diagonal = np.einsum("jii->ji", state.covariance)
        if parts.kind != feature_kinds.DICTIONARY:
            diagonal[:] = np.sqrt(state.noise)[:, None] if self._factored else 1.0
        diagonal[:, : numbers.work.feature.size] = 1.0

    def _rows_between_checks(self) -> int:
        """After how many rows injection may have doubled the covariance: then it is compared with the prior's."""
        if not self._forgetting.injects or self._forgetting.factor == 1.0:
            return 0
        return max(1, int(np.log(0.5) / np.log(self._forgetting.factor)))

    def _advance(
        self, X: FloatArray, Y: FloatArray | None, report: bool, conditions: FloatArray | None = None
    ) -> Prediction | None:
        if Y is not None and self._observes != "numbers":
            self._refuse_targets(Y, many=len(X) > 1)
        prior = self._prior_mean(X)
        if Y is not None and prior is not None:
            Y = Y - prior
        out = np.empty((len(self._no_predictions), len(X))) if report else self._no_predictions
        targets = self._no_targets if Y is None else Y
        given = self._no_conditions if conditions is None else conditions
        records, buffers, lanes, run = self._numbers.records, self._numbers.buffers, self._lanes, self._run
        rows = self._with_features(X)
        status, lane, at = run(records, buffers, *lanes, rows, targets, given, out, 0, 0, True)
        while status == MOVE_IS_DUE:
            sngd.finish_interval(records, buffers, lanes.models[lane])
            status, lane, at = run(records, buffers, *lanes, rows, targets, given, out, lane, at + 1, True)
        if status:
            inputs.refuse(status, at, many=len(X) > 1)
        return self._above(prior, self._prediction(out)) if report else None

    def _prior_mean(self, X: FloatArray) -> FloatArray | None:
        return None if self._mean is None else prior_mean.values(self._mean, X, self._p or 1)

    def _with_features(self, X: FloatArray) -> FloatArray:
        """Rows as compiled code takes them: behind the inputs stand the features of a LinearMean."""
        return X if self._linear is None else np.hstack([X, self._linear.whitened(X)])

    def _above(self, prior: FloatArray | None, prediction: Prediction) -> Prediction:
        if prior is None:
            return prediction
        # [huber2013] Eq. (13): m(X_t) + J (mu - m(X))
        moved = prediction._moved(prior, 1.0)
        if self._linear is not None and isinstance(moved, TimePrediction):
            moved.components["mean"] = moved.components["mean"]._moved(prior, 1.0)
        return moved

    def _refuses_free_run(self) -> str:
        if not math.isnan(self._likelihood.noise_ratio):
            return ""
        return (
            "simulate and forecast feed a model with numbers that it draws itself, which they cannot with "
            f"likelihood={self._likelihood!r}; use a model of its own for each step ahead"
        )

    def _refuse_targets(self, Y: FloatArray, *, many: bool) -> None:
        refuse_targets(self._likelihood, Y, many=many)

    def _refuses_noise(self, p: int) -> str:
        if self._least_squares:
            return (
                "noise=0 is least squares, in which all rows count alike; build the model with a noise above 0 to give "
                "rows a noise of their own"
            )
        if self._adapt is not None:
            return (
                "adapt=SNGD() moves the noise of all that was learned together, so that a row cannot keep one of its "
                "own; use adapt=None to give rows their noise, or learn them without"
            )
        if self._likelihood.kind != observation.GAUSSIAN:
            return f"only Gaussian noise can differ from row to row; this model has likelihood={self._likelihood!r}"
        return ""

    def _refuse_times(self, time: FloatArray | None, learned: np.ndarray, many: bool) -> None:
        if self._terms and time is not None:
            self._refuse_past(time, many=many, follow=True)
        if not self._forgetting.half_life or not learned.any():
            return
        if time is None:
            raise ValueError(
                f"{type(self).__name__} has a half_life, so it forgets by the time between rows, and every learned row "
                "needs its own: learn_one(x, y, time=t), learn_many(X, Y, time=times). To forget by rows use "
                "forgetting= in place of half_life="
            )
        clock = np.array([] if self._d is None else self._state.clock[0])
        rows, before = np.flatnonzero(learned), max(clock[~np.isnan(clock)], default=-np.inf)
        given = time[rows]
        where = [f" in row {row}" if many else "" for row in rows]
        for at in np.flatnonzero(~np.isfinite(given)):
            raise ValueError(
                f"time is missing or not finite{where[at]}, but this model forgets by it; nothing was learned. Give "
                "the row its time, or make its target missing"
            )
        for at in np.flatnonzero(np.diff(given, prepend=before) < 0):
            raise ValueError(
                f"time goes backwards{where[at]}: {given[at]:.15g} after {given[at - 1] if at else before:.15g}; "
                "nothing was learned. Sort the rows by time, or give a row that comes late the time at which it comes"
            )

    def _refuse_past(self, time: FloatArray, *, many: bool, follow: bool) -> None:
        if self._terms:
            refuse_past(time, np.nan if self._d is None else self._state.clock[LEARNED, 0], many=many, follow=follow)

    def _predict(self, X: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        out = self._room_for(len(X))
        lanes = self._numbers.records, self._numbers.buffers, *self._lanes
        given = self._no_conditions if conditions is None else conditions
        status, _, at = self._run(*lanes, self._with_features(X), self._no_targets, given, out, 0, 0, False)
        if status:
            inputs.refuse(status, at, many=len(X) > 1)
        return self._above(self._prior_mean(X), self._with_components(out))

    def _derived(self, X: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        if self._likelihood.kind != observation.GAUSSIAN:
            raise ValueError(
                f"derivatives are those of a Gaussian prediction; this model has likelihood={self._likelihood!r}"
            )
        slopes.prepare()
        out, (p, q) = self._room_for(len(X)), self._outputs_and_covariances()
        by_mean, by_variance = np.empty((len(X), p, X.shape[1])), np.empty((len(X), q, X.shape[1]))
        given = self._no_conditions if conditions is None else conditions
        linear, none = self._linear, np.empty((len(X), 0, X.shape[1]))
        of_features = none if linear is None else linear.slopes(X) * linear.scales(X.shape[1])[:, None]
        rows, numbers = self._with_features(X), self._numbers
        slopes.run(numbers.records, numbers.buffers, rows, given, of_features, out, by_mean, by_variance)
        if self._mean is not None:
            by_mean += prior_mean.slopes(self._mean, X, p)
        if not self.has_variance:
            by_variance[:] = np.nan
        predicted = self._above(self._prior_mean(X), self._with_components(out))
        return predicted._with_gradients(by_mean, by_variance)

    def _uncertain(self, X: FloatArray, P: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        kernel, gaussian = self._features.kernel, self._likelihood.kind == observation.GAUSSIAN
        level = self._mean is None or isinstance(self._mean, float)
        plain = gaussian and self.has_variance and not self._recalls_rows()
        if not (isinstance(kernel, SquaredExponential) and plain and level):
            return super()._uncertain(X, P, conditions)
        function, d = Function(self), X.shape[1]
        named = kernel.hyperparameters(self._state.parameters, d)
        M, variance = np.diag(np.resize(named["lengthscale"], d) ** -2.0), float(named["variance"])
        if "factors" in named:
            M += np.asarray(named["factors"]) @ np.asarray(named["factors"]).T
        times = self._later(np.full(1, np.nan) if conditions is None else conditions[:, TIME])
        mean, total = moments(function, X[0], P, M, variance, times)
        predicted = Prediction(mean[None], total[None], np.broadcast_to(function.noise, mean.shape)[None])
        return self._above(self._prior_mean(X), predicted)

    def _room_for(self, n: int) -> FloatArray:
        """Room for the predictions of n rows, and for their components."""
        p, q = self._outputs_and_covariances()
        parts = (1 + len(self._beside)) * (p + q) if self._has_components else 0
        return np.empty((len(self._no_predictions) + parts, n))

    def _with_components(self, out: FloatArray) -> Prediction:
        """The prediction that compiled code wrote."""
        rows, (p, q) = len(self._no_predictions), self._outputs_and_covariances()
        whole = self._prediction(out[:rows])
        if not self._has_components:
            return whole
        each = np.split(out[rows:], 1 + len(self._beside))
        named = {
            name: Prediction(one[:p].T, one[p:].T, np.zeros((one.shape[1], q)))
            for name, one in zip(("inputs", *(term.name for term in self._beside)), each, strict=True)
        }
        return TimePrediction(whole.mean, whole.variance, whole.noise, named)

    @property
    def _has_components(self) -> bool:
        return bool(self._beside) and self._likelihood.kind == observation.GAUSSIAN

    def _outputs_and_covariances(self) -> tuple[int, int]:
        p = self._no_targets.shape[1]
        return p, (len(self._no_predictions) - p) // 2

    def _trajectories(self, count: int, steps: int) -> freerun.Trajectories:
        within, mean = Draws(self, count, steps), self._mean
        return within if mean is None else prior_mean.Above(within, lambda X: prior_mean.values(mean, X, self._p or 1))

    def _joint(self, X: FloatArray, conditions: FloatArray | None = None) -> JointPrediction:
        if not self.has_variance:
            return super()._joint(X)
        times = np.full(len(X), np.nan) if conditions is None else conditions[:, TIME]
        joint = Function(self).prediction(Pasts(self, len(X)).advance(X), self._later(times), X)
        prior = self._prior_mean(X)
        return joint if prior is None else joint.mapped(prior, 1.0, joint.noise)

    def _later(self, times: FloatArray) -> FloatArray:
        """Times at which to predict: NaN is one after the last row."""
        if (moment := self._moment()) is None:
            return times
        return np.where(np.isnan(times), moment.one_later, times)

    def _moment(self) -> Moment | None:
        if not self._terms:
            return None
        if self._d is None:
            return Moment(np.nan, 0.0, np.nan)
        return Moment(*self._state.clock[[SEEN, SPACING, LEARNED], 0].tolist())

    def _note_time(self, time: float) -> None:
        if self._terms:
            self._state.clock[SEEN] = time

    def _remember(self, X: FloatArray) -> None:
        before = self._state.clock.copy()
        super()._remember(X)
        if not self._terms:  # otherwise who hands over the row knows its time
            self._state.clock[...] = before

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        x, above = super()._last_row()
        prior = self._prior_mean(x[None])
        return x, above if prior is None else above + prior[0]

    def _recall(self, y: FloatArray) -> None:
        prior = self._prior_mean(super()._last_row()[0][None])
        super()._recall(y if prior is None else y - prior[0])

    def _recalls_rows(self) -> bool:
        return self._memory.width(1) != 1

    def _quick(self) -> bool:
        return self._direct and self._shape.p == 1 and not self._needs_time

    def _row(self, X: FloatArray, Y: FloatArray | None) -> Row:
        numbers, advance = self._numbers, Y is not None
        Y = self._no_targets if Y is None else Y
        given = X, Y, self._no_conditions, self._one_prediction
        status, _, at = self._run(numbers.records, numbers.buffers, *ALONE, *given, 0, 0, advance)
        if status == MOVE_IS_DUE:
            sngd.finish_interval(numbers.records, numbers.buffers, 0)
        elif status:
            inputs.refuse(status, at, many=False)
        if not self.has_variance:
            self._one_prediction[1:] = np.nan
        return self._one

    def _prediction(self, out: FloatArray) -> Prediction:
        """The rows that compiled code filled: means, variances, noises; of a model without a variance the means."""
        p, q = self._outputs_and_covariances()
        if not self.has_variance:
            out[p:] = np.nan
        return self._likelihood.predicted(out[:p].T, out[p : p + q].T, out[p + q :].T)

    def _empty(self) -> Prediction:
        none = super()._empty()
        return self._likelihood.predicted(none.mean, none.variance, none.noise)

    def _check_numbers(self, named: dict[str, np.ndarray]) -> None:
        super()._check_numbers(named)
        state = SimpleNamespace(**{name.removeprefix("counters."): array for name, array in named.items()})
        size, growing = state.points.reshape(-1, 1), self._features.kind == feature_kinds.DICTIONARY
        most = self._budget.capacity if growing else state.basis.shape[1]
        if any(wrong := (size < (0 if growing else most)) | (size > most)):
            raise ValueError(f"the snapshot says {size[wrong][0]} basis points, the model has room for {most}")
        if any(wrong := state.evictions.reshape(-1, 1) > size + 1):
            raise ValueError(
                f"the snapshot says {state.evictions.reshape(-1, 1)[wrong][0]} points left at the last row"
            )
        points, stride, rows = (a.reshape(-1) for a in (state.path_points, state.path_stride, state.rows_seen))
        if any(wrong := (points > state.path.shape[1]) | (stride < 1) | (stride > np.maximum(rows, 1))):
            raise ValueError(f"the snapshot says a trace of {points[wrong][0]} points, every {stride[wrong][0]} rows")
        require("change", state.change, at_most=REPLACED)
        require("phase", state.phase, at_most=STOPPED)
        self._check_parameters(self._features.kernel, state.parameters)
        require("noise", state.noise, at_least=0, above=None if self._least_squares else 0)
        diagonal = np.einsum("nii->ni", state.factor)
        require("the diagonal of factor", diagonal[np.arange(diagonal.shape[1]) < size], above=0)
        for name in ("prior", "inverse_diagonal", "residual"):
            require(name, getattr(state, name), at_least=0)
        require("power", state.power, at_least=0, finite=False)
        moments = state.clock[:, [row for row in (LEARNED, SEEN) if row < state.clock.shape[1]]]
        require("clock", moments[~np.isnan(moments)])
        require("clock", state.clock[:, HALVINGS:SEEN], at_least=0, at_most=1)
        require("clock", state.clock[:, SPACING:], at_least=0)
        variances, temporal = np.einsum("njii->jni", state.covariance), self._temporal_coordinates()
        require("the diagonal of covariance", variances[..., :temporal], at_least=-SLACK)
        variances = variances[..., temporal:]
        if growing:
            variances = variances[:, np.arange(variances.shape[2]) < size]
        if self._factored:
            require("the diagonal of covariance", variances, above=0)
        else:
            require("the diagonal of covariance", variances, at_least=-SLACK, at_most=self._largest_variance() + SLACK)

    def _largest_variance(self) -> float:
        """What a whitened weight may have for a variance: the prior's, or what injection adds between two checks."""
        if self._least_squares or (self._forgetting.injects and self._adapt is not None):
            return np.inf
        between = self._rows_between_checks()
        if self._forgetting.injects and self._forgetting.half_life:
            return 2.0
        return self._forgetting.factor**-between if between else 1.0

    def forget(self, factor: float) -> None:
        number("factor", factor, above=0, at_most=1)
        if why := self._cannot_forget_because:
            raise ValueError(why)
        if self._d is None or factor == 1:
            return
        compile_now(stream.forget)
        stream.forget(self._numbers.records, self._numbers.buffers, factor)

    forget.__doc__ = MemoryModel.forget.__doc__

    def _weights_in_use(self) -> int:
        growing, temporal = self._features.kind == feature_kinds.DICTIONARY, self._temporal_coordinates()
        return self._numbers.count("points") if growing else len(self._state.mu) - temporal

    def _temporal_coordinates(self) -> int:
        return sum(COORDINATES[block.kind] for term in self._beside for block in term.blocks)

    @property
    def _cannot_forget_because(self) -> str:
        return super()._cannot_forget_because if self._least_squares or self._keeps_rows else ""

    # What can be read.

    @property
    def size(self) -> int:
        if self._d is None:
            return 0 if self._features.points is None else len(self._features.points)
        return self._weights_in_use()

    @property
    def basis(self) -> FloatArray:
        if self._d is None:
            return np.empty((0, 0)) if self._features.points is None else self._features.points.copy()
        basis: FloatArray = self._state.basis[: self._numbers.count("points")].copy()
        return basis

    @property
    def hyperparameters(self) -> dict[str, float | FloatArray]:
        # Before the first row only those that do not depend on its width.
        noise = self._noise if self._d is None else self._state.noise
        named: dict[str, float | FloatArray] = {}
        parts = self._features
        if parts.kernel is not None and self._d is not None:
            width = self._memory.width(self._d)
            named |= parts.kernel.hyperparameters(self._state.parameters, width, self._memory.depth)
        elif isinstance(parts, Fourier):
            named["variance"] = parts.variance if self._d is None else float(self._state.parameters[0])
        named |= self._likelihood.hyperparameters
        if self._likelihood.kind == observation.GAUSSIAN:
            named["noise"] = _plain(noise)
        if isinstance(parts, Fourier) and parts.lengthscale is not None:
            named["lengthscale"] = _plain(parts.lengthscale)  # fixed: it is in the frequencies
        if self._terms:
            named |= {f"time.{name}": value for name, value in temporal_hyperparameters(self._settings["time"]).items()}
        return named

    @property
    def mean_weights(self) -> Weights:
        """What is known of the weights of ``mean=LinearMean(...)``: their names, means and covariance."""
        if self._linear is None:
            raise ValueError("this model has no weights in its mean: build it with mean=LinearMean(...)")
        if self._d is None:
            raise ValueError("the weights of the mean are known once the first row has come")
        linear, function, d = self._linear, Function(self), self._d
        last, scales = self._temporal_coordinates(), linear.scales(d)
        first = last - len(scales)
        mean = linear.start(d) + scales[:, None] * function.mu[first:last]
        covariance = function.power[:, None, None] * function.S[:, first:last, first:last] * np.outer(scales, scales)
        names = linear.labels(d)
        return Weights(
            names, mean[:, 0] if self._shape.scalar else mean, covariance if len(covariance) > 1 else covariance[0]
        )

    def relevance(self) -> Relevance:
        if self._features.kind == feature_kinds.LINEAR:
            return super().relevance()
        if self._d is None:
            raise ValueError("the relevance of inputs is known once the first row has come")
        memory, d = self._memory, self._d
        if isinstance(self._features, Fourier):
            # The spread of the frequencies of a column is 1 / lengthscale.
            weights = np.sqrt(np.mean(self._state.frequencies**2, axis=0))
            steps = float(memory.depth)
        else:
            assert self._features.kernel is not None
            weights, steps = self._features.kernel.relevance(self._state.parameters, memory.width(d), memory.depth)
        # The inputs' own columns, summed over the lags of a window; a reservoir's units are not inputs.
        own = weights[memory.units :] if memory.augment else np.ones(d)
        total = own.reshape(-1, d).sum(0)
        return Relevance(total / total.sum(), steps)

    @property
    def trace(self) -> dict[str, FloatArray]:
        """The path of every hyperparameter and of the running log density, thinned to a fixed length; by row."""
        if self._adapt is None:
            raise ValueError("this model does not adapt its hyperparameters: build it with adapt=SNGD()")
        if self._d is None:
            return {"row": np.empty(0), "log_density": np.empty(0)}
        path = self._state.path[: self._numbers.count("path_points")].copy()
        named = {"row": path[:, 0], "log_density": path[:, 1]}
        first = 2
        for name, value in self.hyperparameters.items():
            size = np.size(value)
            if first + size > path.shape[1]:
                break  # a lengthscale in fixed frequencies has no path
            named[name] = path[:, first] if size == 1 else path[:, first : first + size]
            first += size
        return named

    @property
    def last_change(self) -> Change:
        if self._d is None:
            return Change()
        change, left = self._numbers.count("change"), self._state.evicted[: self._numbers.count("evictions")]
        return Change(change == ABSORBED, change in (ADMITTED, REPLACED), tuple(int(r) for r in left))


def _part(name: str, value: Any, kind: type, example: str) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be, for example, {example}; got {value!r}")
    return value


def _plain(values: FloatArray) -> float | FloatArray:
    return float(values[0]) if values.size == 1 else values.copy()


def _place_points(parts: Features, state: Any, depth: int, adapting: bool) -> None:
    """Put the given points into the state, with the factor of their covariance."""
    assert isinstance(parts, Basis)
    assert parts.points is not None
    assert parts.kernel is not None
    points = parts.points if depth == 1 else parts.points.reshape(len(parts.points), depth, -1)
    K = parts.kernel(points) * (1.0 + parts.jitter * np.eye(len(points)))
    state.basis[:] = parts.points
    state.prior[:] = np.diag(K)
    for point in parts.points[state.prior <= 0.0].tolist():
        raise ValueError(f"the kernel has no variance at the basis point {point}; leave it out")
    try:
        state.factor[:] = np.linalg.cholesky(K).T
    except np.linalg.LinAlgError:
        state.inverse_diagonal[:] = np.inf
    else:
        root = np.empty(len(K))
        for i in range(len(K)):
            triangular.inverse_root(state.factor, i, len(K), root)
            state.inverse_diagonal[i] = root @ root
    left = 1.0 / (state.inverse_diagonal * state.prior)  # the variance given all others, of the point's own
    least = np.array([max(floor(kappa, state.noise.min(), adapting), LOWEST_STAYING) for kappa in state.prior])
    if not np.all(left >= least):
        alike = np.abs(K) / np.sqrt(np.outer(state.prior, state.prior)) - np.eye(len(K))
        one, other = sorted(divmod(int(np.argmax(alike)), len(K)))
        raise ValueError(
            f"the basis points are too close together for this kernel, above all points {one} and {other}, "
            f"{parts.points[one].tolist()} and {parts.points[other].tolist()}: given all others, a point must keep "
            f"{least.max():.0e} of its prior variance, and one keeps {left.min():.0e}. Use fewer points, a shorter "
            f"lengthscale, or jitter={100.0 * least.max():.0e}"
        )
