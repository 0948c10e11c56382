"""The posterior over time: between two rows it moves, mu <- A mu and S <- A S A' + Q, and a row is the same four lines.

A and Q = I - A A' are made of one block for each term of the kernel (kernels/temporal.py). Q is computed as a series
where A is near I. While rows are equally far apart and none is missing, S converges; once the gain stays the same, it
is kept, and a row costs as much as its mean.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import Layout, Model, opened
from streamgp.compiled import MATRIX, NOTHING, NUMBER, VECTOR, WHOLE, apart, borrowed, compiled, entry
from streamgp.contract import spacing
from streamgp.contract.lanes import LANES, end_of, first_of
from streamgp.kernels.temporal import (
    COORDINATES,
    DECAY,
    HARMONIC,
    LONGEST_GAP,
    MATERN32,
    MATERN52,
    TREND,
    WIDE,
    Component,
)
from streamgp.linalg.symmetric import multiply
from streamgp.linalg.vector import dot
from streamgp.process import posterior
from streamgp.process.row import decay, noise_of

Array = NDArray

LEARNED, SEEN, LATEST, GAP = range(4)  # of the clock
KIND, START, RATE, FREQUENCY, GROUP = range(5)  # of a block in the table
SIZES = np.array([1, 2, 2, 3, 2])
# Rows in a row with the same gain, up to this part of it, after which it is kept.
CALM, SAME = 10, 1e-14
# Below this rate times time Q is the sum of a series, whose terms beyond the last are far below rounding.
SHORT, TERMS = 0.5, 30

PLAN = np.dtype([("noise", np.float64), ("look", np.int64)])  # look: where that function is (compiled.apart)
COUNTERS = np.dtype(
    [
        (name, np.int64)
        for name in ("rows_seen", "rows_learned", "calm", "skipped_rows", "unresolved_rows", "capped_directions")
    ]
)
STATE = {
    "mu": "coordinates outputs",
    "covariance": "coordinates coordinates",  # lower triangle
    # Time of the posterior, of the last row seen, and the latest; between the last two rows learned; NaN: none.
    "clock": "4 1",
    "spacing": f"{spacing.NUMBERS}",  # how far apart rows usually are
    "gain": "coordinates",
    "innovation": "1",  # variance of the target given all before, with that gain
    "last_target": "outputs",
}
WORK = {
    "table": "blocks 5",
    "feature": "coordinates",
    "seen": "coordinates",  # A' feature
    "product": "coordinates",
    "A": "blocks 3 3",
    "Q": "blocks 3 3",
    "prepared": "1",  # the time for which A and Q were computed last
}
LAYOUT = Layout(PLAN, COUNTERS, STATE, WORK)


def _series(N: Array) -> tuple[Array, Array]:
    """N^2 / 2, and the coefficients of I - A A' in powers of s, where A = e^-s (I + s N + s^2 N^2 / 2)."""
    powers = [np.eye(3), N, N @ N / 2.0]
    polynomial = np.zeros((5, 3, 3))
    for i, left in enumerate(powers):
        for j, right in enumerate(powers):
            polynomial[i + j] += left @ right.T
    terms = np.zeros((TERMS + 1, 3, 3))
    for n in range(1, TERMS + 1):
        for k in range(min(n, 4) + 1):
            terms[n] -= polynomial[k] * (-2.0) ** (n - k) / float(math.factorial(n - k))
    return powers[2], np.where(np.abs(terms) < 1e-13 * np.abs(terms).max(), 0.0, terms)


def _nilpotent_52() -> Array:
    """F / rate + I of Matern 5/2 in coordinates in which the stationary covariance is the identity."""
    F = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [-1.0, -3.0, -3.0]])
    P = np.array([[1.0, 0.0, -1.0 / 3.0], [0.0, 1.0 / 3.0, 0.0], [-1.0 / 3.0, 0.0, 1.0]])
    L = np.linalg.cholesky(P)
    return np.ascontiguousarray(np.linalg.solve(L, (F + np.eye(3)) @ L))


N32 = np.array([[1.0, 1.0, 0.0], [-1.0, -1.0, 0.0], [0.0, 0.0, 0.0]])
N52 = _nilpotent_52()
HALF32, TERMS32 = _series(N32)
HALF52, TERMS52 = _series(N52)


