"""Local Gaussian processes: a few small exact GPs, each for the rows near its centre, averaged."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamgp import inputs, memory
from streamgp.compiled import INTEGERS, MATRIX, VECTOR, borrowed, compile_now, compiled
from streamgp.core import stream
from streamgp.features import checked_kernel
from streamgp.kernels import Kernel, program
from streamgp.linalg import triangular, vector
from streamgp.memory import MemoryState, Window, memory_at, memory_size
from streamgp.model import Change, Health, MemoryModel
from streamgp.prediction import Prediction
from streamgp.settings import FloatArray, choice, number, whole

Array = NDArray

DROPS = ("redundant", "oldest")
REDUNDANT, OLDEST = range(2)

# What a model is: integers fixed when the first row arrives. The kernel's operations follow them.
INPUTS, OUTPUTS, DEPTH, WIDTH, EXPERTS, ROOM, NEIGHBOURS, DROP, STEPS, PLAN_SIZE = range(10)

# What changes: integer state. The number of points of each expert follows.
ROWS_SEEN, SIZE, ADMITTED, EVICTED, FLOORED_PIVOTS, COUNTERS_SIZE = range(6)

# Settings, as numbers. The kernel's hyperparameters follow.
NOISE, THRESHOLD, NUMBERS = range(3)

# Points as redundant as each other to this relative precision are told apart by age.
TIE = 1e-6
# A centre less similar than this is not similar at all: sums weighted with less would lose their digits.
FAINTEST = 1e-200


class LocalGP(MemoryModel):
    """Local Gaussian process regression [nguyentuong2009].

    A row goes to the expert whose centre, the mean of its points, is most similar by the kernel, or begins a new
    expert. Each expert is an exact GP on its points; a full one drops a point. Predictions average the experts with
    the similarities of their centres as weights, and the variance is that of the mixture.

    Args:
        kernel: covariance function; None: SquaredExponential().
        noise: variance of the observation noise, in squared units of the target.
        experts: most experts.
        capacity: most points of an expert.
        threshold: a row whose similarity k(x, c) / sqrt(k(x, x) k(c, c)) to every centre is below this begins a new
            expert while there is room; in [0, 1].
        neighbours: experts averaged in a prediction, the most similar ones; None: all. Few predict better.
        drop: the point a full expert drops: "redundant" (the one that the others predict with the smallest variance;
            of equals the oldest) or "oldest".
        depth: inputs in the window, the present one included; 1 is no memory.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> from streamgp.local import LocalGP
        >>> model = LocalGP(sg.SquaredExponential(1.0), noise=0.01, experts=10, capacity=20)
        >>> x = np.random.default_rng(0).uniform(0.0, 10.0, 400)
        >>> model.learn_many(x, np.sin(x))
        >>> bool(abs(model.predict_one(5.0).mean - np.sin(5.0)) < 0.1)
        True
    """

    _plan: np.ndarray
    _counters: np.ndarray
    _floats: FloatArray
    _numbers: FloatArray
    _work: FloatArray

    def __init__(
        self,
        kernel: Kernel | None = None,
        noise: float = 0.01,
        experts: int = 20,
        capacity: int = 50,
        threshold: float = 0.5,
        neighbours: int | None = 2,
        drop: str = "redundant",
        depth: int = 1,
    ) -> None:
        self._kernel = checked_kernel(kernel)
        self._noise = number("noise", noise, above=0)
        self._experts = whole("experts", experts)
        self._capacity = whole("capacity", capacity)
        self._threshold = number("threshold", threshold, at_least=0, at_most=1)
        self._neighbours = self._experts if neighbours is None else whole("neighbours", neighbours)
        self._drop = choice("drop", drop, DROPS)
        self._memory = Window(depth)
        compile_now(run, INTEGERS, INTEGERS, VECTOR, VECTOR, VECTOR, MATRIX, MATRIX, MATRIX, MATRIX)
        compile_now(predict, INTEGERS, INTEGERS, VECTOR, VECTOR, VECTOR, MATRIX, MATRIX, MATRIX)

    # The state.

    def _start(self, d: int, p: int) -> None:
        width, depth = self._memory.width(d), self._memory.depth
        kernel = self._kernel.program(width, depth)
        plan = np.concatenate([np.zeros(PLAN_SIZE, dtype=np.int64), kernel.operations.ravel()])
        for index, value in (
            (INPUTS, d),
            (OUTPUTS, p),
            (DEPTH, depth),
            (WIDTH, width),
            (EXPERTS, self._experts),
            (ROOM, self._capacity + 1),  # a point is dropped after the new one has come
            (NEIGHBOURS, self._neighbours),
            (DROP, self._drop),
            (STEPS, len(kernel.operations)),
        ):
            plan[index] = value
        floats = np.zeros(float_size(plan))
        counters = np.zeros(COUNTERS_SIZE + self._experts, dtype=np.int64)
        counters[EVICTED] = -1
        state = state_of(plan, floats)
        self._place_memory(state, counters, d, p)
        self._state = state
        self._plan, self._counters, self._floats = plan, counters, floats
        self._numbers = np.concatenate([[self._noise, self._threshold], kernel.parameters])
        self._work = np.zeros(work_size(plan) + kernel.scratch(max(self._experts, self._capacity + 1), width))
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
        return Prediction(mean, variance, np.full_like(mean, self._noise)) if report else None

    def _foresee(self, X: FloatArray) -> Prediction:
        mean, variance = (np.empty((len(X), self._nothing.shape[1])) for _ in range(2))
        status, at = predict(self._plan, self._counters, self._floats, self._numbers, self._work, X, mean, variance)
        if status:
            inputs.refuse(status, at, many=len(X) > 1)
        return Prediction(mean, variance, np.full_like(mean, self._noise))

    def _check_restored(self) -> None:
        size, points = int(self._counters[SIZE]), self._counters[COUNTERS_SIZE:]
        if not 0 <= size <= self._experts:
            raise ValueError(f"the snapshot says {size} experts, the model has room for {self._experts}")
        if np.any(points[:size] < 1) or np.any(points > self._capacity):
            raise ValueError(f"the snapshot says {points.tolist()} points, an expert holds 1 to {self._capacity}")

    # What can be read.

    @property
    def size(self) -> int:
        """Experts in use."""
        return 0 if self._d is None else int(self._counters[SIZE])

    @property
    def basis(self) -> FloatArray:
        """The centres of the experts, (size, width)."""
        return np.empty((0, 0)) if self._d is None else self._state.centres[: self.size].copy()

    @property
    def points(self) -> list[FloatArray]:
        """The points of each expert, oldest first: arrays (n, width)."""
        if self._d is None:
            return []
        points, sizes = self._state.points, self._counters[COUNTERS_SIZE:]
        return [points[k, : sizes[k]].copy() for k in range(self.size)]

    @property
    def hyperparameters(self) -> dict[str, float | FloatArray]:
        named: dict[str, float | FloatArray] = {}
        if self._d is not None:
            width = int(self._plan[WIDTH])
            named |= self._kernel.hyperparameters(self._numbers[NUMBERS:], width, self._memory.depth)
        return named | {"noise": self._noise}

    @property
    def health(self) -> Health:
        return Health() if self._d is None else Health(floored_pivots=int(self._counters[FLOORED_PIVOTS]))

    @property
    def last_change(self) -> Change:
        """Whether the last row became a point (admitted), and which point of its expert was dropped (-1: none)."""
        if self._d is None:
            return Change()
        return Change(admitted=bool(self._counters[ADMITTED]), evicted=int(self._counters[EVICTED]))


class State(NamedTuple):
    """Everything a model knows, as views of its float array."""

    memory: MemoryState
    centres: Array  # (experts, width)
    centre_variances: Array  # (experts,) k(c, c)
    points: Array  # (experts, room, width), oldest first
    targets: Array  # (experts, room, p)
    factors: Array  # (experts, room, room): R with K + noise I = R'R, upper triangle
    inverse_diagonals: Array  # (experts, room) of (R'R)^-1
    weights: Array  # (experts, room, p): (R'R)^-1 y


class Scratch(NamedTuple):
    """Work space: nothing in it outlives a row."""

    seen: Array  # (width,)
    mean: Array  # (p,)
    variance: Array  # (p,)
    first: Array  # (p,)
    similarity: Array  # (experts,)
    rank: Array  # (experts,)
    k: Array  # (room,)
    column: Array  # (room,)
    psi: Array  # (room,)
    kernel: Array


@compiled
def state_of(plan: Array, floats: Array) -> State:
    p, width, E, m = plan[OUTPUTS], plan[WIDTH], plan[EXPERTS], plan[ROOM]
    remembered, o = memory_at(floats, 0, plan[DEPTH], plan[INPUTS], 0, p)
    centres = floats[o : o + E * width].reshape(E, width)
    o += E * width
    centre_variances = floats[o : o + E]
    o += E
    points = floats[o : o + E * m * width].reshape(E, m, width)
    o += E * m * width
    targets = floats[o : o + E * m * p].reshape(E, m, p)
    o += E * m * p
    factors = floats[o : o + E * m * m].reshape(E, m, m)
    o += E * m * m
    inverse_diagonals = floats[o : o + E * m].reshape(E, m)
    o += E * m
    weights = floats[o : o + E * m * p].reshape(E, m, p)
    return State(remembered, centres, centre_variances, points, targets, factors, inverse_diagonals, weights)


@compiled
def scratch_of(plan: Array, work: Array) -> Scratch:
    p, width, E, m = plan[OUTPUTS], plan[WIDTH], plan[EXPERTS], plan[ROOM]
    o = width
    mean, variance, first = work[o : o + p], work[o + p : o + 2 * p], work[o + 2 * p : o + 3 * p]
    o += 3 * p
    similarity, rank = work[o : o + E], work[o + E : o + 2 * E]
    o += 2 * E
    k, column, psi = work[o : o + m], work[o + m : o + 2 * m], work[o + 2 * m : o + 3 * m]
    return Scratch(work[:width], mean, variance, first, similarity, rank, k, column, psi, work[o + 3 * m :])


def float_size(plan: Array) -> int:
    """Length of the float state."""
    p, width, E, m = (int(plan[i]) for i in (OUTPUTS, WIDTH, EXPERTS, ROOM))
    remembered = memory_size(int(plan[DEPTH]), int(plan[INPUTS]), 0, p)
    return remembered + E * (width + 1 + m * (width + 2 * p + m + 1))


def work_size(plan: Array) -> int:
    """Length of the work space without the kernel's."""
    p, width, E, m = (int(plan[i]) for i in (OUTPUTS, WIDTH, EXPERTS, ROOM))
    return width + 3 * p + 2 * E + 3 * m


