"""The log evidence of a series under a kernel over time, with its gradient by the adjoint of the filter.

Rows that are equally far apart and complete have a quick way. The predicted covariance P of a model that does not
change with time grows by terms of low rank, P' - P = Y M Y', and its gain follows from Y and M alone: O(q) a row
instead of O(q^2) [morf1974]. The prior of a stationary kernel is its own stationary covariance, so that the rank is 1;
a trend adds 2. Other rows run the filter itself; the way back has its covariances from checkpoints.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp.compiled import MATRIX, NUMBER, VECTOR, compiled, entry
from streamgp.kernels.temporal import DECAY, HARMONIC, LONGEST_GAP, MATERN32, TREND, WIDE
from streamgp.linalg.symmetric import multiply, scale_and_subtract
from streamgp.linalg.vector import dot
from streamgp.process.time import KIND, N32, N52, RATE, SIZES, START, move_covariance, rotate, steps

Array = NDArray
Sums = tuple[float, float]

STRETCH = 32  # rows between two checkpoints


@compiled
def step_slope(kind: int, A: Array, s: float, dA: Array, dQ: Array) -> None:
    """d A / d s and d Q / d s of one block, s = rate dt."""
    size = SIZES[kind]
    if kind == DECAY or kind == HARMONIC:
        for i in range(size):
            for j in range(size):
                dA[i, j], dQ[i, j] = -A[i, j], 0.0
            dQ[i, i] = 2.0 * np.exp(-2.0 * s)
    elif kind == TREND:
        dA[0, 0] = dA[1, 1] = dA[1, 0] = 0.0
        dA[0, 1] = 1.0 if s < LONGEST_GAP else 0.0  # a longer gap adds nothing
        dQ[0, 0], dQ[1, 1] = dA[0, 1] * 3.0 * s * s / (WIDE * WIDE), dA[0, 1] * 3.0 / (WIDE * WIDE)
        dQ[0, 1] = dQ[1, 0] = dA[0, 1] * 3.0 * s / (WIDE * WIDE)
    else:  # A = exp(s (N - I)), Q = I - A A'
        N = N32 if kind == MATERN32 else N52
        for i in range(size):
            for j in range(size):
                dA[i, j] = dot(N[i], A[:, j], size) - A[i, j]
        for i in range(size):
            for j in range(size):
                dQ[i, j] = -dot(dA[i], A[j], size) - dot(A[i], dA[j], size)


@compiled
def transpose(A: Array, out: Array) -> None:
    """The blocks of A', with which rotate() goes back."""
    for b in range(A.shape[0]):
        for i in range(3):
            for j in range(3):
                out[b, i, j] = A[b, j, i]


@compiled
def gather(table: Array, left: Array, right: Array, out: Array) -> None:
    """Add the blocks of left right' to out."""
    for b in range(table.shape[0]):
        i, size = int(table[b, START]), SIZES[int(table[b, KIND])]
        for j in range(size):
            for k in range(size):
                out[b, j, k] += left[i + j] * right[i + k]


@compiled
def add_rates(table: Array, dt: float, A: Array, A_bar: Array, Q_bar: Array, rates: Array) -> None:
    """Add d / d log(rate) of every block, by way of its A and Q for the time dt."""
    dA, dQ = np.empty((3, 3)), np.empty((3, 3))
    for b in range(table.shape[0]):
        kind, s = int(table[b, KIND]), table[b, RATE] * dt
        step_slope(kind, A[b], s, dA, dQ)
        total, size = 0.0, SIZES[kind]
        for i in range(size):
            for j in range(size):
                total += A_bar[b, i, j] * dA[i, j] + Q_bar[b, i, j] * dQ[i, j]
        rates[b] += s * total


