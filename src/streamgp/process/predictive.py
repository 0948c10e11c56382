"""Predictions that say more than a mean and a variance: of which parts they are made, or what is not Gaussian.

Also where it is not Gaussian, ``mean`` is that of the observation, ``noise`` the variance it has on average when the
function is known, and ``variance`` the rest, which more data would take away: the law of total variance.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import erfc, ndtr, owens_t, pdtr, pdtrc

from streamgp.compiled import compile_now
from streamgp.contract.laws import GAUSSIAN, Law
from streamgp.contract.prediction import Prediction, Values
from streamgp.process import observation
from streamgp.settings import FloatArray

ROWS_AT_ONCE = 1000  # of an interval: some hundred numbers for each
COUNTS_SUMMED = 2000  # of a score
MOST_COUNTS = 1e15  # larger ones are whole numbers whatever they count


def variance_ratio(dof: float) -> float:
    """The variance of a Student-t over its squared scale."""
    return dof / (dof - 2.0) if dof > 2 else math.nan


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

    def __init__(
        self, mean: Values, variance: Values, noise: Values, components: dict[str, Prediction], **beside: Any
    ) -> None:
        columns = {"mean": mean, "variance": variance, "noise": noise, "components": components}
        self._fill(GAUSSIAN, columns, beside)


@dataclass(frozen=True)
class StudentTLaw(Law):
    """A function that is Gaussian, and noise of a ``scale`` with these degrees of freedom."""

    dof: float

    def interval(self, p: Any, level: float) -> tuple[Any, Any]:
        half = self._by_rows(_student_t_reach, 1.0 - level, p)
        return p.mean - half, p.mean + half

    def quantile(self, p: Any, q: FloatArray) -> Any:
        reach = self._by_rows(_student_t_reach, 2.0 * np.minimum(q, 1.0 - q), p)
        return p.mean + np.where(q < 0.5, -reach, reach)

    def tails(self, p: Any, y: FloatArray) -> tuple[Any, Any]:
        error = y - p.mean
        return self._by_rows(_student_t_below, error, p), self._by_rows(_student_t_below, -error, p)

    def crps(self, p: Any, y: FloatArray) -> Any:
        return self._by_rows(_student_t_crps, y - p.mean, p)

    def log_density(self, p: Any, y: FloatArray) -> Any:
        return _by_rows(partial(_log_density, observation.STUDENT_T, self.dof), y, p.mean, p.variance, p.scale**2)

    def sample(self, p: Any, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        latent = p.mean + np.sqrt(p.variance) * rng.standard_normal(shape)
        return latent + p.scale * rng.standard_t(self.dof, shape)

    def _by_rows(self, function: Callable[..., FloatArray], first: Any, p: Any) -> FloatArray:
        return _by_rows(partial(function, dof=self.dof), first, p.variance, p.scale)


class StudentTPrediction(Prediction[Values]):
    """A prediction with Student-t noise.

    Args:
        mean: scalar, (p,), (n,) or (n, p).
        variance: of the function, which is Gaussian.
        scale: of the noise.
        dof: its degrees of freedom; up to 2 the noise has no variance, and ``noise`` is NaN.
    """

    scale: Values
    law: StudentTLaw

    def __init__(self, mean: Values, variance: Values, scale: Values, dof: float, **beside: Any) -> None:
        self._fill(StudentTLaw(dof), {"mean": mean, "variance": variance, "scale": scale}, beside)

    @property
    def noise(self) -> Values:  # type: ignore[override]  # follows from the scale
        """Variance of the noise."""
        return variance_ratio(self.law.dof) * self.scale**2

    @property
    def dof(self) -> float:
        """Degrees of freedom of the noise."""
        return self.law.dof


class DiscreteLaw(Law, abc.ABC):
    """Observations that are not numbers on the scale of the function, which lies in ``latent``."""

    discrete = True
    kind: ClassVar[int]

    @abc.abstractmethod
    def possible(self, y: FloatArray) -> Any:
        """Whether numbers are such observations."""

    def log_density(self, p: Any, y: FloatArray) -> Any:
        known = np.where(self.possible(y), y, np.nan)
        result = _by_rows(partial(_log_density, self.kind, 1.0), known, p.latent.mean, p.latent.variance, 1.0)
        return np.where(np.isnan(known) & ~np.isnan(y), -np.inf, result)

    def interval(self, p: Any, level: float) -> tuple[Any, Any]:
        tail = np.asarray(0.5 * (1.0 - level))
        return self.quantile(p, tail), self.quantile(p, 1.0 - tail)


class ClassLaw(DiscreteLaw):
    """Classes 0 and 1; the function lies below Phi."""

    kind = observation.PROBIT

    def possible(self, y: FloatArray) -> Any:
        return (y == 0) | (y == 1)

    def quantile(self, p: Any, q: FloatArray) -> Any:
        return np.where(1.0 - np.asarray(p.mean) >= q, 0.0, 1.0)

    def tails(self, p: Any, y: FloatArray) -> tuple[Any, Any]:
        one, zero = np.asarray(p.mean), ndtr(-p.latent.mean / np.sqrt(1.0 + p.latent.variance))
        below = np.where(y >= 1.0, 1.0, np.where(y >= 0.0, zero, 0.0))
        above = np.where(y <= 0.0, 1.0, np.where(y <= 1.0, one, 0.0))
        missing = np.where(np.isnan(y), np.nan, 0.0)
        return below + missing, above + missing

    def crps(self, p: Any, y: FloatArray) -> Any:
        one, nearest = np.asarray(p.mean), np.clip(y, 0.0, 1.0)
        return np.abs(y - nearest) + nearest * (1.0 - one) ** 2 + (1.0 - nearest) * one**2

    def sample(self, p: Any, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        return rng.random(shape) < p.mean


class CountLaw(DiscreteLaw):
    """Counts; the function is the logarithm of their rate."""

    kind = observation.POISSON

    def possible(self, y: FloatArray) -> Any:
        return (y >= 0) & (y <= MOST_COUNTS) & (np.floor(y) == y)

    def quantile(self, p: Any, q: FloatArray) -> Any:
        return _by_rows(_quantile, q, p.latent.mean, np.sqrt(p.latent.variance))

    def tails(self, p: Any, y: FloatArray) -> tuple[Any, Any]:
        of_rate = p.latent.mean, np.sqrt(p.latent.variance)
        return _by_rows(_at_most, np.floor(y), *of_rate), _by_rows(
            partial(_at_most, more=True), np.ceil(y) - 1.0, *of_rate
        )

    def crps(self, p: Any, y: FloatArray) -> Any:
        return _by_rows(_count_crps, y, p.latent.mean, np.sqrt(p.latent.variance))

    def sample(self, p: Any, rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        drawn = p.latent.mean + np.sqrt(p.latent.variance) * rng.standard_normal(shape)
        with np.errstate(over="ignore"):
            rate = np.exp(drawn)
        few = rng.poisson(np.minimum(rate, MOST_COUNTS)).astype(np.float64)
        return np.where(rate < MOST_COUNTS, few, np.round(rate))


class LatentPrediction(Prediction[Values]):
    """A prediction of observations that are not numbers on the scale of the function; see its two kinds.

    Args:
        mean: of the observation.
        variance: the part of the observation's variance that comes from not knowing the function.
        noise: the part that is left when the function is known.
        latent: the function itself, before the link: its mean and its variance.
    """

    latent: Prediction
    kind: ClassVar[DiscreteLaw]

    def __init__(self, mean: Values, variance: Values, noise: Values, latent: Prediction, **beside: Any) -> None:
        columns = {"mean": mean, "variance": variance, "noise": noise, "latent": latent}
        self._fill(self.kind, columns, beside)


class ClassPrediction(LatentPrediction[Values]):
    """A prediction of classes 0 and 1; ``mean`` is the probability of 1, ``latent`` the function below Phi."""

    kind = ClassLaw()

    @classmethod
    def of(cls, mean: Any, variance: Any) -> Self:
        """Return the prediction for a function with this mean and variance."""
        s = 1.0 + variance
        z = mean / np.sqrt(s)
        probability = ndtr(z)
        # E[Phi(f) (1 - Phi(f))] by Owen's function; the rest of p (1 - p) is the variance of Phi(f).
        noise = 2.0 * owens_t(z, 1.0 / np.sqrt(s + variance))
        known = np.maximum(probability * ndtr(-z) - noise, 0.0)
        return cls(probability, known, noise, Prediction(mean, variance, np.zeros_like(variance)))

    @property
    def probability(self) -> Values:
        """The probability of class 1."""
        return self.mean


class CountPrediction(LatentPrediction[Values]):
    """A prediction of counts; ``mean`` is that of the count, ``latent`` the logarithm of its rate."""

    kind = CountLaw()

    @classmethod
    def of(cls, mean: Any, variance: Any) -> Self:
        """Return the prediction for a log rate with this mean and variance."""
        with np.errstate(over="ignore"):
            rate = np.exp(mean + 0.5 * variance)
            spread = np.exp(2.0 * mean + variance) * np.expm1(variance)
        return cls(rate, spread, rate, Prediction(mean, variance, np.zeros_like(variance)))


def _gaussians(variance: FloatArray, scale: FloatArray, dof: float) -> tuple[FloatArray, FloatArray]:
    """A function plus Student-t noise as a mixture: the roots of twice the variances, (n, k), and the weights, (k,).

    Given its log precision u the noise is Gaussian.
    """
    u = np.arange(-60.0 / dof - 1.0, math.log(2.0 + 60.0 / dof) + 1.0, min(0.3, 0.7 * math.sqrt(2.0 / (dof + 1.0))))
    weights = np.exp(0.5 * dof * (u + 1.0 - np.exp(u)))
    return np.sqrt(2.0 * (variance[:, None] + scale[:, None] ** 2 * np.exp(-u))), weights / weights.sum()


def _weighed(values: FloatArray, weights: FloatArray) -> FloatArray:
    """values @ weights, (n,), but to the last bit whatever other rows there are."""
    return np.asarray(np.sum(values * weights, axis=1))


def _student_t_below(error: FloatArray, variance: FloatArray, scale: FloatArray, dof: float) -> FloatArray:
    """The probability of an error at most as large."""
    std, weights = _gaussians(variance, scale, dof)
    return 0.5 * _weighed(erfc(-error[:, None] / std), weights)


def _student_t_reach(outside: FloatArray, variance: FloatArray, scale: FloatArray, dof: float) -> FloatArray:
    """How far to either side of its mean the central interval reaches that leaves this probability outside.

    The probability beyond h falls and is convex: Newton's steps from 0 never go too far.
    """
    std, weights = _gaussians(variance, scale, dof)
    h, going = np.zeros_like(variance), np.ones(variance.shape, dtype=bool)
    for _ in range(100):
        z = h[:, None] / std
        slope = _weighed(2.0 / math.sqrt(math.pi) * np.exp(-z * z) / std, weights)
        step = np.where(going, (_weighed(erfc(z), weights) - outside) / slope, 0.0)
        h += step
        going &= ~(np.abs(step) <= 1e-12 * h)
        if not going.any():
            break
    return h


def _student_t_crps(error: FloatArray, variance: FloatArray, scale: FloatArray, dof: float) -> FloatArray:
    """E|Y - y| - E|Y - Y'| / 2 of the mixture, where a Gaussian's mean absolute deviation has a closed form."""
    if dof <= 1.0:
        return np.full_like(error, np.nan)
    std, weights = _gaussians(variance, scale, dof)
    z = error[:, None] / std
    apart = _weighed(error[:, None] * (1.0 - erfc(z)) + std / math.sqrt(math.pi) * np.exp(-z * z), weights)
    among = np.zeros_like(error)
    for weight, of_one in zip(weights, std.T, strict=True):
        among += weight * _weighed(np.sqrt(of_one[:, None] ** 2 + std**2), weights)
    return apart - 0.5 * among / math.sqrt(math.pi)


def _quantile(p: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
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


def _count_crps(y: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """The sum over counts k of (P(count <= k) - [y <= k])^2, and the way to y where it lies outside of them."""
    ends = [_quantile(np.full_like(mean, p), mean, std) for p in (1e-12, 1.0 - 1e-12)]
    result = np.full_like(y, np.nan)
    for i, (low, high) in enumerate(zip(*ends, strict=True)):
        if high - low < COUNTS_SUMMED:
            k = np.arange(low, high + 2.0)
        else:
            k = np.unique(np.floor(low - 1.0 + np.geomspace(1.0, high - low + 2.0, COUNTS_SUMMED)))
        width, middle = np.diff(k), np.floor(0.5 * (k[:-1] + k[1:] - 1.0))
        at_most = _at_most(middle, np.full_like(middle, mean[i]), np.full_like(middle, std[i]))
        before = np.clip(y[i] - k[:-1], 0.0, width)
        outside = max(low - y[i], 0.0) + max(y[i] - k[-1], 0.0)
        result[i] = np.sum(before * at_most**2 + (width - before) * (1.0 - at_most) ** 2) + outside
    return result


def _at_most(k: FloatArray, mean: FloatArray, std: FloatArray, *, more: bool = False) -> FloatArray:
    """P(count <= k), or P(count > k).

    The former is P(f < log G) with a gamma variable G of shape k + 1; of f and G the narrower one is integrated.
    """
    poisson, sign = (pdtrc, -1.0) if more else (pdtr, 1.0)
    whole_k = np.maximum(k, 0.0)
    width = 1.0 / np.sqrt(whole_k + 1.0)
    z = np.arange(-8.5, 8.6, 0.25)
    weights = np.exp(-0.5 * z * z)
    over_f = poisson(whole_k[:, None], np.exp(mean[:, None] + std[:, None] * z)) @ (weights / weights.sum())
    d = width[:, None] * np.arange(-40.0, 8.6, 0.25)  # log G less its mode
    density = np.exp(-(whole_k[:, None] + 1.0) * (np.expm1(d) - d))
    above = (np.log1p(whole_k)[:, None] + d - mean[:, None]) / np.maximum(std, 1e-300)[:, None]
    over_g = np.sum(density * ndtr(sign * above), axis=1) / density.sum(1)
    inside = np.where(std < width, over_f, over_g)
    return np.asarray(np.where(k < 0.0, 0.5 - 0.5 * sign, inside))


def _log_density(
    kind: int, dof: float, y: FloatArray, mean: FloatArray, variance: FloatArray, noise: FloatArray
) -> FloatArray:
    """The log density of observations around a function with a mean and a variance, with a noise."""
    out = np.empty((len(y), 1))
    compile_now(observation.log_densities)
    observation.log_densities(kind, dof, y[:, None], mean[:, None], variance[:, None], noise[:, None], out)
    return out[:, 0]


def _by_rows(function: Callable[..., FloatArray], *parts: Any) -> FloatArray:
    """function(*parts) of numbers of rows in one array each, some rows at a time."""
    shape = np.broadcast_shapes(*map(np.shape, parts))
    flat = [np.broadcast_to(part, shape).ravel().astype(np.float64) for part in parts]
    blocks = [slice(b, b + ROWS_AT_ONCE) for b in range(0, max(flat[0].size, 1), ROWS_AT_ONCE)]
    return np.concatenate([function(*(part[b] for part in flat)) for b in blocks]).reshape(shape)
