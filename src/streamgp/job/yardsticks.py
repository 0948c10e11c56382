"""Yardsticks: simple predictions that any model of a run should beat, made beside it of the same rows.

They are the previous value, the values of a day and of a week ago, and least squares on the inputs of the model. Row
by row the arithmetic is the same however rows are handed over.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from streamgp.contract.snapshot import require
from streamgp.settings import FloatArray
from streamgp.tables.kept import Kept

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

    def restore(self, tensors: dict[str, np.ndarray]) -> None:
        super().restore(tensors)
        require("rows", self._rows, at_least=0)

    def predict(self, x: FloatArray) -> float:
        """The mean of a row; NaN before there are rows enough."""
        if self._rows[0] < LINE_FROM:
            return np.nan
        (shift, scale, _), w = self._units, self._weights
        return float(shift[-1] + scale[-1] * (w[:-1] @ ((x - shift[:-1]) / scale[:-1]) + w[-1]))

    def learn(self, x: FloatArray, y: float) -> None:
        """Learn a row; one without a target, NaN, counts as seen."""
        self._rows[0] += 1
        row = np.empty(len(x) + 1)
        row[:-1], row[-1] = x, y
        np.maximum(np.minimum(row, LARGEST, out=row), -LARGEST, out=row)
        shift, scale, most = self._units
        z = row - shift
        if math.isnan(y) or (np.abs(z) > most).any():
            return
        z /= scale
        self._rows[1] += 1
        self._total[0] = FORGETTING * self._total[0] + 1.0
        away = row - self._mean
        self._mean += away / self._total[0]
        self._moments *= FORGETTING
        self._moments += (1.0 - 1.0 / self._total[0]) * away[:, None] * away
        n = int(self._rows[1])
        if n % AFRESH == 0 or n & (n - 1) == 0:
            self._solve()
            return
        target, z[-1] = z[-1], 1.0
        u = self._inverse @ z
        gain = u / (FORGETTING + z @ u)
        self._weights += gain * (target - z @ self._weights)
        self._inverse -= gain[:, None] * u
        self._inverse /= FORGETTING

    def _solve(self) -> None:
        """Take the units of the rows so far, and compute what follows from them, so that rounding does not add up."""
        spread = np.sqrt(np.diag(self._moments) / self._total[0])
        varies = spread > ALIKE * np.abs(self._mean)
        scale = np.where(varies, spread, 1.0)
        A = self._moments / scale[:, None] / scale
        ridge = max(RIDGE * FORGETTING ** float(self._rows[1]), LEAST_RIDGE)
        products = A[:-1, -1].copy()
        A[-1], A[:, -1], A[-1, -1] = 0.0, 0.0, self._total[0]  # 1 in place of the target: inputs have mean 0
        diagonal = A.ravel()[:: len(A) + 1]
        diagonal *= 1.0 + ALIKE
        diagonal += ridge
        self._units[:] = self._mean, scale, np.where(varies, FARTHEST * scale, np.inf)
        self._inverse[:] = np.linalg.inv(A)
        self._weights[:] = self._inverse[:, :-1] @ products


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
        self._own, self._lags, self._horizon = own, lags, horizon
        # Whole seasons ago, known by then.
        backs = sorted({-(-max(horizon, 1) // period) * period for period in seasons})
        self._line = LeastSquares(own + lags) if own + lags <= MOST_INPUTS else None
        self.names = [PREVIOUS, *([LINE] * (self._line is not None)), *(f"value {back} rows ago" for back in backs)]
        self._last = np.full(max(lags, 1), np.nan)  # targets, the newest first; a missing one is as the one before
        self._rows = np.zeros(2, dtype=np.int64)  # whose targets have come, or are missing; issued, with a horizon
        self._past = np.full(sum(backs), np.nan)  # rings of targets, a missing one as that of the season before
        self._rings = np.split(self._past, np.cumsum(backs)[:-1]) if backs else []
        width = len(self.names) + own + lags
        self.none = np.empty((0, width))  # what there is of no rows
        self._ahead = np.full((horizon, width), np.nan)  # a ring of what was made of the last rows

    def arrays(self) -> dict[str, np.ndarray]:
        return super().arrays() | ({} if self._line is None else self._line.arrays())

    def restore(self, tensors: dict[str, np.ndarray]) -> None:
        super().restore(tensors)
        require("rows", self._rows, at_least=0)
        if self._line is not None:
            self._line.restore(tensors)

    def track(self, X: FloatArray, y: FloatArray) -> FloatArray:
        """What is said of each row, (n, width), before it is learned.

        Args:
            X: (n, d) inputs.
            y: (n,) targets, NaN where missing.
        """
        rows = np.empty((len(y), self.none.shape[1]))
        for row, x, target in zip(rows, X, y.tolist(), strict=True):
            row[:] = self._issued(x)
            self._learn(row, target)
            self._advance(x)
        return rows

    def issue(self, X: FloatArray) -> FloatArray:
        """What is said of rows that come in this order, or without a horizon each next, (n, width)."""
        rows = np.empty((len(X), self.none.shape[1]))
        for row, x in zip(rows, X, strict=True):
            row[:] = self._issued(x)
            self._advance(x)
        return rows

    def resolve(self, rows: FloatArray, y: FloatArray) -> None:
        """Learn rows of ``issue`` whose targets, (n,), have come; NaN: they are missing."""
        for row, target in zip(rows, y.tolist(), strict=True):
            self._learn(row, target)

    def upcoming(self) -> FloatArray:
        """What was made of the last rows, as many as the horizon has, oldest first."""
        return np.roll(self._ahead, -int(self._rows[1]), axis=0)

    def said(self, rows: FloatArray) -> FloatArray:
        """What yardsticks say of rows of ``issue``, (n, yardsticks)."""
        return rows[:, : len(self.names)]

    def known(self, rows: FloatArray, past: bool) -> np.ndarray:
        """Of which rows of ``issue``, (n, width), something was known; past: for which a target has to be."""
        return np.asarray(~np.isnan(rows[:, 0 if past else len(self.names)]))

    def _issued(self, x: FloatArray) -> FloatArray:
        """What is said of the next row: with a horizon, what was made of the row that it is predicted from."""
        return self._ahead[self._rows[1] % self._horizon] if self._horizon else self._made(x)

    def _made(self, x: FloatArray) -> FloatArray:
        """What can be said from a row, with the targets known now, of that which it predicts."""
        k, d, coming = len(self.names), len(x), int(self._rows[0]) + max(self._horizon - 1, 0)
        row = np.empty(k + d + self._lags)
        row[0], row[1], row[k : k + d], row[k + d :] = self._last[0], np.nan, x, self._last[: self._lags]
        for at, ring in enumerate(self._rings, k - len(self._rings)):
            row[at] = ring[coming % len(ring)]
        if self._line is not None and not (self._lags and math.isnan(row[-1])):
            row[1] = self._line.predict(row[k:])
        return row

    def _learn(self, row: FloatArray, y: float) -> None:
        """Learn the target of a row."""
        features = row[len(self.names) :]
        if self._line is not None and not math.isnan(features[0]) and not math.isnan(features[-1]):
            self._line.learn(features, y)
        self._last[1:] = self._last[:-1]
        if not math.isnan(y):
            self._last[0] = y
            for ring in self._rings:
                ring[self._rows[0] % len(ring)] = y
        self._rows[0] += 1

    def _advance(self, x: FloatArray) -> None:
        """With a horizon, a row has come from which a later one is predicted."""
        if self._horizon:
            self._ahead[self._rows[1] % self._horizon] = self._made(x)
            self._rows[1] += 1
