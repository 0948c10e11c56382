"""CpuEngine: the models of a fleet on the cores."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.contract.lanes import LEARN, PREDICT, Lanes, listed
from streamgp.contract.model import Health, StreamModel
from streamgp.contract.saved import refuse_unlike
from streamgp.contract.stackable import on, put, take
from streamgp.contract.within import by_place, check_numbers, family
from streamgp.fleet.rows import Predicted, Rows, joined
from streamgp.fleet.workers import Workers
from streamgp.settings import FloatArray
from streamgp.wrappers import outliers
from streamgp.wrappers.standardize import Standardize

# Room for models to come, as a share of those there are: adding them one by one then copies each a few times only. It
# takes no memory before it is used.
SPARE = 0.25


class CpuEngine:
    """One model that stands for all, and runs their rows, the models shared out among threads."""

    checks = False  # whether it checks rows itself

    def __init__(self, model: StreamModel, size: int, threads: int) -> None:
        self._blank, self._model = self._prepared(model), self._prepared(model)
        self._workers = Workers(threads)
        *_, self._process = family(self._model)
        self._rooms = [(one, self._places_of(one)) for one in family(self._model)]
        self.size = 0
        self.add(size)

    _checked_at_once = 1000  # models of a file: some numbers more for each

    def _prepared(self, model: StreamModel) -> StreamModel:
        """A model of the same recipe and shape that has learned nothing."""
        twin = model.clone()
        twin._prepare(model._shape)
        return twin

    def _places_of(self, one: Any) -> Any:
        """Where the numbers of all models like one of the family are."""
        return Places(one._numbers.stack)

    # Rows.

    def run(self, rows: Rows, kind: int, kept: FloatArray | None = None) -> Predicted:
        """Do the same operation on each row (contract/lanes.py); the columns of its prediction, in order.

        Args:
            rows: of which a model has one at most where something is kept of it.
            kind: of the operation.
            kept: (n, kept_width) of rows that wait for their targets, besides their inputs; None: none does.
        """

        def done(part: Rows) -> FloatArray:
            model, Y = on(self._model, Lanes(part.models, part.starts)), None
            if kind & LEARN:
                Y = np.full((len(part.X), model._p or 1), np.nan) if part.Y is None else model._screened(part.Y)
            columns: FloatArray = model._pass(listed(len(part.X), kind), part.X, Y, part.conditions, kept)
            return columns

        if kept is not None:
            return done(rows)
        parts = self._workers.share(rows, done)
        return joined(parts) if kind & PREDICT else []

    @property
    def kept_width(self) -> int:
        width: int = self._model._kept_width
        return width

    # Models.

    def take(self, i: int, model: StreamModel) -> None:
        """Write the numbers of model i into a single model of the same recipe and shape."""
        take(self._model, i, model)

    def put(self, i: int, model: StreamModel) -> None:
        """Write the numbers of a single model of the same recipe and shape into model i."""
        put(self._model, i, model)

    def add(self, count: int) -> None:
        """Add models at the end that have learned nothing."""
        for one, places in self._rooms:
            places.add(count)
            one._numbers.stack = places.arrays
        self.size += count

    def keep(self, which: np.ndarray) -> None:
        """Keep these models only, in this order."""
        for one, places in self._rooms:
            places.keep(which)
            one._numbers.stack = places.arrays
        self.size = len(which)

    # What can be read.

    def arrays(self) -> dict[str, np.ndarray]:
        """The state by the names that it has in a single model, each array with a leading axis for the models."""
        found = ((place, one._numbers.stacked()) for place, one in by_place(self._model))
        return {f"{place}{name}": array for place, named in found for name, array in named.items()}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        arrays = self.arrays()
        refuse_unlike(saved, arrays)
        for name, array in arrays.items():
            array[...] = saved[name]

    def check_restored(self) -> None:
        """Refuse restored states that no stream leads to."""
        for one in family(self._model):
            for start in range(0, self.size, self._checked_at_once):
                check_numbers(one, start, start + self._checked_at_once)
            one._check_restored()

    def _counters(self) -> np.ndarray:
        """The counters of the processes, which are the innermost models."""
        counters: np.ndarray = self._process._numbers.records["counters"]
        return counters

    def rows_seen(self) -> np.ndarray:
        return np.array(self._counters()["rows_seen"])

    def clock(self) -> FloatArray:
        """When each model learned last; -inf: never."""
        clock = self._process._numbers.stacked_array("clock")[:, 0]
        last: FloatArray = np.where(np.isnan(clock), -np.inf, clock).max(axis=1)
        return last

    def health(self) -> Health:
        """Repairs, an array with a number for each model."""
        counters = self._counters()
        counts: dict[str, np.ndarray] = {name: np.array(counters[name]) for name in counters.dtype.names or ()}
        for one in family(self._model):
            if isinstance(one, Standardize):
                counts["fill_values"] = one._numbers["screen"][:, :, outliers.REFUSED].sum(axis=1).astype(np.int64)
        none = np.zeros(self.size, dtype=np.int64)
        return Health(*(counts.get(name, none) for name in Health._fields))  # type: ignore[arg-type]

    def broken(self) -> np.ndarray:
        """The ids of models with a number that is not finite where it has to be."""
        numbers, wrong = self._process._numbers, np.zeros(self.size, dtype=bool)
        for name, array in numbers.stacked().items():
            if name in vars(numbers.state) and name not in self._process._may_overflow:
                wrong |= ~np.isfinite(array).reshape(self.size, -1).all(axis=1)
        return np.flatnonzero(wrong)

    def refresh(self) -> np.ndarray:
        """Let broken models start again; their ids."""
        wrong = self.broken()
        for i in wrong.tolist():
            self.put(i, self._blank)
        return wrong


class Places:
    """The numbers of models of a kind, in arrays with room for models to come."""

    def __init__(self, blank: list[np.ndarray]) -> None:
        self._blank, self._size = [array.copy() for array in blank], 0
        self._rooms = [_zeros(array, 0) for array in blank]

    @property
    def arrays(self) -> list[np.ndarray]:
        """Of the models there are."""
        return [room[: self._size] for room in self._rooms]

    def add(self, count: int) -> None:
        before, size = self._size, self._size + count
        for at, (blank, room) in enumerate(zip(self._blank, self._rooms, strict=True)):
            if size > len(room):
                self._rooms[at] = _zeros(blank, size + int(SPARE * before))
                self._rooms[at][:before] = room[:before]
            _fill(self._rooms[at][before:size], blank[0])
        self._size = size

    def keep(self, which: np.ndarray) -> None:
        self._rooms, self._size = [array[which] for array in self.arrays], len(which)


def _zeros(blank: np.ndarray, size: int) -> np.ndarray:
    """Zeros for this many models, of the kind of an array of one."""
    return np.zeros((size, *blank.shape[1:]), blank.dtype).view(type(blank))


def _fill(places: np.ndarray, blank: np.ndarray) -> None:
    """Write an array into places that hold zeros; what is zero stays untouched, and then takes no memory either."""
    if places.dtype.names:
        places[...] = blank
        return
    flat = blank.ravel()
    (where,) = flat.view(np.int64).nonzero()  # -0.0 is not zero in every bit
    places.reshape(len(places), flat.size)[:, where] = flat[where]
