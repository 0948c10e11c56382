"""Times of rows: for models, and for people those of the last rows and of rows at which something happened."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple

import numpy as np

from streamgp.settings import FloatArray
from streamgp.tables.dates import TimeReader
from streamgp.tables.kept import Kept

DAY = 86400.0
UNKNOWN = np.full(256, np.nan)  # times of few rows that have none
MOST_MARKED = 1000  # rows at which something happened
MOST_ANCHORS = 256  # rows whose times are kept for good; every other one is dropped when there are more


class Written(NamedTuple):
    """How dates are written."""

    zone: tzinfo | None = None  # in which they are; None: they say none
    separator: str = " "  # what stands between day and hour

    @classmethod
    def like(cls, text: str, separator: str) -> Written:
        """As in a date in ISO 8601, or with this separator where it has none; a number is in UTC."""
        try:
            zone = datetime.fromisoformat(text).tzinfo
        except ValueError:
            zone = UTC
        return cls(zone, next((mark for mark in "T " if mark in text), separator))

    def shown(self, seconds: float) -> str:
        """The date so many seconds after 1970 began in UTC, on the clock of the zone, to the second."""
        date = datetime.fromtimestamp(seconds, self.zone or UTC)
        return (date if self.zone else date.replace(tzinfo=None)).isoformat(self.separator, "seconds")


class Times(Kept):
    """Times of rows: for models those that do not go back, for people those on the wall's clock of the last rows."""

    state = "times", ("last", "rows", "marked", "moment", "anchors", "every")
    grows = frozenset({"marked", "anchors"})

    def __init__(self, reader: TimeReader, room: int) -> None:
        self._reader = reader
        self._moment = np.array([np.nan])  # of the last row, for models
        self._last = np.full(room, np.nan)  # at the number of the row modulo room
        self._rows = np.zeros(1, dtype=np.int64)
        self._marked = np.empty((0, 2))  # row and time
        self._anchors, self._every = np.empty((0, 2)), np.ones(1, dtype=np.int64)  # row and time, at regular intervals

    def moments(self, texts: Sequence[str]) -> FloatArray:
        """When rows came; a time that cannot be read, or goes back, counts as the last, and 0 before any is known."""
        known = self._forward(texts)
        self._moment[0] = known[-1]
        return np.nan_to_num(known[1:])

    def coming(self, texts: Sequence[str]) -> FloatArray:
        """The same of rows that would each come next; nothing changes."""
        return np.nan_to_num(self._forward(texts)[1:])

    def _forward(self, texts: Sequence[str]) -> FloatArray:
        """The last time and the times of rows, which do not go back; NaN: none is known so far."""
        known = np.fmax.accumulate([*self._moment, *self._reader.moments(texts)])
        first = known[~np.isnan(known)]
        return np.where(np.isnan(known), first[0], known) if len(first) else known

    def add(self, texts: Sequence[str] | None, n: int) -> FloatArray:
        """Take the times of rows that follow the last ones, as they are written; return them as numbers."""
        if texts is None:
            self._rows[0] += n
            return UNKNOWN[:n] if n <= len(UNKNOWN) else np.full(n, np.nan)
        found = self._reader.moments(texts, local=True)
        first, room = int(self._rows[0]) + 1, len(self._last)
        kept = min(n, room)
        self._last[np.arange(first + n - kept, first + n) % room] = found[n - kept :]
        self._rows[0] += n
        self._anchor(first, found)
        return found

    def _anchor(self, first: int, moments: FloatArray) -> None:
        """Keep the times of some rows for good, however they are cut into blocks; of those that have one."""
        start = 0
        while start < len(moments):
            every = int(self._every[0])
            rows = np.arange(first + start + (-(first + start)) % every, first + len(moments), every)
            rows = rows[np.isfinite(moments[rows - first])][: MOST_ANCHORS - len(self._anchors)]
            if len(rows):
                self._anchors = np.concatenate([self._anchors, np.column_stack([rows, moments[rows - first]])])
                start = int(rows[-1]) - first + 1
            if len(self._anchors) < MOST_ANCHORS:
                return
            self._every[0] = 2 * every
            self._anchors = self._anchors[self._anchors[:, 0] % self._every[0] == 0]

    def anchors(self) -> list[tuple[int, float]]:
        """Rows and their times, in seconds by the clock on the wall: some of all, and the last; none without dates."""
        if not self._reader.is_dated:
            return []
        last = [self._rows[0], self.moment(int(self._rows[0]))]
        known = [pair for pair in [*self._anchors.tolist(), last] if np.isfinite(pair[1])]
        return [(int(row), moment) for row, moment in known]

    def mark(self, rows: Iterable[int]) -> None:
        """Keep the times of rows at which something happened."""
        for row in rows:
            self.keep(row, self.moment(row))

    def keep(self, row: int, moment: float) -> None:
        """Keep the time of a row, if it is known."""
        if np.isfinite(moment) and row not in self._marked[:, 0]:
            self._marked = np.concatenate([self._marked, [[row, moment]]])[-MOST_MARKED:]

    def moment(self, row: int) -> float:
        """The time of a row; NaN where it is not known."""
        if 0 < row <= self._rows[0] and row > self._rows[0] - len(self._last):
            return float(self._last[row % len(self._last)])
        at = np.flatnonzero(self._marked[:, 0] == row)
        return float(self._marked[at[-1], 1]) if len(at) else np.nan

    def when(self, row: int) -> str:
        """The time of a row, or its number where no time is known, for people."""
        return self.shown(self.moment(row)) or f"row {row:,}"

    def shown(self, moment: float) -> str:
        """A time for people; nothing for NaN."""
        if not np.isfinite(moment):
            return ""
        if not self._reader.is_dated:
            return f"{moment:.15g}"
        try:
            date = datetime.fromtimestamp(moment, UTC)
        except (OverflowError, OSError, ValueError):
            return ""
        if not np.any(self._last[np.isfinite(self._last)] % DAY) and not moment % DAY:
            return f"{date:%Y-%m-%d}"
        return f"{date:%Y-%m-%d %H:%M:%S}" if moment % 60 else f"{date:%Y-%m-%d %H:%M}"
