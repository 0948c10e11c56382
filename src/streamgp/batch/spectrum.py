"""Sparse spectrum Gaussian process regression: a finite linear model in random Fourier features."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from streamgp.batch import low_rank
from streamgp.batch.low_rank import LowRank
from streamgp.batch.model import BatchModel, Hyperparameters, extent
from streamgp.kernels import SquaredExponential
from streamgp.process.features import Fourier, fourier_features
from streamgp.settings import FloatArray, Setting
from streamgp.vocabulary import Frequencies, FrequencySeed, GivenFrequencies, Lengthscale, OneNoise, Variance


class Spectrum(NamedTuple):
    """A posterior over the weights of Fourier features."""

    scales: FloatArray  # (width,) lengthscales
    variance: float
    frequencies: FloatArray  # (D, width), divided by the lengthscales
    weights: LowRank
    value: float


class SSGPR(BatchModel):
    """Sparse spectrum Gaussian process regression [gijsberts2013 3.2; Lazaro-Gredilla et al. 2010].

    The function is linear in sqrt(variance / D) [cos(Ox); sin(Ox)]; the frequencies O are drawn so that it approximates
    a squared exponential, or tuned with the other hyperparameters. :class:`streamgp.ISSGPR` with the same settings
    learns the same function row by row.

    Example:
        >>> import numpy as np
        >>> from streamgp.batch import SSGPR
        >>> X = np.linspace(0.0, 6.0, 200)
        >>> model = SSGPR(features=50, lengthscale=1.0, noise=0.01).fit(X, np.sin(X))
        >>> round(float(model.predict([1.5]).mean[0]), 1)
        1.0
    """

    also_tuned = "frequencies"

    def __init__(
        self,
        features: Frequencies = 100,
        *,
        lengthscale: Lengthscale = None,
        variance: Variance = 1.0,
        noise: OneNoise = 0.01,
        seed: FrequencySeed = 0,
        frequencies: GivenFrequencies = None,
        tune_frequencies: Annotated[
            bool,
            Setting("whether evidence maximization moves the frequencies too: D d more parameters, which can overfit"),
        ] = False,
    ) -> None:
        self._features = Fourier(
            features, lengthscale=lengthscale, variance=variance, seed=seed, frequencies=frequencies
        )
        self._noise = noise
        self._tuned = bool(tune_frequencies)

    @property
    def frequencies(self) -> FloatArray:
        """The (D, width) frequencies, divided by the lengthscales; before fit those given, or none."""
        if self._solution is not None:
            return np.array(self._solution.frequencies)
        return np.empty((0, 0)) if self._features.given is None else self._features.given.copy()

    def stream_settings(self) -> dict[str, Any]:
        """Return the settings with which an ISSGPR learns row by row what this fitted model has learned at once.

        Returns:
            features, frequencies (divided by the lengthscales), lengthscale, variance and noise.

        Example:
            >>> import numpy as np
            >>> import streamgp as sg
            >>> from streamgp.batch import SSGPR
            >>> X = np.linspace(0.0, 6.0, 60)
            >>> batch = SSGPR(features=20, noise=0.01).fit(X, np.sin(X))
            >>> stream = sg.ISSGPR.from_batch(batch)
            >>> stream.learn_many(X, np.sin(X))
            >>> bool(abs(stream.predict_one(2.5).mean - batch.predict([2.5]).mean[0]) < 1e-8)
            True
        """
        self.log_marginal_likelihood()  # refuses a model that was not fitted
        frequencies = self.frequencies
        return {"features": len(frequencies), "frequencies": frequencies} | self.hyperparameters

    def _start(self, X: FloatArray) -> Hyperparameters:
        parts = self._features
        kernel = SquaredExponential(parts.lengthscale, variance=parts.variance)
        width, depth = extent(X)
        named = kernel.hyperparameters(kernel.program(width, depth).parameters, width, depth) | {"noise": self._noise}
        return named | ({"frequencies": self._unscaled(X, named["lengthscale"])} if self._tuned else {})

    def _unscaled(self, X: FloatArray, lengthscale: Any) -> FloatArray:
        """The frequencies for lengthscales of one."""
        width, depth = extent(X)
        return self._features.frequencies(width, depth) * np.resize(lengthscale, width)

    def _redrawn(self, count: int, X: FloatArray, rng: np.random.Generator) -> FloatArray:
        return rng.standard_normal(count)

    def _solve(self, named: Hyperparameters, X: FloatArray, Y: FloatArray) -> Spectrum:
        (width, _), variance = extent(X), float(named["variance"])
        unscaled = named["frequencies"] if self._tuned else self._unscaled(X, self._start(X)["lengthscale"])
        scales = np.resize(named["lengthscale"], width)
        frequencies = unscaled / scales
        # [gijsberts2013] Eq. (4) and 3.2, the log marginal likelihood, with sqrt(noise) of theirs in Phi. The
        # determinant has one factor for each of the 2D weights; the paper prints D/2 ln noise where 2D/2 is meant.
        Phi = fourier_features(frequencies, variance, X.reshape(len(X), width))
        weights = low_rank.solve(Phi, np.full(len(X), named["noise"]), Y)
        return Spectrum(scales, variance, frequencies, weights, weights.value)

    def _gradient(self, solution: Spectrum, X: FloatArray, Y: FloatArray) -> FloatArray:
        scales, _, frequencies, (Phi, lam, *_), _ = solution
        X, D = X.reshape(len(X), -1), len(frequencies)
        WPhi, w = low_rank.derivative(solution.weights, Y)
        # d S = d Phi Phi' + Phi d Phi'; the angle turns cos into -sin and sin into cos.
        by_angle = 2.0 * (WPhi[:, D:] * Phi[:, :D] - WPhi[:, :D] * Phi[:, D:])
        by_frequency = by_angle.T @ X
        by_scale = -np.sum(by_frequency * frequencies, axis=0)
        lengthscales = 1 if self._features.lengthscale is None else self._features.lengthscale.size
        by_lengthscale = np.bincount(np.arange(scales.size) % lengthscales, by_scale, lengthscales)
        parts = [by_lengthscale, np.array([np.sum(WPhi * Phi), lam @ w])]
        if self._tuned:
            parts.append((by_frequency / scales).ravel())
        return np.concatenate(parts)

    def _predict(self, solution: Spectrum, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        # [gijsberts2013] Eq. (3) without the noise of the observation
        Phi = fourier_features(solution.frequencies, solution.variance, X.reshape(len(X), -1))
        return low_rank.predict(solution.weights, Phi)
