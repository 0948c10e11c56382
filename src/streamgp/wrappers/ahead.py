"""Ahead: a stream model that predicts targets some rows ahead."""

from __future__ import annotations

import numpy as np

from streamgp.contract import passing
from streamgp.contract.analysis import Analysis
from streamgp.contract.conditions import NOISE, TIME, part
from streamgp.contract.lanes import ADVANCE, ISSUE, LEARN, PREDICT, TAKE, TELL
from streamgp.contract.model import Shape, StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.contract.snapshot import SnapshotError, require
from streamgp.settings import FloatArray, Maybe, whole
from streamgp.wrappers.late import Late


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

    def reset_memory(self) -> None:
        if self._d is not None:  # the rows of a new sequence are not those that the old one led to
            self._ring[:] = np.nan
        super().reset_memory()

    # Rows.

    @property
    def _columns(self) -> tuple[str, ...]:  # type: ignore[override]
        return super()._columns[: self._said]

    @property
    def _kept_width(self) -> int:  # type: ignore[override]
        return self._line_width

    def _pass(self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe, kept: Maybe) -> FloatArray:
        columns = np.full((self._said, len(X), self._numbers.state.last_y.size), np.nan)
        together = len(ops) if self._within._moment is None else 1  # when a row comes depends on those before it
        for start in range(0, len(ops), max(together, 1)):
            stop = start + together
            self._do(ops[start:stop], X, Y, part(conditions, start, stop), kept, columns)
        return columns

    def _do(
        self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe, kept: Maybe, columns: FloatArray
    ) -> None:
        """Turn operations on rows into those on the rows that predict them: a row learns the row before it."""
        (rows, kinds), h, d, moment = ops.T, self._horizon, X.shape[1], self._within._moment
        advances, late, told = kinds & ADVANCE != 0, kinds & TAKE == LEARN, kinds & (LEARN | TELL) != 0
        before, first = np.cumsum(advances) - advances, self._numbers.count("rows")
        m = int(np.count_nonzero(advances))
        waiting = min(h, m + 1)
        # Lines of rows that wait, then of new ones: which of them predicts a row, the rows before it in this call tell.
        places = dict(zip(rows[advances].tolist(), before[advances].tolist(), strict=True))
        given = [row for row in rows[late].tolist() if row not in places]
        places |= {row: waiting + m + k for k, row in enumerate(given)}
        at = before.copy()
        at[late] = [places[row] for row in rows[late].tolist()]
        lines = np.full((waiting + m + len(given), self._line_width), np.nan)
        lines[:waiting] = self._ring[(first + np.arange(waiting)) % h]
        new = slice(waiting, waiting + m)
        lines[new, 0], lines[new, 1 : 1 + d] = first + np.arange(m), X[rows[advances]]
        if kept is not None:
            lines[waiting + m :] = kept[given]
        # Rows that none has predicted have lines of their own, as if they predicted themselves.
        known, asked, predicted = ~np.isnan(lines[at, 0]), kinds & PREDICT != 0, at.copy()
        alone = asked & ~known
        predicted[alone] = len(lines) + np.arange(np.count_nonzero(alone))
        lines = np.concatenate([lines, np.full((np.count_nonzero(alone), self._line_width), np.nan)])
        lines[predicted[alone], 1 : 1 + d] = X[rows[alone]]
        targets, missing = np.full((len(lines), columns.shape[2]), np.nan), np.zeros(len(ops), dtype=bool)
        if Y is not None:
            targets[at[told]], missing = Y[rows[told]], np.isnan(Y[rows]).all(axis=1)
        # Of each operation: predict where no row has, learn, tell what is bridged or belongs to no row, and issue; over
        # time, a row is predicted at another time than its own.
        later, within = waiting + before, np.zeros((len(ops), 5), dtype=np.int64)
        within[:, 0] = np.where(known, 0, kinds & PREDICT)
        within[:, 1] = np.where(known, kinds & LEARN, 0)
        bridged = (kinds & LEARN != 0) & (~known | (missing & ~late & (h > 1)))
        within[:, 2] = np.where(bridged | (kinds & TELL != 0), TELL, 0)
        within[:, 3] = 0 if moment is None else np.where(advances, PREDICT, 0)
        within[:, 4] = np.where(advances, ISSUE if moment is None else ADVANCE, 0)
        times = np.full(len(ops), np.nan) if conditions is None else conditions[:, TIME]
        each = None if conditions is None else np.repeat(conditions[:, None], 5, axis=1)
        if moment is not None:
            times = np.where(np.isnan(times), moment.one_later, times)
            if each is None and m:
                each = np.full((len(ops), 5, NOISE + 1), np.nan)
        if each is not None:
            each[:, [0, 3, 4], TIME + 1 :] = np.nan
            each[:, :, TIME] = times[:, None]
            each[:, 3, TIME] += self._later(times[0])
        done = within != 0
        x, line, said, time = self._parts(lines)
        if done.any():
            found = self._within._pass(
                np.stack([np.stack([predicted, at, at, later, later], axis=1)[done], within[done]], axis=1),
                np.nan_to_num(x),  # of places where no row waits
                targets,
                None if each is None else np.ascontiguousarray(each[done]),
                line,
            )
            for fresh in (new, predicted[alone]):
                said[:, fresh] = found[: self._said, fresh]
        time[new] = times[advances]
        columns[:, rows[asked]] = said[:, predicted[asked]]
        waits = kinds & (TAKE | TELL) == ADVANCE
        if kept is not None:
            kept[rows[waits]] = lines[at[waits]]
        if m:
            stay = np.arange(max(0, m - h), m)
            self._ring[(first + stay) % h] = lines[waiting + stay]
            self._numbers.counters["rows"] = first + m
            self._numbers.state.last_x[:] = X[rows[advances][-1]]
        if Y is not None:
            self._note_last(Y[rows[told]])

    def _analysis(self) -> Analysis:
        return Analysis(self)

    def _later(self, time: float) -> float:
        moment = self._within._moment
        return 0.0 if moment is None or np.isnan(time) else self._horizon * (moment.spacing or 1.0)

    def _in_order(self) -> FloatArray:
        """The lines of rows that wait, oldest first."""
        known = self._ring[~np.isnan(self._ring[:, 0])]
        return known[np.argsort(known[:, 0])]

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
        return 0 if self._d is None else len(self._in_order())
