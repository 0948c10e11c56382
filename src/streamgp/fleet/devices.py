"""Devices: where the models of a fleet live, and with which precision."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import Protocol

import numpy as np

from streamgp.contract.model import Health, StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.cuda import exchange
from streamgp.cuda.exchange import NUMBERS, Exchange
from streamgp.cuda.plain import PlainMemory
from streamgp.fleet import wrapped
from streamgp.fleet.cpu import CpuEngine, fits
from streamgp.fleet.cuda import RECORDS, CudaEngine, Memory
from streamgp.fleet.each import EachEngine
from streamgp.fleet.gpu import GpuEngine
from streamgp.fleet.plain_wrappers import PlainWrappers
from streamgp.fleet.processes import ProcessesEngine, how_many
from streamgp.fleet.rows import Rows
from streamgp.fleet.wrapped import WrappedEngine, Wrappers
from streamgp.process.onlinegp import OnlineGP
from streamgp.settings import FloatArray

DEVICES = "cpu", "cuda"
LEAST_CAPABILITY = 8  # of a GPU: those before it do not copy in the background
PRECISIONS = "double", "single"


class Engine(Protocol):
    """What a device does for a fleet.

    Rows are checked before they come here, unless the engine does it: then rows that it refuses raise UnfitError, and
    nothing has changed. Ids are those of models that exist.
    """

    checks_rows: bool

    @property
    def size(self) -> int: ...

    def advance(self, rows: Rows, report: bool) -> Prediction | None:
        """Predict each row if asked to, then learn it; predictions are (n, p) in the order of the rows."""

    def predict(self, rows: Rows) -> Prediction:
        """Predict rows that would each come next; nothing changes."""

    def kept_width(self) -> int:
        """How many numbers are kept of a row that waits for its target."""

    def issue(self, rows: Rows) -> tuple[FloatArray, FloatArray]:
        """Predict at most one row of each model and advance memories: columns, and what it takes to learn it later."""

    def resolve(self, rows: Rows, kept: FloatArray) -> None:
        """Learn at most one row of each model as it was issued; see CpuEngine."""

    def undo_of(self, rows: Rows) -> Callable[[], None] | None:
        """What brings the models of rows back to their present state; None: no row that was checked can fail."""

    def take(self, i: int, model: StreamModel) -> None:
        """Write the numbers of model i into a single model of the same recipe and shape."""

    def put(self, i: int, model: StreamModel) -> None:
        """Make model i a single model of the same recipe and shape, which nobody else holds."""

    def add(self, count: int) -> None:
        """Add models at the end that have learned nothing."""

    def keep(self, which: np.ndarray) -> None:
        """Keep these models only, in this order."""

    def arrays(self) -> dict[str, np.ndarray]:
        """The state by name."""

    def rows_seen(self) -> np.ndarray:
        """Rows of each model, (size,)."""

    def health(self) -> Health:
        """Repairs, an array (size,) of each kind."""

    def broken(self) -> np.ndarray:
        """The ids of models with numbers that arithmetic cannot go on with."""

    def refresh(self) -> np.ndarray:
        """Make broken models anew as far as they can be; their ids."""

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        """Take over what arrays() returned; other arrays are refused."""

    def check_restored(self) -> None:
        """Refuse a restored state that no stream leads to."""


def refuse_unfit(device: str, precision: str, model: StreamModel, own: dict[str, FloatArray]) -> None:
    """Refuse a device or a precision that cannot be used here, or not by this recipe with these hyperparameters."""
    if device == "cuda":
        *_, process = model._family()
        if not fits(model):
            raise ValueError(
                'device="cuda" runs recipes whose rows are compiled, bare or within wrappers such as Standardize; got '
                f'{type(model).__name__}. Use device="cpu"'
            )
        if what := process._needs_cores:
            raise ValueError(f'device="cuda" does not run {what}; use device="cpu"')
        if precision == "single":
            exchange.refuse_single(process, own)
        if why := no_gpu():
            raise ValueError(
                f'device="cuda" needs an NVIDIA GPU and the extra streamgp[cuda]; {why}. Use device="cpu", also to '
                'load a fleet that was saved from a GPU: sg.load(path, device="cpu", precision="double")'
            )
    elif precision == "single":
        raise ValueError(
            'precision="single" is for device="cuda": on the cores it would lose digits and gain little; use '
            'precision="double"'
        )


def no_gpu() -> str:
    """Why there is no GPU that could be used; empty: there is one."""
    if find_spec("numba_cuda") is None:
        return "the package numba-cuda is not installed"
    from streamgp.cuda import ptx

    if not ptx.cuda.is_available():
        return "none is found"
    major, minor = ptx.cuda.get_current_device().compute_capability
    return (
        "" if major >= LEAST_CAPABILITY else f"the one here has compute capability {major}.{minor}, and 8.0 is needed"
    )


def engine(device: str, precision: str, model: StreamModel, size: int, threads: int | None, waits: bool) -> Engine:
    """The engine for models like this one, which is prepared and has learned nothing; rows may wait for targets."""
    if device == "cpu" and fits(model):
        return CpuEngine(model, size, threads or cores())
    if device == "cpu":
        processes = how_many(model, size, threads, cores())
        return EachEngine(model, size) if processes == 1 else ProcessesEngine(model, size, processes)
    if not is_for_lanes(model, waits):
        from streamgp.cuda.place import Gpu

        return GpuEngine(model, size, threads or cores(), Gpu())
    from streamgp.cuda.memory import GpuMemory
    from streamgp.fleet.gpu_wrappers import GpuWrappers

    return on_lanes(model, size, precision, GpuMemory, GpuWrappers)


def on_lanes(
    model: StreamModel, size: int, precision: str, kind: Callable[..., Memory], around_them: Callable[..., Wrappers]
) -> CudaEngine | WrappedEngine:
    """An engine for models like this one that lanes run.

    Args:
        model: prepared, with nothing learned.
        size: how many models there are.
        precision: "double" or "single".
        kind: of memory.
        around_them: the kind of wrappers that are beside them there.
    """
    *around, process = model._family()
    assert isinstance(process, OnlineGP)
    exchanged = Exchange(process, precision)
    memory = kind(exchanged.shape, exchanged.number, exchanged.shared, exchanged.half_life)
    processes = CudaEngine(process, 0 if around else size, precision, memory, exchanged)
    return processes if not around else WrappedEngine(model, size, processes, around_them)


def is_for_lanes(model: StreamModel, waits: bool) -> bool:
    """Whether lanes run models like this one: a growing basis as most have it, for which they are twice as fast."""
    *around, process = model._family()
    apart = not around or (wrapped.fits(model) and not waits)
    return apart and isinstance(process, OnlineGP) and exchange.fits(process)


def uses_lanes(engine: Engine) -> bool:
    """Whether models are records of lanes, and not numbers as the cores have them."""
    return isinstance(engine, CudaEngine | WrappedEngine)


def stand_in(model: StreamModel, size: int, saved: dict[str, np.ndarray]) -> Engine:
    """An engine that can restore another device's saved state, so that its models can be taken."""
    if RECORDS not in saved:
        return CpuEngine(model, size, 1)
    precision = next(name for name, number in NUMBERS.items() if saved[RECORDS].dtype == number)
    return on_lanes(model, size, precision, PlainMemory, PlainWrappers)


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
