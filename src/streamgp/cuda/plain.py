"""PlainMemory: records in ordinary memory, run by plain Python with one lane; what a GPU does, slowly.

It reads the fleets of GPUs where there is none, and lets the tests run the source of the kernels.
"""

from __future__ import annotations

import numpy as np

from streamgp.contract.checks import LARGEST
from streamgp.cuda import row
from streamgp.cuda.lanes import one_lane
from streamgp.cuda.record import (
    CHANGE,
    COUNTED,
    COUNTS,
    OWN_PARAMETERS,
    PER_UNIT,
    POINTS,
    PREDICTED,
    ROW_NOISE,
    ROW_TIME,
    ROWS,
    SCALES,
    SHARED,
    UNIT,
    Look,
    UnfitError,
)
from streamgp.cuda.whitened import BasisShape


class PlainMemory:
    """See gpu.GpuMemory."""

    def __init__(self, shape: BasisShape, number: type, shared: np.ndarray, half_life: float) -> None:
        self._shape, self._number, self._shared, self._half_life = shape, number, shared, half_life
        self._rows, self._meet = shape.build(one_lane(number)), row.build(one_lane(number), shape.bytes)
        self._records: np.ndarray = np.empty((0, shape.numbers), number)
        self._origins = np.empty((0, shape.width + (half_life > 0.0)))
        self._counts = np.empty((0, len(COUNTS)), np.int64)
        self._own = np.empty((0, SCALES + 2 * shape.width))
        self.suspected = shape.bytes == 4

    @property
    def size(self) -> int:
        return len(self._records)

    @property
    def _arrays(self) -> tuple[np.ndarray, ...]:
        """What a model has."""
        return self._records, self._origins, self._counts, self._own

    def add(self, count: int, *state: np.ndarray) -> None:
        self._records, self._origins, self._counts, self._own = (
            np.concatenate([array, np.tile(value, (count, 1))])
            for array, value in zip(self._arrays, state, strict=True)
        )

    def keep(self, which: np.ndarray) -> None:
        self._records, self._origins, self._counts, self._own = self.read(which)

    def read(self, which: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(array[which] for array in self._arrays)

    def counts(self) -> np.ndarray:
        return self._counts.copy()

    def origins(self) -> np.ndarray:
        return self._origins.copy()

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
        given: np.ndarray | None,
        mode: int,
        step: int,
        look: Look,
        bound: float,
    ) -> np.ndarray:
        n, p = len(X), self._shape.outputs
        targets = np.full(n * p, np.nan) if mode == PREDICTED or Y is None else Y.reshape(n * p)
        missing = np.isnan(targets).reshape(n, p)
        alone = bool((missing != missing[:, :1]).any())
        if not (np.abs(X) <= LARGEST).all() or (np.abs(targets) > bound).any() or alone:
            raise UnfitError
        out, d, p, scratch = np.empty((2, n * p)), self._shape.width, p, self._shape.scratch
        for j, model in enumerate(models.tolist()):
            f, counts, origin, own = self._fetched(model), self._counts[model], self._origins[model], self._own[model]
            parameters: np.ndarray = np.concatenate([self._shared[: len(SHARED)], own[:OWN_PARAMETERS]]).astype(
                self._number
            )
            unit = own[UNIT]
            rows = range(starts[j], starts[j + 1]) if step == 0 else range(j, len(X), step)
            for t in rows:
                learned = not np.isnan(targets[t * p])
                f[scratch["targets"] : scratch["targets"] + p] = targets[t * p : t * p + p] * own[PER_UNIT]
                if given is not None:
                    noise, time = given[t, ROW_NOISE], given[t, ROW_TIME]
                    self._meet(parameters, own, noise, time, origin, d, self._half_life, learned)
                self._rows.place(f, X[t], origin, own, learned, counts)
                mean, variance, square, known = self._rows.predict(f, parameters, self._shared)
                out[0, t * p : t * p + p] = f[scratch["means"] : scratch["means"] + p] * unit
                out[:, t * p] = mean * unit, variance * (unit * unit)
                out[1, t * p : t * p + p] = variance * (unit * unit)
                if mode == PREDICTED:
                    continue
                if learned:
                    y = self._number(targets[t * p] * own[PER_UNIT])
                    self._rows.learn(f, parameters, y, mean, square, known, counts)
                else:
                    counts[CHANGE] = 0
                counts[ROWS] += mode == COUNTED
            if mode != PREDICTED:
                self._records[model] = f[: self._shape.numbers]
        return out

    def off(self, which: np.ndarray) -> np.ndarray:
        found = [
            self._rows.off(self._fetched(model), self._shared, int(self._counts[model, POINTS]))
            for model in which.tolist()
        ]
        return np.array(found, self._records.dtype)
