"""A fixed number of weights: Fourier features, a linear readout, given basis points."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import Model
from streamgp.compiled import compiled
from streamgp.linalg import triangular
from streamgp.linalg.symmetric import multiply
from streamgp.linalg.vector import dot
from streamgp.process import features, observation, posterior
from streamgp.process.row import add_residual, put_back
from streamgp.process.state import ABSORBED, NOTHING
from streamgp.process.time import clipped, pass_time, prior_variance

Array = NDArray


@compiled
def featurize(m: Model) -> tuple[float, float]:
    """Fill phi for the input seen; return kappa = k(x, x) and the residual gamma2."""
    seen, phi = m.seen, m.phi[m.plan.temporal :]
    if m.plan.features == features.FOURIER:
        variance = m.parameters[0]
        features.fourier(m.frequencies, variance, seen, phi)
        return variance, 0.0
    if m.plan.features == features.LINEAR:
        features.linear(seen, m.plan.weight_scale, phi)
        return dot(phi, phi, phi.size), 0.0
    n = m.plan.weights
    kappa = features.kernel_values(m, seen, n)
    gamma2 = features.whiten(m.factor, m.k, n, kappa, phi)
    return kappa, max(gamma2, 0.0)


@compiled
def predict(m: Model) -> tuple[float, float]:
    """Mean and latent variance of the input seen; returns kappa and gamma2."""
    n, phi = m.plan.temporal + m.plan.weights, m.phi
    kappa, gamma2 = featurize(m)
    variance = m.variance_now
    if not m.plan.factored:
        project(m)
    for j in range(m.plan.covariances):
        h = m.h[j]
        if m.plan.factored:
            first, last = (j, j + 1) if m.plan.covariances > 1 else (0, m.plan.outputs)
            mu, mean = m.mu, m.mean_now
            u2 = posterior.factor_predict(m.covariance[j], mu, phi, n, h, mean, first, last)
            # [gijsberts2013] Alg. 1, line 9, without the noise.
            known = m.noise[j] * u2
        else:
            known = dot(phi, h, n)
        variance[j] = clipped(m, max(known, 0.0) + gamma2, kappa)
    return kappa, gamma2


@compiled
def project(m: Model) -> None:
    """Means and h = S phi for the features in phi."""
    n, phi, H = m.plan.temporal + m.plan.weights, m.phi, m.h
    posterior.means(m.mu, phi, n, m.mean_now)
    for j in range(m.plan.covariances):
        multiply(m.covariance[j], phi, n, H[j])


@compiled
def share_jitter(m: Model, x: Array, kappa: float) -> bool:
    """Where x is a basis point, the two share their jitter: add it to k(B, x)."""
    if m.plan.jitter == 0.0:
        return False
    basis, k = m.basis, m.k
    for i in range(m.plan.weights):
        same = True
        for j in range(x.size):
            if basis[i, j] != x[j]:
                same = False
                break
        if same:
            k[i] += kappa * m.plan.jitter / (1.0 + m.plan.jitter)
            return True
    return False


@compiled
def learn(m: Model, kappa: float, gamma2: float) -> None:
    """Learn y at the input that predict() has just seen."""
    n, phi, y = m.plan.weights, m.phi[m.plan.temporal :], m.y
    if m.plan.temporal > 0:
        pass_time(m, n, gamma2)
    # A row that falls on a basis point observes that very function value, its jitter included.
    if m.plan.features == features.POINTS and share_jitter(m, m.seen, kappa):
        gamma2 = max(features.whiten(m.factor, m.k, n, kappa, phi), 0.0)
        if not m.plan.factored:
            project(m)
    m.counters.change = NOTHING
    for j in range(m.plan.covariances):
        first, last = (j, j + 1) if m.plan.covariances > 1 else (0, m.plan.outputs)
        if np.isnan(y[first]):
            continue
        if m.plan.factored:
            learned = rotate_in(m, j, first, last, kappa, gamma2)
        else:
            learned = absorb(m, j, first, last, kappa + prior_variance(m), gamma2)
        if learned:
            m.counters.change = ABSORBED
        else:
            m.counters.skipped_rows += 1
            put_back(m, j)
    if m.plan.check_every > 0:
        m.counters.rows_since_check += 1


@compiled
def absorb(m: Model, j: int, first: int, last: int, kappa: float, gamma2: float) -> bool:
    """The four lines of posterior.py; False, and nothing learned, where rounding leaves no gain in [0, 1]."""
    n, h, y = m.plan.temporal + m.plan.weights, m.h[j], m.y
    phi = m.phi
    noise, mean_scale = m.noise_now[j], m.mean_scale[j]
    scale, fresh = m.scale[j], m.fresh[j]
    S, mean = m.covariance[j], m.mean_now
    known = posterior.forget_along(h, phi, scale, fresh, n)
    if m.plan.likelihood != observation.GAUSSIAN:
        noise = observation.as_gaussian(m, j, mean_scale * mean[j], max(known, 0.0) + gamma2, noise)
    s = max(known, 0.0) + gamma2 + noise
    if not posterior.is_gain(known, s):
        posterior.restore(S, known, kappa, n)
        return False
    for o in range(first, last):
        if not np.isfinite((y[o] - mean_scale * mean[o]) / s):
            return False
    if m.plan.theta > 0:
        add_residual(m, j, gamma2 + noise)
    for o in range(first, last):
        step = (y[o] - mean_scale * mean[o]) / s
        posterior.learn_mean(m.mu, o, mean_scale, h, step, n)
    posterior.learn_covariance(S, scale, fresh, h, 1.0 / s, n)
    # Coordinates over time lose what is known of them: with them alone, no more digits are lost than at this row.
    alone = m.plan.weights == 0
    if gamma2 + noise < (posterior.CANCELLED * known if alone else posterior.COVARIANCE_NOISE * kappa):
        m.counters.unresolved_rows += 1
        posterior.keep_positive(S, n)
    return True


@compiled
def rotate_in(m: Model, j: int, first: int, last: int, kappa: float, gamma2: float) -> bool:
    """The information form: a row, weighted by the model's noise over its own and the residual, joins [R z].

    False, and nothing learned, where the weight is no number.
    """
    n, phi, h, y = m.plan.weights, m.phi, m.h[j], m.y
    noise, row_noise, scale = m.noise[j], m.noise_now[j], m.scale[j]
    R, z = m.covariance[j], m.mu[:, first:last]
    weight2 = noise / (row_noise + gamma2)
    size2 = kappa
    for o in range(first, last):
        size2 += y[o] * y[o]
    if not np.isfinite(weight2 * size2):
        return False
    # Uncertainty injection multiplies the covariance by the scale: A = R'R and b = R'z are divided by it.
    triangular.rotate_in(R, z, 1.0 / np.sqrt(scale), phi, np.sqrt(weight2), y[first:last], n, h)
    if row_noise + gamma2 < posterior.INFORMATION_NOISE * kappa:
        # What the row leaves in a direction of which little is known is rounding of phi_i, over R_ii.
        spread = 0.0
        for i in range(n):
            spread += weight2 * (phi[i] / R[i, i]) ** 2
        m.counters.unresolved_rows += 1 if spread * posterior.INFORMATION_NOISE > 1.0 else 0
    return True
