"""Encoding: how a row becomes numbers. A value that does not fit its column makes the row a bad one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from streamgp.contract.saved import refuse_unlike
from streamgp.contract.snapshot import SnapshotError
from streamgp.settings import FloatArray, whole
from streamgp.tables.columns import CYCLES, EMPTY, Column, Schema, level_of, short, times_of, values_of
from streamgp.tables.declared import bare, without_missing
from streamgp.tables.formats import BadRow, Chunk
from streamgp.tables.numbers import MARKS, as_number, is_missing

PLAIN = frozenset({float, int, type(None)})
NUMBERS = frozenset({float, int})


class Ticket(NamedTuple):
    """By which a row is known again."""

    name: str  # what the column says
    alone: bool  # whether the row has a value in none of the input columns


class EncodedRows(NamedTuple):
    """Rows as numbers."""

    X: FloatArray  # (n, d) inputs
    y: FloatArray  # (n,) targets, NaN where missing
    times: list[str] | None  # what the time column says, in ISO 8601 where it is written in another order
    lines: list[int]  # the number of each row's line
    bad: list[BadRow]  # rows that are left out
    tickets: list[Ticket] | None = None

    def part(self, start: int, stop: int) -> EncodedRows:
        """Some of the rows, of which none is bad."""
        times = None if self.times is None else self.times[start:stop]
        tickets = None if self.tickets is None else self.tickets[start:stop]
        return EncodedRows(self.X[start:stop], self.y[start:stop], times, self.lines[start:stop], [], tickets)


class RowEncoder:
    """Turns rows into numbers; a gap in a column of numbers is filled with its last value."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.last = np.full(len(schema.input_names), np.nan)  # the last known value of every input
        self.gaps: dict[str, int] = {}  # how many values of every column were missing so far
        self.joined: list[tuple[str, str]] = []  # column and level, of levels that came later and have an own input
        self.strangers: dict[str, int] = {}  # by column, how many values were no levels and found no spare input

    @property
    def input_names(self) -> list[str]:
        """The name of every number that a row becomes; of spare inputs the levels that have joined."""
        names = self.schema.input_names
        for at, (column, level) in enumerate(self.joined, len(names) - self.schema.spare):
            names[at] = f"{column}={level}"
        return names

    def known(self) -> dict[str, Any]:
        """What is known of the rows so far beside the last one, to be saved."""
        joined = [list(pair) for pair in self.joined]
        return {"gaps": self.gaps, "joined": joined, "strangers": self.strangers}

    def go_on(self, saved: Mapping[str, Any], last: FloatArray) -> None:
        """Go on from what ``known`` returned, and the last row."""
        self.gaps = {name: whole("gaps", count) for name, count in saved["gaps"].items()}
        self.joined = [(str(column), str(level)) for column, level in saved["joined"]]
        self.strangers = {name: whole("strangers", count) for name, count in saved["strangers"].items()}
        if len(self.joined) > self.schema.spare:
            raise SnapshotError(f"the snapshot has more new levels than spare inputs: {self.joined}")
        refuse_unlike({"last": last}, {"last": self.last})
        self.last[:] = last

    @property
    def input_sources(self) -> list[str]:
        """The column that every such number is made of."""
        sources = self.schema.input_sources
        for at, (column, _) in enumerate(self.joined, len(sources) - self.schema.spare):
            sources[at] = column
        return sources

    def sentences(self) -> list[str]:
        """What was recognized, and which levels came later, for people."""
        found = self.schema.sentences()
        found += [f"new level: {level} of {column} has an input of its own" for column, level in self.joined]
        for column, count in self.strangers.items():
            found.append(f"unknown level: {count} values of {column} count as none of its levels")
        return found

    def encode(self, chunk: Chunk) -> EncodedRows:
        """Rows as numbers, without the bad ones; levels of categories that are new may join."""
        schema = self.schema
        n = len(chunk)
        wrong: dict[int, str] = {}
        columns = [self._numbers(name, values_of(chunk, name), wrong) for name in self._number_columns]
        numbers = dict(zip(self._number_columns, columns, strict=True))
        for at, row in np.argwhere(np.isinf(columns)).tolist():
            wrong.setdefault(row, f"has an infinite number in the column {self._number_columns[at]!r}")
        levels = {
            name: list(map(level_of, without_missing(values_of(chunk, name), schema.column(name).missing)))
            for name in schema.inputs
            if name not in numbers
        }
        y = numbers[schema.target]
        parts = [
            numbers[name][:, None] if name in numbers else _indicators(schema.column(name), levels[name])
            for name in schema.inputs
        ]
        times = times_of(chunk, schema.time, schema.time_parts, schema.reader.form)
        if times is not None and schema.cycles:
            parts.append(_phases(times, schema, wrong))
        if levels:
            parts.append(self._later_levels(levels, wrong, n))
        X = np.hstack([np.empty((n, 0)), *parts])
        tickets = _tickets(chunk, schema, wrong) if schema.ticket else None
        lines = list(chunk.lines)
        bad = [*chunk.bad, *(BadRow(lines[i], reason) for i, reason in wrong.items())]
        if wrong:
            keep = [i for i in range(n) if i not in wrong]
            X, y, lines = X[keep], y[keep], [lines[i] for i in keep]
            times = None if times is None else [times[i] for i in keep]
            tickets = None if tickets is None else [tickets[i] for i in keep]
        return EncodedRows(X, y, times, lines, sorted(bad), tickets)

    def encode_complete(self, rows: Sequence[Mapping[str, Any]]) -> EncodedRows | None:
        """Rows that have the columns in use and no others, as finite numbers; None where one of them is otherwise.

        They have no gaps: ``fill`` is done.
        """
        if self._complete is None:
            return None
        names, values_of_row = self._complete
        values = []
        for row in rows:
            if len(row) != names:
                return None
            try:
                found = values_of_row(row)
            except KeyError:
                return None
            if not NUMBERS.issuperset(map(type, found)):
                return None
            values.append(found)
        try:
            block = np.array(values, dtype=np.float64)
        except OverflowError:  # an integer of more than 308 digits
            return None
        if not np.isfinite(block).all():
            return None
        X, y = np.ascontiguousarray(block[:, :-1]), block[:, -1].copy()
        self.last = X[-1].copy()
        return EncodedRows(X, y, None, list(range(1, len(rows) + 1)), [])

    @cached_property
    def _complete(self) -> tuple[int, Callable[[Any], tuple[Any, ...]]] | None:
        """How many columns are in use, and what their values are, the target last; None where not all are numbers."""
        schema = self.schema
        columns = [schema.column(name) for name in (*schema.inputs, schema.target)]
        plain = all(column.kind == "number" and not column.missing for column in columns)
        if not plain or schema.time or schema.ticket or schema.spare or len(columns) < 2:
            return None
        return len(columns), itemgetter(*(column.name for column in columns))

    def fill(self, encoded: EncodedRows) -> EncodedRows:
        """Fill the gaps of rows that will be used, and count them."""
        X, y = encoded.X, encoded.y
        if len(X) and np.isfinite(X).all() and np.isfinite(y).all():
            self.last = X[-1].copy()
            return encoded
        names, cycles = self.schema.input_names, 2 * len(self.schema.cycles)  # which miss the time together
        first = len(names) - self.schema.spare - cycles
        names[first : first + cycles] = [self.schema.time] * cycles
        own = [] if self.schema.ticket else [(self.schema.target, np.isnan(y))]  # a late target is not missing
        for name, missing in dict([*own, *zip(names, np.isnan(X).T, strict=True)]).items():
            if count := int(np.count_nonzero(missing)):
                self.gaps[name] = self.gaps.get(name, 0) + count
        if len(X):
            self.last = _fill(X, self.last)
        return encoded

    def _later_levels(self, levels: Mapping[str, Sequence[str]], wrong: Mapping[int, str], n: int) -> FloatArray:
        """The spare inputs: 1 where a row has the level that has joined; others that are no levels are counted."""
        spare = self.schema.spare
        result = np.zeros((n, spare))
        for name, found in levels.items():
            column = self.schema.column(name)
            for row, level in enumerate(found):
                if level in column.levels or level == EMPTY or row in wrong:
                    continue
                if (name, level) not in self.joined and not column.closed and len(self.joined) < spare:
                    self.joined.append((name, level))
                if (name, level) in self.joined:
                    result[row, self.joined.index((name, level))] = 1.0
                else:
                    self.strangers[name] = self.strangers.get(name, 0) + 1
        return result

    @cached_property
    def _number_columns(self) -> list[str]:
        """The inputs that are numbers, then the target."""
        return [*(name for name in self.schema.inputs if self.schema.column(name).kind == "number"), self.schema.target]

    def _numbers(self, name: str, values: Sequence[Any], wrong: dict[int, str]) -> FloatArray:
        column = self.schema.column(name)
        decimal = column.decimal
        values = bare(values, column.form, column.missing, [decimal])
        try:
            if PLAIN.issuperset(map(type, values)):
                numbers = np.array(values, dtype=np.float64)
            elif decimal == ",":  # Python's float() reads points
                raise ValueError
            else:
                numbers = np.fromiter(map(float, values), np.float64, len(values))
        except (TypeError, ValueError, OverflowError):
            numbers = np.empty(len(values))
            for i, value in enumerate(values):
                number = as_number(value, decimal)
                if number is None:
                    wrong.setdefault(i, _no_number(value, name, decimal))
                    number = np.nan
                numbers[i] = number
        return numbers


