"""Ahead: a stream model that predicts targets some rows ahead."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.contract import passing
from streamgp.contract.conditions import NOISE, TIME, part
from streamgp.contract.model import StreamModel
from streamgp.contract.prediction import Prediction, packed
from streamgp.settings import FloatArray, whole
from streamgp.wrappers.issuing import looks_ahead, memory_of, parts_of, put_memory, timed
from streamgp.wrappers.late import Late
from streamgp.wrappers.wrapper import joined

TOGETHER = 200  # most rows that go through the model together; all that is kept of them lies in one array


class Ahead(Late):
    """A stream model that predicts targets some rows ahead.

    The target of a row is predicted from the row ``horizon`` before it, with all that was known then, and from nothing
    that came in between: so ``predict_one`` and ``track`` return what was issued, and errors are those of real
    forecasts. ``upcoming()`` has the predictions of the rows to come. A row is learned when its target has come. Within
    ``Lagged`` the newest lag is the row's own target.

    Args:
        model: the stream model within, which has learned nothing; it sees a row and learns the target ``horizon`` rows
            later.
        horizon: rows ahead.
        pending: rows that can wait longer than that for targets that come even later; ``Delayed`` sets it.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> y = np.sin(0.3 * np.arange(400))
        >>> model = sg.Ahead(sg.Lagged(sg.KRLST(), lags=2), horizon=5)
        >>> p = model.track(np.empty((400, 0)), y)
        >>> bool(np.abs(p.mean - y)[-50:].max() < 0.1)
        True
        >>> model.upcoming().mean.shape
        (5,)
    """

    _looks_ahead = True

    def __init__(self, model: StreamModel, *, horizon: int, pending: int = 0) -> None:
        self._wrap(model)
        self._horizon = whole("horizon", horizon)
        self._places = self._horizon + whole("pending", pending, at_least=0)

    def _fresh(self) -> list[StreamModel]:
        models = super()._fresh()
        models[0]._expect_late(self._horizon, 0)
        return models

    def _expect_late(self, rows: int, pending: int) -> None:
        self._settings["pending"], self._places = pending, self._horizon + pending

    # Rows.

    def _advance(
        self, X: FloatArray, Y: FloatArray | None, report: bool, conditions: FloatArray | None = None
    ) -> Prediction | None:
        Y = np.full((len(X), self._p or 1), np.nan) if Y is None else Y
        predictions: list[Any] = []
        start = 0
        while start < len(X):
            given = part(conditions, start, len(X))
            taken, issued = self._together(X[start:], Y[start:], given, report)
            if not taken:
                rows = slice(start, start + 1)
                taken, issued = 1, self._alone(X[rows], Y[rows], part(given, 0, 1), report)
            predictions.append(issued)
            start += taken
        return joined(predictions) if report else None

    def _alone(self, X: FloatArray, Y: FloatArray, conditions: FloatArray | None, report: bool) -> Prediction | None:
        """Take one row, (1, d); what was predicted of it, if asked for."""
        at = self._own_time(conditions)
        prediction = self._predict(X, conditions) if report else None
        self._arrive(self.rows_seen, Y, timed(conditions, at))
        moment = self._within._moment()
        self._put(X, at, 0.0 if moment is None else self._horizon * (moment.spacing or 1.0))
        return prediction

    def _together(
        self, X: FloatArray, Y: FloatArray, conditions: FloatArray | None, report: bool
    ) -> tuple[int, Prediction | None]:
        """Take the first rows that may go together: how many, and what was predicted of them, if asked for."""
        if self._horizon == 1:
            return self._each_by_the_next(X, Y, conditions, report)
        if not self._within._may_take_turns():
            return 0, None
        X, Y, conditions = X[:TOGETHER], Y[:TOGETHER], part(conditions, 0, TOGETHER)
        h, first, (n, d) = self._horizon, self.rows_seen - self._horizon, X.shape
        places = self._waiting.search(np.arange(first, first + h))
        if places.min() < 0 or not (conditions is None or np.isnan(conditions[:, TIME + 1 :]).all()):
            return 0, None
        times = self._times(conditions, n)
        rows = np.zeros((h + n, self._waiting.rows.shape[1]))
        rows[:h], rows[h:, :d], rows[h:, -1] = self._waiting.rows[places], X, times
        predicted = slice(-1 - self._parts * Y.shape[1], -1)
        prediction = self._take_turns_within(rows[:, : predicted.start], Y, times)
        if prediction is None:
            return 0, None
        n = len(prediction.mean)
        rows[h : h + n, predicted] = packed(prediction, Y.shape[1])
        newest = np.arange(max(n, h), h + n)  # of the rows, those that wait now
        self._waiting.follow(places[newest % h], first + newest, rows[newest])
        counters = self._numbers.counters
        counters["rows"], counters["newest"], counters["fresh"] = first + h + n, first + h + n - 1, 1
        self._numbers.state.last_x[:] = X[n - 1]
        self._note_last(Y[:n])
        return n, self._unpacked(rows[:n]) if report else None

    def _times(self, conditions: FloatArray | None, n: int) -> FloatArray:
        """The times of n rows, where the model within sees times; else NaN."""
        return np.full(n, np.nan) if conditions is None or not self._within._sees_time else conditions[:, TIME]

    def _take_turns_within(self, rows: FloatArray, Y: FloatArray, times: FloatArray) -> Prediction | None:
        """Let the model within take the first rows that may go together, as its ``_take_turns`` has it."""
        within, d, new = self._within, self._d or 0, slice(len(rows) - len(Y), None)
        X, issued = rows[new, :d], slice(d, d + self._within._issued_width(Y.shape[1]))
        # What is remembered before one row more is what is remembered in the end.
        following, targets = (np.concatenate([values, values[-1:]]) for values in (X, Y))
        before = within._memory_in_turn(following, targets, rows[: new.start, issued])
        if before is None:
            return within._take_turns(rows, Y, times)
        kept, present = rows[:, issued].copy(), memory_of(within)
        try:
            prediction = within._in_turn(rows[: len(Y), :d], Y, X, kept)
        except BaseException:
            put_memory(within, present)
            raise
        rows[new, issued], rows[new, issued.stop :] = kept[new], before[:-1]
        put_memory(within, before[-1])
        return prediction

    def _each_by_the_next(
        self, X: FloatArray, Y: FloatArray, conditions: FloatArray | None, report: bool
    ) -> tuple[int, Prediction | None]:
        """One row ahead nothing comes between a row and its target: rows are learned as ever, by the targets after."""
        within, newest = self._within, self.rows_seen - 1
        if not self._is_unchanged(newest) or within._moment() is not None or looks_ahead(within):
            return 0, None
        row, present = self._waiting[newest], memory_of(within)
        x, _, past = parts_of(within, row)
        times = self._times(conditions, len(X))
        own = np.append(row[-1], times[:-1])  # a row has its own time, not that of its target
        if not np.isnan(own).all():
            conditions = np.full((len(X), NOISE + 1), np.nan) if conditions is None else conditions.copy()
            conditions[:, TIME] = own
        put_memory(within, past)
        try:
            issued = within._advance(np.vstack([x, X[:-1]]), Y, report, conditions)
        except BaseException:
            put_memory(within, present)
            raise
        self._waiting.resolve(self._waiting.place(newest))
        self._numbers.counters["rows"] += len(X) - 1
        self._note_last(Y)
        self._put(X[-1:], times[-1])
        return len(X), None if issued is None else self._widened(issued._bare(), Y.shape)

    @staticmethod
    def _widened(prediction: Prediction, shape: tuple[int, ...]) -> Prediction:
        """A prediction in which every part is of this shape, as it is of rows that waited."""
        return prediction._each(lambda part: np.broadcast_to(part, shape).copy())

    def _arrive(self, row: int, Y: FloatArray, conditions: FloatArray | None) -> None:
        """The target of a row has come: the row ``horizon`` before it is learned."""
        ticket = row - self._horizon
        known = ticket in self._waiting and (self._take_out(ticket, Y, conditions) or not np.isnan(Y).all())
        if not known:  # the model within has not seen it, or does not bridge it
            self._within._note_target(Y[0])
        self._note_last(Y)

    def _predict(self, X: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        passing.refuse_unfit(self, X)
        ticket = self.rows_seen - self._horizon
        if ticket not in self._waiting:
            return self._widened(self._within._predict(X, conditions), (len(X), self._numbers.state.last_y.size))
        return self._unpacked(np.repeat(self._waiting[ticket][None], len(X), axis=0))

    def upcoming(self) -> Prediction[FloatArray]:
        """Return the predictions of the rows to come, the next one first; as many as rows have been seen, at most."""
        if self._d is None:
            return self._empty()
        numbers = range(self.rows_seen - self._horizon, self.rows_seen)
        rows = [self._waiting[number] for number in numbers if number in self._waiting]
        return passing.shaped(self, self._unpacked(np.array(rows)), many=True) if rows else self._empty()

    # Targets that come even later.

    def _issued_width(self, p: int) -> int:
        return p

    def _issue(self, X: FloatArray, conditions: FloatArray | None = None) -> tuple[Prediction, FloatArray]:
        return self._predict(X, conditions), np.full((len(X), self._p or 1), float(self.rows_seen))

    def _remember(self, X: FloatArray) -> None:
        self._put(X, self._own_time(None))

    def _resolve(self, X: FloatArray, Y: FloatArray, issued: FloatArray, conditions: FloatArray | None) -> None:
        self._arrive(int(issued[0, 0]), Y, conditions)

    def _recall(self, y: FloatArray) -> None:
        """The last row was issued without its own target: issue it once more."""
        newest = self.rows_seen - 1
        row = self._waiting[newest]
        x, _, past = parts_of(self._within, row)
        self._waiting.resolve(self._waiting.place(newest))
        put_memory(self._within, past)
        self._within._note_target(y)
        self._numbers.counters["rows"] = newest
        self._put(x, row[-1])

    def reset_memory(self) -> None:
        if self._d is not None:  # the rows of a new sequence are not those that the old one led to
            self._waiting.resolve(np.arange(self._places))
        super().reset_memory()

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        return self._numbers.state.last_x, self._numbers.state.last_y
