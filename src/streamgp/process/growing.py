"""A basis that grows and shrinks: admit a row to it, or absorb the row; evict a point when there are too many.

Basis points B have the prior K = R'R, jitter included. Their whitened values w = R^-T f(B) have the prior N(0, I) and
the posterior N(mu, S); the weights of the kernel functions are alpha = R^-1 mu, with covariance R^-1 S R^-T = Q + C.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import Model
from streamgp.compiled import compiled, inlined
from streamgp.linalg import triangular
from streamgp.linalg.symmetric import multiply, rotate
from streamgp.linalg.vector import copy, dot, fill
from streamgp.process import budget, features, observation, posterior
from streamgp.process.row import add_residual, kept, put_back
from streamgp.process.state import ABSORBED, ADMITTED, GATHERING, NOTHING, REPLACED, STOPPED
from streamgp.process.time import clipped, pass_time, prior_variance

Array = NDArray

# gamma2 = kappa - phi'phi is known to a few eps of kappa; what cannot be told from 0 is 0, as at a repeated input ...
ROUNDING = 2e-15
# ... and what lies further below 0 than this is counted.
NEGATIVE = 1e-12
# A basis that is conditioned for one noise was seen to serve rows with a tenth of it.
SERVED = 0.1
# Rounding of the kernel by eps shows in the mean as eps |a| |alpha|. Where that of least squares is 3e-7 of the
# function's size, a row is counted; the first digits go where a point has so little of its own that it is worth a look.
LOST, WORTH_A_LOOK = 3e-7 / float(np.finfo(np.float64).eps), 1e-8


@compiled
def predict(m: Model) -> tuple[float, float]:
    """Mean and latent variance of the input seen; returns kappa = k(x, x) and the residual gamma2."""
    n, phi, q = m.counters.points, m.phi, m.plan.temporal
    kappa = features.kernel_values(m, m.seen, n)
    gamma2 = features.whiten(m.factor, m.k, n, kappa, phi[q:])
    n += q
    posterior.means(m.mu, phi, n, m.mean_now)
    variance, H = m.variance_now, m.h
    for j in range(m.plan.covariances):
        multiply(m.covariance[j], phi, n, H[j])
        known = 0.0 if m.plan.least_squares else dot(phi, H[j], n)
        variance[j] = clipped(m, known + max(gamma2, 0.0), kappa)
    return kappa, gamma2


@compiled
def learn(m: Model, kappa: float, gamma2: float) -> None:
    """Learn y at the input that predict() has just seen: forget, decide, admit or absorb, evict."""
    if m.plan.temporal > 0:
        pass_time(m, m.counters.points, gamma2)
    m.counters.evictions = 0
    m.counters.change = NOTHING
    unresolved = m.counters.unresolved_rows
    if gamma2 < ROUNDING * kappa:
        m.counters.negative_residuals += 1 if gamma2 < -NEGATIVE * kappa else 0
        gamma2 = 0.0
    n = m.counters.points
    admit = (
        (n < m.plan.capacity or m.plan.evict != budget.NEVER)
        and m.counters.phase != GATHERING
        and kappa > 0.0
        and gamma2 >= least_novelty(m, kappa) * kappa
    )
    drop_residual = m.plan.absorb == budget.DTC and not admit
    whole = kappa + prior_variance(m)  # to which S is rounded
    if drop_residual:
        for j in range(m.plan.covariances):
            m.noise_now[j] = max(m.noise_now[j], least_resolved(m, whole))
    if not can_learn(m, whole, 0.0 if drop_residual else gamma2):
        m.counters.skipped_rows += 1
        for j in range(m.plan.covariances):
            put_back(m, j)
        return
    if admit:
        triangular.solve(m.factor, m.phi[m.plan.temporal :], n, m.a)
    if m.plan.least_squares:
        m.counters.unresolved_rows += 1 if has_lost_digits(m, n) else 0
    for j in range(m.plan.covariances):
        learn_output(m, j, whole, gamma2, admit)
    m.counters.change = ABSORBED
    if admit:
        grow(m, kappa, gamma2)
        m.counters.change = ADMITTED
        shrink(m)
    if m.counters.unresolved_rows == unresolved and is_too_exact(m):
        m.counters.unresolved_rows += 1
    if m.plan.check_every > 0:
        m.counters.rows_since_check += 1


@inlined
def least_novelty(m: Model, kappa: float) -> Any:
    """A row below this is absorbed.

    While hyperparameters adapt, only arithmetic counts: a lengthscale that is too long finds no row novel, and on the
    two points that it has the gradient cannot see that a shorter one would fit better.
    """
    adapting = m.plan.theta > 0
    novelty = m.plan.novelty if not adapting or m.counters.phase == STOPPED else 0.0
    return max(novelty, budget.floor(kappa, least_noise(m), adapting, stays(m)))


@compiled
def least_noise(m: Model) -> Any:
    """Of all outputs, the row's own included; least squares has the noise 1 in units of its own, however large."""
    if m.plan.least_squares:
        return np.inf
    noise, now = m.noise, m.noise_now
    least = noise[0]
    for j in range(noise.size):
        least = min(least, noise[j], now[j])
    return least


