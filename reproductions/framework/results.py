"""Finished cells in a CSV file: one line each, written as soon as it is known."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from reproductions.framework.experiment import Cell, Row


def encoded(value: Any) -> str:
    """Words as they are, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def decoded(text: str) -> Any:
    """The value of a field of the file."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def identity(cell: Cell) -> frozenset[tuple[str, str]]:
    """What tells a cell from others."""
    return frozenset((name, encoded(value)) for name, value in cell.items())


class Results:
    """The finished cells of one experiment, in a file.

    Args:
        path: of the CSV file; it need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._header: list[str] = []
        self._lines: list[dict[str, str]] = []
        self._index: dict[frozenset[str], dict[frozenset[tuple[str, str]], dict[str, str]]] = {}
        if path.exists():
            text = path.read_text(encoding="utf-8")
            whole = text[: text.rfind("\n") + 1]  # a last line that was cut off is no result
            reader = csv.DictReader(io.StringIO(whole))
            self._header = list(reader.fieldnames or [])
            self._lines = list(reader)
            if whole != text:
                self._rewrite()

    def finished(self, cells: Iterable[Cell]) -> list[Row]:
        """Return the rows of those of the cells that are finished, in the order of the cells."""
        return [row for cell in cells if (row := self._row(cell)) is not None]

    def missing(self, cells: Iterable[Cell]) -> list[Cell]:
        """Return the cells that are not finished."""
        return [cell for cell in cells if self._row(cell) is None]

    def _row(self, cell: Cell) -> Row | None:
        names = frozenset(cell)
        if names not in self._index:  # the cells of an experiment have the same names, or few sets of them
            self._index[names] = {identity({name: line.get(name, "") for name in names}): line for line in self._lines}
        line = self._index[names].get(identity(cell))
        return None if line is None else {name: decoded(text) for name, text in line.items() if text != ""} | cell

    def add(self, row: Row) -> None:
        """Write a finished cell."""
        line = {name: encoded(value) for name, value in row.items()}
        self._lines.append(line)
        self._index = {}
        new = [name for name in line if name not in self._header]
        if new:
            self._header += new
            self._rewrite()
            return
        with self.path.open("a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, self._header, restval="", lineterminator="\n").writerow(line)
            file.flush()
            os.fsync(file.fileno())

    def _rewrite(self) -> None:
        """Write the whole file, all or nothing."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_suffix(".tmp")
        with beside.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self._header, restval="", lineterminator="\n")
            writer.writeheader()
            writer.writerows(self._lines)
        beside.replace(self.path)
