"""Predictions that need no model: the value of the last row or of one season ago, and the mean of all."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp.compiled import INDICES, MATRIX, NUMBER, READ_ROWS, VECTOR, WHOLE, WHOLES, compile_now, entry
from streamgp.contract.lanes import ADVANCE, LEARN, PREDICT
from streamgp.contract.model import Ability, StreamModel
from streamgp.contract.snapshot import require
from streamgp.settings import FloatArray, Maybe, number, whole

Array = NDArray
NO_TARGETS = np.empty((0, 1))


class Naive(StreamModel):
    """A prediction without a model, and without a variance: a line of what is known of targets, or an input."""

    has_variance = False
    _rows: np.ndarray  # (1,) rows seen
    _x: FloatArray  # the last row, (d,)
    _y: FloatArray  # and its target, (p,)
    _known: FloatArray  # of targets, (lines, p): the last ones, oldest first, or their mean and how many
    _lines = 0
    _at = 0  # which line is predicted, or which input
    _forgetting = 0.0  # of a mean

    def _start(self, d: int, p: int) -> None:
        if self._d is None:
            self._rows, self._x = np.zeros(1, dtype=np.int64), np.zeros(d)
        self._y, self._known = np.full(p, np.nan), np.full((self._lines, p), np.nan)
        compile_now(follow)

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"rows": self._rows, "x": self._x, "y": self._y, "known": self._known}

    def _check_restored(self) -> None:
        require("rows", self._rows, at_least=0)

    def _pass(self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe, kept: Maybe) -> FloatArray:
        columns = np.full((3, len(X), len(self._y)), np.nan)
        known = self._rows, self._x, self._y, self._known, self._at, self._forgetting
        follow(ops, X, NO_TARGETS if Y is None else Y, *known, columns[0])
        return columns

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        return self._x, self._y

    def reset_memory(self) -> None:
        """Begin a new sequence: what was learned stays."""

    def forget(self, factor: float) -> None:
        """There is no certainty that could fade: nothing happens."""
        number("factor", factor, above=0, at_most=1)

    def _cannot(self, what: Ability, p: int = 1) -> str:
        return "" if what == "forget" else super()._cannot(what, p)

    @property
    def rows_seen(self) -> int:
        return int(self._rows[0]) if self._d is not None else 0

    @property
    def size(self) -> int:
        return 1

    @property
    def basis(self) -> FloatArray:
        return np.empty((0, self._d or 0))

    @property
    def hyperparameters(self) -> dict[str, float | FloatArray]:
        return {}


class SeasonalValue(Naive):
    """The target of one season ago; with a period of 1 the previous value, which slow signals are hard to beat at.

    Before a whole season has passed it predicts NaN. A missing target is taken as that of the season before.

    Args:
        period: rows of a season, such as 24 for a day of hours.
        ahead: how many rows after the last one learned the next prediction is for; 1 unless targets come late.

    Example:
        >>> import streamgp as sg
        >>> sg.SeasonalValue(2).track([0.0] * 5, [1.0, 5.0, 2.0, 6.0, 3.0]).mean
        array([nan, nan,  1.,  5.,  2.])
    """

    def __init__(self, period: int = 1, *, ahead: int = 1) -> None:
        period, ahead = whole("period", period), whole("ahead", ahead)
        self._lines = -(-ahead // period) * period  # whole seasons, so that the target is known by then
        self._at = ahead - 1

    def reset_memory(self) -> None:
        """Begin a new sequence: no season has passed yet."""
        if self._d is not None:
            self._known[:] = np.nan


class InputValue(Naive):
    """The value of an input column, such as the last target that is known.

    Args:
        column: of the inputs, the first one 0.

    Example:
        >>> import streamgp as sg
        >>> sg.InputValue(1).predict_one([3.0, 5.0]).mean
        5.0
    """

    def __init__(self, column: int = 0) -> None:
        self._at = whole("column", column, at_least=0)

    def _start(self, d: int, p: int) -> None:
        if self._at >= d:
            raise ValueError(f"column is {self._at}, but there are {d} columns, the first one 0")
        super()._start(d, p)


class RunningMean(Naive):
    """The mean of all targets so far, of which older ones may count less; NaN before the first.

    Args:
        forgetting: factor in (0, 1] by which what has been seen counts less at every target; 1: all count alike.

    Example:
        >>> import streamgp as sg
        >>> sg.RunningMean().track([0.0] * 3, [1.0, 5.0, 3.0]).mean
        array([nan,  1.,  3.])
    """

    _lines = 2

    def __init__(self, forgetting: float = 1.0) -> None:
        self._forgetting = number("forgetting", forgetting, above=0, at_most=1)


@entry(WHOLES, READ_ROWS, READ_ROWS, INDICES, VECTOR, VECTOR, MATRIX, WHOLE, NUMBER, MATRIX)
def follow(
    ops: Array,
    X: Array,
    Y: Array,
    rows: Array,
    x: Array,
    y: Array,
    known: Array,
    at: int,
    forgetting: float,
    out: Array,
) -> None:
    """Do operations in order; what is known goes on, and predictions go into out, (n, p)."""
    lines = known.shape[0]
    for i in range(ops.shape[0]):
        t, kind = ops[i, 0], ops[i, 1]
        learned = Y.shape[0] > 0 and kind & LEARN != 0
        same = kind & ADVANCE != 0
        if same:
            rows[0] += 1
        elif learned:  # the last row may have its target
            same = True
            for k in range(x.size):
                same = same and X[t, k] == x[k]
        for k in range(x.size if kind & ADVANCE else 0):
            x[k] = X[t, k]
        for j in range(y.size):
            if kind & PREDICT:
                out[t, j] = known[at, j] if lines > 0 else X[t, at]
            target = Y[t, j] if Y.shape[0] > 0 else np.nan
            if same:
                y[j] = target
            if not learned or lines == 0:
                continue
            if forgetting == 0.0:
                newest = known[0, j] if np.isnan(target) else target
                for r in range(lines - 1):
                    known[r, j] = known[r + 1, j]
                known[lines - 1, j] = newest
            elif np.isnan(known[0, j]):
                known[0, j], known[1, j] = target, 1.0
            elif not np.isnan(target):
                known[1, j] = forgetting * known[1, j] + 1.0
                known[0, j] += (target - known[0, j]) / known[1, j]
