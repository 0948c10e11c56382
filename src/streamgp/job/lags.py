"""Lags: past targets as inputs, and the previous value as a prediction to compare with."""

from __future__ import annotations

import numpy as np

from streamgp.settings import FloatArray


class Lags:
    """Turns the targets of a block of rows into columns of past targets.

    A missing target is bridged by the last known one. Lags from before the first target repeat the oldest known one;
    they are NaN while no target is known.

    Args:
        count: past targets that are inputs, newest first.
        horizon: rows ahead; with a horizon the newest lag is the row's own target, otherwise the one before it.

    Example:
        >>> import numpy as np
        >>> lags = Lags(2)
        >>> lags.columns(np.array([1.0, 2.0, np.nan, 4.0]))
        array([[nan, nan],
               [ 1.,  1.],
               [ 2.,  1.],
               [ 2.,  2.]])
        >>> lags.columns(np.array([5.0]))
        array([[4., 2.]])
    """

    def __init__(self, count: int, horizon: int = 0) -> None:
        self.count, self.first = count, 0 if horizon else 1
        self._targets = np.full(max(count, horizon, 1), np.nan)  # the last ones, gaps bridged, newest last
        self._ahead = max(horizon, 1)
        self.previous = np.empty(0)  # of every row of the last block, the last target known when it was predicted
        self.made_up = 0  # rows of the last block whose lags reach back beyond the first target

    def columns(self, y: FloatArray) -> FloatArray:
        """The lags of a block of rows, (n, count), newest first.

        Args:
            y: (n,) targets, NaN where missing.
        """
        kept, n = len(self._targets), len(y)
        known = np.concatenate([self._targets, y])
        known = known[np.maximum.accumulate(np.where(np.isnan(known), 0, np.arange(len(known))))]

        def back(rows: int) -> FloatArray:
            return known[kept - rows : kept - rows + n]

        oldest = back(self.first + self.count - 1) if self.count else np.empty(0)
        self.made_up = int(np.count_nonzero(np.isnan(oldest)))
        lagged = np.empty((n, self.count))
        for k in range(self.count):
            lagged[:, k] = back(self.first + k)
            if k:
                missing = np.isnan(lagged[:, k])
                lagged[missing, k] = lagged[missing, k - 1]
        self.previous = back(self._ahead)
        self._targets[:] = known[n:]
        return lagged

    def upcoming(self) -> FloatArray:
        """The lags of a row that would come next, (1, count); nothing changes but ``previous``."""
        targets = self._targets.copy()
        lagged = self.columns(np.array([np.nan]))
        self._targets[:] = targets
        return lagged

    def arrays(self) -> dict[str, np.ndarray]:
        """The state by name."""
        return {"targets": self._targets}
