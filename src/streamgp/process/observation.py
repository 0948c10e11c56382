"""What one observation teaches that is not Gaussian.

An observation y of f ~ N(m, v) moves the posterior by the first two derivatives of its log evidence,

    q = d/dm log E[p(y | f)]      r = d2/dm2 log E[p(y | f)]      [soh2014] Eqs. (19), (20),

which for a Gaussian are (y - m) / s and -1 / s. Any other observation is therefore learned as the Gaussian one that
has the same q and r: that of the target m + q / w with noise rho / w, where w = -r and rho = 1 - v w is what it leaves
of the variance. Functions here return log evidence, q, w and rho, the last two without cancellation.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from streamgp.arrays import Model
from streamgp.compiled import MATRIX, NUMBER, READ_ROWS, WHOLE, apart, compiled, entry
from streamgp.process.state import LAYOUT

Array = NDArray

GAUSSIAN, STUDENT_T, PROBIT, POISSON = range(4)

# Integrands are followed until they have fallen by exp(-SPAN), which is less than rounding.
SPAN = 40.0
LARGEST = 1e300  # square of an error: beyond it there would be no end to the steps

# No row adds doubt: where r is above 0, as that of a Student-t outlier is, the covariance stays. This is as good as 0,
# of 1 / (v + noise), and can be divided by.
LEAST_PRECISION = 1e-15


@compiled
def student_t(dof: float, y: float, m: float, v: float, noise: float) -> tuple[float, float, float, float]:
    """A Student-t about f with squared scale noise: a Gaussian whose precision is drawn from a gamma distribution.

    The evidence is the integral of N(y; m, v + noise / lambda) over u = log lambda by the trapezoidal rule, from where
    the gamma density ends down to where the noise has drowned both v and the error.
    """
    e = y - m
    e2, top = min(e * e, LARGEST), 1.0
    h = min(0.3, 0.7 * math.sqrt(2.0 / (dof + 1.0)))  # exact to rounding, against 40 digits
    for _ in range(8):  # the root of dof (e^u - 1 - u) = 2 SPAN + u, from above or fast
        top = math.log1p(top + (2.0 * SPAN + top) / dof)
    bottom = -math.log1p(min(max(v, e2) / noise, LARGEST)) - 2.4 * SPAN / (dof + 1.0)
    factor, precision = math.exp(h), math.exp(top)
    best, total, a, a2, b, b2 = -np.inf, 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(int((top - bottom) / h) + 1):
        c = noise / precision
        V = v + c
        exponent = 0.5 * (dof * (top - i * h - precision) - math.log(V) - e2 / V)
        precision /= factor
        if exponent > best:
            fade = math.exp(best - exponent)
            best, total, a, a2, b, b2 = exponent, fade * total, fade * a, fade * a2, fade * b, fade * b2
        weight = math.exp(exponent - best)
        total += weight
        a += weight / V
        a2 += weight / (V * V)
        b += weight * (c / V)
        b2 += weight * (c / V) * (c / V)
    a, a2, b, b2 = a / total, a2 / total, b / total, b2 / total
    # The variance of 1 / V, which is that of c / V over v^2, from whichever does not cancel.
    spread = (b2 - b * b) / (v * v) if b < 0.5 else a2 - a * a
    half = 0.5 * dof
    log_evidence = best + math.log(h * total) + half * math.log(half) - math.lgamma(half) - 0.5 * math.log(2.0 * np.pi)
    return log_evidence, e * a, a - e2 * spread, b + v * e2 * spread


@compiled
def inverse_mills(z: float) -> tuple[float, float]:
    """g = phi(z) / Phi(z) and g + z, for any z."""
    if z > -5.0:
        g = math.exp(-0.5 * z * z) / (math.sqrt(0.5 * np.pi) * math.erfc(-z / math.sqrt(2.0)))
        return g, g + z
    # Laplace's continued fraction, g + z = 1 / (x + 2 / (x + 3 / (x + ...))) at x = -z: 60 terms are exact from 5 on.
    rest = 0.0
    for k in range(60, 0, -1):
        rest = k / (rest - z)
    return rest - z, rest


@compiled
def log_cdf(z: float) -> float:
    """The logarithm of Phi(z)."""
    if z > 0.0:
        return math.log1p(-0.5 * math.erfc(z / math.sqrt(2.0)))
    if z > -5.0:
        return math.log(0.5 * math.erfc(-z / math.sqrt(2.0)))
    return -0.5 * z * z - 0.5 * math.log(2.0 * np.pi) - math.log(inverse_mills(z)[0])


@compiled
def probit(y: float, m: float, v: float) -> tuple[float, float, float, float]:
    """A class y of 0 or 1, which is 1 with probability Phi(f)."""
    sign, s = 1.0 if y > 0.5 else -1.0, 1.0 + v
    z = sign * m / math.sqrt(s)
    g, rest = inverse_mills(z)
    return log_cdf(z), sign * g / math.sqrt(s), g * rest / s, (1.0 + v * (1.0 - g * rest)) / s


@compiled
def poisson(y: float, m: float, v: float) -> tuple[float, float, float, float]:
    """A count y with the rate e^f.

    The posterior of f has one mode, found by Newton's steps from its right; the trapezoidal rule goes from there to
    both sides. Its nodes are close enough to see the Gaussian and the edge that e^-e^f has, up to v of about 4000.
    """
    v = max(v, 1e-200)
    f = m if y == 0.0 else max(m, math.log(y))
    if m > 0.0:
        f = min(f, max(math.log(y + (m + 1.0) / v), -1.0))
    for _ in range(100):
        rate = math.exp(f)
        step = (y - rate - (f - m) / v) / (rate + 1.0 / v)
        f += step
        if abs(step) <= 1e-14 * max(1.0, abs(f)):
            break
    rate = math.exp(f)
    h = min(0.5 / math.sqrt(rate + 1.0 / v), max(0.3, math.sqrt(2.0 * SPAN * v) / 2000.0))
    total, d1, d2, g1, g2 = 1.0, 0.0, 0.0, 0.0, 0.0
    for side in (-1.0, 1.0):
        i = 1
        while True:
            d = side * i * h
            g = math.expm1(d)  # the rate is rate (1 + g) there
            exponent = -rate * (g - d) - 0.5 * d * d / v
            if not exponent >= -SPAN:
                break
            weight = math.exp(exponent)
            total += weight
            d1 += weight * d
            d2 += weight * d * d
            g1 += weight * g
            g2 += weight * g * g
            i += 1
    d1, d2, g1, g2 = d1 / total, d2 / total, g1 / total, g2 / total
    rho = (d2 - d1 * d1) / v
    if rho < 0.5:
        q, w = (f - m + d1) / v, (1.0 - rho) / v
    else:  # Stein's identities: q = y - E[rate], w = E[rate] - var[rate]
        q, w = y - rate * (1.0 + g1), rate * (1.0 + g1) - rate * rate * (g2 - g1 * g1)
    log_evidence = y * f - rate - math.lgamma(y + 1.0) - 0.5 * (f - m) * (f - m) / v
    return log_evidence + math.log(h * total) - 0.5 * math.log(2.0 * np.pi * v), q, w, rho


@compiled
def moments(kind: int, dof: float, y: float, m: float, v: float, noise: float) -> tuple[float, float, float, float]:
    """Log evidence, q, w and rho of an observation that is not Gaussian."""
    if kind == STUDENT_T:
        return student_t(dof, y, m, v, noise)
    if kind == PROBIT:
        return probit(y, m, v)
    return poisson(y, m, v)


@apart(NUMBER, LAYOUT.model, WHOLE, NUMBER, NUMBER, NUMBER)
def as_gaussian(m: Model, j: int, mean: float, v: float, noise: float) -> float:
    """Put in place of target j that of the Gaussian observation which teaches the same; returns its noise."""
    y = m.y
    _, q, w, rho = moments(m.plan.likelihood, m.plan.dof, y[j], mean, v, noise)
    w = max(w, LEAST_PRECISION / (v + noise))
    y[j] = mean + q / w
    return min(rho, 1.0) / w


@entry(WHOLE, NUMBER, *[READ_ROWS] * 4, MATRIX)
def log_densities(kind: int, dof: float, y: Array, mean: Array, variance: Array, noise: Array, out: Array) -> None:
    """The log density of observations that are not Gaussian; NaN where y is."""
    for t in range(y.shape[0]):
        for j in range(y.shape[1]):
            out[t, j] = np.nan
            if not np.isnan(y[t, j]):
                out[t, j] = moments(kind, dof, y[t, j], mean[t, j], variance[t, j], noise[t, j])[0]
