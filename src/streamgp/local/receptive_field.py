"""One receptive field of LWPR: a kernel with its own distance metric, and in it a regression by partial least squares.

All statistics are sums with forgetting, so that a field needs no data of the past. Letters are those of
[vijayakumar2005]: M is the factor of the distance metric D = M'M, s the projected inputs, e_cv the error before a row
is learned and e the one after.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import Model
from streamgp.compiled import compiled
from streamgp.linalg.vector import copy, dot, fill

Array = NDArray

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


# What fields know; of those that are not in use all is 0.
STATE = {
    "centers": "fields width",
    "metrics": "fields entries",  # M: its diagonal, or its upper triangle row by row
    "alpha": "fields entries",  # learning rates of M
    "b": "fields meta",  # their logarithms, with meta learning
    "h": "fields meta",  # memory of past steps, with meta learning
    "mean_x": "fields width",
    "beta0": "fields",  # mean target
    "spread": "fields",  # its variance
    "sum_e2": "fields",
    "ssp": "fields",  # degrees of freedom used
    "directions": "fields",  # in use
    "trusted": "fields",  # whether the field has seen enough to predict
    "last_active": "fields",
    "ss2": "fields projections",  # sum of w s^2
    "ssy": "fields projections",  # sum of w s y_res
    "length": "fields projections",  # of SXY
    "forget": "fields projections",  # lambda
    "n_data": "fields projections",
    "sum_w": "fields projections",
    "sum_e_cv2": "fields projections",
    "H": "fields projections",  # memory traces of the derivatives
    "R": "fields projections",
    "SXY": "fields projections width",  # sum of w x_res y_res: the directions, up to their length
    "SXS": "fields projections width",  # sum of w x_res s: the loadings, times sum of w s^2
}

WORK = {
    "x": "width",  # normalized input
    "x_mz": "width",  # less the field's mean
    "dx": "width",  # less the field's center
    "z": "width",  # M dx
    "x_res": "projections width",
    "D": "width width",  # metric
    "activation": "fields",
    **dict.fromkeys(("s", "target", "e_cv"), "projections"),
    **dict.fromkeys(("gradient", "curvature"), "entries"),
}


@compiled
def begin(m: Model, g: int, y: float) -> None:
    """Center field g, which has seen nothing, on x; M, alpha and the number of directions are set, all else is 0."""
    m.beta0[g] = y
    for i in range(m.b.shape[1]):
        m.b[g, i] = np.log(m.alpha[g, i])
    for i in range(int(m.directions[g])):
        begin_direction(m, g, i)
        m.n_data[g, i] = ALMOST_NOTHING
    copy(m.x, m.x.size, m.centers[g])


@compiled
def begin_direction(m: Model, g: int, i: int) -> None:
    """Direction i before any data: the axis i."""
    m.SXY[g][i, i] = SHORTEST
    m.length[g, i] = SHORTEST
    m.ss2[g, i] = m.plan.init_S2
    m.sum_w[g, i] = ALMOST_NOTHING
    m.forget[g, i] = m.plan.init_lambda


@compiled
def entries(M: Array, i: int, d: int) -> int:
    """How many entries of row i of M are kept: its diagonal, or from there to its end."""
    return 1 if M.size == d else d - i


@compiled
def activate(m: Model, first: int, last: int) -> None:
    """Activations at x of the fields first..last-1, 0 beyond the horizon; dx and z are left of the last one."""
    x, dx, z, activation = m.x, m.dx, m.z, m.activation
    centers, metrics, horizon = m.centers, m.metrics, m.plan.horizon
    d = x.size
    diagonal = metrics.shape[1] == d
    for k in range(first, last):
        q = 0.0
        entry = 0
        for j in range(d):
            dx[j] = x[j] - centers[k, j]
        for i in range(d):
            z[i] = 0.0
            for j in range(i, i + 1 if diagonal else d):
                z[i] += metrics[k, entry] * dx[j]
                entry += 1
            q += z[i] * z[i]
        # [vijayakumar2005] the kernel w = exp(-q / 2), q = dx'D dx, D = M'M
        activation[k] = np.exp(-0.5 * q) if q <= horizon else 0.0


@compiled
def project(m: Model, g: int, n: int) -> None:
    """Projections s_i = u_i'x_res,i of the mean-free input, each taken out of it before the next: x_res - p_i s_i."""
    x, s, x_res = m.x_mz, m.s, m.x_res
    ss2, length = m.ss2[g], m.length[g]
    SXY, SXS = m.SXY[g], m.SXS[g]
    for i in range(n):
        step = s[i - 1] / ss2[i - 1] if i > 0 else 0.0
        total = 0.0
        for j in range(x.size):
            x_res[i, j] = x_res[i - 1, j] - step * SXS[i - 1, j] if i > 0 else x[j]
            total += SXY[i, j] * x_res[i, j]
        s[i] = total / length[i]


