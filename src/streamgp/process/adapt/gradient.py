"""The gradient of the log density of the next observation by log hyperparameters, and by the loadings of factors.

It is the gradient along the way the posterior really goes (move.py): with the kernel's hyperparameters

    d mean = dk'alpha + g'dK alpha       d v = dkappa + 2 dk'g + g'dK g       g = R^-1 (h - phi), alpha = R^-1 mu

and what was absorbed counts 1 / r as much when its noise is multiplied by r:

    d mean = -h'mu d log r               d v = -h'(h - phi) d log r
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import Model
from streamgp.compiled import compiled
from streamgp.kernels import program
from streamgp.linalg import triangular
from streamgp.linalg.symmetric import multiply
from streamgp.linalg.vector import copy, dot, fill
from streamgp.process import features
from streamgp.process.row import outputs_from

Array = NDArray


@compiled
def prepare(m: Model, n: int) -> None:
    """The derivatives of K on the frozen basis, lower triangles, and of the logarithm of its mean diagonal."""
    operations, theta = m.operations, m.parameters
    basis, scratch, growth = m.basis, m.kernel_scratch, m.growth
    value, gradient, total = m.values, m.d_k, 0.0
    by_inputs = n < 0  # not a literal False, for which Numba would compile it again
    for h in range(theta.size):
        growth[h] = 0.0
    for i in range(n):
        program.cross_gradient(operations, theta, basis, i + 1, basis[i], by_inputs, value, gradient, scratch)
        total += value[i]
        for h in range(theta.size):
            growth[h] += gradient[h, i]
            gradient[h, i] *= 1.0 + m.plan.jitter
            copy(gradient[h], i + 1, m.derivatives[h][i])
    for h in range(theta.size):
        growth[h] /= total
    m.prepared[0] = 1.0


@compiled
def gather(m: Model) -> None:
    """Add the gradient of the log density of the row that was just predicted, and its Fisher information."""
    theta, fourier, t = m.plan.theta, m.plan.features == features.FOURIER, m.plan.temporal
    n = features.weights_in_use(m)
    if not fourier and m.prepared[0] == 0.0:
        prepare(m, n)
    parameters, seen, slopes, by_mean, d_k, d_kappa = m.parameters, m.seen, m.slopes, m.by_mean, m.d_k, m.d_kappa
    count = parameters.size
    for c in range(m.plan.outputs):
        fill(slopes[0, c], theta, 0.0)
        fill(slopes[1, c], theta, 0.0)
    if not fourier:
        operations, scratch, alone, by_inputs = m.operations, m.kernel_scratch, seen.reshape(1, seen.size), n < 0
        program.cross_gradient(operations, parameters, m.basis, n, seen, by_inputs, m.values, d_k, scratch)
        one = m.kernel_value
        program.cross_gradient(operations, parameters, alone, one.size, seen, by_inputs, one, d_kappa, scratch)
    phi, mu, alpha, h, g, u = m.phi, m.old_mu, m.old_alpha, m.old_h, m.g, m.u
    for j in range(m.plan.covariances):
        first, last = outputs_from(m, j)
        if np.isnan(m.y[first]):
            continue
        weights(m, j, n, mu, alpha, h, g)
        # What the residuals of the learned rows add to their noise, on (harmonic) average.
        noise, sums, rest = m.noise[j], m.residual, 0.0
        if sums[1, j] > 0.0:
            rest = max(sums[1, j] / sums[0, j] - noise, 0.0)
        s = m.variance_now[j] + noise
        for i in range(theta):
            fill(by_mean[first:last], last - first, 0.0)
            by_variance = by_ratio = by_noise = 0.0
            if i >= count:
                if m.plan.covariances > 1 and i != count + j:
                    continue
                by_ratio, by_noise = noise / (noise + rest), noise
            elif fourier:  # the variance scales phi: dK = K = I, dk = phi
                by_variance = parameters[0] + 2.0 * dot(phi[t:], g, n) + dot(g, g, n)
                for c in range(first, last):
                    for k in range(t, t + n):
                        by_mean[c] += h[k] * mu[k, c]
            else:
                multiply(m.derivatives[i], g, n, u)
                by_variance = (1.0 + m.plan.jitter) * d_kappa[i, 0] + 2.0 * dot(d_k[i], g, n) + dot(g, u, n)
                for c in range(first, last):
                    for k in range(n):
                        by_mean[c] += (d_k[i, k] + u[k]) * alpha[k, c]
                by_ratio = rest / (noise + rest) * m.growth[i]
            if by_ratio != 0.0:
                for k in range(t + n):
                    by_variance -= by_ratio * h[k] * (h[k] - phi[k])
                    for c in range(first, last):
                        by_mean[c] -= by_ratio * h[k] * mu[k, c]
            for c in range(first, last):
                slopes[0, c, i] = by_mean[c] / np.sqrt(s)
                slopes[1, c, i] = np.sqrt(0.5) * (by_variance + by_noise) / s
    add_row(m)


@compiled
def add_row(m: Model) -> None:
    """Add a row's gradient and information.

    With z = e / sqrt(s) the gradient is the slopes of mean / sqrt(s) times z and those of log s / sqrt(2) times
    (z^2 - 1) / sqrt(2). Were the model right, these factors would have mean 0, variance 1 and no correlation, so the
    Fisher information is the slopes' own product. [soh2014] Eq. (50) takes the square of the gradient instead, which is
    as wrong as the model is: errors ten times too large make the steps of the noise a hundred times too small.
    """
    theta, gradient, fisher, e = m.plan.theta, m.gradient, m.fisher, 1.0 / m.plan.interval
    for i in range(theta):
        for k in range(theta):
            fisher[i, k] *= 1.0 - e
    for o in range(m.plan.outputs):
        if np.isnan(m.y[o]):
            continue
        j = o if m.plan.covariances > 1 else 0
        z = (m.y[o] - m.mean_now[o]) / np.sqrt(m.variance_now[j] + m.noise[j])
        by_mean, by_variance = m.slopes[0, o], m.slopes[1, o]
        for i in range(theta):
            # [soh2014] Eq. (46), ascending: the signs of (44), (47) and (48) clash.
            gradient[i] += z * by_mean[i] + np.sqrt(0.5) * (z * z - 1.0) * by_variance[i]
            for k in range(theta):
                fisher[i, k] += e * (by_mean[i] * by_mean[k] + by_variance[i] * by_variance[k])


@compiled
def weights(m: Model, j: int, n: int, mu: Array, alpha: Array, h: Array, g: Array) -> None:
    """mu and h = S phi of covariance j; on basis points alpha = R^-1 mu and g = R^-1 (h - phi), else g = h - phi.

    alpha and g are of the n weights, whose prior moves; in mu and h the coordinates of a kernel over time come first.
    """
    t = m.plan.temporal
    first, last = outputs_from(m, j)
    phi, state, one = m.phi, m.mu, m.score
    basis = m.plan.features != features.FOURIER
    if m.plan.factored:  # mu = R^-1 z and S = noise (R'R)^-1
        R, noise = m.covariance[j], m.noise[j]
        triangular.solve_transposed(R, phi, n, h)
        triangular.solve(R, h, n, h)
        for i in range(n):
            h[i] *= noise
    else:
        copy(m.h[j], t + n, h)
    for o in range(first, last):
        for i in range(n):
            one[i] = state[t + i, o]
        if m.plan.factored:
            triangular.solve(R, one, n, one)
        for i in range(t):
            mu[i, o] = state[i, o]
        for i in range(n):
            mu[t + i, o] = one[i]
        if basis:
            triangular.solve(m.factor, one, n, one)
            for i in range(n):
                alpha[i, o] = one[i]
    for i in range(n):
        g[i] = h[t + i] - phi[t + i]
    if basis:
        triangular.solve(m.factor, g, n, g)
