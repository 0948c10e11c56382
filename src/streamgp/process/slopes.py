"""Slopes: how the mean and the variance of the function change with the row that comes next.

With weights c over kernel functions (or over other features) the mean is c'k(B, x), and so is its slope c'dk/dx:

    d mean / dx = (R^-1 mu)' dk/dx        d variance / dx = 2 (R^-1 (S phi - phi))' dk/dx + d kappa / dx

because phi = R^-T k and the variance is phi'S phi + kappa - phi'phi. What is seen of the row follows from it through
the memory: a window hands over the row itself, a reservoir also the units that it drives. A LinearMean adds the slopes
of its features, with the same weights.
"""

from __future__ import annotations

import numpy as np

from streamgp.compiled import compile_now
from streamgp.kernels import program
from streamgp.linalg.dense import solve
from streamgp.process import features, memory
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
    compile_now(memory.walk, program.matrix, program.input_gradient)
    function, (p, d) = Function(model), (model._state.mu.shape[1], X.shape[1])
    Z = Pasts(model, len(X)).advance(X)
    moments, which = np.unique(times, return_inverse=True)
    over_time = np.vstack([function.ahead(moments[i : i + 1])[0] for i in range(len(moments))])[which]
    Phi, t = function.features(Z), over_time.shape[1]
    H = np.hstack([function.beside(over_time, X), Phi]) @ function.S
    if function.has_residual:
        H[..., t:] -= Phi
    # Weights over all features: of the means, the same for all rows, then of the variances.
    of_means = np.broadcast_to(function.mu.T, (len(X), *function.mu.T.shape))
    W = np.concatenate([of_means, 2.0 * H.transpose(1, 0, 2)], axis=1)
    out = through_memory(model, Z, by_seen(model, function, Z, Phi, W[..., t:]), d)
    if (linear := model._linear) is not None:
        weights = linear.scales(d)[:, None] * linear.slopes(X)
        out += W[..., t - weights.shape[1] : t] @ weights
    return out[:, :p], function.power[:, None] * out[:, p:]


def by_seen(model: Process, function: Function, Z: FloatArray, Phi: FloatArray, W: FloatArray) -> FloatArray:
    """sum_i W[., r, i] d feature i / d seen, (n, r, width), with W (n, r, features); for variances also the prior's."""
    state, kind = model._state, model._features.kind
    if kind == features.FOURIER:
        D = len(state.frequencies)
        return (Phi[:, None, :D] * W[..., D:] - Phi[:, None, D:] * W[..., :D]) @ state.frequencies  # type: ignore[no-any-return]
    if kind == features.LINEAR:
        return model._numbers.plan["weight_scale"][0] * W[..., : Z.shape[1]]  # type: ignore[no-any-return]
    bound = model._numbers.work.operations, state.parameters
    of_kernels = solve(function.factor, W.reshape(-1, W.shape[2]).T).T.reshape(W.shape)
    out, alone, prior = np.empty((*W.shape[:2], Z.shape[1])), np.ones((1, 1)), np.empty((1, Z.shape[1]))
    for z, weights, slope in zip(Z, np.ascontiguousarray(of_kernels), out, strict=True):
        program.input_gradient(*bound, function.points, z, weights, slope)
        program.input_gradient(*bound, z[None], z, alone, prior)
        slope[state.mu.shape[1] :] += 2.0 * (1.0 + model._features.jitter) * prior  # k(x, x) changes on both sides
    return out


def through_memory(model: Process, Z: FloatArray, g: FloatArray, d: int) -> FloatArray:
    """From slopes by what is seen, (n, r, width), to those by the newest row, (n, r, d)."""
    past, retention = model._state.units, model._memory.retention
    own = g[..., g.shape[2] - d :] if model._memory.augment else np.zeros((*g.shape[:2], d))
    # seen = (1 - retention) tanh(...) + retention past, as memory.look() has it
    moved = (Z[:, None, : past.size] - retention * past) / (1.0 - retention)
    return own + (g[..., : past.size] * (1.0 - retention) * (1.0 - moved**2)) @ model._state.input  # type: ignore[no-any-return]
