"""The kernel over time: what passes between two rows, beside the inputs, y = f(x) + g(t) + noise, or alone.

The coordinates of g come before the weights of f in mu, S, phi and h. Between two rows

    mu <- A mu        S <- A S A' + I - A A'        A = diag(A_g(dt), sqrt(l) I)

where l is what forgetting keeps of f; without a kernel over time, that part is fused into the update (posterior.py). A
row is predicted by the posterior as it stands, phi = [A_g' feature; phi(x)]. Before it is learned, the posterior moves
to its time, phi becomes [feature; phi(x)], and the same update follows as without time.

A_g and Q = I - A_g A_g' are made of one block for each term of the kernel (kernels/temporal.py). Q is computed as a
series where A_g is near I.

The weights of a LinearMean (mean.py) are the last of these coordinates. They stay as they are, A = 1, and their feature
is not constant: it comes with the row, behind its inputs.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import Model, opened
from streamgp.compiled import BOOLEAN, CUBE, MATRIX, NOTHING, NUMBER, VECTOR, WHOLE, apart, compiled, entry
from streamgp.contract import spacing
from streamgp.contract.conditions import TIME
from streamgp.kernels.temporal import (
    COORDINATES,
    DECAY,
    HARMONIC,
    LONGEST_GAP,
    MATERN32,
    MATERN52,
    TREND,
    WIDE,
    Component,
)
from streamgp.linalg.symmetric import multiply
from streamgp.linalg.vector import copy, dot
from streamgp.process import posterior
from streamgp.process.row import AT, ELAPSED, FRESH, LATEST, LEARNED, PRIOR, SEEN, STEPPED, decay, go_back
from streamgp.process.state import LAYOUT

Array = NDArray

KIND, START, RATE, FREQUENCY, GROUP = range(5)  # of a block in the table
SIZES = np.array([1, 2, 2, 3, 2])
# Below this rate times time Q is the sum of a series, whose terms beyond the last are far below rounding.
SHORT, TERMS = 0.5, 30


def _series(N: Array) -> tuple[Array, Array]:
    """N^2 / 2, and the coefficients of I - A A' in powers of s, where A = e^-s (I + s N + s^2 N^2 / 2)."""
    powers = [np.eye(3), N, N @ N / 2.0]
    polynomial = np.zeros((5, 3, 3))
    for i, left in enumerate(powers):
        for j, right in enumerate(powers):
            polynomial[i + j] += left @ right.T
    terms = np.zeros((TERMS + 1, 3, 3))
    for n in range(1, TERMS + 1):
        for k in range(min(n, 4) + 1):
            terms[n] -= polynomial[k] * (-2.0) ** (n - k) / float(math.factorial(n - k))
    return powers[2], np.where(np.abs(terms) < 1e-13 * np.abs(terms).max(), 0.0, terms)


def _nilpotent_52() -> Array:
    """F / rate + I of Matern 5/2 in coordinates in which the stationary covariance is the identity."""
    F = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [-1.0, -3.0, -3.0]])
    P = np.array([[1.0, 0.0, -1.0 / 3.0], [0.0, 1.0 / 3.0, 0.0], [-1.0 / 3.0, 0.0, 1.0]])
    L = np.linalg.cholesky(P)
    return np.ascontiguousarray(np.linalg.solve(L, (F + np.eye(3)) @ L))


N32 = np.array([[1.0, 1.0, 0.0], [-1.0, -1.0, 0.0], [0.0, 0.0, 0.0]])
N52 = _nilpotent_52()
HALF32, TERMS32 = _series(N32)
HALF52, TERMS52 = _series(N52)


def tabulated(terms: list[Component]) -> tuple[Array, Array]:
    """The blocks of a kernel's terms as compiled code reads them, (blocks, 5), and the features of all coordinates."""
    blocks = [(one, float(group)) for group, term in enumerate(terms) for one in term.blocks]
    starts = np.cumsum([0] + [COORDINATES[one.kind] for one, _ in blocks])
    table = [
        (one.kind, start, one.rate, one.frequency, group) for (one, group), start in zip(blocks, starts, strict=False)
    ]
    return np.array(table, dtype=np.float64), np.concatenate([one.feature for one, _ in blocks])