@compiled
def grown_directions(m: Model, g: int) -> int:
    """Directions that count in predictions: the newest only when it has seen data enough."""
    n = int(m.directions[g])
    return n if m.n_data[g, n - 1] > 2.0 * m.x.size else n - 1


@compiled
def learn_means(m: Model, g: int, y: float, weight: float) -> float:
    """Learn the weighted means; returns the mean-free target and leaves the mean-free input in x_mz."""
    x, x_mz, mean_x, beta0, spread = m.x, m.x_mz, m.mean_x[g], m.beta0, m.spread
    old = m.sum_w[g, 0] * m.forget[g, 0]
    total = old + weight
    # [vijayakumar2005] incremental PLS: the means
    for j in range(x.size):
        mean_x[j] = (old * mean_x[j] + weight * x[j]) / total
        x_mz[j] = x[j] - mean_x[j]
    beta0[g] = (old * beta0[g] + weight * y) / total
    y_mz = y - beta0[g]
    spread[g] = (old * spread[g] + weight * y_mz * y_mz) / total
    return y_mz  # type: ignore[no-any-return]


@compiled
def learn_regression(m: Model, g: int, y: float, weight: float) -> tuple[float, float]:
    """Learn a mean-free row by partial least squares; returns e and e_cv and leaves the new projections in s."""
    n, init_S2, x_res = int(m.directions[g]), m.plan.init_S2, m.x_res
    s, target, e_cv = m.s, m.target, m.e_cv
    ss2, ssy, forget = m.ss2[g], m.ssy[g], m.forget[g]
    sum_w, sum_e_cv2, length = m.sum_w[g], m.sum_e_cv2[g], m.length[g]
    SXY, SXS = m.SXY[g], m.SXS[g]
    ssp, sum_e2 = m.ssp, m.sum_e2
    project(m, g, n)
    y_res = y
    for i in range(n):
        target[i] = y_res
        y_res -= ssy[i] / ss2[i] * s[i]
        e_cv[i] = y_res
    leverage = 0.0
    for i in range(n):
        lam = forget[i]
        sum_w[i] = lam * sum_w[i] + weight
        # [vijayakumar2005] incremental PLS: the univariate regressions. Directions forget ten times more slowly.
        slow = 0.9 + 0.1 * lam
        for j in range(x_res.shape[1]):
            SXY[i, j] = slow * SXY[i, j] + weight * target[i] * x_res[i, j]
            SXS[i, j] = lam * SXS[i, j] + weight * s[i] * x_res[i, j]
        length[i] = keep_length(SXY[i], i)
        # The initial variance is not forgotten: a direction without data then stays at slope 0.
        ss2[i] = init_S2 + lam * (ss2[i] - init_S2) + weight * s[i] * s[i]
        ssy[i] = lam * ssy[i] + weight * target[i] * s[i]
        leverage += weight * weight * s[i] * s[i] / ss2[i]
    ssp[g] = forget[n - 1] * ssp[g] + leverage
    project(m, g, n)
    grown = grown_directions(m, g)
    e = y
    for i in range(grown):
        e -= ssy[i] / ss2[i] * s[i]
    if may_descend(m, g, 0):
        sum_e2[g] = forget[n - 1] * sum_e2[g] + weight * e * e
        for i in range(n):
            sum_e_cv2[i] = forget[i] * sum_e_cv2[i] + weight * e_cv[i] * e_cv[i]
    return e, (e_cv[grown - 1] if grown > 0 else y)


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
def may_descend(m: Model, g: int, i: int) -> bool:
    """Whether direction i has seen enough of the 1 / (1 - lambda) rows that forgetting lets a field remember."""
    return m.n_data[g, i] * (1.0 - m.forget[g, 0]) > ENOUGH_TO_DESCEND  # type: ignore[no-any-return]


