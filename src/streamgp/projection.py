"""Projection: the posterior of many rows at once, put into a stream model that has learnt nothing.

With fixed features phi of prior I the weights given all rows are N(a, (I + A)^-1), A = Phi' Phi / noise. On basis
points phi = R^-T k(B, x) with K = R'R, and this is the process of the rows projected on the points (DTC); with every
row a basis point it is the exact process.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from streamgp.budget import GAMMA2_FLOOR
from streamgp.core import layout
from streamgp.features import Fourier
from streamgp.kernels import Kernel
from streamgp.onlinegp import OnlineGP
from streamgp.settings import FloatArray


def spread_points(kernel: Kernel, X: FloatArray, count: int, jitter: float = 0.0) -> FloatArray:
    """Rows that leave the least unexplained: each is the one with the largest residual given those before.

    Fewer than ``count`` where arithmetic can tell no more of them from the span of the others.
    """
    residual = kernel.diagonal(X) + jitter
    least = GAMMA2_FLOOR * residual.max()
    rows: list[int] = []
    V = np.empty((min(count, len(X)), len(X)))  # of a pivoted Cholesky factorisation
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
    d, p = X.shape[1], Y.shape[1]
    model._start(d, p)
    model._d, model._p, model._scalar, model._certain = d, p, False, True
    state, parts = model._state, model._features
    relative = model._forgetting.relative_to_prior
    if isinstance(parts, Fourier):
        angles = X @ state.frequencies.T
        Phi = np.sqrt(parts.variance / parts.features) * np.hstack([np.cos(angles), np.sin(angles)])
        R = None
    else:
        assert parts.kernel is not None
        assert points is not None
        m = len(points)
        K = parts.kernel(points) + parts.jitter * np.eye(m)
        R = np.linalg.cholesky(K).T
        Phi = solve_triangular(R, parts.kernel(points, X), trans="T", check_finite=False).T
        state.basis[:m] = points
        state.factor[:m, :m] = R
        inverse = solve_triangular(R, np.eye(m), check_finite=False)
        state.inverse_diagonal[:m] = np.sum(inverse * inverse, axis=1)
        model._counters[layout.SIZE] = m
    for j, noise in enumerate(state.noise):
        first, last = (j, j + 1) if state.noise.size > 1 else (0, p)
        A = Phi.T @ Phi / noise
        factor = cho_factor(A + np.eye(len(A)), lower=True, check_finite=False)
        a = cho_solve(factor, Phi.T @ Y[:, first:last] / noise, check_finite=False)
        # (I + A)^-1, or its difference from the prior, -(I + A)^-1 A
        M = cho_solve(factor, -A if relative else np.eye(len(A)), check_finite=False)
        if R is not None:
            a = solve_triangular(R, a, check_finite=False)
            M = solve_triangular(R, solve_triangular(R, M, check_finite=False).T, check_finite=False)
        m = len(M)
        state.mean[:m, first:last] = a
        state.covariance[j, :m, :m] = np.tril(0.5 * (M + M.T))
        if model._adapt is not None:  # these rows count without a residual
            state.adapt.residual[:, j] = len(X) / noise, len(X)
    model._counters[layout.ROWS_SEEN] = len(X)
