"""GpuWrappers: the numbers of wrappers in the memory of a GPU, around the records of their models."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from streamgp.cuda.gpu import AT_ONCE, gather, scatter
from streamgp.cuda.memory import BLOCKS, Blocks, GpuMemory, There, Work, _address, _shown
from streamgp.cuda.ptx import cuda, driver
from streamgp.cuda.record import COUNTED, PREDICTED, ROW_TIME, Look
from streamgp.fleet.gpu_wrapping import THREADS, entering, find_beyond, leaving, renewing
from streamgp.fleet.wrapping import COUNTER, AroundShape, Standard, nothing
from streamgp.wrappers import outliers

RENEWED_AT_ONCE = 1 << 16  # models
LARGEST = float(np.finfo(np.float64).max)


class Inside(NamedTuple):
    """Rows as the models within see them, and what is told of them."""

    rows: There
    known: Any
    told: Any


class GpuWrappers:
    """See fleet.wrapped.Wrappers.

    Args:
        memory: of the models within.
        shape: of the wrappers.
        warmup: of Standardize, if there is one.
        plan: of the calibration, if there is one.
    """

    def __init__(self, memory: GpuMemory, shape: AroundShape, warmup: int, plan: np.ndarray) -> None:
        self._memory, self._shape, self._warmup, self._plan = memory, shape, warmup, cuda.to_device(plan)
        self._nobody = cuda.to_device(np.zeros(1, np.int64))
        self._named: dict[str, Any] = {name: cuda.to_device(array) for name, array in nothing().items()}
        self._inside: Inside | None = None
        self._blocks = Blocks(partial(cuda.pinned_array, dtype=np.float64), _shown)

    # Models.

    def up(self, named: dict[str, np.ndarray]) -> None:
        for name, array in named.items():
            self._named[name] = cuda.to_device(np.ascontiguousarray(array))
        self._memory._graphs.forget()

    def down(self, names: tuple[str, ...], which: np.ndarray | None = None) -> dict[str, np.ndarray]:
        if which is None:
            return {name: self._named[name].copy_to_host() for name in names}
        found, chosen = {}, cuda.to_device(which)
        for name in names:
            array = _flat(self._named[name])
            part = cuda.device_array((len(which), array.shape[1]), array.dtype)
            gather[AT_ONCE, AT_ONCE](part, array, chosen)
            here = part.copy_to_host()
            found[name] = (
                here.view(COUNTER)[:, 0] if name == "counters" else here.reshape(-1, *self._named[name].shape[1:])
            )
        return found

    def write(self, which: np.ndarray, named: dict[str, np.ndarray]) -> None:
        chosen = cuda.to_device(which)
        for name, values in named.items():
            array = _flat(self._named[name])
            source = np.ascontiguousarray(values).view(array.dtype).reshape(len(values), array.shape[1])
            scatter[AT_ONCE, AT_ONCE](array, cuda.to_device(source), chosen)
        cuda.synchronize()

    # Rows.

    def run(
        self,
        models: np.ndarray,
        starts: np.ndarray,
        X: np.ndarray,
        Y: np.ndarray,
        given: np.ndarray | None,
        mode: int,
        step: int,
        look: Look,
        largest: float,
        bound: float,
        report: bool,
    ) -> np.ndarray | None:
        memory, n, shape = self._memory, len(X), self._shape
        there, inside = memory._upload(X, Y), self._room(n, len(models))
        if given is not None:
            inside.rows.given[:n].copy_to_device(np.ascontiguousarray(given), stream=memory._stream)
        which, asked = memory._which(models, starts), Work(mode, step, look.every, bound, given is not None)
        memory._prepare_look(look, len(models))
        memory._graphs.run(
            (n, asked, largest),
            (*which, there, inside, memory._off),
            lambda: self._enqueue(which, n, there, inside, asked, min(largest, LARGEST)),
        )
        if not report:
            memory._finish()
            return None
        numbers = shape.told * n * shape.outputs
        out = np.empty(numbers) if self._blocks.lent >= BLOCKS else self._blocks.take(numbers)
        driver.cuMemcpyDtoHAsync(out.ctypes.data, _address(inside.told), out.nbytes, int(memory._stream.handle))
        memory._finish()
        return out.reshape(shape.told, n, shape.outputs)

    def _room(self, rows: int, models: int) -> Inside:
        shape, room = self._shape, self._inside
        if room is None or len(room.rows.X) < rows or len(room.known) < models:
            X, Y = (cuda.device_array((rows, width), np.float64) for width in (shape.width, shape.outputs))
            given = cuda.device_array((rows, ROW_TIME + 1), np.float64)
            out = cuda.device_array(2 * rows * shape.outputs, np.float64)
            known = cuda.device_array((models, shape.outputs), np.int64)
            told = cuda.device_array(shape.told * rows * shape.outputs, np.float64)
            self._inside = room = Inside(There(X, Y, given, out), known, told)
        return room

    def _enqueue(
        self, which: tuple[Any, Any], n: int, there: There, inside: Inside, asked: Work, largest: float
    ) -> None:
        """Check rows, bring them into the units of the models, run these, and bring predictions back."""
        memory, shape, p = self._memory, self._shape, self._shape.outputs
        blocks, stream = -(-which[0].shape[0] // THREADS), memory._stream
        X, Y = there.X[:n], there.Y[: n * p].reshape(n, p)
        rows = inside.rows
        into, targets, given = rows.X[:n], rows.Y[:n], rows.given[:n]
        out, told = rows.out[: 2 * n * p].reshape(2, n * p), inside.told[: shape.told * n * p].reshape(shape.told, n, p)
        found, step, own = memory._found, asked.step, memory._own
        find_beyond[AT_ONCE, AT_ONCE, stream](X, Y, int(asked.mode != PREDICTED), largest, found)
        entering(shape.for_rows)[blocks, THREADS, stream](
            *(self._named[name] for name in Standard._fields),
            *(*which, X, Y, given, own, self._nobody, found, step, asked.mode, int(asked.conditioned)),
            *(self._warmup, asked.bound),
            *(into, targets, inside.known),
        )
        memory._enqueue(which, There(into, targets.reshape(n * p), given, out), asked)
        leaving(shape.for_predictions)[blocks, THREADS, stream](
            *(self._named["target_shift"], self._named["target_scale"], *which, out, own, inside.known),
            *(self._plan, self._named["counters"], self._named["buffers"], Y, found, step, told),
        )

    def renew(self, models: np.ndarray, counts: np.ndarray, bound: float) -> None:
        for begin in range(0, len(models), RENEWED_AT_ONCE):
            some = slice(begin, begin + RENEWED_AT_ONCE)
            self._renew(models[some], counts[some], bound)

    def _renew(self, models: np.ndarray, counts: np.ndarray, bound: float) -> None:
        memory, shape, n = self._memory, self._shape, int(counts.sum())
        which = cuda.to_device(models), cuda.to_device(np.concatenate([[0], np.cumsum(counts)]))
        X, Y, given = (
            cuda.device_array((n, width), np.float64) for width in (shape.width, shape.outputs, ROW_TIME + 1)
        )
        states = cuda.to_device(np.zeros((len(models), shape.outputs, outliers.NUMBERS)))
        renewing(shape.for_rows)[-(-len(models) // THREADS), THREADS, memory._stream](
            *(self._named[name] for name in Standard._fields),
            *(*which, states, self._nobody, memory._own, self._warmup, bound, X, Y, given),
        )
        out = cuda.device_array((2, n * shape.outputs), np.float64)
        asked = Work(COUNTED, 0, 0, bound, True)
        memory._enqueue(which, There(X, Y.reshape(n * shape.outputs), given, out), asked)
        memory._finish()


def _flat(array: Any) -> Any:
    """An array with one axis for models and one for all else."""
    if array.dtype == COUNTER:
        array = array.view(np.int64)
    return array.reshape(array.shape[0], array.size // max(1, array.shape[0]))
