"""CpuEngine: the models of a fleet on the cores."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

import numpy as np

from streamgp.contract.model import Health, StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.fleet.layers import Layer, layer
from streamgp.fleet.rows import Rows
from streamgp.fleet.shelf import Shelf
from streamgp.process.memory_model import MemoryModel
from streamgp.wrappers.wrapper import joined

Result = TypeVar("Result")

# Rows for which a thread is worth its start: it costs about as much as some tens of rows of a small model.
ROWS_PER_THREAD = 100


class CpuEngine:
    """Holds the numbers of all models and runs rows through them, the models shared out among threads.

    Args:
        model: of the recipe, prepared for the shape of the rows, with nothing learnt.
        size: how many models there are.
        threads: that run models at the same time.
    """

    def __init__(self, model: StreamModel, size: int, threads: int) -> None:
        self._model, self._threads = model, threads
        self._shelf = Shelf(model, size)
        self._pool: tuple[int, ThreadPoolExecutor] | None = None  # with the process that it belongs to

    # Rows.

    def advance(self, rows: Rows, report: bool) -> Prediction | None:
        """Take rows that have been checked: predict each if asked to, then learn it; predictions are (n, p)."""
        parts = self._each_part(rows, lambda layers, part: layers.advance(part, report))
        return joined([part for part in parts if part is not None]) if report else None

    def predict(self, rows: Rows) -> Prediction:
        """Predict rows that would each come next."""
        return joined(self._each_part(rows, lambda layers, part: layers.predict(part)))

    def _each_part(self, rows: Rows, work: Callable[[Layer, Rows], Result]) -> list[Result]:
        layers = layer(self._model, self._shelf)
        parts = min(self._threads, max(1, len(rows.X) // ROWS_PER_THREAD))
        if parts == 1:
            return [work(layers, rows)]
        pool = self._workers()
        started = [pool.submit(work, layers, part) for part in rows.cut(parts)]
        wait(started)
        return [one.result() for one in started]

    def _workers(self) -> ThreadPoolExecutor:
        if self._pool is None or self._pool[0] != os.getpid():  # threads do not survive a fork
            self._pool = os.getpid(), ThreadPoolExecutor(self._threads)
        return self._pool[1]

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
        """Add models at the end that have learnt nothing."""
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

    def _counters(self) -> np.ndarray:
        """The counters of the processes, which are the innermost models."""
        counters: np.ndarray = self._shelf.arrays[-2]["counters"]
        return counters

    def rows_seen(self) -> np.ndarray:
        return np.array(self._counters()["rows_seen"])

    def health(self) -> Health:
        """Repairs, an array with a number for each model."""
        counters = self._counters()
        counted = set(counters.dtype.names or ())
        none = np.zeros(self.size, dtype=np.int64)
        return Health(*(np.array(counters[name]) if name in counted else none for name in Health._fields))  # type: ignore[arg-type]

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
