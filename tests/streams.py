"""Streams of many kinds, with times of many kinds: what a test has to hold for that is not about one of them."""

from __future__ import annotations

import numpy as np

HOUR = 3600.0
UNIX = 1.7e9  # seconds; November 2023
YEAR_2106 = 2.0**32  # seconds: what a counter of 32 bits that has run over says


def sines(n, d=2, p=1, seed=0):
    """Inputs anywhere between -3 and 3, sines of the first ones with noise of deviation 0.1, and 30 further inputs."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, d))
    Y = np.sin(X[:, :p]) + 0.1 * rng.normal(size=(n, p))
    return X, (Y[:, 0] if p == 1 else Y), rng.uniform(-3, 3, (30, d))


def _walk(rng, n):
    return np.cumsum(rng.normal(size=n))


TARGETS = {
    "noise": lambda rng, n: 20.0 + rng.normal(size=n),
    "walk": _walk,
    "wave": lambda rng, n: np.sin(2 * np.pi * np.arange(n) / 24) + 0.1 * rng.normal(size=n),
    "trend": lambda rng, n: 0.5 * np.arange(n) + rng.normal(size=n),
    "constant": lambda rng, n: np.full(n, 3.7),
    "one jump": lambda rng, n: rng.normal(size=n) + 1000.0 * (np.arange(n) >= n // 2),
    "heavy tails": lambda rng, n: rng.standard_cauchy(size=n),
    "counts": lambda rng, n: rng.poisson(0.3, size=n).astype(float),
    "repeats": lambda rng, n: np.repeat(rng.normal(size=n), 5)[:n],
    "tiny": lambda rng, n: 1e-12 * _walk(rng, n),
    "huge": lambda rng, n: 1e9 + 1e3 * rng.normal(size=n),
    "missing": lambda rng, n: np.where(rng.random(n) < 0.3, np.nan, _walk(rng, n)),
    "fill values": lambda rng, n: np.where(rng.random(n) < 0.05, rng.choice([-9999.0, 3.4e38], n), rng.normal(size=n)),
}


def _one_in(year):
    return lambda rng, n: np.where(np.arange(n) == n // 3, year, UNIX + HOUR * np.arange(n))


TIMES = {
    "none": lambda rng, n: None,
    "regular": lambda rng, n: 5.0 * np.arange(n),
    "irregular": lambda rng, n: np.cumsum(rng.exponential(size=n)),
    "repeated": lambda rng, n: np.repeat(np.arange(float(n)), 3)[:n],
    "gaps": lambda rng, n: np.cumsum(np.where(rng.random(n) < 0.1, rng.choice([3.0, 50.0, 1e6], n), 1.0)),
    "bursts": lambda rng, n: np.cumsum(np.where(np.arange(n) % 10, 1e-3, 60.0)),
    "Unix seconds": lambda rng, n: UNIX + HOUR * np.arange(n),
    "nanoseconds": lambda rng, n: 1e9 * (UNIX + HOUR * np.arange(n)),
    "below zero": lambda rng, n: np.arange(n) - 1e4,
    "back by some rows": lambda rng, n: UNIX + HOUR * (np.arange(n) - 30.0 * (rng.random(n) < 0.1)),
    "one in 2106": _one_in(YEAR_2106),
}

# Targets that nobody would expect, in order of n rows, from targets as usual.
ABSURD = {
    "1e308": lambda y: _put(y, {0: 1e308, 3: -1e308, 30: 1e308}),
    "3.4e38": lambda y: _put(y, {3: 3.4e38, 7: -3.4e38, 30: 3.4e38}),
    "-9999": lambda y: _put(y, {0: -9999.0, 30: -9999.0}),
    "1e149": lambda y: _put(y, {3: 1e149, 30: -1e149}),
    "constant": lambda y: np.full_like(y, -9999.0),
    "zeros": np.zeros_like,
    "1e-300": lambda y: 1e-300 * y,
    "jumps of 1e12": lambda y: y + 1e12 * (np.arange(len(y)) // 10 % 2)[:, None],
    "repeats": lambda y: np.repeat(y, 10, axis=0)[: len(y)],
    "huge and tiny": lambda y: y * np.where(np.arange(len(y)) % 2, 1e100, 1e-100)[:, None],
    "missing": lambda y: np.where((np.arange(len(y)) % 7 > 0)[:, None], np.nan, y),
    "all missing": lambda y: np.full_like(y, np.nan),
}


def _put(y, values):
    left = y.copy()
    for at, value in values.items():
        left[at] = value
    return left
