"""Targets that cannot be observations: fill values of loggers, such as -9999 or 3.4e38, and broken readings.

A target is screened by the range of those that were accepted before it: from the second lowest to the second highest of
the different ones, so that a fill value among the first targets, where nothing can be told yet, does not widen it
however often it comes. A target that lies many times the width of that range beyond it counts as missing; many times
more while few targets are known. What comes again and again is a new level of the stream: the range is extended to it.

Only targets that differ from the one before them count, because a sensor that repeats a number says nothing of its
range: after a month without rain a shower is no outlier. Streams of fewer than four different targets are not screened.
All comparisons are between differences of targets, so that neither units nor an offset matter.

Where a model can do without a target, it may doubt sooner (``doubted``): one width beyond the range is enough, because
a single row that is not learned costs little, and one broken reading among the lags and the learned rows much. The
third of such targets within a few rows is believed, and so are all of them where they are common.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp.compiled import BOOLEAN, CUBE, MATRIX, compiled, entry
from streamgp.contract.lanes import ALONE, LANES, Lanes, end_of, first_of
from streamgp.contract.snapshot import require
from streamgp.settings import FloatArray

Array = NDArray

HELD = 2  # lowest and highest targets that are kept
# The state of one output: how many targets were accepted, the last of them, how many were not, the evidence that these
# are a new level, the last of them, and then the lowest and the highest accepted ones, the outermost first.
ACCEPTED, LAST, REFUSED, EVIDENCE, WILD, LOWEST = range(6)
HIGHEST = LOWEST + HELD
NUMBERS = HIGHEST + HELD

FEWEST = 8  # accepted targets before which none is refused
# How many times the width of the range a target may lie beyond it, once many are known and while there are n:
# FAR + (FEW / n)^3. At n = 8, 20, 50, 100 and 500 this is about 400 000, 27 000, 1 700, 240 and 22.
FAR, FEW = 20.0, 600.0
# This many targets in a row make a new level. A number that is repeated exactly is more likely a fill value: it counts
# a tenth, and not at all if it is this many widths away, where no stream gets.
LEVEL, REPEATED, ABSURD = 10.0, 0.1, 1e6
# The same for doubts, FAR and FEW: at n = 20, 50, 100 and 500 this is about 1 000, 65, 9 and 1.
DOUBTED, FEW_DOUBTED = 1.0, 200.0
# Doubted targets that are believed: the third, where what speaks for them fades by this factor with every other target;
# and any, where more than this many, and more than this share, were doubted.
THIRD, FADING = 2.5, 0.95
SOME, COMMON = 10.0, 0.01
# A width that rounding could have made, relative to the numbers themselves, is none.
ROUNDING = 1e-14


@entry(*LANES, CUBE, MATRIX, BOOLEAN, BOOLEAN)
def screen(models: Array, starts: Array, states: Array, Y: Array, together: bool, again: bool) -> None:
    """Make targets missing, in order, that cannot be observations.

    Args:
        models: which models the targets belong to (contract/lanes.py).
        starts: and which targets to which.
        states: (models, p, NUMBERS), zeros before the first target.
        Y: (n, p) targets, NaN where missing; those that are refused become NaN.
        together: whether a row of which one target is refused loses the others, too.
        again: whether targets that came before are judged by what is known now, of which nothing changes: among the
            first ones they could not be told.
    """
    for k in range(models.size):
        state = states[models[k]]
        for t in range(first_of(starts, k), end_of(starts, k, Y.shape[0])):
            complete = True
            for j in range(Y.shape[1]):
                if np.isnan(Y[t, j]):
                    continue
                if reach(state[j], Y[t, j], FAR, FEW) > 1.0 if again else not accept(state[j], Y[t, j]):
                    Y[t, j] = np.nan
                    complete = False
            if together and not complete:
                Y[t] = np.nan


@entry(MATRIX, MATRIX)
def doubt(states: Array, Y: Array) -> None:
    """Make targets missing, in order, that are more likely broken readings than the first of a new level.

    Args:
        states: (p, NUMBERS), zeros before the first target.
        Y: (n, p) targets, NaN where missing; those that are doubted become NaN.
    """
    for t in range(Y.shape[0]):
        for j in range(Y.shape[1]):
            if not np.isnan(Y[t, j]) and not believe(states[j], Y[t, j]):
                Y[t, j] = np.nan


def screened(states: FloatArray, Y: FloatArray, together: bool, lanes: Lanes = ALONE) -> FloatArray:
    """Targets, (n, p), NaN in place of those that cannot be observations; the state is that of one model or of all."""
    left = Y.copy()
    screen(*lanes, states if states.ndim == 3 else states[None], left, together, False)
    return left


def doubted(states: FloatArray, Y: FloatArray) -> FloatArray:
    """Targets, (n, p), NaN in place of those that are doubted; the states (p, NUMBERS) are of nothing else."""
    left = Y.copy()
    doubt(states, left)
    return left


def within(states: FloatArray, y: FloatArray) -> bool:
    """Whether all numbers, (p,), lie in the range of those before them, so that none of them is doubted."""
    return bool(((states[:, LOWEST + 1] <= y) & (y <= states[:, HIGHEST + 1])).all())


def refused(state: FloatArray) -> int:
    """How many targets were not observations."""
    return int(state[:, REFUSED].sum())


def check(state: FloatArray) -> None:
    """Refuse a state, (..., NUMBERS), that no targets lead to."""
    require("screen", state)
    require("screen", state[..., [ACCEPTED, REFUSED, EVIDENCE]], at_least=0)


def without_fill_values(Y: FloatArray, together: bool, lanes: Lanes = ALONE) -> FloatArray:
    """Targets, (n, p), NaN in place of those that cannot be observations beside all others, before or after them."""
    states = np.zeros((len(lanes.models), Y.shape[1], NUMBERS))
    left = screened(states, Y, together, lanes)
    screen(*lanes, states, left, together, True)
    return left


@compiled
def accept(s: Array, y: float) -> bool:
    """Whether y is an observation, in the order of the stream."""
    beyond = reach(s, y, FAR, FEW)
    if beyond <= 1.0:
        s[EVIDENCE] = 0.0
        keep(s, y)
        return True
    again = s[EVIDENCE] > 0.0 and y == s[WILD]
    s[EVIDENCE] += REPEATED if again else 1.0
    s[WILD] = y
    if s[EVIDENCE] > LEVEL - 0.5 * REPEATED and not (again and beyond * allowed(s, FAR, FEW) > ABSURD):
        if not again:
            extend(s, y)
        return True
    s[REFUSED] += 1.0
    return False


@compiled
def believe(s: Array, y: float) -> bool:
    """Whether y is no broken reading, in the order of the stream."""
    if reach(s, y, DOUBTED, FEW_DOUBTED) <= 1.0:
        s[EVIDENCE] *= FADING
        keep(s, y)
        return True
    s[EVIDENCE] += 1.0
    if s[EVIDENCE] > THIRD or s[REFUSED] > SOME + COMMON * s[ACCEPTED]:
        extend(s, y)
        return True
    s[REFUSED] += 1.0
    return False


@compiled
def reach(s: Array, y: float, far: float, few: float) -> float:
    """How far y lies beyond the range, as a part of how far it may; 0 within, and where there is no range yet."""
    low, high = s[LOWEST + 1], s[HIGHEST + 1]
    width = high - low
    if s[ACCEPTED] < FEWEST or not width > ROUNDING * max(abs(low), abs(high)):
        return 0.0
    part: float = max(low - y, y - high, 0.0) / (allowed(s, far, few) * width)
    return part


@compiled
def allowed(s: Array, far: float, few: float) -> float:
    """How many times the width of the range a target may lie beyond it."""
    part: float = few / s[ACCEPTED]
    return far + part * part * part


@compiled
def keep(s: Array, y: float) -> None:
    """Take y among the accepted targets, unless it repeats the last one."""
    if s[ACCEPTED] > 0.0 and y == s[LAST]:
        return
    for first, sign in ((LOWEST, 1.0), (HIGHEST, -1.0)):
        outermost, next_one = s[first], s[first + 1]
        if s[ACCEPTED] == 0.0 or sign * (y - outermost) < 0.0:
            s[first], s[first + 1] = y, outermost if s[ACCEPTED] > 0.0 else y
        elif y != outermost and (next_one == outermost or sign * (y - next_one) < 0.0):
            s[first + 1] = y
    s[ACCEPTED] += 1.0
    s[LAST] = y


@compiled
def extend(s: Array, y: float) -> None:
    """The stream has reached y: its range, too."""
    first, outwards = (LOWEST, -np.inf) if y < s[LOWEST + 1] else (HIGHEST, np.inf)
    s[first], s[first + 1] = np.nextafter(y, outwards), y  # two different ones, so that the next target replaces none
    s[ACCEPTED] += 1.0
    s[LAST], s[EVIDENCE] = y, 0.0
