"""Stochastic natural gradient: hyperparameters that keep learning from the density of each next observation.

One cycle is ``interval`` rows over which gradients are gathered while the basis is frozen (rows are absorbed), one
move, and ``rest`` rows in which the basis may change. It begins when the basis has filled, or has not grown for an
interval.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

import numpy as np

from streamgp.arrays import Model
from streamgp.compiled import NOTHING, apart, compiled
from streamgp.process import features
from streamgp.process.adapt.gradient import gather
from streamgp.process.state import ADMITTED, GATHERING, LAYOUT, SETTLING, STOPPED
from streamgp.settings import Part, Setting, number, one_of, optional, whole
from streamgp.vocabulary import not_negative, positive

MOVE = ("rebase", "rebuild")


class SNGD(Part):
    """Adapt hyperparameters online by stochastic natural gradient ascent of the one-step log density [soh2014 V].

    Adapted are the logarithms of the kernel's hyperparameters and of the noise, and the loadings of factors themselves.
    For Fourier features that is the variance and the noise: other lengthscales would need the rows that were absorbed,
    and those are not kept. In a growing basis the noise stays at least 1e-6 of the prior variance. Start with
    lengthscales that are too long rather than too short: where none of many inputs is within reach of a basis point,
    there is no gradient.

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-3, 3, (4000, 1))
        >>> y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=4000)
        >>> model = sg.SOGP(sg.SquaredExponential(1.0), noise=0.1, adapt=sg.SNGD())
        >>> model.learn_many(X, y)
        >>> 0.005 < model.hyperparameters["noise"] < 0.02
        True
    """

    def __init__(
        self,
        interval: Annotated[
            int, Setting("rows over which a gradient is averaged, with the basis frozen", "rows", whole)
        ] = 50,
        *,
        rest: Annotated[
            int | None,
            Setting(
                "rows between two such intervals, in which the basis may change; None: as many", "rows", optional(whole)
            ),
        ] = None,
        rate: Annotated[float, Setting("size of the first step; step j is rate / j^decay", check=positive)] = 1.0,
        decay: Annotated[float, Setting("in [0, 1]", check=partial(number, at_least=0, at_most=1))] = 0.25,
        damping: Annotated[
            float,
            Setting(
                "the Fisher matrix starts every interval as this multiple of the identity; large is plain gradient "
                "ascent",
                check=positive,
            ),
        ] = 0.1,
        clip: Annotated[
            float,
            Setting(
                "most that a logarithm may move in one step, or a loading relative to its input's part of the distance",
                check=positive,
            ),
        ] = 0.2,
        tolerance: Annotated[
            float,
            Setting(
                "adaptation stops when the squared length of the steps stays below this for patience steps; 0: never",
                check=not_negative,
            ),
        ] = 1e-4,
        patience: Annotated[int, Setting("how many such steps in a row", "steps", whole)] = 50,
        on_move: Annotated[
            str,
            Setting(
                '"rebase" (nothing absorbed is lost) or "rebuild" (the paper\'s, from the basis points\' own targets)',
                check=one_of(*MOVE),
            ),
        ] = "rebase",
    ) -> None:
        self.interval, self.rest, self.patience = interval, rest or interval, patience
        self.rate, self.decay, self.damping = rate, decay, damping
        self.longest, self.tolerance = clip, tolerance
        self.rebuild = on_move == "rebuild"


@apart(NOTHING, LAYOUT.model)
def before_learning(m: Model) -> None:
    """Before a row is learned: gather its gradient, if it is time to, and weigh its log density."""
    if m.counters.phase == GATHERING:
        gather(m)
    total, outputs = 0.0, 0
    for o in range(m.plan.outputs):
        if not np.isnan(m.y[o]):
            j = o if m.plan.covariances > 1 else 0
            s, e = m.variance_now[j] + m.noise[j], m.y[o] - m.mean_now[o]
            total -= 0.5 * (np.log(2.0 * np.pi * s) + e * e / s)
            outputs += 1
    m.counters.rows_adapted += 1
    keep = min(1.0 - 1.0 / m.counters.rows_adapted, 0.99)  # a running mean over about a hundred rows
    m.density[0] = keep * m.density[0] + (1.0 - keep) * total / outputs


@compiled
def after_learning(m: Model) -> bool:
    """Count a row that was learned; whether a phase ends with it: then phase_rows is -1."""
    m.counters.phase_rows += 1
    phase, over = m.counters.phase, False
    if phase == SETTLING:
        if m.counters.change == ADMITTED:
            m.counters.phase_rows = 0
        full = m.plan.features == features.DICTIONARY and m.counters.points >= m.plan.capacity
        over = full or m.counters.phase_rows >= m.plan.interval
    elif phase != STOPPED:
        over = m.counters.phase_rows >= (m.plan.interval if phase == GATHERING else m.plan.rest)
    if over:
        m.counters.phase_rows = -1
    return over
