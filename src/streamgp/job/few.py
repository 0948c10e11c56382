"""Few rows: what their client waits for, and what can be done later, of many rows at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from streamgp.settings import FloatArray


class FewRow(NamedTuple):
    """A row and what was predicted of it.

    Args:
        row: its number, from 1.
        observed: its target, NaN where it was refused.
        mean: of the prediction; NaN where there was nothing to predict from.
        lower: bound of the calibrated interval.
        upper: bound of the calibrated interval.
        std: calibrated standard deviation.
    """

    row: int
    observed: float
    mean: float
    lower: float
    upper: float
    std: float


def few_rows(first: int, y: FloatArray, told: Sequence[Any]) -> list[FewRow]:
    """Rows with their predictions.

    Args:
        first: number of the first row.
        y: (n,) targets.
        told: what was predicted, of one row each in numbers, or of several rows in arrays.
    """
    return [
        FewRow(row, observed, mean, lower, upper, std)
        if std != math.inf  # before a scale is known there is nothing to tell
        else FewRow(row, observed, mean, math.nan, math.nan, math.nan)
        for row, observed, (mean, lower, upper, std) in zip(count(first), y.tolist(), _bounds(told), strict=False)
    ]


def _bounds(told: Sequence[Any]) -> Iterator[tuple[float, float, float, float]]:
    for p in told:
        if isinstance(p.mean, float):
            yield p.mean, p.lower, p.upper, p.std
        else:
            yield from zip(*(part[:, 0].tolist() for part in (p.mean, p.lower, p.upper, p.std)), strict=True)


class Unscored:
    """Rows that a model has predicted and learned, which wait to be compared with yardsticks, and to be counted."""

    def __init__(self) -> None:
        self._blocks: list[tuple[FloatArray, ...]] = []
        self._told: list[Any] = []
        self._rows = 0

    def __len__(self) -> int:
        return self._rows

    def add(self, X: FloatArray, y: FloatArray, Y: FloatArray, shown: FloatArray, told: Sequence[Any]) -> None:
        """Let rows wait.

        Args:
            X: (n, d) inputs.
            y: (n,) targets, as they are scored.
            Y: (n, 1) targets, as they were learned.
            shown: (n,) times for people.
            told: what was predicted.
        """
        self._blocks.append((X, y, Y, shown))
        self._told += told
        self._rows += len(y)

    def taken(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, list[Any]]:
        """All that waits, of which nothing waits any longer."""
        X, y, Y, shown = map(np.concatenate, zip(*self._blocks, strict=True))
        told = self._told
        self._blocks, self._told, self._rows = [], [], 0
        return X, y, Y, shown, told
