"""A distribution of errors that is given by some of its quantiles.

Between two of them the error is linear in the normal score of its probability, so that a Gaussian is one exactly, and
so are two halves of different Gaussians. Beyond the outermost ones the tails are generalized Pareto,

    P(error > last + t) = P(error > last) (1 + xi t / sigma)^(-1 / xi)        xi >= 0; exponential at xi = 0,

or go on as the outermost pieces where there is no sigma.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamgp.compiled import READ, READ_ROWS, VECTOR, WHOLE, compile_now, compiled, entry
from streamgp.settings import FloatArray

Array = NDArray

LEAST_DEVIATION = 1e-150  # of a piece; its square is still a number
LOG_ROOT_2PI = 0.9189385332046727
ROOT_PI = 1.7724538509055159
ROOT_HALF = 0.7071067811865476
LEAST_XI = 1e-12  # less is an exponential tail
BELOW, LOG_DENSITY, SQUARED, QUANTILE = range(4)
LOWER, UPPER = 0, 2  # where the numbers of the tails are: xi, then sigma


class Ladder(NamedTuple):
    """Quantiles of the errors; the functions broadcast over rows and outputs.

    Args:
        scores: (k,) the normal scores of their probabilities, rising.
        errors: (k, ...) the quantiles, rising.
        tails: (4, ...) xi and sigma of the lower tail, then of the upper one; sigma 0: as the outermost piece.
    """

    scores: FloatArray
    errors: FloatArray
    tails: FloatArray

    @property
    def mirrored(self) -> Ladder:
        """The distribution of the errors with the other sign."""
        return Ladder(-self.scores[::-1], -self.errors[::-1], self.tails[[2, 3, 0, 1]])

    def evaluated(self, what: int, values: FloatArray) -> FloatArray:
        """One of the functions below of errors, or of normal scores: the QUANTILE."""
        own, parts = self.errors.shape[1:], list(self[1:])
        shape = own if values.shape == own else np.broadcast_shapes(values.shape, own)
        if math.prod(own) > 1 and own != shape:  # each row several times
            before = (1,) * (len(shape) - len(own))
            parts = [np.broadcast_to(part.reshape(-1, *before, *own), (len(part), *shape)) for part in parts]
        errors, tails = (part.reshape(len(part), -1).T for part in parts)
        result = np.empty(shape)
        compile_now(evaluate)
        evaluate(what, self.scores, errors, tails, np.broadcast_to(values, shape).reshape(-1), result.reshape(-1))
        return result


@entry(WHOLE, READ, READ_ROWS, READ_ROWS, READ, VECTOR)
def evaluate(what: int, scores: Array, errors: Array, tails: Array, values: Array, out: Array) -> None:
    """One of the functions of ladders, one for each value or one for all."""
    for i in range(values.size):
        row = i if errors.shape[0] > 1 else 0
        if what == BELOW:
            out[i] = below(scores, errors[row], tails[row], values[i])
        elif what == LOG_DENSITY:
            out[i] = log_density(scores, errors[row], tails[row], values[i])
        elif what == SQUARED:
            out[i] = squared_below(scores, errors[row], tails[row], values[i])
        else:
            out[i] = quantile(scores, errors[row], tails[row], values[i])


@compiled
def ndtr(z: float) -> float:
    """The normal cdf."""
    return 0.5 * math.erfc(-ROOT_HALF * z)


@compiled
def deviation(scores: Array, errors: Array, k: int) -> float:
    """The standard deviation of the Gaussian of which piece k is a part."""
    return float(max((errors[k + 1] - errors[k]) / (scores[k + 1] - scores[k]), LEAST_DEVIATION))


@compiled
def piece(errors: Array, error: float) -> int:
    """The piece of an error."""
    k = 0
    while k < errors.size - 2 and errors[k + 1] <= error:
        k += 1
    return k


@compiled
def score_of(scores: Array, errors: Array, k: int, error: float) -> float:
    """The normal score of an error on piece k; 0 where nothing is claimed."""
    spread = deviation(scores, errors, k)
    if np.isinf(spread):
        return 0.0
    return float(scores[k] + (error - errors[k]) / spread)


@compiled
def log_growth(xi: float, t: float) -> float:
    """log(1 + xi t) / xi, which is t at xi = 0."""
    return math.log1p(xi * t) / xi if xi > LEAST_XI else t


@compiled
def below(scores: Array, errors: Array, tails: Array, error: float) -> float:
    last = errors.size - 1
    if error < errors[0] and tails[LOWER + 1] > 0.0:
        t = (errors[0] - error) / tails[LOWER + 1]
        return ndtr(scores[0]) * math.exp(-log_growth(tails[LOWER], t))
    if error > errors[last] and tails[UPPER + 1] > 0.0:
        t = (error - errors[last]) / tails[UPPER + 1]
        return 1.0 - ndtr(-scores[last]) * math.exp(-log_growth(tails[UPPER], t))
    return ndtr(score_of(scores, errors, piece(errors, error), error))


@compiled
def log_density(scores: Array, errors: Array, tails: Array, error: float) -> float:
    last = errors.size - 1
    for side in range(2):
        xi, sigma = tails[2 * side], tails[2 * side + 1]
        beyond = errors[0] - error if side == 0 else error - errors[last]
        if beyond > 0.0 and sigma > 0.0:
            t = beyond / sigma
            return math.log(ndtr(-abs(scores[side * last])) / sigma) - log_growth(xi, t) - math.log1p(xi * t)
    k = piece(errors, error)
    z = score_of(scores, errors, k, error)
    return -LOG_ROOT_2PI - math.log(deviation(scores, errors, k)) - 0.5 * z * z


@compiled
def quantile(scores: Array, errors: Array, tails: Array, score: float) -> float:
    last = scores.size - 1
    if score < scores[0] and tails[LOWER + 1] > 0.0:
        return float(errors[0] - tails[LOWER + 1] * reached(tails[LOWER], ndtr(score) / ndtr(scores[0])))
    if score > scores[last] and tails[UPPER + 1] > 0.0:
        return float(errors[last] + tails[UPPER + 1] * reached(tails[UPPER], ndtr(-score) / ndtr(-scores[last])))
    k = piece(scores, score)
    if not np.isfinite(errors[k + 1] - errors[k]):  # nothing is claimed
        return 0.0 if score == 0.0 else math.copysign(np.inf, score)
    share = (score - scores[k]) / (scores[k + 1] - scores[k])
    return float(errors[k] + share * (errors[k + 1] - errors[k]))


@compiled
def reached(xi: float, share: float) -> float:
    """How many scales from its beginning this share of a tail lies."""
    log_share = -math.log(max(share, 1e-320))
    return math.expm1(xi * log_share) / xi if xi > LEAST_XI else log_share


@compiled
def squared_normal(z: float) -> float:
    """The integral of the squared normal cdf up to z."""
    cdf, density = ndtr(z), math.exp(-0.5 * z * z - LOG_ROOT_2PI)
    return z * cdf * cdf + 2.0 * cdf * density - ndtr(math.sqrt(2.0) * z) / ROOT_PI


@compiled
def shrunk(xi: float, t: float, power: float) -> float:
    """The share of the integral of a power of a tail that lies beyond t scales."""
    return (1.0 + xi * t) * math.exp(-power * log_growth(xi, t))


@compiled
def squared_below(scores: Array, errors: Array, tails: Array, error: float) -> float:
    """The integral of the squared cdf up to an error; infinite where nothing is claimed."""
    last = errors.size - 1
    if np.isinf(errors[last] - errors[0]):
        return np.inf
    xi, sigma = tails[LOWER], tails[LOWER + 1]
    if sigma > 0.0:
        total = ndtr(scores[0]) ** 2 * sigma / (2.0 - xi)
        if error < errors[0]:
            return float(total * shrunk(xi, (errors[0] - error) / sigma, 2.0))
    else:
        total = deviation(scores, errors, 0) * squared_normal(scores[0])
    xi, sigma = tails[UPPER], tails[UPPER + 1]
    end = last if error > errors[last] and sigma > 0.0 else piece(errors, error)
    for k in range(end):
        total += deviation(scores, errors, k) * (squared_normal(scores[k + 1]) - squared_normal(scores[k]))
    if end < last:
        z = score_of(scores, errors, end, error)
        return float(total + deviation(scores, errors, end) * (squared_normal(z) - squared_normal(scores[end])))
    t, share = (error - errors[last]) / sigma, ndtr(-scores[last])
    once = sigma / (1.0 - xi) * (1.0 - shrunk(xi, t, 1.0))
    twice = sigma / (2.0 - xi) * (1.0 - shrunk(xi, t, 2.0))
    return float(total + sigma * t - 2.0 * share * once + share * share * twice)
