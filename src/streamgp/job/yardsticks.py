"""Yardsticks: simple predictions that any model of a run should beat, made beside it of the same rows.

They are the previous value, the values of a day and of a week ago, and least squares on the inputs of the model. Row
by row the arithmetic is the same however rows are handed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgp.compiled import INDICES, MATRIX, READ, READ_ROWS, VECTOR, WHOLE, compiled, entry
from streamgp.contract.lanes import ADVANCE, ISSUE, LEARN, PREDICT, TRACK
from streamgp.contract.snapshot import require
from streamgp.linalg.vector import copy, dot
from streamgp.settings import FloatArray
from streamgp.tables.kept import Kept

Array = NDArray

PREVIOUS, LINE = "previous value", "least squares"
MOST_INPUTS = 200  # beyond this least squares takes longer than many a model
FORGETTING = 0.999  # of least squares: about the last thousand rows count
RIDGE = 0.01  # precision of the prior of its weights, in standard units; forgotten with the rows
LEAST_RIDGE = 1e-6  # so that inputs that say nothing for long have weights, too
LINE_FROM = 20  # rows that it sees before it counts
ALIKE = 1e-13  # what is smaller, as a part of what it is compared with, is rounding
AFRESH = 64  # learned rows after which units and weights are computed anew; among the first 64, after 2^k
LARGEST = 1e150  # a number beyond counts as that large: its square is still a number
FARTHEST = 1e8  # standard units; least squares does not learn rows beyond, in which all others would vanish


class LeastSquares(Kept):
    """Recursive least squares: exponentially weighted ridge regression in standard units.

    Args:
        inputs: of a row.
    """

    state = "line", ("rows", "total", "mean", "moments", "units", "inverse", "weights")

    def __init__(self, inputs: int) -> None:
        self._rows, self._total = np.zeros(2, dtype=np.int64), np.zeros(1)  # seen, learned; sum of their weights
        # Of inputs and target, with older rows counting less: their mean, and sums of products around it.
        self._mean, self._moments = np.zeros(inputs + 1), np.zeros((inputs + 1, inputs + 1))
        self._units = np.zeros((3, inputs + 1))  # what is subtracted, what is divided by, what is learned at most
        self._units[1:] = [[1.0], [np.inf]]
        self._inverse, self._weights = np.eye(inputs + 1) / RIDGE, np.zeros(inputs + 1)  # of the inputs and 1
        self._work = np.empty((3, inputs + 1))

    @property
    def numbers(self) -> tuple[Array, ...]:
        """What compiled functions take: the state, and room to work in."""
        return *self.arrays().values(), self._work

    def restore(self, tensors: dict[str, np.ndarray]) -> None:
        super().restore(tensors)
        require("rows", self._rows, at_least=0)


LINE_ARRAYS = INDICES, VECTOR, VECTOR, MATRIX, MATRIX, MATRIX, VECTOR, MATRIX


@entry(WHOLE, MATRIX, READ_ROWS, READ, WHOLE, WHOLE, VECTOR, INDICES, VECTOR, INDICES, MATRIX, *LINE_ARRAYS)
def follow(
    kind: int,
    rows: Array,
    X: Array,
    y: Array,
    names: int,
    lags: int,
    last: Array,
    counts: Array,
    past: Array,
    backs: Array,
    ahead: Array,
    seen: Array,
    total: Array,
    mean: Array,
    moments: Array,
    units: Array,
    inverse: Array,
    weights: Array,
    work: Array,
) -> None:
    """Say something of rows, learn what was said of them with their targets, or both, one after the other.

    Args:
        kind: ISSUE, LEARN or TRACK.
        rows: (n, width) what is said, and what least squares takes.
        X: (n, d) inputs.
        y: (n,) targets, NaN where missing.
        names: how many yardsticks there are.
        lags: past targets that least squares sees.
        last, counts, past, ahead: the state of Yardsticks; counts is its ``rows``.
        backs: how long the rings of ``past`` are, one after another.
        seen, total, mean, moments, units, inverse, weights, work: the numbers of LeastSquares; seen is its ``rows``.
    """
    line, targets = (seen, total, mean, moments, units, inverse, weights, work), (last, past, backs)
    h, by_line = ahead.shape[0], names > 1 + backs.size
    for t in range(y.size):
        row, features = rows[t], rows[t, names:]
        if kind & PREDICT and h:
            copy(ahead[counts[1] % h], row.size, row)
        elif kind & PREDICT:
            _say(row, names, X[t], lags, targets, counts[0], line)
        if kind & LEARN:
            if by_line and not np.isnan(features[0]) and not np.isnan(features[-1]):
                _learn(features, y[t], line)
            _keep(targets, counts[0], y[t])
            counts[0] += 1
        if kind & ADVANCE and h:  # a row has come from which a later one is predicted
            _say(ahead[counts[1] % h], names, X[t], lags, targets, counts[0] + h - 1, line)
            counts[1] += 1


@compiled
def _say(row: Array, names: int, x: Array, lags: int, targets: Any, coming: int, line: Any) -> None:
    """What can be said from a row, with the targets known now, of the one that it predicts."""
    last, past, backs = targets
    features, first, start = row[names:], names - backs.size, 0
    copy(x, x.size, features)
    copy(last, lags, features[x.size :])
    row[0] = last[0]
    if first > 1:
        row[1] = np.nan if lags and np.isnan(row[-1]) else _mean(features, line)
    for s in range(backs.size):
        row[first + s] = past[start + coming % backs[s]]
        start += backs[s]


@compiled
def _keep(targets: Any, row: int, y: float) -> None:
    last, past, backs = targets
    for j in range(last.size - 1, 0, -1):
        last[j] = last[j - 1]
    if np.isnan(y):
        return
    last[0], start = y, 0
    for back in backs:
        past[start + row % back] = y
        start += back


@compiled
def _mean(x: Array, line: Any) -> float:
    """What least squares predicts; NaN before there are rows enough."""
    seen, _, _, _, units, _, weights, _ = line
    if seen[0] < LINE_FROM:
        return np.nan
    d = x.size
    found = weights[d]
    for j in range(d):
        found += weights[j] * (x[j] - units[0, j]) / units[1, j]
    return units[0, d] + units[1, d] * found  # type: ignore[no-any-return]


@compiled
def _learn(x: Array, y: float, line: Any) -> None:
    """Learn a row by least squares; one without a target, NaN, counts as seen."""
    seen, total, mean, moments, units, inverse, weights, work = line
    z, u, away, f = work[0], work[1], work[2], mean.size
    seen[0] += 1
    for j in range(f):
        value = max(min(x[j] if j < f - 1 else y, LARGEST), -LARGEST)
        z[j], away[j] = value - units[0, j], value - mean[j]
        if not abs(z[j]) <= units[2, j]:
            return
        z[j] /= units[1, j]
    seen[1] += 1
    total[0] = FORGETTING * total[0] + 1.0
    for i in range(f):
        mean[i] += away[i] / total[0]
        for j in range(f):
            moments[i, j] = FORGETTING * moments[i, j] + (1.0 - 1.0 / total[0]) * away[i] * away[j]
    if seen[1] % AFRESH == 0 or seen[1] & (seen[1] - 1) == 0:
        _solve(line)
        return
    error, z[f - 1] = z[f - 1], 1.0
    spread = FORGETTING
    for i in range(f):
        u[i] = dot(inverse[i], z, f)
        error -= z[i] * weights[i]
        spread += z[i] * u[i]
    for i in range(f):
        weights[i] += u[i] / spread * error
        for j in range(f):
            inverse[i, j] = (inverse[i, j] - u[i] / spread * u[j]) / FORGETTING


@compiled
def _solve(line: Any) -> None:
    """Take the units of the rows so far, and compute what follows from them, so that rounding does not add up."""
    seen, total, mean, moments, units, inverse, weights, _ = line
    d = mean.size - 1
    for j in range(d + 1):
        spread = np.sqrt(moments[j, j] / total[0])
        varies = spread > ALIKE * abs(mean[j])
        units[0, j], units[1, j] = mean[j], spread if varies else 1.0
        units[2, j] = FARTHEST * spread if varies else np.inf
    ridge = max(RIDGE * FORGETTING ** float(seen[1]), LEAST_RIDGE)
    for i in range(d + 1):  # the last is 1, in place of the target: inputs have mean 0
        for j in range(d + 1):
            inverse[i, j] = moments[i, j] / units[1, i] / units[1, j] if max(i, j) < d else 0.0
        inverse[i, i] = (total[0] if i == d else inverse[i, i]) * (1.0 + ALIKE) + ridge
    _invert(inverse)
    for i in range(d + 1):
        weights[i] = 0.0
        for j in range(d):
            weights[i] += inverse[i, j] * moments[j, d] / units[1, j] / units[1, d]


@compiled
def _invert(A: Array) -> None:
    """Put the inverse of a positive definite matrix in its place: Gauss and Jordan."""
    for k in range(len(A)):
        pivot, A[k, k] = A[k, k], 1.0
        for j in range(len(A)):
            A[k, j] /= pivot
        for i in range(len(A)):
            if i != k:
                factor, A[i, k] = A[i, k], 0.0
                for j in range(len(A)):
                    A[i, j] -= factor * A[k, j]


class Yardsticks(Kept):
    """The simple predictions of each row, by what is known when the row is predicted.

    A row that waits for its target is what was said of it, and the inputs of least squares: ``issue`` returns them as
    one array, and ``resolve`` takes it.

    Args:
        own: columns of the rows.
        lags: past targets that least squares sees.
        horizon: rows ahead.
        seasons: rows of a day and of a week, where they are known.
    """

    state = "yardsticks", ("last", "rows", "past", "ahead")

    def __init__(self, own: int, lags: int, horizon: int, seasons: Sequence[int]) -> None:
        self._lags = lags
        # Whole seasons ago, known by then.
        self._backs = np.array(sorted({-(-max(horizon, 1) // period) * period for period in seasons}), dtype=np.int64)
        by_line = own + lags <= MOST_INPUTS
        self._line = LeastSquares(own + lags if by_line else 0)
        self.names = [PREVIOUS, *([LINE] * by_line), *(f"value {back} rows ago" for back in self._backs)]
        self._last = np.full(max(lags, 1), np.nan)  # targets, the newest first; a missing one is as the one before
        self._rows = np.zeros(2, dtype=np.int64)  # whose targets have come, or are missing; issued, with a horizon
        self._past = np.full(self._backs.sum(), np.nan)  # rings; a missing target is as that of the season before
        width = len(self.names) + own + lags
        self.none = np.empty((0, width))  # what there is of no rows
        self._ahead = np.full((horizon, width), np.nan)  # a ring of what was made of the last rows

    def arrays(self) -> dict[str, np.ndarray]:
        return super().arrays() | (self._line.arrays() if LINE in self.names else {})

    def restore(self, tensors: dict[str, np.ndarray]) -> None:
        super().restore(tensors)
        require("rows", self._rows, at_least=0)
        if LINE in self.names:
            self._line.restore(tensors)

    def track(self, X: FloatArray, y: FloatArray) -> FloatArray:
        """What is said of each row, (n, width), before it is learned.

        Args:
            X: (n, d) inputs.
            y: (n,) targets, NaN where missing.
        """
        return self._follow(TRACK, np.empty((len(y), self.none.shape[1])), X, y)

    def issue(self, X: FloatArray) -> FloatArray:
        """What is said of rows that come in this order, or without a horizon each next, (n, width)."""
        rows = np.empty((len(X), self.none.shape[1]))
        return self._follow(ISSUE, rows, X, rows[:, 0])

    def resolve(self, rows: FloatArray, y: FloatArray) -> None:
        """Learn rows of ``issue`` whose targets, (n,), have come; NaN: they are missing."""
        self._follow(LEARN, np.ascontiguousarray(rows), rows, y)

    def _follow(self, kind: int, rows: FloatArray, X: FloatArray, y: FloatArray) -> FloatArray:
        own = self._last, self._rows, self._past, self._backs, self._ahead
        follow(kind, rows, X, y, len(self.names), self._lags, *own, *self._line.numbers)
        return rows

    def upcoming(self) -> FloatArray:
        """What was made of the last rows, as many as the horizon has, oldest first."""
        return np.roll(self._ahead, -int(self._rows[1]), axis=0)

    def said(self, rows: FloatArray) -> FloatArray:
        """What yardsticks say of rows of ``issue``, (n, yardsticks)."""
        return rows[:, : len(self.names)]

    def known(self, rows: FloatArray, past: bool) -> np.ndarray:
        """Of which rows of ``issue``, (n, width), something was known; past: for which a target has to be."""
        return np.asarray(~np.isnan(rows[:, 0 if past else len(self.names)]))
