"""Paired comparison: which of several models did best on one stream, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from streamgp.settings import FloatArray, number, whole


class Rank(NamedTuple):
    """One model beside the best.

    Args:
        name: of the model.
        loss: its mean loss; small is good.
        excess: how much more than the best one's.
        low: lower end of a confidence interval of the excess.
        high: upper end.
    """

    name: str
    loss: float
    excess: float
    low: float
    high: float


class BlockSums:
    """Sums of losses over blocks of rows, in constant memory: when all blocks are in use, two and two are joined.

    Losses of neighboring rows are not independent; means over long blocks nearly are.

    Args:
        blocks: most blocks.
    """

    def __init__(self, blocks: int = 64) -> None:
        if whole("blocks", blocks, at_least=4) % 2:
            raise ValueError(f"blocks must be even, because two and two are joined; got {blocks}")
        self._sums: dict[str, FloatArray] = {}
        self._counts = np.zeros(blocks)
        self._blocks, self._stride, self._rows = blocks, 1, 0

    def add(self, losses: Mapping[str, FloatArray]) -> None:
        """Take the losses of the same rows under every name; rows that miss one under any name do not count."""
        if not self._sums:
            self._sums = {name: np.zeros(self._blocks) for name in losses}
        if set(losses) != set(self._sums):
            raise ValueError(f"losses must come under the names {sorted(self._sums)}; got {sorted(losses)}")
        known = np.all([np.isfinite(values) for values in losses.values()], axis=0)
        n = int(np.count_nonzero(known))
        while self._rows + n > self._blocks * self._stride:
            self._join()
        index = (self._rows + np.arange(n)) // self._stride
        for name, values in losses.items():
            np.add.at(self._sums[name], index, values[known])
        np.add.at(self._counts, index, 1.0)
        self._rows += n

    def _join(self) -> None:
        half = self._blocks // 2
        for column in (*self._sums.values(), self._counts):
            column[:half] = column[0::2] + column[1::2]
            column[half:] = 0.0
        self._stride *= 2

    def ranking(self, level: float = 0.95) -> list[Rank]:
        """Return the models, best first, each with a confidence interval of its distance from the best.

        The interval is Student's, from the differences of block means.

        Args:
            level: of the confidence interval.
        """
        if not 0 < number("level", level) < 1:
            raise ValueError(f"level must be above 0 and below 1; got {level!r}")
        full = self._counts == self._stride
        if np.count_nonzero(full) < 2:
            full = self._counts > 0
        losses = {name: float(np.sum(s) / max(np.sum(self._counts), 1.0)) for name, s in self._sums.items()}
        order = sorted(losses, key=losses.__getitem__)
        result = []
        for name in order:
            differences = (self._sums[name] - self._sums[order[0]])[full] / self._counts[full]
            k = len(differences)
            excess = losses[name] - losses[order[0]]
            half = np.inf if k < 2 else stdtrit(k - 1, 0.5 + level / 2) * float(np.std(differences, ddof=1)) / k**0.5
            result.append(Rank(name, losses[name], excess, excess - half, excess + half))
        return result
