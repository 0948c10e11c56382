"""Rebase: when hyperparameters move, the posterior goes over to the new prior with all it has absorbed.

What the data said is a pseudo-observation of the basis values with covariance (-C)^-1 - K. It stays; the prior under it
changes from K to K', and the noise by a factor r. In coordinates in which K = R'R is the identity,

    A = r I - C (B - r I)      B = R^-T K' R^-1      C' = A^-1 C      alpha' = A^-1 alpha

and no inverse of C or of a difference is needed. With room for every point this equals the batch GP under the new
hyperparameters.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp.compiled import compiled
from streamgp.linalg import triangular

Array = NDArray


@compiled
def relative_prior(R: Array, K: Array, n: int, B: Array) -> None:
    """B = R^-T K R^-1 for a symmetric K, full."""
    half = np.empty((n, n))
    for i in range(n):  # row i of half is R^-T K e_i
        triangular.solve_transposed(R, K[i], n, half[i])
    column = np.empty(n)
    for i in range(n):
        for j in range(n):
            column[j] = half[j, i]
        triangular.solve_transposed(R, column, n, B[i])


@compiled
def rebase(W: Array, a: Array, B: Array, r: float, n: int) -> bool:
    """Replace W = C and a = alpha, whitened by the old prior, by A^-1 C and A^-1 alpha; False if A is too bad."""
    A = np.zeros((n, n))
    for i in range(n):
        for k in range(n):
            t = W[i, k]
            for j in range(n):
                A[i, j] -= t * B[k, j]
        for j in range(n):
            A[i, j] += r * W[i, j]
        A[i, i] += r
    moved, mean = np.linalg.solve(A, W), np.linalg.solve(A, a)
    largest = worst = 0.0
    for i in range(n):
        for j in range(i + 1):
            largest = max(largest, abs(moved[i, j]))
            worst = max(worst, abs(moved[i, j] - moved[j, i]))
    # A^-1 C is symmetric; how far rounding leaves it from that tells how well A could be solved.
    if not worst <= 1e-6 * max(largest, 1e-300):
        return False
    for i in range(n):
        for j in range(n):
            W[i, j] = 0.5 * (moved[i, j] + moved[j, i])
        for j in range(a.shape[1]):
            a[i, j] = mean[i, j]
    return True
