"""One receptive field of LWPR: a kernel with its own distance metric, and in it a regression by partial least squares.

All statistics are sums with forgetting, so that a field needs no data of the past. Letters are those of
[vijayakumar2005]: M is the factor of the distance metric D = M'M, s the projected inputs, e_cv the error before a row
is learnt and e the one after.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamgp.compiled import compiled
from streamgp.linalg.vector import dot

Array = NDArray

# Numbers of a field.
BETA0, SPREAD, SUM_E2, SSP, SCALARS = range(5)

# Statistics of each of its directions.
SS2, SSY, LENGTH, LAMBDA, N_DATA, SUM_W, SUM_E_CV2, H, R, STATISTICS = range(10)

# Settings, as numbers.
(
    W_GEN,
    W_PRUNE,
    PENALTY,
    META_RATE,
    INIT_LAMBDA,
    TAU_LAMBDA,
    FINAL_LAMBDA,
    INIT_S2,
    ADD_THRESHOLD,
    CUTOFF,
    HORIZON,
    SETTINGS,
) = range(12)

# Counts and sums start a little above 0, so that means and errors can be divided by them from the first row on.
ALMOST_NOTHING = 1e-10
# A direction whose correlations are shorter than this keeps pointing where it did.
SHORTEST = 1e-12
# Errors are counted and metrics move once the data seen are this part of all that forgetting lets a field remember ...
ENOUGH_TO_DESCEND = 0.1
# ... and a direction may be followed by another once it has seen this part.
ENOUGH_TO_ADD = 0.5
# A metric does not shrink by more than this part of its largest entry at once.
LARGEST_STEP = 0.1
# A row that determines its direction alone, leverage 1, has no error without itself and leaves no trace.
SMALLEST_REST = 1e-6
# Learning rates exp(b): b moves by at most the first and stays within the second.
LARGEST_META_STEP, LARGEST_META = 0.1, 10.0


class Field(NamedTuple):
    """Everything a field knows, as views of one row of the model's arrays."""

    c: Array  # (d,) centre
    M: Array  # (m,) factor of the metric: its diagonal, or its upper triangle row by row
    alpha: Array  # (m,) learning rates of M
    b: Array  # (m,) their logarithms, with meta learning
    h: Array  # (m,) memory of past steps, with meta learning
    mean_x: Array  # (d,)
    scalars: Array  # (SCALARS,)
    stats: Array  # (STATISTICS, directions)
    SXY: Array  # (directions, d) sum of w x_res y_res: the directions, up to their length
    SXS: Array  # (directions, d) sum of w x_res s: the loadings, times sum of w s^2


class Scratch(NamedTuple):
    """Work space: nothing in it outlives a row."""

    x: Array  # (d,) normalised input
    x_mz: Array  # (d,) less the field's mean
    dx: Array  # (d,) less the field's centre
    z: Array  # (d,) M dx
    s: Array  # (directions,) projections
    target: Array  # (directions,)
    e_cv: Array  # (directions,)
    x_res: Array  # (directions, d)
    D: Array  # (d, d) metric
    gradient: Array  # (m,)
    curvature: Array  # (m,)
    activation: Array  # (outputs, capacity)


@compiled
def record_size(d: int, directions: int, m: int, meta: int) -> int:
    """How many numbers a field keeps beside its centre and its metric."""
    return m + 2 * m * meta + d + SCALARS + STATISTICS * directions + 2 * directions * d


@compiled
def field_of(centre: Array, metric: Array, record: Array, directions: int, meta: int) -> Field:
    d, m = centre.size, metric.size
    o = m
    alpha = record[:o]
    b = record[o : o + m * meta]
    o += m * meta
    h = record[o : o + m * meta]
    o += m * meta
    mean_x = record[o : o + d]
    o += d
    scalars = record[o : o + SCALARS]
    o += SCALARS
    stats = record[o : o + STATISTICS * directions].reshape(STATISTICS, directions)
    o += STATISTICS * directions
    SXY = record[o : o + directions * d].reshape(directions, d)
    o += directions * d
    SXS = record[o : o + directions * d].reshape(directions, d)
    return Field(centre, metric, alpha, b, h, mean_x, scalars, stats, SXY, SXS)


