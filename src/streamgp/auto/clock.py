"""Clock: the times of rows where they have some, and a count of rows where they have none."""

from __future__ import annotations

import math

import numpy as np

from streamgp.contract import spacing as usual
from streamgp.contract.snapshot import require
from streamgp.settings import FloatArray

# A gap counts as k spacings if it is within a quarter of one of k. The clock is regular while nine of ten gaps count
# so, older ones fading by this factor a row.
NEARLY, REGULAR, FADING = 0.25, 0.9, 0.99
MOST = 1e9  # spacings; a gap of more is not whole
LEAP = 1000.0  # spacings; a time further ahead may be a wrong one, and the next row has to confirm it
TICK = 3  # numbers that say when a row came: its time, the time between rows, and how many are missing before it
# The time of the last row, NaN where there was none; a time that is to be confirmed, or NaN; the share of the gaps that
# are whole; the first gaps as contract/spacing.py keeps them. The spacing of later ones does not count: seasons would
# lose their phase.
LAST, LEAPT, WHOLE, KNOWN = range(4)
NUMBERS = KNOWN + usual.NUMBERS


def begin() -> FloatArray:
    """The state before the first row."""
    state = np.zeros(NUMBERS)
    state[[LAST, LEAPT]] = np.nan
    return state


def check(state: FloatArray) -> None:
    """Refuse a state that no rows lead to."""
    require("clock", state[~np.isnan(state)])
    require("gaps of the clock", state[WHOLE:], at_least=0)
    require("gaps of the clock", state[KNOWN : KNOWN + 1], at_most=usual.GAPS)


def spacing(state: FloatArray) -> float:
    """The time between two rows: how far apart the first ones usually were, 1 while there is no gap."""
    return float(usual.usual(state[KNOWN:])) or 1.0


def advanced(state: FloatArray, times: FloatArray) -> FloatArray:
    """Rows that follow each other: the time of each, the spacing then, and how many rows are missing before it.

    A time before the last one counts as the last one. A row without a time comes one spacing after the last, and so
    does one whose time leaps ahead, unless it confirms the leap of the row before it. Rows are missing where the clock
    is regular and a gap is a whole number of spacings. Shape (n, TICK).
    """
    rows, every = np.zeros((len(times), TICK)), spacing(state)
    for row, time in zip(rows, times.tolist(), strict=True):
        last, missing = state.item(LAST), 0
        if math.isnan(time):
            time = 0.0 if math.isnan(last) else last + every
        elif not math.isnan(last):
            time, missing = _next_time(state, time, last, every)
            every = spacing(state)
        state[LAST] = time
        row[:] = time, every, missing
    return rows


def _next_time(state: FloatArray, time: float, last: float, every: float) -> tuple[float, int]:
    """The time of a row after the last one, as it counts, and how many rows are missing in between."""
    if state[KNOWN] and time - last > LEAP * every and not time >= state[LEAPT]:
        state[LEAPT] = time
        return last + every, 0
    state[LEAPT] = np.nan
    return max(time, last), _note_gap(state, time - last, every)


def _note_gap(state: FloatArray, gap: float, every: float) -> int:
    """Take note of the time since the row before; how many rows are missing in between."""
    if state[KNOWN] == usual.GAPS:
        steps, regular = _steps(gap, every), state[WHOLE] >= REGULAR
        state[WHOLE] = FADING * state[WHOLE] + (1.0 - FADING if steps else 0.0)
        return max(steps - 1, 0) if regular else 0
    usual.note(state[KNOWN:], gap)
    if state[KNOWN] == usual.GAPS:
        every = spacing(state)
        state[WHOLE] = sum(_steps(one, every) > 0 for one in state[KNOWN + usual.RING :].tolist()) / usual.GAPS
    return 0


def _steps(gap: float, every: float) -> int:
    """How many spacings a gap is, if it is a whole number of them; otherwise 0."""
    ratio = gap / every
    steps = round(min(ratio, MOST))
    return steps if abs(ratio - steps) <= NEARLY else 0
