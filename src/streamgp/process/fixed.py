"""A fixed number of weights: Fourier features, a linear readout, given basis points; and how all processes predict."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import Model
from streamgp.compiled import compiled
from streamgp.linalg import triangular
from streamgp.linalg.symmetric import multiply
from streamgp.linalg.vector import dot
from streamgp.process import features, posterior
from streamgp.process.row import add_residual, learn_targets, noise_learned, outputs_from, put_back
from streamgp.process.state import ABSORBED
from streamgp.process.time import clipped, pass_time, prior_variance

Array = NDArray


@compiled
def predict(m: Model) -> tuple[float, float]:
    """Mean and latent variance of the input seen; returns kappa = k(x, x) and the residual gamma2."""
    kappa, gamma2 = features.featurize(m)
    n = m.plan.temporal + features.weights_in_use(m)
    if not m.plan.factored:
        project(m, n)
    for j in range(m.plan.covariances):
        h, known = m.h[j], 0.0
        if m.plan.factored:
            first, last = outputs_from(m, j)
            # [gijsberts2013] Alg. 1, line 9, without the noise.
            known = m.noise[j] * posterior.factor_predict(m.covariance[j], m.mu, m.phi, n, h, m.mean_now, first, last)
        elif not m.plan.least_squares:
            known = dot(m.phi, h, n)
        m.variance_now[j] = clipped(m, max(known, 0.0) + max(gamma2, 0.0), kappa)
    return kappa, gamma2


@compiled
def project(m: Model, n: int) -> None:
    """Means and h = S phi for the features in phi."""
    posterior.means(m.mu, m.phi, n, m.mean_now)
    for j in range(m.plan.covariances):
        multiply(m.covariance[j], m.phi, n, m.h[j])


@compiled
def share_jitter(m: Model, x: Array, kappa: float) -> bool:
    """Where x is a basis point, the two share their jitter: add it to k(B, x)."""
    for i in range(m.plan.weights if m.plan.jitter > 0.0 else 0):
        j = 0
        while j < x.size and m.basis[i, j] == x[j]:
            j += 1
        if j == x.size:
            m.k[i] += kappa * m.plan.jitter / (1.0 + m.plan.jitter)
            return True
    return False


@compiled
def learn(m: Model, kappa: float, gamma2: float) -> None:
    """Learn y at the input that predict() has just seen."""
    n, phi = m.plan.weights, m.phi[m.plan.temporal :]
    if m.plan.temporal > 0:
        pass_time(m, n, gamma2)
    # A row that falls on a basis point observes that very function value, its jitter included.
    if m.plan.features == features.POINTS and share_jitter(m, m.seen, kappa):
        gamma2 = features.whiten(m.factor, m.k, n, kappa, phi)
        if not m.plan.factored:
            project(m, m.plan.temporal + n)
    gamma2 = max(gamma2, 0.0)
    for j in range(m.plan.covariances):
        first, last = outputs_from(m, j)
        if np.isnan(m.y[first]):
            continue
        if m.plan.factored:
            learned = rotate_in(m, j, first, last, kappa, gamma2)
        else:
            learned = absorb(m, j, kappa + prior_variance(m), gamma2)
        if learned:
            m.counters.change = ABSORBED
        else:
            m.counters.skipped_rows += 1
            put_back(m, j)


@compiled
def absorb(m: Model, j: int, kappa: float, gamma2: float) -> bool:
    """The four lines of posterior.py; False, and nothing learned, where rounding leaves no gain in [0, 1]."""
    n, S = m.plan.temporal + m.plan.weights, m.covariance[j]
    known = posterior.forget_along(m.h[j], m.phi, m.scale[j], m.fresh[j], n)
    noise = noise_learned(m, j, max(known, 0.0) + gamma2)
    s = max(known, 0.0) + gamma2 + noise
    if not posterior.is_gain(known, s):
        posterior.restore(S, known, kappa, n)
        return False
    first, last = outputs_from(m, j)
    for o in range(first, last):
        if not np.isfinite((m.y[o] - m.mean_scale[j] * m.mean_now[o]) / s):
            return False
    if m.plan.theta > 0:
        add_residual(m, j, gamma2 + noise)
    learn_targets(m, j, 1.0 / s, n)
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
    n, phi, y, R, left = m.plan.weights, m.phi, m.y, m.covariance[j], m.noise_now[j] + gamma2
    weight2, size2 = m.noise[j] / left, kappa
    for o in range(first, last):
        size2 += y[o] * y[o]
    if not np.isfinite(weight2 * size2):
        return False
    # Uncertainty injection multiplies the covariance by the scale: A = R'R and b = R'z are divided by it.
    keep = 1.0 / np.sqrt(m.scale[j])
    triangular.rotate_in(R, m.mu[:, first:last], keep, phi, np.sqrt(weight2), y[first:last], n, m.h[j])
    if left < posterior.INFORMATION_NOISE * kappa:
        # What the row leaves in a direction of which little is known is rounding of phi_i, over R_ii.
        spread = 0.0
        for i in range(n):
            spread += weight2 * (phi[i] / R[i, i]) ** 2
        m.counters.unresolved_rows += 1 if spread * posterior.INFORMATION_NOISE > 1.0 else 0
    return True
