"""Predict each row, then learn it; and score what was predicted."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamgp.contract.inputs import numbers
from streamgp.contract.model import StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.evaluate import metrics
from streamgp.settings import FloatArray, whole


class Scores(NamedTuple):
    """How a model did along a stream, over all rows after the first ``skip`` and all outputs.

    Args:
        prediction: of every row, the skipped ones too.
        rows: rows that are scored and have a target; none for which the model claims nothing (an infinite variance).
        rmse: root of the mean squared error, in units of the target.
        nlpd: mean negative log predictive density; NaN, as all that follow, for models without a variance.
        coverage: share of the targets inside their intervals.
        width: mean width of the intervals, in units of the target.
        interval_score: mean interval score.
        windows: (windows,) coverage of every window of consecutive rows.
    """

    prediction: Prediction
    rows: int
    rmse: float
    nlpd: float
    coverage: float
    width: float
    interval_score: float
    windows: FloatArray


def prequential(model: StreamModel, X: Any, Y: Any, level: float = 0.9, skip: int = 0, window: int = 1000) -> Scores:
    """Return how a model does along a stream: each row is predicted, then learned. The model changes.

    Args:
        model: a stream model.
        X: (n, d) rows.
        Y: (n,) or (n, p) targets; None, NaN, NA or masked where missing.
        level: of the intervals that are scored.
        skip: first rows that do not count.
        window: rows of a window, for its coverage.

    Example:
        >>> import streamgp as sg
        >>> from streamgp.evaluate import prequential
        >>> series = sg.data.mackey_glass(3000)
        >>> scores = prequential(sg.Calibrated(sg.KRLST(depth=5)), series.X, series.Y, skip=500)
        >>> round(scores.coverage, 2), bool(scores.windows.min() > 0.85)
        (0.9, True)
    """
    whole("skip", skip, at_least=0)
    whole("window", window)
    prediction = model.track(X, Y)
    return scores_of(prediction, Y, level, skip, window)


def scores_of(prediction: Prediction, Y: Any, level: float = 0.9, skip: int = 0, window: int = 1000) -> Scores:
    """Return the scores of predictions made along a stream; the arguments are those of :func:`prequential`."""
    later = prediction[skip:]
    y = np.where(np.isinf(later.std), np.nan, numbers(Y, "Y")[skip:])
    known = ~np.isnan(y)
    rows = int(known.reshape(len(y), -1).any(1).sum())
    if np.all(np.isnan(later.std)):
        return Scores(prediction, rows, metrics.rmse(y, later.mean), *(math.nan,) * 4, np.empty(0))
    low, high = later.interval(level)
    found = metrics.tally(y, later.mean, low, high, later.log_density(y))
    return Scores(
        prediction,
        rows,
        float(found.rmse),
        float(-found.log_density),
        float(found.coverage),
        float(found.width),
        metrics.interval_score(y, low, high, level),
        _in_windows(np.asarray((low <= y) & (y <= high)), known, window),
    )


def _in_windows(inside: NDArray[np.bool_], known: NDArray[np.bool_], window: int) -> FloatArray:
    """The share of what is known that lies inside, in every window of rows that follow each other."""
    sums: list[NDArray[np.int64]] = []
    for values in (inside & known, known):
        total = np.concatenate([[0], np.cumsum(values.reshape(len(values), -1).sum(1))])
        sums.append(total[window:] - total[:-window])
    hits, targets = sums
    shares: FloatArray = hits[targets > 0] / targets[targets > 0]
    return shares
