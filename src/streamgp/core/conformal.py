"""Intervals that cover what they say: quantiles of the errors, tracked along the stream and averaged by how they did.

Both ends of the interval are learnt alike, each from the errors on its side. A tracker holds the log of a distance from
the mean, in units of the model's standard deviation or in a fixed unit, and moves up when the error lay beyond it and
down when it did not, at its own rate [Gibbs and Candes 2021; Angelopoulos, Candes and Tibshirani 2023]. The trackers of
all rates are averaged with weights that fall with their discounted losses [Zaffran et al. 2022], and a last correction
of the average sees to it that it covers, too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamgp.compiled import compiled

Array = NDArray

# What the settings say.
TAIL, LOG_Z, SHARPNESS, DISCOUNT, CORRECTION, WARMUP, NUMBERS_SIZE = range(7)

# What is held for each end of the interval besides the trackers.
CORRECTED, LOSS, TAILS_SIZE = range(3)

# What is held for each output: the start, and counts and sums over the scored rows.
(
    LOG_UNIT,
    LOG_RELATIVE,
    LOG_ABSOLUTE,
    RELATIVE_ROWS,
    ABSOLUTE_ROWS,
    ROWS,
    INSIDE,
    WIDTH,
    RAW_ROWS,
    RAW_INSIDE,
    RAW_WIDTH,
    RECENT_ROWS,
    RECENT_INSIDE,
    RECENT_WIDTH,
    TALLY_SIZE,
) = range(15)

LOWER, UPPER, VARIANCE, NOISE = range(4)

# The mean of log |z| of a standard Gaussian z, (digamma(1/2) + log 2) / 2, with the sign turned.
MEAN_LOG = 0.6351814227307391
# At the start the scale of the errors is their geometric mean over about so many rows.
START = 10.0
# Steps begin at this over the number of rows and shrink to a tracker's own rate.
FIRST_STEP = 3.0
# No tracker goes farther than e^20 from the raw interval, or it would take long to come back.
FARTHEST = 20.0
# One row counts at most as so many average losses.
WORST = 100.0
# Errors beyond this are as large as any; their squares are still numbers.
FAR = 1e150


class ConformalState(NamedTuple):
    """What is known about the errors of each output."""

    trackers: Array  # (p, 2, 1 + 2 rates): log distances; the raw one, those over the deviation, those over the unit
    losses: Array  # (p, 2, 1 + 2 rates): discounted sums, the least one 0
    tails: Array  # (p, 2, TAILS_SIZE)
    tally: Array  # (p, TALLY_SIZE)


@compiled
def calibrate(
    numbers: Array,
    rates: Array,
    trackers: Array,
    losses: Array,
    tails: Array,
    tally: Array,
    mean: Array,
    variance: Array,
    noise: Array,
    Y: Array,
    issued: bool,
    out: Array,
) -> None:
    """Bounds, variances and noises of predictions into out, (4, n, p); then the errors of rows with a target count.

    The bounds of predictions that were issued earlier are read from out, not written.
    """
    several = variance.shape[1] > 1
    for t in range(mean.shape[0]):
        for j in range(mean.shape[1]):
            m, v, w = mean[t, j], variance[t, j if several else 0], noise[t, j if several else 0]
            s = v + w
            usable = np.isfinite(s) and s > 0.0
            log_deviation = 0.5 * np.log(min(s, FAR * FAR)) if usable else 0.0
            if issued:
                below, above = m - out[LOWER, t, j], out[UPPER, t, j] - m
            else:
                below = distance(numbers, trackers[j], losses[j], tails[j], tally[j], usable, log_deviation, 0)
                above = distance(numbers, trackers[j], losses[j], tails[j], tally[j], usable, log_deviation, 1)
                out[LOWER, t, j], out[UPPER, t, j] = m - below, m + above
            # Two halves of Gaussians, each with half of the mass: the mean of their variances.
            z2 = np.exp(2.0 * numbers[LOG_Z])
            total = 0.5 * (below * below + above * above) / z2
            out[VARIANCE, t, j] = total * (v / s) if usable else total
            out[NOISE, t, j] = total * (w / s) if usable else 0.0
            if np.isnan(Y[t, j]) or not np.isfinite(m):
                continue
            error = min(max(Y[t, j] - m, -FAR), FAR)
            tally_row(numbers, tally[j], error, below, above, usable, log_deviation)
            known = usable or tally[j, ABSOLUTE_ROWS] > 0.0  # or else the bounds were in no unit at all
            start(numbers, rates, trackers[j], tally[j], error, usable, log_deviation)
            if known and tally[j, ABSOLUTE_ROWS] > 0.0:
                for side in range(2):
                    x, h = (-error, below) if side == 0 else (error, above)
                    learn(numbers, rates, trackers[j], losses[j], tails[j], tally[j], side, x, h, usable, log_deviation)
            discount = numbers[DISCOUNT]
            tally[j, RECENT_ROWS] = discount * tally[j, RECENT_ROWS] + 1.0


@compiled
def distance(
    numbers: Array,
    trackers: Array,
    losses: Array,
    tails: Array,
    tally: Array,
    usable: bool,
    log_deviation: float,
    side: int,
) -> float:
    """How far the bound lies from the mean: the trackers' weighted geometric mean, corrected."""
    count = trackers.shape[1]
    relative = (count + 1) // 2  # the raw one and those over the deviation come first
    absolute = tally[ABSOLUTE_ROWS] > 0.0 or not usable
    least = np.inf
    for k in range(count):
        if (usable if k < relative else absolute) and losses[side, k] < least:
            least = losses[side, k]
    total, weights = 0.0, 0.0
    for k in range(count):
        if usable if k < relative else absolute:
            weight = np.exp(-numbers[SHARPNESS] * (losses[side, k] - least))
            weights += weight
            total += weight * (trackers[side, k] + (log_deviation if k < relative else tally[LOG_UNIT]))
    result: float = np.exp(total / weights + tails[side, CORRECTED])
    return result


