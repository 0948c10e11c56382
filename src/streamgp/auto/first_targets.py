"""First targets: whether there are outliers among them, and whether they are skewed."""

from __future__ import annotations

import numpy as np

from streamgp.auto.staged import Rows
from streamgp.settings import FloatArray
from streamgp.wrappers.units import center_and_spread

# An outlier is this many times as far from the median as most values; there are outliers if this share of rows is one.
FAR_OUT, FEW = 10.0, 0.02
SKEWED = 1.0  # skewness of positive targets from which lines for their logarithm compete


def outliers(rows: Rows) -> np.ndarray:
    """Which targets lie far outside the others and were missed by far."""
    return np.asarray(_far_out(rows.Y[:, 0]) & _far_out(rows.missed[:, 0], 0.0))


def is_skewed(y: FloatArray) -> bool:
    """Whether targets are above 0 and have a long tail to the right."""
    known = y[~np.isnan(y)]
    if not len(known) or known.min() <= 0:
        return False
    center, spread = center_and_spread(known)
    return bool(spread > 0 and np.mean(((known - center) / spread) ** 3) > SKEWED)


def has_outliers(rows: Rows) -> bool:
    """Whether more than a few of the later half are: before it everything was missed by far."""
    half = len(rows.Y) // 2
    return bool(np.mean(outliers(rows._replace(Y=rows.Y[half:], missed=rows.missed[half:]))) >= FEW)


def _far_out(values: FloatArray, middle: float | None = None) -> np.ndarray:
    """Which values are more than FAR_OUT median deviations from the middle, by default their median."""
    known = values[~np.isnan(values)]
    if not len(known):
        return np.zeros(len(values), bool)
    middle = np.median(known) if middle is None else middle
    return np.asarray(np.abs(values - middle) > FAR_OUT * np.median(np.abs(known - middle)))