def _no_number(value: Any, name: str, decimal: str) -> str:
    """What is wrong with a value that the mark of its column does not make a number."""
    has = f"has {short(value)} in the column {name!r}"
    if all(as_number(value, mark) is None for mark in MARKS):
        return f"{has}, which holds numbers"
    if decimal:
        return f"{has}, whose numbers have {MARKS[decimal]}"
    return f"{has}, whose first numbers have no comma; say what it means with `decimal=.` or `decimal=,`"


def _indicators(column: Column, found: Sequence[str]) -> FloatArray:
    """One input for each level: 1 where the row has it."""
    index = {level: i for i, level in enumerate(column.indicated)}
    result = np.zeros((len(found), len(index)))
    for row, level in enumerate(found):
        if level in index:
            result[row, index[level]] = 1.0
        elif level not in column.levels and len(column.levels) == 2:
            result[row] = 0.5  # neither of the two
    return result


def _tickets(chunk: Chunk, schema: Schema, wrong: dict[int, str]) -> list[Ticket]:
    inputs = [values_of(chunk, name) for name in schema.inputs]
    tickets = []
    for i, value in enumerate(values_of(chunk, schema.ticket)):
        if is_missing(value):
            wrong.setdefault(i, f"has no ticket in the column {schema.ticket!r}")
        tickets.append(Ticket(str(value).strip(), bool(inputs) and all(is_missing(column[i]) for column in inputs)))
    return tickets


def _fill(X: FloatArray, last: FloatArray) -> FloatArray:
    """Carry the last known value of each column forward, in place; returns the last values. 0 before any is known."""
    for j in np.flatnonzero(np.isnan(X).any(axis=0)):
        column = np.concatenate([[last[j]], X[:, j]])
        known = np.where(np.isnan(column), 0, np.arange(len(column)))
        X[:, j] = column[np.maximum.accumulate(known)][1:]
    new: FloatArray = X[-1].copy()
    np.nan_to_num(X, copy=False, nan=0.0)
    return new


def _phases(times: list[str], schema: Schema, wrong: dict[int, str]) -> FloatArray:
    found = schema.reader.moments(times, local=True)
    for i in np.flatnonzero(np.isnan(found)).tolist():
        if not is_missing(times[i]):
            wrong.setdefault(i, f"has {short(times[i])} in the column {schema.time!r}, which holds the time")
    angles = [2.0 * np.pi * found / CYCLES[cycle][0] for cycle in schema.cycles]
    return np.stack([wave(angle) for angle in angles for wave in (np.sin, np.cos)], axis=1)