@compiled
def tally_row(
    numbers: Array, tally: Array, error: float, below: float, above: float, usable: bool, log_deviation: float
) -> None:
    """Add a row to the counts and sums that users read."""
    inside = 1.0 if -below <= error <= above else 0.0
    tally[ROWS] += 1.0
    tally[INSIDE] += inside
    tally[WIDTH] += below + above
    discount = numbers[DISCOUNT]
    tally[RECENT_INSIDE] = discount * tally[RECENT_INSIDE] + inside
    tally[RECENT_WIDTH] = discount * tally[RECENT_WIDTH] + below + above
    if usable:
        half = np.exp(numbers[LOG_Z] + log_deviation)
        tally[RAW_ROWS] += 1.0
        tally[RAW_INSIDE] += 1.0 if -half <= error <= half else 0.0
        tally[RAW_WIDTH] += 2.0 * half


@compiled
def start(
    numbers: Array, rates: Array, trackers: Array, tally: Array, error: float, usable: bool, log_deviation: float
) -> None:
    """While there are few rows, place the trackers by the geometric mean of the errors' sizes."""
    if error == 0.0:
        return
    size = np.log(abs(error))
    if tally[ABSOLUTE_ROWS] == 0.0:
        tally[LOG_UNIT] = size
    count = rates.size
    for kind in range(2):
        if kind == 0 and not usable:
            continue
        tally[RELATIVE_ROWS + kind] += 1.0
        rows = tally[RELATIVE_ROWS + kind]
        if rows > numbers[WARMUP]:
            continue
        reached = size - (log_deviation if kind == 0 else tally[LOG_UNIT])
        tally[LOG_RELATIVE + kind] += (reached - tally[LOG_RELATIVE + kind]) / min(rows, START)
        place = tally[LOG_RELATIVE + kind] + MEAN_LOG + numbers[LOG_Z]
        for side in range(2):
            for k in range(count):
                trackers[side, 1 + kind * count + k] = min(max(place, -FARTHEST), FARTHEST)


@compiled
def learn(
    numbers: Array,
    rates: Array,
    trackers: Array,
    losses: Array,
    tails: Array,
    tally: Array,
    side: int,
    x: float,
    h: float,
    usable: bool,
    log_deviation: float,
) -> None:
    """Learn from the error x on one side of the mean, at which the bound lay h away."""
    a, discount, count = numbers[TAIL], numbers[DISCOUNT], rates.size
    # The loss of a quantile, in the form in which both ends add up to the interval score [Gneiting and Raftery 2007].
    mine = h + max(x - h, 0.0) / a
    average = tails[side, LOSS] / tally[RECENT_ROWS] if tails[side, LOSS] > 0.0 else mine
    least = np.inf
    for k in range(1 + 2 * count):
        kind = 0 if k <= count else 1
        if kind == 0 and not usable:
            losses[side, k] = discount * losses[side, k] + min(mine / average, WORST)
        else:
            bound = np.exp(trackers[side, k] + (log_deviation if kind == 0 else tally[LOG_UNIT]))
            loss = bound + max(x - bound, 0.0) / a
            losses[side, k] = discount * losses[side, k] + min(loss / average, WORST)
            rows = tally[RELATIVE_ROWS + kind]
            if k > 0 and rows > numbers[WARMUP]:
                rate = max(rates[(k - 1) % count], FIRST_STEP / rows)
                moved = trackers[side, k] + rate * ((1.0 if x > bound else 0.0) - a)
                trackers[side, k] = min(max(moved, -FARTHEST), FARTHEST)
        if losses[side, k] < least:
            least = losses[side, k]
    for k in range(1 + 2 * count):
        losses[side, k] -= least
    corrected = tails[side, CORRECTED] + numbers[CORRECTION] * ((1.0 if x > h else 0.0) - a)
    tails[side, CORRECTED] = min(max(corrected, -FARTHEST), FARTHEST)
    tails[side, LOSS] = discount * tails[side, LOSS] + mine
