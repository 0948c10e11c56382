"""Where a model's numbers live: one float array and one integer array, cut into named views.

The floats are the state and behind it the work space; the integers are the counters and behind them the plan. The
same functions cut them for compiled code and for Python, so the layout is written once, and a call from Python hands
over two arrays, not thirty.
"""

from __future__ import annotations

from typing import NamedTuple

from numpy.typing import NDArray

from streamgp.compiled import compiled
from streamgp.memory import MemoryState, memory_at, memory_size

Array = NDArray

# What a model is: integers fixed when the first row arrives. The kernel's operations follow them.
(
    INPUTS,
    OUTPUTS,
    COVARIANCES,
    DEPTH,
    UNITS,
    STATE_SIZE,
    FEEDBACK,
    WIDTH,
    ENGINE,
    FEATURES,
    POINTS,
    FREQUENCIES,
    WEIGHTS,
    MATRICES,
    BATCH,
    CAPACITY,
    FACTORED,
    RELATIVE,
    ABSORB,
    EVICT,
    REMOVAL,
    UNTESTED,
    CHECK_EVERY,
    POWER,
    THETA,
    INTERVAL,
    REST,
    PER_ROW,
    PATIENCE,
    REBUILD,
    TRACE,
    STEPS,
    PARAMETERS,
    PLAN_SIZE,
) = range(34)

# How a row is learnt: weights of fixed number, a dictionary, least squares on one, or the rows of a dictionary alone.
WEIGHTED, DICTIONARY, LEAST_SQUARES, KEPT = range(4)

# What changes: integer state.
(
    ROWS_SEEN,
    SIZE,
    CHANGE,
    EVICTED,
    ROWS_SINCE_CHECK,
    FLOORED_PIVOTS,
    CAPPED_DIRECTIONS,
    NEGATIVE_VARIANCES,
    RESTORED_DIRECTIONS,
    REDUCED_STEPS,
    PHASE,
    PHASE_ROWS,
    MOVES,
    CALM,
    TRACE_SIZE,
    TRACE_STRIDE,
    COUNTERS_SIZE,
) = range(17)

# Kinds of last change.
NOTHING, ABSORBED, ADMITTED, REPLACED = range(4)

# Phases of adaptation: the basis settles, gradients are gathered while it is frozen, it may change, no more.
SETTLING, GATHERING, RESTING, STOPPED = range(4)

# Scalars of the float state.
(
    JITTER,
    NOVELTY,
    COVARIANCE_SCALE,
    MEAN_SCALE,
    RETENTION,
    PRIOR,
    RATE,
    DECAY,
    CLIP,
    TOLERANCE,
    DAMPING,
    DENSITY,
    SCALARS_SIZE,
) = range(13)


class AdaptState(NamedTuple):
    """What the adaptation of hyperparameters holds; theta are their logarithms, the noise last."""

    gradient: Array  # (theta,) sum over the interval
    fisher: Array  # (theta, theta) inverse
    average: Array  # (theta,) of the path
    residual: Array  # (2, q): sum of 1 / (gamma2 + noise) over absorbed rows, and how many
    trace: Array  # (TRACE, 2 + theta): row, running log density, hyperparameters


class State(NamedTuple):
    """Everything a model knows, as views of its two arrays."""

    scalars: Array  # (SCALARS_SIZE,)
    noise: Array  # (q,) one, or one for each output
    parameters: Array  # hyperparameters of the kernel; the variance of Fourier features
    memory: MemoryState
    basis: Array  # (points, width)
    factor: Array  # (points, points): R with K + jitter I = R'R, upper triangle
    inverse_diagonal: Array  # (points,) of Q = (R'R)^-1
    frequencies: Array  # (D, width)
    mean: Array  # (weights, p): alpha; z in the information form
    covariance: Array  # (q, weights, weights): C or P + C, lower triangle; R, upper triangle, in the information form
    targets: Array  # (points, p): of the basis points, where only those rows count
    power: Array  # (2, q): discounted sums of e^2 / s and of 1, whose ratio scales the variances
    adapt: AdaptState


class Scratch(NamedTuple):
    """Work space: nothing in it outlives a row."""

    seen: Array
    y: Array
    mean: Array
    variance: Array
    k: Array
    phi: Array
    psi: Array
    h: Array
    one: Array
    another: Array
    products: Array
    diagonals: Array
    gains: Array
    prepared: Array
    derivatives: Array
    kernel: Array


