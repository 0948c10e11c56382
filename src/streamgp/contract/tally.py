"""Tally: running scores of predictions. Sums over rows, the scores that follow from them, and sums along a stream."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streamgp.settings import FloatArray, whole

# What a row adds to the sums, in the order of the fields of Scored.
ROWS, SQUARED, ABSOLUTE, INSIDE, WIDTH, DENSITY = range(6)
# What changes no number that it is joined with.
NOTHING: dict[np.ufunc, float] = {np.add: 0.0, np.fmin: np.inf, np.fmax: -np.inf}


class Scored(NamedTuple):
    """Scores of rows, numbers or arrays of any shape; NaN where there are no rows."""

    rows: Any  # that count
    rmse: Any  # root of the mean squared error
    mae: Any  # mean absolute error
    coverage: Any  # share of the targets inside their intervals
    width: Any  # mean width of the intervals
    log_density: Any  # mean log predictive density of the targets


def counted(
    y: Any, mean: Any, lower: Any = np.nan, upper: Any = np.nan, log_density: Any = np.nan, *, known: Any = None
) -> FloatArray:
    """What each row adds to the sums, (..., 6), by its target and what was predicted, which may be missing.

    Of the rows those count that are known: with a finite target and a finite mean, if it is not said otherwise.
    """
    if known is None:
        known = np.isfinite(y) & np.isfinite(mean)
    with np.errstate(over="ignore", invalid="ignore"):
        error = mean - y
        columns = np.ones_like(error), error**2, np.abs(error), (lower <= y) & (y <= upper), upper - lower, log_density
        return np.where(np.asarray(known)[..., None], np.stack(np.broadcast_arrays(*columns), axis=-1), 0.0)


def scored(sums: FloatArray) -> Scored:
    """The scores that follow from sums of what ``counted`` returned, (..., 6)."""
    rows = sums[..., ROWS]
    means = sums / np.where(rows > 0, rows, np.nan)[..., None]
    return Scored(rows, np.sqrt(means[..., SQUARED]), *np.moveaxis(means[..., ABSOLUTE:], -1, 0))


class Buckets:
    """Columns of numbers along a stream in constant memory: every bucket is of equally many rows, and when all buckets
    are in use, two and two are joined.

    Args:
        buckets: most buckets, an even number. With fewer rows every row has its own.
        columns: by name, how numbers of several rows become one: np.add, np.fmin or np.fmax.
    """

    def __init__(self, buckets: int, **columns: np.ufunc) -> None:
        if whole("buckets", buckets, at_least=2) % 2:
            raise ValueError(f"buckets must be even, because they are merged in pairs; got {buckets}")
        self.buckets, self.stride, self.rows = buckets, 1, 0
        self._joins = columns
        self._columns: dict[str, FloatArray] = {}

    @property
    def used(self) -> int:
        """Buckets that have rows."""
        return -(-self.rows // self.stride)

    def __getitem__(self, name: str) -> FloatArray:
        """A column of the buckets in use."""
        return self._columns[name][: self.used]

    def add(self, **columns: FloatArray) -> None:
        """Take rows that follow the last ones.

        Args:
            columns: by name, (rows, ...).
        """
        n = len(next(iter(columns.values())))
        while self.rows + n > self.buckets * self.stride:
            self._join()
        index = (self.rows + np.arange(n)) // self.stride
        for name, values in columns.items():
            if name not in self._columns:
                self._columns[name] = np.full((self.buckets, *values.shape[1:]), NOTHING[self._joins[name]])
            self._joins[name].at(self._columns[name], index, values)
        self.rows += n

    def _join(self) -> None:
        half = self.buckets // 2
        for name, column in self._columns.items():
            column[:half] = self._joins[name](column[0::2], column[1::2])
            column[half:] = NOTHING[self._joins[name]]
        self.stride *= 2
