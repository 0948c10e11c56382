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

from streamgp.arrays import Model, opened
from streamgp.compiled import BOOLEAN, MATRIX, NOTHING, NUMBER, VECTOR, WHOLE, apart, compiled, entry
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
def clipped(m: Model, variance: float, kappa: float) -> float:
    """A variance of the function of the inputs, between 0 and its prior; with that of time, whatever the time adds."""
    if m.plan.temporal == 0:
        return min(max(variance, 0.0), kappa)
    return max(variance + m.now[FRESH], 0.0)  # type: ignore[no-any-return]


@compiled
def prior_variance(m: Model) -> float:
    """Of what the row that came has beside the function of the inputs: of time, and of the mean's weights."""
    return 0.0 if m.plan.temporal == 0 else m.now[PRIOR]


@compiled
def take_features(m: Model, x: Array) -> None:
    """The features of the mean are those of the row, behind its inputs."""
    feature, last, now = m.feature, m.last_prediction, m.now
    d, first = m.window.shape[1], m.plan.temporal - m.plan.mean_weights
    now[PRIOR] = m.plan.temporal_variance
    for i in range(m.plan.mean_weights):
        if feature[first + i] != x[d + i]:
            last[0] = 0.0  # what was predicted was another row, also where the memory cannot tell
        feature[first + i] = x[d + i]
        now[PRIOR] += x[d + i] * x[d + i]


@apart(NOTHING, LAYOUT.model, VECTOR, MATRIX, WHOLE, BOOLEAN)
def arrive(m: Model, x: Array, conditions: Array, t: int, advance: bool) -> None:
    """Row t comes at its time, or a usual spacing after the last: its temporal part of phi, and the variance since."""
    take_features(m, x)
    clock, now, feature = m.clock, m.now, m.feature
    given, gaps = conditions[t, TIME] if conditions.shape[0] > 0 else np.nan, m.spacing
    at = spacing.following(gaps, clock[SEEN, 0]) if np.isnan(given) else given
    now[AT] = at
    now[ELAPSED] = 0.0 if np.isnan(clock[LEARNED, 0]) else max(at - clock[LEARNED, 0], 0.0)
    prepare(m, now[ELAPSED])
    look_back(m, m.phi)
    table, now[FRESH] = m.table, 0.0
    for b in range(table.shape[0]):
        first = feature[int(table[b, START])]
        now[FRESH] += first * first * m.Q[b][0, 0]
    if advance:
        spacing.note(gaps, given - clock[LATEST, 0])
        for j in range(clock.shape[1]):
            clock[SEEN, j], clock[LATEST, j] = at, np.fmax(clock[LATEST, j], at)


@compiled
def prepare(m: Model, dt: float) -> None:
    """A and Q for the time dt, unless they are there already."""
    now = m.now
    if now[STEPPED] != dt:
        steps(m, dt)
        now[STEPPED] = dt


@apart(NOTHING, LAYOUT.model, WHOLE, NUMBER)
def pass_time(m: Model, n: int, gamma2: float) -> None:
    """Move the posterior, with n weights, to the time of the row that was predicted; phi and h follow."""
    q, mu, phi, H = m.plan.temporal, m.mu, m.phi, m.h
    clock, now, feature = m.clock, m.now, m.feature
    scale, fresh, mean_scale = m.scale, m.fresh, m.mean_scale
    y, forgotten = m.y, False
    if now[ELAPSED] > 0.0:
        move(m, mu)
        for j in range(m.plan.covariances):
            move_covariance(m, m.covariance[j], q + n)
            move_product(m, H[j])
    copy(feature, q, phi)
    for j in range(m.plan.covariances):
        clock[LEARNED, j] = now[AT]
        if scale[j] != 1.0 and (m.plan.half_life > 0.0 or not np.isnan(y[j])):
            go_back(m, j, scale[j], n)
            forgotten = True
        scale[j], fresh[j], mean_scale[j] = 1.0, 0.0, 1.0
    if forgotten:
        posterior.means(mu, phi, q + n, m.mean_now)
        for j in range(m.plan.covariances):
            multiply(m.covariance[j], phi, q + n, H[j])
            m.variance_now[j] = max(dot(phi, H[j], q + n) + max(gamma2, 0.0), 0.0)


@compiled
def move_product(m: Model, h: Array) -> None:
    """h = S phi follows: A (S phi) + Q feature."""
    table, feature = m.table, m.feature
    for b in range(table.shape[0]):
        i, size = int(table[b, START]), SIZES[int(table[b, KIND])]
        apply_block(m.A[b], size, h[i : i + 1], h[i + 1 : i + 2], h[i + 2 : i + 3])
        Q = m.Q[b]
        for r in range(size):
            h[i + r] += Q[r, 0] * feature[i]


@apart(NOTHING, LAYOUT.model, WHOLE, NUMBER, WHOLE, MATRIX)
def report_components(m: Model, n: int, gamma2: float, t: int, out: Array) -> None:
    """Write into column t, after the prediction, means and variances: of the inputs, then of each term over time."""
    p, c, q, table = m.plan.outputs, m.plan.covariances, m.plan.temporal, m.table
    feature, row = m.feature, p + 2 * c
    report_part(m, q, q + n, max(gamma2, 0.0), t, out, row)
    b = 0
    while b < table.shape[0]:
        group, first, end, fresh = table[b, GROUP], int(table[b, START]), 0, 0.0
        while b < table.shape[0] and table[b, GROUP] == group:
            start = int(table[b, START])
            end = start + SIZES[int(table[b, KIND])]
            fresh += feature[start] * feature[start] * m.Q[b][0, 0]
            b += 1
        row += p + c
        report_part(m, first, end, fresh, t, out, row)


@compiled
def report_part(m: Model, first: int, end: int, rest: float, t: int, out: Array, row: int) -> None:
    """Means and variances of what some coordinates and an independent rest add to the function, below a row of out."""
    mu, phi, power = m.mu, m.phi, m.power
    for o in range(m.plan.outputs):
        out[row + o, t] = 0.0
        for i in range(first, end):
            out[row + o, t] += phi[i] * mu[i, o]
    for j in range(m.plan.covariances):
        total = quadratic(m.covariance[j], phi, first, end) + rest
        scale = power[0, j] / power[1, j] if m.plan.power and power[1, j] > 0.0 else 1.0
        out[row + m.plan.outputs + j, t] = scale * max(total, 0.0)


@entry(LAYOUT.type, MATRIX, VECTOR, MATRIX, MATRIX)
def ahead(records: Array, buffers: Array, times: Array, Phi: Array, C: Array) -> None:
    """The temporal part of phi at times, (n, q), and the covariance of what is new since the posterior's, (n, n)."""
    m = opened(records, buffers, 0)
    table, feature, now = m.table, m.feature, m.now
    learned, new, seen = m.clock[LEARNED, 0], np.zeros(Phi.shape), np.empty(Phi.shape[1])
    for t in range(times.size):
        prepare(m, 0.0 if np.isnan(learned) else max(times[t] - learned, 0.0))
        look_back(m, Phi[t])
        for b in range(table.shape[0]):
            i, Q = int(table[b, START]), m.Q[b]
            for r in range(SIZES[int(table[b, KIND])]):
                new[t, i + r] = Q[r, 0] * feature[i]
    for t in range(times.size):
        for u in range(times.size):
            if times[u] >= times[t]:
                prepare(m, times[u] - times[t])
                look_back(m, seen)
                C[t, u] = C[u, t] = dot(seen, new[t], seen.size)
    now[STEPPED] = np.nan
