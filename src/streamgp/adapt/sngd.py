"""Stochastic natural gradient: hyperparameters that keep learning from the density of each next observation.

One cycle is ``interval`` rows over which gradients are gathered while the basis is frozen (rows are absorbed), one
move, and ``rest`` rows in which the basis may change. It begins when the basis has filled, or has not grown for an
interval.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp import features
from streamgp.adapt.move import go_to
from streamgp.compiled import compiled
from streamgp.core.layout import (
    ADMITTED,
    CALM,
    CAPACITY,
    CHANGE,
    CLIP,
    COVARIANCES,
    DAMPING,
    DECAY,
    DENSITY,
    DICTIONARY,
    ENGINE,
    FACTORED,
    FEATURES,
    GATHERING,
    INTERVAL,
    JITTER,
    MOVES,
    OUTPUTS,
    PARAMETERS,
    PATIENCE,
    PER_ROW,
    PHASE,
    PHASE_ROWS,
    POINTS,
    RATE,
    REDUCED_STEPS,
    RELATIVE,
    REST,
    RESTING,
    ROWS_SEEN,
    SETTLING,
    SIZE,
    STOPPED,
    THETA,
    TOLERANCE,
    TRACE,
    TRACE_SIZE,
    TRACE_STRIDE,
    WEIGHTS,
    Scratch,
    State,
    operations_of,
)
from streamgp.kernels import program
from streamgp.linalg import symmetric, triangular, vector
from streamgp.settings import Part, choice, number, whole

Array = NDArray

MOVE = ("rebase", "rebuild")


class SNGD(Part):
    """Adapt hyperparameters online by stochastic natural gradient ascent of the one-step log density [soh2014 V].

    Adapted are the logarithms of the kernel's hyperparameters and of the noise. For Fourier features that is the
    variance and the noise: other lengthscales would need the rows that were absorbed, and those are not kept.

    Args:
        interval: rows over which a gradient is averaged, with the basis frozen.
        rest: rows between two such intervals, in which the basis may change; None: as many.
        rate: size of the first step, without unit; step j is rate / j^decay.
        decay: in [0, 1].
        damping: the Fisher matrix starts every interval as this multiple of the identity; large is plain gradient
            ascent.
        clip: most that a logarithm may move in one step.
        tolerance: adaptation stops when the squared length of the steps stays below this, 50 steps in a row; 0: never.
        patience: how many steps in a row.
        parameters_per_row: derivatives computed at each row, in turn; None: all.
        on_move: "rebase" (nothing absorbed is lost) or "rebuild" (the paper's, from the basis points' own targets).

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
        interval: int = 50,
        rest: int | None = None,
        rate: float = 1.0,
        decay: float = 0.25,
        damping: float = 0.1,
        clip: float = 0.1,
        tolerance: float = 1e-4,
        patience: int = 50,
        parameters_per_row: int | None = None,
        on_move: str = "rebase",
    ) -> None:
        self.interval = whole("interval", interval)
        self.rest = self.interval if rest is None else whole("rest", rest)
        self.rate = number("rate", rate, above=0)
        self.decay = number("decay", decay, at_least=0, at_most=1)
        self.damping = number("damping", damping, above=0)
        self.clip = number("clip", clip, above=0)
        self.tolerance = number("tolerance", tolerance, at_least=0)
        self.patience = whole("patience", patience)
        self.parameters_per_row = 0 if parameters_per_row is None else whole("parameters_per_row", parameters_per_row)
        self.on_move = choice("on_move", on_move, MOVE)


@compiled
def prepare(plan: Array, n: int, state: State, w: Scratch) -> None:
    """K and its derivatives on the frozen basis, lower triangles."""
    operations, theta = operations_of(plan), state.parameters
    count = theta.size
    value, gradient = np.empty(n), np.empty((count, n))
    for i in range(n):
        program.cross_gradient(operations, theta, state.basis, i + 1, state.basis[i], value, gradient, w.kernel)
        for j in range(i + 1):
            for h in range(count):
                w.derivatives[h, i, j] = gradient[h, j]
            w.derivatives[count, i, j] = value[j]
        w.derivatives[count, i, i] += state.scalars[JITTER]
    w.prepared[0] = 1.0


