"""The rotating system of section VII: a point on the circle of which one coordinate is observed with noise.

Its only unknown is the phase, uniform on the circle when nothing is observed, so that every density of the next
observation is an average over phases: it is computed on a fine grid of them, not estimated.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp.settings import FloatArray

PHASES = np.linspace(-np.pi, np.pi, 720, endpoint=False)


def observed(n: int, angle: float, noise_std: float, seed: int) -> FloatArray:
    """n observations (54)-(55): the first coordinate of the state, which starts at (0, 1), plus noise."""
    states = np.cos(np.pi / 2 + angle * np.arange(n))
    return states + noise_std * np.random.default_rng(seed).standard_normal(n)


def phase_given(windows: FloatArray, angle: float, noise_std: float) -> FloatArray:
    """(n, phases) posterior of the present phase, given the last observations, the present one last."""
    depth = windows.shape[1]
    lags = np.arange(depth - 1, -1, -1)
    means = np.cos(PHASES[:, None] - angle * lags)  # (phases, depth)
    # -1/2 |window - means|^2 up to what does not depend on the phase
    logs = (windows @ means.T - 0.5 * np.sum(means * means, axis=1)) / noise_std**2
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def likelihood(y: FloatArray, angle: float, noise_std: float) -> FloatArray:
    """(phases, len(y)) density of y as the next observation, by the present phase."""
    z = (y[None, :] - np.cos(PHASES + angle)[:, None]) / noise_std
    return np.asarray(np.exp(-0.5 * z * z) / (noise_std * np.sqrt(2.0 * np.pi)))


def modes(density: FloatArray) -> NDArray[np.int64]:
    """Local maxima of each row, of those that reach a tenth of the highest."""
    inner = density[:, 1:-1]
    peak = (inner > density[:, :-2]) & (inner >= density[:, 2:])
    return np.sum(peak & (inner > 0.1 * density.max(axis=1, keepdims=True)), axis=1)
