"""Slopes: how the mean and the variance of the function change with the row that comes next.

With weights c over kernel functions (or over other features) the mean is c'k(B, x), and so is its slope c'dk/dx:

    d mean / dx = (R^-1 mu)' dk/dx        d variance / dx = 2 (R^-1 (S phi - phi))' dk/dx + d kappa / dx

because phi = R^-T k and the variance is phi'S phi + kappa - phi'phi. What is seen of the row follows from it through
the memory: a window hands over the row itself, a reservoir also the units that it drives. A LinearMean adds the slopes
of its features, with the same weights.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import Model, opened
from streamgp.compiled import CUBE, MATRIX, borrowed, compile_now, compiled, entry
from streamgp.kernels import program
from streamgp.linalg import triangular
from streamgp.process import features, fixed, growing, kept, memory, time
from streamgp.process.state import LAYOUT
from streamgp.process.stream import report, weights_in_use

Array = NDArray


@compiled
def predict(m: Model) -> float:
    """Predict the input seen; returns gamma2."""
    if m.covariance.shape[0] == 0:
        return kept.predict(m)[1]
    if m.plan.features == features.DICTIONARY:
        return growing.predict(m)[1]
    return fixed.predict(m)[1]


@compiled
def weigh(m: Model, n: int, first: bool, W: Array) -> None:
    """The weights over features of d mean, the same for all rows, then of d variance, into the rows of W."""
    p, q, mu, H = m.plan.outputs, m.plan.temporal, m.mu, m.h
    phi, noise = m.phi[q:], m.noise
    keeps_rows = m.covariance.shape[0] == 0
    whitened = m.plan.features == features.DICTIONARY or m.plan.features == features.POINTS
    for o in range(p if first else 0):
        for i in range(n):
            W[o, i] = mu[q + i, o]
    for j in range(m.plan.covariances):
        w = W[p + j]
        for i in range(n):
            known = 0.0 if keeps_rows or m.plan.least_squares else H[j, q + i]
            w[i] = 2.0 * (known - phi[i] if whitened else known)
    if m.plan.factored:
        for j in range(m.plan.covariances):
            R, one = m.covariance[j], m.plan.covariances > 1
            for o in range(j if one else 0, (j + 1 if one else p) if first else 0):
                triangular.solve(R, W[o], n, W[o])
            triangular.solve(R, W[p + j], n, W[p + j])
            for i in range(n):
                W[p + j, i] *= noise[j]
    elif whitened:
        R = m.factor
        for r in range(
            0 if first and not keeps_rows else p, W.shape[0]
        ):  # rows that are kept have such weights already
            triangular.solve(R, W[r], n, W[r])


@compiled
def differentiate(m: Model, n: int, W: Array, G: Array) -> None:
    """G[r] = sum_i W[r, i] d feature i / d seen; for a variance also that of the prior."""
    seen, phi, p = m.seen, m.phi[m.plan.temporal :], m.plan.outputs
    if m.plan.features == features.FOURIER:
        frequencies = m.frequencies
        D = frequencies.shape[0]
        for r in range(W.shape[0]):
            for j in range(seen.size):
                G[r, j] = 0.0
            for i in range(D):
                slope = phi[i] * W[r, D + i] - phi[D + i] * W[r, i]
                for j in range(seen.size):
                    G[r, j] += slope * frequencies[i, j]
        return
    if m.plan.features == features.LINEAR:
        for r in range(W.shape[0]):
            for j in range(seen.size):
                G[r, j] = m.plan.weight_scale * W[r, j]
        return
    operations, theta = m.operations, m.parameters
    program.input_gradient(operations, theta, m.basis[:n], seen, W, G)
    prior, alone, one = np.empty((1, seen.size)), seen.reshape(1, seen.size), np.ones((1, 1))
    program.input_gradient(operations, theta, alone, seen, one, prior)
    for r in range(p, W.shape[0]):
        for j in range(seen.size):  # k(x, x) changes on both sides
            G[r, j] += 2.0 * (1.0 + m.plan.jitter) * prior[0, j]


@compiled
def through_memory(m: Model, g: Array, out: Array) -> None:
    """From slopes by what is seen to those by the newest row."""
    past, seen, d = m.units, m.seen, out.size
    direct = seen.size >= past.size + d
    for j in range(d):
        out[j] = g[seen.size - d + j] if direct else 0.0
    W_i, retention = m.input, m.plan.retention
    for i in range(past.size):
        # seen = (1 - retention) tanh(...) + retention past, as memory.look() has it
        moved = (seen[i] - retention * past[i]) / (1.0 - retention)
        slope = g[i] * (1.0 - retention) * (1.0 - moved * moved)
        for j in range(d):
            out[j] += slope * W_i[i, j]


@compiled
def add_mean(m: Model, features: Array, by_mean: Array, by_variance: Array) -> None:
    """Add what the weights of the mean make of the slopes of its features, (weights, d)."""
    k, first, mu, H = m.plan.mean_weights, m.plan.temporal - m.plan.mean_weights, m.mu, m.h
    for i in range(k):
        for j in range(features.shape[1]):
            for o in range(m.plan.outputs):
                by_mean[o, j] += mu[first + i, o] * features[i, j]
            for c in range(m.plan.covariances):
                by_variance[c, j] += 2.0 * H[c, first + i] * features[i, j]


@entry(LAYOUT.type, MATRIX, MATRIX, MATRIX, CUBE, MATRIX, CUBE, CUBE)
def run(
    records: Array,
    buffers: Array,
    X: Array,
    conditions: Array,
    of_features: Array,
    out: Array,
    by_mean: Array,
    by_variance: Array,
) -> None:
    """Predict rows that would each come next into out, as the loop of all rows does, and their slopes, (n, ., d).

    The slopes of the features of a LinearMean are given, (n, weights, d).
    """
    m, X, out = opened(records, buffers, 0), borrowed(X), borrowed(out)
    p, n, power = m.plan.outputs, weights_in_use(m), m.power
    seen, d = m.seen, m.window.shape[1]
    W, G = np.empty((p + m.plan.covariances, n)), np.empty((p + m.plan.covariances, seen.size))
    for t in range(X.shape[0]):
        memory.look(m, X[t, :d], seen)
        if m.plan.temporal > 0:
            time.arrive(m, X[t], conditions, t, False)
        gamma2 = predict(m)
        report(m, t, out)
        if out.shape[0] > p + 2 * m.plan.covariances:
            time.report_components(m, n, gamma2, t, out)
        weigh(m, n, t == 0, W)
        differentiate(m, n, W, G)
        for o in range(p):
            through_memory(m, G[o], by_mean[t, o])
        for j in range(m.plan.covariances):
            through_memory(m, G[p + j], by_variance[t, j])
        add_mean(m, of_features[t], by_mean[t], by_variance[t])
        for j in range(m.plan.covariances):
            if m.plan.power and power[1, j] > 0.0:
                for i in range(d):
                    by_variance[t, j, i] *= power[0, j] / power[1, j]
    m.last_prediction[0] = 0.0  # the work space is that of another row


@cache
def prepare() -> None:
    """Compile, once in a process."""
    compile_now(run)