@compiled
def operations_of(plan: Array) -> Array:
    return plan[PLAN_SIZE : PLAN_SIZE + 4 * plan[STEPS]].reshape(plan[STEPS], 4)


@compiled
def compare(plan: Array, n: int, state: State, numbers: Array, w: Scratch) -> float:
    """Similarities of the input seen to the n centres into w.similarity; returns kappa = k(x, x)."""
    operations, theta = operations_of(plan), numbers[NUMBERS:]
    kappa = program.diagonal(operations, theta, w.seen, w.k, w.kernel)
    program.cross(operations, theta, state.centres, n, w.seen, w.similarity, w.kernel)
    for i in range(n):
        scale = np.sqrt(kappa * state.centre_variances[i])
        # A squared exponential gives exp(-1/2 (x - c)'W(x - c)), the published weight.
        w.similarity[i] = w.similarity[i] / scale if scale > 0.0 else 0.0
    return kappa


@compiled
def predict_seen(plan: Array, counters: Array, state: State, numbers: Array, kappa: float, w: Scratch) -> None:
    """Mean and latent variance of the mixture into w.mean and w.variance; compare() has been called."""
    operations, theta = operations_of(plan), numbers[NUMBERS:]
    p, experts = plan[OUTPUTS], counters[SIZE]
    vector.copy(w.similarity, experts, w.rank)
    vector.fill(w.mean, p, 0.0)
    vector.fill(w.variance, p, 0.0)
    total = 0.0
    for _ in range(min(plan[NEIGHBOURS], experts)):
        e = 0
        for i in range(1, experts):
            if w.rank[i] > w.rank[e]:
                e = i
        w.rank[e] = -np.inf
        weight, n = w.similarity[e], counters[COUNTERS_SIZE + e]
        if not weight > FAINTEST:
            if total > 0.0:
                break
            weight = 1.0  # no centre is similar: the nearest expert answers alone
        program.cross(operations, theta, state.points[e], n, w.seen, w.k, w.kernel)
        triangular.solve_transposed(state.factors[e], w.k, n, w.column)
        v = max(kappa - vector.dot(w.column, w.column, n), 0.0)
        # Sums of differences from the first expert's mean: a common offset does not cancel digits.
        for j in range(p):
            m = 0.0
            for i in range(n):
                m += w.k[i] * state.weights[e, i, j]
            if total == 0.0:
                w.first[j] = m
            w.mean[j] += weight * (m - w.first[j])
            w.variance[j] += weight * (v + (m - w.first[j]) * (m - w.first[j]))
        total += weight
    for j in range(p):
        if experts == 0:
            w.variance[j] = kappa
            continue
        shift = w.mean[j] / total
        # Mixture: sum w (v + m^2) - mean^2, which no shift changes
        w.mean[j] = w.first[j] + shift
        w.variance[j] = max(w.variance[j] / total - shift * shift, 0.0)


