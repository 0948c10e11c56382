"""LWPR: locally weighted projection regression. Linear models in receptive fields that come, adapt and go."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import Layout, Model, Numbers, fields
from streamgp.compiled import compile_now, compiled
from streamgp.contract.checks import FINE, check
from streamgp.contract.lanes import PREDICT
from streamgp.linalg.vector import copy, dot, fill
from streamgp.local import receptive_field as rf
from streamgp.process import loop, memory
from streamgp.process.compiled_model import CompiledModel
from streamgp.process.memory import Window
from streamgp.settings import FloatArray, Setting, number, optional, positive_vector, real_matrix, whole
from streamgp.vocabulary import INPUTS, Capacity, Depth, not_negative, part_of_one, positive

Array = NDArray

# Fixed when the first row arrives: what the loop and the memory, a window, read, and rules.
# The noise is 0, as the confidence bound counts it; beyond the horizon, a squared distance, no rule asks how active a
# field is.
PLAN = fields(
    "shared feedback capacity update_D",
    "retention noise w_gen w_prune penalty meta_rate init_lambda tau_lambda final_lambda init_S2 add_threshold cutoff "
    "horizon",
)

# What changes row by row; the last three say what the last row did, and which field, from 1 on, left its output.
COUNTERS = fields("rows_seen absorbed admitted left")

# Field k of output j is number j * capacity + k of all.
STATE = memory.ARRAYS | rf.STATE | {"counts": "outputs", "rows_learned": "outputs"}  # the fields of each output

WORK = rf.WORK | {
    **dict.fromkeys(("seen", "norm_in"), "width"),
    **dict.fromkeys(("y", "mean_now", "variance_now", "norm_out"), "outputs"),
    **dict.fromkeys(("metric", "rates"), "entries"),  # of a new field
    "extents": "arrays 2",  # of each array of rf.STATE: where it starts, and how many numbers a field has in it
}

LAYOUT = Layout(PLAN, COUNTERS, STATE, WORK, {"counts": (0, "capacity"), "directions": (0, "projections")})

PartOfOne = Annotated[float, Setting(check=part_of_one)]
NotNegative = Annotated[float, Setting(check=not_negative)]

# A new field takes over the metric of one whose activation there is above this part of w_gen.
NEARLY_ACTIVE = 0.1


class Rules(TypedDict, total=False):
    """What the rules of a field read as it is."""

    w_gen: Annotated[PartOfOne, Setting("a field is created where no activation exceeds this, in (0, 1]"), 0.1]
    penalty: Annotated[
        NotNegative, Setting("weight of sum D^2 in the cost of the metric; more makes wider fields"), 1e-6
    ]
    meta_rate: Annotated[NotNegative, Setting("how fast the learning rates adapt"), 250.0]
    init_lambda: Annotated[PartOfOne, Setting("forgetting factor of a new field, in (0, 1]"), 0.999]
    tau_lambda: Annotated[
        float,
        Setting("how slowly it turns into final_lambda, in [0, 1]", check=partial(number, at_least=0, at_most=1)),
        0.9999,
    ]
    final_lambda: Annotated[PartOfOne, Setting("forgetting factor of an old field, in (0, 1]"), 0.99999]
    init_S2: Annotated[
        float, Setting("variance that a projection has before any data", "squared normalized input", positive), 1e-10
    ]
    add_threshold: Annotated[
        NotNegative,
        Setting("a direction is added when the newest brought the squared error below this part of the former"),
        0.5,
    ]
    update_D: Annotated[bool, Setting("adapt the metrics", check=lambda _, value: bool(value)), True]


class LWPR(CompiledModel):
    """Locally weighted projection regression [vijayakumar2005], with the rules of its C library [klanke2008].

    Linear models in receptive fields w = exp(-1/2 (x - c)'D(x - c)), each a regression on a few directions found by
    partial least squares; a field is created where no other is active, and its metric D descends the leave-one-out
    error. The mean is the average over the active fields. ``variance`` is the square of the library's confidence
    bound, which counts the noise, so ``noise`` is 0; it is inf where no field can speak.

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

    def __init__(
        self,
        init_D: Annotated[
            Any,
            Setting(
                "distance metric of a new field: a number, (d,) or (d, d); tune it first, with update_D=False, from "
                "small to large",
                "1 / squared normalized input",
            ),
        ] = 25.0,
        *,
        init_alpha: Annotated[
            Any, Setting("learning rate of the metric: a number or, one for each entry, (d, d); tune it second")
        ] = 50.0,
        w_prune: Annotated[
            float, Setting("of two fields that are both more active than this the wider one leaves; 1: none does")
        ] = 1.0,
        meta: Annotated[bool, Setting("adapt the learning rates too")] = False,
        diag_only: Annotated[bool, Setting("keep the metrics diagonal")] = True,
        capacity: Annotated[
            Capacity,
            Setting(
                "most fields of each output; when full, a new field takes the place of the one inactive for longest",
                "fields",
            ),
        ] = 1000,
        norm_in: Annotated[
            Any,
            Setting(
                "what the inputs are divided by, (d,): use the expected range, not the standard deviation; None: 1",
                INPUTS,
                optional(positive_vector),
            ),
        ] = None,
        norm_out: Annotated[
            Any,
            Setting("what the targets are divided by, (p,); None: 1", "unit of the targets", optional(positive_vector)),
        ] = None,
        max_projections: Annotated[
            int | None, Setting("most directions of a field; None: d", "directions", optional(whole))
        ] = None,
        cutoff: Annotated[float, Setting("fields less active than this neither learn nor predict")] = 0.001,
        depth: Depth = 1,
        **rules: Unpack[Rules],
    ) -> None:
        self._init_D = positive_or_matrix("init_D", init_D)
        self._init_alpha = positive_or_matrix("init_alpha", init_alpha)
        vector_given = self._init_alpha.ndim == 1 and self._init_alpha.size > 1
        if vector_given or np.any(self._init_alpha <= 0):
            raise ValueError(f"init_alpha must be a positive number or a (d, d) matrix of them; got {init_alpha!r}")
        w_gen = rules["w_gen"]
        cutoff = number("cutoff", cutoff, at_least=0, at_most=w_gen)
        least = min(cutoff, NEARLY_ACTIVE * w_gen)
        self._rules: dict[str, Any] = {
            **rules,
            "w_prune": number("w_prune", w_prune, above=w_gen, at_most=1),
            "cutoff": cutoff,
            "horizon": -2.0 * np.log(least) if least > 0 else np.inf,
        }
        self._meta, self._diagonal = bool(meta), bool(diag_only)
        self._capacity, self._max_projections = capacity, max_projections
        self._norm_in, self._norm_out = norm_in, norm_out
        self._memory = Window(depth)
        self._run = run
        compile_now(run, check)

    # The state.

    def _start(self, d: int, p: int) -> None:
        width = self._memory.width(d)
        entries = width if self._diagonal else width * (width + 1) // 2
        sizes = memory.sizes(self._memory, d, p) | {
            "width": width,
            "capacity": self._capacity,
            "fields": p * self._capacity,
            "projections": min(width, self._max_projections or width),
            "entries": entries,
            "meta": entries if self._meta else 0,
            "arrays": len(rf.STATE),
        }
        numbers = Numbers(LAYOUT, sizes, self._rules | {"capacity": self._capacity})
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
        work, at = numbers.work, numbers.records["at"][0]
        work.extents[:] = [(at[name]["start"], getattr(numbers.state, name)[0].size) for name in rf.STATE]
        work.norm_in[:] = np.tile(spread("norm_in", self._norm_in, d, "inputs"), self._memory.depth)
        work.norm_out[:] = spread("norm_out", self._norm_out, p, "outputs")
        at_entries = self._entries(width)
        work.metric[:], work.rates[:] = M[at_entries], alpha[at_entries]
        self._place(numbers)

    def _entries(self, width: int) -> tuple[np.ndarray, ...]:
        """Where the entries of a metric stand in its matrix."""
        return np.diag_indices(width) if self._diagonal else np.triu_indices(width)

    def _in_use(self) -> np.ndarray:
        """The numbers of the fields in use, one output after the other."""
        number = np.arange(len(self._state.centers))
        return number[number % self._capacity < np.repeat(self._state.counts, self._capacity)]

    # What can be read.

    @property
    def size(self) -> int:
        """Receptive fields in use, of all outputs together."""
        return 0 if self._d is None else int(self._state.counts.sum())

    @property
    def basis(self) -> FloatArray:
        """The centers of the fields in the units of the inputs, one output after the other."""
        if self._d is None:
            return np.empty((0, 0))
        return np.asarray(self._state.centers[self._in_use()] * self._numbers.work.norm_in)

    @property
    def metrics(self) -> FloatArray:
        """The distance metrics D of the fields, (size, d, d), in the order of ``basis``, of normalized inputs."""
        if self._d is None:
            return np.empty((0, 0, 0))
        width = self._memory.width(self._d)
        M = np.zeros((self.size, width, width))
        rows, columns = self._entries(width)
        M[:, rows, columns] = self._state.metrics[self._in_use()]
        return np.asarray(M.transpose(0, 2, 1) @ M)

    @property
    def hyperparameters(self) -> dict[str, float | FloatArray]:
        given = {"init_D": self._init_D, "init_alpha": self._init_alpha}
        named = {name: float(values[0]) if values.size == 1 else values.copy() for name, values in given.items()}
        return named | {"penalty": self._rules["penalty"]}


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


@compiled
def predict_seen(m: Model, j: int) -> tuple[float, float]:
    """Mean and variance of output j at x; its fields know how active they are."""
    activation, trusted, begin = m.activation, m.trusted, j * m.plan.capacity
    first = total = shifted = squares = 0.0
    for g in range(begin, begin + int(m.counts[j])):
        weight = activation[g]
        if not weight > m.plan.cutoff or trusted[g] == 0.0:
            continue
        y, sigma2 = rf.predict(m, g, weight)
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
    scale = m.norm_out[j]
    return scale * (first + shift), scale * scale * variance


@compiled
def learn_seen(m: Model, j: int, y: float) -> None:
    """Learn the target y of output j at x; its fields know how active they are."""
    activation, metrics, first = m.activation, m.metrics, j * m.plan.capacity
    m.rows_learned[j] += 1.0
    most = second = 0.0
    most_active = second_active = -1
    for g in range(first, first + int(m.counts[j])):
        weight = activation[g]
        if weight > most:
            second, second_active = most, most_active
            most, most_active = weight, g
        elif weight > second:
            second, second_active = weight, g
        if weight > m.plan.cutoff:
            # A field can be trusted once it had seen more than 2 d rows before this one.
            if m.n_data[g, 0] > 2.0 * m.x.size:
                m.trusted[g] = 1.0
            rf.activate(m, g, g + 1)
            rf.learn(m, g, y, weight)
            m.last_active[g] = m.rows_learned[j]
            m.counters.absorbed = 1
    if most <= m.plan.w_gen:
        create(m, j, y, most, most_active)
    elif second > m.plan.w_prune:
        # The trace of D = M'M says how narrow a field is. The wider one leaves, as in the library [klanke2008].
        narrow = dot(metrics[most_active], metrics[most_active], metrics.shape[1])
        other = dot(metrics[second_active], metrics[second_active], metrics.shape[1])
        remove(m, j, most_active if narrow < other else second_active)


@compiled
def create(m: Model, j: int, y: float, most: float, most_active: int) -> None:
    """Put a field on x; it takes over the metric of a field that is nearly active there and can be trusted."""
    counts, directions, last_active, metrics, alpha = m.counts, m.directions, m.last_active, m.metrics, m.alpha
    copied = most > NEARLY_ACTIVE * m.plan.w_gen and m.trusted[most_active] == 1.0
    first = j * m.plan.capacity
    g = first + int(counts[j])
    if counts[j] == m.plan.capacity:
        oldest = -1
        for k in range(first, g):
            if (oldest < 0 or last_active[k] < last_active[oldest]) and not (copied and k == most_active):
                oldest = k
        if oldest < 0:
            oldest, copied = first, False
        g -= 1
        if most_active == g:  # the last one moves into the gap
            most_active = oldest
        remove(m, j, oldest)
    counts[j] += 1.0
    m.counters.admitted = 1
    directions[g] = directions[most_active] if copied else min(2, m.ss2.shape[1])
    copy(metrics[most_active] if copied else m.metric, metrics.shape[1], metrics[g])
    copy(alpha[most_active] if copied else m.rates, alpha.shape[1], alpha[g])
    last_active[g] = m.rows_learned[j]
    rf.begin(m, g, y)


@compiled
def remove(m: Model, j: int, g: int) -> None:
    """Take field g out; the last one of output j takes its place."""
    counts, extents, first = m.counts, m.extents, j * m.plan.capacity
    last = first + int(counts[j]) - 1
    for i in range(extents.shape[0]):
        start, size = int(extents[i, 0]), int(extents[i, 1])
        moved = m.buffer[start + last * size : start + (last + 1) * size]
        copy(moved, size, m.buffer[start + g * size :])
        fill(moved, size, 0.0)
    counts[j] -= 1.0
    m.counters.left = g - first + 1


@compiled
def predict(
    m: Model, _x: Array, _t: int, _conditions: Array, _i: int, kind: int, _learned: bool
) -> tuple[float, float]:
    x, seen, norm = m.x, m.seen, m.norm_in
    for i in range(x.size):
        x[i] = seen[i] / norm[i]
    for j in range(m.y.size):
        first = j * m.plan.capacity
        rf.activate(m, first, first + int(m.counts[j]))
        if kind & PREDICT:
            m.mean_now[j], m.variance_now[j] = predict_seen(m, j)
    return 0.0, 0.0


@compiled
def learn(m: Model, _conditions: Array, _i: int, _learned: bool, _kappa: float, _gamma2: float) -> int:
    loop.forget_change(m)
    for j in range(m.y.size):
        if not np.isnan(m.y[j]):
            learn_seen(m, j, m.y[j] / m.norm_out[j])
    return FINE


run = loop.of(
    *(__name__, "run", LAYOUT), is_overdue=loop.never, predict=predict, report=loop.report_moments, learn=learn
)
