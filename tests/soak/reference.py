"""SOGP with Q = K^-1 computed anew by a Cholesky factor at every change of the basis: slow, and nothing can drift.

Written from [soh2014] Eqs. (15)-(28), compiled on its own so that a million rows take minutes.
"""

from __future__ import annotations

import ctypes

import numba
import numpy as np
from numba.extending import get_cython_function_address


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
def fresh_inverse(B, n, lengthscale, jitter):
    Q = np.empty((n, n))
    for i in range(n):
        Q[i, i:] = kernel_vector(B[i:], n - i, B[i], lengthscale)
        Q[i, i] += jitter
    size, info, lower = np.array([n], np.int32), np.zeros(1, np.int32), np.array([ord("L")], np.uint8)
    dpotrf(lower.ctypes, size.ctypes, Q.ctypes, size.ctypes, info.ctypes)
    dpotri(lower.ctypes, size.ctypes, Q.ctypes, size.ctypes, info.ctypes)
    for i in range(n):
        for j in range(i):
            Q[i, j] = Q[j, i]
    return Q


@numba.njit
def track(X, y, lengthscale, noise, jitter, capacity, novelty, by_error):
    """Means, latent variances, evicted indices (-1: none), and how near the runner-up's score was at each eviction."""
    n_rows, d = X.shape
    mean, variance = np.empty(n_rows), np.empty(n_rows)
    evicted, gap = np.full(n_rows, -1), np.full(n_rows, np.inf)
    B = np.empty((capacity + 1, d))
    a, C, Q = np.zeros(0), np.zeros((0, 0)), np.zeros((0, 0))
    n = 0
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
            n += 1
            a2, C2 = np.zeros(n), np.zeros((n, n))
            a2[: n - 1], C2[: n - 1, : n - 1] = a, C
            a, C = a2 + w * h, C2 - np.outer(h, h) / s
            Q = fresh_inverse(B, n, lengthscale, jitter)
        else:
            h = g + e
            a, C = a + w * h, C - np.outer(h, h) / s
        if n > capacity:
            score = np.empty(n)
            for i in range(n):
                score[i] = abs(a[i]) / (Q[i, i] if by_error else Q[i, i] + C[i, i])
            r = np.argmin(score)
            two = np.sort(score)[:2]
            evicted[t], gap[t] = r, (two[1] - two[0]) / max(two[1], 1e-300)
            keep = np.concatenate((np.arange(r), np.arange(r + 1, n)))
            q, c, qs, cs, a_r = Q[keep, r], C[keep, r], Q[r, r], C[r, r], a[r]
            a = a[keep] - a_r * q / qs
            C = C[keep][:, keep] + cs * np.outer(q, q) / qs**2 - (np.outer(q, c) + np.outer(c, q)) / qs
            for i in range(r, n - 1):
                B[i] = B[i + 1]
            n -= 1
            Q = fresh_inverse(B, n, lengthscale, jitter)
    return mean, variance, evicted, gap