@compiled
def add_output(
    state: State, j: int, first: int, last: int, h: int, by_mean: Array, by_variance: float, scale: float, w: Scratch
) -> None:
    """Add the derivative of the log density of the outputs first..last-1 by theta[h]."""
    s = w.variance[j] + state.noise[j]
    total = 0.0
    for o in range(first, last):
        e = w.y[o] - w.mean[o]
        # [soh2014] Eq. (46), ascending: the signs of (44), (47) and (48) clash.
        total += e / s * by_mean[o] + 0.5 * (e * e / s - 1.0) / s * by_variance
    state.adapt.gradient[h] += scale * total


@compiled
def gather(plan: Array, counters: Array, state: State, w: Scratch) -> None:
    """Add the gradient of the log density of w.y, predicted by w.mean and w.variance, by the logs of theta."""
    q, p, count, theta = plan[COVARIANCES], plan[OUTPUTS], plan[PARAMETERS], plan[THETA]
    gradient, fisher = state.adapt.gradient, state.adapt.fisher
    before = gradient.copy()
    n = counters[SIZE] if plan[POINTS] > 0 else plan[WEIGHTS]
    per_row = plan[PER_ROW] if 0 < plan[PER_ROW] < theta else theta
    scale = theta / per_row  # with some derivatives at each row in turn, the mean is that of all
    turn = counters[PHASE_ROWS] * per_row
    fourier = plan[POINTS] == 0
    alpha, g, u = np.empty((n, p)), np.empty(n), np.empty(n)
    if not fourier and w.prepared[0] == 0.0:
        prepare(plan, n, state, w)
    d_k, value = np.empty((count, n)), np.empty(n)
    d_kappa, one = np.empty((count, 1)), np.empty(1)
    if not fourier:
        operations = operations_of(plan)
        program.cross_gradient(operations, state.parameters, state.basis, n, w.seen, value, d_k, w.kernel)
        x = w.seen.reshape(1, w.seen.size)
        program.cross_gradient(operations, state.parameters, x, 1, w.seen, one, d_kappa, w.kernel)
    by_mean = np.empty(p)
    for j in range(q):
        first, last = (j, j + 1) if q > 1 else (0, p)
        if np.isnan(w.y[first]):
            continue
        weights_of(plan, state, j, first, last, n, alpha, g, w)
        k = w.phi if fourier else w.k
        for c in range(per_row):
            h = (turn + c) % theta
            for o in range(first, last):
                by_mean[o] = 0.0
            by_variance = 0.0
            if h < count and fourier:  # the variance scales phi: dK = K = I, dk = phi
                by_variance = state.parameters[0] + 2.0 * vector.dot(k, g, n) + vector.dot(g, g, n)
                for i in range(n):
                    for o in range(first, last):
                        by_mean[o] += (k[i] + g[i]) * alpha[i, o]
            elif h < count:
                # d mean = dk'alpha + g'dK alpha,  d v = dkappa + 2 dk'g + g'dK g
                symmetric.multiply(w.derivatives[h], g, n, u)
                by_variance = d_kappa[h, 0] + 2.0 * vector.dot(d_k[h], g, n) + vector.dot(g, u, n)
                for i in range(n):
                    for o in range(first, last):
                        by_mean[o] += (d_k[h, i] + u[i]) * alpha[i, o]
            elif q == 1 or h == count + j:
                # log noise: d mean = -(k + K g)'alpha,  d v = -(k + K g)'g, and the noise itself in s
                if fourier:
                    vector.copy(g, n, u)
                else:
                    symmetric.multiply(w.derivatives[count], g, n, u)
                by_variance = state.noise[j]
                for i in range(n):
                    t = k[i] + u[i]
                    by_variance -= t * g[i]
                    for o in range(first, last):
                        by_mean[o] -= t * alpha[i, o]
            else:
                continue
            add_output(state, j, first, last, h, by_mean, by_variance, scale, w)
    # [soh2014] Eqs. (50), (51): the inverse of (1 - e) F + e g g'. As printed (51) multiplies the first term by e.
    e = 1.0 / plan[INTERVAL]
    row, product = gradient - before, np.empty(theta)
    for i in range(theta):
        product[i] = vector.dot(fisher[i], row, theta)
    denominator = (1.0 - e) + e * vector.dot(row, product, theta)
    if e < 1.0:
        for i in range(theta):
            for c in range(theta):
                fisher[i, c] = (fisher[i, c] - e * product[i] * product[c] / denominator) / (1.0 - e)