@compiled
def cost_slope(
    m: Model, g: int, weight: float, e: float, e_cv: float, E: float, W: float
) -> tuple[float, float, float]:
    """dJ1/dw and d2J1/dw2 of the leave-one-out cost J1 = E / W, and the leverage of the row."""
    s, ss2, H, R = m.s, m.ss2[g], m.H[g], m.R[g]
    h = slope = inner = quadratic = 0.0
    for i in range(int(m.directions[g])):
        if may_descend(m, g, i):
            Ps = s[i] / ss2[i]
            h += s[i] * Ps
            inner += 2.0 * Ps * H[i]
            quadratic += 2.0 * Ps * Ps * R[i]
    # [vijayakumar2005] derivatives for the distance metric: dJ1/dw
    slope = (-E / W + e_cv * e_cv - e * inner - quadratic) / W
    # The second derivative as in the library of [klanke2008].
    bend = (2.0 * (e * e * h - e_cv * e_cv / W) + E / (W * W) + 2.0 * e * inner * (1.0 / W + h)) / W
    return slope, bend, weight * h


@compiled
def metric_derivatives(
    m: Model, g: int, weight: float, slope: float, bend: float, share: float, penalty: float
) -> None:
    """Gradient and curvature of J = J1 + penalty sum D_ij^2 by the entries of M, for the row with M dx in z."""
    M, D, dx, z = m.metrics[g], m.D, m.dx, m.z
    gradient, curvature, k = m.gradient, m.curvature, 0
    metric_of(M, D)
    for i in range(dx.size):
        row = M[k : k + entries(M, i, dx.size)]
        row2 = dot(row, row, row.size)
        for j in range(i, i + row.size):
            # q = |M dx|^2: dq/dM_ij = 2 z_i dx_j, and w = exp(-q/2)
            by_M = -weight * z[i] * dx[j]
            by_MM = weight * dx[j] * dx[j] * (z[i] * z[i] - 1.0)
            # sum D^2 = |M'M|^2: its gradient is 4 M D
            MD = dot(row, D[j, i:], row.size)
            # [vijayakumar2005] dJ/dM = dJ1/dw dw/dM + (w / W) dJ2/dM: each row has its part of the penalty
            gradient[k] = slope * by_M + share * penalty * 4.0 * MD
            curvature[k] = slope * by_MM + bend * by_M * by_M + share * penalty * 4.0 * (D[j, j] + row2 + M[k] * M[k])
            k += 1


@compiled
def metric_of(M: Array, D: Array) -> None:
    """D = M'M; of a diagonal one nothing else is read."""
    k = 0
    for i in range(D.shape[0]):
        fill(D[i], D.shape[0], 0.0)
    for r in range(D.shape[0]):
        row = M[k : k + entries(M, r, D.shape[0])]
        for i in range(row.size):
            for j in range(row.size):
                D[r + i, r + j] += row[i] * row[j]
        k += row.size


@compiled
def descend(m: Model, g: int, weight: float, e: float, e_cv: float) -> None:
    """Move the metric down the gradient of the leave-one-out cost; s, dx and z belong to the row."""
    if not may_descend(m, g, 0):
        return
    M, alpha, gradient = m.metrics[g], m.alpha[g], m.gradient
    s, H, R, forget = m.s, m.H[g], m.R[g], m.forget[g]
    W = m.sum_w[g, 0]
    E = m.sum_e_cv2[g, max(grown_directions(m, g), 1) - 1]
    slope, bend, h = cost_slope(m, g, weight, e, e_cv, E, W)
    # Small while the errors after learning are far below those before: the field is not settled yet.
    transient = min((m.sum_e2[g] / (E + ALMOST_NOTHING)) ** 4, 1.0)
    metric_derivatives(m, g, weight, slope, bend, weight / W, m.plan.penalty / m.x.size)
    adapt_rates(m, g, transient)
    largest = 0.0
    for k in range(M.size):
        largest = max(largest, abs(M[k]))
    for k in range(M.size):
        step = transient * alpha[k] * gradient[k]
        if step <= LARGEST_STEP * largest:
            M[k] -= step
        else:
            alpha[k] *= 0.5
    if abs(1.0 - h) > SMALLEST_REST:
        part = transient * weight / (1.0 - h)
        for i in range(int(m.directions[g])):
            if may_descend(m, g, i):
                # [vijayakumar2005] the memory traces of the derivatives
                H[i] = forget[i] * H[i] + part * e_cv * s[i]
                R[i] = forget[i] * R[i] + part * weight * e_cv * e_cv * s[i] * s[i]