def tabulated(terms: list[Component]) -> tuple[Array, Array]:
    """The blocks of a kernel's terms as compiled code reads them, (blocks, 5), and the features of all coordinates."""
    blocks = [(one, float(group)) for group, term in enumerate(terms) for one in term.blocks]
    starts = np.cumsum([0] + [COORDINATES[one.kind] for one, _ in blocks])
    table = [
        (one.kind, start, one.rate, one.frequency, group) for (one, group), start in zip(blocks, starts, strict=False)
    ]
    return np.array(table, dtype=np.float64), np.concatenate([one.feature for one, _ in blocks])


@compiled
def step(kind: int, rate: float, frequency: float, dt: float, A: Array, Q: Array) -> None:
    """A and Q of one block for the time dt."""
    s = rate * dt
    if kind == DECAY:
        A[0, 0], Q[0, 0] = decay(s)
    elif kind == HARMONIC:
        a, angle = np.exp(-s), frequency * dt
        A[0, 0] = A[1, 1] = a * np.cos(angle)
        A[0, 1] = a * np.sin(angle)
        A[1, 0] = -A[0, 1]
        Q[0, 0] = Q[1, 1] = decay(s)[1]
        Q[0, 1] = Q[1, 0] = 0.0
    elif kind == TREND:
        s = min(s, LONGEST_GAP)
        A[0, 0] = A[1, 1] = 1.0
        A[0, 1], A[1, 0] = s, 0.0
        Q[0, 0], Q[1, 1] = s * s * s / (WIDE * WIDE), 3.0 * s / (WIDE * WIDE)
        Q[0, 1] = Q[1, 0] = 1.5 * s * s / (WIDE * WIDE)
    elif kind == MATERN32:
        matern(N32, HALF32, TERMS32, 2, s, A, Q)
    elif kind == MATERN52:
        matern(N52, HALF52, TERMS52, 3, s, A, Q)


@compiled
def matern(N: Array, half: Array, terms: Array, size: int, s: float, A: Array, Q: Array) -> None:
    a = np.exp(-s)
    for i in range(size):
        for j in range(size):
            A[i, j] = a * ((1.0 if i == j else 0.0) + s * (N[i, j] + s * half[i, j]))
    for i in range(size):
        for j in range(size):
            total = 0.0
            if s < SHORT:
                for n in range(TERMS, 0, -1):
                    total = s * (terms[n, i, j] + total)
            else:
                total = (1.0 if i == j else 0.0) - dot(A[i], A[j], size)
            Q[i, j] = total


@compiled
def prepare(m: Model, dt: float) -> None:
    """A and Q of all blocks for the time dt, unless they are there already; and A' feature."""
    prepared = m.prepared
    if prepared[0] != dt:
        steps(m, dt)
        look_back(m, m.seen)
        prepared[0] = dt


@compiled
def steps(m: Model, dt: float) -> None:
    """A and Q of all blocks for the time dt."""
    table = m.table
    for b in range(table.shape[0]):
        A, Q = m.A[b], m.Q[b]
        step(int(table[b, KIND]), table[b, RATE], table[b, FREQUENCY], dt, A, Q)


@compiled
def look_back(m: Model, seen: Array) -> None:
    """seen = A' feature: what the function of a later time is made of now."""
    table, feature = m.table, m.feature
    for b in range(table.shape[0]):
        start, A = int(table[b, START]), m.A[b]
        for j in range(SIZES[int(table[b, KIND])]):
            seen[start + j] = feature[start] * A[0, j]


@compiled
def is_regular(m: Model, at: float, dt: float) -> bool:
    """Whether dt is the time between the last rows, up to the rounding of times themselves."""
    return bool(abs(dt - m.clock[GAP, 0]) <= 4e-16 * abs(at))


@compiled
def elapsed(m: Model, at: float) -> float:
    """The time since the posterior's own; 0 before the first row."""
    now: float = m.clock[LEARNED, 0]
    return 0.0 if np.isnan(now) else max(at - now, 0.0)


@compiled
def time_of(m: Model, given: float) -> float:
    """The time of a row: the one given, or a usual spacing after the last row."""
    return spacing.following(m.spacing, m.clock[SEEN, 0]) if np.isnan(given) else given


