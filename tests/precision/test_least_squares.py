"""KRLS(noise=0) against the textbook's recursion, [engel2004] Table 1, in whole numbers with 300 binary digits.

Smooth streams make the dictionary ill-conditioned: the recursion in float64 loses three digits at novelty 1e-3 and
everything at 1e-4.
"""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import mp, mpf

import streamgp as sg

BITS = 300
ONE = 1 << BITS
SETTINGS = [(0.5, 1e-2), (1.0, 1e-3), (2.0, 1e-3), (2.0, 1e-4)]  # lengthscale, novelty


def lorenz(rows, step=0.01, within=5):
    """Six lags of the first axis, scaled to deviation 1, and its next value; plain floats, the same everywhere."""
    x, y, z = 1.0, 1.0, 1.0
    h, series = step / within, []

    def slope(x, y, z):
        return 10.0 * (y - x), x * (28.0 - z) - y, x * y - 8.0 / 3.0 * z

    for i in range((rows + 206) * within):
        k1 = slope(x, y, z)
        k2 = slope(*(a + h / 2 * k for a, k in zip((x, y, z), k1, strict=True)))
        k3 = slope(*(a + h / 2 * k for a, k in zip((x, y, z), k2, strict=True)))
        k4 = slope(*(a + h * k for a, k in zip((x, y, z), k3, strict=True)))
        x, y, z = (a + h / 6 * (p + 2 * q + 2 * r + s) for a, p, q, r, s in zip((x, y, z), k1, k2, k3, k4, strict=True))
        if i % within == within - 1:
            series.append(x)
    series = np.array(series[200:])
    series = (series - series.mean()) / series.std()
    return np.lib.stride_tricks.sliding_window_view(series, 6)[:rows].copy(), series[6:].copy()


def fixed(number):
    return int(mp.nint(mp.ldexp(mpf(number), BITS)))


def times(A, b):
    return np.dot(A, b) >> BITS


def over(a, b):
    return (a << BITS) // b


def bordered(A, corner):
    n = len(A)
    grown = np.full((n + 1, n + 1), 0, dtype=object)
    grown[:n, :n], grown[n, n] = A, corner
    return grown


def textbook(X, y, lengthscale, novelty, capacity):
    """Means before each row is learned, and the rows of the dictionary."""
    scale, points = fixed(1 / (2 * mpf(lengthscale) ** 2)), np.array([[fixed(v) for v in x] for x in X], dtype=object)
    targets, least, means = [fixed(v) for v in y], fixed(novelty), [0.0]
    dictionary, inverse, P = [0], np.array([[ONE]], dtype=object), np.array([[ONE]], dtype=object)
    alpha = np.array([targets[0]], dtype=object)
    with mp.workprec(BITS):
        for t in range(1, len(X)):
            d = points[dictionary] - points[t]
            exponents = times(np.sum(d * d, axis=1) >> BITS, scale)
            k = np.array([fixed(mp.exp(-mp.ldexp(mpf(e), -BITS))) for e in exponents], dtype=object)
            a = times(inverse, k)
            delta, e = ONE - times(k, a), targets[t] - times(k, alpha)
            means.append(float(mp.ldexp(mpf(times(k, alpha)), -BITS)))
            if delta >= least and len(dictionary) < capacity:
                border = np.append(a, -ONE)
                inverse = bordered(inverse, 0) + (over(border[:, None], delta) * border >> BITS)
                P = bordered(P, ONE)
                alpha = np.append(alpha - (a * over(e, delta) >> BITS), over(e, delta))
                dictionary.append(t)
            else:
                Pa = times(P, a)
                q = over(Pa, ONE + times(a, Pa))
                P = P - (q[:, None] * Pa >> BITS)
                alpha = alpha + (times(inverse, q) * e >> BITS)
    return np.array(means), dictionary


def assert_is_textbook(rows, lengthscale, novelty):
    X, y = lorenz(rows)
    means, dictionary = textbook(X, y, lengthscale, novelty, 200)
    model = sg.KRLS(sg.SquaredExponential(lengthscale), novelty=novelty, noise=0.0, capacity=200)
    p = model.track(X, y)
    np.testing.assert_array_equal(model.basis, X[dictionary])
    np.testing.assert_allclose(p.mean, means, rtol=0, atol=1e-5 * np.abs(y).max())
    assert model.health.indistinct_points == 0
    return model


@pytest.mark.parametrize(("lengthscale", "novelty"), SETTINGS[1:])
def test_least_squares_is_the_textbook_on_a_smooth_stream(lengthscale, novelty):
    assert assert_is_textbook(180, lengthscale, novelty).health.repairs == 0


@pytest.mark.soak
@pytest.mark.parametrize(("lengthscale", "novelty"), SETTINGS)
def test_least_squares_stays_the_textbook_for_long(lengthscale, novelty):
    assert_is_textbook(1500, lengthscale, novelty)
