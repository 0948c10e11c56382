"""What the sparse models share: y ~ N(0, S) with S = Phi Phi' + diag(lam), for m features of every row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

from streamgp.settings import FloatArray


class LowRank(NamedTuple):
    """The posterior of the weights of features, whose prior is N(0, I)."""

    Phi: FloatArray  # (n, m)
    lam: FloatArray  # (n,)
    M: FloatArray  # I + Phi' diag(1/lam) Phi = M M'
    b: FloatArray  # M^-1 Phi' diag(1/lam) Y
    value: float


def solve(Phi: FloatArray, lam: FloatArray, Y: FloatArray) -> LowRank:
    scaled = Phi.T / lam
    M = cholesky(np.eye(len(scaled)) + scaled @ Phi, lower=True, check_finite=False)
    b = solve_triangular(M, scaled @ Y, lower=True, check_finite=False)
    n, p = Y.shape
    # Woodbury: S^-1 = lam^-1 - lam^-1 Phi (M M')^-1 Phi' lam^-1
    quadratic = np.sum(Y * Y / lam[:, None]) - np.sum(b * b)
    determinant = np.sum(np.log(lam)) + 2.0 * np.sum(np.log(np.diag(M)))
    value = -0.5 * quadratic - 0.5 * p * (determinant + n * np.log(2.0 * np.pi))
    return LowRank(Phi, lam, M, b, float(value))


def derivative(solution: LowRank, Y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """W Phi and the diagonal of W = d log p / d S."""
    Phi, lam, M, b, _ = solution
    p = Y.shape[1]
    alpha = (Y - Phi @ solve_triangular(M, b, lower=True, trans="T", check_finite=False)) / lam[:, None]
    # W = 1/2 (alpha alpha' - p S^-1), where S^-1 Phi = lam^-1 Phi (M M')^-1
    SPhi = Phi @ cho_solve((M, True), np.eye(len(M)), check_finite=False) / lam[:, None]
    diagonal = (1.0 - np.sum(SPhi * Phi, axis=1)) / lam
    return 0.5 * (alpha @ (alpha.T @ Phi) - p * SPhi), 0.5 * (np.sum(alpha * alpha, axis=1) - p * diagonal)


def predict(solution: LowRank, Phi: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The means and the variances of features times weights."""
    U = solve_triangular(solution.M, Phi.T, lower=True, check_finite=False)
    return U.T @ solution.b, np.sum(U * U, axis=0)
