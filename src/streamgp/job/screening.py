"""Screening: targets of a run that look like fill values, which count as missing."""

from __future__ import annotations

import numpy as np

from streamgp.contract.saved import refuse_unlike
from streamgp.settings import FloatArray
from streamgp.wrappers import outliers

# Fill values among the first targets cannot be told when they come, so they are looked for after these numbers of rows:
# just before experts join, and Gaussian processes are tuned (auto/experts.py).
LOOK_BACK = 19, 99, 299


class Screening:
    """Makes targets missing that cannot be observations (wrappers/outliers.py), and counts them.

    Args:
        inputs: columns of the table that are inputs.
        on: whether anything is done.
    """

    def __init__(self, inputs: int, on: bool) -> None:
        self._on = on
        self._state = np.zeros((1, outliers.NUMBERS))
        self._example = np.zeros(2)  # row, from 1, and value of the first that was found; row 0: none
        # Inputs, time and target of the first rows, until the last look back, with room for more; how many there are.
        self._room, self._kept = np.empty((0, inputs + 2)), 0

    def next_look(self, rows: int) -> int:
        """After how many more rows the first ones are looked at again; 0: never."""
        if self._on:
            for stop in LOOK_BACK:
                if stop > rows:
                    return stop - rows
        return 0

    def take(self, y: FloatArray, row: int) -> FloatArray:
        """Targets in the order of the stream, NaN where missing or refused.

        Args:
            y: (n,) targets.
            row: number of the first row, from 1.
        """
        if not self._on:
            return y
        before = self._state[0, outliers.REFUSED]
        left = outliers.screened(self._state, y[:, None], False)[:, 0]
        if self._state[0, outliers.REFUSED] > before:
            self._note(y, left, row)
        return left

    def keep(self, rows: int, X: FloatArray, y: FloatArray, time: FloatArray | None) -> None:
        """Keep rows that come after this number of rows, as long as the first ones are looked at again."""
        if not self._on or rows >= LOOK_BACK[-1]:
            return
        start, stop = self._kept, self._kept + len(y)
        if stop > len(self._room):
            room = np.empty((next((look for look in LOOK_BACK if look >= stop), stop), self._room.shape[1]))
            room[:start] = self._first
            self._room = room
        room = self._room[start:stop]
        room[:, :-2], room[:, -2], room[:, -1] = X, np.nan if time is None else time, y
        self._kept = stop

    @property
    def _first(self) -> FloatArray:
        return self._room[: self._kept]

    def look_back(self, rows: int) -> tuple[FloatArray, FloatArray, FloatArray] | None:
        """All rows so far with fill values struck out, to be learned again: inputs, targets and times.

        None where there is nothing to strike out, or it is not the time to look for it.

        Args:
            rows: how many there were.
        """
        if not self._on or rows not in LOOK_BACK or self._kept != rows:
            return None
        first = self._first
        y = first[:, -1].copy()
        left = outliers.without_fill_values(y[:, None], False)[:, 0]
        self._state[0, outliers.REFUSED] += self._note(y, left, 1)
        first[:, -1] = left
        found = first[:, :-2].copy(), left, first[:, -2].copy()
        if rows == LOOK_BACK[-1]:
            self._room, self._kept = np.empty((0, first.shape[1])), 0
        return found if np.any(np.isnan(left) & ~np.isnan(y)) else None

    def _note(self, y: FloatArray, left: FloatArray, row: int) -> int:
        """How many targets were refused; the first of all is remembered."""
        (refused,) = np.nonzero(np.isnan(left) & ~np.isnan(y))
        if len(refused) and (self._example[0] == 0 or row + refused[0] < self._example[0]):
            self._example[:] = row + refused[0], y[refused[0]]
        return len(refused)

    @property
    def count(self) -> int:
        """Targets that were not learned."""
        return outliers.refused(self._state)

    def sentence(self) -> str:
        """What was found, for people; nothing where nothing was."""
        if not self.count:
            return ""
        several = f"{self.count:,} targets looked like fill values and were not learned"
        row, value = self._example.tolist()
        return (
            f"{several if self.count > 1 else '1 target looked like a fill value and was not learned'} "
            f"(first: row {row:.0f}, value {value:g}); to learn them all, use `screen=off`"
        )

    # The state.

    def arrays(self) -> dict[str, np.ndarray]:
        """The state by name."""
        return {"screen": self._state, "fill_value": self._example, "first_rows": self._first}

    def restore(self, tensors: dict[str, np.ndarray]) -> None:
        """Go on from saved arrays."""
        wanted = self.arrays() | {"first_rows": np.empty((len(tensors["first_rows"]), self._room.shape[1]))}
        refuse_unlike({name: tensors[name] for name in wanted}, wanted)
        outliers.check(tensors["screen"])
        self._state[:], self._example[:] = tensors["screen"], tensors["fill_value"]
        self._room, self._kept = tensors["first_rows"].copy(), len(tensors["first_rows"])