@compiled
def begin(f: Field, n: int, x: Array, y: float, settings: Array) -> None:
    """A field that has seen nothing, centred on x; c, M and alpha are set, all else is zero."""
    f.scalars[BETA0] = y
    for i in range(f.b.size):
        f.b[i] = np.log(f.alpha[i])
    for i in range(n):
        begin_direction(f, i, settings)
        f.stats[N_DATA, i] = ALMOST_NOTHING
    for j in range(x.size):
        f.c[j] = x[j]


@compiled
def begin_direction(f: Field, i: int, settings: Array) -> None:
    """Direction i before any data: the axis i."""
    f.SXY[i, i] = SHORTEST
    f.stats[LENGTH, i] = SHORTEST
    f.stats[SS2, i] = settings[INIT_S2]
    f.stats[SUM_W, i] = ALMOST_NOTHING
    f.stats[LAMBDA, i] = settings[INIT_LAMBDA]


@compiled
def activate(
    centres: Array, metrics: Array, first: int, last: int, horizon: float, w: Scratch, activation: Array
) -> None:
    """Activations at w.x of the fields first..last-1, 0 beyond the horizon; w.dx and w.z are left of the last one."""
    x, dx, z = w.x, w.dx, w.z
    d = x.size
    diagonal = metrics.shape[1] == d
    for k in range(first, last):
        q = 0.0
        entry = 0
        for j in range(d):
            dx[j] = x[j] - centres[k, j]
        for i in range(d):
            z[i] = 0.0
            for j in range(i, i + 1 if diagonal else d):
                z[i] += metrics[k, entry] * dx[j]
                entry += 1
            q += z[i] * z[i]
        # [vijayakumar2005] the kernel w = exp(-q / 2), q = dx'D dx, D = M'M
        activation[k] = np.exp(-0.5 * q) if q <= horizon else 0.0


@compiled
def project(f: Field, n: int, x: Array, s: Array, x_res: Array) -> None:
    """Projections s_i = u_i'x_res,i of a mean-free input, each taken out of it before the next: x_res - p_i s_i."""
    stats, SXY, SXS = f.stats, f.SXY, f.SXS
    for i in range(n):
        step = s[i - 1] / stats[SS2, i - 1] if i > 0 else 0.0
        total = 0.0
        for j in range(x.size):
            x_res[i, j] = x_res[i - 1, j] - step * SXS[i - 1, j] if i > 0 else x[j]
            total += SXY[i, j] * x_res[i, j]
        s[i] = total / stats[LENGTH, i]


@compiled
def grown_directions(f: Field, n: int) -> int:
    """Directions that count in predictions: the newest only when it has seen data enough."""
    return n if f.stats[N_DATA, n - 1] > 2.0 * f.c.size else n - 1


@compiled
def learn_means(f: Field, y: float, weight: float, w: Scratch) -> float:
    """Learn the weighted means; returns the mean-free target and leaves the mean-free input in w.x_mz."""
    old = f.stats[SUM_W, 0] * f.stats[LAMBDA, 0]
    total = old + weight
    # [vijayakumar2005] incremental PLS: the means
    for j in range(w.x.size):
        f.mean_x[j] = (old * f.mean_x[j] + weight * w.x[j]) / total
        w.x_mz[j] = w.x[j] - f.mean_x[j]
    f.scalars[BETA0] = (old * f.scalars[BETA0] + weight * y) / total
    y_mz = y - f.scalars[BETA0]
    f.scalars[SPREAD] = (old * f.scalars[SPREAD] + weight * y_mz * y_mz) / total
    return y_mz  # type: ignore[no-any-return]