@compiled
def weights_of(
    plan: Array, state: State, j: int, first: int, last: int, n: int, alpha: Array, g: Array, w: Scratch
) -> None:
    """alpha and g = C k of output j, as weights of kernel functions (of features, where there is no kernel)."""
    if plan[FACTORED]:  # Fourier features: alpha = R^-1 z and C phi = noise (R'R)^-1 phi - phi
        R = state.covariance[j]
        triangular.solve_transposed(R, w.phi, n, g)
        triangular.solve(R, g, n, g)
        for i in range(n):
            g[i] = state.noise[j] * g[i] - w.phi[i]
        for o in range(first, last):
            for i in range(n):
                w.one[i] = state.mean[i, o]
            triangular.solve(R, w.one, n, w.one)
            for i in range(n):
                alpha[i, o] = w.one[i]
        return
    for i in range(n):
        g[i] = w.products[j, i] - (0.0 if plan[RELATIVE] else w.psi[i])
        for o in range(first, last):
            alpha[i, o] = state.mean[i, o]
    if plan[FEATURES] == features.POINTS:  # from coordinates in which the prior is the identity
        triangular.solve(state.factor, g, n, g)
        for o in range(first, last):
            for i in range(n):
                w.one[i] = alpha[i, o]
            triangular.solve(state.factor, w.one, n, w.one)
            for i in range(n):
                alpha[i, o] = w.one[i]


@compiled
def begin_interval(plan: Array, counters: Array, state: State, w: Scratch) -> None:
    theta = plan[THETA]
    counters[PHASE] = GATHERING
    counters[PHASE_ROWS] = 0
    w.prepared[0] = 0.0
    for i in range(theta):
        state.adapt.gradient[i] = 0.0
        for j in range(theta):
            state.adapt.fisher[i, j] = 1.0 / state.scalars[DAMPING] if i == j else 0.0


@compiled
def adapt_row(plan: Array, counters: Array, state: State, w: Scratch) -> None:
    """Before a row is learnt: gather its gradient, if it is time to."""
    if counters[PHASE] == GATHERING:
        gather(plan, counters, state, w)
    s_total = 0.0
    outputs = 0
    for o in range(plan[OUTPUTS]):
        if not np.isnan(w.y[o]):
            j = o if plan[COVARIANCES] > 1 else 0
            s = w.variance[j] + state.noise[j]
            e = w.y[o] - w.mean[o]
            s_total -= 0.5 * (np.log(2.0 * np.pi * s) + e * e / s)
            outputs += 1
    keep = min(1.0 - 1.0 / (counters[ROWS_SEEN] + 1.0), 0.99)  # a running mean over about a hundred rows
    state.scalars[DENSITY] = keep * state.scalars[DENSITY] + (1.0 - keep) * s_total / outputs