@compiled
def state_of(plan: Array, floats: Array) -> State:
    d, p, q, width = plan[INPUTS], plan[OUTPUTS], plan[COVARIANCES], plan[WIDTH]
    units, m, n, D = plan[UNITS], plan[POINTS], plan[WEIGHTS], plan[FREQUENCIES]
    scalars = floats[:SCALARS_SIZE]
    o = SCALARS_SIZE
    noise = floats[o : o + q]
    o += q
    parameters = floats[o : o + plan[PARAMETERS]]
    o += plan[PARAMETERS]
    remembered, o = memory_at(floats, o, plan[DEPTH], d, units, p)
    basis = floats[o : o + m * width].reshape(m, width)
    o += m * width
    factor = floats[o : o + m * m].reshape(m, m)
    o += m * m
    inverse_diagonal = floats[o : o + m]
    o += m
    frequencies = floats[o : o + D * width].reshape(D, width)
    o += D * width
    mean = floats[o : o + n * p].reshape(n, p)
    o += n * p
    matrices = plan[MATRICES]
    covariance = floats[o : o + matrices * n * n].reshape(matrices, n, n)
    o += matrices * n * n
    kept = m if plan[ENGINE] == KEPT or plan[REBUILD] else 0
    targets = floats[o : o + kept * p].reshape(kept, p)
    o += kept * p
    power = floats[o : o + 2 * q].reshape(2, q)
    o += 2 * q
    theta, length = plan[THETA], plan[TRACE]
    gradient = floats[o : o + theta]
    o += theta
    fisher = floats[o : o + theta * theta].reshape(theta, theta)
    o += theta * theta
    average = floats[o : o + theta]
    o += theta
    residual = floats[o : o + 2 * q].reshape(2, q)
    o += 2 * q
    trace = floats[o : o + length * (2 + theta)].reshape(length, 2 + theta)
    return State(
        scalars,
        noise,
        parameters,
        remembered,
        basis,
        factor,
        inverse_diagonal,
        frequencies,
        mean,
        covariance,
        targets,
        power,
        AdaptState(gradient, fisher, average, residual, trace),
    )


@compiled
def scratch_of(plan: Array, work: Array) -> Scratch:
    """Work space lies behind the state; work begins where the state ends."""
    p, q, width, n = plan[OUTPUTS], plan[COVARIANCES], plan[WIDTH], plan[WEIGHTS]
    o = width
    seen = work[:o]
    y = work[o : o + p]
    o += p
    mean = work[o : o + p]
    o += p
    variance = work[o : o + q]
    o += q
    k = work[o : o + n]
    o += n
    phi = work[o : o + n]
    o += n
    psi = work[o : o + n]
    o += n
    h = work[o : o + n]
    o += n
    one = work[o : o + n]
    o += n
    another = work[o : o + n]
    o += n
    products = work[o : o + q * n].reshape(q, n)
    o += q * n
    # Of a row that is learnt: the new diagonals of the covariances, and 1 / s of each (0 where nothing was learnt).
    diagonals = work[o : o + q * n].reshape(q, n)
    o += q * n
    gains = work[o : o + q]
    o += q
    # While gradients are gathered: K and its derivatives on the frozen basis, and whether they are there.
    prepared = work[o : o + 1]
    o += 1
    m = plan[POINTS] if plan[THETA] > 0 else 0
    matrices = plan[PARAMETERS] + 1 if m > 0 else 0
    derivatives = work[o : o + matrices * m * m].reshape(matrices, m, m)
    o += matrices * m * m
    return Scratch(
        seen,
        y,
        mean,
        variance,
        k,
        phi,
        psi,
        h,
        one,
        another,
        products,
        diagonals,
        gains,
        prepared,
        derivatives,
        work[o:],
    )


def float_size(plan: Array) -> int:
    """Length of the float state."""
    d, p, q, width, units = (int(plan[i]) for i in (INPUTS, OUTPUTS, COVARIANCES, WIDTH, UNITS))
    m, n, D = int(plan[POINTS]), int(plan[WEIGHTS]), int(plan[FREQUENCIES])
    remembered = memory_size(int(plan[DEPTH]), d, units, p)
    posterior = n * p + int(plan[MATRICES]) * n * n + (m * p if plan[ENGINE] == KEPT or plan[REBUILD] else 0)
    theta = int(plan[THETA])
    adapt = theta * (theta + 2) + 2 * q + int(plan[TRACE]) * (2 + theta)
    points = m * (width + m + 1) + D * width
    return SCALARS_SIZE + q + int(plan[PARAMETERS]) + remembered + points + posterior + 2 * q + adapt


def work_size(plan: Array, kernel_scratch: int) -> int:
    """Length of the work space."""
    p, q, n = int(plan[OUTPUTS]), int(plan[COVARIANCES]), int(plan[WEIGHTS])
    m = int(plan[POINTS]) if plan[THETA] else 0
    derivatives = 1 + (int(plan[PARAMETERS]) + 1) * m * m * (m > 0)
    return int(plan[WIDTH]) + 2 * p + 2 * q + (6 + 2 * q) * n + derivatives + kernel_scratch


@compiled
def parts_of(integers: Array, floats: Array) -> tuple[Array, Array, State, Scratch]:
    """The plan, the counters, the state and the work space of a model."""
    counters, plan = integers[:COUNTERS_SIZE], integers[COUNTERS_SIZE:]
    return plan, counters, state_of(plan, floats), scratch_of(plan, floats[plan[STATE_SIZE] :])


@compiled
def operations_of(plan: Array) -> Array:
    return plan[PLAN_SIZE : PLAN_SIZE + 4 * plan[STEPS]].reshape(plan[STEPS], 4)
