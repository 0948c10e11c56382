"""Time: what passes between two rows where there is a kernel over time beside the inputs, y = f(x) + g(t) + noise.

The coordinates of g come before the weights of f in mu, S, phi and h. Between two rows

    mu <- A mu        S <- A S A' + I - A A'        A = diag(A_g(dt), sqrt(l) I)

where l is what forgetting keeps of f; without a kernel over time, that part is fused into the update (posterior.py). A
row is predicted by the posterior as it stands, phi = [A_g' feature; phi(x)]. Before it is learned, the posterior moves
to its time, phi becomes [feature; phi(x)], and the same update follows as without time.

The weights of a LinearMean (mean.py) are the last of these coordinates. They stay as they are, A = 1, and their feature
is not constant: it comes with the row, behind its inputs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import Record, block, matrix, vector
from streamgp.compiled import BOOLEAN, MATRIX, NOTHING, NUMBER, VECTOR, WHOLE, apart, borrowed, compiled, entry
from streamgp.contract import spacing
from streamgp.contract.conditions import TIME
from streamgp.linalg.symmetric import multiply
from streamgp.linalg.vector import copy, dot
from streamgp.process import posterior
from streamgp.process.row import AT, ELAPSED, FRESH, LATEST, LEARNED, PRIOR, SEEN, STEPPED, go_back
from streamgp.process.state import LAYOUT
from streamgp.process.temporal import (
    GROUP,
    KIND,
    SIZES,
    START,
    apply_block,
    look_back,
    move,
    move_covariance,
    quadratic,
    steps,
)

Array = NDArray


@compiled
def clipped(m: Record, f: Array, variance: float, kappa: float) -> float:
    """A variance of the function of the inputs, between 0 and its prior; with that of time, whatever the time adds."""
    if m.plan.temporal == 0:
        return min(max(variance, 0.0), kappa)
    return max(variance + vector(f, m.at.now)[FRESH], 0.0)  # type: ignore[no-any-return]


@compiled
def prior_variance(m: Record, f: Array) -> float:
    """Of what the row that came has beside the function of the inputs: of time, and of the mean's weights."""
    return 0.0 if m.plan.temporal == 0 else vector(f, m.at.now)[PRIOR]


@compiled
def take_features(m: Record, f: Array, x: Array) -> None:
    """The features of the mean are those of the row, behind its inputs."""
    feature, last, now = vector(f, m.at.feature), vector(f, m.at.last_prediction), vector(f, m.at.now)
    d, first = m.at.window.columns, m.plan.temporal - m.plan.mean_weights
    now[PRIOR] = m.plan.temporal_variance
    for i in range(m.plan.mean_weights):
        if feature[first + i] != x[d + i]:
            last[0] = 0.0  # what was predicted was another row, also where the memory cannot tell
        feature[first + i] = x[d + i]
        now[PRIOR] += x[d + i] * x[d + i]


@apart(NOTHING, LAYOUT.one, VECTOR, VECTOR, MATRIX, WHOLE, BOOLEAN)
def arrive(m: Record, f: Array, x: Array, conditions: Array, t: int, advance: bool) -> None:
    """Row t comes at its time, or a usual spacing after the last: its temporal part of phi, and the variance since."""
    take_features(m, f, x)
    clock, now, feature = matrix(f, m.at.clock), vector(f, m.at.now), vector(f, m.at.feature)
    given, gaps = conditions[t, TIME] if conditions.shape[0] > 0 else np.nan, vector(f, m.at.spacing)
    at = spacing.following(gaps, clock[SEEN, 0]) if np.isnan(given) else given
    now[AT] = at
    now[ELAPSED] = 0.0 if np.isnan(clock[LEARNED, 0]) else max(at - clock[LEARNED, 0], 0.0)
    prepare(m, f, now[ELAPSED])
    look_back(m, f, vector(f, m.at.phi))
    table, now[FRESH] = matrix(f, m.at.table), 0.0
    for b in range(table.shape[0]):
        first = feature[int(table[b, START])]
        now[FRESH] += first * first * block(f, m.at.Q, b)[0, 0]
    if advance:
        spacing.note(gaps, given - clock[LATEST, 0])
        for j in range(clock.shape[1]):
            clock[SEEN, j], clock[LATEST, j] = at, np.fmax(clock[LATEST, j], at)


@compiled
def prepare(m: Record, f: Array, dt: float) -> None:
    """A and Q for the time dt, unless they are there already."""
    now = vector(f, m.at.now)
    if now[STEPPED] != dt:
        steps(m, f, dt)
        now[STEPPED] = dt


