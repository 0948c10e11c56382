"""Detector: when errors have grown, and whether what was built anew after the alarm errs less than what was there."""

from __future__ import annotations

import math

import numpy as np

from streamgp.contract.snapshot import require
from streamgp.settings import FloatArray
from streamgp.wrappers import drift

# Every false alarm squares the evidence that the next one needs, at most this often; a real change halves the count.
MOST_REFUTED = 4


class Detector:
    """Evidence that errors have grown, and how much of it makes an alarm.

    Args:
        stop: the evidence that makes the first alarm.
        counts: (drift.BINS,) how many errors lay in each bin.
        evidence: (1,) so far.
        refuted: (1,) false alarms that count against the next one.
    """

    def __init__(self, stop: float, counts: FloatArray, evidence: FloatArray, refuted: np.ndarray) -> None:
        self._stop, self._counts, self._evidence, self._refuted = stop, counts, evidence, refuted

    def watch(
        self, mean: FloatArray, variance: FloatArray, noise: FloatArray, Y: FloatArray, *, plain: bool, armed: bool
    ) -> int:
        """Rank the errors of rows, see drift.watch; return the row that gives the alarm, or -1.

        Args:
            armed: whether there may be an alarm; if not, errors are ranked and evidence does not accumulate.
        """
        if variance.shape != noise.shape or not variance.flags.writeable:
            # A copy: the compiled code is for arrays that can be written.
            shape = np.broadcast_shapes(variance.shape, noise.shape)
            variance = np.array(np.broadcast_to(variance, shape))
        mean, variance, noise, Y = map(np.ascontiguousarray, (mean, variance, noise, Y))
        at: int = drift.watch(mean, variance, noise, Y, plain, *self._terms(armed))
        return at

    def watch_beside(
        self,
        mean: FloatArray,
        other: FloatArray,
        y: FloatArray,
        first: int,
        fading: float,
        unit: FloatArray,
        *,
        ranked: bool,
        armed: bool,
    ) -> int:
        """The same in units of the errors of another prediction, see drift.watch_beside."""
        at: int = drift.watch_beside(mean, other, y, first, fading, unit, ranked, *self._terms(armed))
        return at

    def _terms(self, armed: bool) -> tuple[float, FloatArray, FloatArray]:
        """The evidence that makes an alarm, the errors so far, and the evidence so far."""
        return (self.enough, self._counts, self._evidence) if armed else (np.inf, self._counts, np.zeros(1))

    @property
    def enough(self) -> float:
        """The evidence that makes an alarm."""
        return math.exp(min(2.0 ** float(self._refuted[0]) * math.log(self._stop), 700.0))  # a float

    def restart(self) -> float:
        """Compare later errors among themselves; return the evidence that there was."""
        found = float(self._evidence[0])
        self._counts[:], self._evidence[:] = 0.0, 0.0
        return found

    def conclude(self, *, confirmed: bool) -> None:
        """Make the next alarm harder after a false one, easier after a real one."""
        refuted = int(self._refuted[0])
        self._refuted[0] = refuted // 2 if confirmed else min(refuted + 1, MOST_REFUTED)

    def check(self) -> None:
        """Refuse a state that cannot be."""
        require("counts", self._counts, at_least=0)
        require("evidence", self._evidence, at_least=0)
        require("refuted", self._refuted, at_least=0, at_most=MOST_REFUTED)


def share(new: FloatArray | float, old: FloatArray | float) -> float:
    """The share of the errors made by what is new, averaged over outputs: below one half it erred less."""
    both = np.add(new, old)
    known = both > 0
    return float(np.mean(np.where(known, np.divide(new, np.where(known, both, 1.0)), 0.5)))