@compiled
def learn_seen(plan: Array, counters: Array, state: State, numbers: Array, kappa: float, y: Array, w: Scratch) -> None:
    """Hand the input seen and its targets to the most similar expert, or to a new one."""
    # [nguyentuong2009] partitioning of the data
    experts = counters[SIZE]
    e = 0
    for i in range(1, experts):
        if w.similarity[i] > w.similarity[e]:
            e = i
    if experts == 0 or (w.similarity[e] < numbers[THRESHOLD] and experts < plan[EXPERTS]):
        e = experts
        counters[SIZE] += 1
    n = counters[COUNTERS_SIZE + e]
    counters[FLOORED_PIVOTS] += admit(plan, state, e, n, numbers, kappa, y, w)
    n += 1
    counters[ADMITTED] = 1
    if n == plan[ROOM]:
        r = redundant(state.inverse_diagonals[e], n) if plan[DROP] == REDUNDANT else 0
        drop(state, e, r, n, w)
        counters[EVICTED] = r
        n -= 1
    counters[COUNTERS_SIZE + e] = n
    for j in range(plan[OUTPUTS]):
        for i in range(n):
            w.k[i] = state.targets[e, i, j]
        triangular.solve_transposed(state.factors[e], w.k, n, w.k)
        triangular.solve(state.factors[e], w.k, n, w.k)
        for i in range(n):
            state.weights[e, i, j] = w.k[i]
        for i in range(n, plan[ROOM]):
            state.weights[e, i, j] = 0.0
    centre = state.centres[e]
    for j in range(centre.size):
        centre[j] = 0.0
        for i in range(n):
            centre[j] += state.points[e, i, j]
        centre[j] /= n
    state.centre_variances[e] = program.diagonal(operations_of(plan), numbers[NUMBERS:], centre, w.k, w.kernel)