# The same machine code whether a row is learned afterwards or not: predictions are equal to the last bit.
@apart(NOTHING, LAYOUT.model, NUMBER, WHOLE, MATRIX, WHOLE)
def look(m: Model, at: float, group: int, out: Array, t: int) -> None:
    """The means and the variance of the function at a time into column t of out; of one component, or (-1) of all."""
    mu, S, table = m.mu, m.covariance, m.table
    seen, feature = m.seen, m.feature
    dt, p = elapsed(m, at), mu.shape[1]
    prepare(m, dt)
    for j in range(p + 1):
        out[j, t] = 0.0
    # The blocks of a component follow each other.
    first, last, fresh = S.shape[0], 0, 0.0
    for b in range(table.shape[0]):
        if group < 0 or int(table[b, GROUP]) == group:
            start = int(table[b, START])
            first, last = min(first, start), start + SIZES[int(table[b, KIND])]
            fresh += feature[start] * feature[start] * m.Q[b][0, 0]
    for i in range(first, last):
        for j in range(p):
            out[j, t] += seen[i] * mu[i, j]
    if group < 0 and m.counters.calm >= CALM and is_regular(m, at, dt):
        out[p, t] = m.innovation[0] - m.plan.noise
        return
    out[p, t] = max(quadratic(S, seen, first, last) + fresh, 0.0)


@compiled
def quadratic(S: Array, phi: Array, first: int, end: int) -> float:
    """phi'S phi of some coordinates."""
    total = 0.0
    for i in range(first, end):
        total += phi[i] * (2.0 * dot(S[i, first:i], phi[first:i], i - first) + S[i, i] * phi[i])
    return total


@compiled
def apply_block(A: Array, size: int, a: Array, b: Array, c: Array) -> None:
    """Replace entries of up to three vectors, the block's coordinates, by A times them."""
    if size == 1:
        for k in range(a.size):
            a[k] *= A[0, 0]
    elif size == 2:
        for k in range(a.size):
            x, y = a[k], b[k]
            a[k], b[k] = A[0, 0] * x + A[0, 1] * y, A[1, 0] * x + A[1, 1] * y
    else:
        for k in range(a.size):
            x, y, z = a[k], b[k], c[k]
            a[k] = A[0, 0] * x + A[0, 1] * y + A[0, 2] * z
            b[k] = A[1, 0] * x + A[1, 1] * y + A[1, 2] * z
            c[k] = A[2, 0] * x + A[2, 1] * y + A[2, 2] * z


@compiled
def move(m: Model, values: Array) -> None:
    """values <- A values, (q, n)."""
    table, last = m.table, values.shape[0] - 1
    for b in range(table.shape[0]):
        i, size = int(table[b, START]), SIZES[int(table[b, KIND])]
        apply_block(m.A[b], size, values[i], values[min(i + 1, last)], values[min(i + 2, last)])


@compiled
def move_covariance(m: Model, S: Array, n: int) -> None:
    """S <- A S A' + Q on the lower triangle: every block turns its rows, and its columns in all rows below."""
    table = m.table
    for b in range(table.shape[0]):
        i, size = int(table[b, START]), SIZES[int(table[b, KIND])]
        A, Q, end = m.A[b], m.Q[b], i + size
        second, third = min(i + 1, end - 1), min(i + 2, end - 1)
        for r in range(i, end):
            for c in range(r + 1, end):
                S[r, c] = S[c, r]
        apply_block(A, size, S[i, :end], S[second, :end], S[third, :end])
        apply_block(A, size, S[i:n, i], S[i:n, second], S[i:n, third])
        for r in range(size):
            for c in range(size):
                S[i + r, i + c] = S[i + r, i + c] + Q[r, c] if c <= r else 0.0
        if int(table[b, KIND]) == TREND and A[0, 1] == LONGEST_GAP:
            m.counters.capped_directions += 1


