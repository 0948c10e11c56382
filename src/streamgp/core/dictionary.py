"""Models over a dictionary that grows and shrinks: admit a row to the basis, or absorb it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp import budget, features, posterior
from streamgp.compiled import compiled, inlined
from streamgp.core.layout import (
    ABSORB,
    ABSORBED,
    ADMITTED,
    CAPACITY,
    CAPPED_DIRECTIONS,
    CHANGE,
    CHECK_EVERY,
    COVARIANCE_SCALE,
    COVARIANCES,
    EVICT,
    EVICTED,
    FLOORED_PIVOTS,
    GATHERING,
    JITTER,
    MEAN_SCALE,
    NEGATIVE_VARIANCES,
    NOVELTY,
    OUTPUTS,
    PHASE,
    POWER,
    RELATIVE,
    REMOVAL,
    REPLACED,
    RESTORED_DIRECTIONS,
    ROWS_SINCE_CHECK,
    SIZE,
    THETA,
    UNTESTED,
    Scratch,
    State,
    operations_of,
)
from streamgp.kernels import program
from streamgp.linalg import symmetric, triangular, vector

Array = NDArray

ROUNDING = 1e-12  # of a variance, relative to the prior's: on well conditioned bases it is below that


@inlined
def compare(plan: Array, state: State, n: int, w: Scratch) -> float:
    """Fill w.k = k(B, x) for the input seen; return kappa = k(x, x) + jitter."""
    operations = operations_of(plan)
    kappa: float = program.diagonal(operations, state.parameters, w.seen, w.one, w.kernel) + state.scalars[JITTER]
    program.cross(operations, state.parameters, state.basis, n, w.seen, w.k, w.kernel)
    return kappa


@inlined
def explain(state: State, n: int, kappa: float, w: Scratch) -> float:
    """Fill w.another = R^-T k and w.psi = Q k; return the residual gamma2."""
    gamma2 = features.whiten(state.factor, w.k, n, kappa, w.another)
    triangular.solve(state.factor, w.another, n, w.psi)
    return gamma2


@inlined
def predict_dictionary(plan: Array, n: int, state: State, learn: bool, w: Scratch) -> float:
    """Mean and latent variance of the input seen into w.mean and w.variance; returns kappa.

    A row that will be learnt is explained here already: then the covariance, read last, is still at hand for its
    update.
    """
    kappa = compare(plan, state, n, w)
    posterior.means(state.mean, w.k, n, w.mean)
    relative = plan[RELATIVE]
    if learn or not relative:
        explain(state, n, kappa, w)
    for j in range(plan[COVARIANCES]):
        symmetric.multiply(state.covariance[j], w.k, n, w.products[j])
        w.variance[j] = posterior.latent_variance(kappa, w.k, w.psi, w.products[j], relative, n)
    return kappa


@inlined
def learn_dictionary(plan: Array, counters: Array, state: State, kappa: float, w: Scratch) -> None:
    """Learn w.y at the input that predict_dictionary() has just predicted."""
    n, q, p, relative = counters[SIZE], plan[COVARIANCES], plan[OUTPUTS], plan[RELATIVE]
    scale, mean_scale = state.scalars[COVARIANCE_SCALE], state.scalars[MEAN_SCALE]
    gamma2 = features.residual(w.another, n, kappa)
    counters[ROWS_SINCE_CHECK] += 1
    if is_indefinite(plan, counters, state, gamma2, kappa, w):
        check_covariances(plan, counters, state)
        posterior.means(state.mean, w.k, n, w.mean)
        for j in range(q):
            symmetric.multiply(state.covariance[j], w.k, n, w.products[j])
    room = n < plan[CAPACITY]
    admit = (
        (room or plan[EVICT] != budget.NEVER)
        and counters[PHASE] != GATHERING
        and budget.is_novel(gamma2, kappa, state.scalars[NOVELTY], state.scalars[JITTER], plan[UNTESTED] == 1 and room)
    )
    if admit:
        if gamma2 < budget.GAMMA2_FLOOR * kappa:
            counters[FLOORED_PIVOTS] += 1
            gamma2 = budget.GAMMA2_FLOOR * kappa
        grow(state, n, gamma2, w)
        if state.targets.shape[0] > 0:
            vector.copy(w.y, p, state.targets[n])
    m = n + 1 if admit else n
    for j in range(q):
        first, last = (j, j + 1) if q > 1 else (0, p)
        M, h = state.covariance[j], w.products[j]
        w.gains[j] = 0.0
        if admit and not relative:
            border_with_inverse(M, w.psi, gamma2, 1.0 if np.isnan(w.y[first]) else scale, n)
        if np.isnan(w.y[first]):
            continue
        v = kappa + posterior.change_along(w.k, w.psi, h, scale, relative, n, h)
        if v < 0.0:
            counters[NEGATIVE_VARIANCES] += 1
            v = 0.0
        s = v + state.noise[j]
        if plan[POWER]:
            weigh_power(state, j, first, last, mean_scale, s, w)
        if admit:
            h[n] = 1.0  # psi is the new unit vector: h = [C k; 1], and Q is not needed
        else:
            for i in range(n):
                h[i] += w.psi[i]  # [soh2014] Eq. (24)
            if plan[ABSORB] == budget.DTC:
                # Csato and Opper's eta = 1 / (1 + gamma2 r): the residual drops out of the variance.
                s = max(s - gamma2, state.noise[j])
            elif plan[THETA] > 0:
                state.adapt.residual[0, j] += 1.0 / (gamma2 + state.noise[j])
                state.adapt.residual[1, j] += 1.0
        for i in range(first, last):
            step = (w.y[i] - mean_scale * w.mean[i]) / s
            posterior.learn_mean(state.mean, i, mean_scale, h, step, m)
        w.gains[j] = 1.0 / s
        if m <= plan[CAPACITY]:
            posterior.learn_covariance(M, scale, h, w.gains[j], m)
    counters[CHANGE] = ADMITTED if admit else ABSORBED
    counters[EVICTED] = -1
    counters[SIZE] = m
    if m > plan[CAPACITY]:
        for j in range(q):
            gain = w.gains[j]
            for i in range(m):
                held = state.covariance[j, i, i]
                w.diagonals[j, i] = scale * held - gain * w.products[j, i] ** 2 if gain > 0.0 else held
        r = budget.lowest_score(plan[EVICT], state.mean, state.inverse_diagonal, w.diagonals, relative, m)
        evict(plan, state, r, m, w)
        counters[CHANGE] = REPLACED
        counters[EVICTED] = r
        counters[SIZE] = n
    if not relative and counters[ROWS_SINCE_CHECK] >= plan[CHECK_EVERY]:
        check_covariances(plan, counters, state)


@inlined
def is_indefinite(plan: Array, counters: Array, state: State, gamma2: float, kappa: float, w: Scratch) -> bool:
    """Whether the variance at the input seen tells that a covariance is no longer positive.

    v - gamma2 is a variance too. C is as large as Q, and rounded accordingly; where many rows have left less variance
    than that it can come out negative, and such a direction would grow at every row.
    """
    n = counters[SIZE]
    for j in range(plan[COVARIANCES]):
        change = vector.dot(w.k, w.products[j], n) - (0.0 if plan[RELATIVE] else vector.dot(w.k, w.psi, n))
        below = gamma2 - (kappa + change)
        # A small lack can wait until the cost of a check is within that of the rows since the last.
        late = counters[ROWS_SINCE_CHECK] >= plan[CAPACITY]
        if not below <= (ROUNDING * kappa if late else ROUNDING * kappa + 0.1 * state.noise[j]):
            return True
    return False


@compiled
def check_covariances(plan: Array, counters: Array, state: State) -> None:
    """Bring covariances back between zero and the prior; what is no number any more becomes the prior."""
    n = counters[SIZE]
    counters[ROWS_SINCE_CHECK] = 0
    for j in range(plan[COVARIANCES]):
        raised, lowered = posterior.bring_back(state.covariance[j], state.factor, plan[RELATIVE], n)
        counters[RESTORED_DIRECTIONS] += raised
        counters[CAPPED_DIRECTIONS] += lowered
    for i in range(n):
        for o in range(plan[OUTPUTS]):
            if not np.isfinite(state.mean[i, o]):
                state.mean[i, o] = 0.0


@inlined
def weigh_power(state: State, j: int, first: int, last: int, mean_scale: float, s: float, w: Scratch) -> None:
    """The signal power is the mean of e^2 / s, discounted as the posterior is, or it would never forget."""
    total = 0.0
    for i in range(first, last):
        e = w.y[i] - mean_scale * w.mean[i]
        total += e * e / s
    scale = state.scalars[COVARIANCE_SCALE]
    discount = min(scale, 1.0 / scale)
    state.power[0, j] = discount * state.power[0, j] + total / (last - first)
    state.power[1, j] = discount * state.power[1, j] + 1.0


@inlined
def grow(state: State, n: int, gamma2: float, w: Scratch) -> None:
    """The input seen becomes basis point n; w.another and w.psi are those of explain()."""
    vector.copy(w.seen, w.seen.size, state.basis[n])
    triangular.append(state.factor, w.another, np.sqrt(gamma2), n)
    # The diagonal of [vanvaerenbergh2016] Eq. (4).
    for i in range(n):
        state.inverse_diagonal[i] += w.psi[i] * w.psi[i] / gamma2
    state.inverse_diagonal[n] = 1.0 / gamma2


@inlined
def shrink(state: State, q: Array, r: int, n: int, w: Scratch) -> None:
    """Take basis point r out of the basis and the factor; q is column r of Q."""
    # [soh2014] Eq. (28), its diagonal; Q_ii >= 1 / K_ii > 0 always.
    for i in range(n):
        held = state.inverse_diagonal[i]
        state.inverse_diagonal[i] = max(held - q[i] * q[i] / q[r], 1e-12 * held)
    for i in range(r, n - 1):
        state.inverse_diagonal[i] = state.inverse_diagonal[i + 1]
        vector.copy(state.basis[i + 1], w.seen.size, state.basis[i])
    state.inverse_diagonal[n - 1] = 0.0
    vector.fill(state.basis[n - 1], w.seen.size, 0.0)
    if state.targets.shape[0] > 0:
        for i in range(r, n - 1):
            vector.copy(state.targets[i + 1], state.targets.shape[1], state.targets[i])
        vector.fill(state.targets[n - 1], state.targets.shape[1], 0.0)
    triangular.delete(state.factor, r, n, w.one)


@compiled
def border_with_inverse(M: Array, psi: Array, gamma2: float, scale: float, n: int) -> None:
    """M = Q + C grows with Q: [vanvaerenbergh2016] Eq. (4), divided by scale because the update multiplies by it."""
    weight = 1.0 / (gamma2 * scale)
    symmetric.add_outer(M, weight, psi, n)
    for j in range(n):
        M[n, j] = -weight * psi[j]
    M[n, n] = weight


@inlined
def evict(plan: Array, state: State, r: int, n: int, w: Scratch) -> None:
    """Learn the covariances along w.products by w.gains, and take basis point r out of n, in one pass over them."""
    q, direction = w.phi, w.h
    triangular.inverse_column(state.factor, r, n, q)
    outputs, matrices = state.mean.shape[1], state.covariance.shape[0]
    for j in range(matrices):
        M, h, gain = state.covariance[j], w.products[j], w.gains[j]
        scale = state.scalars[COVARIANCE_SCALE] if gain > 0.0 else 1.0
        first, last = (j, j + 1) if matrices > 1 else (0, outputs)
        if plan[REMOVAL] == budget.MARGINAL:
            posterior.learn_and_remove(M, scale, h, gain, q, r, n, w.one, w.another)
            for i in range(n):
                direction[i] = q[i] / q[r]
        else:
            if gain > 0.0:
                posterior.learn_covariance(M, scale, h, gain, n)
            posterior.remove_kl(M, q, r, n, plan[RELATIVE], w.one)
            for i in range(n):
                direction[i] = w.one[i] / w.one[r]
        for i in range(first, last):
            posterior.drop_weight(state.mean, i, direction, r, n)
    shrink(state, q, r, n, w)


@compiled
def predict_least_squares(plan: Array, n: int, state: State, w: Scratch) -> float:
    """The limit of no noise: the basis values are known, what they do not explain is the variance."""
    kappa = compare(plan, state, n, w)
    posterior.means(state.mean, w.k, n, w.mean)
    w.variance[0] = explain(state, n, kappa, w)
    return kappa


@compiled
def learn_least_squares(plan: Array, counters: Array, state: State, kappa: float, w: Scratch) -> None:
    """Least squares on the dictionary: M = (A'A)^-1 with the rows a = Q k of A [Engel, Mannor, Meir 2004]."""
    n, gamma2, M = counters[SIZE], w.variance[0], state.covariance[0]
    admit = n < plan[CAPACITY] and budget.is_novel(gamma2, kappa, state.scalars[NOVELTY], state.scalars[JITTER], False)
    if admit:
        grow(state, n, gamma2, w)
        M[n, n] = 1.0
        for o in range(plan[OUTPUTS]):
            weight = (w.y[o] - w.mean[o]) / gamma2
            posterior.learn_mean(state.mean, o, 1.0, w.psi, -weight, n)
            state.mean[n, o] = weight
    else:
        symmetric.multiply(M, w.psi, n, w.h)
        s = 1.0 + vector.dot(w.psi, w.h, n)
        posterior.learn_covariance(M, 1.0, w.h, 1.0 / s, n)
        triangular.solve_transposed(state.factor, w.h, n, w.one)
        triangular.solve(state.factor, w.one, n, w.one)
        for o in range(plan[OUTPUTS]):
            posterior.learn_mean(state.mean, o, 1.0, w.one, (w.y[o] - w.mean[o]) / s, n)
    counters[CHANGE] = ADMITTED if admit else ABSORBED
    counters[EVICTED] = -1
    counters[SIZE] = n + 1 if admit else n
