"""Windows: a series of inputs and targets as windows of past rows and the target that follows each."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamgp.contract import inputs
from streamgp.contract.checks import check
from streamgp.settings import FloatArray, choice, whole
from streamgp.wrappers.standardize import center_and_spread

MODES = ("regression", "autoregression", "simulation")


class Task(NamedTuple):
    """What is predicted from what."""

    depth: int  # rows in a window
    horizon: int  # a window that ends at row i predicts the target of row i + horizon
    feeds_back: bool  # past targets are part of the rows
    padding: bool  # a sequence begins with rows of zeros

    @property
    def lead(self) -> int:
        """Rows of a sequence before the first that can be predicted."""
        return self.horizon if self.padding else self.depth + self.horizon - 1


class Series(NamedTuple):
    """Rows and targets in standard units; NaN where a target is missing."""

    rows: FloatArray  # (n, d), or (n, d + p) with the targets themselves
    targets: FloatArray  # (n, p)
    starts: NDArray[np.int64]  # rows at which a sequence begins


class Units(NamedTuple):
    """What is subtracted from inputs and targets, and what the difference is divided by."""

    input_shift: FloatArray
    input_scale: FloatArray
    target_shift: FloatArray
    target_scale: FloatArray

    def series(self, U: FloatArray, Y: FloatArray, starts: NDArray[np.int64], task: Task) -> Series:
        targets = (Y - self.target_shift) / self.target_scale
        rows = (U - self.input_shift) / self.input_scale
        return Series(np.hstack([rows, targets]) if task.feeds_back else rows, targets, starts)


def task_of(mode: str, depth: int, horizon: int, padding: bool) -> Task:
    kind = choice("mode", mode, MODES)
    # In the own row a past target would be the target itself.
    ahead = whole("horizon", horizon, at_least=0 if kind == 0 else 1)
    return Task(whole("depth", depth), ahead, kind > 0, bool(padding))


def units_of(U: FloatArray, Y: FloatArray, standardize: bool) -> Units:
    """Means and standard deviations of the columns; missing targets do not count."""
    if not standardize:
        return Units(np.zeros(U.shape[1]), np.ones(U.shape[1]), np.zeros(Y.shape[1]), np.ones(Y.shape[1]))
    pairs = [[center_and_spread(column[~np.isnan(column)]) for column in values.T] for values in (U, Y)]
    (input_shift, input_scale), (target_shift, target_scale) = (np.array(pair).T for pair in pairs)
    return Units(input_shift, input_scale, target_shift, target_scale)


def checked(
    U: Any, Y: Any, starts: Any, d: int | None = None, p: int | None = None
) -> tuple[FloatArray, FloatArray, NDArray[np.int64], bool]:
    """Inputs (n, d), targets (n, p), where sequences begin, and whether the targets were numbers."""
    U = inputs.rows(U, d)
    if len(U) == 0:
        raise ValueError("U has no rows")
    Y, scalar = inputs.targets(Y, len(U), p, True)
    inputs.refuse(*check(U, Y, False), many=True)
    begins = np.zeros(1, dtype=np.int64) if starts is None else np.asarray(starts)
    if (
        begins.ndim != 1
        or begins.size == 0
        or begins.dtype.kind not in "iu"
        or begins[0] != 0
        or np.any(np.diff(begins) <= 0)
        or begins[-1] >= len(U)
    ):
        raise ValueError(
            f"starts must list the rows at which a sequence begins, the first one 0, in rising order and below "
            f"{len(U)}; got {starts!r}"
        )
    return U, Y, begins.astype(np.int64), scalar


def beginnings(series: Series) -> NDArray[np.int64]:
    """Where the sequence of every row began."""
    return np.repeat(series.starts, np.diff(np.append(series.starts, len(series.rows))))


def predictable(series: Series, task: Task) -> NDArray[np.int64]:
    """The rows that a whole window without gaps precedes, within their own sequence."""
    n = len(series.rows)
    began = beginnings(series)
    ends = np.arange(n) - task.horizon
    gaps = np.concatenate([[0], np.cumsum(np.isnan(series.rows).any(axis=1))])
    first = np.maximum(ends - task.depth + 1, began)
    no_gap = gaps[np.maximum(ends + 1, 0)] == gaps[np.clip(first, 0, n)]
    return np.flatnonzero((np.arange(n) - began >= task.lead) & no_gap)
