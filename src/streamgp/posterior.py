"""The posterior: what is known. A Gaussian over weights, as mean alpha and what the data changed of the covariance.

The function is f(x) = phi'w, cov(w) = P + C; C = 0 is the prior. Features hand over phi, psi = P phi and
kappa = k(x, x). Then, for one observation,

    g = C phi     v = kappa + phi'g      mean = phi'alpha
    h = g + psi   s = v + noise          alpha += h (y - mean) / s      C -= h h' / s

Where uncertainty is injected the stored matrix is M = P + C instead of C (``relative`` = 0), so that forgetting is
always a scaling of it. Beside it stands the information form: the triangular factor R of noise P^-1 + sum phi phi' and
z = R^-T sum phi y, updated by rotations [gijsberts2013 3.3].
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp.compiled import compiled
from streamgp.linalg import symmetric, triangular
from streamgp.linalg.vector import dot

Array = NDArray


@compiled
def means(alpha: Array, phi: Array, n: int, mean: Array) -> None:
    """mean_j = phi'alpha_j."""
    for j in range(alpha.shape[1]):
        mean[j] = 0.0
    for i in range(n):
        for j in range(alpha.shape[1]):
            mean[j] += phi[i] * alpha[i, j]


@compiled
def latent_variance(kappa: float, phi: Array, psi: Array, Mphi: Array, relative: int, n: int) -> float:
    """v = kappa + phi'C phi, never above the prior's nor below zero."""
    # [soh2014] Eq. (30)
    change = dot(phi, Mphi, n) - (0.0 if relative else dot(phi, psi, n))
    return min(max(kappa + change, 0.0), kappa)


@compiled
def change_along(phi: Array, psi: Array, Mphi: Array, scale: float, relative: int, n: int, g: Array) -> float:
    """g = C phi after forgetting has scaled the stored matrix; returns phi'g."""
    change = 0.0
    for i in range(n):
        g[i] = scale * Mphi[i] - (0.0 if relative else psi[i])
        change += phi[i] * g[i]
    return change


@compiled
def learn_mean(alpha: Array, j: int, scale: float, h: Array, step: float, n: int) -> None:
    """alpha_j = scale alpha_j + h step, with step = (y - mean) / s."""
    # [soh2014] Eq. (17)
    for i in range(n):
        alpha[i, j] = scale * alpha[i, j] + h[i] * step


@compiled
def learn_covariance(M: Array, scale: float, h: Array, gain: float, n: int) -> None:
    """M = scale M - gain h h', with gain = 1 / s."""
    # [soh2014] Eq. (18)
    symmetric.scale_and_subtract(M, scale, h, gain, n)


@compiled
def clip_eigenvalues(A: Array, low: float, high: float, n: int) -> int:
    """Bring the eigenvalues of a symmetric matrix (lower triangle) into [low, high]; returns how many lay outside."""
    full = np.empty((n, n))
    for i in range(n):
        for j in range(i + 1):
            full[i, j] = A[i, j]
            full[j, i] = A[i, j]
    values, vectors = np.linalg.eigh(full)
    clipped = 0
    direction = np.empty(n)
    for e in range(n):
        excess = values[e] - min(max(values[e], low), high)
        if excess != 0.0:
            clipped += 1
            for i in range(n):
                direction[i] = vectors[i, e]
            symmetric.add_outer(A, -excess, direction, n)
    return clipped


@compiled
def cap_at_prior(M: Array, prior: float, n: int) -> int:
    """Cap M = P + C where P = prior I; returns how many directions stood above."""
    return clip_eigenvalues(M, -np.inf, prior, n)


@compiled
def whiten_covariance(R: Array, C: Array, n: int, out: Array) -> None:
    """out = R C R', full, from the lower triangle of C."""
    row, product = np.empty(n), np.empty(n)
    for i in range(n):
        for j in range(n):
            row[j] = R[i, j] if j >= i else 0.0
        symmetric.multiply(C, row, n, product)
        for j in range(i + 1):
            out[i, j] = dot(R[j, j:n], product[j:n], n - j)
            out[j, i] = out[i, j]


@compiled
def colour_covariance(R: Array, W: Array, n: int, C: Array) -> None:
    """The lower triangle of C = R^-1 W R^-T for a symmetric W."""
    column, product = np.empty(n), np.empty(n)
    for i in range(n):
        for j in range(n):
            column[j] = 0.0
        column[i] = 1.0
        triangular.solve_transposed(R, column, n, column)
        for j in range(n):
            product[j] = dot(W[j], column, n)
        triangular.solve(R, product, n, product)
        for j in range(i + 1):
            C[i, j] = product[j]


