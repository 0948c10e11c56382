"""The memory of a GPU and the kernel that runs rows in it: one block of threads for a model.

A model's record lies in shared memory while its rows pass: an absorbed row then costs about what it takes to copy the
record once.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from streamgp.contract.checks import LARGEST
from streamgp.cuda.exchange import refuse_large
from streamgp.cuda.lanes import FAST, WARP, WIDE, gpu_lanes
from streamgp.cuda.ptx import cuda, fetch, fetched, put_back
from streamgp.cuda.record import (
    CHANGE,
    COUNTED,
    COUNTS,
    LARGEST_NUMBERS,
    POINTS,
    PREDICTED,
    ROWS,
    UnfitError,
)
from streamgp.cuda.spectral import SpectralShape
from streamgp.cuda.whitened import BasisShape

UNASKED_SHARED = 48 * 1024  # bytes that a block gets without asking
AT_ONCE = 1024  # blocks and threads that copy
PARTS = 16  # of the rows of a call, which threads copy to and from pinned memory


def threads_for(points: int) -> int:
    """Whole warps, a lane for each point."""
    return -(-points // WARP) * WARP


@cache
def kernel(shape: BasisShape | SpectralShape, number: type) -> Any:
    """The compiled kernel for models of this shape."""
    lanes, U, scratch = threads_for(shape.points), np.uint64, shape.scratch
    place, predict, learn, _ = shape.build(gpu_lanes(lanes, number, scratch["meeting"]))
    N, ABSORBED, CLEAR, CLEARED = map(U, (shape.numbers, shape.absorbed, *shape.cleared))
    threads, each, zero, one = map(U, (lanes, WIDE // shape.bytes, 0, 1))
    counted = len(COUNTS)

    @cuda.jit(fastmath=FAST)
    def run(
        records: Any,
        origins: Any,
        counts: Any,
        models: Any,
        starts: Any,
        X: Any,
        Y: Any,
        out: Any,
        parameters: Any,
        units: Any,
        mode: Any,
    ) -> None:
        f = cuda.shared.array(0, number)
        mine = cuda.shared.array(counted, np.int64)
        me, block = U(cuda.threadIdx.x), U(cuda.blockIdx.x)
        model, shift = U(models[block]), U(starts[zero])
        record, at = model * N, me * each
        while at < N:
            fetch(f, at, records, record + at)
            at += threads * each
        if cuda.threadIdx.x < counted:
            mine[me] = counts[model, me]
        fetched()
        cuda.syncthreads()
        at = CLEAR + me
        while at < CLEARED:
            f[at] = number(0)
            at += threads
        changed, learned = False, False
        for t in range(U(starts[block]) - shift, U(starts[block + one]) - shift):
            known_target = mode != PREDICTED and Y[t] == Y[t]
            changed = place(f, origins, model, X, t, units, known_target, mine) or changed
            mean, variance, square, known = predict(f, parameters)
            if me == zero:
                out[0, t], out[1, t] = mean * units[zero], variance * (units[zero] * units[zero])
            if mode != PREDICTED:
                if known_target:
                    learned, y = True, number(Y[t] / units[zero])
                    changed = learn(f, parameters, y, mean, square, known, mine) or changed
                elif me == zero:
                    mine[CHANGE] = 0
                if me == zero and mode == COUNTED:
                    mine[ROWS] += 1
            cuda.syncthreads()
        if learned:
            at, end = me * each, N if changed else ABSORBED
            while at < end:
                put_back(f, at, records, record + at)
                at += threads * each
        if mode != PREDICTED and cuda.threadIdx.x < counted:
            counts[model, me] = mine[me]

    return run


@cache
def inspection(shape: BasisShape | SpectralShape, number: type) -> Any:
    """The kernel that looks at some models."""
    lanes, U, scratch = threads_for(shape.points), np.uint64, shape.scratch
    off = shape.build(gpu_lanes(lanes, number, scratch["meeting"])).off
    N, CLEAR, CLEARED, threads, each = map(U, (shape.numbers, *shape.cleared, lanes, WIDE // shape.bytes))

    @cuda.jit(fastmath=FAST)
    def look(records: Any, counts: Any, models: Any, parameters: Any, found: Any) -> None:
        f = cuda.shared.array(0, number)
        me, model = U(cuda.threadIdx.x), U(models[cuda.blockIdx.x])
        at = me * each
        while at < N:
            fetch(f, at, records, model * N + at)
            at += threads * each
        fetched()
        cuda.syncthreads()
        at = CLEAR + me
        while at < CLEARED:
            f[at] = number(0)
            at += threads
        cuda.syncthreads()
        worst = off(f, parameters, U(counts[model, POINTS]))
        if cuda.threadIdx.x == 0:
            found[cuda.blockIdx.x] = worst

    return look


@cuda.jit
def gather(target: Any, source: Any, which: Any) -> None:
    """Row i of target is row which[i] of source."""
    for i in range(cuda.blockIdx.x, target.shape[0], cuda.gridDim.x):
        for j in range(cuda.threadIdx.x, target.shape[1], cuda.blockDim.x):
            target[i, j] = source[which[i], j]


@cuda.jit
def scatter(target: Any, source: Any, which: Any) -> None:
    """Row which[i] of target is row i of source; one row stands for all."""
    for i in range(cuda.blockIdx.x, which.shape[0], cuda.gridDim.x):
        row = i if source.shape[0] > 1 else 0
        for j in range(cuda.threadIdx.x, target.shape[1], cuda.blockDim.x):
            target[which[i], j] = source[row, j]


@cuda.jit
def find_unfit(X: Any, Y: Any, units: Any, bound: Any, found: Any) -> None:
    """Set found[0] where an input is no number within LARGEST, or a target is beyond the bound, in units."""
    first, step = cuda.grid(1), cuda.gridsize(1)
    largest = LARGEST
    for i in range(first, X.shape[0], step):
        fine = not abs(Y[i]) > bound * units[0]
        for j in range(X.shape[1]):
            fine = fine and abs(X[i, j]) <= largest
        if not fine:
            found[0] = 1


class Room(NamedTuple):
    """Buffers for the rows of a call: X, Y and predictions, pinned on this side, and on the GPU."""

    here: tuple[np.ndarray, np.ndarray, np.ndarray]
    there: tuple[Any, Any, Any]


class GpuMemory:
    """Records and counts in the memory of a GPU.

    Args:
        shape: of the records.
        number: the type of numbers.
        parameters: that all models share.
        units: the unit of targets and those of inputs.
    """

    def __init__(
        self, shape: BasisShape | SpectralShape, number: type, parameters: np.ndarray, units: np.ndarray
    ) -> None:
        refuse_large(shape, cuda.get_current_device().MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
        self._shape, self._number = shape, number
        self._parameters, self._units = cuda.to_device(parameters), cuda.to_device(units)
        self._records = cuda.device_array((0, shape.numbers), number)
        self._origins = cuda.device_array((0, shape.width), np.float64)
        self._counts = cuda.device_array((0, len(COUNTS)), np.int64)
        self._room: Room | None = None
        self._stream, self._found = cuda.stream(), cuda.device_array(1, np.int64)
        self._last: tuple[Any, Any, Any, Any] = (None, None, None, None)
        self._pool = ThreadPoolExecutor(PARTS)

    # Models.

    @property
    def size(self) -> int:
        return int(self._records.shape[0])

    @property
    def _arrays(self) -> tuple[Any, Any, Any]:
        """What a model has."""
        return self._records, self._origins, self._counts

    def add(self, count: int, *state: np.ndarray) -> None:
        before = self.size
        self._grow(before + count, np.arange(before))
        self.write(np.arange(before, before + count), *(array[None] for array in state))

    def keep(self, which: np.ndarray) -> None:
        self._grow(len(which), which)

    def _grow(self, size: int, which: np.ndarray) -> None:
        """Make room for so many, the first of which are these of the present ones."""
        chosen = cuda.to_device(which)
        arrays = []
        for array in self._arrays:
            new = cuda.device_array((size, array.shape[1]), array.dtype)
            if len(which):
                gather[AT_ONCE, AT_ONCE](new[: len(which)], array, chosen)
            arrays.append(new)
        self._records, self._origins, self._counts = arrays

    def read(self, which: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        found = []
        for array in self._arrays:
            part = cuda.device_array((len(which), array.shape[1]), array.dtype)
            if len(which):
                gather[AT_ONCE, AT_ONCE](part, array, cuda.to_device(which))
            found.append(part.copy_to_host())
        return found[0], found[1], found[2]

    def counts(self) -> np.ndarray:
        return np.asarray(self._counts.copy_to_host())

    def write(self, which: np.ndarray, *state: np.ndarray) -> None:
        for array, values in zip(self._arrays, state, strict=True):
            if len(which):
                source = cuda.to_device(np.ascontiguousarray(values, array.dtype))
                scatter[AT_ONCE, AT_ONCE](array, source, cuda.to_device(which))

    # Rows.

    @property
    def _shared(self) -> int:
        """Bytes that a block needs."""
        return self._shape.scratch["end"] * self._shape.bytes

    def _launch(self, compiled: Any, blocks: int, *arguments: Any) -> None:
        ready = compiled[blocks, threads_for(self._shape.points), self._stream, self._shared]
        if self._shared > UNASKED_SHARED:
            ask_for_shared(compiled, arguments, self._shared)
        ready(*arguments)

    def run(self, models: np.ndarray, starts: np.ndarray, X: np.ndarray, Y: np.ndarray | None, mode: int) -> np.ndarray:
        n = len(X)
        room = self._make_room(n)
        X_there, Y_there, out_there = room.there[0][:n], room.there[1][:n], room.there[2]
        chosen, begins = self._which(models, starts)
        edges = np.linspace(0, n, min(PARTS, n // AT_ONCE + 1) + 1).astype(int).tolist()
        parts = [slice(*pair) for pair in itertools.pairwise(edges)]
        for done in [self._pool.submit(_stage, room.here, part, X, Y) for part in parts]:
            done.result()
        for target, source in zip((X_there, Y_there), room.here, strict=False):
            target.copy_to_device(source[:n], stream=self._stream)
        self._refuse_unfit(X_there, Y_there)
        records = self._records.reshape(self._records.size)
        state = records, self._origins, self._counts
        rows = chosen, begins, X_there, Y_there, out_there
        compiled = kernel(self._shape, self._number)
        self._launch(compiled, len(models), *state, *rows, self._parameters, self._units, mode)
        for row in range(2):
            out_there[row, :n].copy_to_host(room.here[2][row, :n], stream=self._stream)
        self._stream.synchronize()
        out = np.empty((2, n))
        for done in [self._pool.submit(_collect, room.here[2], part, out) for part in parts]:
            done.result()
        return out

    def _refuse_unfit(self, X: Any, Y: Any) -> None:
        """Look at rows on the GPU, which takes no time: nothing has changed yet."""
        self._found.copy_to_device(np.zeros(1, np.int64), stream=self._stream)
        bound = LARGEST_NUMBERS[self._shape.bytes]
        find_unfit[AT_ONCE, AT_ONCE, self._stream](X, Y, self._units, bound, self._found)
        if self._found.copy_to_host(stream=self._stream)[0]:
            raise UnfitError

    def _make_room(self, rows: int) -> Room:
        if self._room is None or len(self._room.here[0]) < rows:
            shapes = (rows, self._shape.width), (rows,), (2, rows)
            X, Y, out = (cuda.pinned_array(shape, np.float64) for shape in shapes)
            X_there, Y_there, out_there = (cuda.device_array(shape, np.float64) for shape in shapes)
            self._room = Room((X, Y, out), (X_there, Y_there, out_there))
        return self._room

    def _which(self, models: np.ndarray, starts: np.ndarray) -> tuple[Any, Any]:
        """The models and starts on the GPU; the last ones stay there, for calls of all models come again and again."""
        if not (models is self._last[0] and starts is self._last[1]):
            self._last = models, starts, cuda.to_device(models), cuda.to_device(starts)
        return self._last[2:]

    def off(self, which: np.ndarray) -> np.ndarray:
        found = cuda.device_array(len(which), self._number)
        if len(which):
            records, models = self._records.reshape(self._records.size), cuda.to_device(which, stream=self._stream)
            compiled = inspection(self._shape, self._number)
            self._launch(compiled, len(which), records, self._counts, models, self._parameters, found)
            self._stream.synchronize()
        return np.asarray(found.copy_to_host())


def _stage(pinned: tuple[np.ndarray, ...], part: slice, X: np.ndarray, Y: np.ndarray | None) -> None:
    """Copy rows into pinned memory."""
    pinned[0][part] = X[part]
    pinned[1][part] = 0.0 if Y is None else Y[part]


def _collect(pinned: np.ndarray, part: slice, out: np.ndarray) -> None:
    """Copy predictions out of pinned memory."""
    out[:, part] = pinned[:, part]


def ask_for_shared(compiled: Any, arguments: Any, size: int) -> None:
    """Let blocks of a kernel have more shared memory than they get unasked."""
    from numba.cuda.cudadrv import driver as module

    binding, driver = module.binding, module.driver  # type: ignore[attr-defined]
    function = compiled.compile(tuple(map(compiled.typeof_pyval, arguments)))._codelibrary.get_cufunc()
    attribute = binding.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    driver.cuKernelSetAttribute(attribute, size, function.handle, function.device.id)
