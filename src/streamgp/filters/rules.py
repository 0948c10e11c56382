"""The filters, compiled: how a row's error is shared out among the coefficients, and the loops over rows.

All filters predict a weighted sum, mean = alpha'k, and differ only in what the error e = y - mean does to alpha. Every
coefficient takes its part ``spread * k_i * e``, and one of them, that of a new term or of the nearest, takes
``own * e``. So a rule is two numbers and a place, and one loop serves them all.

The terms lie in a ring: a new one takes the place of the oldest when there is no room, and nothing is shifted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import Layout, Model, fields
from streamgp.compiled import compiled
from streamgp.contract.checks import FINE
from streamgp.contract.lanes import PREDICT
from streamgp.kernels import program
from streamgp.linalg.vector import copy, dot, fill
from streamgp.process import features, loop, memory, posterior

Array = NDArray

KLMS, QKLMS, KNLMS, BETA_KLMS, NORMA, SGD = range(6)

# Places that are no place: the error goes to a new term, or to no term in particular.
NEW, NOWHERE = -1, -2

# Fixed when the first row arrives: what the loop and the memory read, and settings; those of the other rules are 0.
PLAN = fields("shared feedback rule", "retention step quantization coherence regularization beta noise")

# What changes row by row. The oldest term is the one that leaves next; it is the first of those that are listed.
COUNTERS = fields("rows_seen terms oldest absorbed admitted left")

STATE = memory.ARRAYS | {
    "parameters": "parameters",  # hyperparameters of the kernel
    "basis": "points width",
    "power": "powers",  # k(b, b) of the basis points, for the coherence
    "alpha": "terms outputs",
}

WORK = {
    "operations": "steps 5 integers",  # of the kernel's program
    "seen": "width",
    "y": "outputs",  # the targets, then their errors
    "mean_now": "outputs",
    "k": "terms",
    "kappa": "1",
    "kernel_scratch": "kernel_scratch",
}

LAYOUT = Layout(PLAN, COUNTERS, STATE, WORK, {"terms": (0, "terms"), "oldest": (0, "last")})


@compiled
def predict_seen(m: Model) -> None:
    """k = what the input seen has in common with each of the terms, and the mean = alpha'k."""
    n, k = m.counters.terms, m.k
    if m.plan.rule == SGD:
        features.linear(m.seen, 1.0, k)
    else:
        program.cross(m.operations, m.parameters, m.basis, n, m.seen, k, m.kernel_scratch)
    # [vanvaerenbergh2016] Eq. (6); [soh2014] Eq. (3)
    posterior.means(m.alpha, k, n, m.mean_now)


@compiled
def prior_variance(m: Model) -> float:
    """k(x, x) of the input seen; kappa keeps it."""
    m.kappa[0] = program.diagonal(m.operations, m.parameters, m.seen, m.kernel_scratch)
    return m.kappa[0]  # type: ignore[no-any-return]


@compiled
def implied_variance(beta: float, kappa: float, k: Array, n: int) -> float:
    # [vanvaerenbergh2016] Eq. (14)
    return kappa + beta * dot(k, k, n)


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
def share(m: Model) -> tuple[float, float, int]:
    """(spread, own, place): every coefficient takes spread * k_i of the error, the one at that place takes own."""
    rule, n, k, eta = m.plan.rule, m.counters.terms, m.k, m.plan.step
    if rule == SGD:
        # [soh2014] Eq. (5); x_t is printed where psi_t = [s_t; x_t] is meant.
        return eta, 0.0, NOWHERE
    if rule == KLMS or rule == NORMA:
        # [vanvaerenbergh2016] Eq. (9)
        return 0.0, eta, NEW
    if rule == QKLMS:
        # [vanvaerenbergh2016] 3.2.1: a datum similar to base i updates alpha_i.
        place, distance = nearest(m.basis, m.counters.oldest, n, m.seen)
        return 0.0, eta, (place if distance <= m.plan.quantization else NEW)
    kappa = prior_variance(m)
    if rule == BETA_KLMS:
        # [vanvaerenbergh2016] Eq. (15)
        gain = 1.0 / (m.plan.noise + implied_variance(m.plan.beta, kappa, k, n))
        return m.plan.beta * gain, gain, NEW
    # [vanvaerenbergh2016] Eq. (10); a row that is not admitted has no k_{t+1} of its own in it.
    admitted = coherence(k, m.power, kappa, n) < m.plan.coherence
    norm2 = dot(k, k, n) + (kappa * kappa if admitted else 0.0)
    denominator = m.plan.regularization + norm2
    spread = eta / denominator if denominator > 0.0 else 0.0
    return spread, spread * kappa, (NEW if admitted else NOWHERE)


@compiled
def admit(m: Model) -> int:
    """The input seen becomes a term with coefficient 0, in place of the oldest where there is no room."""
    seen, power, alpha = m.seen, m.power, m.alpha
    place, room = m.counters.terms, alpha.shape[0]
    m.counters.admitted = 1
    if place < room:
        m.counters.terms += 1
    else:
        place = m.counters.oldest
        m.counters.oldest = (place + 1) % room
        m.counters.left = 1
    copy(seen, seen.size, m.basis[place])
    fill(alpha[place], alpha.shape[1], 0.0)
    if power.size > 0:
        power[place] = m.kappa[0]
    return place  # type: ignore[no-any-return]


@compiled
def learn_seen(m: Model) -> None:
    """Learn the targets at the input that predict_seen() has just predicted."""
    n, alpha, k = m.counters.terms, m.alpha, m.k
    mean, error = m.mean_now, m.y
    # NORMA forgets first: the error is that of the decayed coefficients. The others keep all.
    kept = 1.0 - m.plan.step * m.plan.regularization if m.plan.rule == NORMA else 1.0
    for j in range(error.size):
        error[j] -= kept * mean[j]
    spread, own, place = share(m)
    if spread != 0.0 or kept != 1.0:
        for j in range(error.size):
            posterior.learn_mean(alpha, j, kept, k, spread * error[j], n)
    m.counters.absorbed = place != NEW
    if place == NEW:
        place = admit(m)
    if place >= 0:
        for j in range(error.size):
            alpha[place, j] += own * error[j]


@compiled
def predict(m: Model, _x: Array, _t: int, _conditions: Array, _i: int, kind: int, learned: bool) -> tuple[float, float]:
    if learned or kind & PREDICT or m.plan.feedback:
        predict_seen(m)
    return 0.0, 0.0


@compiled
def report(m: Model, _gamma2: float, t: int, out: Array) -> None:
    """Write the means of row t, and Eq. (14) where there is room for it."""
    for j in range(m.mean_now.size):
        out[0, t, j] = m.mean_now[j]
    if out.shape[0] > 3:
        out[3, t, 0] = implied_variance(m.plan.beta, prior_variance(m), m.k, m.counters.terms)


@compiled
def learn(m: Model, _conditions: Array, _i: int, learned: bool, _kappa: float, _gamma2: float) -> int:
    loop.forget_change(m)
    if learned:
        learn_seen(m)
    return FINE


run = loop.of(*(__name__, "run", LAYOUT), is_overdue=loop.never, predict=predict, report=report, learn=learn)
