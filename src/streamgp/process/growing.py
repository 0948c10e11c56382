"""A basis that grows and shrinks: admit a row to it, or absorb the row; evict a point when there are too many.

Basis points B have the prior K = R'R, jitter included. Their whitened values w = R^-T f(B) have the prior N(0, I) and
the posterior N(mu, S); the weights of the kernel functions are alpha = R^-1 mu, with covariance R^-1 S R^-T = Q + C.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import Model
from streamgp.compiled import compiled
from streamgp.linalg import triangular
from streamgp.linalg.symmetric import multiply, rotate
from streamgp.linalg.vector import copy, dot, fill
from streamgp.process import budget, posterior
from streamgp.process.fixed import predict as predict
from streamgp.process.row import add_residual, kept, learn_targets, noise_learned, outputs_from, put_back
from streamgp.process.state import ABSORBED, ADMITTED, GATHERING, REPLACED, STOPPED
from streamgp.process.time import pass_time, prior_variance

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
def learn(m: Model, kappa: float, gamma2: float) -> None:
    """Learn y at the input that predict() has just seen: forget, decide, admit or absorb, evict."""
    n, unresolved = m.counters.points, m.counters.unresolved_rows
    if m.plan.temporal > 0:
        pass_time(m, n, gamma2)
    if gamma2 < ROUNDING * kappa:
        m.counters.negative_residuals += 1 if gamma2 < -NEGATIVE * kappa else 0
        gamma2 = 0.0
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


@compiled
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
    least = np.inf
    for j in range(0 if m.plan.least_squares else m.noise.size):
        least = min(least, m.noise[j], m.noise_now[j])
    return least


@compiled
def least_resolved(m: Model, kappa: float) -> Any:
    """The least noise of a row whose residual drops out: s = phi'S phi + noise would be rounding of S below it."""
    return 0.0 if m.plan.least_squares else ROUNDING * m.counters.points * kappa


@compiled
def is_too_exact(m: Model) -> bool:
    """Whether the row's own noise is so far below the model's that the basis is not conditioned for it."""
    least, below = least_noise(m) / SERVED, True
    for j in range(m.noise.size):
        below = below and least < m.noise[j]
    return below and indistinct(m, least) >= 0


@compiled
def stays(m: Model) -> Any:
    """Whether the points stay; those of least squares have to be the textbook's, and has_lost_digits() watches them."""
    return m.plan.evict == budget.NEVER and not m.plan.least_squares


@compiled
def has_lost_digits(m: Model, n: int) -> bool:
    """Whether least squares, which no prior holds back, may be 1e-6 off at the row seen."""
    a, alpha, distinct = m.a, m.alpha, True
    for i in range(n):
        distinct = distinct and m.inverse_diagonal[i] * m.prior[i] * WORTH_A_LOOK <= 1.0
    if distinct:
        return False
    triangular.solve(m.factor, m.phi, n, a)
    kernel_weights(m, n)
    largest, lost = 0.0, False
    for i in range(n):
        largest = max(largest, abs(a[i]))
    for o in range(m.plan.outputs):
        weight = size = 0.0
        for i in range(n):
            mean = 0.0  # at the basis point
            for c in range(i + 1):
                mean += m.factor[c, i] * m.mu[c, o]
            weight, size = max(weight, abs(alpha[i, o])), max(size, abs(mean))
        lost = lost or largest * weight > LOST * size
    return lost


@compiled
def can_learn(m: Model, kappa: float, gamma2: float) -> bool:
    """Forget along phi; whether the gains of all outputs are in [0, 1]."""
    n, fine = m.plan.temporal + m.counters.points, True
    for j in range(m.plan.covariances):
        if not np.isnan(m.y[j]):
            known = posterior.forget_along(m.h[j], m.phi, m.scale[j], m.fresh[j], n)
            if not posterior.is_gain(known, known + gamma2 + m.noise_now[j]):
                fine = False
                if not m.plan.least_squares:
                    posterior.restore(m.covariance[j], known, kappa, n)
    return fine


@compiled
def learn_output(m: Model, j: int, kappa: float, gamma2: float, admit: bool) -> None:
    """The four lines of posterior.py for covariance j; an admitted row brings a new coordinate.

    The new coordinate has prior [0, 1] and phi entry gamma. Its posterior is written down as it comes out, without the
    subtraction from 1 that would lose the digits of a small noise.
    """
    n, (first, last) = m.plan.temporal + m.counters.points, outputs_from(m, j)
    mu, S, h = m.mu, m.covariance[j], m.h[j]
    gamma, scored = np.sqrt(gamma2), m.weight_variance.shape[0] > 0
    if np.isnan(m.y[first]):  # the other outputs bring a new point: its prior
        if admit:
            fill(S[n], n, 0.0)
            S[n, n] = 1.0
            for o in range(first, last):
                mu[n, o] = 0.0
            if scored:
                score_output(m, j, admit, 1.0 / gamma2, 0.0, 1.0, 0.0)
        return
    known = max(dot(m.phi, h, n), 0.0)
    noise = noise_learned(m, j, known + gamma2)
    s = known + noise + gamma2
    if m.plan.power:
        weigh_power(m, j, s)
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
    if scored:
        score_output(m, j, admit, (known + noise) / (gamma2 * s) if admit else 0.0, 1.0 / s, m.scale[j], m.fresh[j])
    learn_targets(m, j, gain, n)
    if noise < posterior.COVARIANCE_NOISE * kappa and not m.plan.least_squares:
        posterior.keep_positive(S, n)
    if admit:
        for o in range(first, last):
            mu[n, o] = gamma * (m.y[o] - m.mean_scale[j] * m.mean_now[o]) / s
        for i in range(n):
            S[n, i] = -gamma * h[i] / s
        S[n, n] = (known + noise) / s


