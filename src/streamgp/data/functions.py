"""Functions: seeded samples of the papers' static regression problems."""

from __future__ import annotations

import math

import numpy as np

from streamgp.data.series import DRIVE, IRRELEVANT, START, TEST, Series, draws, noisy_response
from streamgp.settings import FloatArray, whole


def huber_function(n: int = 200, seed: int = 0, noise_std: float = math.sqrt(0.1)) -> Series:
    """y = x / 2 + 25 x / (1 + x^2) cos(x) + noise, x ~ U(-10, 10) [huber2013 5].

    Args:
        n: rows.
        seed: of the inputs and the noise.
        noise_std: standard deviation (not variance) of the observation noise; the paper's variance is 0.1.

    Example:
        >>> from streamgp.data import huber_function
        >>> huber_function(50).X.shape
        (50, 1)
    """
    x = draws(seed, DRIVE).uniform(-10.0, 10.0, whole("n", n))
    truth = x / 2.0 + 25.0 * x / (1.0 + x**2) * np.cos(x)
    return noisy_response(x[:, None], ("x",), truth, "y", seed, noise_std)


def cross(n: int = 500, dimensions: int = 2, seed: int = 0, noise_std: float = 0.1) -> Series:
    """The Cross function, f(x) = max(exp(-10 x1^2), exp(-50 x2^2), 1.25 exp(-5 (x1^2 + x2^2))) [gijsberts2013 4.1].

    x1 and x2 are uniform in [-1, 1]. With 10 dimensions eight zeros are appended and the rows are turned by a random
    rotation; with 20 dimensions ten columns of N(0, 0.05^2) follow, which are irrelevant.

    Args:
        n: rows.
        dimensions: 2, 10 or 20.
        seed: of the rows, the rotation and the noise.
        noise_std: standard deviation (not variance) of the observation noise.

    Example:
        >>> from streamgp.data import cross
        >>> cross(dimensions=10).X.shape
        (500, 10)
    """
    plane = draws(seed, DRIVE).uniform(-1.0, 1.0, (whole("n", n), 2))
    return _cross(plane, dimensions, seed, noise_std, draws(seed, IRRELEVANT))


def cross_grid(points: int = 41, dimensions: int = 2, seed: int = 0) -> Series:
    """The noise-free test rows of :func:`cross`: a regular grid over [-1, 1]^2, turned by the same seed's rotation.

    Args:
        points: along one side; the paper's 41 give 1681 rows.
        dimensions: 2, 10 or 20.
        seed: the one given to :func:`cross`; the irrelevant columns are drawn anew.

    Example:
        >>> from streamgp.data import cross_grid
        >>> cross_grid().X.shape
        (1681, 2)
    """
    side = np.linspace(-1.0, 1.0, whole("points", points, at_least=2))
    plane = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    return _cross(plane, dimensions, seed, 0.0, draws(seed, TEST))


def _cross(plane: FloatArray, dimensions: int, seed: int, noise_std: float, irrelevant: np.random.Generator) -> Series:
    if dimensions not in (2, 10, 20):
        raise ValueError(f"dimensions must be 2, 10 or 20, the three Cross data sets of the paper; got {dimensions!r}")
    a, b = plane.T**2
    truth = np.maximum.reduce([np.exp(-10.0 * a), np.exp(-50.0 * b), 1.25 * np.exp(-5.0 * (a + b))])
    X = plane
    if dimensions > 2:
        X = plane @ _rotation(10, draws(seed, START))[:, :2].T
    if dimensions == 20:
        X = np.hstack([X, irrelevant.normal(0.0, 0.05, (len(X), 10))])
    return noisy_response(X, tuple(f"x{j + 1}" for j in range(dimensions)), truth, "y", seed, noise_std)


def _rotation(size: int, rng: np.random.Generator) -> FloatArray:
    """A rotation drawn uniformly: the Q of a normal matrix, with the signs that make it unique."""
    Q, R = np.linalg.qr(rng.standard_normal((size, size)))
    Q *= np.sign(np.diag(R))
    if np.linalg.det(Q) < 0:
        Q[:, -1] *= -1.0
    return Q
