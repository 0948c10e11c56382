"""Gpu: the memory of a GPU, and the kernels that run there."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.arrays import Numbers
from streamgp.contract.lanes import PREDICT
from streamgp.cuda.kernels import kernel
from streamgp.cuda.ptx import cached_kernel, cuda
from streamgp.settings import FloatArray

THREADS = 128  # of a block
AT_ONCE = 1024  # blocks and threads that copy


class Gpu:
    """See columns.Place."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Any, Any]] = {}  # what came last, and where it is

    def zeros(self, rows: int, columns: int) -> Any:
        return cuda.device_array((rows, columns), np.float64)

    def move(self, source: Any, which: np.ndarray, target: Any) -> None:
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
        if len(which):
            spread[AT_ONCE, AT_ONCE](_sent(values.ravel()), cuda.to_device(which), first, array)
            cuda.synchronize()

    def run(self, loop: Any, numbers: Numbers, array: Any, given: tuple[np.ndarray, ...]) -> np.ndarray:
        models, starts, ops, X, Y, conditions, kept, out = given
        there = [self._same(name, values) for name, values in (("models", models), ("starts", starts), ("ops", ops))]
        there += [_sent(values) for values in (X, Y, conditions)]
        record, lines = self._same("record", numbers.records), _sent(kept)
        predicted, status = (ops[:, 1] & PREDICT).astype(bool), cuda.device_array(len(models), np.int64)
        told = cuda.device_array(out.shape) if predicted.all() else cuda.to_device(out)
        compiled = kernel(loop)
        compiled[-(-len(models) // THREADS), THREADS](record, array, *there, lines, told, status)
        if predicted.any():
            told.copy_to_host(out)
        if len(kept):
            kept[...] = lines.copy_to_host()
        return np.asarray(status.copy_to_host())

    def _same(self, name: str, values: np.ndarray) -> Any:
        """Where values are that come again and again."""
        known, there = self._known.get(name, (None, None))
        if known is not values and (known is None or not np.array_equal(known, values)):
            there = _sent(values)
        self._known[name] = values, there
        return there


def _sent(values: np.ndarray) -> Any:
    """A copy on the GPU. An axis of length 1 may have stride 0 here, which numba-cuda takes for repeated numbers."""
    return cuda.to_device(np.ascontiguousarray(values).ravel().reshape(values.shape))


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
