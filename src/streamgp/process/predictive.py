"""Predictions that say more than a mean and a variance: of which parts they are made, or what is not Gaussian.

Also where it is not Gaussian, ``mean`` is that of the observation, ``noise`` the variance it has on average when the
function is known, and ``variance`` the rest, which more data would take away: the law of total variance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import erfc, ndtr, owens_t, pdtr

from streamgp.compiled import compile_now
from streamgp.contract.inputs import numbers
from streamgp.contract.prediction import Prediction, Values, checked_level, plain
from streamgp.process import observation
from streamgp.settings import FloatArray, whole

ROWS_AT_ONCE = 1000  # of an interval: some hundred numbers for each
MOST_COUNTS = 1e15  # larger ones are whole numbers whatever they count


def is_class(y: FloatArray) -> Any:
    """Whether numbers are classes."""
    return (y == 0) | (y == 1)


def is_count(y: FloatArray) -> Any:
    """Whether numbers are counts."""
    return (y >= 0) & (y <= MOST_COUNTS) & (np.floor(y) == y)


def variance_ratio(dof: float) -> float:
    """The variance of a Student-t over its squared scale."""
    return dof / (dof - 2.0) if dof > 2 else math.nan


@dataclass(frozen=True, slots=True, eq=False)
class TimePrediction(Prediction[Values]):
    """A prediction that knows of which parts of the function it is made.

    Args:
        mean: the sum of the components' means.
        variance: of the function.
        noise: variance of the observation noise.
        components: by name, the mean and the variance of each part; parts are correlated, so that their variances need
            not add up.
    """

    components: dict[str, Prediction]

    def _bare(self) -> Prediction:
        return Prediction(self.mean, self.variance, self.noise)

    def _each(self, change: Callable[..., Any], *others: Any) -> Prediction:
        whole = Prediction._each(self, change, *others)
        if not all(isinstance(other, TimePrediction) for other in others):
            return whole
        parts = {
            name: one._each(change, *(o.components[name] for o in others)) for name, one in self.components.items()
        }
        return TimePrediction(whole.mean, whole.variance, whole.noise, parts)

    def _moved(self, shift: Any, scale: Any) -> TimePrediction:
        whole = Prediction._moved(self, shift, scale)
        parts = {name: one._moved(0.0, scale) for name, one in self.components.items()}
        return TimePrediction(whole.mean, whole.variance, whole.noise, parts)


@dataclass(frozen=True, slots=True, eq=False)
class StudentTPrediction(Prediction[Values]):
    """A prediction with Student-t noise.

    Args:
        mean: scalar, (p,), (n,) or (n, p).
        variance: of the function, which is Gaussian.
        noise: variance of the noise; NaN where it has none, up to 2 degrees of freedom.
        scale: of the noise.
        dof: its degrees of freedom.
    """

    scale: Values
    dof: float

    @staticmethod
    def of(mean: Any, variance: Any, scale: Any, dof: float) -> StudentTPrediction:
        """Return the prediction of a function with this mean and variance."""
        return StudentTPrediction(mean, variance, variance_ratio(dof) * scale**2, scale, dof)

    def interval(self, level: float = 0.9) -> tuple[Values, Values]:
        """Return the central interval that holds the observation with probability ``level``."""
        variance, scale = (np.broadcast_to(part, np.shape(self.mean)).ravel() for part in (self.variance, self.scale))
        blocks = range(0, max(variance.size, 1), ROWS_AT_ONCE)
        reach = [
            _student_t_reach(
                checked_level(level), self.dof, variance[b : b + ROWS_AT_ONCE], scale[b : b + ROWS_AT_ONCE]
            )
            for b in blocks
        ]
        half = plain(np.concatenate(reach).reshape(np.shape(self.mean)))
        return self.mean - half, self.mean + half

    def log_density(self, y: Any) -> Any:
        """Return the log density of the observation y."""
        values = numbers(y, "y")
        return _log_density(observation.STUDENT_T, self.dof, values, self.mean, self.variance, self.scale**2)

    def sample(self, n: int = 1, seed: int = 0) -> FloatArray:
        """Return n draws of the observation, an array (n, ...) over the shape of the mean."""
        rng, shape = _generator(n, seed), (n, *np.shape(self.mean))
        latent = self.mean + np.sqrt(self.variance) * rng.standard_normal(shape)
        return np.asarray(latent + self.scale * rng.standard_t(self.dof, shape))

    def _each(self, change: Callable[..., Any], *others: Any) -> StudentTPrediction:
        mean, variance, scale = (
            change(*(getattr(p, name) for p in (self, *others))) for name in ("mean", "variance", "scale")
        )
        return StudentTPrediction.of(mean, variance, scale, self.dof)

    def _moved(self, shift: Any, scale: Any) -> StudentTPrediction:
        return StudentTPrediction.of(shift + scale * self.mean, scale**2 * self.variance, scale * self.scale, self.dof)


@dataclass(frozen=True, slots=True, eq=False)
class LatentPrediction(Prediction[Values]):
    """A prediction of observations that are not numbers on the scale of the function; see its two kinds.

    Args:
        mean: of the observation.
        variance: the part of the observation's variance that comes from not knowing the function.
        noise: the part that is left when the function is known.
        latent: the function itself, before the link: its mean and its variance.
    """

    latent: Prediction

    def _each(self, change: Callable[..., Any], *others: Any) -> LatentPrediction:
        mean, variance, noise = (
            change(*(getattr(p, name) for p in (self, *others))) for name in ("mean", "variance", "noise")
        )
        return type(self)(mean, variance, noise, self.latent._each(change, *(p.latent for p in others)))

    def _moved(self, shift: Any, scale: Any) -> LatentPrediction:
        return self  # classes and counts have no unit


@dataclass(frozen=True, slots=True, eq=False)
class ClassPrediction(LatentPrediction[Values]):
    """A prediction of classes 0 and 1; ``mean`` is the probability of 1, ``latent`` the function below Phi."""

    @staticmethod
    def of(mean: Any, variance: Any) -> ClassPrediction:
        """Return the prediction for a function with this mean and variance."""
        s = 1.0 + variance
        z = mean / np.sqrt(s)
        probability = ndtr(z)
        # E[Phi(f) (1 - Phi(f))] by Owen's function; the rest of p (1 - p) is the variance of Phi(f).
        noise = 2.0 * owens_t(z, 1.0 / np.sqrt(s + variance))
        return ClassPrediction(
            probability,
            np.maximum(probability * ndtr(-z) - noise, 0.0),
            noise,
            Prediction(mean, variance, np.zeros_like(variance)),
        )

    def log_density(self, y: Any) -> Any:
        """Return the log probability of the class y; -inf for what is none."""
        return _log_probability(observation.PROBIT, numbers(y, "y"), is_class, self.latent)

    @property
    def probability(self) -> Values:
        """The probability of class 1."""
        return self.mean

    def interval(self, level: float = 0.9) -> tuple[Values, Values]:
        """Return the central interval: 0 and 1, or one of them twice where the other is improbable enough."""
        tail = 0.5 * (1.0 - checked_level(level))
        below = 1.0 - np.asarray(self.mean)
        return plain(np.where(below >= tail, 0.0, 1.0)), plain(np.where(below >= 1.0 - tail, 0.0, 1.0))

    def sample(self, n: int = 1, seed: int = 0) -> FloatArray:
        """Return n draws of the class, an array (n, ...) over the shape of the mean."""
        return np.asarray(_generator(n, seed).random((n, *np.shape(self.mean))) < self.mean, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class CountPrediction(LatentPrediction[Values]):
    """A prediction of counts; ``mean`` is that of the count, ``latent`` the logarithm of its rate."""

    @staticmethod
    def of(mean: Any, variance: Any) -> CountPrediction:
        """Return the prediction for a log rate with this mean and variance."""
        with np.errstate(over="ignore"):
            rate = np.exp(mean + 0.5 * variance)
            spread = np.exp(2.0 * mean + variance) * np.expm1(variance)
        return CountPrediction(rate, spread, rate, Prediction(mean, variance, np.zeros_like(variance)))

    def log_density(self, y: Any) -> Any:
        """Return the log probability of the count y; -inf for what is none."""
        return _log_probability(observation.POISSON, numbers(y, "y"), is_count, self.latent)

    def interval(self, level: float = 0.9) -> tuple[Values, Values]:
        """Return the central interval, whole numbers: the count is below or above with at most (1 - level) / 2 each."""
        tail = 0.5 * (1.0 - checked_level(level))
        mean, variance = (np.ravel(part).astype(np.float64) for part in (self.latent.mean, self.latent.variance))
        bounds = (_quantile(p, mean, np.sqrt(variance)).reshape(np.shape(self.mean)) for p in (tail, 1.0 - tail))
        low, high = map(plain, bounds)
        return low, high

    def sample(self, n: int = 1, seed: int = 0) -> FloatArray:
        """Return n draws of the count, an array (n, ...) over the shape of the mean."""
        rng, latent = _generator(n, seed), self.latent
        drawn = latent.mean + np.sqrt(latent.variance) * rng.standard_normal((n, *np.shape(self.mean)))
        return np.asarray(rng.poisson(np.exp(drawn)), dtype=np.float64)


def _student_t_reach(level: float, dof: float, variance: FloatArray, scale: FloatArray) -> FloatArray:
    """How far to either side of its mean the central interval of f plus Student-t noise reaches.

    Given its log precision u the noise is Gaussian, so that the probability beyond h is a mean of complementary error
    functions, which falls and is convex: Newton's steps from 0 never go too far.
    """
    u = np.arange(-60.0 / dof - 1.0, math.log(2.0 + 60.0 / dof) + 1.0, min(0.3, 0.7 * math.sqrt(2.0 / (dof + 1.0))))
    weights = np.exp(0.5 * dof * (u + 1.0 - np.exp(u)))
    weights /= weights.sum()
    std = np.sqrt(2.0 * (variance[:, None] + scale[:, None] ** 2 * np.exp(-u)))
    h = np.zeros_like(variance)
    for _ in range(100):
        z = h[:, None] / std
        step = (erfc(z) @ weights - (1.0 - level)) / ((2.0 / math.sqrt(math.pi) * np.exp(-z * z) / std) @ weights)
        h += step
        if np.all(np.abs(step) <= 1e-12 * h):
            break
    return h


def _quantile(p: float, mean: FloatArray, std: FloatArray) -> FloatArray:
    """The smallest counts with at least the probability p at or below them."""
    low = np.full(mean.shape, -1.0)  # below it
    high = np.ones_like(mean)
    with np.errstate(over="ignore"):
        while np.any(short := _at_most(high, mean, std) < p):
            low, high = np.where(short, high, low), np.where(short, 4.0 * high, high)
        while np.any(open_ := high - low > np.maximum(1.0, 1e-15 * high)):
            middle = np.where(open_, np.floor(0.5 * (low + high)), high)
            short = _at_most(middle, mean, std) < p
            low, high = np.where(open_ & short, middle, low), np.where(open_ & ~short, middle, high)
    return high


def _at_most(k: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """P(count <= k), which is P(f < log G) with a gamma variable G of shape k + 1: the narrower one is integrated."""
    width = 1.0 / np.sqrt(k + 1.0)
    z = np.arange(-8.5, 8.6, 0.25)
    weights = np.exp(-0.5 * z * z)
    over_f = pdtr(k[:, None], np.exp(mean[:, None] + std[:, None] * z)) @ (weights / weights.sum())
    d = width[:, None] * np.arange(-40.0, 8.6, 0.25)  # log G less its mode
    density = np.exp(-(k[:, None] + 1.0) * (np.expm1(d) - d))
    above = (np.log1p(k)[:, None] + d - mean[:, None]) / np.maximum(std, 1e-300)[:, None]
    over_g = np.sum(density * ndtr(above), axis=1) / density.sum(1)
    return np.asarray(np.where(std < width, over_f, over_g))


def _log_probability(kind: int, y: FloatArray, possible: Callable[[FloatArray], Any], latent: Prediction) -> Any:
    impossible = ~(np.isnan(y) | possible(y))
    known = np.where(impossible, np.nan, y)
    result = _log_density(kind, 1.0, known, latent.mean, latent.variance, 1.0)
    return plain(np.where(impossible, -np.inf, result))


def _log_density(kind: int, dof: float, y: FloatArray, *parts: Any) -> Any:
    shape = np.broadcast_shapes(y.shape, *(np.shape(part) for part in parts))
    y, mean, variance, noise = (
        np.ascontiguousarray(np.broadcast_to(part, shape), dtype=np.float64).reshape(-1, 1) for part in (y, *parts)
    )
    out = np.empty_like(y)
    compile_now(observation.log_densities)
    observation.log_densities(kind, dof, y, mean, variance, noise, out)
    return plain(out.reshape(shape))


def _generator(n: int, seed: int) -> np.random.Generator:
    whole("n", n)
    return np.random.default_rng(whole("seed", seed, at_least=0))
