"""What experts see: one vector of features for each row, made of its inputs, past targets, the time and seasons."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from itertools import accumulate, pairwise

import numpy as np

from streamgp.auto import step
from streamgp.contract.snapshot import require
from streamgp.settings import FloatArray

BLOCK = 500  # most rows that are seen together
DEFAULT_LAGS = 10  # where the target's own past is all there is to predict from
FEW_LAGS, DAY_OF_LAGS = 3, 48  # beside other inputs; a day of them where it has no more rows than this


def default_lags(d: int, seasons: Sequence[int], ahead: int) -> int:
    """How many past targets experts may use beside this many columns, unless it is said; see Auto."""
    few = DEFAULT_LAGS if not d or ahead else FEW_LAGS
    return next((rows for rows in seasons if rows <= DAY_OF_LAGS), few)


class Layout:
    """Which column of the features is what.

    Args:
        own: inputs, which come first.
        past: past targets that follow, the newest first; at least one.
        seasons: rows of each season. After the time of the target, one column for each has the target of a season
            before, and then sines and cosines of each follow.
        ahead: rows between a row and its target; if there are none, the inputs of the row before come last.
    """

    def __init__(self, own: int, past: int, seasons: tuple[int, ...], ahead: int) -> None:
        self.own, self.past, self.seasons, self.ahead = own, past, seasons, ahead
        self.newest, self.clock = own, own + past  # the column of the last target that is known, and of the time
        sizes = len(seasons), 2 * step.HARMONICS * len(seasons), 0 if ahead else own
        ends = list(accumulate(sizes, initial=self.clock + 1))
        self.values, self.waves, self.before = (list(range(*pair)) for pair in pairwise(ends))
        self.width = ends[-1]
        # How many rows before a target its value of a season ago is: whole seasons, so that it is known by then.
        self.backs = [-(-max(ahead, 1) // season) * season for season in seasons]
        self.longest = max([past, *self.backs])  # targets that a row sees; a gap of more rows is like one of so many


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

    @property
    def stack(self) -> list[np.ndarray]:
        """All that rows change."""
        return list(self.arrays().values())

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
        """The same of those of k operations that learn; the last one stands for those of rows missing before each."""
        if filled.any():
            before = np.minimum(np.cumsum(learns) - learns, len(targets))  # targets before each operation
            latest = np.append(self.last, targets)[before]
            targets = np.insert(targets, np.repeat(before, filled), np.repeat(latest, filled))
        self.tell(targets)

    def bridge(self, rows: int) -> None:
        """So many rows are missing before the next one, whose target has just come, as all do ahead of time.

        Theirs lie on a line between that and the one before.
        """
        if self.known[0] > 1:
            rows = min(rows, len(self.told) - BLOCK)
            first, last = self.told[(self.known[0] - 2) % len(self.told)], self.last
            self.known[0] -= 1
            self.tell(first + np.arange(1, rows + 2) / (rows + 1) * (last - first))

    def begin_again(self) -> None:
        """The next rows follow no others."""
        self.told[:], self.x[:], self.known[0] = 0.0, np.nan, 0

    def copy(self) -> Past:
        """An independent twin."""
        twin = copy(self)
        vars(twin).update({name: array.copy() for name, array in self.arrays().items()})
        return twin

    def see(
        self, X: FloatArray, ticks: FloatArray, known: np.ndarray, gaps: np.ndarray, before: FloatArray
    ) -> FloatArray:
        """The features of rows, (n, width); see step.see()."""
        layout, out = self._layout, np.empty((len(X), self._layout.width))
        before = X[:, :0] if layout.ahead else np.ascontiguousarray(before)
        of = self.told, np.ascontiguousarray(X), before, np.ascontiguousarray(ticks), known, gaps
        step.see(*of, self._seasons, self._backs, layout.past, layout.ahead, out)
        return out
