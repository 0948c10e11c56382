"""Prediction: a mean with the variance of the function and the noise of the observation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from statistics import NormalDist
from typing import Any, Generic, Literal, Self, TypeVar

import numpy as np
from scipy.special import ndtr, ndtri

from streamgp.contract.inputs import numbers
from streamgp.contract.ladder import LEAST_DEVIATION, LOG_ROOT_2PI, ROOT_PI, Ladder
from streamgp.contract.shown import Shown
from streamgp.settings import FloatArray, option, probability, whole

Values = TypeVar("Values", float, FloatArray)  # float for one scalar target, otherwise an array
Side = Literal["two-sided", "lower", "upper"]
SIDES = "two-sided", "lower", "upper"
# Levels up to the median at which the quantiles of calibrated predictions are tracked, besides those of the bounds.
LEVELS = 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.175, 0.25, 0.35, 0.5

# What may stand beside the parts that every kind of prediction has: of rows, like the mean, or with axes of its own.
BESIDE = "ticket", "surprise", "alarm", "mean_gradient", "variance_gradient"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Prediction(Shown, Generic[Values]):
    """A Gaussian prediction of one target, of several, or of many rows.

    Args:
        mean: scalar, (p,), (n,) or (n, p).
        variance: of the latent function; NaN for models without one.
        noise: variance of the observation noise.
        ticket: under which the row waits for its target, where ``Delayed`` issued the prediction; (n,) of a ``Fleet``.
        surprise: -log of the p-value of the target, like the mean, where ``Alarms`` tracked it.
        alarm: "spike", "level" or "relation" where it raised an alarm, otherwise "".
        mean_gradient: d mean / dx, with one axis more than the mean, where ``derivatives=True`` asked for it.
        variance_gradient: d variance / dx, likewise.

    Example:
        >>> import streamgp as sg
        >>> p = sg.Prediction(mean=1.0, variance=0.03, noise=0.01)
        >>> round(p.std, 3)
        0.2
        >>> low, high = p.interval(0.9)
        >>> round(low, 2), round(high, 2)
        (0.67, 1.33)
        >>> round(p.quantile(0.95), 2), round(p.cdf(1.33), 2), round(p.p_value(1.5), 3)
        (1.33, 0.95, 0.012)
    """

    mean: Values
    variance: Values
    noise: Values
    ticket: Any = field(default=None, kw_only=True, repr=False)
    surprise: Any = field(default=None, kw_only=True, repr=False)
    alarm: Any = field(default=None, kw_only=True, repr=False)
    mean_gradient: Any = field(default=None, kw_only=True, repr=False)
    variance_gradient: Any = field(default=None, kw_only=True, repr=False)

    def __init__(
        self,
        mean: Values,
        variance: Values,
        noise: Values,
        *,
        ticket: Any = None,
        surprise: Any = None,
        alarm: Any = None,
        mean_gradient: Any = None,
        variance_gradient: Any = None,
    ) -> None:
        # Each slot by its own setter, in half the time: what a frozen dataclass would do looks every name up.
        set_mean(self, mean)
        set_variance(self, variance)
        set_noise(self, noise)
        set_ticket(self, ticket)
        set_surprise(self, surprise)
        set_alarm(self, alarm)
        set_mean_gradient(self, mean_gradient)
        set_variance_gradient(self, variance_gradient)

    @property
    def std(self) -> Values:
        """Standard deviation of the observation y: function and noise together."""
        total = self.variance + self.noise
        return math.sqrt(total) if isinstance(total, float) else np.sqrt(total)

    def interval(self, level: float = 0.9) -> tuple[Values, Values]:
        """Return the central interval that holds the observation with probability ``level``."""
        half = gaussian_reach(checked_level(level)) * self.std
        return self.mean - half, self.mean + half

    def deviations(self, y: Any) -> Any:
        """Return by how many standard deviations of the observation y lies above the mean."""
        result = (numbers(y, "y") - self.mean) / self.std
        return plain(result)

    def quantile(self, q: Any) -> Any:
        """Return the value below which the observation lies with probability q, above 0 and below 1."""
        return plain(self.mean + self.std * ndtri(self._levels(q)))

    def _levels(self, q: Any) -> FloatArray:
        """Levels of quantiles, which fit the mean."""
        levels, shape = np.asarray(probabilities(q)), np.shape(self.mean)
        if levels.ndim and shape and levels.shape[-1] not in (1, shape[-1]):
            raise ValueError(
                f"q must be one level, or an array like the mean, of shape {shape}; got {levels.shape}. For several "
                "levels call quantile for each"
            )
        return levels

    def cdf(self, y: Any) -> Any:
        """Return the probability that the observation is at most y."""
        return plain(self._tails(numbers(y, "y"))[0])

    def pit(self, y: Any) -> Any:
        """Return the probability integral transform of y: uniform along a stream where the prediction is calibrated.

        This is ``cdf(y)``; of classes and counts it is the middle of the step that the cdf makes at y.
        """
        return self.cdf(y)

    def p_value(self, y: Any, side: Side = "two-sided") -> Any:
        """Return how probable an observation as extreme as y is: small where y is a surprise.

        Args:
            y: the observation, like the mean.
            side: ``"lower"`` and ``"upper"`` look at one side only: the probability of at most and of at least y.
        """
        below, above = self._tails(numbers(y, "y"))
        of_both = np.minimum(1.0, 2.0 * np.minimum(below, above))
        return plain((of_both, below, above)[option("side", side, SIDES)])

    def crps(self, y: Any) -> Any:
        """Return the continuous ranked probability score of y, in the units of y: less is better.

        Of a prediction without spread it is the absolute error. [Gneiting and Raftery 2007] Eq. (21)
        """
        error, s = numbers(y, "y") - self.mean, np.asarray(self.std)
        z = _over(error, s)
        density = np.exp(-0.5 * z * z - LOG_ROOT_2PI)
        return plain(error * (ndtr(z) - ndtr(-z)) + s * (2.0 * density - 1.0 / ROOT_PI))

    def _tails(self, y: FloatArray) -> tuple[Any, Any]:
        """The probabilities of at most y and of at least y, each without cancellation where it is small."""
        z = _over(y - self.mean, np.asarray(self.std))
        return ndtr(z), ndtr(-z)

    def log_density(self, y: Any) -> Any:
        """Return the log density of the observation y."""
        s = self.variance + self.noise
        error = numbers(y, "y") - self.mean
        result = -0.5 * (np.log(2.0 * np.pi * np.asarray(s)) + error * error / s)
        return plain(result)

    def sample(self, n: int = 1, seed: int = 0) -> FloatArray:
        """Return n draws of the observation, an array (n, ...) over the shape of the mean."""
        whole("n", n)
        rng = np.random.default_rng(whole("seed", seed, at_least=0))
        return self.mean + self.std * rng.standard_normal((n, *np.shape(self.mean)))

    def __len__(self) -> int:
        if np.ndim(self.mean) == 0:
            raise TypeError("this Prediction is of one scalar target and has no length")
        return len(self.mean)  # type: ignore[arg-type]

    def __getitem__(self, index: Any) -> Self:
        """Return the prediction of some of the rows (or outputs), with all that stands beside them."""
        shape = np.shape(self.mean)
        some: Any = self._each(lambda part: plain(np.broadcast_to(np.asarray(part), shape)[index]))
        found: Self = some._beside(lambda part: _some(np.asarray(part), shape, index), self)
        return found._from(self._origin_of(index))

    def _followed_by(self, others: Sequence[Prediction]) -> Prediction:
        """The rows of this prediction, then those of others."""
        whole = self._each(lambda *parts: np.concatenate(parts), *others)
        return whole._beside(lambda *parts: np.concatenate(parts), self, *others)

    def _beside(self, change: Callable[..., Any], first: Prediction, *others: Prediction) -> Self:
        """The same with change(what stands beside the first, and beside others), where all have it."""
        names = [name for name in BESIDE if getattr(first, name) is not None]
        if not names:  # as of almost all rows that come alone
            return self
        found = {name: [getattr(one, name) for one in (first, *others)] for name in names}
        known = {name: parts for name, parts in found.items() if all(part is not None for part in parts)}
        return replace(self, **{name: change(*parts) for name, parts in known.items()})

    def _each(self, change: Callable[..., Any], *others: Any) -> Prediction:
        """The prediction whose every part is change(that part of this one, those of others)."""
        parts = zip(*((p.mean, p.variance, p.noise) for p in (self, *others)), strict=True)
        return Prediction(*(change(*part) for part in parts))

    def _bare(self) -> Prediction:
        """The same without its components."""
        return self

    def _listed(self) -> list[Any]:
        """All parts, in the order in which _each() takes them."""
        parts: list[Any] = []

        def note(part: Any) -> Any:
            parts.append(part)
            return part

        self._each(note)
        return parts

    def _with_gradients(self, mean: FloatArray, variance: FloatArray) -> Self:
        """The same with the derivatives of rows, (n, p, d) each."""
        return replace(self, mean_gradient=mean, variance_gradient=variance)

    def _moved(self, shift: Any, scale: Any) -> Prediction:
        """The prediction of shift + scale * y."""
        return Prediction(shift + scale * self.mean, scale**2 * self.variance, scale**2 * self.noise)


def _setters(kind: type, names: str) -> list[Callable[[Any, Any], None]]:
    return [getattr(kind, name).__set__ for name in names.split()]


set_mean, set_variance, set_noise, set_ticket, set_surprise, set_alarm, set_mean_gradient, set_variance_gradient = (
    _setters(Prediction, "mean variance noise ticket surprise alarm mean_gradient variance_gradient")
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CalibratedPrediction(Prediction[Values]):
    """A prediction with calibrated bounds, which need not lie alike on both sides of the mean, and quantiles.

    The bounds are those of ``interval(level)``. The other quantiles are given by ``shape``; between them and beyond
    them the distribution is as in contract/ladder.py. Without a shape it is two halves of Gaussians, each with half of
    the mass, that meet at the mean and reach as far as the bounds say. ``variance`` and ``noise`` share the variance of
    such halves in the proportions that the model gave them; all of it is ``variance`` where the model has none.

    Args:
        mean: of the model, as it is.
        variance: of the latent function, calibrated.
        noise: variance of the observation noise, calibrated.
        lower: lower bound of the interval at ``level``.
        upper: upper bound.
        level: what the bounds were calibrated for.
        raw: the prediction of the model itself.
        shape: the quantiles of the error at ``ladder_levels(level)`` over the distance of the bound on their side, then
            xi and sigma of the lower tail and of the upper one, in the same unit.
    """

    lower: Values
    upper: Values
    level: float
    raw: Prediction
    shape: Sequence[Values] | FloatArray = ()

    def __init__(
        self,
        mean: Values,
        variance: Values,
        noise: Values,
        lower: Values,
        upper: Values,
        level: float,
        raw: Prediction,
        shape: Sequence[Values] | FloatArray = (),
        *,
        ticket: Any = None,
        surprise: Any = None,
        alarm: Any = None,
        mean_gradient: Any = None,
        variance_gradient: Any = None,
    ) -> None:
        Prediction.__init__(
            self,
            mean,
            variance,
            noise,
            ticket=ticket,
            surprise=surprise,
            alarm=alarm,
            mean_gradient=mean_gradient,
            variance_gradient=variance_gradient,
        )
        set_lower(self, lower)
        set_upper(self, upper)
        set_level(self, level)
        set_raw(self, raw)
        set_shape(self, shape)

    def interval(self, level: float | None = None) -> tuple[Values, Values]:
        """Return the central interval that holds the observation with probability ``level``; by default the bounds."""
        if level is None or level == self.level:
            return self.lower, self.upper
        score, ladder = np.asarray(gaussian_reach(checked_level(level))), self._ladder
        return plain(self.mean + ladder.at(-score)), plain(self.mean + ladder.at(score))

    def deviations(self, y: Any) -> Any:
        """Return by how many standard deviations of its side y lies above the mean."""
        error = numbers(y, "y") - self.mean
        with np.errstate(over="ignore"):
            result = error / self._side(error)
        return plain(result)

    def quantile(self, q: Any) -> Any:
        """Return the value below which the observation lies with probability q, above 0 and below 1."""
        return plain(self.mean + self._ladder.at(ndtri(self._levels(q))))

    def log_density(self, y: Any) -> Any:
        """Return the log density of the observation y."""
        return plain(self._ladder.log_density(numbers(y, "y") - self.mean))

    def cdf(self, y: Any) -> Any:
        """Return the probability that the observation is at most y."""
        return plain(self._ladder.below(numbers(y, "y") - self.mean))

    def crps(self, y: Any) -> Any:
        """Return the continuous ranked probability score of y, in the units of y: less is better."""
        return plain(self._ladder.crps(numbers(y, "y") - self.mean))

    def _tails(self, y: FloatArray) -> tuple[Any, Any]:
        error, ladder = y - self.mean, self._ladder
        return ladder.below(error), ladder.mirrored.below(-error)

    def sample(self, n: int = 1, seed: int = 0) -> FloatArray:
        """Return n draws of the observation, an array (n, ...) over the shape of the mean."""
        zeros = np.zeros(np.shape(self.mean))
        return self.mean + self._ladder.at(Prediction(zeros, zeros + 1.0, zeros).sample(n, seed))

    @property
    def _ladder(self) -> Ladder:
        """The distribution of the errors."""
        below: FloatArray = np.asarray(self.mean - self.lower)
        above: FloatArray = np.asarray(self.upper - self.mean)
        if not len(self.shape):
            z = gaussian_reach(self.level)
            errors = np.stack([-below, np.zeros_like(below), above])
            return Ladder(np.array([-z, 0.0, z]), errors, np.zeros((4, *below.shape)))
        shape = np.asarray(self.shape)
        ratios, tails = shape[:-4], shape[-4:].copy()
        tails[1] = np.maximum(tails[1] * below, LEAST_DEVIATION)
        tails[3] = np.maximum(tails[3] * above, LEAST_DEVIATION)
        reach = np.where(ratios < 0.0, below, above)
        errors = np.multiply(reach, ratios, out=np.zeros_like(reach), where=ratios != 0.0)  # reach may be infinite
        return Ladder(_ladder_scores(self.level), errors, tails)

    def _side(self, error: FloatArray) -> FloatArray:
        """The standard deviation on the side of an error; rounding may leave none beside a large mean."""
        reach = np.where(error < 0, self.mean - self.lower, self.upper - self.mean)
        return np.maximum(reach / gaussian_reach(self.level), LEAST_DEVIATION)

    @property
    def parts(self) -> tuple[Any, ...]:
        """Mean, variance, noise, lower and upper bound, and the shape."""
        return self.mean, self.variance, self.noise, self.lower, self.upper, *self.shape

    @classmethod
    def stacked(cls, told: Sequence[CalibratedPrediction]) -> CalibratedPrediction:
        """Predictions of one row and one output each, in numbers, as one of all rows, (n, 1) each part."""
        parts = np.ascontiguousarray(np.array([one.parts for one in told]).T)[:, :, None]
        own = np.array([(one.raw.mean, one.raw.variance, one.raw.noise) for one in told]).T
        raw = Prediction(*np.ascontiguousarray(own)[:, :, None])
        mean, variance, noise, lower, upper = parts[:5]
        return cls(mean, variance, noise, lower, upper, told[0].level, raw, parts[5:])

    def _each(self, change: Callable[..., Any], *others: Any) -> CalibratedPrediction:
        mean, variance, noise, lower, upper, *shape = (
            change(*part) for part in zip(*(p.parts for p in (self, *others)), strict=True)
        )
        raw = self.raw._each(change, *(p.raw for p in others))
        return CalibratedPrediction(mean, variance, noise, lower, upper, self.level, raw, tuple(shape))

    def _bare(self) -> CalibratedPrediction:
        return self if type(self.raw) is Prediction else replace(self, raw=self.raw._bare())

    def _listed(self) -> list[Any]:
        return [*self.parts, *self.raw._listed()]

    def _moved(self, shift: Any, scale: Any) -> CalibratedPrediction:
        moved = Prediction._moved(self, shift, scale)
        lower, upper = shift + scale * self.lower, shift + scale * self.upper
        raw = self.raw._moved(shift, scale)
        return CalibratedPrediction(moved.mean, moved.variance, moved.noise, lower, upper, self.level, raw, self.shape)


set_lower, set_upper, set_level, set_raw, set_shape = _setters(CalibratedPrediction, "lower upper level raw shape")


def packed(prediction: Prediction, p: int) -> FloatArray:
    """The numbers of a prediction of rows with p outputs, part after part, (n, parts * p)."""
    parts = prediction._bare()._listed()
    return np.concatenate([part if part.shape[1] == p else np.repeat(part, p, axis=1) for part in parts], axis=1)


def unpacked(numbers: FloatArray, like: Prediction, p: int) -> Prediction:
    """The prediction of which packed() gave these numbers, of the same kind as another one."""
    parts = (numbers[:, start : start + p] for start in range(0, numbers.shape[1], p))
    return like._each(lambda _: np.ascontiguousarray(next(parts)))


def probabilities(q: Any) -> FloatArray:
    """Probabilities that are neither 0 nor 1."""
    values = numbers(q, "q")
    if not np.all((values > 0.0) & (values < 1.0)):
        raise ValueError(f"q must be above 0 and below 1; got {q!r}")
    return values


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


def checked_level(level: float) -> float:
    """A probability that is neither 0 nor 1."""
    return probability("level", level)


@cache
def gaussian_reach(level: float) -> float:
    """How many standard deviations the central interval of a Gaussian reaches to either side."""
    return NormalDist().inv_cdf(0.5 + level / 2.0)


def _over(error: FloatArray, deviation: FloatArray) -> FloatArray:
    """Errors in standard deviations; of none at all any error is infinitely many, and no error none."""
    with np.errstate(over="ignore"):
        return np.asarray(error / np.where(deviation == 0.0, LEAST_DEVIATION, deviation))


def _some(values: np.ndarray, shape: tuple[int, ...], index: Any) -> Any:
    """Some of what stands beside a mean of this shape: one for each row, like the mean, or with axes after its own."""
    if values.ndim >= len(shape):
        chosen = np.arange(int(np.prod(shape))).reshape(shape)[index]
        found = values.reshape(-1, *values.shape[len(shape) :])[chosen]
    else:
        index = np.nonzero(index) if np.asarray(index).dtype == bool else index
        found = values[index[: values.ndim] if isinstance(index, tuple) else index] if values.ndim else values
    return found.item() if np.ndim(found) == 0 else found


def plain(values: Any) -> Any:
    """Numbers as users see them: a float in place of an array without axes."""
    return float(values) if np.ndim(values) == 0 else values
