"""The log evidence of a series under a kernel over time, with its gradient.

Rows that are equally far apart and complete have a quick way. The predicted covariance P of a model that does not
change with time grows by terms of low rank, P' - P = Y M Y', and its gain follows from Y and M alone: O(q) a row
instead of O(q^2) [morf1974]; the gradient is its adjoint. The prior of a stationary kernel is its own stationary
covariance, so that the rank is 1; a trend adds 2. Of other rows the covariance is taken as it is, O(n^3).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamgp.compiled import CUBE, MATRIX, NUMBER, VECTOR, compiled, entry
from streamgp.kernels.temporal import DECAY, HARMONIC, LONGEST_GAP, MATERN32, TREND, WIDE
from streamgp.linalg.dense import factorize, inverse, outer, solve, solve_transposed, symmetric
from streamgp.linalg.vector import copy, dot
from streamgp.process.time import FREQUENCY, KIND, RATE, SIZES, START, rotate, step, steps
from streamgp.settings import FloatArray

Array = NDArray

# Of log(rate): differences of the fourth order lose h^4 / 30 of the fifth derivative, and eps / h by rounding.
STEP = 1e-3
# A function of x (1 + i h) has its slope by log(x) as its imaginary part over h, without a difference.
IMAGINARY = 1e-20


@compiled
def gather(table: Array, left: Array, right: Array, out: Array) -> None:
    """Add the blocks of left right' to out."""
    for b in range(table.shape[0]):
        i, size = int(table[b, START]), SIZES[int(table[b, KIND])]
        for j in range(size):
            for k in range(size):
                out[b, j, k] += left[i + j] * right[i + k]


@compiled
def add_rates(table: Array, dt: float, A_bar: Array, Q_bar: Array, A: Array, Q: Array, rates: Array) -> None:
    """Add d / d log(rate) of every block, by way of its A and Q for the time dt: differences of the fourth order."""
    for b in range(table.shape[0]):
        kind = int(table[b, KIND])
        for k in range(-2, 3):
            step(kind, table[b, RATE] * np.exp(k * STEP), table[b, FREQUENCY], dt, A, Q)
            total, weight = 0.0, 8.0 * k if abs(k) == 1 else -0.5 * k
            for i in range(SIZES[kind]):
                for j in range(SIZES[kind]):
                    total += A_bar[b, i, j] * A[i, j] + Q_bar[b, i, j] * Q[i, j]
            rates[b] += weight * total / (12.0 * STEP)


def room_of(table: FloatArray, n: int, p: int, q: int) -> tuple[FloatArray, ...]:
    """Work space of regular(): of the blocks, of the rows on the way forward, and of one row on the way back."""
    blocks, rank = len(table), 1 + 2 * int(np.sum(table[:, KIND] == TREND))
    of_rows = (n + 1, p, q), (n + 1, q), (n + 1, rank, q), (n + 1, rank, rank), (n + 1,)
    of_one = (p, q), (rank, q), (rank, q), (rank, rank), (2, 3, 3), (4, rank), (3, q)
    return tuple(np.zeros(shape) for shape in (*[(blocks, 3, 3)] * 5, *of_rows, *of_one))


ROOM = (*[CUBE] * 5, CUBE, MATRIX, CUBE, CUBE, VECTOR, MATRIX, MATRIX, MATRIX, MATRIX, CUBE, MATRIX, MATRIX)


