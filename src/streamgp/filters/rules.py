"""The filters, compiled: how a row's error is shared out among the coefficients, and the loops over rows.

All filters predict a weighted sum, mean = alpha'k, and differ only in what the error e = y - mean does to alpha. Every
coefficient takes its part ``spread * k_i * e``, and one of them, that of a new term or of the nearest, takes
``own * e``. So a rule is two numbers and a place, and one loop serves them all.

The terms lie in a ring: a new one takes the place of the oldest when there is no room, and nothing is shifted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamgp import features, memory, posterior
from streamgp.compiled import borrowed, compiled
from streamgp.core import layout, stream
from streamgp.kernels import program
from streamgp.linalg import vector
from streamgp.memory import MemoryState, memory_at, memory_size

Array = NDArray

KLMS, QKLMS, KNLMS, BETA_KLMS, NORMA, SGD = range(6)

# What a filter is: integers fixed when the first row arrives. The kernel's operations follow them.
(
    RULE,
    INPUTS,
    OUTPUTS,
    DEPTH,
    UNITS,
    FEEDBACK,
    WIDTH,
    CAPACITY,
    POINTS,
    POWERS,
    STEPS,
    PARAMETERS,
    PLAN_SIZE,
) = range(13)

# What changes: integer state. HEAD is the place of the oldest term.
ROWS_SEEN, SIZE, HEAD, CHANGE, EVICTED, COUNTERS_SIZE = range(6)

# The settings of the rules.
STEP, QUANTIZATION, COHERENCE, REGULARIZATION, BETA, NOISE, RETENTION, TUNING_SIZE = range(8)

# Places that are no place: the error goes to a new term, or to no term in particular.
NEW, NOWHERE = -1, -2


class State(NamedTuple):
    """Everything a filter knows, as views of its float array."""

    tuning: Array  # (TUNING_SIZE,)
    parameters: Array  # hyperparameters of the kernel
    memory: MemoryState
    basis: Array  # (points, width)
    power: Array  # (powers,) k(b, b) of the basis points, for the coherence
    alpha: Array  # (capacity, p)


class Scratch(NamedTuple):
    """Work space: nothing in it outlives a row."""

    seen: Array
    error: Array
    mean: Array
    k: Array
    kappa: Array
    kernel: Array


@compiled
def state_of(plan: Array, floats: Array) -> State:
    p, width = plan[OUTPUTS], plan[WIDTH]
    m, points, powers = plan[CAPACITY], plan[POINTS], plan[POWERS]
    tuning = floats[:TUNING_SIZE]
    o = TUNING_SIZE
    parameters = floats[o : o + plan[PARAMETERS]]
    o += plan[PARAMETERS]
    remembered, o = memory_at(floats, o, plan[DEPTH], plan[INPUTS], plan[UNITS], p)
    basis = floats[o : o + points * width].reshape(points, width)
    o += points * width
    power = floats[o : o + powers]
    o += powers
    alpha = floats[o : o + m * p].reshape(m, p)
    return State(tuning, parameters, remembered, basis, power, alpha)


@compiled
def scratch_of(plan: Array, work: Array) -> Scratch:
    p, width, m = plan[OUTPUTS], plan[WIDTH], plan[CAPACITY]
    seen = work[:width]
    o = width
    error = work[o : o + p]
    o += p
    mean = work[o : o + p]
    o += p
    k = work[o : o + m]
    o += m
    return Scratch(seen, error, mean, k, work[o : o + 1], work[o + 1 :])


def float_size(plan: Array) -> int:
    """Length of the float state."""
    d, p, units, points = (int(plan[i]) for i in (INPUTS, OUTPUTS, UNITS, POINTS))
    remembered = memory_size(int(plan[DEPTH]), d, units, p)
    kept = points * int(plan[WIDTH]) + int(plan[POWERS]) + int(plan[CAPACITY]) * p
    return TUNING_SIZE + int(plan[PARAMETERS]) + remembered + kept


def work_size(plan: Array, kernel_scratch: int) -> int:
    """Length of the work space."""
    return int(plan[WIDTH]) + 2 * int(plan[OUTPUTS]) + int(plan[CAPACITY]) + 1 + kernel_scratch


@compiled
def operations_of(plan: Array) -> Array:
    return plan[PLAN_SIZE : PLAN_SIZE + 4 * plan[STEPS]].reshape(plan[STEPS], 4)


@compiled
def predict_seen(plan: Array, n: int, state: State, w: Scratch) -> None:
    """w.k = what the input seen has in common with each of the n terms, and w.mean = alpha'k."""
    if plan[RULE] == SGD:
        features.linear(w.seen, w.k)
    else:
        program.cross(operations_of(plan), state.parameters, state.basis, n, w.seen, w.k, w.kernel)
    # [vanvaerenbergh2016] Eq. (6); [soh2014] Eq. (3)
    posterior.means(state.alpha, w.k, n, w.mean)


