"""What a run is going to need, compiled before it starts: in two processes at once, not one after the other.

This is the one list of it: what commands call without any choice of a model, what one model calls, and all there is.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from streamgp.auto import needed
from streamgp.compiled import ENTRIES, compile_now, fill_cache, is_filled, sources_with
from streamgp.contract import checks, ladder, spacing
from streamgp.job import yardsticks
from streamgp.process import features, stream, temporal_evidence
from streamgp.wrappers import conformal, drift, outliers, scaling, single, surprise

GROWING = ("KRLS", "KRLST", "OESGP", "OIESGP", "SOGP")
FOURIER = ("IRFRR", "ISSGPR")
UNTUNED = ("LWPR", "RLSESN", "SGDESN")  # by the evidence

AROUND = (
    features.kernel_values,
    conformal.calibrate,
    ladder.evaluate,
    drift.watch,
    drift.sizes_beside,
    scaling.to_standard,
    single.take,
    outliers.screen,
    checks.check,
    yardsticks.follow,
)
FORECAST = (
    temporal_evidence.regular,
    stream.run_fixed,
    spacing.note,
    spacing.usual,
    *needed.OVER_TIME,
    outliers.screen,
    checks.check,
)


def compile_for_commands() -> None:
    """Compile, once after an installation, what run, forecast and serve call unless a model is chosen."""
    fill_cache(*of_commands())


def is_compiled() -> bool:
    """Whether there is nothing to do for compile_for_commands()."""
    return is_filled(*of_commands())


def compile_all() -> None:
    fill_cache(*every())


@cache
def compile_ahead(model: str) -> None:
    """Load what the first rows of a run call, and compile what this machine does not have yet.

    Args:
        model: auto, or the name of a model; what others than those with a growing basis need is compiled by them.
    """
    fill_cache(*of_model(model))
    compile_now(yardsticks.follow, *(needed.FIRST if model == "auto" else of_model(model)))


def compile_forecast() -> None:
    """Compile what forecasts call."""
    fill_cache(*FORECAST)


def of_commands() -> list[Any]:
    """The compiled functions that commands call unless a model is chosen, in the order in which they are compiled."""
    return list(dict.fromkeys([*needed.FIRST, *needed.PROCESSES, surprise.judge, surprise.mean_gaps, *AROUND]))


def every() -> list[Any]:
    """Every compiled function that Python calls, those of the commands first."""
    found = [thing for name in sources_with(*ENTRIES) for thing in vars(importlib.import_module(name)).values()]
    entries = [thing for thing in found if hasattr(getattr(thing, "entry", None), "kinds")]
    return list({id(one.entry): one for one in [*of_commands(), *entries]}.values())


def of_model(model: str) -> list[Any]:
    """The compiled functions that a run with a model, or with auto, calls."""
    if model == "auto":
        return [*needed.FIRST, *needed.PROCESSES, yardsticks.follow]
    if model in FOURIER or model in UNTUNED:
        return [stream.run_fixed, *AROUND]
    return [*([stream.run_growing] if model in GROWING else []), *needed.KERNELS, *AROUND]