@compiled
def adapt_after(plan: Array, counters: Array, state: State, w: Scratch) -> None:
    """After a row was learnt: count it, and move where an interval ends."""
    phase = counters[PHASE]
    counters[PHASE_ROWS] += 1
    growing = plan[ENGINE] == DICTIONARY
    if phase == SETTLING:
        grew = counters[CHANGE] == ADMITTED
        if grew:
            counters[PHASE_ROWS] = 0
        full = growing and counters[SIZE] >= plan[CAPACITY]
        if full or counters[PHASE_ROWS] >= plan[INTERVAL]:
            begin_interval(plan, counters, state, w)
    elif phase == GATHERING and counters[PHASE_ROWS] >= plan[INTERVAL]:
        move(plan, counters, state, w)
        counters[PHASE] = RESTING if counters[PHASE] == GATHERING else counters[PHASE]
        counters[PHASE_ROWS] = 0
        if not growing and counters[PHASE] == RESTING:  # nothing can change in between
            begin_interval(plan, counters, state, w)
    elif phase == RESTING and counters[PHASE_ROWS] >= plan[REST]:
        begin_interval(plan, counters, state, w)
    if plan[TRACE] > 0 and counters[ROWS_SEEN] % counters[TRACE_STRIDE] == 0:
        record(plan, counters, state)


@compiled
def record(plan: Array, counters: Array, state: State) -> None:
    """One more point of the trace; a full one is thinned to every other point, and the stride doubles."""
    trace, size = state.adapt.trace, counters[TRACE_SIZE]
    if size == plan[TRACE]:
        for i in range(size // 2):
            vector.copy(trace[2 * i + 1], trace.shape[1], trace[i])
        for i in range(size // 2, size):
            vector.fill(trace[i], trace.shape[1], 0.0)
        size = size // 2
        counters[TRACE_STRIDE] *= 2
        if counters[ROWS_SEEN] % counters[TRACE_STRIDE] != 0:
            counters[TRACE_SIZE] = size
            return
    count = plan[PARAMETERS]
    trace[size, 0] = counters[ROWS_SEEN]
    trace[size, 1] = state.scalars[DENSITY]
    for h in range(count):
        trace[size, 2 + h] = state.parameters[h]
    for j in range(plan[COVARIANCES]):
        trace[size, 2 + count + j] = state.noise[j]
    counters[TRACE_SIZE] = size + 1


@compiled
def move(plan: Array, counters: Array, state: State, w: Scratch) -> None:
    """One natural step of theta and the posterior with it; a step that cannot be solved well is halved."""
    theta, count = plan[THETA], plan[PARAMETERS]
    counters[MOVES] += 1
    moves = counters[MOVES]
    rate = state.scalars[RATE] / moves ** state.scalars[DECAY]
    step = np.empty(theta)
    for i in range(theta):
        # [soh2014] Eq. (52)
        total = rate * vector.dot(state.adapt.fisher[i], state.adapt.gradient, theta) / plan[INTERVAL]
        step[i] = min(max(total, -state.scalars[CLIP]), state.scalars[CLIP])
    length2 = vector.dot(step, step, theta)
    counters[CALM] = counters[CALM] + 1 if length2 < state.scalars[TOLERANCE] else 0
    stop = state.scalars[TOLERANCE] > 0.0 and counters[CALM] >= plan[PATIENCE]
    here = np.empty(theta)
    for h in range(theta):
        here[h] = np.log(state.parameters[h] if h < count else state.noise[h - count])
    if stop:  # Polyak's average of the path is where it ends
        for h in range(theta):
            step[h] = state.adapt.average[h] - here[h]
        counters[PHASE] = STOPPED
    for _ in range(6):
        if go_to(plan, counters, state, here, step, w):
            break
        counters[REDUCED_STEPS] += 1
        for h in range(theta):
            step[h] *= 0.5
    weight = 4.0 / (moves + 3.0) if moves > 1 else 1.0  # recent steps count more
    for h in range(theta):
        now = np.log(state.parameters[h] if h < count else state.noise[h - count])
        state.adapt.average[h] += weight * (now - state.adapt.average[h])
