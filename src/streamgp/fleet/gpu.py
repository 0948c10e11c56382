"""The memory of a GPU and the kernel that runs rows in it: one block of threads for a model.

A model's record lies in shared memory while its rows pass: an absorbed row then costs about what it takes to copy the
record once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from streamgp.fleet.lanes import FAST, WARP, WIDE, gpu_lanes
from streamgp.fleet.ptx import cuda, fetch, fetched, put_back
from streamgp.fleet.record import CHANGE, COUNTED, COUNTS, PARAMETERS, POINTS, PREDICTED, ROWS
from streamgp.fleet.spectral import SpectralShape
from streamgp.fleet.whitened import BasisShape

UNASKED_SHARED = 48 * 1024  # bytes that a block gets without asking
AT_ONCE = 1024  # blocks and threads that copy
PARTS = 8  # of the rows of a call: while one is computed, the next goes up and the last comes down


def threads_for(points: int) -> int:
    """Whole warps, a lane for each point."""
    return -(-points // WARP) * WARP


@cache
def kernel(shape: BasisShape | SpectralShape, number: type) -> Any:
    """The compiled kernel for models of this shape."""
    lanes, U, scratch = threads_for(shape.points), np.uint64, shape.scratch
    predict, learn, _ = shape.build(gpu_lanes(lanes, number, scratch["meeting"]))
    N, D, ABSORBED, SEEN, CLEAR, CLEARED = map(
        U, (shape.numbers, shape.width, shape.absorbed, scratch["x"], *shape.cleared)
    )
    SCALES, threads, each, zero, one = map(U, (len(PARAMETERS), lanes, WIDE // shape.bytes, 0, 1))
    counted = len(COUNTS)

    @cuda.jit(fastmath=FAST)
    def run(
        records: Any, counts: Any, models: Any, starts: Any, X: Any, Y: Any, out: Any, parameters: Any, mode: Any
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
        changed, learnt = False, False
        for t in range(U(starts[block]) - shift, U(starts[block + one]) - shift):
            j = me
            while j < D:
                f[SEEN + j] = number(X[t, j]) * parameters[SCALES + j]
                j += threads
            cuda.syncthreads()
            mean, variance, square, known = predict(f, parameters)
            if me == zero:
                out[0, t], out[1, t] = mean, variance
            if mode != PREDICTED:
                y = number(Y[t])
                if y == y:
                    learnt = True
                    changed = learn(f, parameters, y, mean, square, known, mine) or changed
                elif me == zero:
                    mine[CHANGE] = 0
                if me == zero and mode == COUNTED:
                    mine[ROWS] += 1
            cuda.syncthreads()
        if learnt:
            at, end = me * each, N if changed else ABSORBED
            while at < end:
                put_back(f, at, records, record + at)
                at += threads * each
        if mode != PREDICTED and cuda.threadIdx.x < counted:
            counts[model, me] = mine[me]

    return run


@cache
def inspection(shape: BasisShape | SpectralShape, number: type) -> Any:
    """The kernel that looks at every model."""
    lanes, U, scratch = threads_for(shape.points), np.uint64, shape.scratch
    off = shape.build(gpu_lanes(lanes, number, scratch["meeting"])).off
    N, CLEAR, CLEARED, threads, each = map(U, (shape.numbers, *shape.cleared, lanes, WIDE // shape.bytes))

    @cuda.jit(fastmath=FAST)
    def look(records: Any, counts: Any, parameters: Any, found: Any) -> None:
        f = cuda.shared.array(0, number)
        me, model = U(cuda.threadIdx.x), U(cuda.blockIdx.x)
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
            found[model] = worst

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


class Lane(NamedTuple):
    """Buffers for a part of the rows of a call, on both sides, and the stream in which they move."""

    stream: Any
    rows: tuple[np.ndarray, np.ndarray, np.ndarray]  # pinned: X, Y, predictions
    there: tuple[Any, Any, Any]  # on the GPU


class GpuMemory:
    """Records and counts in the memory of a GPU.

    Args:
        shape: of the records.
        number: the type of numbers.
        parameters: that all models share.
    """

    def __init__(self, shape: BasisShape | SpectralShape, number: type, parameters: np.ndarray) -> None:
        self._shape, self._number = shape, number
        self._parameters = cuda.to_device(parameters)
        self._records = cuda.device_array((0, shape.numbers), number)
        self._counts = cuda.device_array((0, len(COUNTS)), np.int64)
        self._lanes: list[Lane] = []
        self._last: tuple[Any, Any, Any, Any] = (None, None, None, None)
        self._pool = ThreadPoolExecutor(PARTS)

    # Models.

    @property
    def size(self) -> int:
        return int(self._records.shape[0])

    def add(self, count: int, record: np.ndarray, counts: np.ndarray) -> None:
        before = self.size
        self._grow(before + count, np.arange(before))
        self.write(np.arange(before, before + count), record[None], counts[None])

    def keep(self, which: np.ndarray) -> None:
        self._grow(len(which), which)

    def _grow(self, size: int, which: np.ndarray) -> None:
        """Make room for so many, the first of which are these of the present ones."""
        chosen = cuda.to_device(which)
        arrays = []
        for array in (self._records, self._counts):
            new = cuda.device_array((size, array.shape[1]), array.dtype)
            if len(which):
                gather[AT_ONCE, AT_ONCE](new[: len(which)], array, chosen)
            arrays.append(new)
        self._records, self._counts = arrays

    def read(self, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = []
        for array in (self._records, self._counts):
            part = cuda.device_array((len(which), array.shape[1]), array.dtype)
            if len(which):
                gather[AT_ONCE, AT_ONCE](part, array, cuda.to_device(which))
            found.append(part.copy_to_host())
        return found[0], found[1]

    def counts(self) -> np.ndarray:
        return np.asarray(self._counts.copy_to_host())

    def write(self, which: np.ndarray, records: np.ndarray, counts: np.ndarray) -> None:
        for array, values in ((self._records, records), (self._counts, counts)):
            if len(which):
                source = cuda.to_device(np.ascontiguousarray(values, array.dtype))
                scatter[AT_ONCE, AT_ONCE](array, source, cuda.to_device(which))

    # Rows.

    @property
    def _shared(self) -> int:
        """Bytes that a block needs."""
        return self._shape.scratch["end"] * self._shape.bytes

    def _launch(self, compiled: Any, blocks: int, stream: Any, *arguments: Any) -> None:
        ready = compiled[blocks, threads_for(self._shape.points), stream, self._shared]
        if self._shared > UNASKED_SHARED:
            ask_for_shared(compiled, arguments, self._shared)
        ready(*arguments)

    def run(self, models: np.ndarray, starts: np.ndarray, X: np.ndarray, Y: np.ndarray | None, mode: int) -> np.ndarray:
        n, compiled = len(X), kernel(self._shape, self._number)
        out: np.ndarray = np.empty((2, n), self._number)
        parts = list(_parts(starts))
        self._make_room(max(starts[last] - starts[first] for first, last in parts))
        chosen, begins = self._which(models, starts)
        records = self._records.reshape(self._records.size)
        waiting = {i: self._pool.submit(self._stage, i, parts[i], starts, X, Y) for i in range(min(PARTS, len(parts)))}
        for i, (first, last) in enumerate(parts):
            waiting.pop(i).result()
            lane, rows = self._lanes[i % PARTS], int(starts[last] - starts[first])
            there = [part[:rows] for part in lane.there[:2]]
            for target, source in zip(there, lane.rows, strict=False):
                target.copy_to_device(source[:rows], stream=lane.stream)
            arguments = records, self._counts, chosen[first:last], begins[first : last + 1], *there, lane.there[2]
            self._launch(compiled, last - first, lane.stream, *arguments, self._parameters, mode)
            lane.there[2].copy_to_host(lane.rows[2], stream=lane.stream)
            if i + PARTS < len(parts):
                self._collect(i, parts[i], starts, out)
                waiting[i + PARTS] = self._pool.submit(self._stage, i + PARTS, parts[i + PARTS], starts, X, Y)
        left = range(max(0, len(parts) - PARTS), len(parts))
        for done in [self._pool.submit(self._collect, i, parts[i], starts, out) for i in left]:
            done.result()
        return out

    def _stage(self, i: int, part: tuple[int, int], starts: np.ndarray, X: np.ndarray, Y: np.ndarray | None) -> None:
        """Copy rows of a part into pinned memory, in the GPU's precision."""
        pinned, (first, last) = self._lanes[i % PARTS].rows, starts[list(part)]
        pinned[0][: last - first] = X[first:last]
        if Y is not None:
            pinned[1][: last - first] = Y[first:last]

    def _collect(self, i: int, part: tuple[int, int], starts: np.ndarray, out: np.ndarray) -> None:
        """Wait for the predictions of a part and copy them out of pinned memory."""
        lane, (first, last) = self._lanes[i % PARTS], starts[list(part)]
        lane.stream.synchronize()
        out[:, first:last] = lane.rows[2][:, : last - first]

    def _make_room(self, rows: int) -> None:
        if self._lanes and len(self._lanes[0].rows[0]) >= rows:
            return
        number, width = self._number, self._shape.width
        shapes = (rows, width), (rows,), (2, rows)
        self._lanes = [
            Lane(
                cuda.stream(),
                tuple(cuda.pinned_array(shape, number) for shape in shapes),
                tuple(cuda.device_array(shape, number) for shape in shapes),
            )
            for _ in range(PARTS)
        ]

    def _which(self, models: np.ndarray, starts: np.ndarray) -> tuple[Any, Any]:
        """The models and starts on the GPU; the last ones stay there, for calls of all models come again and again."""
        if not (models is self._last[0] and starts is self._last[1]):
            self._last = models, starts, cuda.to_device(models), cuda.to_device(starts)
        return self._last[2:]

    def off(self) -> np.ndarray:
        found = cuda.device_array(self.size, self._number)
        if self.size:
            records = self._records.reshape(self._records.size)
            compiled = inspection(self._shape, self._number)
            self._launch(compiled, self.size, 0, records, self._counts, self._parameters, found)
        return np.asarray(found.copy_to_host())


def _parts(starts: np.ndarray) -> Iterator[tuple[int, int]]:
    """Models from first to last, about as many rows in each part, and so many that all that is worth it overlaps."""
    models = len(starts) - 1
    count = max(1, min(PARTS, models // AT_ONCE))
    edges = np.linspace(0, models, count + 1).astype(int).tolist()
    yield from itertools.pairwise(edges)


def ask_for_shared(compiled: Any, arguments: Any, size: int) -> None:
    """Let blocks of a kernel have more shared memory than they get unasked."""
    from numba.cuda.cudadrv import driver as module

    binding, driver = module.binding, module.driver  # type: ignore[attr-defined]
    function = compiled.compile(tuple(map(compiled.typeof_pyval, arguments)))._codelibrary.get_cufunc()
    attribute = binding.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    driver.cuKernelSetAttribute(attribute, size, function.handle, function.device.id)
