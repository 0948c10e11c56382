"""OnlineGP: the model that wires the parts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamgp import features as feature_kinds
from streamgp import inputs
from streamgp.adapt.sngd import SNGD
from streamgp.budget import DISCARD, DTC, ERROR, NEVER, OLDEST, Budget
from streamgp.compiled import INTEGERS, MATRIX, VECTOR, compile_now
from streamgp.core import layout, stream
from streamgp.core.fade import fade
from streamgp.features import Basis, Features, Fourier
from streamgp.forgetting import Forgetting, NoForgetting
from streamgp.linalg import triangular
from streamgp.memory import Memory, Window
from streamgp.model import Change, Health, MemoryModel, Relevance
from streamgp.prediction import Prediction
from streamgp.settings import FloatArray, choice, number, positive_vector

REBUILD = 1
TRACE_LENGTH = 512
OUTPUTS = ("shared", "separate")
FORMS = ("covariance", "cholesky")


class OnlineGP(MemoryModel):
    """A Gaussian process learnt from a stream, put together from parts.

    Args:
        features: Basis(kernel), Fourier(...) or Linear(...).
        memory: Window(depth) or Reservoir(...); None: no memory.
        noise: variance of the observation noise; one for each output with outputs="separate".
        budget: capacity, novelty, absorption and eviction of a growing Basis; None: Budget().
        forgetting: BackToPrior(factor) or Injection(factor); None: nothing is forgotten.
        adapt: SNGD() keeps learning the hyperparameters; None: they stay.
        outputs: "shared" (one covariance for all outputs) or "separate" (one for each; any target may be missing).
        form: "covariance", or "cholesky" (information form, for features with a fixed number of weights).

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> model = sg.OnlineGP(sg.Basis(sg.Matern(2.5, 2.0)), memory=sg.Window(2), noise=0.01)
        >>> x = np.linspace(0.0, 6.0, 200)
        >>> p = model.track(x[:-1], np.sin(x[1:]))
        >>> p.mean.shape, model.size < 100
        ((199,), True)
    """

    def __init__(
        self,
        features: Features,
        memory: Memory | None = None,
        noise: float | list[float] | FloatArray = 0.01,
        budget: Budget | None = None,
        forgetting: Forgetting | None = None,
        adapt: SNGD | None = None,
        outputs: str = "shared",
        form: str = "covariance",
    ) -> None:
        self._compose(features, memory, noise, budget, forgetting, adapt, outputs, form)

    _batch = 1
    _estimate_power = False
    _direct = True  # predictions are what compiled code says, with nothing to add
    _integers: np.ndarray  # counters, then plan
    _plan: np.ndarray
    _floats: FloatArray  # state, then work space
    _state: layout.State

    def _compose(
        self,
        features: Features,
        memory: Memory | None,
        noise: Any,
        budget: Budget | None = None,
        forgetting: Forgetting | None = None,
        adapt: SNGD | None = None,
        outputs: str = "shared",
        form: str = "covariance",
    ) -> None:
        """Check the parts against each other and compile the layout."""
        self._features = _part("features", features, Features, "Basis(kernel), Fourier(...) or Linear(...)")
        self._memory = Window(1) if memory is None else _part("memory", memory, Memory, "Window(3) or Reservoir(50)")
        self._budget = Budget() if budget is None else _part("budget", budget, Budget, "Budget(capacity=100)")
        self._forgetting = (
            NoForgetting()
            if forgetting is None
            else _part("forgetting", forgetting, Forgetting, "BackToPrior(0.999) or Injection(0.999)")
        )
        self._shared = choice("outputs", outputs, OUTPUTS) == 0
        growing = self._features.kind == feature_kinds.DICTIONARY
        least_squares = growing and np.ndim(noise) == 0 and noise == 0
        self._noise = np.zeros(1) if least_squares else positive_vector("noise", noise)
        self._engine = layout.DICTIONARY if growing else layout.WEIGHTED
        if least_squares:
            self._engine = layout.LEAST_SQUARES
            self._check_least_squares()
        elif growing and self._budget.removal == DISCARD:
            self._engine = layout.KEPT
            self._check_kept()
        if self._shared and self._noise.size != 1:
            raise ValueError(
                f"noise has {self._noise.size} values, but the outputs share one covariance; "
                'give one value, or outputs="separate"'
            )
        self._factored = choice("form", form, FORMS) == 1
        if self._factored and growing:
            raise ValueError(
                'form="cholesky" needs a fixed number of weights: Fourier, Linear, or a Basis on given points; '
                'use form="covariance" with a basis that grows'
            )
        if self._factored and self._forgetting.factor < 1 and self._forgetting.relative_to_prior:
            raise ValueError('form="cholesky" cannot go back to the prior; use Injection(...) or form="covariance"')
        self._adapt = None if adapt is None else _part("adapt", adapt, SNGD, "SNGD(interval=25)")
        if self._adapt is not None:
            self._check_adaptable(self._adapt)
        compile_now(stream.run, INTEGERS, VECTOR, MATRIX, MATRIX, MATRIX)
        compile_now(stream.predict, INTEGERS, VECTOR, MATRIX, MATRIX)

    def _check_adaptable(self, adapt: SNGD) -> None:
        if self._engine not in (layout.DICTIONARY, layout.WEIGHTED) or self._features.kind == feature_kinds.LINEAR:
            raise ValueError("adapt works on a posterior over a Basis or Fourier features; this model has another")
        if self._batch > 1:
            raise ValueError("adapt learns from each next row: use batch=1, or adapt=None")
        if self._factored and self._features.kind == feature_kinds.POINTS:
            raise ValueError('adapt needs form="covariance" with given basis points')
        if adapt.on_move == REBUILD and self._engine != layout.DICTIONARY:
            raise ValueError('on_move="rebuild" needs basis points with targets of their own; use on_move="rebase"')

    def _check_least_squares(self) -> None:
        budget = self._budget
        if budget.evict != NEVER or budget.absorb != DTC or not self._shared or self._forgetting.factor < 1:
            raise ValueError(
                "noise=0 is least squares on a dictionary that only grows, as in KRLS(noise=0): it needs "
                'Budget(absorb="dtc", evict="never"), shared outputs and no forgetting; otherwise give a noise above 0'
            )

    def _check_kept(self) -> None:
        budget = self._budget
        if budget.evict not in (ERROR, OLDEST) or budget.novelty > 0 or self._forgetting.factor < 1 or not self._shared:
            raise ValueError(
                'removal="discard" keeps the exact GP on some rows: it needs evict="oldest" or "error", novelty=0, '
                "shared outputs and no forgetting"
            )

    # The state.

    def _start(self, d: int, p: int) -> None:
        parts, memory = self._features, self._memory
        q = 1 if self._shared else p
        if not self._shared and self._noise.size not in (1, p):
            raise ValueError(f"noise has {self._noise.size} values, but there are {p} outputs; give 1 or {p}")
        width = memory.width(d)
        plan = np.zeros(layout.PLAN_SIZE, dtype=np.int64)
        kernel_scratch = 0
        if parts.kernel is not None:
            program = parts.kernel.program(width, memory.depth)
            parameters = program.parameters
            plan = np.concatenate([plan, program.operations.ravel()])
            plan[layout.STEPS] = len(program.operations)
        else:
            parameters = np.array([parts.variance]) if isinstance(parts, Fourier) else np.zeros(0)
        if parts.kind == feature_kinds.DICTIONARY:
            weights = points = self._budget.capacity + 1
        elif parts.points is not None:
            weights = points = len(parts.points)
            if parts.points.shape[1] != width:
                raise ValueError(f"the basis points have {parts.points.shape[1]} columns, but the inputs have {width}")
        else:
            points = 0
            weights = 2 * parts.features if isinstance(parts, Fourier) else width + int(parts.constant)
        if parts.kernel is not None:
            kernel_scratch = program.scratch(max(points, 1), width)
        relative = self._forgetting.relative_to_prior
        for index, value in (
            (layout.INPUTS, d),
            (layout.OUTPUTS, p),
            (layout.COVARIANCES, q),
            (layout.DEPTH, memory.depth),
            (layout.UNITS, memory.units),
            (layout.FEEDBACK, memory.feeds_back),
            (layout.WIDTH, width),
            (layout.ENGINE, self._engine),
            (layout.FEATURES, parts.kind),
            (layout.POINTS, points),
            (layout.FREQUENCIES, parts.features if isinstance(parts, Fourier) else 0),
            (layout.WEIGHTS, weights),
            (layout.MATRICES, 0 if self._engine == layout.KEPT else q),
            (layout.BATCH, self._batch),
            (layout.CAPACITY, self._budget.capacity),
            (layout.FACTORED, self._factored),
            (layout.RELATIVE, relative),
            (layout.ABSORB, self._budget.absorb),
            (layout.EVICT, self._budget.evict),
            (layout.REMOVAL, self._budget.removal),
            (layout.UNTESTED, self._budget.admit_untested),
            (layout.CHECK_EVERY, self._rows_between_checks()),
            (layout.POWER, self._estimate_power),
            (layout.THETA, 0 if self._adapt is None else parameters.size + q),
            (layout.TRACE, 0 if self._adapt is None else TRACE_LENGTH),
            (layout.PARAMETERS, parameters.size),
        ):
            plan[index] = value
        if self._adapt is not None:
            plan[layout.INTERVAL], plan[layout.REST] = self._adapt.interval, self._adapt.rest
            plan[layout.PER_ROW], plan[layout.PATIENCE] = self._adapt.parameters_per_row, self._adapt.patience
            plan[layout.REBUILD] = self._adapt.on_move == REBUILD
        plan[layout.STATE_SIZE] = layout.float_size(plan)
        floats = np.zeros(plan[layout.STATE_SIZE] + layout.work_size(plan, kernel_scratch))
        integers = np.concatenate([np.zeros(layout.COUNTERS_SIZE, dtype=np.int64), plan])
        counters, plan = integers[: layout.COUNTERS_SIZE], integers[layout.COUNTERS_SIZE :]
        counters[layout.EVICTED] = -1
        state = layout.state_of(plan, floats)
        prior = 1.0 / parts.delta
        state.scalars[layout.JITTER] = parts.jitter
        state.scalars[layout.NOVELTY] = self._budget.novelty
        state.scalars[layout.COVARIANCE_SCALE] = self._forgetting.covariance_scale
        state.scalars[layout.MEAN_SCALE] = self._forgetting.mean_scale
        state.scalars[layout.RETENTION] = memory.retention
        state.scalars[layout.PRIOR] = prior
        if self._adapt is not None:
            state.scalars[layout.RATE], state.scalars[layout.DECAY] = self._adapt.rate, self._adapt.decay
            state.scalars[layout.CLIP], state.scalars[layout.TOLERANCE] = self._adapt.clip, self._adapt.tolerance
            state.scalars[layout.DAMPING] = self._adapt.damping
            counters[layout.TRACE_STRIDE] = 1
        state.noise[:] = self._noise
        state.parameters[:] = parameters
        self._place_memory(state, counters, d, p)
        if isinstance(parts, Fourier):
            state.frequencies[:] = parts.frequencies(width, memory.depth)
        if parts.points is not None:
            counters[layout.SIZE] = points
            _place_points(parts, state, memory.depth)
        if parts.kind != feature_kinds.DICTIONARY:
            diagonal = np.einsum("jii->ji", state.covariance)
            if self._factored:
                diagonal[:] = np.sqrt(state.noise / prior)[:, None]
            elif not relative:
                diagonal[:] = prior
        self._integers, self._floats = integers, floats
        self._plan, self._counters, self._state = plan, counters, state
        self._no_targets, self._no_predictions = np.empty((0, p)), np.empty((p + 2 * q, 0))
        self._one_prediction = np.empty((p + 2 * q, 1))

    def _rows_between_checks(self) -> int:
        """After how many rows injection may have doubled the covariance: then it is compared with the prior's."""
        if self._forgetting.relative_to_prior or self._forgetting.factor == 1.0:
            return 0
        return max(1, int(np.log(0.5) / np.log(self._forgetting.factor)))

    def _advance(self, X: FloatArray, Y: FloatArray | None, report: bool) -> Prediction | None:
        out = np.empty((len(self._no_predictions), len(X))) if report else self._no_predictions
        targets = self._no_targets if Y is None else Y
        status, at = stream.run(self._integers, self._floats, X, targets, out)
        if status:
            inputs.refuse(status, at, many=len(X) > 1)
        return self._prediction(out) if report else None

    def _foresee(self, X: FloatArray) -> Prediction:
        out = np.empty((len(self._no_predictions), len(X)))
        status, at = stream.predict(self._integers, self._floats, X, out)
        if status:
            inputs.refuse(status, at, many=len(X) > 1)
        return self._prediction(out)

    def predict_one(self, x: Any) -> Prediction:
        if self._d is None or not (self._scalar and self._direct):
            return super().predict_one(x)
        X = inputs.row(x, self._d)  # the usual case without arrays in between
        out = self._one_prediction
        status, at = stream.predict(self._integers, self._floats, X, out)
        if status:
            inputs.refuse(status, at, many=False)
        mean, variance, noise = out[:, 0].tolist()
        return Prediction(mean, variance, noise) if self.has_variance else Prediction(mean, math.nan, math.nan)

    predict_one.__doc__ = MemoryModel.predict_one.__doc__

    def _prediction(self, out: FloatArray) -> Prediction:
        """The rows that compiled code filled: means, variances, noises; of a model without a variance the means."""
        p = self._no_targets.shape[1]
        q = (len(out) - p) // 2
        if not self.has_variance:
            out[p:] = np.nan
        return Prediction(out[:p].T, out[p : p + q].T, out[p + q :].T)

    def _check_restored(self) -> None:
        size = int(self._counters[layout.SIZE])
        growing = self._features.kind == feature_kinds.DICTIONARY
        most = self._budget.capacity if growing else int(self._plan[layout.POINTS])
        if not (0 if growing else most) <= size <= most:
            raise ValueError(f"the snapshot says {size} basis points, the model has room for {most}")
        points, stride = (int(self._counters[i]) for i in (layout.TRACE_SIZE, layout.TRACE_STRIDE))
        if not 0 <= points <= int(self._plan[layout.TRACE]) or (self._adapt is not None and stride < 1):
            raise ValueError(f"the snapshot says a trace of {points} points, every {stride} rows")

    def forget(self, factor: float) -> None:
        number("factor", factor, above=0, at_most=1)
        if why := self._why_unforgetting():
            raise ValueError(why)
        if self._d is not None and factor < 1:
            fade(self._plan, int(self._counters[layout.SIZE]), self._state, factor)

    forget.__doc__ = MemoryModel.forget.__doc__

    def _why_unforgetting(self) -> str:
        if self._engine in (layout.DICTIONARY, layout.WEIGHTED):
            return ""
        return super()._why_unforgetting()

    # What can be read.

    @property
    def size(self) -> int:
        if self._d is None:
            return 0 if self._features.points is None else len(self._features.points)
        if self._plan[layout.POINTS] == 0:
            return int(self._plan[layout.WEIGHTS])
        return int(self._counters[layout.SIZE])

    @property
    def basis(self) -> FloatArray:
        if self._d is None:
            return np.empty((0, 0)) if self._features.points is None else self._features.points.copy()
        return self._state.basis[: self._counters[layout.SIZE]].copy()

    @property
    def hyperparameters(self) -> dict[str, float | FloatArray]:
        # Before the first row only those that do not depend on its width.
        noise = self._noise if self._d is None else self._state.noise
        named: dict[str, float | FloatArray] = {}
        parts = self._features
        if parts.kernel is not None and self._d is not None:
            width = int(self._plan[layout.WIDTH])
            named |= parts.kernel.hyperparameters(self._state.parameters, width, self._memory.depth)
        elif isinstance(parts, Fourier):
            named["variance"] = parts.variance if self._d is None else float(self._state.parameters[0])
        named["noise"] = _plain(noise)
        if isinstance(parts, Fourier) and parts.lengthscale is not None:
            named["lengthscale"] = _plain(parts.lengthscale)  # fixed: it is in the frequencies
        return named

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
            weights, steps = self._features.kernel.relevance(
                self._state.parameters, int(self._plan[layout.WIDTH]), memory.depth
            )
        # The inputs' own columns, summed over the lags of a window; a reservoir's units are not inputs.
        own = weights[memory.units :] if memory.augment else np.ones(d)
        total = own.reshape(-1, d).sum(0)
        return Relevance(total / total.sum(), steps)

    @property
    def health(self) -> Health:
        if self._d is None:
            return Health()
        c = self._counters
        return Health(
            int(c[layout.FLOORED_PIVOTS]),
            int(c[layout.CAPPED_DIRECTIONS]),
            int(c[layout.NEGATIVE_VARIANCES]),
            int(c[layout.RESTORED_DIRECTIONS]),
            int(c[layout.REDUCED_STEPS]),
        )

    @property
    def trace(self) -> dict[str, FloatArray]:
        """The path of every hyperparameter and of the running log density, thinned to a fixed length; by row."""
        if self._adapt is None:
            raise ValueError("this model does not adapt its hyperparameters: build it with adapt=SNGD()")
        if self._d is None:
            return {"row": np.empty(0), "log_density": np.empty(0)}
        held = self._state.adapt.trace[: self._counters[layout.TRACE_SIZE]].copy()
        named = {"row": held[:, 0], "log_density": held[:, 1]}
        first = 2
        for name, value in self.hyperparameters.items():
            size = np.size(value)
            if first + size > held.shape[1]:
                break  # a lengthscale in fixed frequencies has no path
            named[name] = held[:, first] if size == 1 else held[:, first : first + size]
            first += size
        return named

    @property
    def last_change(self) -> Change:
        if self._d is None:
            return Change()
        change = int(self._counters[layout.CHANGE])
        return Change(
            absorbed=change == layout.ABSORBED,
            admitted=change in (layout.ADMITTED, layout.REPLACED),
            evicted=int(self._counters[layout.EVICTED]),
        )


def _part(name: str, value: Any, kind: type, example: str) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be, for example, {example}; got {value!r}")
    return value


def _plain(values: FloatArray) -> float | FloatArray:
    return float(values[0]) if values.size == 1 else values.copy()


def _place_points(parts: Features, state: layout.State, depth: int) -> None:
    """Put the given points into the state, with the factor of their covariance."""
    assert isinstance(parts, Basis)
    assert parts.points is not None
    assert parts.kernel is not None
    points = parts.points if depth == 1 else parts.points.reshape(len(parts.points), depth, -1)
    K = parts.kernel(points) + parts.jitter * np.eye(len(points))
    state.basis[:] = parts.points
    try:
        state.factor[:] = np.linalg.cholesky(K).T
    except np.linalg.LinAlgError:
        raise ValueError(
            "the basis points are too close together for this kernel: their covariance is not positive definite. "
            "Use fewer points, a shorter lengthscale, or jitter=1e-6."
        ) from None
    inverse = np.empty(len(K))
    for i in range(len(K)):
        triangular.inverse_column(state.factor, i, len(K), inverse)
        state.inverse_diagonal[i] = inverse[i]
