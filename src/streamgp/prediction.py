"""Prediction: a mean with the variance of the function and the noise of the observation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from streamgp.settings import FloatArray, number, whole

Values = float | FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """A Gaussian prediction of one target, of several, or of many rows.

    Args:
        mean: scalar, (p,), (n,) or (n, p).
        variance: of the latent function; NaN for models without one.
        noise: variance of the observation noise.

    Example:
        >>> import streamgp as sg
        >>> p = sg.Prediction(mean=1.0, variance=0.03, noise=0.01)
        >>> round(p.std, 3)
        0.2
        >>> low, high = p.interval(0.95)
        >>> round(low, 2), round(high, 2)
        (0.61, 1.39)
    """

    mean: Values
    variance: Values
    noise: Values

    @property
    def std(self) -> Values:
        """Standard deviation of the observation y: function and noise together."""
        total = self.variance + self.noise
        return math.sqrt(total) if isinstance(total, float) else np.sqrt(total)

    def interval(self, level: float = 0.95) -> tuple[Values, Values]:
        """Return the central interval that holds the observation with probability ``level``."""
        number("level", level, above=0)
        if level >= 1:
            raise ValueError(f"level must be above 0 and below 1; got {level!r}")
        half = NormalDist().inv_cdf(0.5 + level / 2.0) * self.std
        return self.mean - half, self.mean + half

    def log_density(self, y: Any) -> Values:
        """Return the log density of the observation y."""
        s = self.variance + self.noise
        error = np.asarray(y, dtype=np.float64) - self.mean
        result = -0.5 * (np.log(2.0 * np.pi * np.asarray(s)) + error * error / s)
        return float(result) if np.ndim(result) == 0 else result

    def sample(self, n: int = 1, seed: int = 0) -> FloatArray:
        """Return n draws of the observation, an array (n, ...) over the shape of the mean."""
        whole("n", n)
        rng = np.random.default_rng(whole("seed", seed, at_least=0))
        return self.mean + self.std * rng.standard_normal((n, *np.shape(self.mean)))

    def __len__(self) -> int:
        if np.ndim(self.mean) == 0:
            raise TypeError("this Prediction is of one scalar target and has no length")
        return len(self.mean)  # type: ignore[arg-type]

    def __getitem__(self, index: Any) -> Prediction:
        """Return the prediction of some of the rows (or outputs)."""
        parts = [
            np.broadcast_to(np.asarray(v), np.shape(self.mean))[index] for v in (self.mean, self.variance, self.noise)
        ]
        return Prediction(*(float(v) if np.ndim(v) == 0 else v for v in parts))
