"""A distribution of errors that is given by some of its quantiles.

Between two of them the error is linear in the normal score of its probability, so that a Gaussian is one exactly, and
so are two halves of different Gaussians. Beyond the outermost ones the tails are generalized Pareto,

    P(error > last + t) = P(error > last) (1 + xi t / sigma)^(-1 / xi)        xi >= 0; exponential at xi = 0,

or go on as the outermost pieces where no tail is given. All functions broadcast over rows and outputs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from streamgp.settings import FloatArray

LEAST_DEVIATION = 1e-150  # of a piece; its square is still a number
LOG_ROOT_2PI = 0.9189385332046727
ROOT_PI = 1.7724538509055159


class Tail(NamedTuple):
    """A generalized Pareto tail, in units of the errors.

    Args:
        xi: how heavy it is, at least 0 and below 1.
        sigma: its scale.
    """

    xi: FloatArray
    sigma: FloatArray


class Ladder(NamedTuple):
    """Quantiles of the errors.

    Args:
        scores: (k,) the normal scores of their probabilities, rising.
        errors: (k, ...) the quantiles, rising.
        lower: the tail below the first; None: as the first piece.
        upper: the tail above the last; None: as the last piece.
    """

    scores: FloatArray
    errors: FloatArray
    lower: Tail | None = None
    upper: Tail | None = None

    @property
    def mirrored(self) -> Ladder:
        """The distribution of the errors with the other sign."""
        return Ladder(-self.scores[::-1], -self.errors[::-1], self.upper, self.lower)

    def below(self, error: FloatArray) -> FloatArray:
        """The probability of an error at most as large, without cancellation where it is small."""
        piece = self._piece(error)
        result = ndtr(piece.score)
        if self.lower is not None:
            beyond = piece.first - error
            result = np.where(beyond > 0.0, ndtr(self.scores[0]) * _decay(self.lower, beyond), result)
        if self.upper is not None:
            beyond = error - piece.last
            result = np.where(beyond > 0.0, 1.0 - ndtr(-self.scores[-1]) * _decay(self.upper, beyond), result)
        return np.asarray(result)

    def at(self, score: FloatArray) -> FloatArray:
        """The quantile of the probability with this normal score."""
        shape = np.broadcast_shapes(score.shape, self.errors.shape[1:])
        errors = _spread(self.errors, shape)
        k = np.clip(np.searchsorted(self.scores, score) - 1, 0, self.scores.size - 2)
        low, high = (np.take_along_axis(errors, np.broadcast_to(i, shape)[None], 0)[0] for i in (k, k + 1))
        step = (score - self.scores[k]) / (self.scores[k + 1] - self.scores[k])
        with np.errstate(invalid="ignore"):
            result = np.asarray(low + step * (high - low))
        nothing = np.isinf(high - low)  # is claimed
        result = np.where(nothing, np.where(score == 0.0, 0.0, np.copysign(np.inf, score)), result)
        if self.lower is not None:
            reach = _reach(self.lower, ndtr(score) / ndtr(self.scores[0]))
            result = np.where(score < self.scores[0], errors[0] - reach, result)
        if self.upper is not None:
            reach = _reach(self.upper, ndtr(-score) / ndtr(-self.scores[-1]))
            result = np.where(score > self.scores[-1], errors[-1] + reach, result)
        return result

    def log_density(self, error: FloatArray) -> FloatArray:
        """The log density of an error."""
        piece = self._piece(error)
        with np.errstate(over="ignore"):
            result = -LOG_ROOT_2PI - np.log(piece.deviation) - 0.5 * piece.score**2
        for tail, beyond, score in (
            (self.lower, piece.first - error, self.scores[0]),
            (self.upper, error - piece.last, -self.scores[-1]),
        ):
            if tail is not None:
                t = np.maximum(beyond, 0.0) / tail.sigma
                log_tail = np.log(ndtr(score)) - np.log(tail.sigma) - _log_growth(tail.xi, t) - np.log1p(tail.xi * t)
                result = np.where(beyond > 0.0, log_tail, result)
        return np.asarray(result)

    def crps(self, error: FloatArray) -> FloatArray:
        """The continuous ranked probability score: the integral of the squared cdf below the error and that above."""
        return self._squared_below(error) + self.mirrored._squared_below(-error)

    def _squared_below(self, error: FloatArray) -> FloatArray:
        """The integral of the squared cdf up to an error."""
        piece = self._piece(error)
        deviations = _spread(_deviations(self), error.shape)
        at_knots = _squared(self.scores).reshape(-1, *(1,) * error.ndim)
        if self.lower is None:
            first = deviations[0] * at_knots[0]
        else:
            first = ndtr(self.scores[0]) ** 2 * self.lower.sigma / (2.0 - self.lower.xi)
        steps = deviations * np.diff(at_knots, axis=0)
        before = first + np.concatenate([np.zeros((1, *error.shape)), np.cumsum(steps, axis=0)])
        done = np.take_along_axis(before, piece.number[None], 0)[0]
        since = _squared(piece.score) - _squared(self.scores[piece.number])
        result = done + piece.deviation * since
        if self.lower is not None:
            t = np.maximum(piece.first - error, 0.0) / self.lower.sigma
            result = np.where(error < piece.first, first * _shrunk(self.lower.xi, t, 2.0), result)
        if self.upper is not None:
            xi, sigma, share = self.upper.xi, self.upper.sigma, ndtr(-self.scores[-1])
            beyond = np.maximum(error - piece.last, 0.0)
            t = beyond / sigma
            once = sigma / (1.0 - xi) * (1.0 - _shrunk(xi, t, 1.0))
            twice = sigma / (2.0 - xi) * (1.0 - _shrunk(xi, t, 2.0))
            past = before[-1] + beyond - 2.0 * share * once + share**2 * twice
            result = np.where(error > piece.last, past, result)
        return np.asarray(result)

    def _piece(self, error: FloatArray) -> _Piece:
        errors, deviations = _spread(self.errors, error.shape), _spread(_deviations(self), error.shape)
        number = np.sum(errors[1:-1] <= error, axis=0)
        start, deviation = (np.take_along_axis(part, number[None], 0)[0] for part in (errors, deviations))
        with np.errstate(over="ignore", invalid="ignore"):
            score = self.scores[number] + (error - start) / deviation
        score = np.where(np.isinf(deviation), 0.0, score)  # nothing is claimed
        return _Piece(number, deviation, score, errors[0], errors[-1])


class _Piece(NamedTuple):
    """Where errors lie on a ladder: between which two quantiles, their normal scores, and the outermost quantiles."""

    number: NDArray[np.intp]
    deviation: FloatArray
    score: FloatArray
    first: FloatArray
    last: FloatArray


def _spread(parts: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Numbers of each quantile for rows of this shape."""
    axes = len(shape) - (parts.ndim - 1)
    return np.broadcast_to(parts.reshape(len(parts), *(1,) * axes, *parts.shape[1:]), (len(parts), *shape))


