"""What experts see: one vector of features for each row, made of its inputs, past targets, the time and seasons."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

import numpy as np

from streamgp.auto import step
from streamgp.contract.snapshot import require
from streamgp.settings import FloatArray

BLOCK = 500  # most rows that are seen together


class Layout(NamedTuple):
    """Which column of the features is what.

    Args:
        own: inputs, which come first.
        past: past targets that follow, the newest first; at least one.
        seasons: rows of each season. After the time of the target, one column for each has the target of a season
            before, and then sines and cosines of each follow.
        ahead: rows between a row and its target; if there are none, the inputs of the row before come last.
    """

    own: int
    past: int
    seasons: tuple[int, ...]
    ahead: int

    @property
    def newest(self) -> int:
        """The column of the last target that is known."""
        return self.own

    @property
    def clock(self) -> int:
        """The column of the target's time."""
        return self.own + self.past

    @property
    def values(self) -> list[int]:
        """The columns of the targets of a season before."""
        return list(range(self.clock + 1, self.clock + 1 + len(self.seasons)))

    @property
    def waves(self) -> list[int]:
        """The columns of sines and cosines."""
        first = self.clock + 1 + len(self.seasons)
        return list(range(first, first + 2 * step.HARMONICS * len(self.seasons)))

    @property
    def before(self) -> list[int]:
        """The columns of the inputs of the row before."""
        return list(range(self.width - self._before, self.width))

    @property
    def _before(self) -> int:
        return 0 if self.ahead else self.own

    @property
    def width(self) -> int:
        return self.clock + 1 + (1 + 2 * step.HARMONICS) * len(self.seasons) + self._before

    @property
    def backs(self) -> list[int]:
        """How many rows before a target its value of a season ago is: whole seasons, so that it is known by then."""
        return [-(-max(self.ahead, 1) // season) * season for season in self.seasons]

    @property
    def longest(self) -> int:
        """How many of the last targets a row sees at most; a gap of more rows is like one of so many."""
        return max([self.past, *self.backs])


class Past:
    """The targets of one output in the order in which they became known, and the inputs of the last row.

    Args:
        layout: of the features.
        rows: the last rows whose features can be made again.
    """

    def __init__(self, layout: Layout, rows: int) -> None:
        self._layout = layout
        self.told, self.known = np.zeros(rows + layout.longest + 2 * BLOCK), np.zeros(1, dtype=np.int64)
        self.x = np.full((1, layout.own), np.nan)  # NaN: there was no row
        self._seasons, self._backs = (np.array(one, dtype=np.int64) for one in (layout.seasons, layout.backs))

    def arrays(self) -> dict[str, np.ndarray]:
        """The state by name."""
        return {"told": self.told, "known": self.known, "x": self.x}

    def check(self) -> None:
        """Refuse a state that no rows lead to."""
        require("past targets", self.told)
        require("last inputs", self.x[~np.isnan(self.x)])
        require("known targets", self.known, at_least=0)

    @property
    def last(self) -> float:
        """The last target; NaN: there was none."""
        return float(self.told[(self.known[0] - 1) % len(self.told)]) if self.known[0] else np.nan

    def tell(self, targets: FloatArray) -> None:
        """Targets have become known."""
        if len(targets):
            first = int(self.known[0])
            self.told[(first + np.arange(len(targets))) % len(self.told)] = targets
            self.known[0] += len(targets)

    def tell_after(self, targets: FloatArray, filled: np.ndarray, learns: np.ndarray) -> None:
        """Targets of operations that learn become known; the last one known stands for those of missing rows.

        Args:
            targets: (m,) of the first m operations that learn.
            filled: (k,) rows that are missing before each operation.
            learns: (k,) which operations learn.
        """
        if filled.any():
            at = np.cumsum(learns)  # targets that are known after each operation
            known = np.concatenate([[self.last], targets])
            values = [
                np.append(np.full(gap, known[min(after - learn, len(targets))]), known[after : after + learn])
                for gap, after, learn in zip(filled, at, learns, strict=True)
            ]
            self.tell(np.concatenate(values))
        else:
            self.tell(targets)

    def bridge(self, rows: int) -> None:
        """So many rows are missing before the next one: the last target stands for theirs.

        Ahead of time the last target came with the next row, and theirs lie between that and the one before.
        """
        if not self.known[0]:
            return
        rows = min(rows, len(self.told) - BLOCK)
        if not self._layout.ahead:
            self.tell(np.full(rows, self.last))
        elif self.known[0] > 1:
            first, last = self.told[(self.known[0] - 2) % len(self.told)], self.last
            self.known[0] -= 1
            self.tell(first + np.arange(1, rows + 2) / (rows + 1) * (last - first))

    def begin_again(self) -> None:
        """The next rows follow no others."""
        self.told[:], self.x[:], self.known[0] = 0.0, np.nan, 0

    def copy(self) -> Past:
        """An independent twin."""
        twin = copy(self)
        twin.told, twin.known, twin.x = self.told.copy(), self.known.copy(), self.x.copy()
        return twin

    def see(
        self, X: FloatArray, ticks: FloatArray, known: np.ndarray, gaps: np.ndarray, before: FloatArray | None = None
    ) -> FloatArray:
        """The features of rows, (n, width); see step.see().

        Args:
            before: (n, d) inputs of the rows before; None: the last row is before each.
        """
        layout, n = self._layout, len(X)
        if layout.ahead:
            before = X[:, :0]
        elif before is None:
            before = np.repeat(self.x, n, axis=0)
        out = np.empty((n, layout.width))
        step.see(
            *(self.told, X, np.ascontiguousarray(before), ticks, known, gaps, self._seasons, self._backs),
            *(layout.past, layout.ahead, out),
        )
        return out


def default_lags(d: int, seasons: Sequence[int], ahead: int) -> int:
    """How many past targets experts may use beside this many columns, unless it is said; see Auto."""
    few = DEFAULT_LAGS if not d or ahead else FEW_LAGS
    return next((rows for rows in seasons if rows <= DAY_OF_LAGS), few)


DEFAULT_LAGS = 10  # where the target's own past is all there is to predict from
FEW_LAGS, DAY_OF_LAGS = 3, 48  # beside other inputs; a day of them where it has no more rows than this
LONGER_LAGS = 24  # of least squares, which needs few rows for many inputs
