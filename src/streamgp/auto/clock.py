"""Clock: the times of rows where they have some, and a count of rows where they have none."""

from __future__ import annotations

import math

import numpy as np

from streamgp.contract.conditions import TIME
from streamgp.contract.snapshot import require
from streamgp.settings import FloatArray

GAPS = 20  # the first ones, of which the median is the spacing of rows
# The time of the last row and of the one before it, NaN where there was none; how many gaps are known; the gaps.
LAST, BEFORE, KNOWN = range(3)
NUMBERS = KNOWN + 1 + GAPS


def begin() -> FloatArray:
    """The state before the first row."""
    state = np.zeros(NUMBERS)
    state[[LAST, BEFORE]] = np.nan
    return state


def check(state: FloatArray) -> None:
    """Refuse a state that no rows lead to."""
    require("clock", state[~np.isnan(state)])
    require("gaps of the clock", state[KNOWN:], at_least=0)
    require("gaps of the clock", state[KNOWN : KNOWN + 1], at_most=GAPS)


def spacing(state: FloatArray) -> float:
    """The time between two rows: the median of the first gaps, 1 while there is none."""
    known = int(state[KNOWN])
    return float(sorted(state[KNOWN + 1 : KNOWN + 1 + known].tolist())[known // 2]) if known else 1.0


def times_of(conditions: FloatArray | None, n: int) -> FloatArray:
    """The times that rows come with, NaN where they have none."""
    return np.full(n, np.nan) if conditions is None else conditions[:, TIME]


def next_of(state: FloatArray, times: FloatArray) -> FloatArray:
    """Rows that would each come next: the time of each and the spacing then, (n, 2); nothing changes."""
    if len(times) == 1 or np.isnan(times).all():
        first = advanced(state.copy(), times[:1])
        return first if len(times) == 1 else np.repeat(first, len(times), axis=0)
    return np.concatenate([advanced(state.copy(), times[t : t + 1]) for t in range(len(times))])


def advanced(state: FloatArray, times: FloatArray) -> FloatArray:
    """Rows that follow each other: the time of each and the spacing then, (n, 2).

    A time before the last one counts as the last one. A row without a time comes one spacing after the last.
    """
    n = len(times)
    if n == 1 and math.isnan(times.item()):  # the usual case
        every, last = spacing(state), state.item(LAST)
        state[BEFORE], state[LAST] = last, 0.0 if math.isnan(last) else last + every
        return np.array([[state[LAST], every]])
    result, missing = np.empty((n, 2)), np.isnan(times)
    if not n:
        return result
    if missing.all() or (state[KNOWN] == GAPS and not missing.any()):  # the spacing stays
        every, last = spacing(state), state[LAST]
        if missing.all():
            result[:, 0] = (0.0 if np.isnan(last) else last + every) + every * np.arange(n)
        else:
            result[:, 0] = np.maximum.accumulate(np.fmax(times, last))
        result[:, 1] = every
        state[BEFORE], state[LAST] = (last if n == 1 else result[-2, 0]), result[-1, 0]
        return result
    for t, time in enumerate(times.tolist()):
        last = state[LAST]
        if np.isnan(time):
            time = 0.0 if np.isnan(last) else last + spacing(state)
        else:
            _note_gap(state, time - last)
        state[BEFORE], state[LAST] = last, np.fmax(time, last)
        result[t] = state[LAST], spacing(state)
    return result


def correct(state: FloatArray, time: float) -> None:
    """The last row came at this time."""
    _note_gap(state, time - state[BEFORE])
    state[LAST] = np.fmax(time, state[BEFORE])


def _note_gap(state: FloatArray, gap: float) -> None:
    known = int(state[KNOWN])
    if gap > 0 and known < GAPS:
        state[KNOWN + 1 + known], state[KNOWN] = gap, known + 1
