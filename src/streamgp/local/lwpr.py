"""LWPR: locally weighted projection regression. Linear models in receptive fields that come, adapt and go."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamgp import inputs, memory
from streamgp.compiled import INTEGERS, MATRIX, VECTOR, borrowed, compile_now, compiled
from streamgp.core import stream
from streamgp.linalg import vector
from streamgp.local import receptive_field as rf
from streamgp.local.receptive_field import Scratch
from streamgp.memory import MemoryState, Window, memory_at, memory_size
from streamgp.model import Change, MemoryModel
from streamgp.prediction import Prediction
from streamgp.settings import FloatArray, number, positive_vector, real_matrix, whole

Array = NDArray

# What a model is: integers fixed when the first row arrives.
INPUTS, OUTPUTS, DEPTH, WIDTH, CAPACITY, PROJECTIONS, METRIC, META, UPDATE_D, PLAN_SIZE = range(10)

# What changes: integer state. Behind these follow, for each output, FIELDS and LEARNT, and for each of its fields
# DIRECTIONS, TRUSTED and LAST_ACTIVE.
ROWS_SEEN, CHANGE, EVICTED, COUNTERS_SIZE = range(4)
FIELDS, LEARNT, OUTPUT_COUNTERS = range(3)
DIRECTIONS, TRUSTED, LAST_ACTIVE, FIELD_COUNTERS = range(4)

# Kinds of last change; both can be.
ABSORBED, ADMITTED = 1, 2

# A new field takes over the metric of one whose activation there is above this part of w_gen.
NEARLY_ACTIVE = 0.1


class LWPR(MemoryModel):
    """Locally weighted projection regression [vijayakumar2005], with the rules of its C library [klanke2008].

    Linear models in receptive fields w = exp(-1/2 (x - c)'D(x - c)), each a regression on a few directions found by
    partial least squares; a field is created where no other is active, and its metric D descends the leave-one-out
    error. The mean is the average over the active fields. ``variance`` is the square of the library's confidence
    bound, which counts the noise, so ``noise`` is 0; it is inf where no field can speak.

    Args:
        init_D: distance metric of a new field, in 1 / squared normalised input units: a number, (d,) or (d, d).
        init_alpha: learning rate of the metric: a number or, one for each entry, (d, d).
        w_gen: a field is created where no activation exceeds this.
        w_prune: of two fields that are both more active than this the wider one leaves; 1: none does.
        penalty: weight of sum D^2 in the cost of the metric; more makes wider fields.
        meta: adapt the learning rates too.
        meta_rate: rate of that.
        diag_only: keep the metrics diagonal.
        capacity: most fields of each output; when full, a new field takes the place of the one inactive for longest.
        init_lambda: forgetting factor of a new field, in (0, 1].
        tau_lambda: how slowly it turns into final_lambda, in [0, 1].
        final_lambda: forgetting factor of an old field, in (0, 1].
        init_S2: variance that a projection has before any data, in squared normalised input units.
        add_threshold: a direction is added when the newest brought the squared error below this part of the former.
        update_D: adapt the metrics.
        norm_in: what the inputs are divided by, (d,), in their units; None: 1.
        norm_out: what the targets are divided by, (p,), in their units; None: 1.
        max_projections: most directions of a field; None: d.
        cutoff: fields less active than this neither learn nor predict.
        depth: inputs in the window, the present one included; 1 is no memory.

    Example:
        >>> import numpy as np
        >>> from streamgp.local import LWPR
        >>> model = LWPR(init_D=50.0, init_alpha=250.0, w_gen=0.2)
        >>> X = np.random.default_rng(0).uniform(-1.0, 1.0, (2000, 1))
        >>> model.learn_many(X, np.sin(3.0 * X[:, 0]))
        >>> bool(abs(model.predict_one(0.3).mean - np.sin(0.9)) < 0.1)
        True
    """

    _shared = False  # one sub-model for each output: any target may be missing

    _plan: np.ndarray
    _counters: np.ndarray
    _floats: FloatArray
    _numbers: FloatArray
    _work: FloatArray

    def __init__(
        self,
        init_D: Any = 25.0,
        init_alpha: Any = 50.0,
        w_gen: float = 0.1,
        w_prune: float = 1.0,
        penalty: float = 1e-6,
        meta: bool = False,
        meta_rate: float = 250.0,
        diag_only: bool = True,
        capacity: int = 1000,
        init_lambda: float = 0.999,
        tau_lambda: float = 0.9999,
        final_lambda: float = 0.99999,
        init_S2: float = 1e-10,
        add_threshold: float = 0.5,
        update_D: bool = True,
        norm_in: Any = None,
        norm_out: Any = None,
        max_projections: int | None = None,
        cutoff: float = 0.001,
        depth: int = 1,
    ) -> None:
        self._init_D = positive_or_matrix("init_D", init_D)
        self._init_alpha = positive_or_matrix("init_alpha", init_alpha)
        vector_given = self._init_alpha.ndim == 1 and self._init_alpha.size > 1
        if vector_given or np.any(self._init_alpha <= 0):
            raise ValueError(f"init_alpha must be a positive number or a (d, d) matrix of them; got {init_alpha!r}")
        settings = np.zeros(rf.SETTINGS)
        settings[rf.W_GEN] = number("w_gen", w_gen, above=0, at_most=1)
        settings[rf.W_PRUNE] = number("w_prune", w_prune, above=float(settings[rf.W_GEN]), at_most=1)
        settings[rf.PENALTY] = number("penalty", penalty, at_least=0)
        settings[rf.META_RATE] = number("meta_rate", meta_rate, at_least=0)
        settings[rf.INIT_LAMBDA] = number("init_lambda", init_lambda, above=0, at_most=1)
        settings[rf.TAU_LAMBDA] = number("tau_lambda", tau_lambda, at_least=0, at_most=1)
        settings[rf.FINAL_LAMBDA] = number("final_lambda", final_lambda, above=0, at_most=1)
        settings[rf.INIT_S2] = number("init_S2", init_S2, above=0)
        settings[rf.ADD_THRESHOLD] = number("add_threshold", add_threshold, at_least=0)
        settings[rf.CUTOFF] = number("cutoff", cutoff, at_least=0, at_most=float(settings[rf.W_GEN]))
        # The squared distance beyond which no rule asks how active a field is.
        least = min(settings[rf.CUTOFF], NEARLY_ACTIVE * settings[rf.W_GEN])
        settings[rf.HORIZON] = -2.0 * np.log(least) if least > 0 else np.inf
        self._rules = settings
        self._meta, self._diagonal, self._update_D = bool(meta), bool(diag_only), bool(update_D)
        self._capacity = whole("capacity", capacity)
        self._norm_in = None if norm_in is None else positive_vector("norm_in", norm_in)
        self._norm_out = None if norm_out is None else positive_vector("norm_out", norm_out)
        self._max_projections = None if max_projections is None else whole("max_projections", max_projections)
        self._memory = Window(depth)
        compile_now(run, INTEGERS, INTEGERS, VECTOR, VECTOR, VECTOR, MATRIX, MATRIX, MATRIX, MATRIX)
        compile_now(predict, INTEGERS, INTEGERS, VECTOR, VECTOR, VECTOR, MATRIX, MATRIX, MATRIX)

    # The state.

    def _start(self, d: int, p: int) -> None:
        width = self._memory.width(d)
        D = filled_matrix("init_D", self._init_D, width)
        if self._diagonal and np.any(np.diag(np.diag(D)) != D):
            raise ValueError("init_D has entries off its diagonal, but the metrics are diagonal; use diag_only=False")
        try:
            M = np.linalg.cholesky(D).T
        except np.linalg.LinAlgError:
            raise ValueError(f"init_D must be positive definite; got {self._init_D!r}") from None
        alpha = np.full((width, width), self._init_alpha[0]) if self._init_alpha.ndim == 1 else self._init_alpha
        if alpha.shape != M.shape:
            raise ValueError(f"init_alpha has shape {alpha.shape}, but the inputs have {width} columns: give {M.shape}")
        entries = np.diag_indices(width) if self._diagonal else np.triu_indices(width)
        plan = np.zeros(PLAN_SIZE, dtype=np.int64)
        for index, value in (
            (INPUTS, d),
            (OUTPUTS, p),
            (DEPTH, self._memory.depth),
            (WIDTH, width),
            (CAPACITY, self._capacity),
            (PROJECTIONS, min(width, self._max_projections or width)),
            (METRIC, len(entries[0])),
            (META, self._meta),
            (UPDATE_D, self._update_D),
        ):
            plan[index] = value
        norm_in = spread("norm_in", self._norm_in, d, "inputs")
        norm_out = spread("norm_out", self._norm_out, p, "outputs")
        numbers = np.concatenate(
            [self._rules, np.tile(norm_in, self._memory.depth), norm_out, M[entries], alpha[entries]]
        )
        per_output = OUTPUT_COUNTERS + FIELD_COUNTERS * self._capacity
        counters = np.zeros(COUNTERS_SIZE + p * per_output, dtype=np.int64)
        counters[EVICTED] = -1
        floats = np.zeros(float_size(plan))
        state = state_of(plan, floats)
        self._place_memory(state, counters, d, p)
        self._state = state
        self._plan, self._counters, self._floats, self._numbers = plan, counters, floats, numbers
        self._work = np.zeros(work_size(plan))
        self._nothing = np.empty((0, p))

    def _advance(self, X: FloatArray, Y: FloatArray | None, report: bool) -> Prediction | None:
        nothing = self._nothing
        mean, variance = (np.empty((len(X), nothing.shape[1])) for _ in range(2)) if report else (nothing, nothing)
        targets = nothing if Y is None else Y
        status, at = run(
            self._plan, self._counters, self._floats, self._numbers, self._work, X, targets, mean, variance
        )
        if status:
            inputs.refuse(status, at, many=len(X) > 1)
        return Prediction(mean, variance, np.zeros_like(mean)) if report else None

    def _foresee(self, X: FloatArray) -> Prediction:
        mean, variance = (np.empty((len(X), self._nothing.shape[1])) for _ in range(2))
        status, at = predict(self._plan, self._counters, self._floats, self._numbers, self._work, X, mean, variance)
        if status:
            inputs.refuse(status, at, many=len(X) > 1)
        return Prediction(mean, variance, np.zeros_like(mean))

    def _check_restored(self) -> None:
        sizes, fields = counts_of(self._plan, self._counters)
        if np.any(sizes[:, FIELDS] < 0) or np.any(sizes[:, FIELDS] > self._capacity):
            raise ValueError(
                f"the snapshot says {sizes[:, FIELDS].tolist()} fields, there is room for {self._capacity}"
            )
        for j, size in enumerate(sizes[:, FIELDS]):
            directions = fields[j, :size, DIRECTIONS]
            if np.any(directions < 1) or np.any(directions > self._plan[PROJECTIONS]):
                raise ValueError(f"the snapshot has fields of {int(directions.max())} directions")

    # What can be read.

    @property
    def size(self) -> int:
        """Receptive fields in use, of all outputs together."""
        return 0 if self._d is None else int(counts_of(self._plan, self._counters)[0][:, FIELDS].sum())

    @property
    def basis(self) -> FloatArray:
        """The centres of the fields in the units of the inputs, one output after the other."""
        if self._d is None:
            return np.empty((0, 0))
        state, sizes = self._state, counts_of(self._plan, self._counters)[0]
        centres = np.concatenate([state.centres[j, :size] for j, size in enumerate(sizes[:, FIELDS])])
        return np.asarray(centres * rules_of(self._plan, self._numbers).norm_in)

    @property
    def metrics(self) -> FloatArray:
        """The distance metrics D of the fields, (size, d, d), in the order of ``basis``, of normalised inputs."""
        if self._d is None:
            return np.empty((0, 0, 0))
        state, sizes = self._state, counts_of(self._plan, self._counters)[0]
        width = int(self._plan[WIDTH])
        M = np.zeros((self.size, width, width))
        entries = np.diag_indices(width) if self._diagonal else np.triu_indices(width)
        M[:, entries[0], entries[1]] = np.concatenate(
            [state.metrics[j, :size] for j, size in enumerate(sizes[:, FIELDS])]
        )
        return np.asarray(M.transpose(0, 2, 1) @ M)

    @property
    def hyperparameters(self) -> dict[str, float | FloatArray]:
        named: dict[str, float | FloatArray] = {
            name: float(values[0]) if values.size == 1 else values.copy()
            for name, values in (("init_D", self._init_D), ("init_alpha", self._init_alpha))
        }
        return named | {"penalty": float(self._rules[rf.PENALTY])}

    @property
    def last_change(self) -> Change:
        """Whether fields learnt the last row (absorbed), one was created (admitted) or left (its index, -1: none)."""
        if self._d is None:
            return Change()
        change = int(self._counters[CHANGE])
        return Change(bool(change & ABSORBED), bool(change & ADMITTED), int(self._counters[EVICTED]))


def positive_or_matrix(name: str, value: Any) -> FloatArray:
    """A positive number or vector, or a square matrix."""
    if np.ndim(value) == 2:
        matrix = real_matrix(name, value, "(d, d)")
        if matrix.shape[0] != matrix.shape[1] or not np.array_equal(matrix, matrix.T):
            raise ValueError(f"{name} must be a symmetric (d, d) matrix; got one of shape {matrix.shape}")
        return matrix
    return positive_vector(name, value)


def filled_matrix(name: str, value: FloatArray, width: int) -> FloatArray:
    """The (width, width) matrix of a number, a diagonal or a matrix."""
    if value.ndim == 1 and value.size in (1, width):
        return np.diag(np.resize(value, width))
    if value.shape != (width, width):
        raise ValueError(
            f"{name} has shape {value.shape}, but the inputs have {width} columns; "
            f"give a number, {width} numbers or a ({width}, {width}) matrix"
        )
    return value


def spread(name: str, value: FloatArray | None, n: int, what: str) -> FloatArray:
    """One value for each column."""
    if value is None:
        return np.ones(n)
    if value.size not in (1, n):
        raise ValueError(f"{name} has {value.size} values, but there are {n} {what}; give 1 or {n}")
    return np.resize(value, n)


class State(NamedTuple):
    """Everything a model knows, as views of its float array."""

    memory: MemoryState
    centres: Array  # (outputs, capacity, width)
    metrics: Array  # (outputs, capacity, m)
    records: Array  # (outputs, capacity, rf.record_size)


class Rules(NamedTuple):
    """The settings, as views of one array."""

    settings: Array  # (rf.SETTINGS,)
    norm_in: Array  # (width,)
    norm_out: Array  # (outputs,)
    metric: Array  # (m,)
    rates: Array  # (m,)


@compiled
def state_of(plan: Array, floats: Array) -> State:
    p, width, capacity = plan[OUTPUTS], plan[WIDTH], plan[CAPACITY]
    m = plan[METRIC]
    length = rf.record_size(width, plan[PROJECTIONS], m, plan[META])
    remembered, o = memory_at(floats, 0, plan[DEPTH], plan[INPUTS], 0, p)
    centres = floats[o : o + p * capacity * width].reshape(p, capacity, width)
    o += p * capacity * width
    metrics = floats[o : o + p * capacity * m].reshape(p, capacity, m)
    o += p * capacity * m
    records = floats[o : o + p * capacity * length].reshape(p, capacity, length)
    return State(remembered, centres, metrics, records)


@compiled
def counts_of(plan: Array, counters: Array) -> tuple[Array, Array]:
    """The counters of the outputs, (outputs, 2), and those of their fields, (outputs, capacity, 3)."""
    p, capacity = plan[OUTPUTS], plan[CAPACITY]
    o = COUNTERS_SIZE + p * OUTPUT_COUNTERS
    outputs = counters[COUNTERS_SIZE:o].reshape(p, OUTPUT_COUNTERS)
    return outputs, counters[o:].reshape(p, capacity, FIELD_COUNTERS)


@compiled
def rules_of(plan: Array, numbers: Array) -> Rules:
    width, p, m = plan[WIDTH], plan[OUTPUTS], plan[METRIC]
    o = rf.SETTINGS
    norm_in = numbers[o : o + width]
    o += width
    norm_out = numbers[o : o + p]
    o += p
    return Rules(numbers[: rf.SETTINGS], norm_in, norm_out, numbers[o : o + m], numbers[o + m : o + 2 * m])


@compiled
def scratch_of(plan: Array, work: Array) -> Scratch:
    d, R, m, p, capacity = plan[WIDTH], plan[PROJECTIONS], plan[METRIC], plan[OUTPUTS], plan[CAPACITY]
    x, x_mz, dx, z = work[:d], work[d : 2 * d], work[2 * d : 3 * d], work[3 * d : 4 * d]
    o = 4 * d
    s, target, e_cv = work[o : o + R], work[o + R : o + 2 * R], work[o + 2 * R : o + 3 * R]
    o += 3 * R
    x_res = work[o : o + R * d].reshape(R, d)
    o += R * d
    D = work[o : o + d * d].reshape(d, d)
    o += d * d
    gradient, curvature = work[o : o + m], work[o + m : o + 2 * m]
    o += 2 * m
    activation = work[o : o + p * capacity].reshape(p, capacity)
    return Scratch(x, x_mz, dx, z, s, target, e_cv, x_res, D, gradient, curvature, activation)


def float_size(plan: Array) -> int:
    """Length of the float state."""
    width, m = int(plan[WIDTH]), int(plan[METRIC])
    field = width + m + rf.record_size(width, int(plan[PROJECTIONS]), m, int(plan[META]))
    p = int(plan[OUTPUTS])
    return memory_size(int(plan[DEPTH]), int(plan[INPUTS]), 0, p) + p * int(plan[CAPACITY]) * field


def work_size(plan: Array) -> int:
    """Length of the work space."""
    d, R, m = int(plan[WIDTH]), int(plan[PROJECTIONS]), int(plan[METRIC])
    return 4 * d + 3 * R + R * d + d * d + 2 * m + int(plan[OUTPUTS]) * int(plan[CAPACITY]) + d


@compiled
def look(plan: Array, state: State, rules: Rules, x: Array, seen: Array, w: Scratch) -> None:
    """What the memory would hand over if x came next, into seen, and normalised into w.x."""
    memory.look(state.memory, 0.0, x, seen)
    for j in range(plan[WIDTH]):
        w.x[j] = seen[j] / rules.norm_in[j]


@compiled
def predict_seen(
    plan: Array, state: State, rules: Rules, j: int, n: int, fields: Array, w: Scratch
) -> tuple[float, float]:
    """Mean and variance of output j at w.x; rf.activate() has been called."""
    cutoff = rules.settings[rf.CUTOFF]
    first = total = shifted = squares = 0.0
    for k in range(n):
        weight = w.activation[j, k]
        if not weight > cutoff or fields[k, TRUSTED] == 0:
            continue
        f = rf.field_of(state.centres[j, k], state.metrics[j, k], state.records[j, k], plan[PROJECTIONS], plan[META])
        y, sigma2 = rf.predict(f, fields[k, DIRECTIONS], weight, w)
        if total == 0.0:
            first = y
        # Sums of differences from the first field's prediction: a common offset does not cancel digits.
        total += weight
        shifted += weight * (y - first)
        squares += weight * (sigma2 + (y - first) * (y - first))
    if total == 0.0:
        return 0.0, np.inf
    shift = shifted / total
    # [vijayakumar2005] predictive variance of the weighted average
    variance = max(squares / total - shift * shift, 0.0) / total
    scale = rules.norm_out[j]
    return scale * (first + shift), scale * scale * variance


@compiled
def learn_seen(
    plan: Array,
    counters: Array,
    state: State,
    rules: Rules,
    j: int,
    y: float,
    outputs: Array,
    fields: Array,
    w: Scratch,
) -> None:
    """Learn the target y of output j at w.x; rf.activate() has been called."""
    n, d = outputs[FIELDS], plan[WIDTH]
    settings = rules.settings
    outputs[LEARNT] += 1
    most = second = 0.0
    most_active = second_active = -1
    for k in range(n):
        weight = w.activation[j, k]
        if weight > most:
            second, second_active = most, most_active
            most, most_active = weight, k
        elif weight > second:
            second, second_active = weight, k
        if weight > settings[rf.CUTOFF]:
            f = rf.field_of(
                state.centres[j, k], state.metrics[j, k], state.records[j, k], plan[PROJECTIONS], plan[META]
            )
            # A field can be trusted once it had seen more than 2 d rows before this one.
            if f.stats[rf.N_DATA, 0] > 2.0 * d:
                fields[k, TRUSTED] = 1
            rf.activate(state.centres[j], state.metrics[j], k, k + 1, settings[rf.HORIZON], w, w.activation[j])
            fields[k, DIRECTIONS] = rf.learn(f, fields[k, DIRECTIONS], y, weight, plan[UPDATE_D], settings, w)
            fields[k, LAST_ACTIVE] = outputs[LEARNT]
            counters[CHANGE] |= ABSORBED
    if most <= settings[rf.W_GEN]:
        create(plan, counters, state, rules, j, y, most, most_active, outputs, fields, w)
    elif second > settings[rf.W_PRUNE]:
        # The trace of D = M'M says how narrow a field is. The wider one leaves, as in the library [klanke2008].
        narrow = vector.dot(state.metrics[j, most_active], state.metrics[j, most_active], plan[METRIC])
        other = vector.dot(state.metrics[j, second_active], state.metrics[j, second_active], plan[METRIC])
        remove(counters, state, j, most_active if narrow < other else second_active, outputs, fields)


@compiled
def create(
    plan: Array,
    counters: Array,
    state: State,
    rules: Rules,
    j: int,
    y: float,
    most: float,
    most_active: int,
    outputs: Array,
    fields: Array,
    w: Scratch,
) -> None:
    """Put a field on w.x; it takes over the metric of a field that is nearly active there and can be trusted."""
    copied = most > NEARLY_ACTIVE * rules.settings[rf.W_GEN] and fields[most_active, TRUSTED] == 1
    if outputs[FIELDS] == plan[CAPACITY]:
        oldest = -1
        for k in range(outputs[FIELDS]):
            if (oldest < 0 or fields[k, LAST_ACTIVE] < fields[oldest, LAST_ACTIVE]) and not (
                copied and k == most_active
            ):
                oldest = k
        if oldest < 0:
            oldest, copied = 0, False
        if most_active == outputs[FIELDS] - 1:  # the last one moves into the gap
            most_active = oldest
        remove(counters, state, j, oldest, outputs, fields)
    n = outputs[FIELDS]
    outputs[FIELDS] += 1
    counters[CHANGE] |= ADMITTED
    f = rf.field_of(state.centres[j, n], state.metrics[j, n], state.records[j, n], plan[PROJECTIONS], plan[META])
    m = plan[METRIC]
    fields[n, DIRECTIONS] = min(2, plan[PROJECTIONS])
    if copied:
        # alpha stands first in a record
        vector.copy(state.metrics[j, most_active], m, f.M)
        vector.copy(state.records[j, most_active], m, f.alpha)
        fields[n, DIRECTIONS] = fields[most_active, DIRECTIONS]
    else:
        vector.copy(rules.metric, m, f.M)
        vector.copy(rules.rates, m, f.alpha)
    fields[n, LAST_ACTIVE] = outputs[LEARNT]
    rf.begin(f, fields[n, DIRECTIONS], w.x, y, rules.settings)


@compiled
def remove(counters: Array, state: State, j: int, k: int, outputs: Array, fields: Array) -> None:
    """Take field k out; the last one takes its place."""
    last = outputs[FIELDS] - 1
    for array in (state.centres, state.metrics, state.records):
        vector.copy(array[j, last], array.shape[2], array[j, k])
        vector.fill(array[j, last], array.shape[2], 0.0)
    for i in range(FIELD_COUNTERS):
        fields[k, i] = fields[last, i]
        fields[last, i] = 0
    outputs[FIELDS] = last
    counters[EVICTED] = k


@compiled
def predict(
    plan: Array, counters: Array, floats: Array, numbers: Array, work: Array, X: Array, mean: Array, variance: Array
) -> tuple[int, int]:
    """Predict rows that would each come next."""
    status, row = stream.check(X, X[:0], True)
    if status != stream.FINE:
        return status, row
    state, rules, w = state_of(plan, borrowed(floats)), rules_of(plan, numbers), scratch_of(plan, borrowed(work))
    outputs, fields = counts_of(plan, counters)
    seen = work[work.size - plan[WIDTH] :]
    for t in range(X.shape[0]):
        look(plan, state, rules, X[t], seen, w)
        for j in range(plan[OUTPUTS]):
            n = outputs[j, FIELDS]
            rf.activate(state.centres[j], state.metrics[j], 0, n, rules.settings[rf.HORIZON], w, w.activation[j])
            mean[t, j], variance[t, j] = predict_seen(plan, state, rules, j, n, fields[j], w)
    return stream.FINE, -1


@compiled
def run(
    plan: Array,
    counters: Array,
    floats: Array,
    numbers: Array,
    work: Array,
    X: Array,
    Y: Array,
    mean: Array,
    variance: Array,
) -> tuple[int, int]:
    """Advance by every row: predict it if there is room for predictions, then learn it if there are targets."""
    status, row = stream.check(X, Y, False)
    if status != stream.FINE:
        return status, row
    state, rules, w = state_of(plan, borrowed(floats)), rules_of(plan, numbers), scratch_of(plan, borrowed(work))
    outputs, fields = counts_of(plan, counters)
    seen = work[work.size - plan[WIDTH] :]
    for t in range(X.shape[0]):
        look(plan, state, rules, X[t], seen, w)
        memory.keep(state.memory, X[t], seen)
        counters[ROWS_SEEN] += 1
        counters[CHANGE] = 0
        counters[EVICTED] = -1
        for j in range(plan[OUTPUTS]):
            n = outputs[j, FIELDS]
            rf.activate(state.centres[j], state.metrics[j], 0, n, rules.settings[rf.HORIZON], w, w.activation[j])
            if mean.shape[0] > 0:
                mean[t, j], variance[t, j] = predict_seen(plan, state, rules, j, n, fields[j], w)
            if Y.shape[0] > 0 and not np.isnan(Y[t, j]):
                state.memory.last_target[j] = Y[t, j]
                y = Y[t, j] / rules.norm_out[j]
                learn_seen(plan, counters, state, rules, j, y, outputs[j], fields[j], w)
    return stream.FINE, -1
