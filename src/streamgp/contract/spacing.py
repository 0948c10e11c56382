"""Spacing: how far apart rows usually are. The one answer for clocks, alarms, forecasts and rows without a time.

It is the median of gaps above 0. Repeated times say nothing, and one wrong time stamp or one pause moves it hardly.
A stream keeps its last gaps in a vector of NUMBERS: how many came, the time of those that are kept no longer, a ring.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from streamgp.compiled import NUMBER, VECTOR, compiled, entry
from streamgp.settings import FloatArray

GAPS = 20  # kept; the median of fewer moves with single ones
LONGEST = 100.0  # usual gaps; a longer one is a pause or a wrong time stamp, and counts as this many
COUNT, LEFT, RING = range(3)
NUMBERS = RING + GAPS


def usual_gap(times: ArrayLike) -> float:
    """The median of the gaps above 0 between times that follow each other; 0 where there is none."""
    gaps = np.diff(np.asarray(times, dtype=np.float64))
    gaps = np.sort(gaps[gaps > 0.0])
    return float(gaps[len(gaps) // 2]) if len(gaps) else 0.0


@entry(VECTOR, NUMBER)
def note(state: FloatArray, gap: float) -> None:
    """Take note of the time between two rows."""
    if not gap > 0.0:
        return
    count = int(state[COUNT])
    at = RING + count % GAPS
    if count >= GAPS:
        state[LEFT] += min(state[at], LONGEST * usual(state))
    state[at], state[COUNT] = gap, count + 1.0


@entry(VECTOR)
def usual(state: FloatArray) -> float:
    """The median of the last gaps; 0 while there is none."""
    known = min(int(state[COUNT]), GAPS)
    for i in range(known):  # the one that as many are below as its place in their order
        below = equal = 0
        for j in range(known):
            below += state[RING + j] < state[RING + i]
            equal += state[RING + j] == state[RING + i]
        if below <= known // 2 < below + equal:
            return float(state[RING + i])
    return 0.0


@compiled
def following(state: FloatArray, seen: float) -> float:
    """The time of a row that comes without one: a usual gap, 1 while none is known, after the last (NaN: none)."""
    if np.isnan(seen):
        return 0.0
    gap = usual(state)
    return seen + (gap if gap > 0.0 else 1.0)


@compiled
def elapsed(state: FloatArray) -> float:
    """The time from the first row to the last, no gap counted for more than LONGEST usual ones."""
    longest, total = LONGEST * usual(state), state[LEFT]
    for i in range(min(int(state[COUNT]), GAPS)):
        total += min(state[RING + i], longest)
    return float(total)
