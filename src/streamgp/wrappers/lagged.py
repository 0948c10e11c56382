"""Lagged: past targets as inputs."""

from __future__ import annotations

import numpy as np

from streamgp.contract import freerun
from streamgp.contract.lanes import ADVANCE, ISSUE, LEARN, PREDICT, TAKE, TELL, with_kinds
from streamgp.contract.model import StreamModel
from streamgp.contract.snapshot import require
from streamgp.settings import FloatArray, Maybe, whole
from streamgp.wrappers.mapped import Mapped, MappedAnalysis


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

    # Rows.

    def _inputs(self, X: FloatArray) -> FloatArray:
        return np.column_stack([X, np.repeat(lag_columns(self._past, self._lags, 1), len(X), axis=0)])

    def _by_inputs(self, gradient: FloatArray) -> FloatArray:
        return gradient[:, :, : self._d]

    @property
    def _kept_width(self) -> int:  # type: ignore[override]
        return 1 + self._past.size + super()._kept_width  # the number of the row, and its lags

    def _pass(self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe, kept: Maybe) -> FloatArray:
        (rows, kinds), (n, d), width = ops.T, X.shape, self._past.size
        advances, late, waits = kinds & ADVANCE != 0, kinds & TAKE == LEARN, kinds & (TAKE | TELL) == ADVANCE
        told, number = kinds & (LEARN | TELL) != 0, self._rows[0] + np.cumsum(advances)
        if kept is not None:
            kept[rows[waits], 0] = number[waits]
            if Y is not None:  # a missing target is a lag where it comes in time, and none where it comes later
                told &= ~(late & np.isnan(Y[rows]).all(axis=1) & (kept[rows, 0] != number))
        targets = self._past[:0] if Y is None else Y[rows[told]]
        past, before = bridged(np.concatenate([self._past, targets])), np.cumsum(told) - told
        lags = lag_columns(past, self._lags, len(targets) + 1)[before]
        unknown = np.isnan(past[self._lags - 1 + before]).any(axis=1)
        within, seen = np.zeros((n, d + width)), kinds & ISSUE != 0
        within[:, :d] = X
        within[rows[seen], d:] = lags[seen]
        if kept is not None:
            kept[rows[waits], 1 : 1 + width] = np.where(unknown[:, None], np.nan, lags)[waits]
            given = kept[rows[late], 1 : 1 + width]
            unknown[late], within[rows[late], d:] = np.isnan(given).any(axis=1), np.nan_to_num(given)
        if unknown.any():  # without a lag there is nothing to learn from: such rows are predicted by the prior
            kinds = np.where(unknown, np.where(kinds & ISSUE, kinds & PREDICT, TELL * told), kinds)
            conditions = None if conditions is None else np.ascontiguousarray(conditions[kinds != 0])
            ops = with_kinds(ops, kinds)
        columns = np.zeros((len(self._columns), n, self._past.shape[1]))
        if len(ops):
            columns = self._within._pass(ops, within, Y, conditions, None if kept is None else kept[:, 1 + width :])
        self._past[:] = past[len(targets) :]
        if advances.any():
            self._x[:] = X[rows[advances][-1]]
            self._rows[0] = number[-1]
        return columns

    def reset_memory(self) -> None:
        if self._d is not None:
            self._past[:], self._x[:] = np.nan, 0.0
        super().reset_memory()

    # Free runs.

    def _analysis(self) -> MappedAnalysis:
        return _LaggedAnalysis(self)

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        return self._x, self._past[-1]

    # What can be read.

    @property
    def rows_seen(self) -> int:
        return 0 if self._d is None else int(self._rows[0])


class _LaggedAnalysis(MappedAnalysis):
    def trajectories(self, count: int, steps: int) -> freerun.Trajectories:
        return _LaggedTrajectories(self.model, self.within.trajectories(count, steps), count)


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
    if not (missing := np.isnan(targets)).any():
        return targets
    latest = np.maximum.accumulate(np.where(missing, 0, np.arange(len(targets))[:, None]), axis=0)
    return np.take_along_axis(targets, latest, axis=0)


def lag_columns(past: FloatArray, lags: int, n: int) -> FloatArray:
    """The lags of n rows, (n, lags * p), newest first; those before the first target repeat it, or are 0.

    Args:
        past: (lags + n - 1 or more, p) targets in order, bridged, of which row t sees this many from t on.
        lags: how many.
        n: rows.
    """
    columns = past[np.arange(n)[:, None] + np.arange(lags)[::-1]]
    if (missing := np.isnan(columns)).any():
        first = np.take_along_axis(past, np.isnan(past).argmin(axis=0)[None], axis=0)
        columns = np.where(missing, np.where(missing[:, :1], 0.0, first), columns)
    return np.asarray(columns.reshape(n, -1))
