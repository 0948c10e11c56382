"""Slopes: how the mean and the variance of the function change with the row that comes next.

With weights c over kernel functions (or over other features) the mean is c'k(B, x), and so is its slope c'dk/dx:

    d mean / dx = (R^-1 mu)' dk/dx        d variance / dx = 2 (R^-1 (S phi - phi))' dk/dx + d kappa / dx

because phi = R^-T k and the variance is phi'S phi + kappa - phi'phi. What is seen of the row follows from it through
the memory: a window hands over the row itself, a reservoir also the units that it drives. A LinearMean adds the slopes
of its features, with the same weights.
"""

from __future__ import annotations

import numpy as np

from streamgp.linalg.dense import solve
from streamgp.process import features
from streamgp.process.joint import Function, Pasts
from streamgp.process.state import Process
from streamgp.settings import FloatArray


def slopes(model: Process, X: FloatArray, times: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The slopes of the means, (n, p, d), and of the variances, (n, covariances, d), by rows that would come next.

    Args:
        model: the process.
        X: (n, d) rows.
        times: (n,) of the rows.
    """
    function, linear, (n, d), p = Function(model), model._linear, X.shape, model._state.mu.shape[1]
    beside = function.beside(np.vstack([function.ahead(times[i : i + 1])[0] for i in range(n)]), X)
    Z, t, out = Pasts(model, n).advance(X), beside.shape[1], np.empty((n, p + function.noise.size, d))
    if linear is not None:
        by_mean = linear.scales(d)[:, None] * linear.slopes(X)
    for i, z in enumerate(Z):  # row by row, so that a row's slopes do not depend on the others
        phi = function.features(z[None])[0]
        H = function.S @ np.append(beside[i], phi)
        if function.has_residual:
            H[:, t:] -= phi
        W = np.vstack([function.mu.T, 2.0 * H])  # over all features: of the means, then of the variances
        out[i] = through_memory(model, z, by_seen(model, function, z, phi, W[:, t:]), d)
        if linear is not None:
            out[i] += W[:, t - by_mean.shape[1] : t] @ by_mean[i]
    return out[:, :p], function.power[:, None] * out[:, p:]


def by_seen(model: Process, function: Function, z: FloatArray, phi: FloatArray, W: FloatArray) -> FloatArray:
    """sum_i W[., i] d feature i / d seen, (r, width), with W (r, features); for variances also the prior's."""
    state, kind = model._state, model._features.kind
    if kind == features.FOURIER:
        D = len(state.frequencies)
        return (phi[:D] * W[:, D:] - phi[D:] * W[:, :D]) @ state.frequencies  # type: ignore[no-any-return]
    if kind == features.LINEAR:
        return model._numbers.plan["weight_scale"][0] * W[:, : z.size]  # type: ignore[no-any-return]
    kernel, jitter = function.program, model._features.jitter
    of_prior = np.where(np.arange(len(W)) < state.mu.shape[1], 0.0, 2.0 * (1.0 + jitter))  # k(x, x) has x on both sides
    weights = np.vstack([solve(function.factor, W.T), of_prior])
    return (kernel.input_gradient(np.vstack([function.points, z]), z) @ weights).T  # type: ignore[no-any-return]


def through_memory(model: Process, z: FloatArray, g: FloatArray, d: int) -> FloatArray:
    """From slopes by what is seen, (r, width), to those by the newest row, (r, d)."""
    past, retention = model._state.units, model._memory.retention
    own = g[:, g.shape[1] - d :] if model._memory.augment else np.zeros((len(g), d))
    if past.size == 0:
        return own
    # seen = (1 - retention) tanh(...) + retention past, as memory.look() has it
    moved = (z[: past.size] - retention * past) / (1.0 - retention)
    return own + (g[:, : past.size] * (1.0 - retention) * (1.0 - moved**2)) @ model._state.input  # type: ignore[no-any-return]
