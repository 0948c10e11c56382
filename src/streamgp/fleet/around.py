"""AroundEngine: wrappers on the cores, around processes on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import partial
from queue import SimpleQueue
from typing import Any, Self, TypeVar

import numpy as np

from streamgp.contract.checks import LARGEST
from streamgp.contract.lanes import LEARN, PREDICT, any_of
from streamgp.contract.model import Health, StreamModel
from streamgp.contract.prediction import NUMBERS, moments_of
from streamgp.contract.saved import refuse_unlike
from streamgp.contract.stackable import stack_of
from streamgp.fleet.cpu import CpuEngine
from streamgp.fleet.cuda import CudaEngine
from streamgp.fleet.rows import Rows
from streamgp.process.onlinegp import OnlineGP
from streamgp.settings import FloatArray
from streamgp.wrappers.wrapper import Wrapper

Result = TypeVar("Result")


class Desk:
    """Where threads hand over what only the thread that called the fleet does: all that a GPU is asked for."""

    def __init__(self) -> None:
        self._asked: SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = SimpleQueue()
        self._closed = False

    def ask(self, work: Callable[[], Result]) -> Result:
        """Have the work done by the thread that serves, and wait for it."""
        future: Future[Result] = Future()
        self._asked.put((work, future))
        if self._closed:
            future.cancel()
        return future.result()

    def leave(self, _: Future[Any]) -> None:
        """One of the threads is done."""
        self._asked.put(None)

    def serve(self, threads: int) -> None:
        """Do what is asked for until this many threads have left."""
        try:
            while threads:
                asked = self._asked.get()
                if asked is None:
                    threads -= 1
                else:
                    _settle(*asked)
        finally:  # after Ctrl-C nobody may wait any more
            self._closed = True
            while not self._asked.empty():
                if (asked := self._asked.get()) is not None:
                    asked[1].cancel()


def _settle(work: Callable[[], Any], future: Future[Any]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)
        if not isinstance(error, Exception):
            raise


class OnGpu(OnlineGP):
    """A process that stands for those of all models on a GPU: the wrapper around it hands over rows as to any other."""

    _engine: CudaEngine
    _desk: Desk | None  # while threads share out the models

    @classmethod
    def of(cls, model: OnlineGP, engine: CudaEngine) -> Self:
        twin = object.__new__(cls)
        vars(twin).update(vars(model) | {"_engine": engine, "_desk": None, "_direct": False})
        return twin

    def _ask(self, work: Callable[[], Result]) -> Result:
        return work() if self._desk is None else self._desk.ask(work)

    def _rows(self, X: FloatArray, Y: FloatArray | None, conditions: FloatArray | None) -> Rows:
        """Before the units of a stream are known, its numbers may be beyond all that a GPU takes: as far as any."""
        bound = self._engine.bound
        Y = None if Y is None else np.clip(Y, -bound, bound)
        return Rows(*self._lanes, np.clip(X, -LARGEST, LARGEST), Y, conditions)

    def _pass(
        self,
        ops: np.ndarray,
        X: FloatArray,
        Y: FloatArray | None,
        conditions: FloatArray | None,
        kept: FloatArray | None,
    ) -> FloatArray:
        """Rows of one kind, in order; a GPU runs no process with a memory, so that a row sees itself alone."""
        rows = self._rows(X, Y, conditions)
        if any_of(ops, LEARN):
            learned = self._ask(partial(self._engine.advance, rows, any_of(ops, PREDICT)))
            return np.empty((len(NUMBERS), *rows.Y.shape)) if learned is None else moments_of(learned)  # type: ignore[union-attr]
        if kept is not None:
            kept[:, 0], kept[:, 1:] = 0.0, X  # as the cores keep it
        return moments_of(self._ask(partial(self._engine.predict, rows)))

    def _begin_again(self, models: np.ndarray, fresh: StreamModel) -> None:
        self._ask(partial(self._engine.begin_again, models))

    def _stack(self) -> list[np.ndarray]:
        return []

    def _restack(self, arrays: list[np.ndarray]) -> None:
        """Nothing: the numbers are on the GPU."""

    def _stacked_arrays(self) -> dict[str, np.ndarray]:
        return {}

    def _check_numbers(self, named: dict[str, np.ndarray]) -> None:
        """Nothing: the engine does."""


class AroundEngine(CpuEngine):
    """Keeps the wrappers of all models, and hands their rows over to the processes.

    Args:
        model: of the recipe, prepared for the shape of the rows, with nothing learned.
        size: how many models there are.
        threads: that run wrappers at the same time.
        processes: their engine, without models so far.
    """

    def __init__(self, model: StreamModel, size: int, threads: int, processes: CudaEngine) -> None:
        self._processes = processes
        super().__init__(model, size, threads)

    def _prepared(self, model: StreamModel) -> StreamModel:
        twin = super()._prepared(model)
        *_, around, process = twin._family()
        assert isinstance(around, Wrapper)
        assert isinstance(process, OnlineGP)
        around._within = OnGpu.of(process, self._processes)
        return twin

    def _each_part(self, rows: Rows, work: Callable[[Any, Rows], Result]) -> list[Result]:
        parts = self._workers.parts(rows)
        if len(parts) == 1:
            return [work(self._on(rows), rows)]
        desk, started = Desk(), []
        for part in parts:
            model = self._on(part)
            *_, process = model._family()
            process._desk = desk
            started.append(self._workers.pool().submit(work, model, part))
            started[-1].add_done_callback(desk.leave)
        try:
            desk.serve(len(started))
            return [one.result() for one in started]
        finally:  # when the call ends, no model is running
            wait(started)

    def add(self, count: int) -> None:
        super().add(count)
        self._processes.add(count)

    def keep(self, which: np.ndarray) -> None:
        super().keep(which)
        self._processes.keep(which)

    def take(self, i: int, model: StreamModel) -> None:
        for many, one in zip(stack_of(self._model), stack_of(model), strict=False):  # the process comes last
            one[0] = many[i]
        *_, process = model._family()
        self._processes.take(i, process)

    def put(self, i: int, model: StreamModel) -> None:
        for many, one in zip(stack_of(self._model), stack_of(model), strict=False):
            many[i] = one[0]
        *_, process = model._family()
        self._processes.put(i, process)

    # What can be read.

    def arrays(self) -> dict[str, np.ndarray]:
        return self._named() | self._processes.arrays()

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        mine = self._named()
        refuse_unlike({name: saved[name] for name in mine if name in saved}, mine)
        self._processes.restore({name: array for name, array in saved.items() if name not in mine})
        for name, array in mine.items():
            array[...] = saved[name]

    def check_restored(self) -> None:
        super().check_restored()
        self._processes.check_restored()

    def clock(self) -> FloatArray:
        return self._processes.clock()

    def rows_seen(self) -> np.ndarray:
        return self._processes.rows_seen()

    def health(self) -> Health:
        health = self._processes.health()
        return health._replace(**self._fill_values())

    def broken(self) -> np.ndarray:
        return self._processes.broken()

    def refresh(self) -> np.ndarray:
        return self._processes.refresh()
