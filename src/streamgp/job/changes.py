"""Changes: when the inputs have begun to explain the target otherwise, found by evidence, for people to be told.

A reference that never forgets, a parabola through all rows so far, predicts blocks of rows before it learns them. The
logarithm of its median error in each block is compared with those of the blocks before, as it is and less that of the
run's model, by Student's t; the larger p-value counts. While the stream stays the same, p-values are as good as drawn
at random; after a change the model adapts, the reference does not, and small ones follow each other. As in
``wrappers/drift.py`` they are wagers: the sum of their products is evidence. By chance it exceeds e at most once in e
blocks. Noise that grows counts for both, and a model that gets better leaves the reference as it was: neither is a
change. Ranks would need no distribution, but a thousand rows before the first change could be told.

This is the one rule by which a run tells changes, whatever its model: what models do about changes is their own
affair, and what they know of them does not replace it. In 54 runs with a planted change (the table of the demo, and
functions of three inputs) it told 54, and nothing falsely there or in 30 runs without one; alarms of level and
relation at 1e-4 told 1 of 45, and 104 falsely, mostly while models join; changes that DriftAware kept 22 of 36, those
of Auto 6 of 18.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtr

from streamgp.settings import FloatArray
from streamgp.tables.kept import Kept
from streamgp.wrappers.drift import FAIR, MOST

BLOCK = 25  # rows whose median errors are compared: errors of neighbors are alike, those of blocks hardly
FIRST = 200  # rows that the reference learns before it is compared
KEPT = 2048  # blocks with which errors are compared
ENOUGH = 1e5 / BLOCK  # evidence of a change: by chance once in 100 000 rows, at most
CLEAR = 1.2  # and the error of the reference has grown by this factor, as it is and in units of the model's
ONE_SIDED = 0.5  # of the reference's error: a shift of the targets is told if it is more; errors of both signs are none
CURVED = 12  # most inputs whose squares and products are inputs of the reference
MOST_INPUTS = 200  # with more there is no reference
MOST_CHANGES = 100  # that are kept
FARTHEST = 10.0  # standard units beyond which an input of the reference counts as that far
RIDGE = 1e-3  # added to the correlations of the reference's inputs, so that equal ones share what they explain
TINY = 1e-300  # below any error
LEAST_SPREAD = 1e-9  # of logarithms of errors, so that rounding is no change
LEAST_P = 1e-12  # smaller ones count alike
# Of a block: the logarithm of the reference's error over the model's, and of its own, its residual, what it predicts
# (all of them medians), the first row and its time.
NUMBERS = 6


class StreamChange(NamedTuple):
    """A change of what the inputs explain.

    Args:
        row: about where it began, from 1.
        moment: the time of this row; NaN: not known.
        noticed: the row after which it was clear.
        times: how many times as much as before the reference errs.
        shift: by how much targets are higher than the same inputs gave before; 0 where errors have both signs.
        level: what they gave.
    """

    row: int
    moment: float
    noticed: int
    times: float
    shift: float
    level: float


class Changes(Kept):
    """Looks for changes of a stream, block by block.

    Args:
        inputs: columns of the table that are inputs.
        on: whether it looks.
    """

    state = "changes", ("next", "units", "count", "mean", "moments", "blocks", "evidence", "found")
    grows = frozenset({"next", "blocks", "found"})

    def __init__(self, inputs: int, on: bool) -> None:
        self.on = on and 0 < inputs <= MOST_INPUTS
        d = inputs if self.on else 0
        self._pairs = np.triu_indices(d) if d <= CURVED else (np.arange(0), np.arange(0))
        f = d + len(self._pairs[0])
        self._next = np.empty((0, d + 4))  # of the next block: inputs, target, prediction, number and time
        self._units = np.zeros((2, d))  # of the inputs: what is subtracted, and what the rest is divided by
        self._count = np.zeros(1)  # rows that the reference has learned
        self._mean, self._moments = np.zeros(f + 1), np.zeros((f + 1, f + 1))  # of its inputs and the target
        self._blocks = np.empty((0, NUMBERS))
        self._evidence = np.zeros(1)  # sum of products of wagers
        self._found = np.empty((0, len(StreamChange._fields)))

    @property
    def found(self) -> list[StreamChange]:
        """All changes so far."""
        return [StreamChange(int(row), at, int(seen), *rest) for row, at, seen, *rest in self._found.tolist()]

    @property
    def last_noticed(self) -> int:
        """The row after which the last of them was clear; 0: there is none."""
        return int(self._found[-1, 2]) if len(self._found) else 0

    def add(self, X: FloatArray, y: FloatArray, mean: FloatArray, row: np.ndarray, moments: FloatArray) -> None:
        """Look at rows that were predicted.

        Args:
            X: (n, d) inputs.
            y: (n,) targets, NaN where missing.
            mean: (n,) predictions.
            row: (n,) numbers.
            moments: (n,) times, NaN where not known.
        """
        if not self.on:
            return
        rows = np.column_stack([X, y, mean, row, moments])[np.isfinite(y + mean)]
        self._next = np.concatenate([self._next, rows])
        while len(self._next) >= (wanted := BLOCK if self._count[0] else FIRST):
            with np.errstate(over="ignore", invalid="ignore"):
                self._look(self._next[:wanted, :-4], *self._next[:wanted, -4:].T)
            self._next = self._next[wanted:].copy()

    def _look(self, X: FloatArray, y: FloatArray, mean: FloatArray, row: FloatArray, moments: FloatArray) -> None:
        if not self._count[0]:
            scale = X.std(axis=0)
            self._units[:] = X.mean(axis=0), np.where(scale > 0, scale, 1.0)
        U = np.clip((X - self._units[0]) / self._units[1], -FARTHEST, FARTHEST)
        Z = np.column_stack([U, U[:, self._pairs[0]] * U[:, self._pairs[1]], y])
        if not np.isfinite(Z).all():
            return
        if self._count[0]:
            reference = self._predicted(Z)
            away = y - reference
            of_errors = np.array([np.abs(away), np.abs(y - mean), away, reference])
            of_errors.sort(axis=1)
            error, own, *about = of_errors[:, BLOCK // 2].tolist()  # medians
            error, own = (math.log(max(one, TINY)) for one in (error, own))
            if self._judge([error - own, error, *about, row[0], moments[0]], row[-1]):
                return
        n, k, mean_now = self._count[0], len(Z), Z.mean(axis=0)
        away, D = mean_now - self._mean, Z - mean_now
        self._moments += D.T @ D + np.outer(away, away) * n * k / (n + k)
        self._mean += away * k / (n + k)
        self._count[0] = n + k

    def _predicted(self, Z: FloatArray) -> FloatArray:
        scale = np.sqrt(np.diag(self._moments))
        scale = np.where(scale > 0, scale, 1.0)
        correlation = self._moments / np.outer(scale, scale)
        f = len(scale) - 1
        weights = np.linalg.solve(correlation[:f, :f] + RIDGE * np.eye(f), correlation[:f, f]) * scale[f] / scale[:f]
        predicted: FloatArray = self._mean[f] + (Z[:, :f] - self._mean[:f]) @ weights
        return predicted

    def _judge(self, block: list[Any], last: float) -> bool:
        """Whether this block makes it clear that the stream has changed."""
        before = self._blocks[:, :2]
        self._blocks = np.concatenate([self._blocks, [block]])[-KEPT:]
        if (n := len(before)) < 2:
            return False
        usual = before.sum(axis=0) / n
        spread = np.sqrt(((before - usual) ** 2).sum(axis=0) * (1.0 + 1.0 / n) / (n - 1))
        t = (block[:2] - usual) / np.maximum(spread, LEAST_SPREAD)
        p = max(stdtr(n - 1.0, -t.min()), LEAST_P)
        wager = min(MOST, 0.5 * FAIR / math.sqrt(p))
        self._evidence[0] = min((1.0 + self._evidence[0]) * wager, ENOUGH**4)  # so that it can fade again
        if self._evidence[0] < ENOUGH:
            return False
        at = _split(self._blocks[:, 0])
        _, error, residual, level, first, moment = self._blocks[at:].T
        grown = np.median(self._blocks[at:, :2], axis=0) - np.median(self._blocks[:at, :2], axis=0)
        if grown.min() < math.log(CLEAR):
            return False
        shift = np.median(residual) - np.median(self._blocks[:at, 2])
        one_sided = abs(shift) > ONE_SIDED * math.exp(np.median(error))
        told = first[0], moment[0], last, math.exp(grown[1]), shift if one_sided else 0.0, np.median(level)
        self._found = np.concatenate([self._found, [told]])[-MOST_CHANGES:]
        self._count[:], self._mean[:], self._moments[:], self._evidence[:] = 0.0, 0.0, 0.0, 0.0
        self._blocks = self._blocks[:0]
        return True


def _split(ratios: FloatArray) -> int:
    """Where the mean of what follows differs most clearly from the mean before: least squares with one step."""
    n, total = np.arange(1, len(ratios)), np.cumsum(ratios)
    before, after = total[:-1] / n, (total[-1] - total[:-1]) / (len(ratios) - n)
    gain = np.where(after > before, n * (len(ratios) - n) * (after - before) ** 2, -1.0)
    return int(np.argmax(gain)) + 1