@compiled
def learn_regression(f: Field, n: int, y: float, weight: float, init_S2: float, w: Scratch) -> tuple[float, float]:
    """Learn a mean-free row by partial least squares; returns e and e_cv and leaves the new projections in w.s."""
    d = w.x_mz.size
    project(f, n, w.x_mz, w.s, w.x_res)
    y_res = y
    for i in range(n):
        w.target[i] = y_res
        y_res -= f.stats[SSY, i] / f.stats[SS2, i] * w.s[i]
        w.e_cv[i] = y_res
    leverage = 0.0
    for i in range(n):
        s, target, lam = w.s[i], w.target[i], f.stats[LAMBDA, i]
        f.stats[SUM_W, i] = lam * f.stats[SUM_W, i] + weight
        # [vijayakumar2005] incremental PLS: the univariate regressions. Directions forget ten times more slowly.
        slow = 0.9 + 0.1 * lam
        for j in range(d):
            f.SXY[i, j] = slow * f.SXY[i, j] + weight * target * w.x_res[i, j]
            f.SXS[i, j] = lam * f.SXS[i, j] + weight * s * w.x_res[i, j]
        f.stats[LENGTH, i] = keep_length(f.SXY[i], i)
        # The initial variance is not forgotten: a direction without data then stays at slope 0.
        f.stats[SS2, i] = init_S2 + lam * (f.stats[SS2, i] - init_S2) + weight * s * s
        f.stats[SSY, i] = lam * f.stats[SSY, i] + weight * target * s
        leverage += weight * weight * s * s / f.stats[SS2, i]
    newest_lam = f.stats[LAMBDA, n - 1]
    f.scalars[SSP] = newest_lam * f.scalars[SSP] + leverage
    project(f, n, w.x_mz, w.s, w.x_res)
    grown = grown_directions(f, n)
    e = y
    for i in range(grown):
        e -= f.stats[SSY, i] / f.stats[SS2, i] * w.s[i]
    e_cv = w.e_cv[grown - 1] if grown > 0 else y
    if has_enough(f, 0, 0, ENOUGH_TO_DESCEND):
        f.scalars[SUM_E2] = newest_lam * f.scalars[SUM_E2] + weight * e * e
        for i in range(n):
            f.stats[SUM_E_CV2, i] = f.stats[LAMBDA, i] * f.stats[SUM_E_CV2, i] + weight * w.e_cv[i] * w.e_cv[i]
    return e, e_cv


@compiled
def keep_length(direction: Array, i: int) -> float:
    """Return the length of the direction; one that has nearly vanished is brought back to SHORTEST."""
    length = np.sqrt(dot(direction, direction, direction.size))
    if length >= SHORTEST:
        return length  # type: ignore[no-any-return]
    for j in range(direction.size):
        direction[j] *= SHORTEST / length if length > 0.0 else 0.0
    if length == 0.0:
        direction[i] = SHORTEST
    return SHORTEST


@compiled
def has_enough(f: Field, i: int, reference: int, part: float) -> bool:
    """Whether direction i has seen this part of the 1 / (1 - lambda) rows that forgetting lets a field remember."""
    return f.stats[N_DATA, i] * (1.0 - f.stats[LAMBDA, reference]) > part  # type: ignore[no-any-return]


@compiled
def cost_slope(
    f: Field, n: int, s: Array, weight: float, e: float, e_cv: float, E: float, W: float
) -> tuple[float, float, float]:
    """dJ1/dw and d2J1/dw2 of the leave-one-out cost J1 = E / W, and the leverage of the row."""
    h = slope = inner = quadratic = 0.0
    for i in range(n):
        if has_enough(f, i, 0, ENOUGH_TO_DESCEND):
            Ps = s[i] / f.stats[SS2, i]
            h += s[i] * Ps
            inner += 2.0 * Ps * f.stats[H, i]
            quadratic += 2.0 * Ps * Ps * f.stats[R, i]
    # [vijayakumar2005] derivatives for the distance metric: dJ1/dw
    slope = (-E / W + e_cv * e_cv - e * inner - quadratic) / W
    # The second derivative as in the library of [klanke2008].
    bend = (2.0 * (e * e * h - e_cv * e_cv / W) + E / (W * W) + 2.0 * e * inner * (1.0 / W + h)) / W
    return slope, bend, weight * h


