"""Records in ordinary memory, run by plain Python with one lane: what a GPU does, slowly."""

import numpy as np

from streamgp.contract.checks import LARGEST
from streamgp.cuda.lanes import one_lane
from streamgp.cuda.record import (
    CHANGE,
    COUNTED,
    COUNTS,
    OWN_PARAMETERS,
    PER_UNIT,
    POINTS,
    PREDICTED,
    ROWS,
    SCALES,
    UNIT,
    UnfitError,
)


class PlainMemory:
    """See streamgp.cuda.memory.GpuMemory."""

    def __init__(self, shape, number, shared):
        self._shape, self._number, self._shared = shape, number, shared
        self._rows = shape.build(one_lane(number))
        self._records, self._origins = np.empty((0, shape.numbers), number), np.empty((0, shape.width))
        self._counts, self._own = np.empty((0, len(COUNTS)), np.int64), np.empty((0, SCALES + 2 * shape.width))

    @property
    def size(self):
        return len(self._records)

    @property
    def _arrays(self):
        return self._records, self._origins, self._counts, self._own

    def add(self, count, *state):
        tiled = (np.tile(value, (count, 1)) for value in state)
        self._records, self._origins, self._counts, self._own = map(
            np.concatenate, zip(self._arrays, tiled, strict=True)
        )

    def keep(self, which):
        self._records, self._origins, self._counts, self._own = self.read(which)

    def read(self, which):
        return tuple(array[which] for array in self._arrays)

    def counts(self):
        return self._counts.copy()

    def write(self, which, *state):
        for array, values in zip(self._arrays, state, strict=True):
            array[which] = values

    def _fetched(self, model):
        """The record with the scratch behind it."""
        f = np.zeros(self._shape.scratch["end"], self._records.dtype)
        f[: self._shape.numbers] = self._records[model]
        first, last = self._shape.cleared
        f[first:last] = 0
        return f

    def run(self, models, starts, X, Y, noise, mode, step, bound):
        Y = np.full(len(X), np.nan) if mode == PREDICTED else Y
        if not (np.abs(X) <= LARGEST).all() or (np.abs(Y) > bound).any():
            raise UnfitError
        out = np.empty((2, len(X)))
        for j, model in enumerate(models.tolist()):
            f, counts, origin, own = self._fetched(model), self._counts[model], self._origins[model], self._own[model]
            parameters = np.concatenate([self._shared, own[:OWN_PARAMETERS]]).astype(self._number)
            for t in range(starts[j], starts[j + 1]) if step == 0 else range(j, len(X), step):
                if noise is not None:
                    self._rows.meet(parameters, own, noise[t])
                self._rows.place(f, X[t], origin, own, not np.isnan(Y[t]), counts)
                mean, variance, square, known = self._rows.predict(f, parameters, self._shared)
                out[:, t] = mean * own[UNIT], variance * (own[UNIT] * own[UNIT])
                if mode == PREDICTED:
                    continue
                if np.isnan(Y[t]):
                    counts[CHANGE] = 0
                else:
                    self._rows.learn(f, parameters, self._number(Y[t] * own[PER_UNIT]), mean, square, known, counts)
                counts[ROWS] += mode == COUNTED
            if mode != PREDICTED:
                self._records[model] = f[: self._shape.numbers]
        return out

    def off(self, which):
        points = self._counts[:, POINTS]
        found = [self._rows.off(self._fetched(i), self._shared, int(points[i])) for i in which.tolist()]
        return np.array(found, self._records.dtype)