@compiled
def least_resolved(m: Model, kappa: float) -> Any:
    """The least noise of a row whose residual drops out: s = phi'S phi + noise would be rounding of S below it."""
    return 0.0 if m.plan.least_squares else ROUNDING * m.counters.points * kappa


@inlined
def is_too_exact(m: Model) -> bool:
    """Whether the row's own noise is so far below the model's that the basis is not conditioned for it."""
    noise, least, below = m.noise, least_noise(m) / SERVED, True
    for j in range(noise.size):
        below = below and least < noise[j]
    return below and indistinct(m, least) >= 0


@compiled
def stays(m: Model) -> Any:
    """Whether the points stay; those of least squares have to be the textbook's, and has_lost_digits() watches them."""
    return m.plan.evict == budget.NEVER and not m.plan.least_squares


@compiled
def has_lost_digits(m: Model, n: int) -> bool:
    """Whether least squares, which no prior holds back, may be 1e-6 off at the row seen."""
    inverse, prior, distinct = m.inverse_diagonal, m.prior, True
    for i in range(n):
        distinct = distinct and inverse[i] * prior[i] * WORTH_A_LOOK <= 1.0
    if distinct:
        return False
    a, alpha = m.a, m.alpha
    triangular.solve(m.factor, m.phi, n, a)
    kernel_weights(m, n)
    largest, lost = 0.0, False
    for i in range(n):
        largest = max(largest, abs(a[i]))
    for o in range(m.plan.outputs):
        weight = size = 0.0
        for i in range(n):
            weight, size = max(weight, abs(alpha[i, o])), max(size, abs(mean_at(m, i, o)))
        lost = lost or largest * weight > LOST * size
    return lost


@compiled
def mean_at(m: Model, i: int, o: int) -> Any:
    """The posterior mean of output o at basis point i."""
    R, mu, mean = m.factor, m.mu, 0.0
    for c in range(i + 1):
        mean += R[c, i] * mu[m.plan.temporal + c, o]
    return mean


@inlined
def can_learn(m: Model, kappa: float, gamma2: float) -> bool:
    """Forget along phi; whether the gains of all outputs are in [0, 1]."""
    n, y = m.plan.temporal + m.counters.points, m.y
    phi, H = m.phi, m.h
    noise, scale, fresh = m.noise_now, m.scale, m.fresh
    fine = True
    for j in range(m.plan.covariances):
        if not np.isnan(y[j]):
            known = posterior.forget_along(H[j], phi, scale[j], fresh[j], n)
            if not posterior.is_gain(known, known + gamma2 + (1.0 if m.plan.least_squares else noise[j])):
                fine = False
                if not m.plan.least_squares:
                    posterior.restore(m.covariance[j], known, kappa, n)
    return fine


@inlined
def learn_output(m: Model, j: int, kappa: float, gamma2: float, admit: bool) -> None:
    """The four lines of posterior.py for covariance j; an admitted row brings a new coordinate.

    The new coordinate has prior [0, 1] and phi entry gamma. Its posterior is written down as it comes out, without the
    subtraction from 1 that would lose the digits of a small noise.
    """
    n, y = m.plan.temporal + m.counters.points, m.y
    first, last = (j, j + 1) if m.plan.covariances > 1 else (0, m.plan.outputs)
    mu, S, h, phi = m.mu, m.covariance[j], m.h[j], m.phi
    gamma, scored = np.sqrt(gamma2), m.weight_variance.shape[0] > 0
    if np.isnan(y[first]):  # the other outputs bring a new point: its prior
        if admit:
            fill(S[n], n, 0.0)
            S[n, n] = 1.0
            for o in range(first, last):
                mu[n, o] = 0.0
            if scored:
                admit_unseen(m, j, gamma2)
        return
    noise = 1.0 if m.plan.least_squares else m.noise_now[j]
    known = max(dot(phi, h, n), 0.0)
    mean = m.mean_now
    if m.plan.likelihood != observation.GAUSSIAN:
        noise = observation.as_gaussian(m, j, m.mean_scale[j] * mean[j], known + gamma2, noise)
    s = known + noise + gamma2
    if m.plan.power:
        weigh_power(m, j, first, last, s)
    if m.plan.absorb == budget.DTC and not admit:
        s = known + noise  # Csato and Opper's projection: the residual drops out
        m.counters.unresolved_rows += 1 if noise <= max(posterior.CANCELLED * known, least_resolved(m, kappa)) else 0
    else:
        if not m.plan.least_squares and s < posterior.UNRESOLVED * kappa:
            m.counters.unresolved_rows += 1
        if m.plan.theta > 0:
            add_residual(m, j, noise + (0.0 if admit else gamma2))
    gain = 1.0 / s
    if admit and m.plan.least_squares:  # the limit of no noise: a new point takes all of the error
        s, gain = gamma2, 0.0
    scale, fresh, mean_scale = m.scale[j], m.fresh[j], m.mean_scale[j]
    if scored:
        score_output(m, j, gamma2, admit, known + noise, s)
    for o in range(first, last):
        e = y[o] - mean_scale * mean[o]
        posterior.learn_mean(mu, o, mean_scale, h, e * gain, n)
        if admit:
            mu[n, o] = gamma * e / s
    posterior.learn_covariance(S, scale, fresh, h, gain, n)
    if noise < posterior.COVARIANCE_NOISE * kappa and not m.plan.least_squares:
        posterior.keep_positive(S, n)
    if admit:
        for i in range(n):
            S[n, i] = -gamma * h[i] / s
        S[n, n] = (known + noise) / s


