"""Evidence that errors have grown: how surprising each is among those before it, accumulated row by row.

The rank of an error among all earlier ones does not depend on their order, whatever their distribution, so that
p = (1 + earlier errors at least as large) / (1 + earlier errors) is a p-value, and these are independent of each other,
while nothing changes. e = min(MOST, FAIR / (2 sqrt p)) has mean 1 at most then, and the Shiryaev-Roberts sum of the
products of the last e's is a fair game with a stake of 1 each row: it reaches 1 / rate no sooner than after 1 / rate
rows on average [Vovk et al. 2021; Shin, Ramdas and Rinaldo 2024]. The bound MOST keeps two or three outliers from
raising an alarm: what grows must last.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp.compiled import BOOLEAN, MATRIX, NUMBER, VECTOR, WHOLE, compiled, entry

Array = NDArray

# Errors are ranked by bins of their logarithm, from e^-20 to e^20; those of one bin count as equal, which errs on the
# safe side.
BINS = 1024
LARGEST = 20.0
# The most that one row multiplies the evidence by. FAIR makes the mean over uniform p-values 1: with e = MOST below
# p0 = (FAIR / 2 MOST)^2, the integral is MOST p0 + FAIR (1 - sqrt(p0)) = FAIR - FAIR^2 / (4 MOST) = 1.
MOST = 3.0
FAIR = 2.0 * MOST * (1.0 - (1.0 - 1.0 / MOST) ** 0.5)


@entry(MATRIX, MATRIX, MATRIX, MATRIX, BOOLEAN, NUMBER, VECTOR, VECTOR)
def watch(
    mean: Array, variance: Array, noise: Array, Y: Array, plain: bool, stop: float, counts: Array, evidence: Array
) -> int:
    """Rank the errors of rows in order, until the evidence reaches stop: then return that row, else -1.

    Args:
        mean: (n, p) predictions; variance and noise (n, p), or one column for all.
        Y: (n, p) targets; a row that misses all of them does not count.
        plain: whether errors are taken as they are, for models without a variance.
        counts: (BINS,) how many errors lay in each bin.
        evidence: (1,) the sum so far.
    """
    for t in range(mean.shape[0]):
        z2 = deviation2(mean[t], variance[t], noise[t], Y[t], plain)
        if np.isnan(z2):
            continue
        evidence[0] = (1.0 + evidence[0]) * wager(rank(z2, counts))
        if evidence[0] >= stop:
            return t
    return -1


@entry(VECTOR, VECTOR, VECTOR, WHOLE, NUMBER, VECTOR, BOOLEAN, NUMBER, VECTOR, VECTOR)
def watch_beside(
    mean: Array,
    other: Array,
    y: Array,
    first: int,
    fading: float,
    unit: Array,
    ranked: bool,
    stop: float,
    counts: Array,
    evidence: Array,
) -> int:
    """Rank errors in units of those of another prediction, as ``watch`` does.

    Args:
        mean: (n,) predictions.
        other: (n,) the other predictions; a row that misses one of both, or its target, does not count.
        y: (n,) targets.
        first: the row at which to begin.
        fading: discount per row of the other's squared errors.
        unit: (2,) discounted sums of these, and of 1.
        ranked: whether errors are ranked; if not, only the unit is followed.
    """
    for t in range(first, y.size):
        if not np.isfinite(y[t]) or not np.isfinite(mean[t]) or not np.isfinite(other[t]):
            continue
        unit[0] = fading * unit[0] + (y[t] - other[t]) ** 2
        unit[1] = fading * unit[1] + 1.0
        s = unit[0] / unit[1]
        if not ranked or not np.isfinite(s) or s <= 0.0:
            continue
        evidence[0] = (1.0 + evidence[0]) * wager(rank((y[t] - mean[t]) ** 2 / s, counts))
        if evidence[0] >= stop:
            return t
    return -1


@compiled
def deviation2(mean: Array, variance: Array, noise: Array, y: Array, plain: bool) -> float:
    """Mean over the outputs of the squared error in units of its variance; NaN if there is none."""
    total, known = 0.0, 0
    for j in range(mean.size):
        k = j if variance.size > 1 else 0
        s = 1.0 if plain else variance[k] + noise[k]
        if np.isnan(y[j]) or not np.isfinite(s) or s <= 0.0:
            continue
        e = y[j] - mean[j]
        total += e * e / s
        known += 1
    return total / known if known > 0 else np.nan


@compiled
def rank(z2: float, counts: Array) -> float:
    """The p-value of an error among those before it, to which it is added."""
    place = 0
    if z2 > 0.0:
        place = int(min(max((0.5 * np.log(min(z2, 1e300)) + LARGEST) * (BINS / (2.0 * LARGEST)), 0.0), BINS - 1.0))
    smaller, larger = 0.0, 0.0
    for b in range(place):
        smaller += counts[b]
    for b in range(place, BINS):
        larger += counts[b]
    counts[place] += 1.0
    p: float = (1.0 + larger) / (1.0 + larger + smaller)
    return p


@compiled
def wager(p: float) -> float:
    """What a stake of 1 on small p-values becomes."""
    e: float = min(MOST, 0.5 * FAIR / np.sqrt(p))
    return e
