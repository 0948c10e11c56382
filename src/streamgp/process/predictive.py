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
from scipy.special import erfc, ndtr, owens_t, pdtr, pdtrc

from streamgp.compiled import compile_now
from streamgp.contract.inputs import numbers
from streamgp.contract.prediction import Prediction, Values, checked_level, plain, probabilities
from streamgp.process import observation
from streamgp.settings import FloatArray, whole

ROWS_AT_ONCE = 1000  # of an interval: some hundred numbers for each
COUNTS_SUMMED = 2000  # of a score
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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
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
        half = self._by_rows(_student_t_reach, 1.0 - checked_level(level))
        return self.mean - half, self.mean + half

    def quantile(self, q: Any) -> Any:
        """Return the value below which the observation lies with probability q, above 0 and below 1."""
        q = probabilities(q)
        reach = self._by_rows(_student_t_reach, 2.0 * np.minimum(q, 1.0 - q))
        return plain(self.mean + np.where(q < 0.5, -reach, reach))

    def crps(self, y: Any) -> Any:
        """Return the continuous ranked probability score of y; NaN up to 1 degree of freedom, where it has no mean."""
        return plain(self._by_rows(_student_t_crps, numbers(y, "y") - self.mean))

    def _tails(self, y: FloatArray) -> tuple[Any, Any]:
        error = y - self.mean
        return self._by_rows(_student_t_below, error), self._by_rows(_student_t_below, -error)

    def _by_rows(self, function: Callable[..., FloatArray], first: Any) -> Any:
        """function(first, variance, scale, dof), some rows at a time."""
        shape = np.broadcast_shapes(np.shape(first), np.shape(self.mean))
        flat = [np.broadcast_to(part, shape).ravel() for part in (first, self.variance, self.scale)]
        blocks = [slice(b, b + ROWS_AT_ONCE) for b in range(0, max(flat[0].size, 1), ROWS_AT_ONCE)]
        return plain(np.concatenate([function(*(part[b] for part in flat), self.dof) for b in blocks]).reshape(shape))

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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LatentPrediction(Prediction[Values]):
    """A prediction of observations that are not numbers on the scale of the function; see its two kinds.

    Args:
        mean: of the observation.
        variance: the part of the observation's variance that comes from not knowing the function.
        noise: the part that is left when the function is known.
        latent: the function itself, before the link: its mean and its variance.
    """

    latent: Prediction

    def pit(self, y: Any) -> Any:
        """Return the middle of the step that the cdf makes at y."""
        below, above = self._tails(numbers(y, "y"))
        return plain(0.5 * (below - above) + 0.5)

    def _each(self, change: Callable[..., Any], *others: Any) -> LatentPrediction:
        mean, variance, noise = (
            change(*(getattr(p, name) for p in (self, *others))) for name in ("mean", "variance", "noise")
        )
        return type(self)(mean, variance, noise, self.latent._each(change, *(p.latent for p in others)))

    def _moved(self, shift: Any, scale: Any) -> LatentPrediction:
        return self  # classes and counts have no unit


