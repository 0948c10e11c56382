"""SOGP with Q = K^-1 computed anew by a Cholesky factor after every `FRESH` changes of the basis: nothing can drift.

Written from [soh2014] Eqs. (15)-(28), compiled on its own so that a million rows take minutes. Between two factors Q
follows the basis by the inverse of a partitioned matrix, from the last Q that was computed anew.
"""

from __future__ import annotations

import ctypes

import numba
import numpy as np
from numba.extending import get_cython_function_address

FRESH = 10
SMALL = 1e-3  # a residual below which the partitioned inverse would lose digits: Q is computed anew


@numba.njit
def kernel_vector(B, n, x, lengthscale):
    out = np.empty(n)
    for i in range(n):
        r2 = 0.0
        for j in range(x.size):
            r2 += (B[i, j] - x[j]) ** 2
        out[i] = np.exp(-0.5 * r2 / lengthscale**2)
    return out


def lapack(name):
    pointers = [ctypes.c_void_p] * 5
    return ctypes.CFUNCTYPE(None, *pointers)(get_cython_function_address("scipy.linalg.cython_lapack", name))


dpotrf, dpotri = lapack("dpotrf"), lapack("dpotri")


@numba.njit
def inverse(K, n):
    Q = K[:n, :n].copy()
    size, info, lower = np.array([n], np.int32), np.zeros(1, np.int32), np.array([ord("L")], np.uint8)
    dpotrf(lower.ctypes, size.ctypes, Q.ctypes, size.ctypes, info.ctypes)
    dpotri(lower.ctypes, size.ctypes, Q.ctypes, size.ctypes, info.ctypes)
    for i in range(n):
        for j in range(i):
            Q[i, j] = Q[j, i]
    return Q


@numba.njit
def with_point(Q, e, gamma):
    """Q of one more point, whose residual is gamma: e = Q k."""
    n = e.size
    out = np.empty((n + 1, n + 1))
    for i in range(n):
        out[i, :n] = Q[i] + e[i] / gamma * e
        out[i, n] = out[n, i] = -e[i] / gamma
    out[n, n] = 1.0 / gamma
    return out


@numba.njit
def without(A, n, r):
    """The first n rows and columns of A but for those of point r."""
    out = np.empty((n - 1, n - 1))
    for i in range(n - 1):
        row = A[i + (i >= r)]
        out[i, :r], out[i, r:] = row[:r], row[r + 1 : n]
    return out


@numba.njit
def track(X, y, lengthscale, noise, jitter, capacity, novelty, by_error):
    """Means, latent variances, evicted indices (-1: none), and how near the runner-up's score was at each eviction."""
    n_rows, d = X.shape
    mean, variance = np.empty(n_rows), np.empty(n_rows)
    evicted, gap = np.full(n_rows, -1), np.full(n_rows, np.inf)
    B, K = np.empty((capacity + 1, d)), np.empty((capacity + 1, capacity + 1))
    a, C, Q = np.zeros(0), np.zeros((0, 0)), np.zeros((0, 0))
    n = changes = 0
    kxx = 1.0 + jitter
    for t in range(n_rows):
        k = kernel_vector(B, n, X[t], lengthscale)
        g, e = C @ k, Q @ k
        mean[t], variance[t] = k @ a, kxx + k @ g
        gamma = kxx - k @ e
        s = variance[t] + noise
        w = (y[t] - mean[t]) / s
        if gamma >= max(novelty * kxx, jitter):
            h = np.append(g, 1.0)
            B[n] = X[t]
            K[n, :n] = K[:n, n] = k
            K[n, n] = kxx
            n += 1
            a2, C2 = np.zeros(n), np.zeros((n, n))
            a2[: n - 1], C2[: n - 1, : n - 1] = a, C
            a, C = a2, C2
            changes += 1
            Q = inverse(K, n) if changes % FRESH == 0 or gamma < SMALL else with_point(Q, e, gamma)
        else:
            h = g + e
        a += w * h
        for i in range(n):
            C[i] -= h[i] / s * h
        if n > capacity:
            score = np.empty(n)
            for i in range(n):
                score[i] = abs(a[i]) / (Q[i, i] if by_error else Q[i, i] + C[i, i])
            r = np.argmin(score)
            two = np.sort(score)[:2]
            evicted[t], gap[t] = r, (two[1] - two[0]) / max(two[1], 1e-300)
            q, c, qs, cs, a_r = np.delete(Q[:, r], r), np.delete(C[:, r], r), Q[r, r], C[r, r], a[r]
            a = np.delete(a, r) - a_r * q / qs
            C, Q = without(C, n, r), without(Q, n, r)
            B[r : n - 1], K[: n - 1, : n - 1] = B[r + 1 : n].copy(), without(K, n, r)
            n -= 1
            changes += 1
            for i in range(n):
                C[i] += (cs * q[i] / qs**2 - c[i] / qs) * q - q[i] / qs * c
                Q[i] -= q[i] / qs * q
            if changes % FRESH == 0:
                Q = inverse(K, n)
    return mean, variance, evicted, gap