def _deviations(ladder: Ladder) -> FloatArray:
    """The standard deviation of the Gaussian of which each piece is a part."""
    widths = np.diff(ladder.scores).reshape(-1, *(1,) * (ladder.errors.ndim - 1))
    with np.errstate(invalid="ignore"):  # infinite bounds
        return np.maximum(np.diff(ladder.errors, axis=0) / widths, LEAST_DEVIATION)


def _squared(z: FloatArray) -> FloatArray:
    """The integral of the squared normal cdf up to z."""
    cdf, density = ndtr(z), np.exp(-0.5 * z * z - LOG_ROOT_2PI)
    return np.asarray(z * cdf * cdf + 2.0 * cdf * density - ndtr(np.sqrt(2.0) * z) / ROOT_PI)


def _log_growth(xi: FloatArray, t: FloatArray) -> FloatArray:
    """log(1 + xi t) / xi, which is t at xi = 0."""
    safe = np.maximum(xi, 1e-12)
    return np.where(xi > 1e-12, np.log1p(safe * t) / safe, t)


def _decay(tail: Tail, beyond: FloatArray) -> FloatArray:
    """The share of a tail beyond the ladder that lies farther than this."""
    return np.exp(-_log_growth(tail.xi, np.maximum(beyond, 0.0) / tail.sigma))


def _shrunk(xi: FloatArray, t: FloatArray, power: float) -> FloatArray:
    """The share of the integral of a power of a tail that lies beyond t scales."""
    return (1.0 + xi * t) * np.exp(-power * _log_growth(xi, t))


def _reach(tail: Tail, share: FloatArray) -> FloatArray:
    """How far beyond the ladder this share of a tail lies: the inverse of _decay."""
    log_share = -np.log(np.clip(share, 1e-320, 1.0))
    safe = np.maximum(tail.xi, 1e-12)
    return np.asarray(tail.sigma * np.where(tail.xi > 1e-12, np.expm1(safe * log_share) / safe, log_share))