@entry(MATRIX, VECTOR, NUMBER, NUMBER, MATRIX, VECTOR, VECTOR, *ROOM)
def regular(
    table: Array,
    h: Array,
    noise: float,
    dt: float,
    Y: Array,
    h_bar: Array,
    rates: Array,
    A: Array,
    Q: Array,
    A_back: Array,
    A_bar: Array,
    Q_bar: Array,
    a: Array,
    K: Array,
    V: Array,
    M: Array,
    s: Array,
    a_bar: Array,
    V_bar: Array,
    V_old: Array,
    M_bar: Array,
    one_block: Array,
    of_rank: Array,
    of_width: Array,
) -> tuple[float, float]:
    """The log evidence of rows (n, p) that are dt apart, and d / d noise; NaN where rounding spoiled the recursion.

    Adds its gradients for the features to h_bar and for the logarithms of the blocks' rates to rates. What comes after
    these is of room_of().
    """
    n, p, q, blocks, rank = Y.shape[0], Y.shape[1], h.size, table.shape[0], of_rank.shape[1]
    last, w, z, w_bar, z_bar = rank - 1, of_rank[0], of_rank[1], of_rank[2], of_rank[3]
    u, c, K_bar = of_width[0], of_width[1], of_width[2]
    steps(table, dt, A, Q)
    for b in range(blocks):
        for i in range(3):
            for j in range(3):
                A_back[b, i, j] = A[b, j, i]  # with which rotate() goes back
    # P_1 = I, and P_2 - P_1 = A A' + Q - I - A h h' A' / s: without a trend only the last term is not 0.
    s[0] = dot(h, h, q) + noise
    copy(h, q, K[0])
    rotate(table, A, h, V[0, last])
    M[0, last, last] = -1.0 / s[0]
    r = 0
    for b in range(blocks):
        if int(table[b, KIND]) == TREND:
            for i in range(2):
                V[0, r + i, int(table[b, START]) + i] = 1.0
                for j in range(2):
                    M[0, r + i, r + j] = dot(A[b, i], A[b, j], 2) + Q[b, i, j] - (1.0 if i == j else 0.0)
            r += 2
    value = 0.0
    for t in range(n):
        value -= 0.5 * p * np.log(2.0 * np.pi * s[t])
        for o in range(p):
            v = Y[t, o] - dot(h, a[t, o], q)
            value -= 0.5 * v * v / s[t]
            for i in range(q):
                c[i] = a[t, o, i] + K[t, i] * v / s[t]
            rotate(table, A, c, a[t + 1, o])
        for r in range(rank):
            w[r] = dot(V[t, r], h, q)
        s[t + 1] = s[t]
        copy(K[t], q, K[t + 1])
        for r in range(rank):
            z[r] = dot(M[t, r], w, rank)
            s[t + 1] += w[r] * z[r]
            for i in range(q):
                K[t + 1, i] += V[t, r, i] * z[r]
        if not s[t + 1] >= 0.5 * noise:
            return np.nan, 0.0
        for r in range(rank):
            for i in range(q):
                u[i] = V[t, r, i] - K[t + 1, i] * w[r] / s[t + 1]
            rotate(table, A, u, V[t + 1, r])
            for k in range(rank):
                M[t + 1, r, k] = M[t, r, k] + z[r] * z[k] / s[t]
    # The same lines backward.
    s_bar = 0.0
    for t in range(n - 1, -1, -1):
        for r in range(rank):
            w[r] = dot(V[t, r], h, q)
        for r in range(rank):
            z[r] = dot(M[t, r], w, rank)
        s_next, s_bar_next, s_bar = s[t + 1], s_bar, 0.0
        for r in range(rank):
            z_bar[r] = 0.0
            for k in range(rank):
                z_bar[r] += 2.0 * M_bar[r, k] * z[k] / s[t]
                s_bar -= M_bar[r, k] * z[r] * z[k] / s[t] ** 2
        for r in range(rank):
            for i in range(q):
                u[i] = V[t, r, i] - K[t + 1, i] * w[r] / s_next
            gather(table, V_bar[r], u, A_bar)
            rotate(table, A_back, V_bar[r], V_old[r])
            along = dot(V_old[r], K[t + 1], q)
            w_bar[r] = -along / s_next
            s_bar_next += w[r] * along / s_next**2
            for i in range(q):
                K_bar[i] -= V_old[r, i] * w[r] / s_next
        for r in range(rank):
            copy(V_old[r], q, V_bar[r])
            z_bar[r] += dot(V[t, r], K_bar, q) + s_bar_next * w[r]
            w_bar[r] += s_bar_next * z[r]
        s_bar += s_bar_next
        for r in range(rank):
            w_bar[r] += dot(M[t, r], z_bar, rank)
        for r in range(rank):
            for i in range(q):
                V_bar[r, i] += K_bar[i] * z[r] + h[i] * w_bar[r]
                h_bar[i] += V[t, r, i] * w_bar[r]
            for k in range(rank):
                M_bar[r, k] += 0.5 * (z_bar[r] * w[k] + w[r] * z_bar[k])
        s_bar -= 0.5 * p / s[t]
        for o in range(p):
            v = Y[t, o] - dot(h, a[t, o], q)
            for i in range(q):
                c[i] = a[t, o, i] + K[t, i] * v / s[t]
            gather(table, a_bar[o], c, A_bar)
            rotate(table, A_back, a_bar[o], c)
            along = dot(c, K[t], q)
            v_bar = (along - v) / s[t]
            s_bar += (0.5 * v - along) * v / s[t] ** 2
            for i in range(q):
                K_bar[i] += c[i] * v / s[t]
                h_bar[i] -= v_bar * a[t, o, i]
                a_bar[o, i] = c[i] - v_bar * h[i]
    s_bar += M_bar[last, last] / s[0] ** 2
    gather(table, V_bar[last], h, A_bar)
    rotate(table, A_back, V_bar[last], u)
    for i in range(q):
        h_bar[i] += K_bar[i] + 2.0 * s_bar * h[i] + u[i]
    r = 0
    for b in range(blocks):
        if int(table[b, KIND]) == TREND:
            for i in range(2):
                for j in range(2):
                    Q_bar[b, i, j] += M_bar[r + i, r + j]
                    for k in range(2):
                        A_bar[b, i, k] += 2.0 * M_bar[r + i, r + j] * A[b, j, k]
            r += 2
    add_rates(table, dt, A_bar, Q_bar, one_block[0], one_block[1], rates)
    return value, s_bar


