"""Lagged: past targets as inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.contract import freerun
from streamgp.contract.conditions import part
from streamgp.contract.model import Row, Shape, StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.contract.snapshot import require
from streamgp.settings import FloatArray, whole
from streamgp.wrappers.mapped import Mapped
from streamgp.wrappers.wrapper import joined


class Lagged(Mapped):
    """A stream model that sees the last targets as inputs, after the columns of a row.

    A missing target is bridged by the last one known, and lags from before the first target repeat the oldest one.
    While no target is known there is nothing to learn from: the first row with one only becomes a lag. Rows may be
    empty, ``()``, where the past is all there is. With late targets (``Delayed``, ``Ahead``) the lags are the targets
    that were known when the row was issued, in the order in which they came.

    Args:
        model: the stream model within, which has learned nothing; its inputs are the columns, then the lags, newest
            first (one column for each output).
        lags: how many of the last targets.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> y = np.sin(0.3 * np.arange(300))
        >>> model = sg.Lagged(sg.KRLST(), lags=2)
        >>> p = model.track(np.empty((300, 0)), y)
        >>> bool(np.abs(p.mean - y)[-50:].max() < 0.1)
        True
        >>> model.forecast(3).mean.shape
        (3,)
    """

    _past: FloatArray  # the last targets, (lags, p), gaps bridged, newest last; NaN before the first
    _x: FloatArray  # the last row, (d,)
    _rows: np.ndarray  # (1,) rows seen

    def __init__(self, model: StreamModel, *, lags: int) -> None:
        self._wrap(model)
        self._refuse_classes_and_counts("feeds numbers back")
        self._without_inputs = self._feeds_itself = True
        self._bounded = model._bounded
        self._lags = whole("lags", lags)

    # The state.

    def _start(self, d: int, p: int) -> None:
        if self._d is None:
            self._x, self._rows = np.zeros(d), np.zeros(1, dtype=np.int64)
        # Nothing goes within before the first target, and so before p is known for certain.
        self._models = self._fresh()
        self._within._prepare(Shape(d + self._lags * p, p, scalar=False, certain=True))
        self._past = np.full((self._lags, p), np.nan)

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"past": self._past, "x": self._x, "rows": self._rows}

    def _check_restored(self) -> None:
        require("past targets", self._past[~np.isnan(self._past)])
        require("x", self._x)
        require("rows", self._rows, at_least=0)
        super()._check_restored()

    @property
    def _needed(self) -> int:
        """Past targets without which a row is not learned."""
        return 1

    def _known(self) -> bool:
        return not self._needed or not bool(np.isnan(self._past[-self._needed]).any())

    # Rows.

    def _inputs(self, X: FloatArray, Y: FloatArray | None = None) -> FloatArray:
        if Y is None or len(X) == 1:  # each would come next
            full = not np.isnan(self._past[0]).any()
            lags = self._past[::-1].reshape(1, -1) if full else lag_columns(self._past, self._lags, 1)
            return np.concatenate([X, lags if len(X) == 1 else np.repeat(lags, len(X), axis=0)], axis=1)
        past = bridged(np.concatenate([self._past, Y]))
        return np.column_stack([X, lag_columns(past, self._lags, len(X))])

    def _by_inputs(self, gradient: FloatArray) -> FloatArray:
        return gradient[:, :, : self._d]

    def _advance(
        self, X: FloatArray, Y: FloatArray | None, report: bool, conditions: FloatArray | None = None
    ) -> Prediction | None:
        if self._known():
            return super()._advance(X, Y, report, conditions)
        # Rows before the first target have no lags: they are predicted by the prior, and not learned.
        targets = np.full((len(X), self._past.shape[1]), np.nan) if Y is None else Y
        past = bridged(np.concatenate([self._past, targets]))[self._lags - self._needed :]
        known = ~np.isnan(past[: len(X)]).any(axis=1)
        first = int(np.argmax(known)) if known.any() else len(X)
        prior = self._predict(X[:first], part(conditions, 0, first)) if report else None
        self._note(X[:first], None if Y is None else Y[:first])
        if Y is None or first == len(X):
            return prior
        rest = super()._advance(X[first:], Y[first:], report, part(conditions, first, len(X)))
        return None if prior is None or rest is None else joined([prior, rest])

    def _note(self, X: FloatArray, Y: FloatArray | None) -> None:
        if len(X) == 1:
            self._append(np.nan if Y is None else Y[0])
        else:
            targets = np.full((len(X), self._past.shape[1]), np.nan) if Y is None else Y
            self._past[:] = bridged(np.concatenate([self._past, targets]))[len(X) :]
        self._x[:] = X[-1]
        self._rows += len(X)

    def _append(self, y: FloatArray | float) -> None:
        """A target, (p,), becomes the newest lag; where it is missing the last one stands for it."""
        newest = np.where(np.isnan(y), self._past[-1], y)
        self._past[:-1] = self._past[1:]
        self._past[-1] = newest

    def _quick(self) -> bool:
        return self._within._quick() and self._known()

    def _row(self, X: FloatArray, Y: FloatArray | None) -> Row:
        within: Any = self._within
        row: Row = within._row(self._inputs(X), Y)
        if Y is not None:
            self._note(X, Y)
        return row

    def _told(self) -> Prediction:
        within: Any = self._within
        told: Prediction = within._told()
        return told

    # Late targets.

    def _issued_width(self, p: int) -> int:
        return self._lags * p + super()._issued_width(p)

    def _issue(self, X: FloatArray, conditions: FloatArray | None = None) -> tuple[Prediction, FloatArray]:
        within = self._inputs(X)
        prediction, issued = self._within._issue(within, conditions)
        lags = within[:, X.shape[1] :] if self._known() else np.full((len(X), self._past.size), np.nan)
        return prediction, np.concatenate([lags, issued], axis=1)

    def _resolve(self, X: FloatArray, Y: FloatArray, issued: FloatArray, conditions: FloatArray | None) -> None:
        lags, rest = issued[:, : self._past.size], issued[:, self._past.size :]
        learned, known = not np.isnan(lags).any(), not np.isnan(Y).all()
        if learned:
            self._within._resolve(np.concatenate([X, lags], axis=1), Y, rest, conditions)
        elif known:
            self._within._note_target(Y[0])
        if known:
            self._append(Y[0])
        self._rows += len(X)

    def _may_take_turns(self) -> bool:
        return self._known() and self._within._may_take_turns()

    def _in_turn(self, learned: FloatArray, Y: FloatArray, X: FloatArray, issued: FloatArray) -> Prediction:
        if not self._may_take_turns():
            return super()._in_turn(learned, Y, X, issued)
        n, width, (past, lags) = len(X), self._past.size, self._lags_in_turn(Y)
        issued[len(issued) - n :, :width] = lags
        given = np.hstack([learned, issued[:n, :width]]), Y, np.hstack([X, lags])
        prediction = self._within._in_turn(*given, issued[:, width:])
        self._rows += n
        self._past[:] = past[n:]
        return prediction

    def _lags_in_turn(self, Y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Past targets and those of rows that come now, and the lags of rows that are issued after each of these."""
        past = bridged(np.concatenate([self._past, Y]))
        return past, lag_columns(past[1:], self._lags, len(Y))

    def _memory_in_turn(self, X: FloatArray, Y: FloatArray, issued: FloatArray) -> FloatArray | None:
        width = self._past.size
        if not self._may_take_turns() or np.isnan(issued[:, :width]).any():  # a row without lags is not learned
            return None
        seen = np.hstack([X, self._lags_in_turn(Y)[1]])
        within = self._within._memory_in_turn(seen, Y, issued[:, width:])
        return None if within is None else np.hstack([np.concatenate([self._x[None], X[:-1]]), within])

    def _note_target(self, y: FloatArray) -> None:
        self._append(y)
        super()._note_target(y)

    def _recall(self, y: FloatArray) -> None:
        self._past[-1] = np.where(np.isnan(y), self._past[-1], y)
        super()._recall(y)

    def _remember(self, X: FloatArray) -> None:
        if self._known():
            super()._remember(X)
        self._x[:] = X[-1]

    def _memory_arrays(self) -> list[FloatArray]:
        return [self._x, *super()._memory_arrays()]

    def reset_memory(self) -> None:
        if self._d is not None:
            self._past[:], self._x[:] = np.nan, 0.0
        super().reset_memory()

    # Free runs.

    def _trajectories(self, count: int, steps: int) -> freerun.Trajectories:
        return _LaggedTrajectories(self, self._within._trajectories(count, steps), count)

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        return self._x, self._past[-1]

    # What can be read.

    @property
    def rows_seen(self) -> int:
        return 0 if self._d is None else int(self._rows[0])


