"""What a run is going to need, compiled before it starts: in a few processes at once, not one after the other."""

from __future__ import annotations

import threading
from typing import Any

from streamgp.batch import spectrum
from streamgp.compiled import compile_now
from streamgp.contract import checks, ladder
from streamgp.kernels import program
from streamgp.process import memory, stream, temporal, temporal_evidence
from streamgp.process.adapt import sngd
from streamgp.recipes import naive
from streamgp.wrappers import aggregation, conformal, drift, outliers, scaling, single

GROWING = ("KRLS", "KRLST", "OESGP", "OIESGP", "SOGP")
FOURIER = ("IRFRR", "ISSGPR")
UNTUNED = ("LWPR", "RLSESN", "SGDESN")  # by the evidence


_compiling = threading.Lock()


def compile_ahead(model: str) -> None:
    """Compile what this machine does not have yet.

    Args:
        model: auto, or the name of a model; what others than those with a growing basis need is compiled by them.
    """
    with _compiling:  # what one thread compiles, the others would compile again
        compile_now(*needed(model))


def needed(model: str) -> list[Any]:
    """The compiled functions that a run calls, those that take longest first."""
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
        loops = [stream.run_growing_adapting, stream.run_fixed_adapting, stream.run_growing]
        return [
            *loops,
            *kernels,
            *around,
            scaling.to_seats,
            scaling.from_seats,
            spectrum.features_of,
            sngd.finish_interval,
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
