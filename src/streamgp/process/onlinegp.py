"""OnlineGP: the model that wires the parts; how rows pass through it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import numpy as np

from streamgp.arrays import Numbers
from streamgp.contract import spacing
from streamgp.contract.conditions import NOISE, TIME, Moment, refuse_past
from streamgp.contract.lanes import ADVANCE, LEARN, any_of
from streamgp.contract.model import Ability, Change, Relevance
from streamgp.contract.prediction import NUMBERS, Prediction
from streamgp.kernels import Kernel
from streamgp.kernels.temporal import BesideInputs, Component, components
from streamgp.process import composed, observation, rare
from streamgp.process import mean as prior_mean
from streamgp.process.adapt.sngd import SNGD
from streamgp.process.budget import DISCARD, Budget
from streamgp.process.compiled_model import NONE, CompiledModel
from streamgp.process.features import DICTIONARY, LINEAR, Features, Fourier
from streamgp.process.forgetting import BackToPrior, Forgetting
from streamgp.process.function import Function
from streamgp.process.likelihood import DEFAULT_NOISE, Likelihood, LikelihoodSetting, chosen, refuse
from streamgp.process.mean import LinearMean, MeanSetting, Weights
from streamgp.process.memory import Memory, Window
from streamgp.process.predictive import TimePrediction
from streamgp.process.row import LEARNED, SEEN
from streamgp.process.state import ABSORBED, ADMITTED, LAYOUT, REPLACED
from streamgp.settings import FloatArray, Maybe, Setting, instance, number, one_of, optional, positive_vector
from streamgp.vocabulary import FORMS, Form, Noise, Outputs

Adapt = Annotated[
    SNGD | None,
    Setting(
        "SNGD() keeps learning the hyperparameters; None: they stay",
        check=optional(instance(SNGD, "SNGD(interval=25)")),
    ),
]


class OnlineGP(CompiledModel):
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

    _beside: list[Component]  # what has coordinates beside the features: the kernel over time, the weights of the mean
    _batch = 1
    _estimate_power = False
    _direct = True
    # Squares of errors; missing targets; no time yet.
    _may_overflow = ("targets", "power", "gradient", "fisher", "density", "path", "clock")

    def __init__(
        self,
        features: Annotated[
            Features,
            Setting(
                "Basis(kernel), Fourier(...) or Linear(...)",
                check=instance(Features, "Basis(kernel), Fourier(...) or Linear(...)"),
            ),
        ],
        *,
        memory: Annotated[
            Memory | None,
            Setting(
                "Window(depth) or Reservoir(...); None: no memory",
                check=optional(instance(Memory, "Window(3) or Reservoir(50)")),
            ),
        ] = None,
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
            Setting(
                "capacity, novelty, absorption and eviction of a growing Basis; None: Budget()",
                check=optional(instance(Budget, "Budget(capacity=100)")),
            ),
        ] = None,
        forgetting: Annotated[
            Forgetting | None,
            Setting(
                "BackToPrior(factor) or Injection(factor), also of half_life=; None: nothing is forgotten",
                check=optional(instance(Forgetting, "BackToPrior(0.999) or Injection(0.999)")),
            ),
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
        self._likelihood: Likelihood = chosen(noise, likelihood)
        noise = self._likelihood.noise
        self._features, self._memory = features, Window(1) if memory is None else memory
        self._budget = Budget() if budget is None else budget
        self._forgetting: Forgetting = BackToPrior(1.0) if forgetting is None else forgetting
        self._adapt, self._mean = adapt, mean
        self._linear = mean if isinstance(mean, LinearMean) else None
        self._terms = self._beside = [] if time is None else components(time)
        self._shared, self._grows = outputs == "shared", features.kind == DICTIONARY
        self._least_squares = self._grows and np.ndim(noise) == 0 and noise == 0
        self._noise: FloatArray = np.zeros(1) if self._least_squares else positive_vector("noise", noise)
        self._keeps_rows = self._grows and self._budget.removal == DISCARD
        gaussian = self._likelihood.kind == observation.GAUSSIAN
        fades = self._forgetting.forgets and not self._forgetting.injects
        if form is None:  # raw inputs of any size go into Linear, and only the information form takes them
            form = FORMS[features.kind == LINEAR and gaussian and not (fades or self._terms or self._linear)]
        self._factored = form == "cholesky"  # in the information form
        self._recalls, self._observes = self._memory.recalls, self._likelihood.targets
        if self._observes != "numbers":
            self._refuse_targets = partial(refuse, self._likelihood)
        self._needs_time = self._forgetting.half_life > 0 or bool(self._terms)
        self._direct = self._batch == 1 and gaussian and mean is None and not self._terms
        self._one_step = adapt is None and self._batch == 1 and not self._forgetting.injects
        composed.refuse_combinations(self)
        composed.load(self)

    def _start(self, d: int, p: int) -> None:
        composed.refuse_outputs(self, p)
        before = self._state if self._d is not None and self._beside else None
        self._beside = self._terms + ([] if self._linear is None else [self._linear.component(d)])
        program = self._features.program(self._memory.width(d), self._memory.depth)
        sizes = composed.sizes_of(self, d, p, program)
        numbers = Numbers(LAYOUT, sizes, composed.plan_of(self, sizes))
        composed.fill(self, numbers, program)
        self._place(numbers)
        if before is not None:  # rows have come, but no target
            self._state.clock[SEEN:] = before.clock[SEEN:, :1]
            self._state.spacing[:] = before.spacing

    @property
    def _needs_cores(self) -> str:  # type: ignore[override]
        if self._adapt is not None:
            return "adapt=, which moves hyperparameters by eigenvalues"
        if self._forgetting.injects:
            return "forgetting by injection, which bounds eigenvalues"
        return "" if self._batch == 1 else "batch= above 1"

    @property
    def _moment(self) -> Moment | None:  # type: ignore[override]
        if not self._terms:
            return None
        if self._d is None:
            return Moment(np.nan, 0.0, np.nan)
        seen, learned = self._state.clock[[SEEN, LEARNED], 0].tolist()
        return Moment(seen, spacing.usual(self._state.spacing), learned)

    # Rows.

    def _pass(self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe, kept: Maybe) -> FloatArray:
        if self._direct:
            return super()._pass(ops, X, Y, conditions, kept)
        if Y is not None and self._refuse_targets is not None:
            self._refuse_targets(Y, many=len(X) > 1)
        prior = self._prior_mean(X)
        if Y is not None and prior is not None:
            Y = Y - prior
        if conditions is None and kept is not None and self._linear is not None and any_of(ops, LEARN):
            # The weights of a mean are of no time: a row that waited passes none.
            advances, seen = ops[:, 1] & ADVANCE != 0, self._state.clock[SEEN, 0]
            gap = spacing.usual(self._state.spacing) or 1.0
            times = np.cumsum([-gap if np.isnan(seen) else seen, *gap * advances])[1:]  # of the rows seen by then
            conditions = np.full((len(ops), NOISE + 1), np.nan)
            conditions[~advances, TIME] = times[~advances]
        width = 3 if any_of(ops, LEARN) or not self._has_components else len(self._columns)
        columns = self._room((width, len(X), self._state.last_target.size))
        if self._linear is not None:  # behind the inputs stand the features of a LinearMean
            X = np.hstack([X, self._linear.whitened(X)])
        if self._batch == 1 or Y is None:
            self._do(ops, X, Y, conditions, kept, columns)
        else:
            given = [NONE if one is None else one for one in (conditions, kept)]
            rare.pass_batches(self._run, self._numbers, self._lanes, ops, X, Y, *given, columns)
        columns = self._likelihood.columns(columns)
        if not self.has_variance:
            columns[1:3] = np.nan
        if prior is not None:  # [huber2013] Eq. (13): m(X_t) + J (mu - m(X))
            columns[0] += prior
            if self._linear is not None and len(columns) > 3:
                columns[self._columns.index("components.mean.mean")] += prior
        return columns

    def _prior_mean(self, X: FloatArray) -> Maybe:
        """What the model says of rows before any data; None: 0."""
        return None if self._mean is None else prior_mean.values(self._mean, X, self._p or 1)

    def _cannot(self, what: Ability, p: int = 1) -> str:
        if what == "forget":
            return super()._cannot(what) if self._least_squares or self._keeps_rows else ""
        if what == "simulate":
            if not math.isnan(self._likelihood.noise_ratio):
                return ""
            return (
                "simulate and forecast feed a model with numbers that it draws itself, which they cannot with "
                f"likelihood={self._likelihood!r}; use a model of its own for each step ahead"
            )
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

    def _refuse_times(self, time: FloatArray | None, learned: np.ndarray | None, many: bool) -> None:
        if self._terms and time is not None:
            now = np.nan if self._d is None else self._state.clock[LEARNED, 0]
            refuse_past(time, now, many=many, follow=learned is not None)
        if learned is None or not self._forgetting.half_life or not learned.any():
            return
        if time is None:
            raise ValueError(
                f"{type(self).__name__} has a half_life, so it forgets by the time between rows, and every learned row "
                "needs its own: learn_one(x, y, time=t), learn_many(X, Y, time=times). To forget by rows use "
                "forgetting= in place of half_life="
            )
        newest = -np.inf if self._d is None else np.fmax.reduce(self._state.clock[0], initial=-np.inf)
        rows, given = np.flatnonzero(learned), time[learned]
        before = np.concatenate([[newest], given[:-1]])
        for at in np.flatnonzero(~np.isfinite(given) | (given < before)):
            where = f" in row {rows[at]}" if many else ""
            if not np.isfinite(given[at]):
                raise ValueError(
                    f"time is missing or not finite{where}, but this model forgets by it; nothing was learned. Give "
                    "the row its time, or make its target missing"
                )
            raise ValueError(
                f"time goes backwards{where}: {given[at]:.15g} after {before[at]:.15g}; nothing was learned. Sort the "
                "rows by time, or give a row that comes late the time at which it comes"
            )

    @property
    def _has_components(self) -> bool:
        return bool(self._beside) and self._likelihood.kind == observation.GAUSSIAN

    @property
    def _columns(self) -> tuple[str, ...]:  # type: ignore[override]
        if self._direct:
            return NUMBERS
        names = ("inputs", *(term.name for term in self._beside)) if self._has_components else ()
        return self._likelihood.names + tuple(f"components.{name}.{part}" for name in names for part in NUMBERS[:2])

    def _told(self, columns: Sequence[Any]) -> Prediction:
        if self._direct:
            return Prediction(*columns)
        if len(columns) == len(self._likelihood.names):
            return self._likelihood.predicted(columns)
        names = "inputs", *(term.name for term in self._beside)
        parts = zip(names, columns[3::2], columns[4::2], strict=True)
        named = {name: Prediction(mean, variance, 0.0 * variance) for name, mean, variance in parts}
        mean, variance, noise = columns[:3]
        return TimePrediction(mean, variance, noise, named)

    def _analysis(self) -> Function:
        return Function(self)

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        x, above = super()._last_row()
        prior = self._prior_mean(x[None])
        return x, above if prior is None else above + prior[0]

    def forget(self, factor: float) -> None:
        number("factor", factor, above=0, at_most=1)
        if why := self._cannot("forget"):
            raise ValueError(why)
        if self._d is None or factor == 1:
            return
        rare.forget(self._numbers, factor)

    forget.__doc__ = CompiledModel.forget.__doc__

    # What can be read.

    @property
    def size(self) -> int:
        if self._d is None:
            return 0 if self._features.points is None else len(self._features.points)
        return rare.weights_in_use(self._numbers)

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
            kernel: Kernel = self._settings["time"]
            named |= {f"time.{name}": value for name, value in kernel.hyperparameters(kernel.values(1), 1).items()}
        return named

    @property
    def mean_weights(self) -> Weights:
        """What is known of the weights of ``mean=LinearMean(...)``: their names, means and covariance."""
        if self._linear is None:
            raise ValueError("this model has no weights in its mean: build it with mean=LinearMean(...)")
        if self._d is None:
            raise ValueError("the weights of the mean are known once the first row has come")
        linear, function, d = self._linear, Function(self), self._d
        last, scales = self._numbers.plan["temporal"][0], linear.scales(d)
        first = last - len(scales)
        mean = linear.start(d) + scales[:, None] * function.mu[first:last]
        covariance = function.power[:, None, None] * function.S[:, first:last, first:last] * np.outer(scales, scales)
        mean, covariance = (
            mean[:, 0] if self._shape.scalar else mean,
            covariance if len(covariance) > 1 else covariance[0],
        )
        return Weights(list(linear.labels(d)), mean, covariance)

    def relevance(self) -> Relevance:
        if self._features.kind == LINEAR:
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


def _plain(values: FloatArray) -> float | FloatArray:
    return float(values[0]) if values.size == 1 else values.copy()
