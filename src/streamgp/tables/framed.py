"""Rows of a data frame, read as rows of a file are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamgp.contract.frames import columns_of
from streamgp.tables.formats import ROWS, Chunk
from streamgp.tables.source import Position


class FrameReader:
    """A data frame of pandas, polars, pyarrow... An index of dates is its first column.

    Args:
        frame: all its rows are read, also where a run goes on.
    """

    unit = "row"
    live = sparse = False

    def __init__(self, frame: Any) -> None:
        self._columns = columns_of(frame)
        self.names = list(self._columns)
        self._rows = len(frame)
        self._row = 0

    def chunks(self) -> Iterator[Chunk]:
        while self._row < self._rows:
            start, self._row = self._row, min(self._row + ROWS, self._rows)
            columns = {name: values[start : self._row] for name, values in self._columns.items()}
            yield Chunk(columns, range(start + 1, self._row + 1))

    def progress(self) -> tuple[int, int | None]:
        return self._row, self._rows

    def position(self, lines: int) -> Position:
        """Whatever a run goes on with is read from its first row."""
        return Position()

    def close(self) -> None:
        """There is nothing to close."""
