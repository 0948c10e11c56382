"""Screening: targets of a run that cannot be observations, and how many were not learned."""

from __future__ import annotations

import numpy as np

from streamgp.contract.saved import refuse_unlike
from streamgp.settings import FloatArray
from streamgp.wrappers import outliers

# Fill values among the first targets cannot be told when they come, so they are looked for after these numbers of rows:
# just before experts join, and Gaussian processes are tuned (auto/experts.py).
LOOK_BACK = 19, 99, 299


class Screening:
    """Makes targets missing that cannot be observations (wrappers/outliers.py); counts those that are not learned.

    Args:
        inputs: columns of the table that are inputs.
        on: whether anything is done.
    """

    def __init__(self, inputs: int, on: bool) -> None:
        self._on = on
        self._state = np.zeros((1, outliers.NUMBERS))
        self._noted = np.zeros(3)  # how many were not learned; row, from 1, and value of the first of them
        # Inputs, time, target and what was struck out of the first rows, until the last look back, with room for more;
        # how many there are.
        self._room, self._kept = np.empty((0, inputs + 3)), 0

    def next_look(self, rows: int) -> int:
        """After how many more rows the first ones are looked at again; 0: never."""
        if self._on:
            for stop in LOOK_BACK:
                if stop > rows:
                    return stop - rows
        return 0

    def take(self, y: FloatArray, learned: FloatArray, row: int) -> FloatArray:
        """Targets as they are scored, in the order of the stream: NaN where missing, or no observation for any model.

        Args:
            y: (n,) targets.
            learned: (n,) the same as the model of the run takes them, which may refuse more of them.
            row: number of the first row, from 1.
        """
        left = outliers.screened(self._state, y[:, None], False)[:, 0] if self._on else y
        self._note(y, np.where(np.isnan(learned), np.nan, left), row)
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
        room[:, :-3], room[:, -3], room[:, -2], room[:, -1] = X, np.nan if time is None else time, y, np.nan
        self._kept = stop

    @property
    def _first(self) -> FloatArray:
        return self._room[: self._kept]

    def look_back(self, rows: int) -> tuple[FloatArray, FloatArray, FloatArray] | None:
        """All rows so far with fill values struck out, to be taken again: inputs, targets and times.

        None where there is nothing to strike out, or it is not the time to look for it.

        Args:
            rows: how many there were.
        """
        if not self._on or rows not in LOOK_BACK or self._kept != rows:
            return None
        first = self._first
        y = first[:, -2:-1]
        known = ~np.isnan(outliers.screened(np.zeros_like(self._state), y, False)[:, 0])
        wrong = known & np.isnan(outliers.without_fill_values(y, False)[:, 0])
        if rows == LOOK_BACK[-1]:
            self._room, self._kept = np.empty((0, first.shape[1])), 0
        if not wrong.any():
            return None
        first[wrong, -1], first[wrong, -2] = first[wrong, -2], np.nan
        self._state[:], self._noted[:] = 0.0, 0.0
        self._note(first[:, -1], np.full(rows, np.nan), 1)
        return first[:, :-3].copy(), first[:, -2].copy(), first[:, -3].copy()

    def _note(self, y: FloatArray, left: FloatArray, row: int) -> None:
        """Count targets that are not left; the first of all is remembered."""
        (refused,) = np.nonzero(np.isnan(left) & ~np.isnan(y))
        if not len(refused):
            return
        self._noted[0] += len(refused)
        if self._noted[1] == 0 or row + refused[0] < self._noted[1]:
            self._noted[1:] = row + refused[0], y[refused[0]]

    @property
    def count(self) -> int:
        """Targets that came and were not learned."""
        return int(self._noted[0])

    def sentence(self) -> str:
        """What was found, for people; nothing where nothing was."""
        if not self.count:
            return ""
        several = f"{self.count:,} targets lay far outside all before them and were not learned"
        _, row, value = self._noted.tolist()
        return (
            f"{several if self.count > 1 else '1 target lay far outside all before it and was not learned'} "
            f"(first: row {row:.0f}, value {value:g}); to learn them all, use `screen=off`"
        )

    # The state.

    def arrays(self) -> dict[str, np.ndarray]:
        """The state by name."""
        return {"screen": self._state, "fill_value": self._noted, "first_rows": self._first}

    def restore(self, tensors: dict[str, np.ndarray]) -> None:
        """Go on from saved arrays."""
        wanted = self.arrays() | {"first_rows": np.empty((len(tensors["first_rows"]), self._room.shape[1]))}
        refuse_unlike({name: tensors[name] for name in wanted}, wanted)
        outliers.check(tensors["screen"])
        self._state[:], self._noted[:] = tensors["screen"], tensors["fill_value"]
        self._room, self._kept = tensors["first_rows"].copy(), len(tensors["first_rows"])
