"""Which numbers a model takes: the same check for every model, before anything changes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp.compiled import BOOLEAN, NUMBER, READ_ROWS, entry

Array = NDArray

# What check() answers.
FINE, BAD_INPUT, BAD_TARGET, PARTLY_MISSING, LARGE_INPUT, LARGE_TARGET = range(6)

# What a loop over rows answers where something has to be done (process/rare.py) before a row, or after it.
DUE_BEFORE, DUE_AFTER = 6, 7

# Models refuse larger numbers: their squares, and sums of those, would overflow.
LARGEST = 1e150


@entry(READ_ROWS, READ_ROWS, BOOLEAN, NUMBER)
def check(X: Array, Y: Array, shared: bool, largest: float) -> tuple[int, int]:
    """Whether all rows can be taken, and the first that cannot."""
    for t in range(X.shape[0]):
        for j in range(X.shape[1]):
            if not np.isfinite(X[t, j]):
                return BAD_INPUT, t
            if np.abs(X[t, j]) > largest:
                return LARGE_INPUT, t
    for t in range(Y.shape[0]):
        missing = 0
        for j in range(Y.shape[1]):
            if np.isinf(Y[t, j]):
                return BAD_TARGET, t
            if np.abs(Y[t, j]) > largest:
                return LARGE_TARGET, t
            missing += 1 if np.isnan(Y[t, j]) else 0
        if shared and 0 < missing < Y.shape[1]:
            return PARTLY_MISSING, t
    return FINE, -1
