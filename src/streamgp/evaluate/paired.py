"""Paired comparison: which of several models did best on one stream, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from streamgp.contract.tally import Buckets
from streamgp.settings import FloatArray, number, whole


class Rank(NamedTuple):
    """One model beside the best."""

    name: str
    loss: float  # its mean loss; small is good
    excess: float  # how much more than the best one's
    low: float  # ends of a confidence interval of the excess
    high: float


class BlockSums:
    """Sums of losses over blocks of rows, in constant memory.

    Losses of neighboring rows are not independent; means over long blocks nearly are.

    Args:
        blocks: most blocks.
    """

    def __init__(self, blocks: int = 64) -> None:
        self._buckets = Buckets(whole("blocks", blocks, at_least=4), losses=np.add, rows=np.add)
        self._names: list[str] = []

    def add(self, losses: Mapping[str, FloatArray]) -> None:
        """Take the losses of the same rows under every name; rows that miss one under any name do not count."""
        self._names = self._names or list(losses)
        if set(losses) != set(self._names):
            raise ValueError(f"losses must come under the names {sorted(self._names)}; got {sorted(losses)}")
        table = np.column_stack([losses[name] for name in self._names])
        known = table[np.isfinite(table).all(axis=1)]
        self._buckets.add(losses=known, rows=np.ones(len(known)))

    def ranking(self, level: float = 0.95) -> list[Rank]:
        """Return the models, best first, each with a confidence interval of its distance from the best.

        The interval is Student's, from the differences of block means.

        Args:
            level: of the confidence interval.
        """
        if not 0 < number("level", level) < 1:
            raise ValueError(f"level must be above 0 and below 1; got {level!r}")
        if not self._names:
            return []
        sums, rows = self._buckets["losses"], self._buckets["rows"]
        full = rows == self._buckets.stride
        if np.count_nonzero(full) < 2:
            full = rows > 0
        losses = sums.sum(axis=0) / max(rows.sum(), 1.0)
        best, *_ = order = np.argsort(losses, kind="stable").tolist()
        result = []
        for one in order:
            differences = (sums[:, one] - sums[:, best])[full] / rows[full]
            k = len(differences)
            excess = float(losses[one] - losses[best])
            half = np.inf if k < 2 else stdtrit(k - 1, 0.5 + level / 2) * float(np.std(differences, ddof=1)) / k**0.5
            result.append(Rank(self._names[one], float(losses[one]), excess, excess - half, excess + half))
        return result
