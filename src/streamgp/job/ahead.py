"""What a run is going to need, compiled before it starts: in a few processes at once, not one after the other.

This is the one list of it: what commands call without any choice of a model, what one model calls, and all there is.
"""

from __future__ import annotations

import importlib
from typing import Any

from streamgp.batch import spectrum
from streamgp.compiled import ENTRY, compile_now, fill_cache, is_filled, sources
from streamgp.contract import checks, ladder
from streamgp.kernels import program
from streamgp.process import memory, stream, temporal, temporal_evidence
from streamgp.process.adapt import sngd
from streamgp.recipes import naive
from streamgp.wrappers import aggregation, conformal, drift, outliers, scaling, single, surprise

GROWING = ("KRLS", "KRLST", "OESGP", "OIESGP", "SOGP")
FOURIER = ("IRFRR", "ISSGPR")
UNTUNED = ("LWPR", "RLSESN", "SGDESN")  # by the evidence


def compile_for_commands() -> None:
    """Compile, once after an installation, what run, forecast and serve call unless a model is chosen."""
    fill_cache(*of_commands())


def is_compiled() -> bool:
    """Whether there is nothing to do for compile_for_commands()."""
    return is_filled(*of_commands())


def compile_all() -> int:
    """Compile everything; how many functions there are."""
    found = every()
    fill_cache(*found)
    return len(found)


def compile_ahead(model: str) -> None:
    """Load what a run calls, and compile what this machine does not have yet.

    Args:
        model: auto, with which all that commands call is compiled at once, or the name of a model; what others than
            those with a growing basis need is compiled by them.
    """
    if model == "auto":
        compile_for_commands()
    compile_now(*needed(model))


def of_commands() -> list[Any]:
    """The compiled functions that commands call unless a model is chosen, in the order in which it takes least time.

    The loops share much. While one process compiles the first of them, the others compile what shares little with it,
    and then load what they share.
    """
    loops = [
        stream.run_growing,
        stream.run_fixed,
        stream.run_growing_adapting,
        sngd.finish_interval,
        stream.run_fixed_adapting,
    ]
    forecasts = [
        temporal_evidence.irregular,
        temporal_evidence.regular,
        temporal.run,
        temporal.predict,
        temporal.covariances,
    ]
    others = [function for function in needed("auto") if function not in loops]
    return [loops[0], conformal.calibrate, *forecasts, surprise.judge, *others, *loops[1:]]


def every() -> list[Any]:
    """Every compiled function that Python calls, those of the commands first."""
    found = [thing for name in sources(ENTRY) for thing in vars(importlib.import_module(name)).values()]
    entries = [thing for thing in found if hasattr(thing, "py_func") and hasattr(thing, "types")]
    return list({id(entry): entry for entry in [*of_commands(), *entries]}.values())


def needed(model: str) -> list[Any]:
    """The compiled functions that a run calls."""
    kernels = [
        program.weighted_gradient,
        program.weighted_diagonal_gradient,
        program.matrix,
        program.diagonal,
        program.loading_units,
    ]
    around = [
        stream.run_fixed,  # least squares, too
        stream.forget,
        conformal.calibrate,
        ladder.evaluate,
        memory.walk,
        drift.watch,
        drift.watch_beside,
        scaling.to_standard,
        scaling.from_standard,
        single.take,
        outliers.screen,
        outliers.strike_out,
        checks.check,
    ]
    if model == "auto":
        return [
            stream.run_growing,
            stream.run_growing_adapting,
            stream.run_fixed_adapting,
            sngd.finish_interval,
            *around,
            *kernels,
            scaling.to_seats,
            scaling.from_seats,
            spectrum.features_of,
            aggregation.combine,
            aggregation.learn_issued,
            outliers.doubt,
            naive.average,
            temporal_evidence.regular,
            temporal_evidence.irregular,
            temporal.run,
            temporal.predict,
            temporal.covariances,
        ]
    if model in FOURIER or model in UNTUNED:
        return [*around, *([spectrum.features_of] if model in FOURIER else [])]
    return [*([stream.run_growing] if model in GROWING else []), *kernels, *around]
