"""What a row is learned with: its noise, and what has been forgotten since the last one."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import Model
from streamgp.compiled import compiled
from streamgp.contract.conditions import NOISE, TIME, WEIGHT
from streamgp.contract.lanes import LEARN
from streamgp.process import observation, posterior

Array = NDArray

# Rows of the clock, and the numbers of a row that comes at a time: state.py says what they are.
LEARNED, HALVINGS, SEEN, LATEST = range(4)
AT, ELAPSED, STEPPED, FRESH, PRIOR = range(5)

# After this many half-lives without a row nothing is left of what was known, and 2 to this power is still a number.
MOST_HALVINGS = 100.0
LN2 = math.log(2.0)


@compiled
def noise_of(own: float, conditions: Array, t: int, j: int) -> float:
    """The noise of row t for covariance j: its own, or the model's own, over the weight of the row."""
    if conditions.shape[0] == 0:
        return own
    given, weight = conditions[t, NOISE + j if conditions.shape[1] > NOISE + 1 else NOISE], conditions[t, WEIGHT]
    if not np.isnan(given):
        return given  # type: ignore[no-any-return]
    return own if np.isnan(weight) else own / weight


@compiled
def outputs_from(m: Model, j: int) -> tuple[int, int]:
    """The outputs that have covariance j, from the first to before the last: one, or all where they share it."""
    return (j, j + 1) if m.plan.covariances > 1 else (0, m.plan.outputs)


@compiled
def decay(s: float) -> tuple[float, float]:
    """A and I - A A' of coordinates that decay by e^-s: of Matern 1/2 over time, and of all that is forgotten."""
    return np.exp(-s), -np.expm1(-2.0 * s)


@compiled
def meet(m: Model, conditions: Array, t: int) -> None:
    """Write down what row t is learned with; its targets are in y."""
    y, own, noise = m.y, m.noise, m.noise_now
    scale, fresh, mean_scale = m.scale, m.fresh, m.mean_scale
    for j in range(m.plan.covariances):
        noise[j] = 1.0 if m.plan.least_squares else noise_of(own[j], conditions, t, j)
        scale[j], fresh[j], mean_scale[j] = m.plan.covariance_scale, m.plan.covariance_fresh, m.plan.mean_scale
        if m.plan.half_life > 0.0 and conditions.shape[0] > 0 and not (np.isnan(y[j]) and m.plan.temporal == 0):
            clock, before, time = m.clock, m.clock_before, conditions[t, TIME]
            before[LEARNED, j], before[HALVINGS, j] = clock[LEARNED, j], clock[HALVINGS, j]
            halvings = 0.0 if np.isnan(clock[LEARNED, j]) else (time - clock[LEARNED, j]) / m.plan.half_life
            clock[LEARNED, j] = time
            if m.plan.injects:
                clock[HALVINGS, j] += halvings
                scale[j] = 2.0 ** min(halvings, MOST_HALVINGS)
            else:
                mean_scale[j], fresh[j] = decay(0.5 * LN2 * halvings)
                scale[j] = mean_scale[j] * mean_scale[j]


@compiled
def put_back(m: Model, j: int) -> None:
    """The row cannot be learned for covariance j: what it would have forgotten, the next one has to."""
    if m.plan.half_life > 0.0 and m.scale[j] != 1.0:  # 1: it is forgotten already
        clock, before = m.clock, m.clock_before
        clock[LEARNED, j], clock[HALVINGS, j] = before[LEARNED, j], before[HALVINGS, j]


@compiled
def noise_learned(m: Model, j: int, v: float) -> float:
    """The noise with which target j is learned, v the function's variance; what is not Gaussian becomes so here."""
    if m.plan.likelihood == observation.GAUSSIAN:
        return m.noise_now[j]  # type: ignore[no-any-return]
    return observation.as_gaussian(m, j, m.mean_scale[j] * m.mean_now[j], v, m.noise_now[j])


@compiled
def learn_targets(m: Model, j: int, gain: float, n: int) -> None:
    """The posterior of covariance j, with n coordinates, forgets and learns, with gain = 1 / s."""
    first, last = outputs_from(m, j)
    for o in range(first, last):
        e = m.y[o] - m.mean_scale[j] * m.mean_now[o]
        posterior.learn_mean(m.mu, o, m.mean_scale[j], m.h[j], e * gain, n)
    posterior.learn_covariance(m.covariance[j], m.scale[j], m.fresh[j], m.h[j], gain, n)


@compiled
def add_residual(m: Model, j: int, noise: float) -> None:
    """A row is learned for covariance j with its residual among the noise: sums fade as the posterior does."""
    sums, keep = m.residual, kept(m.scale[j])
    sums[0, j] = keep * sums[0, j] + 1.0 / noise
    sums[1, j] = keep * sums[1, j] + 1.0


@compiled
def kept(scale: float) -> float:
    """What is kept of sums over the learned rows where forgetting multiplies S by a number."""
    return min(scale, 1.0 / scale) if scale > 0.0 else 0.0


@compiled
def is_overdue(m: Model, Y: Array, t: int, conditions: Array, i: int, kind: int) -> bool:
    """Whether uncertainty that row t injects may have doubled since it was last capped."""
    overdue = False
    if m.plan.injects and m.plan.half_life > 0.0 and kind & LEARN and conditions.shape[0] > 0:
        for j in range(m.plan.covariances):
            halvings = (conditions[i, TIME] - m.clock[LEARNED, j]) / m.plan.half_life
            overdue = overdue or (not np.isnan(Y[t, j]) and m.clock[HALVINGS, j] + halvings > 1.0)
    return overdue


@compiled
def go_back(m: Model, j: int, factor: float, n: int) -> None:
    """S <- factor S + (1 - factor) I and mu <- sqrt(factor) mu for covariance j, with all that is carried along.

    These are the n weights. A kernel over time forgets by itself; its coordinates keep their share of what is common.
    """
    first, last = outputs_from(m, j)
    S, mu, q = m.covariance[j], m.mu, m.plan.temporal
    variances, inverse, power, residual = m.weight_variance, m.inverse_diagonal, m.power, m.residual
    posterior.mix_with_prior(S[q:, q:], 1.0 - factor, n)
    for i in range(q, q + n):
        for c in range(q):
            S[i, c] *= np.sqrt(factor)
        for o in range(first, last):
            mu[i, o] *= np.sqrt(factor)
    if variances.shape[0] > 0:
        for i in range(n):
            variances[j, i] = factor * variances[j, i] + (1.0 - factor) * inverse[i]
    for i in range(2):
        power[i, j] *= factor
        residual[i, j] *= factor
