"""Predictions that need no model: the value of the last row or of one season ago, and the mean of all."""

from __future__ import annotations

import abc

import numpy as np

from streamgp.contract.lanes import ADVANCE, LEARN, PREDICT
from streamgp.contract.model import Ability, StreamModel
from streamgp.contract.snapshot import require
from streamgp.settings import FloatArray, Maybe, number, whole


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

    def _pass(self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe, kept: Maybe) -> FloatArray:
        columns = np.full((3, len(X), len(self._y)), np.nan)
        for row, kind in ops.tolist():
            if kind & PREDICT:
                columns[0, row] = self._said(X[row])
            if kind & ADVANCE:
                self._rows += 1
                self._x[:], self._y[:] = X[row], np.nan if Y is None else Y[row]
            elif Y is not None and kind & LEARN and np.array_equal(X[row], self._x):
                self._y[:] = Y[row]  # the last row has its target
            if Y is not None and kind & LEARN:
                self._learn(Y[row])
        return columns

    @abc.abstractmethod
    def _said(self, x: FloatArray) -> FloatArray:
        """What is predicted of a row, (d,), before its target is learned, (p,)."""

    @abc.abstractmethod
    def _learn(self, y: FloatArray) -> None:
        """Learn a target, (p,)."""

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

    def _said(self, x: FloatArray) -> FloatArray:
        return np.asarray(self._season[self._rows_ahead - 1])

    def _learn(self, y: FloatArray) -> None:
        newest = np.where(np.isnan(y), self._season[0], y)
        self._season[:-1] = self._season[1:]
        self._season[-1] = newest

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

    def _said(self, x: FloatArray) -> FloatArray:
        return x[self._column : self._column + 1]  # of every output

    def _learn(self, y: FloatArray) -> None:
        """There is nothing to learn."""

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

    def _start(self, d: int, p: int) -> None:
        super()._start(d, p)
        self._mean, self._count = np.zeros(p), np.zeros(p)

    def _arrays(self) -> dict[str, np.ndarray]:
        return super()._arrays() | {"mean": self._mean, "count": self._count}

    def _check_restored(self) -> None:
        super()._check_restored()
        require("count", self._count, at_least=0)

    def _said(self, x: FloatArray) -> FloatArray:
        return np.asarray(np.where(self._count > 0.0, self._mean, np.nan))

    def _learn(self, y: FloatArray) -> None:
        for j in np.flatnonzero(~np.isnan(y)):
            self._count[j] = self._forgetting * self._count[j] + 1.0
            self._mean[j] += (y[j] - self._mean[j]) / self._count[j]

    def reset_memory(self) -> None:
        """Begin a new sequence: what was learned stays."""