@entry(MATRIX, VECTOR, NUMBER, NUMBER, MATRIX, VECTOR, VECTOR)
def regular(
    table: Array, h: Array, noise: float, dt: float, Y: Array, h_bar: Array, rates: Array
) -> tuple[float, float]:
    """The log evidence of rows (n, p) that are dt apart, and d / d noise; NaN where rounding spoiled the recursion.

    Adds its gradients for the features to h_bar and for the logarithms of the blocks' rates to rates.
    """
    n, p, q, blocks = Y.shape[0], Y.shape[1], h.size, table.shape[0]
    A, Q, A_back = np.zeros((blocks, 3, 3)), np.zeros((blocks, 3, 3)), np.zeros((blocks, 3, 3))
    steps(table, dt, A, Q)
    transpose(A, A_back)
    rank = 1
    for b in range(blocks):
        if int(table[b, KIND]) == TREND:
            rank += 2
    last = rank - 1
    a, K, V = np.zeros((n + 1, p, q)), np.zeros((n + 1, q)), np.zeros((n + 1, rank, q))
    M, s = np.zeros((n + 1, rank, rank)), np.zeros(n + 1)
    # P_1 = I, and P_2 - P_1 = A A' + Q - I - A h h' A' / s: without a trend only the last term is not 0.
    s[0] = dot(h, h, q) + noise
    K[0] = h
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
    w, z, u, c = np.zeros(rank), np.zeros(rank), np.zeros(q), np.zeros(q)
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
        K[t + 1] = K[t]
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
    a_bar, K_bar, V_bar, V_old = np.zeros((p, q)), np.zeros(q), np.zeros((rank, q)), np.zeros((rank, q))
    M_bar, A_bar, Q_bar = np.zeros((rank, rank)), np.zeros((blocks, 3, 3)), np.zeros((blocks, 3, 3))
    w_bar, z_bar, s_bar = np.zeros(rank), np.zeros(rank), 0.0
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
            V_bar[r] = V_old[r]
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
    add_rates(table, dt, A, A_bar, Q_bar, rates)
    return value, s_bar


@compiled
def mirror(S: Array) -> None:
    """Fill the upper triangle."""
    for i in range(S.shape[0]):
        for j in range(i):
            S[j, i] = S[i, j]


@compiled
def forward(
    table: Array, h: Array, noise: float, y: Array, A: Array, Q: Array, m: Array, P: Array, K: Array, v: Array
) -> float:
    """Move the posterior (m, P) to what is predicted; fill K = P h and the innovations v; return their variance."""
    q = h.size
    for o in range(y.size):
        rotate(table, A, m[o], m[o])
        v[o] = y[o] - dot(h, m[o], q)
    move_covariance(table, A, Q, P, q)
    multiply(P, h, q, K)
    return dot(h, K, q) + noise


@compiled
def condition(K: Array, v: Array, s: float, m: Array, P: Array) -> None:
    """The posterior of a row from what was predicted."""
    for o in range(v.size):
        for i in range(K.size):
            m[o, i] += K[i] * v[o] / s
    scale_and_subtract(P, 1.0, K, 1.0 / s, K.size)


@entry(MATRIX, VECTOR, NUMBER, VECTOR, MATRIX, MATRIX, VECTOR)
def innovations(table: Array, h: Array, noise: float, gaps: Array, Y: Array, V: Array, s: Array) -> None:
    """V and s: what the rows before do not tell of each row (n, p), a gap after the one before it; its variance."""
    blocks, q = table.shape[0], h.size
    A, Q = np.zeros((blocks, 3, 3)), np.zeros((blocks, 3, 3))
    m, P, K = np.zeros((Y.shape[1], q)), np.eye(q), np.zeros(q)
    for t in range(gaps.size):
        if t == 0 or gaps[t] != gaps[t - 1]:
            steps(table, gaps[t], A, Q)
        s[t] = forward(table, h, noise, Y[t], A, Q, m, P, K, V[t])
        condition(K, V[t], s[t], m, P)


