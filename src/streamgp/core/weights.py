"""Models with a fixed number of weights: Fourier features, a linear readout, given basis points."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp import features, posterior
from streamgp.compiled import compiled, inlined
from streamgp.core.layout import (
    ABSORBED,
    BATCH,
    CAPPED_DIRECTIONS,
    CHANGE,
    CHECK_EVERY,
    COVARIANCE_SCALE,
    COVARIANCES,
    EVICTED,
    FACTORED,
    FEATURES,
    JITTER,
    MEAN_SCALE,
    NEGATIVE_VARIANCES,
    OUTPUTS,
    PRIOR,
    RELATIVE,
    ROWS_SINCE_CHECK,
    THETA,
    WEIGHTS,
    Scratch,
    State,
    operations_of,
)
from streamgp.kernels import program
from streamgp.linalg import symmetric, triangular, vector

Array = NDArray


@inlined
def featurize(plan: Array, state: State, w: Scratch) -> float:
    """Fill phi and psi = P phi for the input seen; return kappa = k(x, x)."""
    kind, n = plan[FEATURES], plan[WEIGHTS]
    if kind == features.FOURIER:
        features.fourier(state.frequencies, state.parameters[0], w.seen, w.phi)
        vector.copy(w.phi, n, w.psi)
        variance: float = state.parameters[0]
        return variance
    if kind == features.LINEAR:
        features.linear(w.seen, w.phi)
        for i in range(n):
            w.psi[i] = state.scalars[PRIOR] * w.phi[i]
        return vector.dot(w.phi, w.psi, n)
    operations = operations_of(plan)
    kappa: float = program.diagonal(operations, state.parameters, w.seen, w.one, w.kernel) + state.scalars[JITTER]
    program.cross(operations, state.parameters, state.basis, n, w.seen, w.k, w.kernel)
    features.whiten(state.factor, w.k, n, kappa, w.phi)
    vector.copy(w.phi, n, w.psi)
    return kappa


@inlined
def predict_weights(plan: Array, state: State, w: Scratch) -> float:
    """Mean and latent variance of the input seen into w.mean and w.variance; returns kappa."""
    n, q = plan[WEIGHTS], plan[COVARIANCES]
    kappa = featurize(plan, state, w)
    if plan[FACTORED]:
        residual = max(kappa - vector.dot(w.phi, w.psi, n), 0.0)
        for j in range(q):
            first, last = (j, j + 1) if q > 1 else (0, plan[OUTPUTS])
            u2 = posterior.factor_predict(state.covariance[j], state.mean, w.phi, n, w.h, w.mean, first, last)
            # [gijsberts2013] Alg. 1, line 9, without the noise.
            w.variance[j] = min(residual + state.noise[j] * u2, kappa)
    else:
        project(plan, state, w)
        for j in range(q):
            w.variance[j] = posterior.latent_variance(kappa, w.phi, w.psi, w.products[j], plan[RELATIVE], n)
    return kappa


@inlined
def project(plan: Array, state: State, w: Scratch) -> None:
    """Means and products C phi for the features in w.phi."""
    n = plan[WEIGHTS]
    posterior.means(state.mean, w.phi, n, w.mean)
    for j in range(plan[COVARIANCES]):
        symmetric.multiply(state.covariance[j], w.phi, n, w.products[j])


@inlined
def share_jitter(state: State, x: Array, n: int, k: Array) -> bool:
    """Where x is a basis point, the two share their jitter: add it to k(B, x)."""
    if state.scalars[JITTER] == 0.0:
        return False
    for i in range(n):
        same = True
        for j in range(x.size):
            if state.basis[i, j] != x[j]:
                same = False
                break
        if same:
            k[i] += state.scalars[JITTER]
            return True
    return False


@inlined
def observe_point(plan: Array, state: State, kappa: float, w: Scratch) -> None:
    """A row that falls on a basis point observes that very function value, its jitter included."""
    n = plan[WEIGHTS]
    if share_jitter(state, w.seen, n, w.k):
        features.whiten(state.factor, w.k, n, kappa, w.phi)
        vector.copy(w.phi, n, w.psi)
        if not plan[FACTORED]:
            project(plan, state, w)


@inlined
def learn_weights(plan: Array, counters: Array, state: State, kappa: float, w: Scratch) -> None:
    """Learn w.y at the input that predict_weights() has just predicted."""
    n, q, p = plan[WEIGHTS], plan[COVARIANCES], plan[OUTPUTS]
    if plan[FEATURES] == features.POINTS:
        observe_point(plan, state, kappa, w)
    scale, mean_scale = state.scalars[COVARIANCE_SCALE], state.scalars[MEAN_SCALE]
    counters[CHANGE] = ABSORBED
    counters[EVICTED] = -1
    for j in range(q):
        first, last = (j, j + 1) if q > 1 else (0, p)
        if np.isnan(w.y[first]):
            continue
        if plan[FACTORED]:
            residual = max(kappa - vector.dot(w.phi, w.psi, n), 0.0)
            precision = np.sqrt(state.noise[j] / (state.noise[j] + residual))
            R, z = state.covariance[j], state.mean[:, first:last]
            if scale != 1.0:
                # Uncertainty injection divides the covariance by the factor: A and b are multiplied by it.
                posterior.scale_factor(R, z, 1.0 / np.sqrt(scale), n)
            for i in range(n):
                w.h[i] = precision * w.phi[i]
            for i in range(first, last):
                w.y[i] *= precision
            triangular.rotate_in(R, z, w.h, w.y[first:last], n)
            continue
        M = state.covariance[j]
        v = kappa + posterior.change_along(w.phi, w.psi, w.products[j], scale, plan[RELATIVE], n, w.h)
        if v < 0.0:
            counters[NEGATIVE_VARIANCES] += 1
            v = 0.0
        s = v + state.noise[j]
        if plan[THETA] > 0:
            state.adapt.residual[0, j] += 1.0 / (max(kappa - vector.dot(w.phi, w.psi, n), 0.0) + state.noise[j])
            state.adapt.residual[1, j] += 1.0
        for i in range(n):
            w.h[i] += w.psi[i]
        for i in range(first, last):
            step = (w.y[i] - mean_scale * w.mean[i]) / s
            posterior.learn_mean(state.mean, i, mean_scale, w.h, step, n)
        posterior.learn_covariance(M, scale, w.h, 1.0 / s, n)
    if not plan[RELATIVE]:
        counters[ROWS_SINCE_CHECK] += 1
        if counters[ROWS_SINCE_CHECK] >= plan[CHECK_EVERY]:
            counters[ROWS_SINCE_CHECK] = 0
            for j in range(q):
                counters[CAPPED_DIRECTIONS] += cap(plan, state, j)


@compiled
def cap(plan: Array, state: State, j: int) -> int:
    """Cap P + C at P; returns in how many directions it stood above."""
    n = plan[WEIGHTS]
    if plan[FACTORED]:
        first, last = (j, j + 1) if plan[COVARIANCES] > 1 else (0, plan[OUTPUTS])
        least = state.noise[j] / state.scalars[PRIOR]
        return posterior.cap_information(state.covariance[j], state.mean[:, first:last], least, n)
    return posterior.cap_at_prior(state.covariance[j], state.scalars[PRIOR], n)


@compiled
def learn_batch(plan: Array, counters: Array, state: State, X: Array, Y: Array, w: Scratch) -> None:
    """Learn rows together: their residuals are correlated as the prior says [huber2013]."""
    n, q, p, jitter = plan[WEIGHTS], plan[COVARIANCES], plan[OUTPUTS], state.scalars[JITTER]
    operations = operations_of(plan)
    most = min(plan[BATCH], X.shape[0])
    Phi, G = np.empty((most, n)), np.empty((most, n))
    S, R, errors, rows = np.empty((most, most)), np.zeros((most, most)), np.empty((most, p)), np.empty(most, np.int64)
    for j in range(q):
        first, last = (j, j + 1) if q > 1 else (0, p)
        b = 0
        for t in range(X.shape[0]):
            if not np.isnan(Y[t, first]):
                rows[b] = t
                b += 1
        if b == 0:
            continue
        for i in range(b):
            x = X[rows[i]]
            program.cross(operations, state.parameters, state.basis, n, x, w.k, w.kernel)
            share_jitter(state, x, n, w.k)
            # [huber2013] Eq. (13) in coordinates in which the prior of the basis values is the identity.
            triangular.solve_transposed(state.factor, w.k, n, Phi[i])
            symmetric.multiply(state.covariance[j], Phi[i], n, G[i])
            posterior.means(state.mean, Phi[i], n, w.mean)
            for o in range(first, last):
                errors[i, o] = Y[rows[i], o] - w.mean[o]
            for k in range(i + 1):
                other = X[rows[k]]
                program.cross(operations, state.parameters, other.reshape(1, other.size), 1, x, w.one, w.kernel)
                S[i, k] = w.one[0] + vector.dot(Phi[k], G[i], n)
            S[i, i] += jitter + state.noise[j]
            for k in range(n):
                G[i, k] += Phi[i, k]
        # [huber2013] Eqs. (14)-(16): the gain by a factor of the innovations' covariance.
        triangular.factorize(S, b, R)
        for i in range(b):  # G <- R^-T G and errors <- R^-T errors, row by row
            for k in range(i):
                t = R[k, i]
                for c in range(n):
                    G[i, c] -= t * G[k, c]
                for o in range(first, last):
                    errors[i, o] -= t * errors[k, o]
            for c in range(n):
                G[i, c] /= R[i, i]
            for o in range(first, last):
                errors[i, o] /= R[i, i]
                posterior.learn_mean(state.mean, o, 1.0, G[i], errors[i, o], n)
            posterior.learn_covariance(state.covariance[j], 1.0, G[i], 1.0, n)
    counters[CHANGE] = ABSORBED
    counters[EVICTED] = -1
