"""Moving a posterior to other hyperparameters: what was learned from the data stays, the prior under it is exchanged.

When K = R'R becomes K' = R''R' and the noise of what was learned is multiplied by r, then with P = R R'^-1, S = L L',
W = P'L and B = W'W + (I - L'L) / r = N N'

    S' = V V'      mu' = V N^-1 L^-1 mu / r      V = W N^-T      (V and W lower, N upper triangular)

positive by construction, without an inverse of S or K. Equal to the batch GP under the new hyperparameters. Fourier
features under another variance are the case P = I / c. The other way, ``rebuild``, is the paper's: learn the basis
points' own targets again.

Points that the others explain under the new kernel leave first. Were the prior variance any number of times the noise,
that would feed on itself: few points need more variance, and more variance leaves fewer points distinct.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import Model
from streamgp.compiled import compiled, inlined
from streamgp.kernels import program
from streamgp.linalg import symmetric, triangular
from streamgp.linalg.vector import copy, dot
from streamgp.process import budget, features, growing, posterior
from streamgp.process.adapt.gradient import residual_noise

Array = NDArray

# Of the prior variance to the noise. Here a point leaves (budget.py) when the others know it to 1e-6 of its variance,
# which is the noise; at ten times the ratio it would be a hundred times the noise.
LARGEST_RATIO = 1e6

# Nats a row that the points which leave at one move may take with them.
MOST_LOST = 0.01


@inlined
def move_to(m: Model, unit: Array, here: Array, step: Array) -> bool:
    """Take the posterior from here to here + step, logarithms where they have no unit; False where it fails."""
    count, q = m.parameters.size, m.plan.covariances
    parameters, noise = np.empty(count), np.empty(q)
    for h in range(count):
        there = here[h] + step[h]
        parameters[h] = there if unit[h] > 0.0 else np.exp(there)
    for j in range(q):
        noise[j] = np.exp(here[count + j] + step[count + j])
    if m.plan.features == features.FOURIER:
        moved = rescale(m, parameters[0], noise)
    else:
        moved = move_basis(m, parameters, noise)
    if moved:
        copy(parameters, count, m.parameters)
        copy(noise, q, m.noise)
    return moved


@inlined
def rescale(m: Model, variance: float, noise: Array) -> bool:
    """Fourier features under another variance and noise."""
    if m.plan.factored:
        return scale_information(m, variance, noise)
    n, scale = m.plan.temporal + m.plan.weights, np.sqrt(m.parameters[0] / variance)
    P = np.zeros((n, n))
    for i in range(n):
        P[i, i] = 1.0 if i < m.plan.temporal else scale
    return rebase(m, n, P, 1.0, noise)


@compiled
def move_basis(m: Model, parameters: Array, noise: Array) -> bool:
    """Basis points under another kernel and noise."""
    K = prior(m, parameters)
    n = K.shape[0]
    R, Q = np.zeros((n, n)), np.empty(n)
    if m.plan.features == features.DICTIONARY:
        growing.raise_to(noise, np.trace(K) / (LARGEST_RATIO * max(n, 1)))
        full, left, leaving = K.copy(), np.arange(n), np.empty(n, np.int64)
        n = keep_distinct(K, R, Q, np.min(noise), growing.stays(m), left, leaving)
        if lost_density(m, full, R, n, left, noise) > MOST_LOST:
            return False
        for i in range(full.shape[0] - n):
            growing.evict(m, leaving[i])
            m.counters.indistinct_points += 1
    elif not triangular.factorize(K, n, R):
        return False
    before = after = 0.0
    for i in range(n):
        before += m.prior[i]
        after += K[i, i]
    if m.plan.rebuild:
        rebuild(m, n, R, noise)
    else:
        q, old = m.plan.temporal, m.factor
        P = np.eye(q + n)  # the prior over time stays
        for i in range(n):  # row i of P solves P R' = R
            row = P[q + i, q:]
            for c in range(i, n):
                row[c] = old[i, c]
            triangular.solve_transposed_from(R, i, n, row)
        if not rebase(m, q + n, P, after / before, noise):
            return False
    for i in range(n):
        m.prior[i] = K[i, i]
        copy(R[i], n, m.factor[i])
    if m.plan.features == features.DICTIONARY:
        copy(Q, n, m.inverse_diagonal)
        score(m, n)
    return True


@inlined
def prior(m: Model, parameters: Array) -> Array:
    """K under other hyperparameters, full."""
    n, basis = m.counters.points, m.basis
    operations, scratch, K = m.operations, m.kernel_scratch, np.empty((n, n))
    for i in range(n):
        program.cross(operations, parameters, basis, i + 1, basis[i], K[i], scratch)
        K[i, i] *= 1.0 + m.plan.jitter
        for j in range(i):
            K[j, i] = K[i, j]
    return K


@inlined
def keep_distinct(K: Array, R: Array, Q: Array, noise: float, stays: bool, left: Array, leaving: Array) -> Any:
    """Factorize K = R'R without the points that would not be distinct under it; returns how many are left.

    left: which ones; leaving: which others, in order, each counted at its own moment.
    """
    n = K.shape[0]
    diagonal, gone = np.empty(n), 0
    while True:
        if triangular.factorize(K, n, R):
            diagonal_of_inverse(R, n, Q)
            for i in range(n):
                diagonal[i] = K[i, i]
            r = budget.least_distinct(Q, diagonal, n, noise, True, stays)
            if r < 0:
                return n
        else:  # the point whose pivot failed
            r = 0
            while R[r, r] > 0.0:
                r += 1
        leaving[gone] = r
        gone += 1
        for i in range(n):
            growing.drop(K[i], r, n)
        growing.drop_row(K, r, n)
        for i in range(r, n - 1):
            left[i] = left[i + 1]
        n -= 1


@inlined
def lost_density(m: Model, K: Array, R: Array, n: int, left: Array, noise: Array) -> Any:
    """Log density a row that is lost where points leave: their means against those of the new kernel on the others.

    K is the new prior of all points, R the factor of those left, and each point stands for as many rows.
    """
    points, lost, phi, means = K.shape[0], 0.0, np.empty(n), np.empty(n)
    if n == points:
        return lost
    leaves = np.ones(points, np.bool_)
    for i in range(n):
        leaves[left[i]] = False
    for o in range(m.plan.outputs):
        j = o if m.plan.covariances > 1 else 0
        for i in range(n):
            means[i] = growing.mean_at(m, left[i], o)
        triangular.solve_transposed(R, means, n, means)
        for r in range(points):
            if leaves[r]:
                for i in range(n):
                    phi[i] = K[r, left[i]]
                gamma2 = features.whiten(R, phi, n, K[r, r], phi)
                e = growing.mean_at(m, r, o) - dot(phi, means, n)
                lost += 0.5 * e * e / (noise[j] + max(gamma2, 0.0)) / points
    return lost


@compiled
def diagonal_of_inverse(R: Array, n: int, Q: Array) -> None:
    """The diagonal of (R'R)^-1."""
    z = np.empty(n)
    for i in range(n):
        triangular.inverse_root(R, i, n, z)
        Q[i] = dot(z, z, n)


@compiled
def rebase(m: Model, n: int, P: Array, growth: float, noise: Array) -> bool:
    """Exchange the prior under all outputs; False, and nothing changed, where one of them cannot be solved."""
    q, mu = m.plan.covariances, m.mu
    moved, means = np.empty((q, n, n)), np.empty((n, m.plan.outputs))
    for j in range(q):
        first, last = (j, j + 1) if q > 1 else (0, m.plan.outputs)
        g, present = residual_noise(m, j), m.noise[j]
        # The residuals of absorbed rows grow with the prior, not with the noise.
        ratio = (noise[j] + growth * g) / (present + g)
        if not exchange_prior(m.covariance[j], mu, first, last, P, ratio, n, moved[j], means):
            return False
    sums = m.residual
    for j in range(q):
        if sums[1, j] > 0.0:
            sums[0, j] = sums[1, j] / (noise[j] + growth * residual_noise(m, j))
        for i in range(n):
            copy(moved[j, i], i + 1, m.covariance[j][i])
    for i in range(n):
        copy(means[i], m.plan.outputs, mu[i])
    return True


@compiled
def exchange_prior(
    S: Array, mu: Array, first: int, last: int, P: Array, r: float, n: int, moved: Array, means: Array
) -> bool:
    """The formulas above for one covariance and its outputs; False where S or B is not positive."""
    L, T, B = np.zeros((n, n)), np.zeros((n, n)), np.empty((n, n))
    if not triangular.factorize(S, n, L):  # its transpose, as P upper triangular
        return False
    triangular.product(L, P, n, T)  # W'
    for i in range(n):
        for j in range(i + 1):
            B[i, j] = dot(T[i, i:n], T[j, i:n], n - i) - dot(L[i, i:n], L[j, i:n], n - i) / r
        B[i, i] += 1.0 / r
    N, V, z = np.zeros((n, n)), np.empty((n, n)), np.empty(n)
    if not triangular.factorize_upward(B, n, N):
        return False
    for i in range(n):  # row i of V solves V N' = W
        for k in range(i + 1):
            z[k] = T[k, i]
        triangular.solve(N, z, i + 1, V[i])
        for j in range(i + 1):
            moved[i, j] = dot(V[i], V[j], j + 1)
    finite = True
    for o in range(first, last):
        for i in range(n):
            z[i] = mu[i, o]
        triangular.solve_transposed(L, z, n, z)
        triangular.solve(N, z, n, z)
        for i in range(n):
            means[i, o] = dot(V[i], z, i + 1) / r
            finite = finite and np.isfinite(means[i, o]) and np.isfinite(moved[i, i])
    return finite


@inlined
def rebuild(m: Model, n: int, R: Array, noise: Array) -> None:
    """The paper's way: forget all, and learn the basis points' own targets under the new prior."""
    mu, targets, phi, h = m.mu, m.targets, np.empty(n), np.empty(n)
    mean = np.empty(m.plan.outputs)
    for i in range(n):
        for o in range(m.plan.outputs):
            mu[i, o] = 0.0
    for j in range(m.plan.covariances):
        S, first, last = m.covariance[j], j, j + 1
        if m.plan.covariances == 1:
            first, last = 0, m.plan.outputs
        for i in range(n):
            for c in range(i + 1):
                S[i, c] = 1.0 if c == i else 0.0
        for i in range(n):
            if np.isnan(targets[i, first]):
                continue
            for c in range(n):
                phi[c] = R[c, i]
            symmetric.multiply(S, phi, n, h)
            posterior.means(mu, phi, n, mean)
            s = dot(phi, h, n) + noise[j]
            for o in range(first, last):
                posterior.learn_mean(mu, o, 1.0, h, (targets[i, o] - mean[o]) / s, n)
            posterior.learn_covariance(S, 1.0, 0.0, h, 1.0 / s, n)
        m.residual[0, j] = m.residual[1, j] / noise[j]  # no residual any more


@inlined
def score(m: Model, n: int) -> None:
    """The diagonal of R^-1 S R^-T on the new basis."""
    R, variances = m.factor, m.weight_variance
    if variances.shape[0] == 0:
        return
    q = m.plan.temporal
    root, upper, z = np.zeros((q + n, n)), np.zeros((q + n, q + n)), np.empty(n)
    for j in range(m.plan.covariances):
        if not triangular.factorize(m.covariance[j], q + n, upper):
            continue  # refreshed point by point
        for i in range(q + n):
            copy(upper[i, q:], n, z)
            triangular.solve(R, z, n, root[i])
        for i in range(n):
            variances[j, i] = dot(root[:, i], root[:, i], q + n)


@inlined
def scale_information(m: Model, variance: float, noise: Array) -> bool:
    """Fourier features in the information form: noise I + sum phi phi', whose sums scale with c^2 and c."""
    n, q, z = m.plan.weights, m.plan.covariances, m.mu
    present, c2 = m.noise, variance / m.parameters[0]
    moved, means, A, b = np.zeros((q, n, n)), np.empty(z.shape), np.empty((n, n)), np.empty(n)
    for j in range(q):
        first, last = (j, j + 1) if q > 1 else (0, m.plan.outputs)
        R = m.covariance[j]
        posterior.information(R, n, A)
        for i in range(n):
            A[i, i] -= present[j]
            for k in range(i + 1):
                A[i, k] *= c2
            A[i, i] += noise[j]
        if not triangular.factorize(A, n, moved[j]):
            return False
        for o in range(first, last):
            for i in range(n):
                b[i] = 0.0
            for k in range(n):
                for i in range(k, n):
                    b[i] += np.sqrt(c2) * R[k, i] * z[k, o]
            triangular.solve_transposed(moved[j], b, n, b)
            for i in range(n):
                means[i, o] = b[i]
    for j in range(q):
        m.covariance[j][:] = moved[j]
    z[:] = means
    return True
