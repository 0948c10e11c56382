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
UNITS_OF = 500  # rows whose means and spreads are the units of least squares; before, those of the first 2^k rows
ALIKE = 1e-13  # what is smaller, as a part of what it is compared with, is rounding
AFRESH = 64  # learned rows after which weights are computed from the moments
LARGEST = 1e150  # a number beyond counts as that large: its square is still a number
FARTHEST = 1e8  # standard units; least squares does not learn rows beyond, in which all others would vanish


class LeastSquares(Kept):
    """Recursive least squares: exponentially weighted ridge regression in standard units.

    Args:
        inputs: of a row.
    """

    state = "line", ("seen", "known", "mean", "spread", "units", "moments", "ridge", "last", "inverse", "weights")

    def __init__(self, inputs: int) -> None:
        self._seen = np.zeros(2, dtype=np.int64)  # rows, and those that are learned but not among the moments yet
        # Of the inputs and the target of the first rows: how many are known, their means, and sums of squares around.
        self._known, self._mean, self._spread = np.zeros((3, inputs + 1))
        self._units = np.stack([np.zeros(inputs + 1), np.ones(inputs + 1)])  # what is subtracted, and divided by
        self._moments = np.zeros((inputs + 2, inputs + 2))  # of the inputs, 1 and the target
        self._ridge, self._last = np.full(1, RIDGE), np.zeros((AFRESH, inputs + 2))
        self._inverse, self._weights = np.eye(inputs + 1) / RIDGE, np.zeros(inputs + 1)  # what follows from these

    def restore(self, tensors: dict[str, np.ndarray]) -> None:
        super().restore(tensors)
        require("rows", self._seen, at_least=0)
        require("rows", self._seen[1:], at_most=AFRESH - 1)

    def predict(self, x: FloatArray) -> float:
        """The mean of a row; NaN before there are rows enough."""
        if self._seen[0] < LINE_FROM:
            return np.nan
        (shift, scale), w = self._units, self._weights
        return float(shift[-1] + scale[-1] * (w[:-1] @ ((x - shift[:-1]) / scale[:-1]) + w[-1]))

    def learn(self, x: FloatArray, y: float) -> None:
        """Learn a row; of one without a target, NaN, the units of its inputs."""
        row = np.empty(len(x) + 1)
        row[:-1], row[-1] = x, y
        np.maximum(np.minimum(row, LARGEST, out=row), -LARGEST, out=row)
        self._seen[0] += 1
        if self._seen[0] <= UNITS_OF:
            self._note_units(row)
        if math.isnan(y):
            return
        z, inside = self._last[self._seen[1]], (row - self._units[0]) / self._units[1]
        if np.abs(inside).max() > FARTHEST:
            return
        z[:-2], z[-2], z[-1] = inside[:-1], 1.0, inside[-1]
        self._seen[1] += 1
        if self._seen[1] == AFRESH:
            self._gather()
            self._solve()
            return
        u = self._inverse @ z[:-1]
        gain = u / (FORGETTING + z[:-1] @ u)
        self._weights += gain * (z[-1] - z[:-1] @ self._weights)
        self._inverse -= gain[:, None] * u
        self._inverse /= FORGETTING

    def _gather(self) -> None:
        """Take the last rows into the moments."""
        n = int(self._seen[1])
        rows, fading = self._last[:n], FORGETTING ** np.arange(n - 1.0, -1.0, -1.0)
        self._moments *= FORGETTING**n
        self._moments += (rows * fading[:, None]).T @ rows
        self._ridge *= FORGETTING**n
        self._last[:], self._seen[1] = 0.0, 0

    def _solve(self) -> None:
        """Compute what follows from the moments, so that rounding does not add up."""
        A = self._moments[:-1, :-1].copy()
        diagonal = A.ravel()[:: len(A) + 1]
        diagonal *= 1.0 + ALIKE
        diagonal += max(self._ridge[0], LEAST_RIDGE)
        scale = 1.0 / np.sqrt(diagonal)
        self._inverse[:] = np.linalg.inv(A * scale[:, None] * scale) * scale[:, None] * scale
        self._weights[:] = self._inverse @ self._moments[:-1, -1]

    def _note_units(self, row: FloatArray) -> None:
        """Take one of the first rows into the units."""
        n, known = int(self._seen[0]), ~np.isnan(row)
        self._known += known
        away = np.where(known, row - self._mean, 0.0)
        self._mean += away / np.maximum(self._known, 1.0)
        self._spread += np.where(known, away * (row - self._mean), 0.0)
        if n == UNITS_OF or n & (n - 1) == 0:
            self._take_units()

    def _take_units(self) -> None:
        """Go on in the units of the rows so far."""
        spread = np.sqrt(self._spread / np.maximum(self._known - 1.0, 1.0))
        scale = np.where(spread > ALIKE * np.abs(self._mean), spread, 1.0)
        shift, before, f = self._mean.copy(), self._units, len(scale)
        self._gather()
        change = np.eye(f + 1)  # of inputs, 1 and target
        places = np.arange(f) + (np.arange(f) == f - 1)
        change[places, places] = before[1] / scale
        change[places, f - 1] = (before[0] - shift) / scale
        self._moments[:] = change @ self._moments @ change.T
        self._units[:] = shift, scale
        self._solve()


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
        self._lags, self._horizon = lags, horizon
        # Whole seasons ago, known by then.
        self._backs = sorted({-(-max(horizon, 1) // period) * period for period in seasons})
        self._line = LeastSquares(own + lags) if own + lags <= MOST_INPUTS else None
        self.names = [
            PREVIOUS,
            *([LINE] * (self._line is not None)),
            *(f"value {back} rows ago" for back in self._backs),
        ]
        self._last = np.full(max(lags, 1), np.nan)  # targets, the newest first; a missing one is as the one before
        self._rows = np.zeros(2, dtype=np.int64)  # so far: those whose targets have come, or are missing; and issued
        self._past = np.full(sum(self._backs), np.nan)  # rings of targets, a missing one as that of the season before
        self._rings = np.split(self._past, np.cumsum(self._backs)[:-1]) if self._backs else []
        self.none = np.empty((0, self.width(own)))  # what there is of no rows
        self._ahead = np.full((horizon, self.width(own)), np.nan)  # a ring of what was made of the last rows

    def restore(self, tensors: dict[str, np.ndarray]) -> None:
        super().restore(tensors)
        require("rows", self._rows, at_least=0)

    @property
    def kept(self) -> tuple[Kept, ...]:
        """All whose state is kept."""
        return (self,) if self._line is None else (self, self._line)

    def width(self, own: int) -> int:
        """How many numbers a row has that waits."""
        return len(self.names) + own + self._lags

    def track(self, X: FloatArray, y: FloatArray) -> FloatArray:
        """What is said of each row, (n, width), before it is learned.

        Args:
            X: (n, d) inputs.
            y: (n,) targets, NaN where missing.
        """
        rows = np.empty((len(y), self.width(X.shape[1])))
        for row, x, target in zip(rows, X, y.tolist(), strict=True):
            row[:] = self._issued(x)
            self._learn(row, target)
            self._advance(x)
        return rows

    def issue(self, X: FloatArray, *, advance: bool) -> FloatArray:
        """What is said of rows that would each come next, and the inputs of least squares, (n, width).

        Args:
            X: (n, d) inputs.
            advance: whether they come, in this order.
        """
        rows = np.empty((len(X), self.width(X.shape[1])))
        for row, x in zip(rows, X, strict=True):
            row[:] = self._issued(x)
            if advance:
                self._advance(x)
        return rows

    def resolve(self, rows: FloatArray, y: FloatArray) -> None:
        """Learn rows whose targets have come.

        Args:
            rows: (n, width) of ``issue``.
            y: (n,) targets, NaN where missing.
        """
        for row, target in zip(rows, y.tolist(), strict=True):
            self._learn(row, target)

    def upcoming(self) -> FloatArray:
        """What was made of the last rows, as many as the horizon has, oldest first."""
        at = self._rows[1] + np.arange(self._horizon)
        rows: FloatArray = self._ahead[at % max(self._horizon, 1)]
        return rows

    def said(self, rows: FloatArray) -> FloatArray:
        """What yardsticks say of rows of ``issue``, (n, yardsticks)."""
        return rows[:, : len(self.names)]

    def known(self, rows: FloatArray, past: bool) -> np.ndarray:
        """Of which rows of ``issue`` something was known when they were predicted.

        Args:
            rows: (n, width).
            past: whether a target has to be.
        """
        return np.asarray(~np.isnan(rows[:, 0 if past else len(self.names)]))

    def _issued(self, x: FloatArray) -> FloatArray:
        """What is said of the next row: with a horizon, what was made of the row that it is predicted from."""
        row = self._ahead[self._rows[1] % self._horizon].copy() if self._horizon else self._made(x)
        first = len(self.names) - len(self._backs)
        for at, ring in enumerate(self._rings, first):
            row[at] = ring[self._rows[0] % len(ring)]
        return row

    def _made(self, x: FloatArray) -> FloatArray:
        """What can be said from a row, with the targets known now, of that which it predicts."""
        k, d = len(self.names), len(x)
        row = np.empty(k + d + self._lags)
        row[0], row[1:k], row[k : k + d], row[k + d :] = self._last[0], np.nan, x, self._last[: self._lags]
        if self._line is not None and self._is_whole():
            row[1] = self._line.predict(row[k:])
        return row

    def _is_whole(self) -> bool:
        """Whether there are as many past targets as least squares needs."""
        return not self._lags or not math.isnan(self._last[self._lags - 1])

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
        """A row has come, from which a later one is predicted."""
        if self._horizon:
            self._ahead[self._rows[1] % self._horizon] = self._made(x)
        self._rows[1] += 1
