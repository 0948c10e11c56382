"""Doubts: single targets and inputs that are more likely broken readings, and those that the next ones confirm.

``wrappers/outliers.py`` doubts a number further outside the range of those before it than that range is wide, and
believes the third within a few rows. A broken reading stands alone: where the very next number lies nearer to the
doubted one than to the last believed one, the stream has gone there, and the second is believed already. A number that
is repeated exactly confirms nothing: loggers repeat fill values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.settings import FloatArray
from streamgp.wrappers import outliers


def begin(p: int) -> FloatArray:
    """The last doubted numbers of p columns before the first: NaN, as everywhere where the last one was believed."""
    return np.full(p, np.nan)


def doubted(states: FloatArray, wild: FloatArray, Y: FloatArray) -> FloatArray:
    """Numbers, (n, p), in order, NaN in place of those that are doubted.

    Args:
        states: (p, outliers.NUMBERS), which go on.
        wild: (p,) the last doubted numbers, which go on, too.
        Y: numbers, NaN where missing.
    """
    if np.isnan(wild).all():
        before = states.copy()
        left = outliers.doubted(states, Y)
        missing = np.isnan(left)
        if not missing.any() or np.isnan(Y[missing]).all():
            return left
        states[:] = before
    left = Y.copy()
    for t in range(len(Y)):
        row = Y[t : t + 1]
        confirmed = confirms(wild, states[:, outliers.LAST], row[0])
        states[confirmed, outliers.EVIDENCE] += 1.0
        left[t] = outliers.doubted(states, row)[0]
        known = ~np.isnan(row[0])
        wild[known] = np.where(np.isnan(left[t]), row[0], np.nan)[known]
    return left


def confirms(wild: Any, last: Any, y: Any) -> Any:
    """Whether numbers, one or many, are nearer to the one doubted right before than to the last one believed."""
    return (y != wild) & (abs(y - wild) < abs(y - last))
