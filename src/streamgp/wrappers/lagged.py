"""Lagged: past targets as inputs."""

from __future__ import annotations

import numpy as np

from streamgp.contract import freerun
from streamgp.contract.lanes import ADVANCE, ISSUE, LEARN, PREDICT, TAKE, TELL, with_kinds
from streamgp.contract.model import StreamModel
from streamgp.contract.snapshot import require
from streamgp.settings import FloatArray, Maybe, whole
from streamgp.wrappers.mapped import Mapped


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
        self._lags = whole("lags", lags)

    # The state.

    def _start(self, d: int, p: int) -> None:
        if self._d is None:
            self._x, self._rows = np.zeros(d), np.zeros(1, dtype=np.int64)
        # Nothing goes within before the first target, and so before p is known for certain.
        self._models = self._fresh()
        self._within._prepare(self._shape_within(d + self._lags * p, p))
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

    # Rows.

    def _inputs(self, X: FloatArray) -> FloatArray:
        return np.column_stack([X, np.repeat(lag_columns(self._past, self._lags, 1), len(X), axis=0)])

    def _by_inputs(self, gradient: FloatArray) -> FloatArray:
        return gradient[:, :, : self._d]

    @property
    def _kept_width(self) -> int:
        return 1 + self._past.size + super()._kept_width  # the number of the row, and its lags

    def _pass(self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe, kept: Maybe) -> FloatArray:
        if len(ops) == len(X) == 1 and kept is None and ops.item(1) & ISSUE:
            full = not np.isnan(self._past).any()
            if full or self._known():
                return self._pass_one(ops, X, Y, conditions, full)
        (rows, kinds), (n, d), width = ops.T, X.shape, self._past.size
        advanced = rows[kinds & ADVANCE != 0]
        late, waits = kinds & TAKE == LEARN, kinds & (TAKE | TELL) == ADVANCE
        told = kinds & (LEARN | TELL) != 0
        number = self._rows[0] + np.cumsum(kinds & ADVANCE != 0)
        if Y is not None and kept is not None and late.any():  # that comes after other rows is a lag where it is known
            told &= ~(late & np.isnan(Y[rows]).all(axis=1) & (_numbers(ops, kept, number, waits) != number))
        targets = self._past[:0] if Y is None else Y[rows[told]]
        past, before = bridged(np.concatenate([self._past, targets])), np.cumsum(told) - told
        lags = lag_columns(past, self._lags, len(targets) + 1)[before]
        unknown = np.isnan(past[self._lags - self._needed + before]).any(axis=1) if self._needed else np.zeros(1, bool)
        within = np.zeros((n, d + width))
        within[:, :d] = X
        seen = kinds & ISSUE != 0
        within[rows[seen], d:] = lags[seen]
        if kept is not None:
            kept[rows[waits], 0] = number[waits]
            kept[rows[waits], 1 : 1 + width] = np.where(unknown[:, None], np.nan, lags)[waits]
            given = kept[rows[late], 1 : 1 + width]
            unknown = unknown | np.zeros(len(ops), dtype=bool)
            unknown[late], within[rows[late], d:] = np.isnan(given).any(axis=1), np.nan_to_num(given)
        if unknown.any():  # without a lag there is nothing to learn from: such rows are predicted by the prior
            kinds = np.where(unknown, np.where(kinds & ISSUE, kinds & PREDICT, TELL * told), kinds)
            conditions = None if conditions is None else np.ascontiguousarray(conditions[kinds != 0])
            ops = with_kinds(ops, kinds)
        columns = np.zeros((len(self._columns), n, self._past.shape[1]))
        if len(ops):
            columns = self._within._pass(ops, within, Y, conditions, None if kept is None else kept[:, 1 + width :])
        self._past[:] = past[len(targets) :]
        if len(advanced):
            self._x[:] = X[advanced[-1]]
            self._rows += len(advanced)
        return columns

    def _pass_one(self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe, full: bool) -> FloatArray:
        """The usual case in fewer steps: one row that has lags, all of them or some, and waits for nothing."""
        lags, kind = self._past[::-1].reshape(1, -1) if full else lag_columns(self._past, self._lags, 1), ops.item(1)
        columns = self._within._pass(ops, np.concatenate([X, lags], axis=1), Y, conditions, None)
        if Y is not None and kind & (LEARN | TELL):
            newest = np.where(np.isnan(Y[0]), self._past[-1], Y[0])
            self._past[:-1] = self._past[1:]
            self._past[-1] = newest
        if kind & ADVANCE:
            self._x[:] = X[0]
            self._rows += 1
        return columns

    def _known(self) -> bool:
        return not self._needed or not bool(np.isnan(self._past[-self._needed]).any())

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


def _numbers(ops: np.ndarray, kept: FloatArray, number: np.ndarray, waits: np.ndarray) -> FloatArray:
    """The numbers of the rows of operations: those that wait have them from their own operation on."""
    (rows, _), of_rows = ops.T, kept[:, 0].copy()
    of_rows[rows[waits]] = number[waits]
    return np.asarray(of_rows[rows])


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