@compiled
def score_output(m: Model, j: int, admit: bool, corner: float, gain: float, scale: float, fresh: float) -> None:
    """Carry the diagonal of R^-1 S R^-T through a row; corner is the variance of a weight that is new."""
    n, a, d = m.counters.points, m.a, m.d
    variances, inverse = m.weight_variance[j], m.inverse_diagonal
    triangular.solve(m.factor, m.h[j, m.plan.temporal :], n, d)
    for i in range(n):
        variances[i] = scale * variances[i] + fresh * inverse[i] - d[i] * d[i] * gain
    if admit:  # the new coordinate makes [d - a; 1] of R^-1 h: a^2 / gamma2 - (d - a)^2 / s, without its cancellation
        for i in range(n):
            variances[i] += a[i] * a[i] * corner + 2.0 * a[i] * d[i] * gain
        variances[n] = corner


@compiled
def weigh_power(m: Model, j: int, s: float) -> None:
    """The signal power is the mean of e^2 / s, discounted as the posterior is, or it would never forget."""
    power, keep, (first, last), total = m.power, kept(m.scale[j]), outputs_from(m, j), 0.0
    for o in range(first, last):
        e = m.y[o] - m.mean_scale[j] * m.mean_now[o]
        total += e * e / s
    power[0, j] = keep * power[0, j] + total / (last - first)
    power[1, j] = keep * power[1, j] + 1.0


@compiled
def grow(m: Model, kappa: float, gamma2: float) -> None:
    """The input seen becomes the next basis point; phi and a = R^-1 phi are those of its features."""
    n, a, inverse = m.counters.points, m.a, m.inverse_diagonal
    copy(m.seen, m.seen.size, m.basis[n])
    triangular.append(m.factor, m.phi[m.plan.temporal :], np.sqrt(gamma2), n)
    m.prior[n] = kappa
    # The diagonal of [vanvaerenbergh2016] Eq. (4).
    for i in range(n):
        inverse[i] += a[i] * a[i] / gamma2
    inverse[n] = 1.0 / gamma2
    if m.targets.shape[0] > 0:
        copy(m.y, m.plan.outputs, m.targets[n])
    m.counters.points = n + 1


@compiled
def shrink(m: Model) -> None:
    """After an admission: let points go that the others explain, and one more if there are too many.

    A pivot bounds a point given the earlier ones only; this bounds it given all others.
    """
    noise = least_noise(m)
    r = indistinct(m, noise)
    while r >= 0:
        evict(m, r)
        m.counters.indistinct_points += 1 if m.plan.evict == budget.NEVER else 0
        r = indistinct(m, noise)
    if m.counters.points > m.plan.capacity:
        if m.plan.evict != budget.OLDEST:
            kernel_weights(m, m.counters.points)
        n, inverse, variances = m.counters.points, m.inverse_diagonal, m.weight_variance
        evict(m, budget.lowest_score(m.plan.evict, m.alpha, inverse, variances, n))
        refresh_scores(m)
    if m.counters.evictions > 0:
        m.counters.change = REPLACED


@compiled
def indistinct(m: Model, noise: float) -> Any:
    """The basis point that the others explain best, if better than arithmetic allows at this noise; otherwise -1."""
    adapting = m.plan.theta > 0
    return budget.least_distinct(m.inverse_diagonal, m.prior, m.counters.points, noise, adapting, stays(m))


@compiled
def kernel_weights(m: Model, n: int) -> None:
    """alpha = R^-1 mu."""
    column = m.score
    for o in range(m.plan.outputs):
        for i in range(n):
            column[i] = m.mu[m.plan.temporal + i, o]
        triangular.solve(m.factor, column, n, column)
        for i in range(n):
            m.alpha[i, o] = column[i]


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
            first, end = outputs_from(m, j)
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


@compiled
def refresh_scores(m: Model) -> None:
    """Carried diagonals drift; compute those of one point anew, each in its turn."""
    n, q, z, product = m.counters.points, m.plan.temporal, m.a, m.d
    i = (m.counters.refreshed + 1) % n
    m.counters.refreshed = i
    fill(z, q, 0.0)
    triangular.inverse_root(m.factor, i, n, z[q:])
    n += q
    m.inverse_diagonal[i] = dot(z, z, n)
    for j in range(m.weight_variance.shape[0]):
        multiply(m.covariance[j], z, n, product)
        m.weight_variance[j, i] = dot(z, product, n)