@apart(NOTHING, LAYOUT.one, VECTOR, WHOLE, NUMBER)
def pass_time(m: Record, f: Array, n: int, gamma2: float) -> None:
    """Move the posterior, with n weights, to the time of the row that was predicted; phi and h follow."""
    q, mu, phi, H = m.plan.temporal, matrix(f, m.at.mu), vector(f, m.at.phi), matrix(f, m.at.h)
    clock, now, feature = matrix(f, m.at.clock), vector(f, m.at.now), vector(f, m.at.feature)
    scale, fresh, mean_scale = vector(f, m.at.scale), vector(f, m.at.fresh), vector(f, m.at.mean_scale)
    y, forgotten = vector(f, m.at.y), False
    if now[ELAPSED] > 0.0:
        move(m, f, mu)
        for j in range(m.plan.covariances):
            move_covariance(m, f, block(f, m.at.covariance, j), q + n)
            move_product(m, f, H[j])
    copy(feature, q, phi)
    for j in range(m.plan.covariances):
        clock[LEARNED, j] = now[AT]
        if scale[j] != 1.0 and (m.plan.half_life > 0.0 or not np.isnan(y[j])):
            go_back(m, f, j, scale[j], n)
            forgotten = True
        scale[j], fresh[j], mean_scale[j] = 1.0, 0.0, 1.0
    if forgotten:
        posterior.means(mu, phi, q + n, vector(f, m.at.mean_now))
        for j in range(m.plan.covariances):
            multiply(block(f, m.at.covariance, j), phi, q + n, H[j])
            vector(f, m.at.variance_now)[j] = max(dot(phi, H[j], q + n) + max(gamma2, 0.0), 0.0)


@compiled
def move_product(m: Record, f: Array, h: Array) -> None:
    """h = S phi follows: A (S phi) + Q feature."""
    table, feature = matrix(f, m.at.table), vector(f, m.at.feature)
    for b in range(table.shape[0]):
        i, size = int(table[b, START]), SIZES[int(table[b, KIND])]
        apply_block(block(f, m.at.A, b), size, h[i : i + 1], h[i + 1 : i + 2], h[i + 2 : i + 3])
        Q = block(f, m.at.Q, b)
        for r in range(size):
            h[i + r] += Q[r, 0] * feature[i]


@apart(NOTHING, LAYOUT.one, VECTOR, WHOLE, NUMBER, WHOLE, MATRIX)
def report_components(m: Record, f: Array, n: int, gamma2: float, t: int, out: Array) -> None:
    """Write into column t, after the prediction, means and variances: of the inputs, then of each term over time."""
    p, c, q, table = m.plan.outputs, m.plan.covariances, m.plan.temporal, matrix(f, m.at.table)
    feature, row = vector(f, m.at.feature), p + 2 * c
    report_part(m, f, q, q + n, max(gamma2, 0.0), t, out, row)
    b = 0
    while b < table.shape[0]:
        group, first, end, fresh = table[b, GROUP], int(table[b, START]), 0, 0.0
        while b < table.shape[0] and table[b, GROUP] == group:
            start = int(table[b, START])
            end = start + SIZES[int(table[b, KIND])]
            fresh += feature[start] * feature[start] * block(f, m.at.Q, b)[0, 0]
            b += 1
        row += p + c
        report_part(m, f, first, end, fresh, t, out, row)


@compiled
def report_part(m: Record, f: Array, first: int, end: int, rest: float, t: int, out: Array, row: int) -> None:
    """Means and variances of what some coordinates and an independent rest add to the function, below a row of out."""
    mu, phi, power = matrix(f, m.at.mu), vector(f, m.at.phi), matrix(f, m.at.power)
    for o in range(m.plan.outputs):
        out[row + o, t] = 0.0
        for i in range(first, end):
            out[row + o, t] += phi[i] * mu[i, o]
    for j in range(m.plan.covariances):
        total = quadratic(block(f, m.at.covariance, j), phi, first, end) + rest
        scale = power[0, j] / power[1, j] if m.plan.power and power[1, j] > 0.0 else 1.0
        out[row + m.plan.outputs + j, t] = scale * max(total, 0.0)


@entry(LAYOUT.type, MATRIX, VECTOR, MATRIX, MATRIX)
def ahead(records: Array, buffers: Array, times: Array, Phi: Array, C: Array) -> None:
    """The temporal part of phi at times, (n, q), and the covariance of what is new since the posterior's, (n, n)."""
    m, f = borrowed(records)[0], borrowed(buffers)[0]
    table, feature, now = matrix(f, m.at.table), vector(f, m.at.feature), vector(f, m.at.now)
    learned, new, seen = matrix(f, m.at.clock)[LEARNED, 0], np.zeros(Phi.shape), np.empty(Phi.shape[1])
    for t in range(times.size):
        prepare(m, f, 0.0 if np.isnan(learned) else max(times[t] - learned, 0.0))
        look_back(m, f, Phi[t])
        for b in range(table.shape[0]):
            i, Q = int(table[b, START]), block(f, m.at.Q, b)
            for r in range(SIZES[int(table[b, KIND])]):
                new[t, i + r] = Q[r, 0] * feature[i]
    for t in range(times.size):
        for u in range(times.size):
            if times[u] >= times[t]:
                prepare(m, f, times[u] - times[t])
                look_back(m, f, seen)
                C[t, u] = C[u, t] = dot(seen, new[t], seen.size)
    now[STEPPED] = np.nan