@compiled
def step(kind: int, rate: float, frequency: float, dt: float, A: Array, Q: Array) -> None:
    """A and Q of one block for the time dt."""
    s = rate * dt
    if kind == DECAY:
        A[0, 0], Q[0, 0] = decay(s)
    elif kind == HARMONIC:
        a, angle = np.exp(-s), frequency * dt
        A[0, 0] = A[1, 1] = a * np.cos(angle)
        A[0, 1] = a * np.sin(angle)
        A[1, 0] = -A[0, 1]
        Q[0, 0] = Q[1, 1] = decay(s)[1]
        Q[0, 1] = Q[1, 0] = 0.0
    elif kind == TREND:
        s = min(s, LONGEST_GAP)
        A[0, 0] = A[1, 1] = 1.0
        A[0, 1], A[1, 0] = s, 0.0
        Q[0, 0], Q[1, 1] = s * s * s / (WIDE * WIDE), 3.0 * s / (WIDE * WIDE)
        Q[0, 1] = Q[1, 0] = 1.5 * s * s / (WIDE * WIDE)
    elif kind == MATERN32:
        matern(N32, HALF32, TERMS32, 2, s, A, Q)
    elif kind == MATERN52:
        matern(N52, HALF52, TERMS52, 3, s, A, Q)


@compiled
def matern(N: Array, half: Array, terms: Array, size: int, s: float, A: Array, Q: Array) -> None:
    a = np.exp(-s)
    for i in range(size):
        for j in range(size):
            A[i, j] = a * ((1.0 if i == j else 0.0) + s * (N[i, j] + s * half[i, j]))
    for i in range(size):
        for j in range(size):
            total = 0.0
            if s < SHORT:
                for n in range(TERMS, 0, -1):
                    total = s * (terms[n, i, j] + total)
            else:
                total = (1.0 if i == j else 0.0) - dot(A[i], A[j], size)
            Q[i, j] = total


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
    for i in range(m.plan.mean_weights):
        if feature[first + i] != x[d + i]:
            last[0] = 0.0  # what was predicted was another row, also where the memory cannot tell
        feature[first + i] = x[d + i]
    now[PRIOR] = dot(feature, feature, m.plan.temporal)


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
    q, first = m.plan.temporal, m.plan.temporal - m.plan.mean_weights
    copy(m.back, first, m.phi)
    copy(feature[first:], m.plan.mean_weights, m.phi[first:])
    now[FRESH] = dot(m.new, feature, q)
    if advance:
        spacing.note(gaps, given - clock[LATEST, 0])
        for j in range(clock.shape[1]):
            clock[SEEN, j], clock[LATEST, j] = at, np.fmax(clock[LATEST, j], at)


@compiled
def steps(table: Array, dt: float, A: Array, Q: Array) -> None:
    """A and Q of all blocks for the time dt."""
    for b in range(table.shape[0]):
        step(int(table[b, KIND]), table[b, RATE], table[b, FREQUENCY], dt, A[b], Q[b])


@compiled
def prepare(m: Model, dt: float) -> None:
    """A, Q, A' feature and Q feature for the time dt, unless they are there already."""
    table, feature, back, new, now = m.table, m.feature, m.back, m.new, m.now
    if now[STEPPED] == dt:
        return
    steps(table, dt, m.A, m.Q)
    now[STEPPED] = dt
    for b in range(table.shape[0]):
        i, A, Q = int(table[b, START]), m.A[b], m.Q[b]
        for j in range(SIZES[int(table[b, KIND])]):
            back[i + j], new[i + j] = A[0, j] * feature[i], Q[j, 0] * feature[i]


@compiled
def apply_block(A: Array, size: int, a: Array, b: Array, c: Array) -> None:
    """Replace entries of up to three vectors, the block's coordinates, by A times them."""
    a0, a1, a2, b0, b1, b2 = A[0, 0], A[0, 1], A[0, 2], A[1, 0], A[1, 1], A[1, 2]
    if size == 1:
        for k in range(a.size):
            a[k] *= a0
    elif size == 2:
        for k in range(a.size):
            x, y = a[k], b[k]
            a[k], b[k] = a0 * x + a1 * y, b0 * x + b1 * y
    else:
        c0, c1, c2 = A[2, 0], A[2, 1], A[2, 2]
        for k in range(a.size):
            x, y, z = a[k], b[k], c[k]
            a[k] = a0 * x + a1 * y + a2 * z
            b[k] = b0 * x + b1 * y + b2 * z
            c[k] = c0 * x + c1 * y + c2 * z


@compiled
def rotate(table: Array, A: Array, x: Array, out: Array) -> None:
    """out = A x, which may be x itself."""
    for b in range(table.shape[0]):
        i, size = int(table[b, START]), SIZES[int(table[b, KIND])]
        if size == 1:
            out[i] = A[b, 0, 0] * x[i]
        elif size == 2:
            y, z = x[i], x[i + 1]
            out[i] = A[b, 0, 0] * y + A[b, 0, 1] * z
            out[i + 1] = A[b, 1, 0] * y + A[b, 1, 1] * z
        else:
            w, y, z = x[i], x[i + 1], x[i + 2]
            for j in range(3):
                out[i + j] = A[b, j, 0] * w + A[b, j, 1] * y + A[b, j, 2] * z