class Shared(NamedTuple):
    """Blocks whose covariances have a factor in common: shape_ij (rows rows')_ij, with their features in the rows.

    Args:
        blocks: their places in the table.
        shape: (n, n), which all of them have, and slope, its derivative by the logarithm of their rate.
        rows: (n, 2 blocks), cosines and then sines of what turns; what does not has an angle of 0.
    """

    blocks: NDArray[np.int64]
    shape: FloatArray
    slope: FloatArray
    rows: FloatArray


def shared(table: FloatArray, h: FloatArray, gaps: FloatArray) -> Iterator[Shared]:
    """The blocks of a kernel over time at rows, each a gap after the one before it."""
    kinds = np.where(table[:, KIND] == HARMONIC, DECAY, table[:, KIND])
    for kind, rate in np.unique(np.column_stack([kinds, table[:, RATE]]), axis=0):
        blocks = np.flatnonzero((kinds == kind) & (table[:, RATE] == rate))
        # cos w(t - u) = cos wt cos wu + sin wt sin wu
        angles = np.outer(np.cumsum(gaps), table[blocks, FREQUENCY])
        rows = h[table[blocks, START].astype(int)] * np.stack([np.cos(angles), np.sin(angles)])
        yield Shared(blocks, *correlation(kind, rate, gaps), np.hstack(list(rows)))


def correlation(kind: int, rate: float, gaps: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The covariance between rows of a block that does not turn and whose feature is 1; its slope by log(rate)."""
    if kind == TREND:
        u, w2 = np.cumsum(np.minimum(rate * (1.0 + 1j * IMAGINARY) * gaps, LONGEST_GAP)), WIDE * WIDE
        earlier = np.minimum(u[:, None], u)
        slope = earlier + 1.5 * earlier * earlier / w2  # the covariance of level and slope at the earlier row
        level = 1.0 + earlier * earlier * (1.0 + earlier / w2) + (np.maximum(u[:, None], u) - earlier) * slope
        return level.real, level.imag / IMAGINARY
    times = np.cumsum(gaps)
    s = rate * np.abs(times[:, None] - times)
    a = np.exp(-s)
    if kind == DECAY:
        return a, -s * a
    if kind == MATERN32:
        return (1.0 + s) * a, -s * s * a
    return (1.0 + s + s * s / 3.0) * a, -s * s * (1.0 + s) / 3.0 * a


def dense(
    table: FloatArray,
    h: FloatArray,
    noise: float,
    gaps: FloatArray,
    Y: FloatArray,
    F: FloatArray,
    h_bar: FloatArray,
    rates: FloatArray,
) -> tuple[float, float, FloatArray]:
    """The same for rows (n, p), each a gap after the one before it, by their covariance: O(n^3).

    Beside the kernel are features F (n, k), whose weights are N(0, I). Returns the gradient by the logarithms of their
    variances, too.
    """
    (n, p), starts = Y.shape, table[:, START].astype(int)
    parts = list(shared(table, h, gaps))
    K = sum((part.shape * (part.rows @ part.rows.T) for part in parts), F @ F.T + noise * np.eye(n))
    R, failed = factorize(K)
    if failed:
        return np.nan, 0.0, np.zeros(F.shape[1])
    z = solve_transposed(R, Y)
    value = -0.5 * np.sum(z * z) - p * (np.sum(np.log(np.diag(R))) + 0.5 * n * np.log(2.0 * np.pi))
    alpha = solve(R, z)
    W = 0.5 * (alpha @ alpha.T - p * symmetric(outer(inverse(R)).T))  # d log p / d K
    for blocks, shape, slope, rows in parts:
        by_variance, by_rate = (
            np.sum(rows * (weights @ rows), axis=0).reshape(2, blocks.size).sum(axis=0)
            for weights in (W * shape, W * slope)
        )
        h_bar[starts[blocks]] += 2.0 * by_variance / h[starts[blocks]]
        rates[blocks] += by_rate
    return float(value), float(np.trace(W)), np.sum(F * (W @ F), axis=0)
