"""GpuMemory: records in the memory of a GPU; rows go up, the kernel runs, predictions come down."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from streamgp.cuda.device_array import DeviceArray
from streamgp.cuda.exchange import refuse_large
from streamgp.cuda.gpu import AT_ONCE, find_unfit, gather, inspection, kernel, scatter, threads_for
from streamgp.cuda.ptx import RELAXED, ask_for_shared, cuda, driver
from streamgp.cuda.record import COUNTS, PREDICTED, ROW_TIME, SCALES, Look, UnfitError
from streamgp.cuda.whitened import BasisShape

UNASKED_SHARED = 48 * 1024  # bytes that a block gets without asking
FLOAT = np.dtype(np.float64).itemsize
PARTS = 16  # of the rows of a call, which threads copy to pinned memory
GRAPHS = 8  # that are kept
BLOCKS = 4  # of predictions in pinned memory that a user may hold; what is more is copied


Shown = TypeVar("Shown")


class Here(NamedTuple):
    """Rows in pinned memory, from which a GPU copies fastest."""

    X: np.ndarray
    Y: np.ndarray


class There(NamedTuple):
    """Rows, what they have of their own, and predictions on the GPU."""

    X: Any
    Y: Any
    given: Any
    out: Any


class Work(NamedTuple):
    """What a GPU does with rows.

    Args:
        mode: as in record.py.
        step: as in fleet.rows.
        every: of the models that are looked at; 0: none is.
        bound: of targets.
        conditioned: whether rows have a noise and a time of their own.
    """

    mode: int
    step: int
    every: int
    bound: float
    conditioned: bool


class GpuMemory:
    """Records, origins, counts and what models have of their own in the memory of a GPU.

    Args:
        shape: of the records.
        number: the type of numbers.
        shared: by all models.
        half_life: by which they forget; 0: by rows.
    """

    def __init__(self, shape: BasisShape, number: type, shared: np.ndarray, half_life: float) -> None:
        refuse_large(shape, cuda.get_current_device().MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
        self._shape, self._number, self._half_life = shape, number, half_life
        self._shared_by_all = cuda.to_device(shared)
        self._records = cuda.device_array((0, shape.numbers), number)
        self._origins = cuda.device_array((0, shape.width + (half_life > 0.0)), np.float64)
        self._counts = cuda.device_array((0, len(COUNTS)), np.int64)
        self._own = cuda.device_array((0, SCALES + 2 * shape.width), np.float64)
        # Whether rows cannot be taken, and whether a model that was looked at is broken; which is the first of those.
        self._stream, self._found = cuda.stream(), cuda.to_device(np.zeros(2, np.int64))
        self._found_here, self._first_here = cuda.pinned_array(2, np.int64), cuda.pinned_array(1, np.int64)
        self._first, self._off = cuda.device_array(1, np.int64), cuda.device_array(1, number)
        self.suspected = False
        self._here: Here | None = None
        self._there: dict[Any, There] = {}  # by the type of numbers in rows
        # Rows in pinned memory that users fill, by address, as long as they hold them.
        self._given: weakref.WeakValueDictionary[int, np.ndarray] = weakref.WeakValueDictionary()
        self._last: tuple[Any, ...] = (None, None, None, None)
        self._graphs = Graphs(self._stream)
        self._blocks = Blocks(partial(cuda.pinned_array, dtype=np.float64), _shown)
        self._there_blocks = Blocks(partial(cuda.device_array, dtype=np.float64), DeviceBlock)
        self._pool = ThreadPoolExecutor(PARTS)

    # Models.

    @property
    def size(self) -> int:
        return int(self._records.shape[0])

    @property
    def _arrays(self) -> tuple[Any, Any, Any, Any]:
        """What a model has."""
        return self._records, self._origins, self._counts, self._own

    def add(self, count: int, *state: np.ndarray) -> None:
        before = self.size
        self._grow(before + count, np.arange(before))
        self.write(np.arange(before, before + count), *(array[None] for array in state))

    def keep(self, which: np.ndarray) -> None:
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
        found = []
        for array in self._arrays:
            part = cuda.device_array((len(which), array.shape[1]), array.dtype)
            if len(which):
                gather[AT_ONCE, AT_ONCE](part, array, cuda.to_device(which))
            found.append(part.copy_to_host())
        return tuple(found)

    def counts(self) -> np.ndarray:
        return np.asarray(self._counts.copy_to_host())

    def origins(self) -> np.ndarray:
        return np.asarray(self._origins.copy_to_host())

    def write(self, which: np.ndarray, *state: np.ndarray) -> None:
        for array, values in zip(self._arrays, state, strict=True):
            if len(which):
                source = cuda.to_device(np.ascontiguousarray(values, array.dtype))
                scatter[AT_ONCE, AT_ONCE](array, source, cuda.to_device(which))
        cuda.synchronize()

    # Rows.

    def pinned(self, rows: int, number: type) -> Here:
        """Room for rows in pinned memory, for a user to fill: run() takes them from there without a copy."""
        X, Y = (
            cuda.pinned_array(shape, number) for shape in ((rows, self._shape.width), (rows * self._shape.outputs,))
        )
        for array in (X, Y):
            self._given[array.ctypes.data] = array
        return Here(X, Y)

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
        there = self._upload(X, None if mode == PREDICTED else Y)
        if given is not None:
            there.given[: len(X)].copy_to_device(np.ascontiguousarray(given), stream=self._stream)
        self._start(models, starts, len(X), there, Work(mode, step, look.every, bound, given is not None), look.first)
        numbers = 2 * len(X) * self._shape.outputs
        out = np.empty(numbers) if self._blocks.lent >= BLOCKS else self._blocks.take(numbers)
        driver.cuMemcpyDtoHAsync(out.ctypes.data, _address(there.out), out.nbytes, int(self._stream.handle))
        self._finish()
        return out.reshape(2, -1)

    def run_there(
        self,
        models: np.ndarray,
        starts: np.ndarray,
        X: DeviceArray,
        Y: DeviceArray | None,
        mode: int,
        step: int,
        look: Look,
        bound: float,
    ) -> tuple[DeviceArray, DeviceArray]:
        """The same for rows that are on the GPU already; means and variances stay there."""
        n, handle = int(np.prod(X.shape[:-1])), int(self._stream.handle)
        there = self._room_on_the_gpu(n, X.dtype)
        for target, source in ((there.X, X), (there.Y, Y)):
            if source is not None:  # a copy there takes no time, and the work can be the same at every call
                driver.cuMemcpyDtoDAsync(_address(target), source.address, source.nbytes, handle)
        self._start(models, starts, n, there, Work(mode, step, look.every, bound, False), look.first)
        block = self._there_blocks.take(2 * n)
        driver.cuMemcpyDtoDAsync(block.address, _address(there.out), 2 * n * FLOAT, handle)
        self._finish()
        mean, variance = (
            DeviceArray(block.address + part * n * FLOAT, X.shape[:-1], np.float64, block) for part in range(2)
        )
        return mean, variance

    def _start(self, models: np.ndarray, starts: np.ndarray, n: int, there: There, asked: Work, first: int) -> None:
        """Let the GPU run the rows that are there."""
        which = self._which(models, starts)
        self._prepare_look(Look(first, asked.every), len(models))

        def work() -> None:
            m = n * self._shape.outputs
            rows = There(there.X[:n], there.Y[:m], there.given[:n], there.out[: 2 * m].reshape(2, m))
            self._enqueue(which, rows, asked)

        self._graphs.run((n, asked, there.X.dtype), (*which, there, self._off), work)

    def _prepare_look(self, look: Look, models: int) -> None:
        self._first_here[0] = look.first
        self._copy_up(self._first, self._first_here)
        if look.every and self._off.shape[0] < self._looks(models, look.every):
            self._off = cuda.device_array(self._looks(models, look.every), self._number)

    def _enqueue(self, which: tuple[Any, Any], rows: There, asked: Work) -> None:
        """Check rows and run them: where one cannot be taken, none is. Then look at some of the models."""
        learned, every = int(asked.mode != PREDICTED), asked.every
        find_unfit[AT_ONCE, AT_ONCE, self._stream](rows.X, rows.Y, learned, asked.bound, self._found)
        records = self._records.reshape(self._records.size)
        self._launch(
            kernel(self._shape, self._number, asked.conditioned),
            which[0].shape[0],
            *(records, *self._arrays[1:], *which, *rows, self._shared_by_all, self._found),
            *(asked.step, asked.mode, self._half_life),
        )
        if every:
            models, blocks = which[0], self._looks(which[0].shape[0], every)
            state = records, self._counts, models, self._shared_by_all
            self._launch(
                inspection(self._shape, self._number), blocks, *state, self._first, every, self._off, self._found
            )
        self._found.copy_to_host(self._found_here, stream=self._stream)

    def _finish(self) -> None:
        """Wait; if rows cannot be taken, nothing has changed."""
        self._stream.synchronize()
        unfit, broken = self._found_here.tolist()
        if unfit or broken:
            self._found.copy_to_device(np.zeros(2, np.int64))
        self.suspected = bool(broken)
        if unfit:
            raise UnfitError

    @staticmethod
    def _looks(models: int, every: int) -> int:
        return -(-models // every)

    @property
    def _shared(self) -> int:
        """Bytes that a block needs."""
        return self._shape.scratch["end"] * self._shape.bytes

    def _launch(self, compiled: Any, blocks: int, *arguments: Any) -> None:
        ready = compiled[blocks, threads_for(self._shape.points), self._stream, self._shared]
        if self._shared > UNASKED_SHARED:
            ask_for_shared(compiled, arguments, self._shared)
        ready(*arguments)

    def _upload(self, X: np.ndarray, Y: np.ndarray | None) -> There:
        """Start to copy rows to the GPU: from pinned memory at once, others part by part through such memory."""
        n = len(X)
        if self._is_pinned(X) and (Y is None or (self._is_pinned(Y) and Y.dtype == X.dtype)):
            there = self._room_on_the_gpu(n, X.dtype)
            self._copy_up(there.X, X)
            if Y is not None:
                self._copy_up(there.Y, Y)
            return there
        if self._here is None or len(self._here.X) < n:
            self._here = self.pinned(n, np.float64)
        here, there = self._here, self._room_on_the_gpu(n, np.dtype(np.float64))
        edges = np.linspace(0, n, min(PARTS, n // AT_ONCE + 1) + 1).astype(int).tolist()
        parts = [slice(*pair) for pair in itertools.pairwise(edges)]
        work = map if len(parts) == 1 else self._pool.map
        p, flat = self._shape.outputs, None if Y is None else Y.reshape(-1)
        for part in work(lambda part: _stage(here, part, X, flat, p), parts):
            self._copy_up(there.X, here.X[part], part.start * self._shape.width)
            if Y is not None:
                self._copy_up(there.Y, here.Y[p * part.start : p * part.stop], p * part.start)
        return there

    def _copy_up(self, target: Any, source: np.ndarray, begin: int = 0) -> None:
        """Start to copy numbers out of pinned memory."""
        to = _address(target) + begin * source.itemsize
        driver.cuMemcpyHtoDAsync(to, source.ctypes.data, source.nbytes, int(self._stream.handle))

    def _is_pinned(self, array: np.ndarray) -> bool:
        whole = self._given.get(array.ctypes.data)
        return whole is not None and whole.nbytes >= array.nbytes and whole.dtype == array.dtype

    def _room_on_the_gpu(self, rows: int, number: Any) -> There:
        room = self._there.get(number)
        if room is None or room.X.shape[0] < rows:
            targets = rows * self._shape.outputs
            X, Y = (cuda.device_array(shape, number) for shape in ((rows, self._shape.width), (targets,)))
            given = cuda.device_array((rows, ROW_TIME + 1), np.float64)
            self._there[number] = room = There(X, Y, given, cuda.device_array(2 * targets, np.float64))
        return room

    def _which(self, models: np.ndarray, starts: np.ndarray) -> tuple[Any, Any]:
        """The models and starts on the GPU; the last ones stay there, for calls of all models come again and again."""
        if not (models is self._last[0] and starts is self._last[1]):
            self._last = models, starts, cuda.to_device(models), cuda.to_device(starts)
        return self._last[2:]

    def off(self, which: np.ndarray) -> np.ndarray:
        off = cuda.device_array(len(which), self._number)
        if len(which):
            records, models = self._records.reshape(self._records.size), cuda.to_device(np.ascontiguousarray(which))
            first, found = (cuda.to_device(np.zeros(n, np.int64)) for n in (1, 2))
            state = records, self._counts, models, self._shared_by_all
            self._launch(inspection(self._shape, self._number), len(which), *state, first, 1, off, found)
            self._stream.synchronize()
        return np.asarray(off.copy_to_host())


class Graphs:
    """Work that comes again and again, captured once: a GPU starts all of it at one call.

    Args:
        stream: in which it runs.
    """

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
        """Do this work in the stream, the first time step by step.

        Args:
            key: what it depends on.
            uses: objects that must be the same ones.
            work: () -> None.
        """
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


class DeviceBlock:
    """Memory of the GPU."""

    def __init__(self, memory: Any) -> None:
        self.address = _address(memory)


class Blocks(Generic[Shown]):
    """Memory for predictions, which comes back when the last array in it is gone.

    Args:
        allocate: (n) -> memory for n numbers.
        show: (memory) -> what users hold; arrays made from it keep it alive.
    """

    def __init__(self, allocate: Callable[[int], Any], show: Callable[[Any], Shown]) -> None:
        self._allocate, self._show = allocate, show
        self._free: list[Any] = []
        self.lent = 0

    def take(self, n: int) -> Shown:
        """Room for n numbers."""
        fitting = [memory for memory in self._free if memory.size == n]
        memory = fitting[0] if fitting else self._allocate(n)
        self._free = [other for other in self._free if other is not memory and other.size == n]
        shown = self._show(memory)
        self.lent += 1
        weakref.finalize(shown, self._back, memory).atexit = False
        return shown

    def _back(self, memory: Any) -> None:
        self.lent -= 1
        self._free.append(memory)


def _shown(memory: np.ndarray) -> np.ndarray:
    """An array whose base is no array: arrays made from it then keep it alive, and not the memory behind it."""
    return np.frombuffer(memory.data, np.float64)


def _stage(here: Here, part: slice, X: np.ndarray, Y: np.ndarray | None, outputs: int) -> slice:
    """Copy a part of the rows into pinned memory, with this many targets each, one after the other; which part."""
    here.X[part] = X[part]
    if Y is not None:
        targets = slice(outputs * part.start, outputs * part.stop)
        here.Y[targets] = Y[targets]
    return part


def _address(array: Any) -> int:
    return int(array.device_ctypes_pointer.value)
