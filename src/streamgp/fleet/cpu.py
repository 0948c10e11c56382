"""CpuEngine: the models of a fleet on the cores."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from streamgp.contract.model import Health, StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.contract.saved import refuse_unlike
from streamgp.fleet.layers import Layer, layer
from streamgp.fleet.rows import Rows
from streamgp.fleet.shelf import Shelf
from streamgp.fleet.workers import Workers
from streamgp.process.memory_model import MemoryModel
from streamgp.settings import FloatArray
from streamgp.wrappers import outliers
from streamgp.wrappers.calibrated import ISSUED, Calibrated
from streamgp.wrappers.wrapper import joined

Result = TypeVar("Result")

CHECKED_AT_ONCE = 1000  # models of a file: some numbers more for each


class CpuEngine:
    """Holds the numbers of all models and runs rows through them, the models shared out among threads.

    Args:
        model: of the recipe, prepared for the shape of the rows, with nothing learned.
        size: how many models there are.
        threads: that run models at the same time.
    """

    def __init__(self, model: StreamModel, size: int, threads: int) -> None:
        self._model = model
        self._shelf = Shelf(model, size)
        self._workers = Workers(threads)

    checks_rows = False

    # Rows.

    def advance(self, rows: Rows, report: bool) -> Prediction | None:
        """Take rows that have been checked: predict each if asked to, then learn it; predictions are (n, p)."""
        parts = self._each_part(rows, lambda layers, part: layers.advance(layers.screened(part), report))
        return joined([part for part in parts if part is not None]) if report else None

    def predict(self, rows: Rows) -> Prediction:
        """Predict rows that would each come next."""
        return joined(self._each_part(rows, lambda layers, part: layers.predict(part)))

    # Late targets, at most one row of each model in a call.

    def held_width(self) -> int:
        """How many numbers are held of a row that waits for its target."""
        shape, issued = self._model._shape, ISSUED if isinstance(self._model, Calibrated) else 0
        memory = sum(math.prod(array.shape[1:]) for array in self._memories())
        return (shape.d or 0) + issued * (shape.p or 1) + memory

    def issue(self, rows: Rows) -> tuple[Prediction, FloatArray]:
        """Predict rows and advance memories by them; also what it takes to learn each row later, (n, numbers)."""
        layers = layer(self._model, self._shelf)
        prediction = layers.predict(rows)
        held = np.hstack([rows.X, layers.issued(prediction), self._memory(rows.models)])
        layers.remember(rows)
        return prediction, held

    def resolve(self, rows: Rows, held: FloatArray, newest: np.ndarray, unchanged: np.ndarray) -> None:
        """Learn rows whose targets came late, at their inputs and memories as they were when they were issued.

        Args:
            rows: of which only models, Y and conditions count; the inputs are among what is held.
            held: what issue() returned.
            newest: whether the row is the last that its model has seen: it then goes on from there.
            unchanged: whether its model has not changed since, so that it would issue the same now.
        """
        d, present = self._model._shape.d or 0, self._memory(rows.models)
        rows = rows._replace(X=np.ascontiguousarray(held[:, :d]))
        self._put_memory(rows.models, held[:, held.shape[1] - present.shape[1] :])
        layers = layer(self._model, self._shelf)
        rows = layers.screened(rows)
        for late in (False, True):
            some = np.flatnonzero(unchanged != late)
            if len(some):
                part, _ = rows.of(some)
                if late:
                    layers.learn_issued(part, held[some, d : held.shape[1] - present.shape[1]])
                else:
                    layers.advance(part, False)
        self._put_memory(rows.models[~newest], present[~newest])

    def _memories(self) -> list[np.ndarray]:
        """The arrays of what is remembered of the last rows, each (size, ...)."""
        arrays, around = self.arrays(), len(list(self._model._family())) - 1
        return [arrays[f"{'inner.' * around}{name}"] for name in ("window", "units", "last_target")]

    def _memory(self, models: np.ndarray) -> FloatArray:
        return np.hstack([array[models].reshape(len(models), -1) for array in self._memories()])

    def _put_memory(self, models: np.ndarray, values: FloatArray) -> None:
        start = 0
        for array in self._memories():
            width = math.prod(array.shape[1:])
            array[models] = values[:, start : start + width].reshape(len(models), *array.shape[1:])
            start += width

    def _each_part(self, rows: Rows, work: Callable[[Layer, Rows], Result]) -> list[Result]:
        layers = layer(self._model, self._shelf)
        return self._workers.share(rows, lambda part: work(layers, part))

    def undo_of(self, models: np.ndarray) -> None:
        """Nothing: rows that have been checked are learned."""

    # Models.

    @property
    def size(self) -> int:
        return self._shelf.size

    def take(self, i: int, model: StreamModel) -> None:
        """Write the numbers of model i into a single model of the same recipe and shape."""
        self._shelf.take(i, model)

    def put(self, i: int, model: StreamModel) -> None:
        """Write the numbers of a single model of the same recipe and shape into model i."""
        self._shelf.put(i, model)

    def add(self, count: int) -> None:
        """Add models at the end that have learned nothing."""
        self._shelf.add(count)

    def keep(self, which: np.ndarray) -> None:
        """Keep these models only, in this order."""
        self._shelf.keep(which)

    # What can be read.

    def arrays(self) -> dict[str, np.ndarray]:
        """The state by the names that it has in a single model, each array with a leading axis for the models."""
        named: dict[str, np.ndarray] = {}
        stacked, prefix = iter(self._shelf.arrays), ""
        for one in self._model._family():
            numbers = getattr(one, "_numbers", None)
            if numbers is None:
                named |= {f"{prefix}{name}": next(stacked) for name in one._arrays()}
            else:
                records, buffers = next(stacked), next(stacked)
                for name, array in numbers.arrays().items():
                    if name.startswith("counters."):
                        found = records["counters"][name.removeprefix("counters.")]
                    else:
                        start = int(numbers.record["at"][name]["start"][0])
                        found = buffers[:, start : start + array.size].reshape(len(buffers), *array.shape)
                    named[f"{prefix}{name}"] = found
            prefix += "inner."
        return named

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        arrays = self.arrays()
        refuse_unlike(saved, arrays)
        for name, array in arrays.items():
            array[...] = saved[name]

    def check_restored(self) -> None:
        """Refuse restored states that no stream leads to, many models at once."""
        named = self.arrays()
        for start in range(0, self.size, CHECKED_AT_ONCE):
            prefix = ""
            for one in self._model._family():
                inner = f"{prefix}inner."
                one._check_numbers(
                    {
                        name.removeprefix(prefix): array[start : start + CHECKED_AT_ONCE]
                        for name, array in named.items()
                        if name.startswith(prefix) and not name.startswith(inner)
                    }
                )
                prefix = inner

    def _counters(self) -> np.ndarray:
        """The counters of the processes, which are the innermost models."""
        counters: np.ndarray = self._shelf.arrays[-2]["counters"]
        return counters

    def rows_seen(self) -> np.ndarray:
        return np.array(self._counters()["rows_seen"])

    def health(self) -> Health:
        """Repairs, an array with a number for each model."""
        counters = self._counters()
        counts: dict[str, np.ndarray] = {name: np.array(counters[name]) for name in counters.dtype.names or ()}
        for name, array in self.arrays().items():
            if name.removeprefix("inner.") == "screen":
                counts["fill_values"] = array[:, :, outliers.REFUSED].sum(axis=1).astype(np.int64)
        none = np.zeros(self.size, dtype=np.int64)
        return Health(*(counts.get(name, none) for name in Health._fields))  # type: ignore[arg-type]

    def broken(self) -> np.ndarray:
        """The ids of models with a number that is not finite where it has to be."""
        *around, process = self._model._family()
        assert isinstance(process, MemoryModel)
        prefix, wrong = "inner." * len(around), np.zeros(self.size, dtype=bool)
        for name, array in self.arrays().items():
            own = name.removeprefix(prefix)
            if name.startswith(prefix) and own in vars(process._state) and own not in process._may_overflow:
                wrong |= ~np.isfinite(array).reshape(self.size, -1).all(axis=1)
        return np.flatnonzero(wrong)

    def refresh(self) -> np.ndarray:
        """Let broken models start again; their ids."""
        wrong = self.broken()
        for i in wrong.tolist():
            self._shelf.put(i, self._model)
        return wrong