@compiled
def prior_variance(plan: Array, state: State, w: Scratch) -> float:
    """k(x, x) of the input seen; w.kappa keeps it."""
    return program.diagonal(operations_of(plan), state.parameters, w.seen, w.kappa, w.kernel)


@compiled
def implied_variance(beta: float, kappa: float, k: Array, n: int) -> float:
    # [vanvaerenbergh2016] Eq. (14)
    return kappa + beta * vector.dot(k, k, n)


@compiled
def nearest(basis: Array, head: int, n: int, x: Array) -> tuple[int, float]:
    """The place of the basis point nearest to x, the oldest of equals, and its distance."""
    place, least2 = NEW, np.inf
    for age in range(n):
        i = head + age
        if i >= n:  # the ring has turned only once it is full
            i -= n
        distance2 = 0.0
        for j in range(x.size):
            difference = basis[i, j] - x[j]
            distance2 += difference * difference
        if distance2 < least2:
            place, least2 = i, distance2
    return place, np.sqrt(least2)


@compiled
def coherence(k: Array, power: Array, kappa: float, n: int) -> float:
    """The largest |cosine| in feature space between x and a basis point; 1 for an input without any power."""
    if not kappa > 0.0:
        return 1.0
    largest = 0.0
    for i in range(n):
        largest = max(largest, abs(k[i]) / np.sqrt(power[i] * kappa))
    return largest


@compiled
def share(plan: Array, counters: Array, state: State, w: Scratch) -> tuple[float, float, int]:
    """(spread, own, place): every coefficient takes spread * k_i of the error, the one at that place takes own."""
    rule, n, tuning = plan[RULE], counters[SIZE], state.tuning
    eta = tuning[STEP]
    if rule == SGD:
        # [soh2014] Eq. (5); x_t is printed where psi_t = [s_t; x_t] is meant.
        return eta, 0.0, NOWHERE
    if rule == KLMS or rule == NORMA:
        # [vanvaerenbergh2016] Eq. (9)
        return 0.0, eta, NEW
    if rule == QKLMS:
        # [vanvaerenbergh2016] 3.2.1: a datum similar to base i updates alpha_i.
        place, distance = nearest(state.basis, counters[HEAD], n, w.seen)
        return 0.0, eta, (place if distance <= tuning[QUANTIZATION] else NEW)
    kappa = prior_variance(plan, state, w)
    if rule == BETA_KLMS:
        # [vanvaerenbergh2016] Eq. (15)
        beta = tuning[BETA]
        gain = 1.0 / (tuning[NOISE] + implied_variance(beta, kappa, w.k, n))
        return beta * gain, gain, NEW
    # [vanvaerenbergh2016] Eq. (10); a row that is not admitted has no k_{t+1} of its own in it.
    admitted = coherence(w.k, state.power, kappa, n) < tuning[COHERENCE]
    norm2 = vector.dot(w.k, w.k, n) + (kappa * kappa if admitted else 0.0)
    denominator = tuning[REGULARIZATION] + norm2
    spread = eta / denominator if denominator > 0.0 else 0.0
    return spread, spread * kappa, (NEW if admitted else NOWHERE)