@compiled
def metric_derivatives(
    M: Array, weight: float, slope: float, bend: float, share: float, penalty: float, w: Scratch
) -> None:
    """Gradient and curvature of J = J1 + penalty sum D_ij^2 by the entries of M, for the row with M dx in w.z."""
    d = w.dx.size
    diagonal = M.size == d
    if diagonal:
        for i in range(d):
            w.D[0, i] = M[i] * M[i]
    else:
        metric_of(M, w.D)
    k = 0
    for i in range(d):
        first = k
        row2 = 0.0
        for j in range(i, i + 1 if diagonal else d):
            row2 += M[first + j - i] * M[first + j - i]
        for j in range(i, i + 1 if diagonal else d):
            # q = |M dx|^2: dq/dM_ij = 2 z_i dx_j, and w = exp(-q/2)
            by_M = -weight * w.z[i] * w.dx[j]
            by_MM = weight * w.dx[j] * w.dx[j] * (w.z[i] * w.z[i] - 1.0)
            # sum D^2 = |M'M|^2: its gradient is 4 M D
            if diagonal:
                D_jj = w.D[0, i]
                MD = M[k] * D_jj
            else:
                D_jj = w.D[j, j]
                MD = dot(M[first : first + d - i], w.D[j, i:], d - i)
            # [vijayakumar2005] dJ/dM = dJ1/dw dw/dM + (w / W) dJ2/dM: each row has its part of the penalty
            w.gradient[k] = slope * by_M + share * penalty * 4.0 * MD
            w.curvature[k] = slope * by_MM + bend * by_M * by_M + share * penalty * 4.0 * (D_jj + row2 + M[k] * M[k])
            k += 1


@compiled
def metric_of(M: Array, D: Array) -> None:
    """D = M'M from the upper triangle of M, row by row."""
    d = D.shape[0]
    for i in range(d):
        for j in range(d):
            D[i, j] = 0.0
    k = 0
    for r in range(d):
        row = M[k : k + d - r]
        for i in range(d - r):
            for j in range(d - r):
                D[r + i, r + j] += row[i] * row[j]
        k += d - r


@compiled
def descend(f: Field, n: int, weight: float, e: float, e_cv: float, settings: Array, w: Scratch) -> None:
    """Move the metric down the gradient of the leave-one-out cost; w.s, w.dx and w.z belong to the row."""
    if not has_enough(f, 0, 0, ENOUGH_TO_DESCEND):
        return
    W = f.stats[SUM_W, 0]
    E = f.stats[SUM_E_CV2, max(grown_directions(f, n), 1) - 1]
    slope, bend, h = cost_slope(f, n, w.s, weight, e, e_cv, E, W)
    # Small while the errors after learning are far below those before: the field is not settled yet.
    transient = min((f.scalars[SUM_E2] / (E + ALMOST_NOTHING)) ** 4, 1.0)
    penalty = settings[PENALTY] / w.dx.size
    metric_derivatives(f.M, weight, slope, bend, weight / W, penalty, w)
    if f.b.size > 0:
        adapt_rates(f, settings[META_RATE], transient, w)
    largest = 0.0
    for k in range(f.M.size):
        largest = max(largest, abs(f.M[k]))
    for k in range(f.M.size):
        step = transient * f.alpha[k] * w.gradient[k]
        if step <= LARGEST_STEP * largest:
            f.M[k] -= step
        else:
            f.alpha[k] *= 0.5
    if abs(1.0 - h) > SMALLEST_REST:
        for i in range(n):
            if has_enough(f, i, 0, ENOUGH_TO_DESCEND):
                lam, part = f.stats[LAMBDA, i], transient * weight / (1.0 - h)
                # [vijayakumar2005] the memory traces of the derivatives
                f.stats[H, i] = lam * f.stats[H, i] + part * e_cv * w.s[i]
                f.stats[R, i] = lam * f.stats[R, i] + part * weight * e_cv * e_cv * w.s[i] * w.s[i]


