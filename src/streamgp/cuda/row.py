"""What a row is learned with on a GPU if it has a noise or a time of its own: process/row.py in units of the kernel."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from streamgp.compiled import uncompiled
from streamgp.cuda.lanes import Lanes
from streamgp.cuda.record import (
    DISTINCT,
    FRESH,
    KAPPA,
    MEAN_SCALE,
    NOISE,
    NOVEL,
    NOVELTY,
    PER_UNIT,
    SCALE,
    SHARED,
)
from streamgp.process import budget
from streamgp.process.row import LN2

Array = NDArray

# Single precision: a basis point has at least this part of its variance given all others, since features are rounded
# to eps / sqrt(floor).
SINGLE_FLOOR = 1e-5


def build(on: Lanes, bytes_: int) -> Callable[..., None]:
    """The function by which one lane writes down what a row is learned with, before it is predicted.

    Args:
        on: the target.
        bytes_: of a number.

    Returns:
        (parameters, own, noise, time, clock, at, half_life, learned): of the row; clock[at] is when the model learned
        last, where it forgets by time.
    """
    T, single, own_noise = on.number, bytes_ == 4, NOISE - len(SHARED)
    floor_of = on.jit(uncompiled(budget.floor))

    @on.jit
    def meet(
        parameters: Array,
        own: Array,
        noise: Any,
        time: Any,
        clock: Array,
        at: Any,
        half_life: Any,
        learned: Any,
    ) -> None:
        noise *= own[PER_UNIT] * own[PER_UNIT]
        kappa, least = float(parameters[KAPPA]), min(own[own_noise], noise)
        floor = SINGLE_FLOOR if single else floor_of(kappa, least, False, False)
        parameters[NOISE] = T(noise)
        parameters[NOVEL] = T(max(float(parameters[NOVELTY]), floor) * kappa)
        parameters[DISTINCT] = T(1.0 / (kappa * floor))
        if half_life > 0.0 and learned:
            before = clock[at]
            halvings = (time - before) / half_life if before == before else 0.0
            clock[at] = time
            mean_scale = math.exp(-0.5 * LN2 * halvings)
            parameters[MEAN_SCALE] = T(mean_scale)
            parameters[SCALE] = T(mean_scale * mean_scale)
            parameters[FRESH] = T(-math.expm1(-LN2 * halvings))

    compiled: Callable[..., None] = meet
    return compiled
