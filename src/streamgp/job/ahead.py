"""What a run is going to need, compiled before it starts: in a few processes at once, not one after the other."""

from __future__ import annotations

from typing import Any

from streamgp.compiled import compile_now
from streamgp.process import stream
from streamgp.process.adapt import sngd
from streamgp.wrappers import aggregation, conformal, drift, scaling

GROWING = ("KRLS", "KRLST", "OESGP", "OIESGP", "SOGP")


def compile_ahead(model: str) -> None:
    """Compile what this machine does not have yet.

    Args:
        model: auto, or the name of a model; what others than those with a growing basis need is compiled by them.
    """
    compile_now(*needed(model))


def needed(model: str) -> list[Any]:
    """The compiled functions that a run calls, those that take longest first."""
    around = [stream.run_fixed, conformal.calibrate, scaling.to_standard, scaling.from_standard]  # least squares, too
    if model == "auto":
        return [
            stream.run_growing_adapting,
            stream.run_fixed_adapting,
            stream.run_growing,
            *around,
            sngd.finish_interval,
            aggregation.combine,
        ]
    return [*([stream.run_growing] if model in GROWING else []), *around, drift.watch]