@entry(MATRIX, VECTOR, NUMBER, VECTOR, MATRIX, VECTOR, VECTOR)
def irregular(
    table: Array, h: Array, noise: float, gaps: Array, Y: Array, h_bar: Array, rates: Array
) -> tuple[float, float]:
    """The same for rows (n, p), each a gap after the one before it. Of P the lower triangle counts."""
    n, p, q, blocks = Y.shape[0], Y.shape[1], h.size, table.shape[0]
    A, Q, A_back = np.zeros((blocks, 3, 3)), np.zeros((blocks, 3, 3)), np.zeros((blocks, 3, 3))
    no_Q = np.zeros((blocks, 3, 3))
    stretches = (n + STRETCH - 1) // STRETCH
    m_kept, P_kept = np.zeros((stretches, p, q)), np.zeros((stretches, q, q))
    m, P, K, v = np.zeros((p, q)), np.eye(q), np.zeros(q), np.zeros(p)
    value = 0.0
    for t in range(n):
        if t % STRETCH == 0:
            m_kept[t // STRETCH], P_kept[t // STRETCH] = m, P
        steps(table, gaps[t], A, Q)
        s = forward(table, h, noise, Y[t], A, Q, m, P, K, v)
        if not s > 0.0:
            return np.nan, 0.0
        value -= 0.5 * (p * np.log(2.0 * np.pi * s) + dot(v, v, p) / s)
        condition(K, v, s, m, P)
    # Backward, stretch by stretch. For each of its rows is kept what was known before it, and what it was predicted by.
    m_all, P_all = np.zeros((STRETCH, p, q)), np.zeros((STRETCH, q, q))
    m_then, P_then = np.zeros((STRETCH, p, q)), np.zeros((STRETCH, q, q))
    A_all, K_all = np.zeros((STRETCH, blocks, 3, 3)), np.zeros((STRETCH, q))
    v_all, s_all = np.zeros((STRETCH, p)), np.zeros(STRETCH)
    m_bar, P_bar, K_bar, noise_bar = np.zeros((p, q)), np.zeros((q, q)), np.zeros(q), 0.0
    A_bar, Q_bar, x = np.zeros((blocks, 3, 3)), np.zeros((blocks, 3, 3)), np.zeros(q)
    for stretch in range(stretches - 1, -1, -1):
        first, beyond = stretch * STRETCH, min(n, (stretch + 1) * STRETCH)
        m[:], P[:] = m_kept[stretch], P_kept[stretch]
        for t in range(first, beyond):
            r = t - first
            m_all[r], P_all[r] = m, P
            steps(table, gaps[t], A_all[r], Q)
            s_all[r] = forward(table, h, noise, Y[t], A_all[r], Q, m, P, K_all[r], v_all[r])
            m_then[r], P_then[r] = m, P
            condition(K_all[r], v_all[r], s_all[r], m, P)
        for r in range(beyond - first - 1, -1, -1):
            A, K, v, s, before_m, before_P = A_all[r], K_all[r], v_all[r], s_all[r], m_all[r], P_all[r]
            transpose(A, A_back)
            s_bar = -0.5 * p / s
            for i in range(q):
                x[i] = dot(P_bar[i], K, q)
                K_bar[i] = -2.0 * x[i] / s
            s_bar += dot(x, K, q) / s**2
            for o in range(p):
                along = dot(m_bar[o], K, q)
                v_bar = (along - v[o]) / s
                s_bar += (0.5 * v[o] - along) * v[o] / s**2
                for i in range(q):
                    K_bar[i] += m_bar[o, i] * v[o] / s
                    h_bar[i] -= v_bar * m_then[r, o, i]
                    m_bar[o, i] -= v_bar * h[i]
            noise_bar += s_bar
            for i in range(q):
                K_bar[i] += s_bar * h[i]
            multiply(P_then[r], K_bar, q, x)
            for i in range(q):
                h_bar[i] += s_bar * K[i] + x[i]
                for j in range(q):
                    P_bar[i, j] += 0.5 * (K_bar[i] * h[j] + h[i] * K_bar[j])
            A_bar[:], Q_bar[:] = 0.0, 0.0
            for o in range(p):
                gather(table, m_bar[o], before_m[o], A_bar)
                rotate(table, A_back, m_bar[o], m_bar[o])
            mirror(before_P)
            for b in range(blocks):
                i, size = int(table[b, START]), SIZES[int(table[b, KIND])]
                for k in range(size):  # the column of A S that belongs to the block's coordinate
                    rotate(table, A, before_P[i + k], x)
                    for j in range(size):
                        Q_bar[b, j, k] += P_bar[i + j, i + k]
                        A_bar[b, j, k] += 2.0 * dot(P_bar[i + j], x, q)
            add_rates(table, gaps[first + r], A, A_bar, Q_bar, rates)
            move_covariance(table, A_back, no_Q, P_bar, q)
            mirror(P_bar)
    return value, noise_bar
