"""Streams that break sparse online GPs: smooth, slow, widening, duplicated, constant, jumping. All seeded.

Each takes (rows, seed) and returns X (n, d) and y (n,): a smooth function of the inputs plus noise of deviation 0.1.
"""

from __future__ import annotations

import numpy as np

NOISE = 0.1


def sine(n, seed):
    """One input that swings slowly: neighboring rows are a thirtieth apart."""
    x = 3.0 * np.sin(np.arange(n) / 30.0)
    return observed(x[:, None], seed)


def path2d(n, seed):
    """A smooth path in the plane that never closes."""
    t = np.arange(n)
    return observed(3.0 * np.column_stack([np.sin(t / 30.0), np.sin(t / 47.0)]), seed)


def walk(n, seed):
    """A random walk in the plane, folded into [-4, 4]^2."""
    steps = np.cumsum(0.1 * generator(seed, 1).normal(size=(n, 2)), axis=0)
    return observed(np.abs((steps - 4.0) % 16.0 - 8.0) - 4.0, seed)


def ramp(n, seed):
    """An input that rises slowly and never comes back."""
    return observed(np.linspace(-3.0, 3.0 + n / 200.0, n)[:, None], seed)


def widening(n, seed):
    """Independent normal inputs, five times wider after a sixth of the rows."""
    x = generator(seed, 1).normal(size=n)
    x[n // 6 :] *= 5.0
    return observed(x[:, None], seed)


def lags(n, seed):
    """Rows of five lagged values of a smooth noisy series; the target is the next value."""
    t = np.arange(n + 5)
    series = np.sin(t / 20.0) + 0.5 * np.sin(t / 7.3) + 0.01 * generator(seed, 1).normal(size=n + 5)
    X = np.lib.stride_tricks.sliding_window_view(series, 5)[:n]
    return X.copy(), series[5:] + NOISE * generator(seed, 2).normal(size=n)


def duplicates(n, seed):
    """Few centres: exact repeats and copies moved by 1e-9, mixed."""
    rng = generator(seed, 1)
    centres = rng.normal(size=(12, 2)) * 2.0
    X = centres[rng.integers(0, 12, size=n)]
    return observed(X + 1e-9 * rng.normal(size=X.shape) * (rng.random((n, 1)) < 0.5), seed)


def constant(n, seed):
    """The same input and the same target at every row, but for the noise."""
    return np.full((n, 1), 0.7), 1.5 + NOISE * generator(seed, 2).normal(size=n)


def nearly_constant(n, seed):
    """A constant with fluctuations of 1e-6."""
    x = 0.7 + 1e-6 * generator(seed, 1).normal(size=n)
    return x[:, None], 1.5 + NOISE * generator(seed, 2).normal(size=n)


def jumps(n, seed):
    """A level that jumps every 200 rows or so, with small fluctuations about it."""
    rng = generator(seed, 1)
    levels = rng.normal(size=n) * 4.0
    level = levels[np.cumsum(rng.random(n) < 0.005)]
    return observed((level + 0.05 * rng.normal(size=n))[:, None], seed)


STREAMS = {
    stream.__name__: stream
    for stream in (sine, path2d, walk, ramp, widening, lags, duplicates, constant, nearly_constant, jumps)
}


def generator(seed, part):
    return np.random.default_rng([seed, part])


def observed(X, seed):
    """The same smooth function of the inputs for every stream, observed with noise."""
    signal = np.sin(X[:, 0]) + 0.3 * X[:, 0]
    if X.shape[1] > 1:
        signal = signal + np.cos(0.7 * X[:, 1])
    return X, signal + NOISE * generator(seed, 2).normal(size=len(X))
