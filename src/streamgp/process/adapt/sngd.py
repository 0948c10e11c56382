"""Stochastic natural gradient: hyperparameters that keep learning from the density of each next observation.

One cycle is ``interval`` rows over which gradients are gathered while the basis is frozen (rows are absorbed), one
move, and ``rest`` rows in which the basis may change. It begins when the basis has filled, or has not grown for an
interval.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import Model, opened
from streamgp.compiled import BOOLEAN, MATRIX, NOTHING, apart, compiled, entry
from streamgp.kernels import program
from streamgp.linalg import vector as vectors
from streamgp.process import features
from streamgp.process.adapt.gradient import gather
from streamgp.process.state import ADMITTED, GATHERING, LAYOUT, RESTING, SETTLING
from streamgp.settings import Part, Setting, number, one_of, optional, whole
from streamgp.vocabulary import not_negative, positive

Array = NDArray

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
        parameters_per_row: Annotated[
            int | None,
            Setting("derivatives computed at each row, drawn at random; None: all", check=optional(whole)),
        ] = None,
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
        self.per_row = parameters_per_row or 0
        self.rebuild = on_move == "rebuild"


@apart(NOTHING, LAYOUT.model)
def before_learning(m: Model) -> None:
    """Before a row is learned: gather its gradient, if it is time to, and weigh its log density."""
    if m.counters.phase == GATHERING:
        gather(m)
    y, mean, variance, noise = m.y, m.mean_now, m.variance_now, m.noise
    total, outputs = 0.0, 0
    for o in range(m.plan.outputs):
        if not np.isnan(y[o]):
            j = o if m.plan.covariances > 1 else 0
            s, e = variance[j] + noise[j], y[o] - mean[o]
            total -= 0.5 * (np.log(2.0 * np.pi * s) + e * e / s)
            outputs += 1
    m.counters.rows_adapted += 1
    keep = min(1.0 - 1.0 / m.counters.rows_adapted, 0.99)  # a running mean over about a hundred rows
    density = m.density
    density[0] = keep * density[0] + (1.0 - keep) * total / outputs


@apart(BOOLEAN, LAYOUT.model)
def after_learning(m: Model) -> bool:
    """After a row was learned: count it; whether an interval ends, so that a move is due, after which it is counted."""
    phase = m.counters.phase
    m.counters.phase_rows += 1
    growing = m.plan.features == features.DICTIONARY
    if phase == SETTLING:
        if m.counters.change == ADMITTED:
            m.counters.phase_rows = 0
        full = growing and m.counters.points >= m.plan.capacity
        if full or m.counters.phase_rows >= m.plan.interval:
            begin_interval(m)
    elif phase == GATHERING and m.counters.phase_rows >= m.plan.interval:
        return True
    elif phase == RESTING and m.counters.phase_rows >= m.plan.rest:
        begin_interval(m)
    record(m)
    return False


@entry(LAYOUT.type, MATRIX)
def count_moved(records: Array, buffers: Array) -> None:
    """After a move, count the row that ended the interval."""
    after_learning(opened(records, buffers, 0))


@compiled
def begin_interval(m: Model) -> None:
    m.counters.phase = GATHERING
    m.counters.phase_rows = 0
    m.prepared[0] = 0.0
    vectors.fill(m.gradient, m.plan.theta, 0.0)
    fisher, unit = m.fisher, m.unit
    vectors.fill(unit, m.plan.theta, 0.0)
    program.loading_units(m.operations, m.parameters, m.seen.size, unit)
    for i in range(m.plan.theta):
        vectors.fill(fisher[i], m.plan.theta, 0.0)
        fisher[i, i] = m.plan.damping / unit[i] ** 2 if unit[i] > 0.0 else m.plan.damping


@compiled
def record(m: Model) -> None:
    """One more point of the path, at every stride; a full one is thinned to every other point, the stride doubles."""
    if m.counters.rows_seen % m.counters.path_stride != 0:
        return
    trace, points = m.path, m.counters.path_points
    if points == trace.shape[0]:
        for i in range(points // 2):
            vectors.copy(trace[2 * i + 1], trace.shape[1], trace[i])
        for i in range(points // 2, points):
            vectors.fill(trace[i], trace.shape[1], 0.0)
        points = points // 2
        m.counters.path_stride *= 2
        if m.counters.rows_seen % m.counters.path_stride != 0:
            m.counters.path_points = points
            return
    parameters, noise = m.parameters, m.noise
    trace[points, 0] = m.counters.rows_seen
    trace[points, 1] = m.density[0]
    for h in range(parameters.size):
        trace[points, 2 + h] = parameters[h]
    for j in range(noise.size):
        trace[points, 2 + parameters.size + j] = noise[j]
    m.counters.path_points = points + 1
