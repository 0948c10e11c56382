"""Projection: the posterior of many rows at once, put into a stream model that has learned nothing.

With fixed features phi of prior I the weights given all rows are N(a, (I + A)^-1), A = Phi' Phi / noise. On basis
points phi = R^-T k(B, x) with K = R'R, and this is the process of the rows projected on the points (DTC); with every
row a basis point it is the exact process.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from streamgp.contract.model import Shape
from streamgp.kernels import Kernel
from streamgp.process.features import Fourier, fourier_features
from streamgp.process.onlinegp import OnlineGP
from streamgp.settings import FloatArray

# A point that the others explain but for this part of the largest prior variance is not worth a place.
DISTINCT = 1e-8


def spread_points(kernel: Kernel, X: FloatArray, count: int) -> FloatArray:
    """Rows that leave the least unexplained: each is the one with the largest residual given those before.

    Fewer than ``count`` where arithmetic can tell no more of them from the span of the others.
    """
    residual = kernel.diagonal(X)
    least = DISTINCT * residual.max()
    rows: list[int] = []
    V = np.empty((min(count, len(X)), len(X)))  # of a pivoted Cholesky factorization
    while len(rows) < len(V):
        i = int(np.argmax(residual))
        if residual[i] < least:
            break
        m = len(rows)
        column = kernel(X[i : i + 1], X)[0] - V[:m, i] @ V[:m]
        V[m] = column / np.sqrt(residual[i])
        residual = np.maximum(residual - V[m] ** 2, 0.0)
        residual[i] = -1.0
        rows.append(i)
    return np.array(X[np.sort(rows)])


def place(model: OnlineGP, X: FloatArray, Y: FloatArray, points: FloatArray | None = None) -> None:
    """Give a fresh model the posterior of rows X and targets Y (n, p); a growing basis starts on ``points``.

    The model's kernel, noise and forgetting are as they are; nothing of the rows has been forgotten yet. It has no
    memory, and its posterior is in the covariance form.
    """
    p = Y.shape[1]
    model._prepare(Shape(X.shape[1], p, scalar=False, certain=True))
    state, parts = model._state, model._features
    if isinstance(parts, Fourier):
        Phi = fourier_features(state.frequencies, parts.variance, X)
    else:
        assert parts.kernel is not None
        assert points is not None
        m = len(points)
        K = parts.kernel(points) * (1.0 + parts.jitter * np.eye(m))
        R = np.linalg.cholesky(K).T
        Phi = solve_triangular(R, parts.kernel(points, X), trans="T", check_finite=False).T
        state.basis[:m] = points
        state.prior[:m] = np.diag(K)
        state.factor[:m, :m] = R
        inverse = solve_triangular(R, np.eye(m), check_finite=False)
        state.inverse_diagonal[:m] = np.sum(inverse * inverse, axis=1)
        model._numbers.counters["points"] = m
    for j, noise in enumerate(state.noise):
        first, last = (j, j + 1) if state.noise.size > 1 else (0, p)
        A = Phi.T @ Phi / noise
        m = len(A)
        factor = cho_factor(A + np.eye(m), lower=True, check_finite=False)
        state.mu[:m, first:last] = cho_solve(factor, Phi.T @ Y[:, first:last] / noise, check_finite=False)
        S = cho_solve(factor, np.eye(m), check_finite=False)
        state.covariance[j, :m, :m] = np.tril(0.5 * (S + S.T))
        if len(state.weight_variance):
            state.weight_variance[j, :m] = np.einsum("ij,jk,ik->i", inverse, S, inverse)
        if model._adapt is not None:  # these rows count without a residual
            state.residual[:, j] = len(X) / noise, len(X)
    model._numbers.counters["rows_seen"] = len(X)