@inlined
def score_output(m: Model, j: int, gamma2: float, admit: bool, rest: float, s: float) -> None:
    """Carry the diagonal of R^-1 S R^-T through a row; rest = s - gamma2 of a row that is admitted."""
    n, a, d = m.counters.points, m.a, m.d
    variances, inverse = m.weight_variance[j], m.inverse_diagonal
    triangular.solve(m.factor, m.h[j, m.plan.temporal :], n, d)
    scale, fresh = m.scale[j], m.fresh[j]
    if not admit:
        for i in range(n):
            variances[i] = scale * variances[i] + fresh * inverse[i] - d[i] * d[i] / s
        return
    # With the new coordinate R^-1 h is [d - a; 1]: a^2 / gamma2 - (d - a)^2 / s, without its cancellation.
    corner = rest / (gamma2 * s)
    for i in range(n):
        variances[i] = scale * variances[i] + fresh * inverse[i] + a[i] * a[i] * corner + (2.0 * a[i] - d[i]) * d[i] / s
    variances[n] = corner


@inlined
def admit_unseen(m: Model, j: int, gamma2: float) -> None:
    """The diagonal of R^-1 S R^-T of an output that has no target at a row that is admitted."""
    n, a, variances = m.counters.points, m.a, m.weight_variance[j]
    for i in range(n):
        variances[i] += a[i] * a[i] / gamma2
    variances[n] = 1.0 / gamma2


@inlined
def weigh_power(m: Model, j: int, first: int, last: int, s: float) -> None:
    """The signal power is the mean of e^2 / s, discounted as the posterior is, or it would never forget."""
    y, mean, power = m.y, m.mean_now, m.power
    keep, mean_scale = kept(m.scale[j]), m.mean_scale[j]
    total = 0.0
    for o in range(first, last):
        e = y[o] - mean_scale * mean[o]
        total += e * e / s
    power[0, j] = keep * power[0, j] + total / (last - first)
    power[1, j] = keep * power[1, j] + 1.0


@inlined
def grow(m: Model, kappa: float, gamma2: float) -> None:
    """The input seen becomes the next basis point; phi and a = R^-1 phi are those of its features."""
    n, a = m.counters.points, m.a
    seen, inverse = m.seen, m.inverse_diagonal
    copy(seen, seen.size, m.basis[n])
    triangular.append(m.factor, m.phi[m.plan.temporal :], np.sqrt(gamma2), n)
    m.prior[n] = kappa
    # The diagonal of [vanvaerenbergh2016] Eq. (4).
    for i in range(n):
        inverse[i] += a[i] * a[i] / gamma2
    inverse[n] = 1.0 / gamma2
    targets = m.targets
    if targets.shape[0] > 0:
        copy(m.y, m.plan.outputs, targets[n])
    m.counters.points = n + 1


@compiled
def shrink(m: Model) -> None:
    """After an admission: let points go that the others explain, and one more if there are too many."""
    keep_distinct(m)
    if m.counters.points > m.plan.capacity:
        evict(m, least_missed(m))
        m.counters.change = REPLACED
        refresh_scores(m)


@inlined
def keep_distinct(m: Model) -> None:
    """A pivot bounds a point given the earlier ones only; this bounds it given all others."""
    noise = least_noise(m)
    r = indistinct(m, noise)
    while r >= 0:
        evict(m, r)
        m.counters.change = REPLACED
        m.counters.indistinct_points += 1 if m.plan.evict == budget.NEVER else 0
        r = indistinct(m, noise)


@compiled
def indistinct(m: Model, noise: float) -> Any:
    """The basis point that the others explain best, if better than arithmetic allows at this noise; otherwise -1."""
    inverse, prior, adapting = m.inverse_diagonal, m.prior, m.plan.theta > 0
    return budget.least_distinct(inverse, prior, m.counters.points, noise, adapting, stays(m))


