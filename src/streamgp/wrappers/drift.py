"""Evidence that errors have grown: how surprising each is among those before it, accumulated row by row.

The rank of an error among all earlier ones does not depend on their order, whatever their distribution, so that
p = (1 + earlier errors at least as large) / (1 + earlier errors) is a p-value, and these are independent of each other,
while nothing changes. e = min(MOST, FAIR / (2 sqrt p)) has mean 1 at most then, and the Shiryaev-Roberts sum of the
products of the last e's is a fair game with a stake of 1 each row: it reaches 1 / rate no sooner than after 1 / rate
rows on average [Vovk et al. 2021; Shin, Ramdas and Rinaldo 2024]. The bound MOST keeps two or three outliers from
raising an alarm: what grows must last.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from streamgp.compiled import NUMBER, VECTOR, compiled, entry
from streamgp.contract.snapshot import require
from streamgp.settings import FloatArray

Array = NDArray

# Errors are ranked by bins of their logarithm, from e^-20 to e^20; those of one bin count as equal, which errs on the
# safe side.
BINS = 1024
LARGEST = 20.0
# The most that one row multiplies the evidence by. FAIR makes the mean over uniform p-values 1: with e = MOST below
# p0 = (FAIR / 2 MOST)^2, the integral is MOST p0 + FAIR (1 - sqrt(p0)) = FAIR - FAIR^2 / (4 MOST) = 1.
MOST = 3.0
FAIR = 2.0 * MOST * (1.0 - (1.0 - 1.0 / MOST) ** 0.5)
# Every false alarm squares the evidence that the next one needs, at most this often; a real change halves the count.
MOST_REFUTED = 4


@entry(VECTOR, NUMBER, VECTOR, VECTOR)
def watch(sizes: Array, stop: float, counts: Array, evidence: Array) -> int:
    """Rank errors in order, until the evidence reaches stop: then return the number of that error, else -1.

    Args:
        sizes: (n,) squared errors; NaN: there is none.
        stop: the evidence.
        counts: (BINS,) how many errors lay in each bin.
        evidence: (1,) the sum so far.
    """
    for t in range(sizes.size):
        if not np.isnan(sizes[t]):
            evidence[0] = (1.0 + evidence[0]) * wager(rank(sizes[t], counts))
            if evidence[0] >= stop:
                return t
    return -1


@entry(VECTOR, VECTOR, VECTOR, NUMBER, VECTOR, VECTOR)
def sizes_beside(mean: Array, other: Array, y: Array, fading: float, unit: Array, sizes: Array) -> None:
    """The squared errors of predictions in units of those of another prediction, as ``watch`` ranks them.

    Args:
        mean: (n,) predictions.
        other: (n,) the other predictions; a row that misses one of both, or its target, does not count.
        y: (n,) targets.
        fading: discount per row of the other's squared errors.
        unit: (2,) discounted sums of these, and of 1.
        sizes: (n,), the result.
    """
    for t in range(y.size):
        sizes[t] = np.nan
        if not np.isfinite(y[t]) or not np.isfinite(mean[t]) or not np.isfinite(other[t]):
            continue
        unit[0] = fading * unit[0] + (y[t] - other[t]) ** 2
        unit[1] = fading * unit[1] + 1.0
        s = unit[0] / unit[1]
        if np.isfinite(s) and s > 0.0:
            sizes[t] = (y[t] - mean[t]) ** 2 / s


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


class Detector:
    """Evidence that errors have grown, and how much of it makes an alarm.

    Args:
        stop: the evidence that makes the first alarm.
        counts: (BINS,) how many errors lay in each bin.
        evidence: (1,) so far.
        refuted: (1,) false alarms that count against the next one.
    """

    def __init__(self, stop: float, counts: FloatArray, evidence: FloatArray, refuted: np.ndarray) -> None:
        self._stop, self._counts, self._evidence, self._refuted = stop, counts, evidence, refuted

    def watch(self, sizes: FloatArray, *, armed: bool) -> int:
        """Rank squared errors, see watch(); return the number of the one that gives the alarm, or -1.

        Where there may be no alarm, errors are ranked and evidence does not accumulate.
        """
        terms = (self.enough, self._counts, self._evidence) if armed else (np.inf, self._counts, np.zeros(1))
        at: int = watch(sizes, *terms)
        return at

    @property
    def enough(self) -> float:
        """The evidence that makes an alarm."""
        return math.exp(min(2.0 ** float(self._refuted[0]) * math.log(self._stop), 700.0))  # a float

    def restart(self) -> float:
        """Compare later errors among themselves; return the evidence that there was."""
        found = float(self._evidence[0])
        self._counts[:], self._evidence[:] = 0.0, 0.0
        return found

    def conclude(self, *, confirmed: bool) -> None:
        """Make the next alarm harder after a false one, easier after a real one."""
        refuted = int(self._refuted[0])
        self._refuted[0] = refuted // 2 if confirmed else min(refuted + 1, MOST_REFUTED)

    def check(self) -> None:
        """Refuse a state that cannot be."""
        require("counts", self._counts, at_least=0)
        require("evidence", self._evidence, at_least=0)
        require("refuted", self._refuted, at_least=0, at_most=MOST_REFUTED)
