"""PlainMemory: records in ordinary memory, run by plain Python with one lane; what a GPU does, slowly.

It reads the fleets of GPUs where there is none, and lets the tests run the source of the kernels.
"""

from __future__ import annotations

import numpy as np

from streamgp.contract.checks import LARGEST
from streamgp.cuda.lanes import one_lane
from streamgp.cuda.record import (
    CHANGE,
    COUNTED,
    COUNTS,
    LARGEST_NUMBERS,
    POINTS,
    PREDICTED,
    ROWS,
    Look,
    UnfitError,
)
from streamgp.cuda.spectral import SpectralShape
from streamgp.cuda.whitened import BasisShape


class PlainMemory:
    """See gpu.GpuMemory."""

    def __init__(
        self, shape: BasisShape | SpectralShape, number: type, parameters: np.ndarray, units: np.ndarray
    ) -> None:
        self._shape, self._number, self._parameters, self._units = shape, number, parameters, units
        self._rows = shape.build(one_lane(number))
        self._records: np.ndarray = np.empty((0, shape.numbers), number)
        self._origins = np.empty((0, shape.width))
        self._counts = np.empty((0, len(COUNTS)), np.int64)
        self.suspected = shape.bytes == 4

    @property
    def size(self) -> int:
        return len(self._records)

    @property
    def _arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What a model has."""
        return self._records, self._origins, self._counts

    def add(self, count: int, *state: np.ndarray) -> None:
        self._records, self._origins, self._counts = (
            np.concatenate([array, np.tile(value, (count, 1))])
            for array, value in zip(self._arrays, state, strict=True)
        )

    def keep(self, which: np.ndarray) -> None:
        self._records, self._origins, self._counts = self.read(which)

    def read(self, which: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self._records[which], self._origins[which], self._counts[which]

    def counts(self) -> np.ndarray:
        return self._counts.copy()

    def write(self, which: np.ndarray, *state: np.ndarray) -> None:
        for array, values in zip(self._arrays, state, strict=True):
            array[which] = values

    def _fetched(self, model: int) -> np.ndarray:
        """The record with the scratch behind it."""
        f = np.zeros(self._shape.scratch["end"], self._records.dtype)
        f[: self._shape.numbers] = self._records[model]
        first, last = self._shape.cleared
        f[first:last] = 0
        return f

    def run(
        self,
        models: np.ndarray,
        starts: np.ndarray,
        X: np.ndarray,
        Y: np.ndarray | None,
        mode: int,
        step: int,
        look: Look,
    ) -> np.ndarray:
        unit, targets = self._units[0, 0], np.full(len(X), np.nan) if mode == PREDICTED or Y is None else Y
        if not (np.abs(X) <= LARGEST).all() or (np.abs(targets) > LARGEST_NUMBERS[self._shape.bytes] * unit).any():
            raise UnfitError
        out = np.empty((2, len(X)))
        for j, model in enumerate(models.tolist()):
            f, counts = self._fetched(model), self._counts[model]
            rows = range(starts[j], starts[j + 1]) if step == 0 else range(j, len(X), step)
            for t in rows:
                learned = not np.isnan(targets[t])
                self._rows.place(f, X[t], self._origins[model], self._units, learned, counts)
                mean, variance, square, known = self._rows.predict(f, self._parameters)
                out[:, t] = mean * unit, variance * (unit * unit)
                if mode == PREDICTED:
                    continue
                if learned:
                    y = self._number(targets[t] * self._units[1, 0])
                    self._rows.learn(f, self._parameters, y, mean, square, known, counts)
                else:
                    counts[CHANGE] = 0
                counts[ROWS] += mode == COUNTED
            if mode != PREDICTED:
                self._records[model] = f[: self._shape.numbers]
        return out

    def off(self, which: np.ndarray) -> np.ndarray:
        found = [
            self._rows.off(self._fetched(model), self._parameters, int(self._counts[model, POINTS]))
            for model in which.tolist()
        ]
        return np.array(found, self._records.dtype)
