"""Windows: a series of inputs and targets as windows of past rows and the target that follows each."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamgp.contract import inputs
from streamgp.contract.checks import check
from streamgp.settings import FloatArray, whole
from streamgp.wrappers.units import Scaling, standard

MODES = ("regression", "autoregression", "simulation")


class Recording(NamedTuple):
    """Rows and targets in standard units; NaN where a target is missing."""

    rows: FloatArray  # (n, d), or (n, d + p) with the targets themselves
    targets: FloatArray  # (n, p)
    began: NDArray[np.int64]  # (n,) where the sequence of every row began


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

    def rows(self, U: FloatArray, Y: FloatArray) -> FloatArray:
        """What windows hold."""
        return np.hstack([U, Y]) if self.feeds_back else U

    def series(self, U: FloatArray, Y: FloatArray, began: NDArray[np.int64], units: Scaling) -> Recording:
        U, Y = standard(U, units.input_shift, units.input_scale), standard(Y, units.target_shift, units.target_scale)
        return Recording(self.rows(U, Y), Y, began)

    def predictable(self, series: Recording) -> NDArray[np.int64]:
        """The rows that a whole window without gaps precedes, within their own sequence."""
        rows, _, began = series
        at = np.arange(len(rows))
        ends = at - self.horizon
        gaps = np.concatenate([[0], np.cumsum(np.isnan(rows).any(axis=1))])
        first = np.maximum(ends - self.depth + 1, began)
        no_gap = gaps[np.maximum(ends + 1, 0)] == gaps[np.clip(first, 0, len(rows))]
        return np.flatnonzero((at - began >= self.lead) & no_gap)


def task_of(mode: str, depth: int, horizon: int, padding: bool) -> Task:
    kind = MODES.index(mode)
    # In the own row a past target would be the target itself.
    ahead = whole("horizon", horizon, at_least=0 if kind == 0 else 1)
    return Task(whole("depth", depth), ahead, kind > 0, bool(padding))


def checked(
    U: Any, Y: Any, starts: Any, d: int | None = None, p: int | None = None
) -> tuple[FloatArray, FloatArray, NDArray[np.int64], bool]:
    """Inputs (n, d), targets (n, p), where the sequence of every row began, and whether the targets were numbers."""
    U = inputs.rows(U, d)
    n = len(U)
    if n == 0:
        raise ValueError("U has no rows")
    Y, scalar = inputs.targets(Y, n, p, True)
    inputs.refuse(*check(U, Y, False, np.inf), many=True)
    begins = np.asarray([0] if starts is None else starts)
    whole_numbers = begins.ndim == 1 and begins.size > 0 and begins.dtype.kind in "iu"
    bounds = np.append(begins if whole_numbers else n, n).astype(np.int64)
    if bounds[0] != 0 or np.any(bounds[1:] <= bounds[:-1]):
        raise ValueError(
            f"starts must list the rows at which a sequence begins, the first one 0, in rising order and below {n}; "
            f"got {starts!r}"
        )
    return U, Y, np.repeat(bounds[:-1], bounds[1:] - bounds[:-1]), scalar
