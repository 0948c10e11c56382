"""Refused: targets of a run that its model did not take, counted and told; among the first rows they are looked for.

Models screen their targets themselves (wrappers/outliers.py). A run learns from its model which of them were refused:
such a target does not count among scores if it lies where no observation does, and is counted and told in any case.
"""

from __future__ import annotations

import numpy as np

from streamgp.settings import FloatArray
from streamgp.tables.kept import Kept
from streamgp.wrappers import outliers

# Fill values among the first targets cannot be told when they come, so they are looked for after these numbers of rows:
# just before experts join, and Gaussian processes are tuned.
LOOK_BACK = 19, 99, 299


class Refused(Kept):
    """Counts targets that were not learned, and finds those among the first ones.

    Args:
        inputs: columns of the table that are inputs.
        on: whether models screen their targets.
    """

    state = "refused", ("noted", "range", "first")
    grows = frozenset({"first"})

    def __init__(self, inputs: int, on: bool) -> None:
        self._on = on
        self._noted = np.zeros(3)  # how many were not learned; row, from 1, and value of the first of them
        self._range = np.full(2, np.nan)  # of the targets that were learned
        # Inputs, time, target and what was struck out of the first rows, until the last look at them.
        self._first = np.full((LOOK_BACK[-1] if on else 0, inputs + 3), np.nan)

    def next_look(self, rows: int) -> int:
        """After how many more rows the first ones are looked at again; 0: never."""
        return next((stop - rows for stop in LOOK_BACK if stop > rows), 0) if self._on else 0

    def take(self, y: FloatArray, learned: FloatArray, row: int) -> FloatArray:
        """Targets as they are scored: NaN where missing, or refused and far from all that were learned.

        Args:
            y: (n,) targets.
            learned: (n,) the same as the model took them.
            row: number of the first row, from 1.
        """
        gone = np.isnan(learned) & ~np.isnan(y)
        low, high = self._range
        self._range[:] = np.fmin.reduce(learned, initial=low), np.fmax.reduce(learned, initial=high)
        if not gone.any():
            return y
        self._note(y, gone, row)
        lows, highs = np.fmin.accumulate([low, *learned])[:-1], np.fmax.accumulate([high, *learned])[:-1]
        with np.errstate(over="ignore"):
            far = np.maximum(lows - y, y - highs) > outliers.FAR * (highs - lows)
        return np.where(gone & far, np.nan, y)

    def keep(self, rows: int, X: FloatArray, y: FloatArray, time: FloatArray | None) -> None:
        """Keep rows that come after this number of rows, as long as the first ones are looked at again."""
        if not len(self._first):
            return
        room = self._first[rows : rows + len(y)]
        room[:, :-3], room[:, -2] = X, y
        if time is not None:
            room[:, -3] = time

    def leave_first(self) -> None:
        """Look at the first rows no more: what was learned since cannot be learned again in its order."""
        self._first = self._first[:0].copy()

    def look_back(self, rows: int) -> tuple[FloatArray, FloatArray, FloatArray] | None:
        """All rows so far with fill values struck out, to be taken again: inputs, targets and times.

        None where there is nothing to strike out, or it is not the time to look for it.

        Args:
            rows: how many there were.
        """
        if not len(self._first) or rows not in LOOK_BACK:
            return None
        first = self._first[:rows]
        y, none = first[:, -2:-1], np.zeros((1, outliers.NUMBERS))
        known = ~np.isnan(outliers.screened(none, y, False)[:, 0])
        wrong = known & np.isnan(outliers.without_fill_values(y, False)[:, 0])
        if rows == LOOK_BACK[-1]:
            self.leave_first()
        if not wrong.any():
            return None
        first[wrong, -1], first[wrong, -2] = first[wrong, -2], np.nan
        struck = first[:, -1]
        self._noted[:], self._range[:] = 0.0, np.nan
        self._note(struck, ~np.isnan(struck), 1)
        return first[:, :-3].copy(), first[:, -2].copy(), first[:, -3].copy()

    def _note(self, y: FloatArray, gone: np.ndarray, row: int) -> None:
        """Count targets that were not learned; the first of all is remembered."""
        self._noted[0] += np.count_nonzero(gone)
        at = int(gone.argmax())
        if gone.any() and (self._noted[1] == 0 or row + at < self._noted[1]):
            self._noted[1:] = row + at, y[at]

    @property
    def count(self) -> int:
        """Targets that came and were not learned."""
        return int(self._noted[0])

    def sentence(self, where: bool = True) -> str:
        """What was refused, for people; nothing where nothing was.

        Args:
            where: whether to add which was the first, and what to do.
        """
        if not self.count:
            return ""
        several = f"{self.count:,} targets lay far outside all before them and were not learned"
        told = several if self.count > 1 else "1 target lay far outside all before it and was not learned"
        _, row, value = self._noted.tolist()
        return told + (
            f" (first: row {row:.0f}, value {value:g}); to learn them all, use `screen=off`" if where else ""
        )
