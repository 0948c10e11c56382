"""Columns: what each of them is, decided once, on the first rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

from streamgp.tables.dates import ORDERS, TimeReader, as_iso, joined_parts
from streamgp.tables.formats import Chunk

MOST_NAMES = 20  # that a message lists
NEW_LEVEL = "new level"  # an input that waits for one
EMPTY = "(empty)"  # the level of a category that has no value
FILL_VALUE = re.compile(r"(-?\d+) may stand for missing values")
DAY, WEEK = 86400.0, 7 * 86400.0
# The time of day helps when the rows that choose a model see some of a day: with rows at least a minute apart, five
# hundred of them cover a third of it. So for the day of the week with rows at least ten minutes apart.
CYCLES = {"time of day": (DAY, 60.0, 0.5 * DAY), "day of week": (WEEK, 600.0, 2 * DAY)}


class Column(NamedTuple):
    """What a column is."""

    name: str  # as in the table
    kind: str  # "number", "category", "time", "ticket" or "ignored"
    levels: tuple[str, ...] = ()  # of a category, those that have an input of their own
    note: str = ""  # why, or how its numbers are written, for people
    decimal: str = ""  # the decimal mark of its numbers, "." or ","; "": none was seen
    form: str = ""  # the unit of its numbers, or how it writes times (of FORMS); "": neither
    missing: tuple[str, ...] = ()  # values that stand for missing ones
    closed: bool = False  # whether no other levels of a category join later

    @property
    def indicated(self) -> tuple[str, ...]:
        """The levels that have an input; of two levels one input tells which."""
        return self.levels[1:] if len(self.levels) == 2 else self.levels

    def inputs(self) -> list[str]:
        """The inputs that it becomes."""
        return [self.name] if self.kind == "number" else [f"{self.name}={level}" for level in self.indicated]


@dataclass(frozen=True)
class Schema:
    """What the columns of a table are, and which of them are used how."""

    columns: tuple[Column, ...]  # all that the table has, in its order
    target: str  # the column to predict
    inputs: tuple[str, ...]  # the columns to predict it from
    time: str = ""  # the column that says when; "": there is none
    cycles: tuple[str, ...] = ()  # what of the time is an input
    seasons: tuple[int, ...] = ()  # rows of a day and of a week, where the time says so
    ticket: str = ""  # the column by which a row is known again when its target comes in a later one; "": none
    time_parts: tuple[str, ...] = ()  # columns that make up the time, such as year, month, day; (): one column says it
    spare: int = 0  # inputs, the last ones, for levels of categories that appear later
    uneven: bool = False  # whether so many rows ago is not a season ago, because rows do not come evenly

    @cached_property
    def names(self) -> frozenset[str]:
        """Of all columns."""
        return frozenset(self._by_name)

    @cached_property
    def needed(self) -> list[str]:
        """The columns that rows must have."""
        time = self.time_parts or ((self.time,) if self.time else ())
        return [*self.inputs, self.target, *time, *([self.ticket] if self.ticket else [])]

    @cached_property
    def reader(self) -> TimeReader:
        """Reads the times of rows."""
        if self.time_parts or not self.time:
            return TimeReader()
        column = self.column(self.time)
        return TimeReader(column.form, column.decimal)

    @property
    def is_dated(self) -> bool:
        """Whether rows have dates."""
        return bool(self.time) and self.reader.is_dated

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    def column(self, name: str) -> Column:
        return self._by_name[name]

    @property
    def input_names(self) -> list[str]:
        """The name of every number that a row becomes."""
        own = [name for column in self.inputs for name in self.column(column).inputs()]
        own += [f"{cycle} ({part})" for cycle in self.cycles for part in ("sin", "cos")]
        return own + [f"{NEW_LEVEL} {k}" for k in range(1, self.spare + 1)]

    @property
    def input_sources(self) -> list[str]:
        """The column that each of these numbers is made of; of a cycle of the time its own name."""
        own = [column for column in self.inputs for _ in self.column(column).inputs()]
        return [*own, *(cycle for cycle in self.cycles for _ in range(2)), *[NEW_LEVEL] * self.spare]

    def sentences(self) -> list[str]:
        """What was recognized, for people."""
        found = [f"target: {self.target}"]
        numbers = [name for name in self.inputs if self.column(name).kind == "number"]
        if numbers:
            found.append(f"numbers: {listed(numbers)}")
        for name in self.inputs:
            column = self.column(name)
            if column.kind == "category":
                joins = self.spare and not column.closed
                later = f"the first {self.spare} new values join" if joins else "other values count as none of these"
                found.append(f"category: {name} ({', '.join(column.levels)}; {later})")
        written: dict[str, list[str]] = {}
        for name in [self.target, *numbers]:
            for note in filter(None, self.column(name).note.split("; ")):
                written.setdefault(note, []).append(name)
        found += [f"{note}: {listed(names)}" for note, names in written.items()]
        if self.time:
            used = f", used as {' and '.join(self.cycles)}" if self.cycles else ""
            how = "" if self.time_parts else self.column(self.time).note
            found.append(f"time: {self.time}{used}{f' ({how})' if how else ''}")
        if self.ticket:
            found.append(f"ticket: {self.ticket}; a later row with the same one brings the target")
        ignored = [f"ignored: {c.name} ({c.note})" for c in self.columns if c.kind == "ignored"]
        if len(ignored) > MOST_NAMES:
            ignored[MOST_NAMES:] = [f"ignored: {len(ignored) - MOST_NAMES} more columns"]
        return found + ignored

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"columns": [list(column) for column in self.columns]}

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> Schema:
        parts = {name: _unlisted(value) for name, value in saved.items()}
        columns = tuple(Column(*map(_unlisted, one)) for one in saved["columns"])
        return cls(**parts | {"columns": columns})

    def declared(self) -> dict[str, Any]:
        """The columns as a schema that a user may change and declare (tables/declared.py)."""
        found: dict[str, Any] = {}
        for column in self.columns:
            kind = "ignore" if column.kind in ("ignored", "ticket") else column.kind
            levels = [level for level in column.levels if level != EMPTY] if len(column.levels) > 1 else []
            unit = column.form if column.kind == "number" else ""
            found_fill = FILL_VALUE.search(column.note)
            missing = [*column.missing, *([float(found_fill[1])] if found_fill else [])]
            more = {"levels": levels, "unit": unit, "missing": missing}
            one = {"kind": kind} | {field: value for field, value in more.items() if value}
            if column.name not in self.time_parts:
                found[column.name] = kind if len(one) == 1 else one
        return found


def _unlisted(value: Any) -> Any:
    """A value that JSON has kept, with tuples in place of lists."""
    return tuple(value) if isinstance(value, list) else value


def is_spare(name: str) -> bool:
    """Whether an input waits for a level."""
    return re.fullmatch(f"{NEW_LEVEL} [0-9]+", name) is not None


def values_of(chunk: Chunk, name: str) -> Sequence[Any]:
    """A column's values; of a sparse table it may not be there yet."""
    found = chunk.columns.get(name)
    return [None] * len(chunk) if found is None else found


def level_of(value: Any) -> str:
    """The level of a category that a value is."""
    text = "" if value is None else str(value)
    return text if text.strip() else EMPTY


def times_of(chunk: Chunk, time: str, parts: Sequence[str], form: str) -> list[str] | None:
    """When rows were observed: as it was written, or in ISO 8601 where that was in another order or several columns."""
    if parts:
        return joined_parts([values_of(chunk, name) for name in parts])
    if not time:
        return None
    times = ["" if value is None else str(value) for value in values_of(chunk, time)]
    return [as_iso(text, form) or text for text in times] if form in ORDERS else times


def listed(names: Sequence[str]) -> str:
    """Names for a message: not too many, none too long."""
    if not names:
        return "none"
    shown = ", ".join(name if len(name) <= 60 else f"{name[:57]}..." for name in names[:MOST_NAMES])
    return f"{shown} and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else shown


def short(value: Any) -> str:
    text = str(value)
    return repr(text if len(text) <= 30 else f"{text[:27]}...")