@compiled
def bring_back(M: Array, R: Array, relative: int, n: int) -> tuple[int, int]:
    """Make P + C, with P = (R'R)^-1, positive and at most P again.

    Works in the coordinates R w, in which the prior is the identity. Rounding is taken to be as large as the most
    negative eigenvalue: all below that size are raised to it. Returns how many eigenvalues were raised and lowered.
    """
    W, direction = np.empty((n, n)), np.empty(n)
    whiten_covariance(R, M, n, W)
    prior = 1.0 if relative else 0.0  # added to the eigenvalues: M is C, or P + C already
    if not np.isfinite(W).all():  # nothing is left: the prior
        for i in range(n):
            for j in range(n):
                W[i, j] = 1.0 - prior if i == j else 0.0
        colour_covariance(R, W, n, M)
        return n, 0
    values, vectors = np.linalg.eigh(W)
    least = max(-(values[0] + prior), 0.0)
    raised = lowered = 0
    for e in range(n):
        value = values[e] + prior
        if value < least:
            raised += 1
        elif value > 1.0 and not relative:  # C <= 0 by construction, but injection inflates
            lowered += 1
        else:
            continue
        for i in range(n):
            direction[i] = vectors[i, e]
        symmetric.add_outer(W, (least if value < least else 1.0) - value, direction, n)
    if raised + lowered > 0:
        for i in range(n):
            for j in range(i):
                W[j, i] = W[i, j]
        colour_covariance(R, W, n, M)
    return raised, lowered


@compiled
def learn_and_remove(
    M: Array, scale: float, h: Array, gain: float, q: Array, r: int, n: int, c: Array, b: Array
) -> None:
    """learn_covariance(), then take basis point r out of M, in one pass. q is column r of Q.

    The joint distribution of the other points stays.
    """
    symmetric.read_column(M, r, n, c)
    for i in range(n):
        c[i] = scale * c[i] - gain * h[i] * h[r]
    # [soh2014] Eq. (27) with u = q / q*: C' + c* u u' - u c' - c u' = C' - u b' - b u'
    for i in range(n):
        b[i] = c[i] - 0.5 * c[r] * q[i] / q[r]
    for i in range(n):
        c[i] = q[i] / q[r]
    symmetric.update_and_drop(M, scale, h, gain, c, b, r, n)


@compiled
def remove_kl(M: Array, q: Array, r: int, n: int, relative: int, c: Array) -> None:
    """Take basis point r out of M by the other direction of the divergence: C' + q q'/q* - (q+c)(q+c)'/(q*+c*)."""
    symmetric.read_column(M, r, n, c)
    if relative:
        for i in range(n):
            c[i] += q[i]
        symmetric.add_outer(M, 1.0 / q[r], q, n)
    symmetric.add_outer(M, -1.0 / c[r], c, n)
    symmetric.drop(M, r, n)


@compiled
def drop_weight(alpha: Array, j: int, direction: Array, r: int, n: int) -> None:
    """alpha_j loses entry r along direction (direction[r] = 1)."""
    # [soh2014] Eq. (26)
    a = alpha[r, j]
    for i in range(n):
        alpha[i, j] -= a * direction[i]
    for i in range(r, n - 1):
        alpha[i, j] = alpha[i + 1, j]
    alpha[n - 1, j] = 0.0


@compiled
def factor_predict(R: Array, z: Array, phi: Array, n: int, u: Array, mean: Array, first: int, last: int) -> float:
    """Means of the outputs first..last-1 and |R^-T phi|^2, by one solve."""
    # [gijsberts2013] Alg. 1, lines 7-9; line 8 prints R'phi where the solve R^-T phi is meant.
    triangular.solve_transposed(R, phi, n, u)
    for j in range(first, last):
        mean[j] = 0.0
        for i in range(n):
            mean[j] += u[i] * z[i, j]
    return dot(u, u, n)


@compiled
def scale_factor(R: Array, z: Array, scale: float, n: int) -> None:
    """Multiply [R z] by a number."""
    for i in range(n):
        row = R[i, i:n]
        for j in range(row.size):
            row[j] *= scale
        for j in range(z.shape[1]):
            z[i, j] *= scale


@compiled
def cap_information(R: Array, z: Array, least: float, n: int) -> int:
    """Raise the information R'R to at least least * I; the weights R^-1 z stay. Returns how many directions."""
    A, weights = np.zeros((n, n)), np.empty(n)
    for k in range(n):
        symmetric.add_outer(A[k:, k:], 1.0, R[k, k:], n - k)
    raised = clip_eigenvalues(A, least, np.inf, n)
    if raised > 0:
        raised_factor = np.zeros((n, n))
        if triangular.factorize(A, n, raised_factor):
            for j in range(z.shape[1]):
                for i in range(n):
                    weights[i] = z[i, j]
                triangular.solve(R, weights, n, weights)
                for i in range(n):
                    z[i, j] = dot(raised_factor[i, i:n], weights[i:n], n - i)
            for i in range(n):
                for j in range(n):
                    R[i, j] = raised_factor[i, j]
    return raised