@compiled
def adapt_rates(m: Model, g: int, transient: float) -> None:
    """Learning rates exp(b) by incremental delta-bar-delta [sutton1992]: up where successive steps agree."""
    alpha, b, h = m.alpha[g], m.b[g], m.h[g]
    gradient, curvature = m.gradient, m.curvature
    for k in range(b.size):
        move = m.plan.meta_rate * transient * gradient[k] * h[k]
        moved = b[k] - min(max(move, -LARGEST_META_STEP), LARGEST_META_STEP)
        b[k] = min(max(moved, -LARGEST_META), LARGEST_META)
        alpha[k] = np.exp(b[k])
        rate = transient * alpha[k]
        h[k] = h[k] * max(1.0 - rate * curvature[k], 0.0) - rate * gradient[k]


@compiled
def add_direction(m: Model, g: int) -> None:
    """Add a direction if the newest made the error much smaller and knows enough."""
    n, forget = int(m.directions[g]), m.forget[g]
    n_data, sum_w, sum_e_cv2 = m.n_data[g], m.sum_w[g], m.sum_e_cv2[g]
    if n >= n_data.size or n < 2:
        return
    mse = sum_e_cv2[n - 1] / sum_w[n - 1] + ALMOST_NOTHING
    mse_before = sum_e_cv2[n - 2] / sum_w[n - 2] + ALMOST_NOTHING
    if (
        mse < m.plan.add_threshold * mse_before
        and n_data[n - 1] > 0.99 * n_data[0]
        and n_data[n - 1] * (1.0 - forget[n - 1]) > ENOUGH_TO_ADD
    ):
        begin_direction(m, g, n)
        m.ssp[g] = 0.0
        m.directions[g] = n + 1


@compiled
def learn(m: Model, g: int, y: float, weight: float) -> None:
    """Learn a row at x with this activation, which has left dx and z."""
    n_data, forget, tau = m.n_data[g], m.forget[g], m.plan.tau_lambda
    y_mz = learn_means(m, g, y, weight)
    e, e_cv = learn_regression(m, g, y_mz, weight)
    if m.plan.update_D:
        descend(m, g, weight, e, e_cv)
    add_direction(m, g)
    for i in range(int(m.directions[g])):
        n_data[i] = forget[i] * n_data[i] + 1.0
        forget[i] = tau * forget[i] + (1.0 - tau) * m.plan.final_lambda


@compiled
def predict(m: Model, g: int, weight: float) -> tuple[float, float]:
    """The field's own mean at x and the variance of its prediction."""
    x, x_mz, mean_x, s = m.x, m.x_mz, m.mean_x[g], m.s
    ss2, ssy, sum_e_cv2 = m.ss2[g], m.ssy[g], m.sum_e_cv2[g]
    for j in range(x.size):
        x_mz[j] = x[j] - mean_x[j]
    grown = grown_directions(m, g)
    project(m, g, grown)
    y = m.beta0[g]
    leverage = 0.0
    for i in range(grown):
        y += ssy[i] / ss2[i] * s[i]
        leverage += s[i] * s[i] / ss2[i]
    # [vijayakumar2005] confidence of one model: the error per row, less the degrees of freedom used
    newest = max(grown, 1) - 1
    freedom = m.sum_w[g, newest] - m.ssp[g]
    noise = m.spread[g]
    if sum_e_cv2[newest] > 0.0 and freedom > 0.0:
        noise = sum_e_cv2[newest] / freedom
    return y, max(noise, ALMOST_NOTHING) * (1.0 + weight * leverage)