@compiled
def learn(m: Model, at: float, y: Array, noise: float) -> None:
    """Move to the time of a row, and learn its targets."""
    mu, S, feature = m.mu, m.covariance, m.feature
    clock, gain, innovation = m.clock[:, 0], m.gain, m.innovation
    dt, q, h = elapsed(m, at), S.shape[0], m.product
    prepare(m, dt)
    regular = m.counters.rows_learned > 1 and is_regular(m, at, dt) and noise == m.plan.noise
    clock[LEARNED], clock[GAP] = at, dt
    m.counters.rows_learned += 1
    move(m, mu)
    if not (regular and m.counters.calm >= CALM):
        repairs = m.counters.unresolved_rows + m.counters.capped_directions
        move_covariance(m, S, q)
        multiply(S, feature, q, h)
        v = dot(h, feature, q)
        s = max(v, 0.0) + noise
        if not posterior.is_gain(v, s):
            posterior.restore(S, v, dot(feature, feature, q), q)
            m.counters.skipped_rows += 1
            m.counters.calm = 0
            return
        change = largest = 0.0
        for i in range(q):
            share = h[i] / s
            change, largest = max(change, abs(share - gain[i])), max(largest, abs(share))
            gain[i] = share
        posterior.learn_covariance(S, 1.0, 0.0, h, 1.0 / s, q)
        if noise < posterior.CANCELLED * v:
            m.counters.unresolved_rows += 1
            posterior.keep_positive(S, q)
        calm = regular and change <= SAME * largest and abs(s - innovation[0]) <= SAME * s
        calm = calm and repairs == m.counters.unresolved_rows + m.counters.capped_directions
        m.counters.calm = m.counters.calm + 1 if calm else 0
        innovation[0] = s
    for o in range(mu.shape[1]):
        error = y[o] - dot(mu[:, o], feature, q)
        for i in range(q):
            mu[i, o] += gain[i] * error


@entry(LAYOUT.type, MATRIX, *LANES, VECTOR, MATRIX, MATRIX, MATRIX)
def run(
    records: Array,
    buffers: Array,
    models: Array,
    starts: Array,
    times: Array,
    Y: Array,
    conditions: Array,
    out: Array,
) -> None:
    """Predict every row if there is room for predictions, then learn it if it has a target."""
    records, buffers, out = borrowed(records), borrowed(buffers), borrowed(out)
    for k in range(models.size):
        m = opened(records, buffers, models[k])
        clock, last_target = m.clock[:, 0], m.last_target
        for t in range(first_of(starts, k), end_of(starts, k, times.size)):
            at = time_of(m, times[t])
            if out.shape[1] > 0:
                look(m, at, -1, out, t)
            m.counters.rows_seen += 1
            spacing.note(m.spacing, times[t] - clock[LATEST])
            clock[SEEN], clock[LATEST] = at, np.fmax(clock[LATEST], at)
            if Y.shape[0] > 0 and not np.isnan(Y[t, 0]):
                learn(m, at, Y[t], noise_of(m.plan.noise, conditions, t, 0))
                for o in range(last_target.size):
                    last_target[o] = Y[t, o]


@entry(LAYOUT.type, MATRIX, *LANES, VECTOR, MATRIX)
def predict(records: Array, buffers: Array, models: Array, starts: Array, times: Array, out: Array) -> None:
    """Predict the function at times: of all components together, and below that of each, as far as there is room."""
    records, buffers, out = borrowed(records), borrowed(buffers), borrowed(out)
    for k in range(models.size):
        m = opened(records, buffers, models[k])
        rows = m.mu.shape[1] + 1
        for t in range(first_of(starts, k), end_of(starts, k, times.size)):
            at = time_of(m, times[t])
            for group in range(-1, out.shape[0] // rows - 1):
                look(m, at, group, out[(group + 1) * rows :], t)


@entry(LAYOUT.type, MATRIX, VECTOR, MATRIX)
def covariances(records: Array, buffers: Array, times: Array, out: Array) -> None:
    """The covariance of the function between times that are not before the posterior's own, (n, n)."""
    m = opened(records, buffers, 0)
    S, table, feature = m.covariance, m.table, m.feature
    seen, product, q = m.seen, m.product, S.shape[0]
    states = np.zeros((times.size, q))  # Cov(state at the time, function at the time)
    for t in range(times.size):
        prepare(m, elapsed(m, times[t]))
        multiply(S, seen, q, product)
        for b in range(table.shape[0]):
            start, size = int(table[b, START]), SIZES[int(table[b, KIND])]
            A, Q = m.A[b], m.Q[b]
            for i in range(size):
                states[t, start + i] = dot(A[i], product[start : start + size], size) + Q[i, 0] * feature[start]
    for t in range(times.size):
        for u in range(times.size):
            if times[u] >= times[t]:
                prepare(m, times[u] - times[t])
                out[t, u] = out[u, t] = dot(seen, states[t], q)
