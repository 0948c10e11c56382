"""Clock: the times of rows where they have some, and a count of rows where they have none."""

from __future__ import annotations

import math

import numpy as np

from streamgp.contract.conditions import TIME
from streamgp.contract.snapshot import require
from streamgp.settings import FloatArray

GAPS = 20  # the first ones, of which the median is the spacing of rows
# A gap is whole if it is nearly so many spacings; the clock is regular while nearly all gaps are, the last ones most.
NEARLY, REGULAR, FADING = 0.25, 0.9, 0.99
MOST = 1e9  # spacings; a gap of more is not whole
TICK = 3  # numbers that say when a row came: its time, the time between rows, and how many are missing before it
# The time of the last row and of the one before it, NaN where there was none; the share of the gaps that are whole; how
# many of the first gaps are known; these gaps.
LAST, BEFORE, WHOLE, KNOWN = range(4)
NUMBERS = KNOWN + 1 + GAPS


def begin() -> FloatArray:
    """The state before the first row."""
    state = np.zeros(NUMBERS)
    state[[LAST, BEFORE]] = np.nan
    return state


def check(state: FloatArray) -> None:
    """Refuse a state that no rows lead to."""
    require("clock", state[~np.isnan(state)])
    require("gaps of the clock", state[WHOLE:], at_least=0)
    require("gaps of the clock", state[KNOWN : KNOWN + 1], at_most=GAPS)


def spacing(state: FloatArray | list[float]) -> float:
    """The time between two rows: the median of the first gaps, 1 while there is none."""
    known = int(state[KNOWN])
    return float(sorted(state[KNOWN + 1 : KNOWN + 1 + known])[known // 2]) if known else 1.0


def times_of(conditions: FloatArray | None, n: int) -> FloatArray:
    """The times that rows come with, NaN where they have none."""
    return np.full(n, np.nan) if conditions is None else conditions[:, TIME]


def next_of(state: FloatArray, times: FloatArray) -> FloatArray:
    """Rows that would each come next: the numbers of ``advanced``, (n, TICK); nothing changes."""
    if len(times) == 1 or np.isnan(times).all():
        first = advanced(state.copy(), times[:1])
        return first if len(times) == 1 else np.repeat(first, len(times), axis=0)
    return np.concatenate([advanced(state.copy(), times[t : t + 1]) for t in range(len(times))])


def advanced(state: FloatArray, times: FloatArray) -> FloatArray:
    """Rows that follow each other: the time of each, the spacing then, and how many rows are missing before it.

    A time before the last one counts as the last one. A row without a time comes one spacing after the last. Rows are
    missing where the clock is regular and a gap is a whole number of spacings. Shape (n, TICK).
    """
    n = len(times)
    if n == 1 and math.isnan(times.item()):  # the usual case
        every, last = spacing(state), state.item(LAST)
        state[BEFORE], state[LAST] = last, 0.0 if math.isnan(last) else last + every
        return np.array([[state[LAST], every, 0.0]])
    result, unknown = np.zeros((n, TICK)), np.isnan(times)
    if not n:
        return result
    every = spacing(state)
    if unknown.all():
        last = state[LAST]
        result[:, 0] = (0.0 if np.isnan(last) else last + every) + every * np.arange(n)
        result[:, 1] = every
        state[BEFORE], state[LAST] = (last if n == 1 else result[-2, 0]), result[-1, 0]
        return result
    numbers, rows = state.tolist(), []
    for time in times.tolist():
        last, missing = numbers[LAST], 0
        if time != time:
            time = 0.0 if last != last else last + every
        elif last == last:
            counted = numbers[KNOWN]
            missing = _note_gap(numbers, time - last, every)
            every = every if numbers[KNOWN] == counted else spacing(numbers)
        numbers[BEFORE], numbers[LAST] = last, time if last != last else max(time, last)
        rows.append((numbers[LAST], every, missing))
    state[:], result[:] = numbers, rows
    return result


def correct(state: FloatArray, time: float) -> int:
    """The last row came at this time; how many are missing before it."""
    numbers, missing = state.tolist(), 0
    before = numbers[BEFORE]
    if before == before:
        missing = _note_gap(numbers, time - before, spacing(numbers))
    numbers[LAST] = time if before != before else max(time, before)
    state[:] = numbers
    return missing


def _note_gap(state: list[float], gap: float, every: float) -> int:
    """Take note of the time since the row before; how many rows are missing in between."""
    known = int(state[KNOWN])
    if known == GAPS:
        steps, regular = _steps(gap, every), state[WHOLE] >= REGULAR
        state[WHOLE] = FADING * state[WHOLE] + (1.0 - FADING if steps else 0.0)
        return steps - 1 if steps and regular else 0
    if gap > 0:
        state[KNOWN + 1 + known], state[KNOWN] = gap, known + 1.0
        if known + 1 == GAPS:
            every = spacing(state)
            state[WHOLE] = sum(_steps(one, every) > 0 for one in state[KNOWN + 1 :]) / GAPS
    return 0


def _steps(gap: float, every: float) -> int:
    """How many spacings a gap is, if it is a whole number of them; otherwise 0."""
    ratio = gap / every
    steps = round(min(ratio, MOST))
    return steps if abs(ratio - steps) <= NEARLY else 0
