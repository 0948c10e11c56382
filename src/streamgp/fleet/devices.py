"""Devices: where the models of a fleet live, and with which precision."""

from __future__ import annotations

import os
from importlib.util import find_spec

from streamgp.contract.model import StreamModel
from streamgp.contract.stackable import stands_for_many
from streamgp.contract.within import family
from streamgp.cuda import exchange
from streamgp.fleet.cpu import CpuEngine
from streamgp.fleet.cuda import CudaEngine
from streamgp.fleet.each import EachEngine, how_many
from streamgp.fleet.gpu import GpuEngine
from streamgp.settings import FloatArray

DEVICES = "cpu", "cuda"
LEAST_CAPABILITY = 8  # of a GPU: those before it do not copy in the background
PRECISIONS = "double", "single"


# What does the rows of a fleet. They are checked before they come, but for engines that check them and change nothing
# where they raise UnfitError. Ids are those of models that exist.
Engine = CpuEngine | EachEngine | CudaEngine


def refuse_unfit(device: str, precision: str, model: StreamModel, own: dict[str, FloatArray]) -> None:
    """Refuse a device or a precision that cannot be used here, or not by this recipe with these hyperparameters."""
    if device == "cuda":
        if not stands_for_many(model):
            raise ValueError(
                'device="cuda" runs recipes whose rows are compiled, bare or within wrappers such as Standardize; got '
                f'{type(model).__name__}. Use device="cpu"'
            )
        *_, process = family(model)
        if what := process._needs_cores:
            raise ValueError(f'device="cuda" does not run {what}; use device="cpu"')
        if precision == "single":
            exchange.refuse_single(model, own)
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


def engine(device: str, precision: str, model: StreamModel, size: int, threads: int | None) -> Engine:
    """The engine for models like this one, which is prepared and has learned nothing."""
    if device == "cpu" and stands_for_many(model):
        return CpuEngine(model, size, threads or cores())
    if device == "cpu":
        return EachEngine(model, size, how_many(model, size, threads, cores()))
    if exchange.fits(model):  # lanes are twice as fast
        from streamgp.cuda.memory import GpuMemory

        return CudaEngine(model, size, precision, GpuMemory)
    from streamgp.cuda.place import Gpu

    return GpuEngine(model, size, threads or cores(), Gpu())


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
