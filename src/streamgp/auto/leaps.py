"""Leaps: targets that come out of the range of all before them by a step larger than any before.

Where a stream is smooth, a broken reading can be hundreds of its errors away and still too near to the range of the
targets for ``wrappers/outliers.py``, which knows only how wide that range is. Such a target is doubted, too. As there,
few targets prove little, the third within a few rows is believed, the second if it lies right after the first and near
it (doubts.py), and so are all of them where they are common.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp.auto.doubts import confirms
from streamgp.contract.lanes import ALONE
from streamgp.contract.snapshot import require
from streamgp.settings import FloatArray
from streamgp.wrappers.outliers import COMMON, FADING, FEW_DOUBTED, FEWEST, SOME, THIRD, strike_out

# Of the largest step so far, beyond which one is a leap; chosen on CHOSEN_AHEAD_ON of benchmarks/auto_streams.py.
STEPS = 3.0
# The state of one output: the last target that was believed, the lowest and the highest of them, the last target if it
# was doubted, else NaN, the largest step from one to the next, how many steps there were, how many targets were
# doubted, and the evidence that these are real.
LAST, LOWEST, HIGHEST, WILD, STEP, COUNT, REFUSED, EVIDENCE = range(8)
NUMBERS = EVIDENCE + 1


def begin(p: int) -> FloatArray:
    """The state of p outputs before the first target."""
    state = np.zeros((p, NUMBERS))
    state[:, [LAST, LOWEST, HIGHEST, WILD]] = np.nan
    return state


def begin_again(states: FloatArray, known: FloatArray, some: NDArray[np.bool_]) -> None:
    """Let some outputs begin anew where they believed a fill value, as the targets known by now tell (outliers.py)."""
    extremes = np.ascontiguousarray(states[:, [LOWEST, HIGHEST]].T)
    strike_out(*ALONE, known[None], extremes, False)
    fooled = some & np.isnan(extremes).any(axis=0)
    states[fooled, :REFUSED] = begin(1)[0, :REFUSED]


def begin_sequence(states: FloatArray) -> None:
    """The next targets follow no others; how large steps may be is known."""
    states[:, [LAST, WILD]] = np.nan


def check(state: FloatArray) -> None:
    """Refuse a state that no targets lead to."""
    require("leaps", state[~np.isnan(state)])
    require("leaps", state[:, STEP:], at_least=0)


def refused(state: FloatArray) -> int:
    """How many targets were doubted."""
    return int(state[:, REFUSED].sum())


def doubted(states: FloatArray, Y: FloatArray, believed: FloatArray) -> FloatArray:
    """Targets, (n, p), in order, NaN in place of those that are doubted.

    Args:
        states: (p, NUMBERS), which go on.
        Y: targets, NaN where missing.
        believed: the same, NaN also where another rule doubts one; it counts when the third is to be believed.
    """
    left = believed
    for j, state in enumerate(states):
        numbers = state.tolist()
        for t, (y, other) in enumerate(zip(Y[:, j].tolist(), believed[:, j].tolist(), strict=True)):
            if other != other:
                if y == y:
                    numbers[EVIDENCE] += 1.0
                    numbers[WILD] = y
            elif not _believed(numbers, y):
                left = believed.copy() if left is believed else left
                left[t, j] = np.nan
        state[:] = numbers
    return left


def _believed(state: list[float], y: float) -> bool:
    """Whether a target is no leap, or one that is to be believed."""
    last, lowest, highest, wild, largest, count, _, _ = state
    if last != last:
        state[LAST] = state[LOWEST] = state[HIGHEST] = y
        return True
    step = abs(y - last)
    leaps = not lowest <= y <= highest and largest > 0.0 and count >= FEWEST
    if leaps and step > (STEPS + (FEW_DOUBTED / count) ** 3) * largest:
        state[EVIDENCE] += 2.0 if confirms(wild, last, y) else 1.0
        if state[EVIDENCE] <= THIRD and state[REFUSED] <= SOME + COMMON * count:
            state[REFUSED] += 1.0
            state[WILD] = y
            return False
        state[EVIDENCE] = 0.0
    else:
        state[EVIDENCE] *= FADING
    state[WILD] = np.nan
    if step > 0.0:  # a sensor that repeats a number proves nothing
        state[COUNT] += 1.0
    state[LAST], state[STEP] = y, max(largest, step)
    state[LOWEST], state[HIGHEST] = min(lowest, y), max(highest, y)
    return True
