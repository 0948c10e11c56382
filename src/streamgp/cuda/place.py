"""Gpu: the memory of a GPU, and the kernels that run there."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamgp.arrays import Numbers
from streamgp.contract.lanes import PREDICT
from streamgp.cuda.device_array import DeviceArray, device_blocks
from streamgp.cuda.kernels import REFUSED, STOPPED, entering, kernel, leaving, looking
from streamgp.cuda.ptx import cached_kernel, cuda
from streamgp.cuda.record import UnfitError
from streamgp.cuda.staging import Staging
from streamgp.settings import FloatArray

THREADS = 64  # of a block
AT_ONCE = 1024  # blocks and threads that copy
NO_STATUS = np.zeros(0, np.int64)


class Gpu:
    """The memory of a GPU, and what runs there."""

    def __init__(self) -> None:
        self._stream = cuda.stream()
        self._staging, self._blocks = Staging(self._stream), device_blocks()
        self._flags, self._no_flags = cuda.device_array(2, np.int64), cuda.to_device(np.zeros(2, np.int64))
        self._flags_here = cuda.pinned_array(2, np.int64)
        self._known: dict[str, tuple[Any, Any]] = {}  # what came last, and where it is
        self._rooms: dict[str, Any] = {}
        self._asked: tuple[Any, tuple[bool, bool]] = None, (False, False)  # the last operations, and _asks() of them

    def zeros(self, rows: int, columns: int) -> Any:
        """An array of floats."""
        return cuda.device_array((rows, columns), np.float64)

    def move(self, source: Any, which: np.ndarray, target: Any) -> None:
        """Write these columns of an array into the first ones of another."""
        if len(which):
            move[AT_ONCE, AT_ONCE](source, cuda.to_device(which), target)
            cuda.synchronize()

    def read(self, array: Any, rows: slice) -> FloatArray:
        return np.asarray(array[rows].copy_to_host())

    def write(self, array: Any, rows: slice, values: FloatArray) -> None:
        array[rows].copy_to_device(np.ascontiguousarray(values))

    def read_column(self, array: Any, i: int) -> FloatArray:
        column = cuda.device_array((array.shape[0], 1), np.float64)
        self.move(array, np.array([i]), column)
        return np.asarray(column.copy_to_host())[:, 0]

    def write_columns(self, array: Any, which: np.ndarray, first: int, values: FloatArray) -> None:
        """Replace numbers of columns, from the first one on, by the same for all; nothing else is touched."""
        if len(which):
            spread[AT_ONCE, AT_ONCE](self.sent(values.ravel()), cuda.to_device(which), first, array)
            cuda.synchronize()

    def sent(self, values: np.ndarray) -> Any:
        """A copy there. An axis of length 1 may have stride 0 here, which numba-cuda takes for repeated numbers."""
        return cuda.to_device(np.ascontiguousarray(values).ravel().reshape(values.shape))

    def back(self, there: Any) -> np.ndarray:
        return np.asarray(there.copy_to_host())

    def block(self, shape: tuple[int, ...]) -> FloatArray:
        """Room for predictions, from where they are copied fastest."""
        return self._staging.block(math.prod(shape)).reshape(shape)

    def lend(self, shape: tuple[int, ...]) -> DeviceArray:
        """Room for predictions that stay there."""
        block = self._blocks.take(math.prod(shape))
        return DeviceArray(block.address, shape, np.float64, block)

    def run(
        self,
        loop: Any,
        numbers: Numbers,
        array: Any,
        given: tuple[Any, ...],
        around: tuple[Any, ...] = (),
        largest: float | None = None,
    ) -> np.ndarray:
        """Let a loop do operations of the models in columns, which have the plan of these numbers.

        Args:
            loop: of the kind (process/loop.py).
            numbers: of a model that has learned nothing.
            array: of the columns.
            given: to the loop: models, starts, operations, X, Y, conditions, kept and out; the last two are written. X,
                Y and out may be there already.
            around: what is there of wrappers (wrappers/single.py): screens, units, calibrations and by how much their
                bounds are wider; none: there are no wrappers.
            largest: number that is taken; None: rows were checked before. If one cannot be taken nothing is done.

        Returns:
            The status of each model; none where all are 0.
        """
        models, starts, ops, X, Y, conditions, kept, out = given
        lanes = [self._same(name, values) for name, values in (("models", models), ("starts", starts), ("ops", ops))]
        rows = {"X": X, "Y": Y, "conditions": conditions, "kept": kept}
        X, Y, conditions, lines = (self._up(name, values) for name, values in rows.items())
        asks, all_ask = self._asks(ops)
        if isinstance(out, DeviceArray):
            told = cuda.as_cuda_array(out, sync=False)
        elif all_ask:
            told = self._room("out", out.shape)
        else:
            out[...] = 0.0
            told = self._up("out", out)
        status, shared = self._room("status", models.shape, np.int64), bool(numbers.plan["shared"][0])
        self._flags.copy_to_device(self._no_flags, stream=self._stream)
        if largest is not None:
            looking()[-(-len(X) // THREADS), THREADS, self._stream](X, Y, shared, largest, self._flags)
        at = -(-len(models) // THREADS), THREADS, self._stream
        x, y, raw = X, Y, told
        if around:
            screens, *units, calibrated, calibrations, wider = around
            x, y, raw = self._room("x", X.shape), self._room("y", Y.shape), told[len(out) - 3 :]
            entering()[at](*lanes, X, Y, shared, screens, *units, x, y, self._flags)
        record = self._same("record", numbers.records)
        kernel(loop)[at](record, array, *lanes, x, y, conditions, lines, raw, status, self._flags)
        if around:
            leaving()[at](*lanes, Y, lines, *units[2:], calibrated, calibrations, wider, told, self._flags)
        if asks and not isinstance(out, DeviceArray):
            self._staging.down(out, told)
        self._flags.copy_to_host(self._flags_here, stream=self._stream)
        self._stream.synchronize()
        if self._flags_here[REFUSED]:
            raise UnfitError(f"inputs and targets must be finite, and within {largest:g}; a target may be NaN")
        if len(kept):
            kept[...] = lines.copy_to_host()
        return np.asarray(status.copy_to_host()) if self._flags_here[STOPPED] else NO_STATUS

    def _asks(self, ops: np.ndarray) -> tuple[bool, bool]:
        """Whether operations predict: one of them, and all."""
        if self._asked[0] is not ops:
            asks = ops[:, 1] & PREDICT
            self._asked = ops, (bool(asks.any()), bool(asks.all()))
        return self._asked[1]

    def _same(self, name: str, values: np.ndarray) -> Any:
        """Where values are that come again and again."""
        known, there = self._known.get(name, (None, None))
        if known is not values and (known is None or not np.array_equal(known, values)):
            there = self.sent(values)
        self._known[name] = values, there
        return there

    def _up(self, name: str, values: Any) -> Any:
        """Numbers on their way to the GPU, or doubles there."""
        if isinstance(values, DeviceArray) and values.dtype == np.float64 and values.nbytes:
            return cuda.as_cuda_array(values, sync=False)
        there = self._room(name, values.shape)
        if not there.size:
            return there
        if isinstance(values, DeviceArray):
            widen[AT_ONCE, AT_ONCE, self._stream](cuda.as_cuda_array(values, sync=False), there)
        else:
            self._staging.up(name, there, np.ascontiguousarray(values))
        return there

    def _room(self, name: str, shape: tuple[int, ...], number: Any = np.float64) -> Any:
        """An array of this shape, the same memory at every call."""
        n = math.prod(shape)
        whole, view = self._rooms.get(name, (None, None))
        if view is None or view.shape != shape:
            whole = cuda.device_array(max(n, 1), number) if whole is None or whole.size < n else whole
            view = whole[:n].reshape(shape) if n else cuda.device_array(shape, number)
            self._rooms[name] = whole, view
        return view


@cached_kernel()
def move(source: Any, which: Any, target: Any) -> None:
    """Columns of one array become the first ones of another."""
    columns = which.shape[0]
    at = cuda.grid(1)
    while at < source.shape[0] * columns:
        row, column = at // columns, at % columns
        target[row, column] = source[row, which[column]]
        at += cuda.gridsize(1)


@cached_kernel()
def widen(source: Any, target: Any) -> None:
    """Numbers in double precision."""
    at = cuda.grid(1)
    while at < source.shape[0] * source.shape[1]:
        row, column = at // source.shape[1], at % source.shape[1]
        target[row, column] = source[row, column]
        at += cuda.gridsize(1)


@cached_kernel()
def spread(values: Any, which: Any, first: Any, target: Any) -> None:
    """Columns have these numbers from the first one on."""
    columns = which.shape[0]
    at = cuda.grid(1)
    while at < values.shape[0] * columns:
        row, column = at // columns, at % columns
        target[first + row, which[column]] = values[row]
        at += cuda.gridsize(1)
