"""Experts over time: y = g(t) + noise, and y = f(x) + g(t) + noise with a straight line f.

The kernel over time is a level, short memory and seasons (tuning/series.py), for targets in standard units. Seasons are
those that are known, as far as the rows show them often enough, or those that are found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from streamgp.contract.model import StreamModel
from streamgp.contract.spacing import usual_gap
from streamgp.kernels import Kernel
from streamgp.process.features import Linear
from streamgp.process.onlinegp import OnlineGP
from streamgp.recipes.time import TimeGP
from streamgp.settings import FloatArray
from streamgp.tuning.series import NOISE, Structure, choose, series_kernel
from streamgp.wrappers.units import center_and_spread

ALONE, WITH_INPUTS = "Gaussian process", "least squares"  # what they are called, with the label of their view
LABEL = "over time"
ROWS, ITERATIONS = 400, 8  # that count for the hyperparameters, the last ones, and of their search
SHOWN = 2.5  # how often a season has to be seen


class OverTime(NamedTuple):
    """A kernel over time and the noise beside it, for targets in standard units."""

    kernel: Kernel
    noise: float

    def model(self, inputs: int) -> StreamModel:
        """A model that has learned nothing; without inputs the time is all it sees."""
        if not inputs:
            return TimeGP(self.kernel, noise=self.noise)
        return OnlineGP(Linear(1.0, constant=False), noise=self.noise, time=self.kernel)


def found(y: FloatArray, times: FloatArray, seasons: Sequence[int], *, tune: bool) -> OverTime | None:
    """The kernel for rows of a series; None: too little is known of it.

    Args:
        y: (n,) targets, NaN where missing.
        times: (n,) their times, which do not go back.
        seasons: rows of the seasons that are known.
        tune: whether its hyperparameters are tuned, and seasons found where none is known.
    """
    known = ~np.isnan(y)
    step = usual_gap(times[known])
    shift, scale = center_and_spread(y[known])
    if not step or not scale > 0:
        return None
    shown = [step * season for season in seasons if SHOWN * step * season <= times[known][-1] - times[known][0]]
    if not tune:
        return OverTime(series_kernel(Structure(tuple(sorted(shown)), False, False), step, 1.0), NOISE)
    chosen = choose(
        (y - shift) / scale,
        times,
        shown if seasons else None,
        log=False,
        trend=False,
        rows=ROWS,
        iterations=ITERATIONS,
    )
    return OverTime(chosen.kernel, chosen.noise)
