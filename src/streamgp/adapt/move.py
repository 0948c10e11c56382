"""Moving a posterior to other hyperparameters: by rebase, by the paper's rebuild, or by scaling Fourier features."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp import features
from streamgp.adapt.rebase import rebase, relative_prior
from streamgp.compiled import compiled
from streamgp.core.layout import (
    COVARIANCES,
    FACTORED,
    FEATURES,
    JITTER,
    OUTPUTS,
    PARAMETERS,
    POINTS,
    REBUILD,
    RELATIVE,
    SIZE,
    WEIGHTS,
    Scratch,
    State,
    operations_of,
)
from streamgp.kernels import program
from streamgp.linalg import symmetric, triangular, vector
from streamgp.posterior import colour_covariance, whiten_covariance

Array = NDArray


@compiled
def go_to(plan: Array, counters: Array, state: State, here: Array, step: Array, w: Scratch) -> bool:
    """Take the posterior from exp(here) to exp(here + step); False, and nothing changed, where that fails."""
    count, q, p = plan[PARAMETERS], plan[COVARIANCES], plan[OUTPUTS]
    parameters, noise = np.empty(count), np.empty(q)
    for h in range(count):
        parameters[h] = np.exp(here[h] + step[h])
    for j in range(q):
        noise[j] = np.exp(here[count + j] + step[count + j])
    if plan[POINTS] == 0:
        return go_to_scaled(plan, state, parameters[0], noise)
    n = counters[SIZE]
    operations = operations_of(plan)
    K, R = np.empty((n, n)), np.zeros((n, n))
    for i in range(n):
        program.cross(operations, parameters, state.basis, i + 1, state.basis[i], w.one, w.kernel)
        for j in range(i + 1):
            K[i, j] = w.one[j]
            K[j, i] = w.one[j]
        K[i, i] += state.scalars[JITTER]
    if not triangular.factorize(K, n, R):
        return False
    moved, means = np.empty((q, n, n)), np.empty((n, p))
    whitened = plan[FEATURES] == features.POINTS
    if plan[REBUILD]:
        if not rebuild(state, K, noise, n, moved, means):
            return False
    else:
        B = np.empty((n, n))
        relative_prior(state.factor, K, n, B)
        for j in range(q):
            first, last = (j, j + 1) if q > 1 else (0, p)
            if not rebase_output(plan, state, j, first, last, noise[j], B, n, moved[j], means, w):
                return False
    # From here on nothing can fail.
    for j in range(q):
        residual = 0.0
        if state.adapt.residual[1, j] > 0.0:
            residual = state.adapt.residual[1, j] / state.adapt.residual[0, j] - state.noise[j]
            state.adapt.residual[0, j] = state.adapt.residual[1, j] / (residual + noise[j])
        M = state.covariance[j]
        for i in range(n):
            for c in range(i + 1):
                M[i, c] = moved[j, i, c]
    column = np.empty(n)
    for i in range(n):
        for o in range(p):
            state.mean[i, o] = means[i, o]
        for c in range(i, n):
            state.factor[i, c] = R[i, c]
    if whitened:  # into coordinates in which the new prior is the identity
        W = np.empty((n, n))
        for j in range(q):
            whiten_covariance(R, state.covariance[j], n, W)
            for i in range(n):
                for c in range(i + 1):
                    state.covariance[j, i, c] = W[i, c]
        for o in range(p):
            for i in range(n):
                column[i] = vector.dot(R[i, i:n], state.mean[i:n, o], n - i)
            for i in range(n):
                state.mean[i, o] = column[i]
    for i in range(n):
        triangular.inverse_column(state.factor, i, n, column)
        state.inverse_diagonal[i] = column[i]
        if not plan[RELATIVE] and not whitened:
            for j in range(q):
                for c in range(i + 1):
                    state.covariance[j, i, c] += column[c]
    vector.copy(parameters, count, state.parameters)
    vector.copy(noise, q, state.noise)
    return True


@compiled
def effective_ratio(state: State, j: int, noise: float) -> float:
    """By how much the noise of what was absorbed changes: the residuals of absorbed rows do not scale with it."""
    g = 0.0
    if state.adapt.residual[1, j] > 0.0:
        g = max(state.adapt.residual[1, j] / state.adapt.residual[0, j] - state.noise[j], 0.0)
    ratio: float = (noise + g) / (state.noise[j] + g)
    return ratio


@compiled
def rebase_output(
    plan: Array,
    state: State,
    j: int,
    first: int,
    last: int,
    noise: float,
    B: Array,
    n: int,
    moved: Array,
    means: Array,
    w: Scratch,
) -> bool:
    """C' and alpha' of output j, as weights of kernel functions, into moved and means."""
    R, whitened = state.factor, plan[FEATURES] == features.POINTS
    W, a = np.empty((n, n)), np.empty((n, last - first))
    if whitened:
        for i in range(n):
            for c in range(i + 1):
                W[i, c] = state.covariance[j, i, c]
                W[c, i] = W[i, c]
    else:
        whiten_covariance(R, state.covariance[j], n, W)
        if not plan[RELATIVE]:
            for i in range(n):
                W[i, i] -= 1.0  # P + C is held; the prior is the identity here
    for o in range(first, last):
        for i in range(n):
            own = state.mean[i, o]
            a[i, o - first] = own if whitened else vector.dot(R[i, i:n], state.mean[i:n, o], n - i)
    if not rebase(W, a, B, effective_ratio(state, j, noise), n):
        return False
    colour_covariance(R, W, n, moved)
    for o in range(first, last):
        for i in range(n):
            w.one[i] = a[i, o - first]
        triangular.solve(R, w.one, n, w.one)
        for i in range(n):
            means[i, o] = w.one[i]
    return True


@compiled
def rebuild(state: State, K: Array, noise: Array, n: int, moved: Array, means: Array) -> bool:
    """The paper's way: the posterior of the basis points' own targets alone."""
    S, R, column = K.copy(), np.zeros((n, n)), np.empty(n)
    for j in range(noise.size):
        for i in range(n):
            S[i, i] = K[i, i] + noise[j]
        if not triangular.factorize(S, n, R):
            return False
        for i in range(n):
            triangular.inverse_column(R, i, n, column)
            for c in range(i + 1):
                moved[j, i, c] = -column[c]
        first, last = (j, j + 1) if noise.size > 1 else (0, means.shape[1])
        for o in range(first, last):
            for i in range(n):
                column[i] = state.targets[i, o]
            triangular.solve_transposed(R, column, n, column)
            triangular.solve(R, column, n, column)
            for i in range(n):
                means[i, o] = column[i]
    return True


@compiled
def go_to_scaled(plan: Array, state: State, variance: float, noise: Array) -> bool:
    """Fourier features under another variance and noise: phi' = c phi, so the new prior is c^2 in the old weights."""
    n, q, p = plan[WEIGHTS], plan[COVARIANCES], plan[OUTPUTS]
    c2 = variance / state.parameters[0]
    B = np.zeros((n, n))
    for i in range(n):
        B[i, i] = c2
    for j in range(q):
        first, last = (j, j + 1) if q > 1 else (0, p)
        M = state.covariance[j]
        if plan[FACTORED]:
            # A = noise I + sum phi phi' and b = R'z = sum phi y: the sums scale with c^2 and c.
            A, R, b = np.zeros((n, n)), np.zeros((n, n)), np.empty(n)
            for k in range(n):
                symmetric.add_outer(A[k:, k:], 1.0, M[k, k:], n - k)
            for i in range(n):
                A[i, i] -= state.noise[j]
                for k in range(i + 1):
                    A[i, k] *= c2
                A[i, i] += noise[j]
            if not triangular.factorize(A, n, R):
                return False
            for o in range(first, last):
                for i in range(n):
                    b[i] = 0.0
                for k in range(n):
                    for i in range(k, n):
                        b[i] += np.sqrt(c2) * M[k, i] * state.mean[k, o]
                triangular.solve_transposed(R, b, n, b)
                for i in range(n):
                    state.mean[i, o] = b[i]
            for i in range(n):
                for k in range(i, n):
                    M[i, k] = R[i, k]
        else:
            W, a = np.empty((n, n)), np.empty((n, last - first))
            for i in range(n):
                for k in range(i + 1):
                    W[i, k] = M[i, k]
                    W[k, i] = M[i, k]
                if not plan[RELATIVE]:
                    W[i, i] -= 1.0
                for o in range(first, last):
                    a[i, o - first] = state.mean[i, o]
            if not rebase(W, a, B, noise[j] / state.noise[j], n):
                return False
            for i in range(n):
                for k in range(i + 1):
                    M[i, k] = c2 * W[i, k]
                if not plan[RELATIVE]:
                    M[i, i] += 1.0
                for o in range(first, last):
                    state.mean[i, o] = np.sqrt(c2) * a[i, o - first]
    state.parameters[0] = variance
    vector.copy(noise, q, state.noise)
    return True