@compiled
def admit(plan: Array, counters: Array, state: State, w: Scratch) -> int:
    """The input seen becomes a term with coefficient 0, in place of the oldest where there is no room."""
    place = counters[SIZE]
    if place < plan[CAPACITY]:
        counters[SIZE] += 1
        counters[CHANGE] = layout.ADMITTED
    else:
        place = counters[HEAD]
        counters[HEAD] = (place + 1) % plan[CAPACITY]
        counters[CHANGE] = layout.REPLACED
        counters[EVICTED] = 0
    vector.copy(w.seen, w.seen.size, state.basis[place])
    vector.fill(state.alpha[place], plan[OUTPUTS], 0.0)
    if plan[POWERS] > 0:
        state.power[place] = w.kappa[0]
    return place  # type: ignore[no-any-return]


@compiled
def learn(plan: Array, counters: Array, state: State, w: Scratch) -> None:
    """Learn the target in w.error at the input that predict_seen() has just predicted."""
    n, p, alpha = counters[SIZE], plan[OUTPUTS], state.alpha
    # NORMA forgets first: the error is that of the decayed coefficients. The others keep all.
    kept = 1.0 - state.tuning[STEP] * state.tuning[REGULARIZATION] if plan[RULE] == NORMA else 1.0
    for j in range(p):
        w.error[j] -= kept * w.mean[j]
    spread, own, place = share(plan, counters, state, w)
    if spread != 0.0 or kept != 1.0:
        for j in range(p):
            posterior.learn_mean(alpha, j, kept, w.k, spread * w.error[j], n)
    counters[CHANGE] = layout.ABSORBED
    counters[EVICTED] = -1
    if place == NEW:
        place = admit(plan, counters, state, w)
    if place >= 0:
        for j in range(p):
            alpha[place, j] += own * w.error[j]


@compiled
def predict(
    plan: Array, counters: Array, floats: Array, work: Array, X: Array, mean: Array, implied: Array
) -> tuple[int, int]:
    """Predict rows that would each come next, and Eq. (14) where there is room for it; the filter does not change."""
    status, row = stream.check(X, X[:0], True)
    if status != stream.FINE:
        return status, row
    state, w, n = state_of(plan, borrowed(floats)), scratch_of(plan, borrowed(work)), counters[SIZE]
    for t in range(X.shape[0]):
        memory.look(state.memory, state.tuning[RETENTION], X[t], w.seen)
        predict_seen(plan, n, state, w)
        vector.copy(w.mean, w.mean.size, mean[t])
        if implied.shape[0] > 0:
            implied[t, 0] = implied_variance(state.tuning[BETA], prior_variance(plan, state, w), w.k, n)
    return stream.FINE, -1


@compiled
def run(plan: Array, counters: Array, floats: Array, work: Array, X: Array, Y: Array, mean: Array) -> tuple[int, int]:
    """Advance by every row: predict it if there is room for predictions, then learn it if there are targets."""
    status, row = stream.check(X, Y, True)
    if status != stream.FINE:
        return status, row
    state, w = state_of(plan, borrowed(floats)), scratch_of(plan, borrowed(work))
    report = mean.shape[0] > 0
    for t in range(X.shape[0]):
        memory.look(state.memory, state.tuning[RETENTION], X[t], w.seen)
        memory.keep(state.memory, X[t], w.seen)
        counters[ROWS_SEEN] += 1
        taught = Y.shape[0] > 0 and not np.isnan(Y[t, 0])  # a row has all its targets or none
        if report or taught or plan[FEEDBACK]:
            predict_seen(plan, counters[SIZE], state, w)
        if report:
            vector.copy(w.mean, w.mean.size, mean[t])
        if taught or plan[FEEDBACK]:
            vector.copy(Y[t] if taught else w.mean, w.mean.size, state.memory.last_target)
        if taught:
            vector.copy(Y[t], w.error.size, w.error)
            learn(plan, counters, state, w)
        else:
            counters[CHANGE] = layout.NOTHING
            counters[EVICTED] = -1
    return stream.FINE, -1
