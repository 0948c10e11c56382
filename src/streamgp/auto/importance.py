"""Importance: how far the predictions of a committee move when some columns are taken from other rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamgp.auto.experts import Experts
from streamgp.settings import FloatArray

ROWS = 200  # of the last ones


def importance(experts: Experts, groups: Sequence[Sequence[int]]) -> FloatArray:
    """The share of each group of columns in what the predictions of the last rows are made of.

    Predictions are made again with the columns of one group from another row, for each group; the mean squared move is
    twice the part of the variance that the group takes part in (Sobol's total index). Shares add up to 1. No shares
    where nothing moves, or fewer than two rows are known.

    Args:
        experts: the committee; nothing of it changes.
        groups: numbers of columns: inputs first, then past targets, the newest first.
    """
    seen = experts.rows_seen
    X = experts._rows_between(0, seen).X if seen else np.empty((0, 0))
    X = X[np.isfinite(X).all(axis=1)][-ROWS:]
    if len(X) < 2:
        return np.zeros(0)
    other, mean = np.random.default_rng(0).permutation(len(X)), experts._predict(X).mean
    moved = np.empty(len(groups))
    for at, columns in enumerate(groups):
        changed = X.copy()
        changed[:, columns] = X[other][:, columns]
        moved[at] = np.mean((experts._predict(changed).mean - mean) ** 2)
    total = moved.sum()
    return moved / total if np.isfinite(total) and total > 0 else np.zeros(0)
