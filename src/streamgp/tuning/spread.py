"""How wide intervals of forecasts have to be, by steps ahead: what past forecasts were off by tells."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from streamgp.settings import FloatArray

# The Gaussian counts as so many past forecasts. Between 10 and 40, coverage on 78 monthly series of M1 differs by less
# than a point.
GAUSSIAN = 20.0
MEMORY = 120  # past forecasts that count for each step, the last ones
HALVINGS = 60
CERTAIN = 9.0  # beyond this many standard deviations a Gaussian has no probability that rounding leaves


class Spread:
    """The distribution of the sizes of standardized errors, by steps ahead; further ones are taken for the last.

    It is a mixture of the Gaussian, which counts as some forecasts, and of the errors of past forecasts.
    """

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self._sizes = np.full((steps, MEMORY), np.nan)
        self._counts = np.zeros(steps, dtype=np.int64)

    def add(self, step: FloatArray, z: FloatArray) -> None:
        """Take the standardized errors of a forecast at steps ahead, from 1; NaN: not known."""
        known = ~np.isnan(z)
        for k, size in zip(self._rows(step[known]), np.abs(z[known]), strict=True):
            self._sizes[k, self._counts[k] % MEMORY] = size
            self._counts[k] += 1

    def part(self, step: FloatArray, size: FloatArray) -> FloatArray:
        """The probability of an error up to this size at steps ahead."""
        rows = self._rows(step)
        count = np.minimum(self._counts[rows], MEMORY)
        below = np.count_nonzero(self._sizes[rows] <= size[:, None], axis=1)
        return np.asarray((GAUSSIAN * erf(size / np.sqrt(2.0)) + below) / (GAUSSIAN + count))

    def size(self, step: FloatArray, part: float) -> FloatArray:
        """The size that an error at steps ahead stays below with this probability."""
        low = np.zeros(len(step))
        high = np.fmax(np.fmax.reduce(self._sizes[self._rows(step)], axis=1), CERTAIN)
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            under = self.part(step, middle) < part
            low, high = np.where(under, middle, low), np.where(under, high, middle)
        return np.asarray(high)

    def _rows(self, step: FloatArray) -> NDArray[np.int64]:
        return np.clip(np.round(step).astype(np.int64), 1, self.steps) - 1
