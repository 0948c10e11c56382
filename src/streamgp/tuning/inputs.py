"""Inputs beside a kernel over time: what a series may depend on, as features."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamgp.kernels import SquaredExponential
from streamgp.kernels.temporal import harmonic_weights
from streamgp.settings import FloatArray

# A curve over an input is smooth over one standard deviation of it, on points this far apart or closer.
POINTS = np.linspace(-2.5, 2.5, 6)[:, None]
# Along the shortest season a line and a curve may differ by these harmonics, with the weights of Periodic of length 1.
HARMONICS = (1, 2)
# At most this many features: with more inputs they do not differ along the season, then they are lines only.
MOST = 140
# The median of the prior of all variances together, for targets of variance 1.
INPUTS = 0.4


class Recent(NamedTuple):
    """What the next row's features need of the rows before: their last time, and the means of the inputs by then."""

    time: float
    means: FloatArray


class InputFeatures:
    """Features of inputs, whose weights have a prior variance of 1 in groups that are scaled together.

    Each input has a line and a curve, each of which may differ along the shortest season: heating and cooling, by the
    hour. Its mean over the last season, with weights that fade, has the same: walls stay cold after a cold day.
    The units are taken from the given inputs. Without a season there are neither means nor differences along it.
    """

    def __init__(self, X: FloatArray, season: float | None) -> None:
        self.season, self.width = season, X.shape[1]
        self._center, self._scale = X.mean(axis=0), X.std(axis=0)
        self._scale[self._scale == 0] = 1.0
        columns = X.shape[1] * (1 if season is None else 2)
        full, curved = (1 + len(POINTS)) * (1 + 2 * len(HARMONICS)), 1 + len(POINTS)
        self._turns = season is not None and columns * full <= MOST
        self._curves = columns * curved <= MOST
        if columns > MOST:
            most = MOST // (1 if season is None else 2)
            raise ValueError(f"X has {X.shape[1]} columns; a forecast takes at most {most}. Leave out some")
        curve = SquaredExponential(1.0)
        self._whiten = np.linalg.inv(np.linalg.cholesky(curve(POINTS) + 1e-9 * np.eye(len(POINTS)))).T
        self._curve = curve
        weights = np.array([float(harmonic_weights(j, 1.0)[0]) for j in HARMONICS])
        self._amplitudes = np.sqrt(weights / weights.sum())
        sizes = [part.shape[1] for part in self._parts(np.zeros((1, columns)), np.zeros(1))]
        self.groups = np.repeat(np.arange(len(sizes)), sizes)

    def __call__(self, X: FloatArray, times: FloatArray, recent: Recent | None) -> tuple[FloatArray, Recent | None]:
        """The features of rows, (n, features), and what the rows after them need."""
        if not len(X):
            return np.empty((0, len(self.groups))), recent
        Z = (X - self._center) / self._scale
        if self.season is not None:
            means, time = np.empty_like(Z), times[0]
            mean = Z[0]
            if recent is not None:
                time, mean = recent
            for i, z in enumerate(Z):
                mean = means[i] = z + np.exp(-(times[i] - time) / self.season) * (mean - z)
                time = times[i]
            recent = Recent(float(time), mean.copy())
            Z = np.hstack([Z, means])
        return np.hstack(self._parts(Z, times)), recent

    def _parts(self, Z: FloatArray, times: FloatArray) -> list[FloatArray]:
        """The features of each group."""
        parts = []
        for z in Z.T:
            line = z[:, None]
            for base in (line, self._curve(line, POINTS) @ self._whiten) if self._curves else (line,):
                parts.append(base)
                if self._turns:
                    parts.append((base[:, :, None] * self._along(times)[:, None, :]).reshape(len(z), -1))
        return parts

    def _along(self, times: FloatArray) -> FloatArray:
        """The harmonics of the season, (n, 2 harmonics)."""
        angles = 2.0 * np.pi * times[:, None] / (self.season or 1.0) * np.array(HARMONICS)
        return np.hstack([self._amplitudes * np.cos(angles), self._amplitudes * np.sin(angles)])