@dataclass(frozen=True, slots=True, eq=False, repr=False)
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

    def quantile(self, q: Any) -> Any:
        """Return the smaller class that the observation does not exceed with probability q, above 0 and below 1."""
        return plain(np.where(1.0 - np.asarray(self.mean) >= probabilities(q), 0.0, 1.0))

    def crps(self, y: Any) -> Any:
        """Return the continuous ranked probability score of y, which is the Brier score."""
        values, p = numbers(y, "y"), np.asarray(self.mean)
        nearest = np.clip(values, 0.0, 1.0)
        return plain(np.abs(values - nearest) + nearest * (1.0 - p) ** 2 + (1.0 - nearest) * p**2)

    def _tails(self, y: FloatArray) -> tuple[Any, Any]:
        one, zero = np.asarray(self.mean), ndtr(-self.latent.mean / np.sqrt(1.0 + self.latent.variance))
        below = np.where(y >= 1.0, 1.0, np.where(y >= 0.0, zero, 0.0))
        above = np.where(y <= 0.0, 1.0, np.where(y <= 1.0, one, 0.0))
        missing = np.where(np.isnan(y), np.nan, 0.0)
        return below + missing, above + missing

    def sample(self, n: int = 1, seed: int = 0) -> FloatArray:
        """Return n draws of the class, an array (n, ...) over the shape of the mean."""
        return np.asarray(_generator(n, seed).random((n, *np.shape(self.mean))) < self.mean, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
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
        return self.quantile(tail), self.quantile(1.0 - tail)

    def quantile(self, q: Any) -> Any:
        """Return the smallest count that the observation does not exceed with probability q, above 0 and below 1."""
        return plain(self._by_counts(_quantile, probabilities(q)))

    def crps(self, y: Any) -> Any:
        """Return the continuous ranked probability score of y, to 1e-3 of itself; to 1e-9 where counts are few.

        Few are 2000 that hold all but 1e-12; of more, some stand for those between.
        """
        return plain(self._by_counts(_count_crps, numbers(y, "y")))

    def _tails(self, y: FloatArray) -> tuple[Any, Any]:
        return self._by_counts(_at_most, np.floor(y)), self._by_counts(_more_than, np.ceil(y) - 1.0)

    def _by_counts(self, function: Callable[..., FloatArray], first: FloatArray) -> FloatArray:
        """function(first, mean, standard deviation) of the log rate, row by row."""
        shape = np.broadcast_shapes(first.shape, np.shape(self.mean))
        parts = first, self.latent.mean, np.sqrt(self.latent.variance)
        flat = (np.broadcast_to(part, shape).ravel().astype(np.float64) for part in parts)
        return function(*flat).reshape(shape)

    def sample(self, n: int = 1, seed: int = 0) -> FloatArray:
        """Return n draws of the count, an array (n, ...) over the shape of the mean."""
        rng, latent = _generator(n, seed), self.latent
        drawn = latent.mean + np.sqrt(latent.variance) * rng.standard_normal((n, *np.shape(self.mean)))
        with np.errstate(over="ignore"):
            rate = np.exp(drawn)
        few = rng.poisson(np.minimum(rate, MOST_COUNTS)).astype(np.float64)
        return np.asarray(np.where(rate < MOST_COUNTS, few, np.round(rate)))


def _gaussians(variance: FloatArray, scale: FloatArray, dof: float) -> tuple[FloatArray, FloatArray]:
    """A function plus Student-t noise as a mixture: the roots of twice the variances, (n, k), and the weights, (k,).

    Given its log precision u the noise is Gaussian.
    """
    u = np.arange(-60.0 / dof - 1.0, math.log(2.0 + 60.0 / dof) + 1.0, min(0.3, 0.7 * math.sqrt(2.0 / (dof + 1.0))))
    weights = np.exp(0.5 * dof * (u + 1.0 - np.exp(u)))
    return np.sqrt(2.0 * (variance[:, None] + scale[:, None] ** 2 * np.exp(-u))), weights / weights.sum()


def _student_t_below(error: FloatArray, variance: FloatArray, scale: FloatArray, dof: float) -> FloatArray:
    """The probability of an error at most as large."""
    std, weights = _gaussians(variance, scale, dof)
    return np.asarray(0.5 * erfc(-error[:, None] / std) @ weights)


def _student_t_reach(outside: FloatArray, variance: FloatArray, scale: FloatArray, dof: float) -> FloatArray:
    """How far to either side of its mean the central interval reaches that leaves this probability outside.

    The probability beyond h falls and is convex: Newton's steps from 0 never go too far.
    """
    std, weights = _gaussians(variance, scale, dof)
    h = np.zeros_like(variance)
    for _ in range(100):
        z = h[:, None] / std
        step = (erfc(z) @ weights - outside) / ((2.0 / math.sqrt(math.pi) * np.exp(-z * z) / std) @ weights)
        h += step
        if np.all(np.abs(step) <= 1e-12 * h):
            break
    return h


def _student_t_crps(error: FloatArray, variance: FloatArray, scale: FloatArray, dof: float) -> FloatArray:
    """E|Y - y| - E|Y - Y'| / 2 of the mixture, where a Gaussian's mean absolute deviation has a closed form."""
    if dof <= 1.0:
        return np.full_like(error, np.nan)
    std, weights = _gaussians(variance, scale, dof)
    z = error[:, None] / std
    apart = (error[:, None] * (1.0 - erfc(z)) + std / math.sqrt(math.pi) * np.exp(-z * z)) @ weights
    among = np.zeros_like(error)
    for weight, of_one in zip(weights, std.T, strict=True):
        among += weight * np.sqrt(of_one[:, None] ** 2 + std**2) @ weights
    return np.asarray(apart - 0.5 * among / math.sqrt(math.pi))


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


def _at_most(k: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """P(count <= k), which is P(f < log G) with a gamma variable G of shape k + 1."""
    return _beside(k, mean, std, pdtr, 1.0)


def _more_than(k: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """P(count > k)."""
    return _beside(k, mean, std, pdtrc, -1.0)


def _beside(k: FloatArray, mean: FloatArray, std: FloatArray, poisson: Any, sign: float) -> FloatArray:
    """The mass of a count on one side of k: of f and the gamma variable the narrower one is integrated."""
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
