"""Scores: how far the means are off, and how honest the error bars are.

Rows whose target is missing (None, NaN, NA or masked) do not count. Every score is a number, over all rows and outputs
together.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.contract.inputs import numbers
from streamgp.contract.prediction import Prediction
from streamgp.contract.tally import Scored, counted, scored
from streamgp.settings import FloatArray


def rmse(truth: Any, mean: Any) -> float:
    """Return the root of the mean squared error.

    Example:
        >>> rmse([0.0, 1.0], [0.0, 3.0])
        1.4142135623730951
    """
    return float(tally(truth, mean).rmse)


def mnae(truth: Any, mean: Any) -> float:
    """Return the mean absolute error over the standard deviation of the truth, as in [soh2014]'s tables."""
    return float(tally(truth, mean).mae / np.nanstd(numbers(truth, "truth")))


def nmse(truth: Any, mean: Any) -> float:
    """Return the mean squared error of each output over its variance, averaged over outputs, as in [gijsberts2013]."""
    errors = _columns(truth) - _columns(mean)
    return float(np.mean(np.nanmean(errors**2, axis=0) / np.nanvar(_columns(truth), axis=0)))


def nlpd(truth: Any, prediction: Prediction) -> float:
    """Return the mean negative log predictive density of the observations."""
    return float(-tally(truth, prediction.mean, log_density=prediction.log_density(truth)).log_density)


def coverage(truth: Any, lower: Any, upper: Any) -> float:
    """Return the share of observations inside their intervals."""
    return float(tally(truth, truth, lower, upper).coverage)


def interval_score(truth: Any, lower: Any, upper: Any, level: float) -> float:
    """Return the mean interval score [Gneiting and Raftery 2007]: the width, plus 2 / (1 - level) times each miss."""
    y, low, high = (numbers(v, "truth and bounds") for v in (truth, lower, upper))
    missed = np.maximum(low - y, 0.0) + np.maximum(y - high, 0.0)
    return float(np.nanmean(np.where(np.isnan(y), np.nan, high - low + 2.0 / (1.0 - level) * missed)))


def pit(truth: Any, prediction: Prediction) -> FloatArray:
    """Return the predictive probability below each observation: uniform where the error bars are honest."""
    return np.asarray(prediction.pit(truth))


def tally(truth: Any, mean: Any, lower: Any = np.nan, upper: Any = np.nan, log_density: Any = np.nan) -> Scored:
    """Return the scores of all rows and outputs with a target together."""
    y, low, high = (numbers(values, "truth and bounds") for values in (truth, lower, upper))
    table = counted(y, numbers(mean, "mean"), low, high, log_density, known=~np.isnan(y))
    return scored(table.reshape(-1, table.shape[-1]).sum(axis=0))


def _columns(values: Any) -> FloatArray:
    array = numbers(values, "truth and mean")
    return array[:, None] if array.ndim == 1 else array
