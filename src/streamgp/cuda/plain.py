"""PlainMemory: records in ordinary memory, run by plain Python with one lane; what a GPU does, slowly.

It reads the fleets of GPUs where there is none, and lets the tests run the source of the kernels.
"""

from __future__ import annotations

import numpy as np

from streamgp.cuda.lanes import one_lane
from streamgp.cuda.record import (
    CHANGE,
    COUNTED,
    COUNTS,
    LARGEST_NUMBERS,
    PARAMETERS,
    POINTS,
    PREDICTED,
    ROWS,
    UnfitError,
)
from streamgp.cuda.spectral import SpectralShape
from streamgp.cuda.whitened import BasisShape


class PlainMemory:
    """See gpu.GpuMemory."""

    def __init__(
        self, shape: BasisShape | SpectralShape, number: type = np.float64, parameters: np.ndarray | None = None
    ) -> None:
        self._shape, self._parameters = shape, parameters
        self._rows = shape.build(one_lane(number))
        self._records = np.empty((0, shape.numbers), np.float64 if shape.bytes == 8 else np.float32)
        self._counts = np.empty((0, len(COUNTS)), np.int64)

    @property
    def size(self) -> int:
        return len(self._records)

    def add(self, count: int, record: np.ndarray, counts: np.ndarray) -> None:
        self._records = np.concatenate([self._records, np.tile(record, (count, 1))])
        self._counts = np.concatenate([self._counts, np.tile(counts, (count, 1))])

    def keep(self, which: np.ndarray) -> None:
        self._records, self._counts = self._records[which], self._counts[which]

    def read(self, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._records[which], self._counts[which]

    def counts(self) -> np.ndarray:
        return self._counts.copy()

    def write(self, which: np.ndarray, records: np.ndarray, counts: np.ndarray) -> None:
        self._records[which], self._counts[which] = records, counts

    def _fetched(self, model: int) -> np.ndarray:
        """The record with the scratch behind it."""
        f = np.zeros(self._shape.scratch["end"], self._records.dtype)
        f[: self._shape.numbers] = self._records[model]
        first, last = self._shape.cleared
        f[first:last] = 0
        return f

    def run(self, models: np.ndarray, starts: np.ndarray, X: np.ndarray, Y: np.ndarray | None, mode: int) -> np.ndarray:
        assert self._parameters is not None
        largest = LARGEST_NUMBERS[self._shape.bytes]
        if not (np.abs(X) <= largest).all() or (Y is not None and (np.abs(Y) > largest).any()):
            raise UnfitError
        out, width = np.empty((2, len(X))), self._shape.width
        seen, scales = self._shape.scratch["x"], self._parameters[len(PARAMETERS) : len(PARAMETERS) + width]
        for j, model in enumerate(models.tolist()):
            f, counts = self._fetched(model), self._counts[model]
            for t in range(starts[j], starts[j + 1]):
                f[seen : seen + width] = X[t] * scales
                mean, variance, square, known = self._rows.predict(f, self._parameters)
                out[:, t] = mean, variance
                if mode == PREDICTED:
                    continue
                assert Y is not None
                if np.isnan(Y[t]):
                    counts[CHANGE] = 0
                else:
                    self._rows.learn(f, self._parameters, Y[t], mean, square, known, counts)
                counts[ROWS] += mode == COUNTED
            if mode != PREDICTED:
                self._records[model] = f[: self._shape.numbers]
        return out

    def off(self) -> np.ndarray:
        found = [
            self._rows.off(self._fetched(model), self._parameters, int(self._counts[model, POINTS]))
            for model in range(self.size)
        ]
        return np.array(found, self._records.dtype)
