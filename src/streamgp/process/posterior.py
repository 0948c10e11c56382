"""The posterior: what is known. The weights are N(mu, S); their prior is always N(0, I).

The function is f(x) = phi'w + residual, where the features hand over phi and gamma2, the variance of the residual.
For one observation

    h = S phi      v = phi'h + gamma2      s = v + noise      mean = phi'mu
    mu += h (y - mean) / s                 S -= h h' / s

Beside it stands the information form of features with a fixed number of weights: the triangular factor R of
noise I + sum phi phi' and z = R^-T sum phi y, updated by rotations [gijsberts2013 3.3].
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp.compiled import compiled
from streamgp.linalg import symmetric, triangular
from streamgp.linalg.vector import dot

Array = NDArray

# gamma2 is rounded to a few eps of kappa: where s is less than this part of kappa, s is not known to 1e-6 of itself.
UNRESOLVED = 1e-9

# S -= h h' / s leaves a variance of the size of the noise where there was phi'h; below this part of it, too few digits.
CANCELLED = 1e-8

# Features of a fixed number have no residual that keeps s away from 0. With at least this part of kappa for noise, S,
# and with this one R, was seen to keep the mean within 1e-6 of the targets' size (docs/numerics.md).
COVARIANCE_NOISE, INFORMATION_NOISE = 1e-7, 1e-8

# A gain phi'h / s lies in [0, 1]; below -ROUNDING it is not rounding that took it there.
ROUNDING = 1e-9


@compiled
def means(mu: Array, phi: Array, n: int, mean: Array) -> None:
    """mean_j = phi'mu_j."""
    for j in range(mu.shape[1]):
        mean[j] = 0.0
    for i in range(n):
        for j in range(mu.shape[1]):
            mean[j] += phi[i] * mu[i, j]


@compiled
def forget_along(h: Array, phi: Array, scale: float, fresh: float, n: int) -> float:
    """h = S phi becomes that of the forgotten S <- scale S + fresh I; returns phi'h."""
    if scale != 1.0:
        for i in range(n):
            h[i] = scale * h[i] + fresh * phi[i]
    return dot(phi, h, n)


@compiled
def is_gain(explained: float, s: float) -> bool:
    """Whether a row can be learned: its gain phi'h / s is in [0, 1] but for rounding."""
    return explained >= -ROUNDING * s and np.isfinite(s)


@compiled
def learn_mean(mu: Array, j: int, scale: float, h: Array, step: float, n: int) -> None:
    """mu_j = scale mu_j + h step, with step = (y - mean) / s."""
    # [soh2014] Eq. (17)
    for i in range(n):
        mu[i, j] = scale * mu[i, j] + h[i] * step


@compiled
def learn_covariance(S: Array, scale: float, fresh: float, h: Array, gain: float, n: int) -> None:
    """S = scale S + fresh I - gain h h', with gain = 1 / s."""
    # [soh2014] Eq. (18)
    symmetric.scale_and_subtract(S, scale, h, gain, n)
    if fresh != 0.0:
        for i in range(n):
            S[i, i] += fresh


@compiled
def mix_with_prior(S: Array, part: float, n: int) -> None:
    """S = (1 - part) S + part I: what rounding may have taken of the variances comes back."""
    part = min(part, 1.0)
    for i in range(n):
        for j in range(i + 1):
            S[i, j] *= 1.0 - part
        S[i, i] += part


@compiled
def restore(S: Array, known: float, kappa: float, n: int) -> None:
    """Where rounding has left phi'S phi = known below 0, make S positive along phi: the next row can be learned."""
    if known < 0.0 and np.isfinite(kappa):
        mix_with_prior(S, max(-2.0 * known / kappa, ROUNDING), n)


@compiled
def keep_positive(S: Array, n: int) -> None:
    """Where rounding has left a negative variance, all of them may be as far off."""
    lost = 0.0
    for i in range(n):
        lost = max(lost, -S[i, i])
    if lost > 0.0:
        mix_with_prior(S, 2.0 * lost, n)


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
