"""Gpu: the memory of a GPU, and the kernels that run there."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streamgp.arrays import Numbers
from streamgp.contract.lanes import PREDICT
from streamgp.cuda.kernels import entering, kernel, leaving
from streamgp.cuda.ptx import cached_kernel, cuda
from streamgp.cuda.staging import Staging
from streamgp.settings import FloatArray

THREADS = 64  # of a block
AT_ONCE = 1024  # blocks and threads that copy


class Gpu:
    """The memory of a GPU, and what runs there."""

    def __init__(self) -> None:
        self._stream = cuda.stream()
        self._staging = Staging(self._stream)
        self._known: dict[str, tuple[Any, Any]] = {}  # what came last, and where it is
        self._rooms: dict[str, Any] = {}

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

    def run(
        self, loop: Any, numbers: Numbers, array: Any, given: tuple[np.ndarray, ...], around: tuple[Any, ...] = ()
    ) -> np.ndarray:
        """Let a loop do operations of the models in columns, which have the plan of these numbers.

        Args:
            loop: of the kind (process/loop.py).
            numbers: of a model that has learned nothing.
            array: of the columns.
            given: to the loop: models, starts, operations, X, Y, conditions, kept and out; the last two are written.
            around: what is there of wrappers (wrappers/single.py): screens, units, calibrations and by how much their
                bounds are wider; none: there are no wrappers.

        Returns:
            The status of each model.
        """
        models, starts, ops, X, Y, conditions, kept, out = given
        lanes = [self._same(name, values) for name, values in (("models", models), ("starts", starts), ("ops", ops))]
        rows = {"X": X, "Y": Y, "conditions": conditions, "kept": kept}
        X, Y, conditions, lines = (self._up(name, np.ascontiguousarray(values)) for name, values in rows.items())
        asks = (ops[:, 1] & PREDICT).astype(bool)
        if not asks.all():
            out[...] = 0.0
        told = self._room("out", out.shape) if asks.all() else self._up("out", out)
        status = self._room("status", models.shape, np.int64)
        at = -(-len(models) // THREADS), THREADS, self._stream
        x, y, raw = X, Y, told
        if around:
            screens, *units, calibrated, calibrations, wider = around
            x, y, raw = self._room("x", X.shape), self._room("y", Y.shape), told[len(out) - 3 :]
            entering()[at](*lanes, X, Y, bool(numbers.plan["shared"][0]), screens, *units, x, y)
        record = self._same("record", numbers.records)
        kernel(loop)[at](record, array, *lanes, x, y, conditions, lines, raw, status)
        if around:
            leaving()[at](*lanes, Y, lines, *units[2:], calibrated, calibrations, wider, told)
        if asks.any():
            self._staging.down(out, told)
        found = status.copy_to_host(stream=self._stream)
        self._stream.synchronize()
        if len(kept):
            kept[...] = lines.copy_to_host()
        return np.asarray(found)

    def _same(self, name: str, values: np.ndarray) -> Any:
        """Where values are that come again and again."""
        known, there = self._known.get(name, (None, None))
        if known is not values and (known is None or not np.array_equal(known, values)):
            there = self.sent(values)
        self._known[name] = values, there
        return there

    def _up(self, name: str, values: np.ndarray) -> Any:
        """Numbers on their way to the GPU."""
        if not values.size:
            return self.sent(values)
        there = self._room(name, values.shape)
        self._staging.up(name, there, values)
        return there

    def _room(self, name: str, shape: tuple[int, ...], number: Any = np.float64) -> Any:
        """An array of this shape, the same memory at every call."""
        n = math.prod(shape)
        if not n:
            return cuda.device_array(shape, number)
        whole, view = self._rooms.get(name, (None, None))
        if view is None or view.shape != shape:
            whole = cuda.device_array(n, number) if whole is None or whole.size < n else whole
            view = whole[:n].reshape(shape)
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
def spread(values: Any, which: Any, first: Any, target: Any) -> None:
    """Columns have these numbers from the first one on."""
    columns = which.shape[0]
    at = cuda.grid(1)
    while at < values.shape[0] * columns:
        row, column = at // columns, at % columns
        target[first + row, which[column]] = values[row]
        at += cuda.gridsize(1)