@inlined
def least_missed(m: Model) -> int:
    """The basis point with the lowest score."""
    n, alpha = m.counters.points, m.alpha
    if m.plan.evict != budget.OLDEST:
        kernel_weights(m, n)
    inverse, variances = m.inverse_diagonal, m.weight_variance
    return budget.lowest_score(m.plan.evict, alpha, inverse, variances, n)


@compiled
def kernel_weights(m: Model, n: int) -> None:
    """alpha = R^-1 mu."""
    R, mu, alpha, column = m.factor, m.mu, m.alpha, m.score
    for o in range(m.plan.outputs):
        for i in range(n):
            column[i] = mu[m.plan.temporal + i, o]
        triangular.solve(R, column, n, column)
        for i in range(n):
            alpha[i, o] = column[i]


@compiled
def evict(m: Model, r: int) -> None:
    """Take basis point r out.

    Rotations restore the triangle of R without column r; applied to mu and S they turn the last coordinate into what
    only point r could express. Dropping it is the marginal removal, [soh2014] Eqs. (26)-(28); conditioning on its
    being 0 first is the other direction of the divergence.
    """
    n, q, R, mu, u, z = m.counters.points, m.plan.temporal, m.factor, m.mu, m.a, m.d
    c, s, variances = m.cosine, m.sine, m.weight_variance
    rho, left, last = take_out(m, r), n - 1, q + n - 1
    triangular.rotate(mu, q + r, last + 1, c, s)
    for j in range(m.plan.covariances):
        S = m.covariance[j]
        rotate(S, q + r, last + 1, c, s, m.carried)
        row, corner = S[last], S[last, last]
        if variances.shape[0] > 0:
            drop(variances[j], r, n)
            triangular.solve(R, row[q:], left, z)
            V = corner / (rho * rho)
            for i in range(left):  # u points the other way: the column of Q is -u / rho^2
                t = z[i] / rho
                if m.plan.removal == budget.MARGINAL:
                    variances[j, i] -= u[i] * (u[i] * V - 2.0 * t)
                else:
                    variances[j, i] -= (t - u[i] * V) ** 2 / V
        if m.plan.removal != budget.MARGINAL:
            first, end = (j, j + 1) if m.plan.covariances > 1 else (0, m.plan.outputs)
            for o in range(first, end):
                posterior.learn_mean(mu, o, 1.0, row, -mu[last, o] / corner, last)
            posterior.learn_covariance(S, 1.0, 0.0, row, 1.0 / corner, last)
        fill(row, last + 1, 0.0)
    fill(mu[last], m.plan.outputs, 0.0)


@compiled
def take_out(m: Model, r: int) -> float:
    """Take point r out of the basis, but not out of the posterior; what it alone expressed, the last of its column.

    R^-1 times the rest of the column is left in a, and the rotations in cosine and sine.
    """
    n, q, R, column, u, inverse = m.counters.points, m.plan.temporal, m.factor, m.column, m.a, m.inverse_diagonal
    triangular.delete(R, r, n, column, m.cosine[q:], m.sine[q:], m.carried)
    rho: float = column[n - 1]
    triangular.solve(R, column, n - 1, u)
    drop(inverse, r, n)
    for i in range(n - 1):
        inverse[i] = max(inverse[i] - u[i] * u[i] / (rho * rho), 1e-12 * inverse[i])
    drop(m.prior, r, n)
    drop_row(m.basis, r, n)
    if m.targets.shape[0] > 0:
        drop_row(m.targets, r, n)
    m.evicted[m.counters.evictions] = r
    m.counters.evictions += 1
    m.counters.points = n - 1
    return rho


@compiled
def drop(x: Array, r: int, n: int) -> None:
    for i in range(r, n - 1):
        x[i] = x[i + 1]
    x[n - 1] = 0.0


@compiled
def drop_row(A: Array, r: int, n: int) -> None:
    for i in range(r, n - 1):
        copy(A[i + 1], A.shape[1], A[i])
    fill(A[n - 1], A.shape[1], 0.0)


@inlined
def refresh_scores(m: Model) -> None:
    """Carried diagonals drift; compute those of one point anew, each in its turn."""
    n, q = m.counters.points, m.plan.temporal
    i = (m.counters.refreshed + 1) % n
    m.counters.refreshed = i
    R, z, product = m.factor, m.a, m.d
    fill(z, q, 0.0)
    triangular.inverse_root(R, i, n, z[q:])
    n += q
    m.inverse_diagonal[i] = dot(z, z, n)
    variances = m.weight_variance
    if variances.shape[0] > 0:
        for j in range(m.plan.covariances):
            multiply(m.covariance[j], z, n, product)
            variances[j, i] = dot(z, product, n)
