"""The stream, compiled: a row through memory, features and posterior, and the loops over rows.

A model's numbers live in one float array and one integer array; ``state_of`` cuts them into named views. The same
function serves compiled code and Python, so the layout is written once, and a call from Python hands over four arrays,
not thirty. One row and many rows run through the same functions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamgp import budget, features, memory, posterior
from streamgp.compiled import compiled
from streamgp.kernels import program
from streamgp.linalg import symmetric, triangular, vector
from streamgp.memory import MemoryState

Array = NDArray

# What a model is: integers fixed when the first row arrives. The kernel's operations follow them.
(
    INPUTS,
    OUTPUTS,
    COVARIANCES,
    DEPTH,
    UNITS,
    AUGMENT,
    FEEDBACK,
    WIDTH,
    FEATURES,
    POINTS,
    FREQUENCIES,
    WEIGHTS,
    CAPACITY,
    FACTORED,
    RELATIVE,
    ABSORB,
    EVICT,
    REMOVAL,
    UNTESTED,
    CAP_EVERY,
    STEPS,
    PARAMETERS,
    PLAN_SIZE,
) = range(23)

# What changes: integer state.
(
    ROWS_SEEN,
    SIZE,
    CHANGE,
    EVICTED,
    ROWS_SINCE_CAP,
    FLOORED_PIVOTS,
    CAPPED_DIRECTIONS,
    NEGATIVE_VARIANCES,
    COUNTERS_SIZE,
) = range(9)

# Kinds of last change.
NOTHING, ABSORBED, ADMITTED, REPLACED = range(4)

# What run() and predict() answer.
FINE, BAD_INPUT, BAD_TARGET, PARTLY_MISSING = range(4)

# Scalars of the float state.
JITTER, NOVELTY, COVARIANCE_SCALE, MEAN_SCALE, RETENTION, PRIOR, SCALARS_SIZE = range(7)


class State(NamedTuple):
    """Everything a model knows, as views of its two arrays."""

    scalars: Array  # (SCALARS_SIZE,)
    noise: Array  # (q,) one, or one for each output
    parameters: Array  # hyperparameters of the kernel; the variance of Fourier features
    memory: MemoryState
    basis: Array  # (points, width)
    factor: Array  # (points, points): R with K + jitter I = R'R, upper triangle
    inverse_diagonal: Array  # (points,) of Q = (R'R)^-1
    frequencies: Array  # (D, width)
    mean: Array  # (weights, p): alpha; z in the information form
    covariance: Array  # (q, weights, weights): C or P + C, lower triangle; R, upper triangle, in the information form


class Scratch(NamedTuple):
    """Work space: nothing in it outlives a row."""

    seen: Array
    y: Array
    mean: Array
    variance: Array
    k: Array
    phi: Array
    psi: Array
    h: Array
    one: Array
    another: Array
    products: Array
    kernel: Array


@compiled
def state_of(plan: Array, floats: Array) -> State:
    d, p, q, width = plan[INPUTS], plan[OUTPUTS], plan[COVARIANCES], plan[WIDTH]
    units, m, n, D = plan[UNITS], plan[POINTS], plan[WEIGHTS], plan[FREQUENCIES]
    depth = plan[DEPTH]
    o = 0
    scalars = floats[o : o + SCALARS_SIZE]
    o += SCALARS_SIZE
    noise = floats[o : o + q]
    o += q
    parameters = floats[o : o + plan[PARAMETERS]]
    o += plan[PARAMETERS]
    window = floats[o : o + depth * d].reshape(depth, d)
    o += depth * d
    unit_state = floats[o : o + units]
    o += units
    last_target = floats[o : o + p]
    o += p
    recurrent = floats[o : o + units * units].reshape(units, units)
    o += units * units
    inputs = floats[o : o + units * d].reshape(units, d)
    o += units * d
    bias = floats[o : o + units]
    o += units
    feedback = floats[o : o + units * p].reshape(units, p)
    o += units * p
    basis = floats[o : o + m * width].reshape(m, width)
    o += m * width
    factor = floats[o : o + m * m].reshape(m, m)
    o += m * m
    inverse_diagonal = floats[o : o + m]
    o += m
    frequencies = floats[o : o + D * width].reshape(D, width)
    o += D * width
    mean = floats[o : o + n * p].reshape(n, p)
    o += n * p
    covariance = floats[o : o + q * n * n].reshape(q, n, n)
    remembered = MemoryState(window, unit_state, last_target, recurrent, inputs, bias, feedback)
    return State(scalars, noise, parameters, remembered, basis, factor, inverse_diagonal, frequencies, mean, covariance)


@compiled
def scratch_of(plan: Array, work: Array) -> Scratch:
    p, q, width, n = plan[OUTPUTS], plan[COVARIANCES], plan[WIDTH], plan[WEIGHTS]
    o = width
    seen = work[:o]
    y = work[o : o + p]
    o += p
    mean = work[o : o + p]
    o += p
    variance = work[o : o + q]
    o += q
    k = work[o : o + n]
    o += n
    phi = work[o : o + n]
    o += n
    psi = work[o : o + n]
    o += n
    h = work[o : o + n]
    o += n
    one = work[o : o + n]
    o += n
    another = work[o : o + n]
    o += n
    products = work[o : o + q * n].reshape(q, n)
    o += q * n
    return Scratch(seen, y, mean, variance, k, phi, psi, h, one, another, products, work[o:])


def float_size(plan: Array) -> int:
    """Length of the float state."""
    d, p, q, width, units = (int(plan[i]) for i in (INPUTS, OUTPUTS, COVARIANCES, WIDTH, UNITS))
    m, n, D = int(plan[POINTS]), int(plan[WEIGHTS]), int(plan[FREQUENCIES])
    remembered = int(plan[DEPTH]) * d + units + p + units * (units + d + 1 + p)
    return SCALARS_SIZE + q + int(plan[PARAMETERS]) + remembered + m * (width + m + 1) + D * width + n * p + q * n * n


def work_size(plan: Array, kernel_scratch: int) -> int:
    """Length of the work space."""
    p, q, n = int(plan[OUTPUTS]), int(plan[COVARIANCES]), int(plan[WEIGHTS])
    return int(plan[WIDTH]) + 2 * p + q + (6 + q) * n + kernel_scratch


@compiled
def operations_of(plan: Array) -> Array:
    return plan[PLAN_SIZE : PLAN_SIZE + 4 * plan[STEPS]].reshape(plan[STEPS], 4)


@compiled
def featurize(plan: Array, state: State, n: int, w: Scratch) -> tuple[float, float]:
    """Fill phi and psi for the input seen; return kappa = k(x, x) and the residual the features cannot express.

    For a dictionary psi is left out, because a prediction does not need it.
    """
    kind = plan[FEATURES]
    if kind == features.FOURIER:
        variance = state.parameters[0]
        features.fourier(state.frequencies, variance, w.seen, w.phi)
        vector.copy(w.phi, n, w.psi)
        return variance, 0.0
    if kind == features.LINEAR:
        features.linear(w.seen, w.phi)
        for i in range(n):
            w.psi[i] = state.scalars[PRIOR] * w.phi[i]
        return vector.dot(w.phi, w.psi, n), 0.0
    operations = operations_of(plan)
    kappa = program.diagonal(operations, state.parameters, w.seen, w.one, w.kernel) + state.scalars[JITTER]
    program.cross(operations, state.parameters, state.basis, n, w.seen, w.k, w.kernel)
    if kind == features.DICTIONARY:
        vector.copy(w.k, n, w.phi)
        return kappa, 0.0
    residual = features.whiten(state.factor, w.k, n, kappa, w.phi)
    vector.copy(w.phi, n, w.psi)
    return kappa, residual


@compiled
def predict_seen(plan: Array, size: int, state: State, w: Scratch) -> float:
    """Mean and latent variance of the input seen into w.mean and w.variance; returns kappa."""
    n = size if plan[FEATURES] == features.DICTIONARY else plan[WEIGHTS]
    kappa, residual = featurize(plan, state, n, w)
    q = plan[COVARIANCES]
    if plan[FACTORED]:
        for j in range(q):
            first, last = (j, j + 1) if q > 1 else (0, plan[OUTPUTS])
            u2 = posterior.factor_predict(state.covariance[j], state.mean, w.phi, n, w.h, w.mean, first, last)
            w.variance[j] = min(residual + state.noise[j] * u2, kappa)
        return kappa
    posterior.means(state.mean, w.phi, n, w.mean)
    relative = plan[RELATIVE]
    if plan[FEATURES] == features.DICTIONARY and not relative:
        features.whiten(state.factor, w.k, n, kappa, w.psi)
        triangular.solve(state.factor, w.psi, n, w.psi)
    for j in range(q):
        symmetric.multiply(state.covariance[j], w.phi, n, w.products[j])
        w.variance[j] = posterior.latent_variance(kappa, w.phi, w.psi, w.products[j], relative, n)
    return kappa


@compiled
def observe_point(plan: Array, state: State, kappa: float, w: Scratch) -> None:
    """A row that falls on a basis point observes that very function value, its jitter included."""
    n = plan[WEIGHTS]
    for i in range(n):
        same = True
        for j in range(w.seen.size):
            if state.basis[i, j] != w.seen[j]:
                same = False
                break
        if same:
            w.k[i] += state.scalars[JITTER]
            features.whiten(state.factor, w.k, n, kappa, w.phi)
            vector.copy(w.phi, n, w.psi)
            if not plan[FACTORED]:
                posterior.means(state.mean, w.phi, n, w.mean)
                for j in range(plan[COVARIANCES]):
                    symmetric.multiply(state.covariance[j], w.phi, n, w.products[j])
            return


@compiled
def learn_weights(plan: Array, counters: Array, state: State, kappa: float, w: Scratch) -> None:
    """Learn w.y at the input that predict_seen() has just predicted, with a fixed number of weights."""
    n, q, p = plan[WEIGHTS], plan[COVARIANCES], plan[OUTPUTS]
    if plan[FEATURES] == features.POINTS and state.scalars[JITTER] > 0.0:
        observe_point(plan, state, kappa, w)
    scale, mean_scale = state.scalars[COVARIANCE_SCALE], state.scalars[MEAN_SCALE]
    counters[CHANGE] = ABSORBED
    counters[EVICTED] = -1
    for j in range(q):
        first, last = (j, j + 1) if q > 1 else (0, p)
        if np.isnan(w.y[first]):
            continue
        if plan[FACTORED]:
            residual = max(kappa - vector.dot(w.phi, w.psi, n), 0.0)
            precision = np.sqrt(state.noise[j] / (state.noise[j] + residual))
            R, z = state.covariance[j], state.mean[:, first:last]
            if scale != 1.0:
                # Uncertainty injection divides the covariance by the factor: A and b are multiplied by it.
                posterior.scale_factor(R, z, 1.0 / np.sqrt(scale), n)
            for i in range(n):
                w.h[i] = precision * w.phi[i]
            for i in range(first, last):
                w.y[i] *= precision
            triangular.rotate_in(R, z, w.h, w.y[first:last], n)
            continue
        M = state.covariance[j]
        v = kappa + posterior.change_along(w.phi, w.psi, w.products[j], scale, plan[RELATIVE], n, w.h)
        if v < 0.0:
            counters[NEGATIVE_VARIANCES] += 1
            v = 0.0
        s = v + state.noise[j]
        for i in range(n):
            w.h[i] += w.psi[i]
        for i in range(first, last):
            step = (w.y[i] - mean_scale * w.mean[i]) / s
            posterior.learn_mean(state.mean, i, mean_scale, w.h, step, n)
        posterior.learn_covariance(M, scale, w.h, s, n)
    if not plan[RELATIVE] and scale != 1.0:
        counters[ROWS_SINCE_CAP] += 1
        if counters[ROWS_SINCE_CAP] >= plan[CAP_EVERY]:
            counters[ROWS_SINCE_CAP] = 0
            for j in range(q):
                counters[CAPPED_DIRECTIONS] += cap(plan, state, j, n)


@compiled
def cap(plan: Array, state: State, j: int, n: int) -> int:
    """Cap P + C at P; returns in how many directions it stood above."""
    if plan[FACTORED]:
        first, last = (j, j + 1) if plan[COVARIANCES] > 1 else (0, plan[OUTPUTS])
        least = state.noise[j] / state.scalars[PRIOR]
        return posterior.cap_information(state.covariance[j], state.mean[:, first:last], least, n)
    if plan[FEATURES] == features.DICTIONARY:
        return posterior.cap_at_prior_factored(state.covariance[j], state.factor, n)
    return posterior.cap_at_prior(state.covariance[j], state.scalars[PRIOR], n)


@compiled
def learn_dictionary(plan: Array, counters: Array, state: State, kappa: float, w: Scratch) -> None:
    """Learn w.y at the input that predict_seen() has just predicted: admit it to the basis or absorb it."""
    n, q, p, relative = counters[SIZE], plan[COVARIANCES], plan[OUTPUTS], plan[RELATIVE]
    scale, mean_scale = state.scalars[COVARIANCE_SCALE], state.scalars[MEAN_SCALE]
    jitter, novelty = state.scalars[JITTER], state.scalars[NOVELTY]
    R, column = state.factor, w.another
    gamma2 = features.whiten(R, w.k, n, kappa, column)
    triangular.solve(R, column, n, w.psi)  # psi = Q k
    room = n < plan[CAPACITY]
    admit = budget.is_novel(gamma2, kappa, novelty, jitter, plan[UNTESTED] == 1 and room)
    if admit:
        if gamma2 < budget.GAMMA2_FLOOR * kappa:
            counters[FLOORED_PIVOTS] += 1
            gamma2 = budget.GAMMA2_FLOOR * kappa
        grow(state, n, gamma2, column, w)
    m = n + 1 if admit else n
    for j in range(q):
        first, last = (j, j + 1) if q > 1 else (0, p)
        M = state.covariance[j]
        if admit and not relative:
            border_with_inverse(M, w.psi, gamma2, 1.0 if np.isnan(w.y[first]) else scale, n)
        if np.isnan(w.y[first]):
            continue
        v = kappa + posterior.change_along(w.phi, w.psi, w.products[j], scale, relative, n, w.h)
        if v < 0.0:
            counters[NEGATIVE_VARIANCES] += 1
            v = 0.0
        s = v + state.noise[j]
        if admit:
            w.h[n] = 1.0  # psi is the new unit vector: h = [C k; 1], and Q is not needed
        else:
            for i in range(n):
                w.h[i] += w.psi[i]  # [soh2014] Eq. (24)
            if plan[ABSORB] == budget.DTC:
                # Csato and Opper's eta = 1 / (1 + gamma2 r): the residual drops out of the variance.
                s = max(s - gamma2, state.noise[j])
        for i in range(first, last):
            step = (w.y[i] - mean_scale * w.mean[i]) / s
            posterior.learn_mean(state.mean, i, mean_scale, w.h, step, m)
        posterior.learn_covariance(M, scale, w.h, s, m)
    counters[CHANGE] = ADMITTED if admit else ABSORBED
    counters[EVICTED] = -1
    counters[SIZE] = m
    if m > plan[CAPACITY]:
        r = budget.lowest_score(plan[EVICT], state.mean, state.inverse_diagonal, state.covariance, relative, m)
        evict(plan, state, r, m, w)
        counters[CHANGE] = REPLACED
        counters[EVICTED] = r
        counters[SIZE] = n
    if not relative and scale != 1.0:
        counters[ROWS_SINCE_CAP] += 1
        if counters[ROWS_SINCE_CAP] >= plan[CAP_EVERY]:
            counters[ROWS_SINCE_CAP] = 0
            for j in range(q):
                counters[CAPPED_DIRECTIONS] += cap(plan, state, j, counters[SIZE])


@compiled
def grow(state: State, n: int, gamma2: float, column: Array, w: Scratch) -> None:
    """The input seen becomes basis point n."""
    for j in range(w.seen.size):
        state.basis[n, j] = w.seen[j]
    triangular.append(state.factor, column, np.sqrt(gamma2), n)
    # The diagonal of [vanvaerenbergh2016] Eq. (4).
    for i in range(n):
        state.inverse_diagonal[i] += w.psi[i] * w.psi[i] / gamma2
    state.inverse_diagonal[n] = 1.0 / gamma2


@compiled
def border_with_inverse(M: Array, psi: Array, gamma2: float, scale: float, n: int) -> None:
    """M = Q + C grows with Q: [vanvaerenbergh2016] Eq. (4), divided by scale because the update multiplies by it."""
    weight = 1.0 / (gamma2 * scale)
    symmetric.add_outer(M, weight, psi, n)
    for j in range(n):
        M[n, j] = -weight * psi[j]
    M[n, n] = weight


@compiled
def evict(plan: Array, state: State, r: int, n: int, w: Scratch) -> None:
    """Take basis point r out of n."""
    q, direction = w.phi, w.h
    triangular.inverse_column(state.factor, r, n, q)
    relative = plan[RELATIVE]
    outputs, matrices = state.mean.shape[1], state.covariance.shape[0]
    for j in range(matrices):
        M = state.covariance[j]
        first, last = (j, j + 1) if matrices > 1 else (0, outputs)
        if plan[REMOVAL] == budget.MARGINAL:
            posterior.remove_marginal(M, q, r, n, w.one, w.another)
            for i in range(n):
                direction[i] = q[i] / q[r]
        else:
            posterior.remove_kl(M, q, r, n, relative, w.one)
            for i in range(n):
                direction[i] = w.one[i] / w.one[r]
        for i in range(first, last):
            posterior.drop_weight(state.mean, i, direction, r, n)
    # [soh2014] Eq. (28), its diagonal; Q_ii >= 1 / K_ii > 0 always.
    for i in range(n):
        state.inverse_diagonal[i] = max(
            state.inverse_diagonal[i] - q[i] * q[i] / q[r], 1e-12 * state.inverse_diagonal[i]
        )
    for i in range(r, n - 1):
        state.inverse_diagonal[i] = state.inverse_diagonal[i + 1]
        for j in range(state.basis.shape[1]):
            state.basis[i, j] = state.basis[i + 1, j]
    state.inverse_diagonal[n - 1] = 0.0
    for j in range(state.basis.shape[1]):
        state.basis[n - 1, j] = 0.0
    triangular.delete(state.factor, r, n, w.one)


@compiled
def check(X: Array, Y: Array, shared: bool) -> tuple[int, int]:
    """Whether all rows can be taken, and the first that cannot: before anything has changed."""
    for t in range(X.shape[0]):
        for j in range(X.shape[1]):
            if not np.isfinite(X[t, j]):
                return BAD_INPUT, t
    for t in range(Y.shape[0]):
        missing = 0
        for j in range(Y.shape[1]):
            if np.isinf(Y[t, j]):
                return BAD_TARGET, t
            missing += 1 if np.isnan(Y[t, j]) else 0
        if shared and 0 < missing < Y.shape[1]:
            return PARTLY_MISSING, t
    return FINE, -1


@compiled
def predict(
    plan: Array, counters: Array, floats: Array, work: Array, X: Array, mean: Array, variance: Array
) -> tuple[int, int]:
    """Predict rows that would each come next; nothing of the model changes."""
    status, row = check(X, X[:0], False)
    if status != FINE:
        return status, row
    state, w = state_of(plan, floats), scratch_of(plan, work)
    for t in range(X.shape[0]):
        memory.look(state.memory, state.scalars[RETENTION], X[t], w.seen)
        predict_seen(plan, counters[SIZE], state, w)
        vector.copy(w.mean, w.mean.size, mean[t])
        vector.copy(w.variance, w.variance.size, variance[t])
    return FINE, -1


@compiled
def run(
    plan: Array,
    counters: Array,
    floats: Array,
    work: Array,
    X: Array,
    Y: Array,
    mean: Array,
    variance: Array,
    noise: Array,
) -> tuple[int, int]:
    """Advance by every row: predict it if there is room for predictions, then learn it if there are targets."""
    status, row = check(X, Y, plan[COVARIANCES] == 1)
    if status != FINE:
        return status, row
    state, w = state_of(plan, floats), scratch_of(plan, work)
    report = mean.shape[0] > 0
    for t in range(X.shape[0]):
        memory.look(state.memory, state.scalars[RETENTION], X[t], w.seen)
        memory.keep(state.memory, w.seen)
        counters[ROWS_SEEN] += 1
        learn = False
        if Y.shape[0] > 0:
            for j in range(plan[OUTPUTS]):
                w.y[j] = Y[t, j]
                learn = learn or not np.isnan(w.y[j])
        else:
            vector.fill(w.y, w.y.size, np.nan)
        kappa = 0.0
        if report or learn or plan[FEEDBACK]:
            kappa = predict_seen(plan, counters[SIZE], state, w)
        if report:
            vector.copy(w.mean, w.mean.size, mean[t])
            vector.copy(w.variance, w.variance.size, variance[t])
            vector.copy(state.noise, state.noise.size, noise[t])
        if plan[FEEDBACK]:
            for j in range(plan[OUTPUTS]):
                state.memory.last_target[j] = w.mean[j] if np.isnan(w.y[j]) else w.y[j]
        if not learn:
            counters[CHANGE] = NOTHING
            counters[EVICTED] = -1
        elif plan[FEATURES] == features.DICTIONARY:
            learn_dictionary(plan, counters, state, kappa, w)
        else:
            learn_weights(plan, counters, state, kappa, w)
    return FINE, -1
