"""A model of a fleet on a GPU: one record of numbers, an origin, some counts, its units, and what all models share.

A record is in units of its kernel: targets over the prior's standard deviation, inputs in lengthscales from the origin
of the model, which follows its rows. Rows come and predictions leave in double precision; so single precision sees
numbers of the order of 1 whatever the units of the data are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from streamgp.contract.checks import LARGEST

# In units of the kernel, by the bytes of a number: squares and sums of them are still numbers.
LARGEST_NUMBERS = {8: LARGEST, 4: 1e15}
# Lengthscales: beyond, the origin follows a row that is learned; and beyond, single precision knows the places of the
# other points too coarsely.
FAR, TOO_FAR = 1e3, 1e5
# Single precision: a basis point has at least this part of its variance given all others, since features are rounded
# to eps / sqrt(floor).
SINGLE_FLOOR = 1e-5
MOST_DEFECT = 0.05  # of L K L' from I, beyond which a record is made anew
LINE = 128  # bytes to which records are aligned

# What a row is learned with, in units of the kernel: first what all models share, then what the model or the row has of
# its own.
SHARED = (
    "scale",  # W <- scale W + fresh I, beta <- mean_scale beta before a row is learned
    "fresh",
    "mean_scale",
    "kappa",  # prior variance of a point, jitter included
    "rounding",  # a residual below is 0 ...
    "negative",  # ... and below this one it is counted
    "unresolved",  # s below is counted
    "novelty",
)
PARAMETERS = (
    *SHARED,
    "noise",
    "novel",  # a row with this residual is admitted
    "distinct",  # the largest diagonal entry of K^-1
)
SCALE, FRESH, MEAN_SCALE, KAPPA, ROUNDING, NEGATIVE, UNRESOLVED, NOVELTY, NOISE, NOVEL, DISTINCT = range(
    len(PARAMETERS)
)

# What a model has of its own: what its rows are learned with, as at the end of PARAMETERS, the unit of its targets and
# 1 over it, and then the units of its inputs, and 1 over each.
OWN_PARAMETERS = len(PARAMETERS) - len(SHARED)
UNIT, PER_UNIT, SCALES = range(OWN_PARAMETERS, OWN_PARAMETERS + 3)

# What is done with rows: nothing is learned; learned and counted; learned, when they were counted before.
PREDICTED, COUNTED, LEARNED = range(3)

# What is counted for each model.
COUNTS = (
    "rows_seen",
    "points",
    "change",
    "negative_residuals",
    "skipped_rows",
    "unresolved_rows",
    "refreshed",
    "resets",
)
ROWS, POINTS, CHANGE, NEGATIVES, SKIPPED, UNRESOLVED_ROWS, REFRESHED, RESETS = range(len(COUNTS))


class Rows(NamedTuple):
    """What a target runs for one model; f is its record with the scratch behind."""

    meet: Callable[..., Any]  # (parameters, own, noise): before a row with a noise of its own
    # (f, x, origin, own, learned, counts) -> whether the points were moved; puts a row in units of the kernel where
    # predict() and learn() look for it
    place: Callable[..., Any]
    predict: Callable[..., Any]  # (f, parameters, shared) -> mean, latent variance, |phi|^2, phi'W phi
    learn: Callable[..., Any]  # (f, parameters, y, mean, |phi|^2, phi'W phi, counts) -> whether the basis has changed
    off: Callable[..., Any]  # (f, parameters, points) -> how far the record is from what it should be; nan: broken


class UnfitError(ValueError):
    """Rows that a GPU cannot take; nothing has changed."""


def rounded_up(n: int, to: int) -> int:
    return -(-n // to) * to
