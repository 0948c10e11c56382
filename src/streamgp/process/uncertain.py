"""The moments of the function at an input that is not known exactly, x ~ N(x, P), for the squared exponential.

With M the inverse of the squared lengthscales, the expectations over x of k(b, x) and of k(b, x) k(c, x) are Gaussians
in b and c again [girard2003]. Mean and variance of the function follow:

    mean = E[phi]'mu        variance = E[phi'S phi + kappa - phi'phi] + mu' Cov[phi] mu
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from streamgp.process.joint import Function
from streamgp.settings import FloatArray


def expectations(B: FloatArray, x: FloatArray, P: FloatArray, M: FloatArray, variance: float) -> tuple[FloatArray, ...]:
    """E[k(B, x)], (n,), and E[k(B, x) k(B, x)'], (n, n), over x ~ N(x, P).

    Args:
        B: (n, d) points.
        x: (d,) mean of the input.
        P: (d, d) covariance of the input.
        M: (d, d), so that k(b, x) = variance exp(-1/2 (b - x)'M(b - x)).
        variance: of the kernel.
    """
    once, twice = np.eye(len(x)) + P @ M, np.eye(len(x)) + 2.0 * P @ M
    D = B - x
    nearness = np.einsum("ni,ij,nj->n", D, M @ np.linalg.inv(once), D)
    first = variance * np.exp(-0.5 * nearness) / np.sqrt(np.linalg.det(once))
    apart = np.einsum("nmi,ij,nmj->nm", D[:, None] - D, M, D[:, None] - D)
    middle = 0.5 * (D[:, None] + D)
    nearness = np.einsum("nmi,ij,nmj->nm", middle, 2.0 * M @ np.linalg.inv(twice), middle)
    second = variance**2 * np.exp(-0.25 * apart - 0.5 * nearness) / np.sqrt(np.linalg.det(twice))
    return first, second


def moments(
    function: Function, x: FloatArray, P: FloatArray, M: FloatArray, variance: float, times: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Means and variances of the function, (p,) each, at an uncertain input and one time, (1,)."""
    R, B, kappa = function.factor, function.points, float(function.prior_variances(x[None])[0])
    once, twice = expectations(B, x, P, M, variance)
    phi = solve_triangular(R, once, trans="T") if len(B) else once
    half = solve_triangular(R, twice, trans="T") if len(B) else twice
    products = solve_triangular(R, half.T, trans="T") if len(B) else half
    over_time, new = function.ahead(times)
    q = over_time.shape[1]
    whole = np.concatenate([over_time[0], phi])
    second = np.outer(whole, whole)
    spread = products - np.outer(phi, phi)  # of the features, because the input is uncertain
    second[q:, q:] += spread
    known = np.einsum("jab,ab->j", function.S, second) + new[0, 0] + kappa - np.trace(products)
    of_mean = np.einsum("ao,ab,bo->o", function.mu[q:], spread, function.mu[q:])
    return whole @ function.mu, np.maximum(function.power * known + of_mean, 0.0)