@compiled
def move_covariance(table: Array, A: Array, Q: Array, S: Array, n: int) -> int:
    """S <- A S A' + Q on the lower triangle: every block turns its rows, and its columns in all rows below.

    Returns how many trends start anew.
    """
    anew = 0
    for b in range(table.shape[0]):
        i, size = int(table[b, START]), SIZES[int(table[b, KIND])]
        end = i + size
        second, third = min(i + 1, end - 1), min(i + 2, end - 1)
        for r in range(i, end):
            for c in range(r + 1, end):
                S[r, c] = S[c, r]
        apply_block(A[b], size, S[i, :end], S[second, :end], S[third, :end])
        apply_block(A[b], size, S[i:n, i], S[i:n, second], S[i:n, third])
        for r in range(size):
            for c in range(size):
                S[i + r, i + c] = S[i + r, i + c] + Q[b, r, c] if c <= r else 0.0
        if int(table[b, KIND]) == TREND and A[b, 0, 1] == LONGEST_GAP:
            anew += 1
    return anew


@apart(NOTHING, LAYOUT.model, WHOLE, NUMBER)
def pass_time(m: Model, n: int, gamma2: float) -> None:
    """Move the posterior, with n weights, to the time of the row that was predicted; phi and h follow."""
    q, mu, phi, H = m.plan.temporal, m.mu, m.phi, m.h
    clock, now, feature = m.clock, m.now, m.feature
    scale, fresh, mean_scale = m.scale, m.fresh, m.mean_scale
    y, forgotten = m.y, False
    if now[ELAPSED] > 0.0:
        table, A, Q, new = m.table, m.A, m.Q, m.new
        for o in range(m.plan.outputs):
            rotate(table, A, mu[:, o], mu[:, o])
        for j in range(m.plan.covariances):
            m.counters.capped_directions += move_covariance(table, A, Q, m.covariance[j], q + n)
            h = H[j]  # S phi becomes S feature: A (S phi) + Q feature
            rotate(table, A, h, h)
            for i in range(q):
                h[i] += new[i]
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
def quadratic(S: Array, phi: Array, first: int, end: int) -> float:
    """phi'S phi of some coordinates."""
    total = 0.0
    for i in range(first, end):
        total += phi[i] * (2.0 * dot(S[i, first:i], phi[first:i], i - first) + S[i, i] * phi[i])
    return total


@apart(NOTHING, LAYOUT.model, WHOLE, NUMBER, WHOLE, CUBE)
def report_components(m: Model, n: int, gamma2: float, t: int, out: Array) -> None:
    """Write after the prediction of row t means and variances: of the inputs, then of each term over time."""
    q, table, feature, column = m.plan.temporal, m.table, m.feature, 3
    report_part(m, q, q + n, max(gamma2, 0.0), t, out, column)
    b = 0
    while b < table.shape[0]:
        group, first, end = table[b, GROUP], int(table[b, START]), 0
        while b < table.shape[0] and table[b, GROUP] == group:
            end = int(table[b, START]) + SIZES[int(table[b, KIND])]
            b += 1
        column += 2
        report_part(m, first, end, dot(m.new[first:end], feature[first:end], end - first), t, out, column)


@compiled
def report_part(m: Model, first: int, end: int, rest: float, t: int, out: Array, column: int) -> None:
    """Mean and variance of what some coordinates and an independent rest add to the function, from a column of out."""
    mu, phi, power = m.mu, m.phi, m.power
    for o in range(m.plan.outputs):
        out[column, t, o] = 0.0
        for i in range(first, end):
            out[column, t, o] += phi[i] * mu[i, o]
        j = o if m.plan.covariances > 1 else 0
        if o == j:
            total = quadratic(m.covariance[j], phi, first, end) + rest
            scale = power[0, j] / power[1, j] if m.plan.power and power[1, j] > 0.0 else 1.0
            out[column + 1, t, o] = scale * max(total, 0.0)
        else:
            out[column + 1, t, o] = out[column + 1, t, 0]


@entry(LAYOUT.type, MATRIX, VECTOR, MATRIX, MATRIX, MATRIX)
def ahead(records: Array, buffers: Array, times: Array, Phi: Array, C: Array, new: Array) -> None:
    """The temporal part of phi at times, (n, q), and the covariance of what is new since the posterior's, (n, n).

    new: (n, q) work space.
    """
    m = opened(records, buffers, 0)
    learned = m.clock[LEARNED, 0]
    for t in range(times.size):
        prepare(m, 0.0 if np.isnan(learned) else max(times[t] - learned, 0.0))
        copy(m.back, m.plan.temporal, Phi[t])
        copy(m.new, m.plan.temporal, new[t])
    for t in range(times.size):
        for u in range(times.size):
            if times[u] >= times[t]:
                prepare(m, times[u] - times[t])
                C[t, u] = C[u, t] = dot(m.back, new[t], m.plan.temporal)
