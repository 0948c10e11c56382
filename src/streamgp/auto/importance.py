"""Importance: how far the predictions of a table move when some columns are taken from other rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from streamgp.settings import FloatArray

ROWS = 200  # of the last ones


def importance(table: Any, groups: Sequence[Sequence[int]]) -> FloatArray:
    """The share of each group of columns in what the predictions of the last rows are made of.

    Predictions are made again with the columns of one group from another row, for each group; the mean squared move is
    twice the part of the variance that the group takes part in (Sobol's total index). Shares add up to 1. No shares
    where nothing moves, or fewer than two rows are known.

    Args:
        table: of one output; nothing of it changes.
        groups: numbers of columns: inputs first, then past targets, the newest first.
    """
    seen = table.rows_seen
    F = table.rows_between(max(seen - ROWS, 0), seen).F
    F = F[np.isfinite(F).all(axis=1)]
    if len(F) < 2:
        return np.zeros(0)
    other, mean = np.random.default_rng(0).permutation(len(F)), table.means(F)
    moved = np.empty(len(groups))
    for at, columns in enumerate(groups):
        changed = F.copy()
        changed[:, columns] = F[other][:, columns]
        moved[at] = np.mean((table.means(changed) - mean) ** 2)
    total = moved.sum()
    return moved / total if np.isfinite(total) and total > 0 else np.zeros(0)