@compiled
def adapt_rates(f: Field, meta_rate: float, transient: float, w: Scratch) -> None:
    """Learning rates exp(b) by incremental delta-bar-delta [sutton1992]: up where successive steps agree."""
    for k in range(f.M.size):
        move = meta_rate * transient * w.gradient[k] * f.h[k]
        b = f.b[k] - min(max(move, -LARGEST_META_STEP), LARGEST_META_STEP)
        f.b[k] = min(max(b, -LARGEST_META), LARGEST_META)
        f.alpha[k] = np.exp(f.b[k])
        rate = transient * f.alpha[k]
        f.h[k] = f.h[k] * max(1.0 - rate * w.curvature[k], 0.0) - rate * w.gradient[k]


@compiled
def add_direction(f: Field, n: int, settings: Array) -> int:
    """Add a direction if the newest made the error much smaller and knows enough; returns how many there are."""
    if n >= f.stats.shape[1] or n < 2:
        return n
    newest, before = f.stats[:, n - 1], f.stats[:, n - 2]
    mse = newest[SUM_E_CV2] / newest[SUM_W] + ALMOST_NOTHING
    mse_before = before[SUM_E_CV2] / before[SUM_W] + ALMOST_NOTHING
    if (
        mse < settings[ADD_THRESHOLD] * mse_before
        and newest[N_DATA] > 0.99 * f.stats[N_DATA, 0]
        and has_enough(f, n - 1, n - 1, ENOUGH_TO_ADD)
    ):
        begin_direction(f, n, settings)
        f.scalars[SSP] = 0.0
        return n + 1
    return n


@compiled
def learn(f: Field, n: int, y: float, weight: float, move: int, settings: Array, w: Scratch) -> int:
    """Learn a row at w.x with this activation, which has left w.dx and w.z; returns how many directions there are."""
    y_mz = learn_means(f, y, weight, w)
    e, e_cv = learn_regression(f, n, y_mz, weight, settings[INIT_S2], w)
    if move:
        descend(f, n, weight, e, e_cv, settings, w)
    n = add_direction(f, n, settings)
    tau, final = settings[TAU_LAMBDA], settings[FINAL_LAMBDA]
    for i in range(n):
        f.stats[N_DATA, i] = f.stats[LAMBDA, i] * f.stats[N_DATA, i] + 1.0
        f.stats[LAMBDA, i] = tau * f.stats[LAMBDA, i] + (1.0 - tau) * final
    return n


@compiled
def predict(f: Field, n: int, weight: float, w: Scratch) -> tuple[float, float]:
    """The field's own mean at w.x and the variance of its prediction."""
    for j in range(w.x.size):
        w.x_mz[j] = w.x[j] - f.mean_x[j]
    grown = grown_directions(f, n)
    project(f, grown, w.x_mz, w.s, w.x_res)
    y = f.scalars[BETA0]
    leverage = 0.0
    for i in range(grown):
        y += f.stats[SSY, i] / f.stats[SS2, i] * w.s[i]
        leverage += w.s[i] * w.s[i] / f.stats[SS2, i]
    # [vijayakumar2005] confidence of one model: the error per row, less the degrees of freedom used
    newest = max(grown, 1) - 1
    freedom = f.stats[SUM_W, newest] - f.scalars[SSP]
    noise = f.scalars[SPREAD]
    if f.stats[SUM_E_CV2, newest] > 0.0 and freedom > 0.0:
        noise = f.stats[SUM_E_CV2, newest] / freedom
    return y, max(noise, ALMOST_NOTHING) * (1.0 + weight * leverage)