class _LaggedTrajectories(freerun.Trajectories):
    """Trajectories that see their own targets as lags."""

    def __init__(self, model: Lagged, within: freerun.Trajectories, count: int) -> None:
        self._within = within
        self._past = np.repeat(model._past[None], count, axis=0)  # (count, lags, p)

    def predict(self, X: FloatArray) -> freerun.Step:
        lags = np.concatenate([lag_columns(past, len(past), 1) for past in self._past])
        return self._within.predict(np.column_stack([X, lags]))

    def record(self, values: FloatArray, targets: FloatArray) -> None:
        self._past = np.concatenate([self._past[:, 1:], targets[:, None]], axis=1)
        self._within.record(values, targets)


def bridged(targets: FloatArray) -> FloatArray:
    """Targets in order, (n, p), in which a missing one is the one before it."""
    latest = np.maximum.accumulate(np.where(np.isnan(targets), 0, np.arange(len(targets))[:, None]), axis=0)
    return np.take_along_axis(targets, latest, axis=0)


def lag_columns(past: FloatArray, lags: int, n: int) -> FloatArray:
    """The lags of n rows, (n, lags * p), newest first; those before the first target repeat the oldest, or are 0.

    Args:
        past: (lags + n - 1 or more, p) targets in order, of which row t sees this many from t on.
        lags: how many.
        n: rows.
    """
    columns: list[FloatArray] = []
    for k in reversed(range(lags)):
        newer = columns[-1] if columns else 0.0
        columns.append(np.where(np.isnan(past[k : k + n]), newer, past[k : k + n]))
    return np.hstack(columns)
