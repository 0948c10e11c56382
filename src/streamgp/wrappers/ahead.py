"""Ahead: a stream model that predicts targets some rows ahead."""

from __future__ import annotations

import math

import numpy as np

from streamgp.contract import passing
from streamgp.contract.conditions import NOISE, TIME, part
from streamgp.contract.lanes import ADVANCE, ISSUE, LEARN, PREDICT, TAKE, TELL
from streamgp.contract.model import Shape, StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.contract.snapshot import SnapshotError, require
from streamgp.settings import FloatArray, Maybe, whole
from streamgp.wrappers.late import Late

LEARN_AND_ISSUE = np.array([[0, LEARN], [1, ISSUE]])  # of one row, and of the row that predicts a later one


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

    _ring: FloatArray  # (horizon, width) lines of the last rows, row t in place t modulo the horizon; NaN: none

    def __init__(self, model: StreamModel, *, horizon: int) -> None:
        self._wrap(model)
        self._horizon = whole("horizon", horizon)

    # The state.

    def _shape_within(self, d: int, p: int) -> Shape:
        return super()._shape_within(d, p)._replace(ahead=self._horizon)

    def _start(self, d: int, p: int) -> None:
        waited = None if self._d is None else self._in_order()
        super()._start(d, p)
        self._ring = np.full((self._horizon, self._line_width), np.nan)
        for line in () if waited is None else self._widened(waited, d, p):  # no target has come
            self._ring[int(line[0]) % self._horizon] = line

    def _arrays(self) -> dict[str, np.ndarray]:
        return self._numbers.arrays() | {"ring": self._ring}

    def _check_restored(self) -> None:
        numbers, places = self._ring[:, 0], np.arange(self._horizon)
        known = ~np.isnan(numbers)
        rows = self._numbers.count("rows")
        if np.any(numbers[known] % self._horizon != places[known]) or np.any(numbers[known] >= max(rows, 0)):
            raise SnapshotError(f"the snapshot cannot have {rows} rows, of which {numbers} wait")
        require("waiting rows", self._ring[known, : 1 + (self._d or 0)])
        require("last_x", self._numbers.state.last_x)
        super()._check_restored()

    def reset_memory(self) -> None:
        if self._d is not None:  # the rows of a new sequence are not those that the old one led to
            self._ring[:] = np.nan
        super().reset_memory()

    # Rows.

    @property
    def _columns(self) -> tuple[str, ...]:  # type: ignore[override]
        return super()._columns[: self._said]

    @property
    def _kept_width(self) -> int:
        return self._line_width

    def _pass(self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe, kept: Maybe) -> FloatArray:
        moment, p = self._within._moment(), self._numbers.state.last_y.size
        if len(ops) == len(X) == 1 and moment is None and conditions is None and kept is None:
            kind, place = ops.item(1), self._numbers.count("rows") % self._horizon
            known = not math.isnan(self._ring[place, 0])
            if known and (kind == PREDICT or (kind & TAKE == TAKE and Y is not None and not np.isnan(Y).all())):
                return self._pass_one(kind, place, X, Y)
        columns = np.full((self._said, len(X), p), np.nan)
        if moment is None:
            self._do(ops, X, Y, conditions, kept, columns)
            return columns
        for i in range(len(ops)):  # when a row comes depends on those before it
            self._do(ops[i : i + 1], X, Y, part(conditions, i, i + 1), kept, columns)
        return columns

    def _pass_one(self, kind: int, place: int, X: FloatArray, Y: Maybe) -> FloatArray:
        """The usual case in fewer steps: one row that another one has predicted, and its target."""
        lines = np.full((2, self._line_width), np.nan)
        lines[0] = self._ring[place]
        x, kept, said, _ = self._parts(lines)
        if Y is not None and kind & TAKE:
            targets, number = np.full((2, Y.shape[1]), np.nan), self._numbers.count("rows")
            lines[1, 0], x[1], targets[0] = number, X[0], Y[0]
            found = self._within._pass(LEARN_AND_ISSUE, np.ascontiguousarray(x), targets, None, kept)
            said[:, 1] = found[: self._said, 1]
            self._ring[place] = lines[1]
            self._numbers.counters["rows"] = number + 1
            self._numbers.state.last_x[:] = X[0]
            self._note_last(Y)
        if not kind & PREDICT:
            said[:, 0] = np.nan
        return np.ascontiguousarray(said[:, :1])

    def _do(
        self,
        ops: np.ndarray,
        X: FloatArray,
        Y: Maybe,
        conditions: Maybe,
        kept: Maybe,
        columns: FloatArray,
    ) -> None:
        """Turn operations on rows into those on the rows that predict them: a row learns the row before it."""
        (rows, kinds), h, p, d = ops.T, self._horizon, columns.shape[2], X.shape[1]
        first, advances, late = self._numbers.count("rows"), kinds & ADVANCE != 0, kinds & TAKE == LEARN
        before, m = np.cumsum(advances) - advances, int(np.count_nonzero(advances))
        used = min(h, m + 1)
        # The lines of rows that wait, those of the new rows, those that are given, and of rows that none has predicted.
        at = np.where(before < h, before, used + before - h)  # of the row that predicts that of an operation
        given = np.flatnonzero(late)
        if len(given):
            came = dict(zip(rows[advances].tolist(), at[advances].tolist(), strict=True))
            at[given] = [came.get(row, used + m + k) for k, row in enumerate(rows[given].tolist())]
        lines = np.full((used + m + len(given), self._line_width), np.nan)
        lines[:used] = self._ring[(first + np.arange(used)) % h]
        new = slice(used, used + m)
        lines[new, 0], lines[new, 1 : 1 + d] = first + np.arange(m), X[rows[advances]]
        if kept is not None and len(given):
            lines[used + m :] = kept[rows[given]]
        known = ~np.isnan(lines[at, 0])
        unknown = np.flatnonzero(~known & (kinds & PREDICT != 0))
        lines = np.concatenate([lines, np.full((len(unknown), lines.shape[1]), np.nan)])
        lines[len(lines) - len(unknown) :, 1 : 1 + d] = X[rows[unknown]]
        predicted = at.copy()
        predicted[unknown] = len(lines) - len(unknown) + np.arange(len(unknown))
        targets = np.full((len(lines), p), np.nan)
        told = kinds & (LEARN | TELL) != 0
        missing = np.zeros(len(ops), dtype=bool)
        if Y is not None:
            targets[at[told]], missing = Y[rows[told]], np.isnan(Y[rows]).all(axis=1)
        # Of each operation: predict where none has, learn, tell what is bridged or belongs to no row, and issue.
        within = np.zeros((len(ops), 5, 2), dtype=np.int64)
        within[:, 0, 0], within[:, 0, 1] = predicted, np.where(known, 0, kinds & PREDICT)
        within[:, 1, 0], within[:, 1, 1] = at, np.where(known, kinds & LEARN, 0)
        alone = (kinds & LEARN != 0) & (~known | (missing & ~late & (h > 1)))
        within[:, 2, 0], within[:, 2, 1] = at, np.where(alone | (kinds & TELL != 0), TELL, 0)
        within[:, 3:, 0] = (used + before)[:, None]
        times = np.full(len(ops), np.nan) if conditions is None else conditions[:, TIME]
        each = None if conditions is None else np.repeat(conditions[:, None], 5, axis=1)
        if each is not None:
            each[:, [0, 3, 4], TIME + 1 :] = np.nan
        moment = self._within._moment()
        if moment is None:
            within[:, 4, 1] = np.where(advances, ISSUE, 0)
        else:
            times = np.where(np.isnan(times), moment.one_later, times)
            each = np.full((len(ops), 5, NOISE + 1), np.nan) if each is None else each
            each[:, :, TIME] = times[:, None]
            each[:, 3, TIME] += self._later(times[0])
            within[:, 3, 1], within[:, 4, 1] = np.where(advances, PREDICT, 0), np.where(advances, ADVANCE, 0)
            if not advances.any() and conditions is None:
                each = None
        done = within[:, :, 1] != 0
        x, line, said, time = self._parts(lines)
        if done.any():
            found = self._within._pass(
                np.ascontiguousarray(within[done]),
                np.nan_to_num(x),  # of places where no row waits
                targets,
                None if each is None else np.ascontiguousarray(each[done]),
                line,
            )
            fresh = np.r_[used : used + m, len(lines) - len(unknown) : len(lines)]
            said[:, fresh] = found[: self._said, fresh]
        time[new] = times[advances]
        asked = kinds & PREDICT != 0
        columns[:, rows[asked]] = said[:, predicted[asked]]
        waits = kinds & (TAKE | TELL) == ADVANCE
        if kept is not None and waits.any():
            kept[rows[waits]] = lines[at[waits]]
        if m:
            stay = np.arange(max(0, m - h), m)
            self._ring[(first + stay) % h] = lines[used + stay]
            self._numbers.counters["rows"] = first + m
            self._numbers.state.last_x[:] = X[rows[advances][-1]]
        if Y is not None and told.any():
            self._note_last(Y[rows[told]])

    def _later(self, time: float) -> float:
        moment = self._within._moment()
        return 0.0 if moment is None or np.isnan(time) else self._horizon * (moment.spacing or 1.0)

    def _in_order(self) -> FloatArray:
        """The lines of rows that wait, oldest first."""
        known = self._ring[~np.isnan(self._ring[:, 0])]
        return known[np.argsort(known[:, 0])]

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        return self._numbers.state.last_x, self._numbers.state.last_y

    # What can be read.

    def upcoming(self) -> Prediction[FloatArray]:
        """Return the predictions of the rows to come, the next one first; as many as rows have been seen, at most."""
        if self._d is None:
            return passing.nothing(self)
        columns = self._parts(self._in_order())[2]
        return self._told(list(columns[:, :, 0] if self._shape.scalar else columns))

    @property
    def pending(self) -> int:
        """Rows that wait for their targets."""
        return 0 if self._d is None else int(np.count_nonzero(~np.isnan(self._ring[:, 0])))
