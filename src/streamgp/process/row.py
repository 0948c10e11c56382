"""What a row is learnt with: its noise, and what has been forgotten since the last one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import Record, block, matrix, vector
from streamgp.compiled import compiled
from streamgp.contract.conditions import NOISE, TIME, WEIGHT
from streamgp.linalg.symmetric import multiply
from streamgp.process import posterior

Array = NDArray

# After so many half-lives without a row nothing is left of what was known, and 2 to this power is still a number.
MOST_HALVINGS = 100.0


@compiled
def noise_of(own: float, conditions: Array, t: int, j: int) -> float:
    """The noise of row t for covariance j: what is said of it, or the model's own, over the weight of the row."""
    if conditions.shape[0] == 0:
        return own
    said, weight = conditions[t, NOISE + j if conditions.shape[1] > NOISE + 1 else NOISE], conditions[t, WEIGHT]
    if not np.isnan(said):
        return said  # type: ignore[no-any-return]
    return own if np.isnan(weight) else own / weight


@compiled
def meet(m: Record, f: Array, conditions: Array, t: int) -> None:
    """Write down what row t is learnt with; its targets are in y."""
    y, own, noise = vector(f, m.at.y), vector(f, m.at.noise), vector(f, m.at.noise_now)
    scale, fresh, mean_scale = vector(f, m.at.scale), vector(f, m.at.fresh), vector(f, m.at.mean_scale)
    for j in range(m.plan.covariances):
        noise[j] = noise_of(own[j], conditions, t, j)
        scale[j], fresh[j], mean_scale[j] = m.plan.covariance_scale, m.plan.covariance_fresh, m.plan.mean_scale
        if m.plan.half_life > 0.0 and conditions.shape[0] > 0 and not np.isnan(y[j]):
            clock, time = matrix(f, m.at.clock), conditions[t, TIME]
            halvings = 0.0 if np.isnan(clock[0, j]) else (time - clock[0, j]) / m.plan.half_life
            clock[0, j] = time
            if m.plan.injects:
                clock[1, j] += halvings
                scale[j] = 2.0 ** min(halvings, MOST_HALVINGS)
            else:
                scale[j] = 0.5**halvings
                fresh[j], mean_scale[j] = 1.0 - scale[j], np.sqrt(scale[j])


@compiled
def inject_overdue(m: Record, f: Array, n: int) -> None:
    """Before a row is learnt: uncertainty that may have doubled since it was last capped is injected and capped now.

    Between two rows it may grow by any factor. The row itself then injects nothing, and h = S phi is that of the new S.
    """
    clock, scale, y = matrix(f, m.at.clock), vector(f, m.at.scale), vector(f, m.at.y)
    phi, H, power = vector(f, m.at.phi), matrix(f, m.at.h), matrix(f, m.at.power)
    held, inverse = matrix(f, m.at.weight_variance), vector(f, m.at.inverse_diagonal)
    for j in range(m.plan.covariances):
        if np.isnan(y[j]) or clock[1, j] <= 1.0:
            continue
        clock[1, j] = 0.0
        S = block(f, m.at.covariance, j)
        if m.plan.factored:
            first, last = (j, j + 1) if m.plan.covariances > 1 else (0, m.plan.outputs)
            z = matrix(f, m.at.mu)[:, first:last]
            posterior.scale_factor(S, z, 1.0 / np.sqrt(scale[j]), n)
            m.counters.capped_directions += posterior.cap_information(S, z, vector(f, m.at.noise)[j], n)
        else:
            m.counters.capped_directions += posterior.inflate(S, scale[j], n)
            multiply(S, phi, n, H[j])
        if held.shape[0] > 0:
            for i in range(n):
                held[j, i] = min(scale[j] * held[j, i], inverse[i])
        power[0, j] /= scale[j]
        power[1, j] /= scale[j]
        scale[j] = 1.0
