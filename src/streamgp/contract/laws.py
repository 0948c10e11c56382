"""The laws of predictions: which distribution of the observation the columns of a prediction describe."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtr, ndtri

from streamgp.contract.inputs import numbers
from streamgp.contract.ladder import (
    BELOW,
    LEAST_DEVIATION,
    LOG_DENSITY,
    LOG_ROOT_2PI,
    QUANTILE,
    ROOT_PI,
    SQUARED,
    Ladder,
)
from streamgp.settings import FloatArray

# Levels up to the median at which the quantiles of calibrated predictions are tracked, besides those of the bounds.
LEVELS = 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.175, 0.25, 0.35, 0.5


@dataclass(frozen=True)
class Law:
    """The Gaussian law N(mean, variance + noise), and what other laws have in its place.

    The methods get the columns of a prediction p, and arrays y and q that broadcast with its mean.
    """

    level: ClassVar[float] = 0.9  # of the interval where none is asked for
    discrete: ClassVar[bool] = False  # classes and counts, which have no unit

    def interval(self, p: Any, level: float) -> tuple[Any, Any]:
        """The central interval with this probability."""
        half = gaussian_reach(level) * p.std
        return p.mean - half, p.mean + half

    def deviation(self, p: Any, error: FloatArray) -> Any:
        """The standard deviation on the side of an error."""
        return p.std

    def quantile(self, p: Any, q: FloatArray) -> Any:
        """The value below which the observation lies with probability q."""
        return p.mean + p.std * ndtri(q)

    def tails(self, p: Any, y: FloatArray) -> tuple[Any, Any]:
        """The probabilities of at most y and of at least y, each without cancellation where it is small."""
        z = _over(y - p.mean, np.asarray(p.std))
        return ndtr(z), ndtr(-z)

    def crps(self, p: Any, y: FloatArray) -> Any:
        """The continuous ranked probability score. [Gneiting and Raftery 2007] Eq. (21)"""
        error, s = y - p.mean, np.asarray(p.std)
        z = _over(error, s)
        density = np.exp(-0.5 * z * z - LOG_ROOT_2PI)
        return error * (ndtr(z) - ndtr(-z)) + s * (2.0 * density - 1.0 / ROOT_PI)

    def log_density(self, p: Any, y: FloatArray) -> Any:
        """The log density, or the log probability where y is discrete."""
        s, error = p.variance + p.noise, y - p.mean
        return -0.5 * (np.log(2.0 * np.pi * np.asarray(s)) + error * error / s)

    def sample(self, p: Any, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        """Draws of this shape, which broadcasts with the mean."""
        return p.mean + p.std * rng.standard_normal(shape)


GAUSSIAN = Law()


@dataclass(frozen=True)
class LadderLaw(Law):
    """Calibrated bounds ``lower`` and ``upper`` at a level, and the quantiles ``shape`` as in contract/ladder.py."""

    level: float  # type: ignore[misc]  # of each its own

    def interval(self, p: Any, level: float) -> tuple[Any, Any]:
        if level == self.level:
            return p.lower, p.upper
        score, ladder = np.asarray(gaussian_reach(level)), self.ladder(p)
        return p.mean + ladder.evaluated(QUANTILE, -score), p.mean + ladder.evaluated(QUANTILE, score)

    def deviation(self, p: Any, error: FloatArray) -> Any:
        reach = np.where(error < 0, p.mean - p.lower, p.upper - p.mean)
        return np.maximum(reach / gaussian_reach(self.level), LEAST_DEVIATION)  # none is left beside a large mean

    def quantile(self, p: Any, q: FloatArray) -> Any:
        return p.mean + self.ladder(p).evaluated(QUANTILE, ndtri(q))

    def tails(self, p: Any, y: FloatArray) -> tuple[Any, Any]:
        error, ladder = y - p.mean, self.ladder(p)
        return ladder.evaluated(BELOW, error), ladder.mirrored.evaluated(BELOW, -error)

    def crps(self, p: Any, y: FloatArray) -> Any:
        error, ladder = y - p.mean, self.ladder(p)  # the integrals of the squared cdf below the error and above it
        return ladder.evaluated(SQUARED, error) + ladder.mirrored.evaluated(SQUARED, -error)

    def log_density(self, p: Any, y: FloatArray) -> Any:
        return self.ladder(p).evaluated(LOG_DENSITY, y - p.mean)

    def sample(self, p: Any, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        return p.mean + self.ladder(p).evaluated(QUANTILE, rng.standard_normal(shape))

    def ladder(self, p: Any) -> Ladder:
        """The distribution of the errors."""
        below, above = np.asarray(p.mean - p.lower), np.asarray(p.upper - p.mean)
        if not p.shape:
            z = gaussian_reach(self.level)
            errors = np.stack([-below, np.zeros_like(below), above])
            return Ladder(np.array([-z, 0.0, z]), errors, np.zeros((4, *below.shape)))
        shape = np.asarray(p.shape)
        ratios, tails = shape[:-4], shape[-4:].copy()
        tails[1] = np.maximum(tails[1] * below, LEAST_DEVIATION)
        tails[3] = np.maximum(tails[3] * above, LEAST_DEVIATION)
        reach = np.where(ratios < 0.0, below, above)
        errors = np.multiply(reach, ratios, out=np.zeros_like(reach), where=ratios != 0.0)  # reach may be infinite
        return Ladder(_ladder_scores(self.level), errors, tails)


@cache
def ladder_law(level: float) -> LadderLaw:
    """The law of predictions that are calibrated at this level."""
    return LadderLaw(level)


@cache
def ladder_levels(level: float) -> FloatArray:
    """The levels at which the quantiles of a prediction with calibrated bounds are tracked, rising."""
    bound = 0.5 * (1.0 - level)
    below = [one for one in LEVELS if one == 0.5 or abs(one - bound) > 0.02 * bound]  # no two nearly the same
    lower = np.sort([bound, *below])
    levels = np.concatenate([lower, 1.0 - lower[-2::-1]])
    levels.flags.writeable = False
    return levels


@cache
def _ladder_scores(level: float) -> FloatArray:
    """The normal scores of these levels."""
    return np.asarray(ndtri(ladder_levels(level)))


@cache
def gaussian_reach(level: float) -> float:
    """How many standard deviations the central interval of a Gaussian reaches to either side."""
    return NormalDist().inv_cdf(0.5 + level / 2.0)


def probabilities(q: Any) -> FloatArray:
    """Probabilities that are neither 0 nor 1."""
    values = numbers(q, "q")
    if not np.all((values > 0.0) & (values < 1.0)):
        raise ValueError(f"q must be above 0 and below 1; got {q!r}")
    return values


def _over(error: FloatArray, deviation: FloatArray) -> FloatArray:
    """Errors in standard deviations; of none at all any error is infinitely many, and no error none."""
    with np.errstate(over="ignore"):
        return np.asarray(error / np.where(deviation == 0.0, LEAST_DEVIATION, deviation))
