"""Predictions that need no model: the value of the last row or of one season ago, and the mean of all."""

from __future__ import annotations

import abc

import numpy as np

from streamgp.compiled import MATRIX, NUMBER, VECTOR, compile_now, entry
from streamgp.contract.lanes import ADVANCE, LEARN, PREDICT
from streamgp.contract.model import Ability, StreamModel
from streamgp.contract.snapshot import require
from streamgp.settings import FloatArray, number, whole


class Naive(StreamModel):
    """A prediction without a model, and without a variance."""

    has_variance = False
    _rows: np.ndarray  # (1,) rows seen
    _x: FloatArray  # the last row, (d,)
    _y: FloatArray  # and its target, (p,)

    def _start(self, d: int, p: int) -> None:
        if self._d is None:
            self._rows, self._x = np.zeros(1, dtype=np.int64), np.zeros(d)
        self._y = np.full(p, np.nan)

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"rows": self._rows, "x": self._x, "y": self._y}

    def _check_restored(self) -> None:
        require("rows", self._rows, at_least=0)

    def _pass(
        self,
        ops: np.ndarray,
        X: FloatArray,
        Y: FloatArray | None,
        conditions: FloatArray | None,
        kept: FloatArray | None,
    ) -> FloatArray:
        rows, kinds = ops.T
        learned = kinds & LEARN != 0
        none = np.empty((0, len(self._y)))
        before = self._follow(none if Y is None else Y[rows[learned]])
        columns = np.full((3, len(X), len(self._y)), np.nan)
        predicted = kinds & PREDICT != 0
        after = np.cumsum(learned) - learned  # how many targets were learned before
        columns[0, rows[predicted]] = self._said(X[rows[predicted]], before[after[predicted]])
        if len(advanced := rows[kinds & ADVANCE != 0]):
            last = advanced[-1]
            self._rows += len(advanced)
            self._x[:], self._y[:] = X[last], np.nan if Y is None else Y[last]
        for row in rows[kinds & (ADVANCE | LEARN) == LEARN]:
            if Y is not None and np.array_equal(X[row], self._x):  # the last row has its target
                self._y[:] = Y[row]
        return columns

    @abc.abstractmethod
    def _follow(self, Y: FloatArray) -> FloatArray:
        """Learn targets in order, (n, p); return what is predicted before each of them, and after all, (n + 1, p)."""

    def _said(self, X: FloatArray, means: FloatArray) -> FloatArray:
        """What is predicted of rows, if the targets so far say so much."""
        return means

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        return self._x, self._y

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

    _season: FloatArray  # the last targets, (back, p), oldest first

    def __init__(self, period: int = 1, *, ahead: int = 1) -> None:
        period, self._rows_ahead = whole("period", period), whole("ahead", ahead)
        self._back = -(-self._rows_ahead // period) * period  # whole seasons, so that the target is known by then

    def _start(self, d: int, p: int) -> None:
        super()._start(d, p)
        self._season = np.full((self._back, p), np.nan)

    def _arrays(self) -> dict[str, np.ndarray]:
        return super()._arrays() | {"season": self._season}

    def _follow(self, Y: FloatArray) -> FloatArray:
        back, n = self._back, len(Y)
        known = np.concatenate([self._season, Y])
        missing = np.isnan(Y)
        if missing.any():
            for t in np.flatnonzero(missing.any(axis=1)):
                known[back + t] = np.where(missing[t], known[t], Y[t])
        self._season[:] = known[n:]
        return known[self._rows_ahead - 1 : self._rows_ahead + n]

    def reset_memory(self) -> None:
        """Begin a new sequence: no season has passed yet."""
        if self._d is not None:
            self._season[:] = np.nan


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
        self._column = whole("column", column, at_least=0)

    def _start(self, d: int, p: int) -> None:
        if self._column >= d:
            raise ValueError(f"column is {self._column}, but there are {d} columns, the first one 0")
        super()._start(d, p)

    def _follow(self, Y: FloatArray) -> FloatArray:
        return np.empty((len(Y) + 1, len(self._y)))

    def _said(self, X: FloatArray, means: FloatArray) -> FloatArray:
        return np.broadcast_to(X[:, self._column : self._column + 1], means.shape)

    def reset_memory(self) -> None:
        """Begin a new sequence: nothing is remembered."""


class RunningMean(Naive):
    """The mean of all targets so far, of which older ones may count less; NaN before the first.

    Args:
        forgetting: factor in (0, 1] by which what has been seen counts less at every target; 1: all count alike.

    Example:
        >>> import streamgp as sg
        >>> sg.RunningMean().track([0.0] * 3, [1.0, 5.0, 3.0]).mean
        array([nan,  1.,  3.])
    """

    _mean: FloatArray  # (p,)
    _count: FloatArray  # (p,) targets

    def __init__(self, forgetting: float = 1.0) -> None:
        self._forgetting = number("forgetting", forgetting, above=0, at_most=1)
        compile_now(average)

    def _start(self, d: int, p: int) -> None:
        super()._start(d, p)
        self._mean, self._count = np.zeros(p), np.zeros(p)

    def _arrays(self) -> dict[str, np.ndarray]:
        return super()._arrays() | {"mean": self._mean, "count": self._count}

    def _check_restored(self) -> None:
        super()._check_restored()
        require("count", self._count, at_least=0)

    def _follow(self, Y: FloatArray) -> FloatArray:
        means = np.empty((len(Y) + 1, len(self._mean)))
        average(self._forgetting, np.ascontiguousarray(Y), self._mean, self._count, means)
        return means

    def reset_memory(self) -> None:
        """Begin a new sequence: what was learned stays."""


@entry(NUMBER, MATRIX, VECTOR, VECTOR, MATRIX)
def average(forgetting: float, Y: FloatArray, mean: FloatArray, count: FloatArray, before: FloatArray) -> None:
    """Running means of targets (n, p), and what they were before each of them and after all; NaN before the first."""
    for t in range(Y.shape[0] + 1):
        for j in range(mean.size):
            before[t, j] = mean[j] if count[j] > 0.0 else np.nan
            if t < Y.shape[0] and not np.isnan(Y[t, j]):
                count[j] = forgetting * count[j] + 1.0
                mean[j] += (Y[t, j] - mean[j]) / count[j]