@compiled
def admit(plan: Array, state: State, e: int, n: int, numbers: Array, kappa: float, y: Array, w: Scratch) -> int:
    """The input seen becomes point n of expert e; returns 1 where arithmetic had lost the noise in its pivot."""
    program.cross(operations_of(plan), numbers[NUMBERS:], state.points[e], n, w.seen, w.k, w.kernel)
    triangular.solve_transposed(state.factors[e], w.k, n, w.column)
    triangular.solve(state.factors[e], w.column, n, w.psi)
    noise = numbers[NOISE]
    gamma2 = kappa + noise - vector.dot(w.column, w.column, n)
    floored = 1 if gamma2 < noise else 0
    gamma2 = max(gamma2, noise)
    triangular.append(state.factors[e], w.column, np.sqrt(gamma2), n)
    # The diagonal of the inverse of a bordered matrix, [vanvaerenbergh2016] Eq. (4).
    diagonal = state.inverse_diagonals[e]
    for i in range(n):
        diagonal[i] += w.psi[i] * w.psi[i] / gamma2
    diagonal[n] = 1.0 / gamma2
    for j in range(w.seen.size):
        state.points[e, n, j] = w.seen[j]
    for j in range(y.size):
        state.targets[e, n, j] = y[j]
    return floored


@compiled
def redundant(inverse_diagonal: Array, n: int) -> int:
    """The point that the others predict best: 1 / Q_ii is the variance of its target given all the others."""
    r = 0
    for i in range(1, n):
        if inverse_diagonal[i] > inverse_diagonal[r] * (1.0 + TIE):
            r = i
    return r


