"""GpuMemory: records in the memory of a GPU; rows go up, the kernel runs, predictions come down."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streamgp.cuda.device_array import DeviceArray, device_blocks
from streamgp.cuda.exchange import refuse_large
from streamgp.cuda.gpu import AT_ONCE, find_unfit, gather, inspection, kernel, scatter, threads_for
from streamgp.cuda.ptx import RELAXED, ask_for_shared, cuda, driver
from streamgp.cuda.record import COUNTED, COUNTS, PREDICTED, SCALES, UnfitError
from streamgp.cuda.staging import Staging, address
from streamgp.cuda.whitened import BasisShape

UNASKED_SHARED = 48 * 1024  # bytes that a block gets without asking
FLOAT = np.dtype(np.float64).itemsize
GRAPHS = 8  # that are kept


class There(NamedTuple):
    """Rows, the noises that they have of their own, and predictions on the GPU."""

    X: Any
    Y: Any
    noise: Any
    out: Any


class Work(NamedTuple):
    """What a GPU does with rows."""

    mode: int  # as in record.py
    step: int  # as in fleet/rows.py
    bound: float  # of targets
    conditioned: bool  # whether rows have a noise of their own


class GpuMemory:
    """Records, origins, counts and what models have of their own in the memory of a GPU."""

    def __init__(self, shape: BasisShape, number: type, shared: np.ndarray) -> None:
        refuse_large(shape, cuda.get_current_device().MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
        self._shape, self._number = shape, number
        self._shared_by_all = cuda.to_device(shared)
        self._records = cuda.device_array((0, shape.numbers), number)
        self._origins = cuda.device_array((0, shape.width), np.float64)
        self._counts = cuda.device_array((0, len(COUNTS)), np.int64)
        self._own = cuda.device_array((0, SCALES + 2 * shape.width), np.float64)
        self._stream, self._found = cuda.stream(), cuda.to_device(np.zeros(1, np.int64))  # whether rows are unfit
        self._found_here = cuda.pinned_array(1, np.int64)
        self._there: dict[Any, There] = {}  # by the type of numbers in rows
        self._last: tuple[Any, ...] = (None, None, None, None)
        self._graphs = Graphs(self._stream)
        self._staging = Staging(self._stream)
        self._there_blocks = device_blocks()

    # Models.

    @property
    def size(self) -> int:
        return int(self._records.shape[0])

    @property
    def _arrays(self) -> tuple[Any, Any, Any, Any]:
        """What a model has."""
        return self._records, self._origins, self._counts, self._own

    def add(self, count: int, *state: np.ndarray) -> None:
        """Add models at the end, all with these parts of Kept."""
        before = self.size
        self._grow(before + count, np.arange(before))
        self.write(np.arange(before, before + count), *(array[None] for array in state))

    def keep(self, which: np.ndarray) -> None:
        """Keep these models only, in this order."""
        self._grow(len(which), which)

    def _grow(self, size: int, which: np.ndarray) -> None:
        """Make room for this many, the first of which are these of the present ones."""
        chosen = cuda.to_device(which)
        arrays = []
        for array in self._arrays:
            new = cuda.device_array((size, array.shape[1]), array.dtype)
            if len(which):
                gather[AT_ONCE, AT_ONCE](new[: len(which)], array, chosen)
            arrays.append(new)
        cuda.synchronize()
        self._records, self._origins, self._counts, self._own = arrays
        self._graphs.forget()

    def read(self, which: np.ndarray) -> tuple[np.ndarray, ...]:
        """The parts of Kept of these models."""
        found = []
        for array in self._arrays:
            part = cuda.device_array((len(which), array.shape[1]), array.dtype)
            if len(which):
                gather[AT_ONCE, AT_ONCE](part, array, cuda.to_device(which))
            found.append(part.copy_to_host())
        return tuple(found)

    def counts(self) -> np.ndarray:
        return np.asarray(self._counts.copy_to_host())

    def write(self, which: np.ndarray, *state: np.ndarray) -> None:
        """Replace the parts of Kept of these models; one stands for all."""
        for array, values in zip(self._arrays, state, strict=True):
            if len(which):
                source = cuda.to_device(np.ascontiguousarray(values, array.dtype))
                scatter[AT_ONCE, AT_ONCE](array, source, cuda.to_device(which))
        cuda.synchronize()

    # Rows.

    def run(
        self,
        models: np.ndarray,
        starts: np.ndarray,
        X: np.ndarray,
        Y: np.ndarray | None,
        noise: np.ndarray | None,
        mode: int,
        step: int,
        bound: float,
    ) -> np.ndarray:
        """Predict rows, and learn them unless they are only PREDICTED; targets and noises are (n,), predictions (2, n).

        Rows of a model follow each other from its start on, or are ``step`` apart where that is not 0. Targets beyond
        the bound are refused.
        """
        there = self._room_on_the_gpu(len(X), np.dtype(np.float64))
        self._staging.up("X", there.X, X)
        if Y is not None:
            self._staging.up("Y", there.Y, Y)
        if noise is not None:
            there.noise[: len(X)].copy_to_device(np.ascontiguousarray(noise), stream=self._stream)
        self._start(models, starts, len(X), there, Work(mode, step, bound, noise is not None))
        out = self._staging.block(2 * len(X))
        self._staging.down(out, there.out)
        self._finish()
        return out.reshape(2, -1)

    def run_there(
        self, models: np.ndarray, starts: np.ndarray, X: DeviceArray, Y: DeviceArray | None, step: int, bound: float
    ) -> tuple[DeviceArray, DeviceArray]:
        """The same for rows that are on the GPU already; means and variances stay there. Without targets: PREDICTED."""
        n, handle = int(np.prod(X.shape[:-1])), int(self._stream.handle)
        there = self._room_on_the_gpu(n, X.dtype)
        for target, source in ((there.X, X), (there.Y, Y)):
            if source is not None:  # a copy there takes no time, and the work can be the same at every call
                driver.cuMemcpyDtoDAsync(address(target), source.address, source.nbytes, handle)
        self._start(models, starts, n, there, Work(PREDICTED if Y is None else COUNTED, step, bound, False))
        block = self._there_blocks.take(2 * n)
        driver.cuMemcpyDtoDAsync(block.address, address(there.out), 2 * n * FLOAT, handle)
        self._finish()
        mean, variance = (
            DeviceArray(block.address + part * n * FLOAT, X.shape[:-1], np.float64, block) for part in range(2)
        )
        return mean, variance

    def _start(self, models: np.ndarray, starts: np.ndarray, n: int, there: There, asked: Work) -> None:
        """Let the GPU run the rows that are there."""
        which = self._which(models, starts)

        def work() -> None:
            rows = There(there.X[:n], there.Y[:n], there.noise[:n], there.out[: 2 * n].reshape(2, n))
            self._enqueue(which, rows, asked)

        self._graphs.run((n, asked, there.X.dtype), (*which, there), work)

    def _enqueue(self, which: tuple[Any, Any], rows: There, asked: Work) -> None:
        """Check rows and run them: where one cannot be taken, none is."""
        learned = int(asked.mode != PREDICTED)
        find_unfit[AT_ONCE, AT_ONCE, self._stream](rows.X, rows.Y, learned, asked.bound, self._found)
        self._launch(
            kernel(self._shape, self._number, asked.conditioned),
            which[0].shape[0],
            *(self._records.reshape(self._records.size), *self._arrays[1:], *which, *rows, self._shared_by_all),
            *(self._found, asked.step, asked.mode),
        )
        self._found.copy_to_host(self._found_here, stream=self._stream)

    def _finish(self) -> None:
        """Wait; if rows cannot be taken, nothing has changed."""
        self._stream.synchronize()
        if self._found_here[0]:
            self._found.copy_to_device(np.zeros(1, np.int64))
            raise UnfitError

    @property
    def _shared(self) -> int:
        """Bytes that a block needs."""
        return self._shape.scratch["end"] * self._shape.bytes

    def _launch(self, compiled: Any, blocks: int, *arguments: Any) -> None:
        ready = compiled[blocks, threads_for(self._shape.points), self._stream, self._shared]
        if self._shared > UNASKED_SHARED:
            ask_for_shared(compiled, arguments, self._shared)
        ready(*arguments)

    def _room_on_the_gpu(self, rows: int, number: Any) -> There:
        room = self._there.get(number)
        if room is None or room.X.shape[0] < rows:
            X, Y = (cuda.device_array(shape, number) for shape in ((rows, self._shape.width), (rows,)))
            noise, out = (cuda.device_array(n, np.float64) for n in (rows, 2 * rows))
            self._there[number] = room = There(X, Y, noise, out)
        return room

    def _which(self, models: np.ndarray, starts: np.ndarray) -> tuple[Any, Any]:
        """The models and starts on the GPU; the last ones stay there, for calls of all models come again and again."""
        if not (models is self._last[0] and starts is self._last[1]):
            self._last = models, starts, cuda.to_device(models), cuda.to_device(starts)
        return self._last[2:]

    def off(self, which: np.ndarray) -> np.ndarray:
        """For each of these, how far |L k(b)|^2 is from k(b, b) over its basis points b, relative; inf: not finite."""
        off = cuda.device_array(len(which), self._number)
        if len(which):
            records, models = self._records.reshape(self._records.size), cuda.to_device(np.ascontiguousarray(which))
            arguments = records, self._counts, models, self._shared_by_all, off
            self._launch(inspection(self._shape, self._number), len(which), *arguments)
            self._stream.synchronize()
        return np.asarray(off.copy_to_host())


class Graphs:
    """Work that comes again and again, captured once: a GPU starts all of it at one call."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._known: dict[Any, tuple[tuple[Any, ...], Any]] = {}

    def forget(self) -> None:
        """Arrays have moved."""
        for _, graph in self._known.values():
            if graph is not None:
                driver.cuGraphExecDestroy(graph)
        self._known = {}

    def run(self, key: Any, uses: tuple[Any, ...], work: Any) -> None:
        """Do this work, which depends on a key and uses these very objects; the first time step by step."""
        before, graph = self._known.get(key, ((), None))
        if len(before) != len(uses) or any(a is not b for a, b in zip(before, uses, strict=True)):
            if len(self._known) >= GRAPHS or graph is not None:
                self.forget()
            work()  # compiles what is needed, too
            self._known[key] = uses, None
            return
        handle = int(self._stream.handle)
        if graph is None:
            driver.cuStreamBeginCapture(handle, RELAXED)
            try:
                work()
            finally:
                captured = driver.cuStreamEndCapture(handle)
            graph = driver.cuGraphInstantiate(captured, 0)
            self._known[key] = uses, graph
        driver.cuGraphLaunch(graph, handle)
