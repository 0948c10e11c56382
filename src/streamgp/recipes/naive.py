"""Predictions that need no model: the value of the last row or of one season ago, and the mean of all."""

from __future__ import annotations

import abc

import numpy as np

from streamgp.compiled import MATRIX, NUMBER, VECTOR, compile_now, entry
from streamgp.contract import passing
from streamgp.contract.model import Row, StreamModel
from streamgp.contract.prediction import Prediction
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
        self._y, self._one = np.full(p, np.nan), Row.empty()
        self._one.out[:] = np.nan

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"rows": self._rows, "x": self._x, "y": self._y}

    def _check_restored(self) -> None:
        require("rows", self._rows, at_least=0)

    def _advance(
        self, X: FloatArray, Y: FloatArray | None, report: bool, conditions: FloatArray | None = None
    ) -> Prediction | None:
        Y = np.full((len(X), len(self._y)), np.nan) if Y is None else Y
        means = self._taken(X, Y)
        return _certain(means) if report else None

    def _taken(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Take rows; the prediction of each, made before it."""
        means = self._follow(X, Y)
        self._rows += len(X)
        self._x[:], self._y[:] = X[-1], Y[-1]
        return means

    def _quick(self) -> bool:
        return self._p == 1

    def _row(self, X: FloatArray, Y: FloatArray | None) -> Row:
        self._one.mean[:] = self._present(X) if Y is None else self._taken(X, Y)
        return self._one

    @abc.abstractmethod
    def _follow(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Take rows in order, (n, d), and their targets, (n, p); return the prediction of each, made before it."""

    def _predict(self, X: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        passing.refuse_unfit(self, X)
        return _certain(self._next(X))

    def _next(self, X: FloatArray) -> FloatArray:
        """The predictions of rows that would each come next, (n, p)."""
        return np.repeat(np.broadcast_to(self._present(X), (1, len(self._y))), len(X), axis=0)

    @abc.abstractmethod
    def _present(self, X: FloatArray) -> FloatArray:
        """The prediction of one row that would come next, (p,)."""

    def _may_take_turns(self) -> bool:
        return True

    def _in_turn(self, learned: FloatArray, Y: FloatArray, X: FloatArray, issued: FloatArray) -> Prediction:
        before = self._taken(learned, Y)  # what is predicted after a row is that before the next one
        return _certain(np.vstack([before[1:], np.broadcast_to(self._present(X), (1, Y.shape[1]))]))

    def _memory_in_turn(self, X: FloatArray, Y: FloatArray, issued: FloatArray) -> FloatArray | None:
        unknown = np.full((len(X) - 1, len(self._y)), np.nan)
        return np.hstack([np.vstack([self._x, X[:-1]]), np.vstack([self._y, unknown])])

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        return self._x, self._y

    def _memory_arrays(self) -> list[FloatArray]:
        return [self._x, self._y]

    def _remember(self, X: FloatArray) -> None:
        self._x[:], self._y[:] = X[-1], np.nan

    def forget(self, factor: float) -> None:
        """There is no certainty that could fade: nothing happens."""
        number("factor", factor, above=0, at_most=1)

    @property
    def _cannot_forget_because(self) -> str:
        return ""

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
        period, self._ahead = whole("period", period), whole("ahead", ahead)
        self._back = -(-self._ahead // period) * period  # whole seasons, so that the target is known by then

    def _start(self, d: int, p: int) -> None:
        super()._start(d, p)
        self._season = np.full((self._back, p), np.nan)

    def _arrays(self) -> dict[str, np.ndarray]:
        return super()._arrays() | {"season": self._season}

    def _follow(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        back, n = self._back, len(Y)
        known = np.concatenate([self._season, Y])
        missing = np.isnan(Y)
        if missing.any():
            for t in np.flatnonzero(missing.any(axis=1)):
                known[back + t] = np.where(missing[t], known[t], Y[t])
        self._season[:] = known[n:]
        return known[self._ahead - 1 : self._ahead - 1 + n]

    def _present(self, X: FloatArray) -> FloatArray:
        present: FloatArray = self._season[self._ahead - 1]
        return present

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

    def _follow(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        return self._next(X)

    def _next(self, X: FloatArray) -> FloatArray:
        column: FloatArray = X[:, self._column : self._column + 1]
        return column if len(self._y) == 1 else np.repeat(column, len(self._y), axis=1)

    def _present(self, X: FloatArray) -> FloatArray:
        present: FloatArray = self._next(X[:1])[0]
        return present

    def _in_turn(self, learned: FloatArray, Y: FloatArray, X: FloatArray, issued: FloatArray) -> Prediction:
        self._taken(learned, Y)
        return _certain(self._next(X))

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

    def _follow(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        means = np.empty(Y.shape)
        average(self._forgetting, np.ascontiguousarray(Y), self._mean, self._count, means)
        return means

    def _present(self, X: FloatArray) -> FloatArray:
        return np.where(self._count > 0, self._mean, np.nan)

    def reset_memory(self) -> None:
        """Begin a new sequence: what was learned stays."""


@entry(NUMBER, MATRIX, VECTOR, VECTOR, MATRIX)
def average(forgetting: float, Y: FloatArray, mean: FloatArray, count: FloatArray, before: FloatArray) -> None:
    """Running means of targets (n, p), and what they were before each of them; NaN before the first."""
    for t in range(Y.shape[0]):
        for j in range(mean.size):
            before[t, j] = mean[j] if count[j] > 0.0 else np.nan
            if not np.isnan(Y[t, j]):
                count[j] = forgetting * count[j] + 1.0
                mean[j] += (Y[t, j] - mean[j]) / count[j]


def _certain(mean: FloatArray) -> Prediction:
    nothing = np.full(mean.shape, np.nan)
    return Prediction(mean.copy(), nothing, nothing.copy())