@compiled
def drop(state: State, e: int, r: int, n: int, w: Scratch) -> None:
    """Take point r out of the n points of expert e."""
    diagonal = state.inverse_diagonals[e]
    triangular.inverse_column(state.factors[e], r, n, w.psi)
    for i in range(n):
        diagonal[i] = max(diagonal[i] - w.psi[i] * w.psi[i] / w.psi[r], TIE * diagonal[i])
    triangular.delete(state.factors[e], r, n, w.column)
    points, targets = state.points[e], state.targets[e]
    for i in range(r, n - 1):
        diagonal[i] = diagonal[i + 1]
        vector.copy(points[i + 1], points.shape[1], points[i])
        vector.copy(targets[i + 1], targets.shape[1], targets[i])
    diagonal[n - 1] = 0.0
    vector.fill(points[n - 1], points.shape[1], 0.0)
    vector.fill(targets[n - 1], targets.shape[1], 0.0)


@compiled
def predict(
    plan: Array, counters: Array, floats: Array, numbers: Array, work: Array, X: Array, mean: Array, variance: Array
) -> tuple[int, int]:
    """Predict rows that would each come next."""
    status, row = stream.check(X, X[:0], True)
    if status != stream.FINE:
        return status, row
    state, w = state_of(plan, borrowed(floats)), scratch_of(plan, borrowed(work))
    for t in range(X.shape[0]):
        memory.look(state.memory, 0.0, X[t], w.seen)
        kappa = compare(plan, counters[SIZE], state, numbers, w)
        predict_seen(plan, counters, state, numbers, kappa, w)
        vector.copy(w.mean, w.mean.size, mean[t])
        vector.copy(w.variance, w.variance.size, variance[t])
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
    status, row = stream.check(X, Y, True)
    if status != stream.FINE:
        return status, row
    state, w = state_of(plan, borrowed(floats)), scratch_of(plan, borrowed(work))
    for t in range(X.shape[0]):
        memory.look(state.memory, 0.0, X[t], w.seen)
        memory.keep(state.memory, X[t], w.seen)
        counters[ROWS_SEEN] += 1
        counters[ADMITTED] = 0
        counters[EVICTED] = -1
        kappa = compare(plan, counters[SIZE], state, numbers, w)
        if mean.shape[0] > 0:
            predict_seen(plan, counters, state, numbers, kappa, w)
            vector.copy(w.mean, w.mean.size, mean[t])
            vector.copy(w.variance, w.variance.size, variance[t])
        if Y.shape[0] > 0 and not np.isnan(Y[t, 0]):
            vector.copy(Y[t], Y.shape[1], state.memory.last_target)
            learn_seen(plan, counters, state, numbers, kappa, Y[t], w)
    return stream.FINE, -1
