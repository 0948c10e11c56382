"""Columns: which of them are numbers, categories or the time, and how a row becomes numbers.

What a column is, is decided once, on the first rows. From then on a value that does not fit makes its row a bad one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import chain, groupby, pairwise
from typing import Any, NamedTuple

import numpy as np

from streamgp.settings import FloatArray, nearest, option
from streamgp.tables.dates import ORDERS, WRITTEN, as_iso, joined_parts, moments, order_of, parts_of_date, seconds
from streamgp.tables.declared import Declared, refuse_unknown_columns, without_missing
from streamgp.tables.formats import BadRow, Chunk
from streamgp.tables.numbers import (
    LEAST_NUMBERS,
    MARKS,
    UNCLEAR,
    are_mostly_numbers,
    as_number,
    decimal_marks,
    described,
    fill_value,
    is_missing,
    unclear_value,
    units,
    without_unit,
)
from streamgp.tables.source import RowsError

FEW_ROWS = 1000  # of which a text that is always the same may still become another
MOST_NAMES = 20  # that a message lists
NEW_LEVEL = "new level"  # an input that waits for one
EMPTY = "(empty)"  # the level of a category that has no value
SPARE = 3  # levels that may join later, of all categories together
MOST_LEVELS = 20  # a text column with more is ignored: one input for each would be too many
TIME_NAMES = re.compile(r"(date|time|timestamp|datetime|stamp|ts|t|epoch|utc|when)|.*(_|\b)(time|timestamp|date)", re.I)
DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ].*)?")
DIGITS_OF_DATE = re.compile(r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")  # 20240131
FILL_VALUE = re.compile(r"(-?\d+) may stand for missing values")
DAY, WEEK = 86400.0, 7 * 86400.0
# The time of day helps when the rows that choose a model see some of a day: with rows at least a minute apart, five
# hundred of them cover a third of it. So for the day of the week with rows at least ten minutes apart.
PLAIN = frozenset({float, int, type(None)})
MOST_SEASON = 10_080  # rows of a week of minutes
CYCLES = {"time of day": (DAY, 60.0, 0.5 * DAY), "day of week": (WEEK, 600.0, 2 * DAY)}


class Column(NamedTuple):
    """What a column is.

    Args:
        name: as in the table.
        kind: "number", "category", "time", "ticket" or "ignored".
        levels: of a category, the ones that have an input of their own.
        note: why, or how its numbers are written, for whoever reads it.
        decimal: the decimal mark of its numbers, "." or ","; "": none was seen.
        form: the unit of its numbers, or the order of its dates (of ORDERS); "": neither.
        missing: values that stand for missing ones.
        closed: whether no other levels of a category join later.
    """

    name: str
    kind: str
    levels: tuple[str, ...] = ()
    note: str = ""
    decimal: str = ""
    form: str = ""
    missing: tuple[str, ...] = ()
    closed: bool = False

    def inputs(self) -> list[str]:
        """The inputs that it becomes."""
        if self.kind == "number":
            return [self.name]
        # Of two levels one input tells which.
        return [f"{self.name}={level}" for level in self.levels[1 if len(self.levels) == 2 else 0 :]]


@dataclass(frozen=True)
class Schema:
    """What the columns of a table are, and which of them are used how.

    Args:
        columns: all that the table has, in its order.
        target: the column to predict.
        inputs: the columns to predict it from.
        time: the column that says when; "" when there is none.
        cycles: what of the time is an input.
        seasons: rows of a day and of a week, where the time says so.
        ticket: the column by which a row is known again when its target comes in a later one; "" when there is none.
        time_parts: the columns that make up the time, such as year, month, day and hour; () where one column says it.
        spare: inputs, the last ones, for levels of categories that appear later.
    """

    columns: tuple[Column, ...]
    target: str
    inputs: tuple[str, ...]
    time: str = ""
    cycles: tuple[str, ...] = ()
    seasons: tuple[int, ...] = ()
    ticket: str = ""
    time_parts: tuple[str, ...] = ()
    spare: int = 0

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

    def source_of(self, name: str) -> str:
        """The column that an input was made of; of a cycle of the time its own name."""
        for column in self.inputs:
            if name in self.column(column).inputs():
                return column
        name = NEW_LEVEL if is_spare(name) else name
        return name.removesuffix(" (sin)").removesuffix(" (cos)")

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
        comma = "," if saved.get("decimal_comma") else ""  # of all columns, in the files of version 0.2
        columns = tuple(
            Column(
                name,
                kind,
                tuple(levels),
                note,
                *(rest[:2] or [comma]),
                *(tuple(missing) for missing in rest[2:3]),
                *rest[3:],
            )
            for name, kind, levels, note, *rest in saved["columns"]
        )
        return cls(
            columns,
            saved["target"],
            tuple(saved["inputs"]),
            saved["time"],
            tuple(saved["cycles"]),
            tuple(saved.get("seasons", ())),
            saved.get("ticket", ""),
            tuple(saved.get("time_parts", ())),
            saved.get("spare", 0),
        )

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


def is_spare(name: str) -> bool:
    """Whether an input waits for a level."""
    return re.fullmatch(f"{NEW_LEVEL} [0-9]+", name) is not None


def recognize(
    chunk: Chunk,
    target: str,
    inputs: Sequence[str] | None = None,
    ticket: str = "",
    unlabeled: bool = False,
    decimal: str | None = None,
    declared: Mapping[str, Declared] | None = None,
    growing: bool = False,
) -> Schema:
    """Decide what the columns of some first rows are.

    Args:
        chunk: the rows.
        target: the column to predict.
        inputs: the columns to predict it from; None: all others that can be.
        ticket: the column by which late targets find their rows; "": targets come with their rows.
        unlabeled: the first rows may have no target at all, as with tickets.
        decimal: the decimal mark of numbers, "." or ","; None: the rows tell.
        declared: what the user says of columns; the rows tell the rest.
        growing: whether more rows will come, in which categories may have other levels.

    Example:
        >>> rows = Chunk({"at": ["2024-01-01", "2024-01-02"], "x": ["1", "2.5"], "y": ["3", ""]}, [2, 3])
        >>> recognize(rows, target="y").sentences()
        ['target: y', 'numbers: x', 'time: at']
    """
    names = list(chunk.columns)
    for name in [target, *(inputs or ()), *([ticket] if ticket else [])]:
        if name not in names:
            raise RowsError(f"there is no column {name!r}.{nearest(name, names)} The columns are: {listed(names)}")
    if ticket and ticket in (target, *(inputs or ())):
        raise RowsError(f"{ticket!r} is the ticket column and cannot be the target or an input; name another column")
    if inputs is not None and target in inputs:
        raise RowsError(f"{target!r} is the target and cannot be an input; for its past values use `lags=3`")
    if decimal is not None:
        option("decimal", decimal, tuple(MARKS))
    declared = declared or {}
    refuse_unknown_columns(declared, names)
    refuse_uses(declared, target, inputs, ticket)
    chunk = Chunk(
        {
            name: without_missing(values, declared[name].missing) if name in declared else values
            for name, values in chunk.columns.items()
        },
        chunk.lines,
    )
    forms = {name: found for name, values in chunk.columns.items() if (found := units(values))}
    forms |= {name: [one.unit] for name, one in declared.items() if one.unit}
    chunk = Chunk(
        {
            name: [without_unit(value, forms[name][0]) for value in values] if len(forms.get(name, ())) == 1 else values
            for name, values in chunk.columns.items()
        },
        chunk.lines,
    )
    marks = decimal_marks(chunk.columns) if decimal is None else dict.fromkeys(names, decimal)
    unclear = {name for name, mark in marks.items() if mark == UNCLEAR}
    marks |= dict.fromkeys(unclear, "")
    declared_times = [name for name, one in declared.items() if one.kind == "time"]
    others = [target, ticket, *(name for name, one in declared.items() if one.kind not in ("", "time"))]
    time = declared_times[0] if declared_times else _time_column(chunk, others, marks, inputs)
    parts = () if time else parts_of_date(chunk.columns, [*others, *(inputs or ())])
    wanted = {target, *(inputs or ())}
    given = {name: Column(name, "time") for name in parts}
    if ticket:
        given[ticket] = Column(ticket, "ticket")
    if time:
        given[time] = _as_time(time, chunk.columns[time])
    for name, one in declared.items():
        if name not in given and one.kind:
            values = chunk.columns[name]
            given[name] = _as_declared(name, one, values, "" if name in unclear else marks[name], forms.get(name, []))
    if (ticket or unlabeled) and all(map(is_missing, chunk.columns[target])):  # none has come yet
        given[target] = Column(target, "number", form="".join(forms.get(target, [])[:1]))
    if asked := [n for n in names if n in unclear and n not in given and (inputs is None or n in wanted)]:
        raise RowsError(_unclear(asked[0], chunk.columns[asked[0]]))
    columns = tuple(
        given[name]
        if name in given
        else _column(name, values, marks[name], name in wanted, forms.get(name, []), growing)
        for name, values in chunk.columns.items()
    )
    columns = tuple(
        column._replace(missing=declared[column.name].missing) if column.name in declared else column
        for column in columns
    )
    kinds = {column.name: column for column in columns}
    if kinds[target].kind != "number" and (target != time):
        raise RowsError(
            f"the target {target!r} must hold numbers; it holds {_examples(chunk.columns[target], marks[target])}"
        )
    cycles: tuple[str, ...] = ()
    times = _times(chunk, time, parts, kinds[time].form if time else "")
    if times and (inputs is None or time in inputs):
        cycles = _cycles(times)
    if inputs is None:
        used = [c.name for c in columns if c.kind in ("number", "category") and c.name not in (target, time)]
        columns = tuple(_with_fill_value(c, chunk.columns[c.name]) if c.name in used else c for c in columns)
    else:
        used = [name for name in inputs if name != time]
        for name in used:
            if kinds[name].kind == "ignored":
                raise RowsError(f"the column {name!r} cannot be an input: {kinds[name].note}")
        columns = tuple(
            c
            if c.kind == "ignored" or c.name in (*used, target, time, ticket, *parts)
            else Column(c.name, "ignored", (), "not in inputs")
            for c in columns
        )
    seasons = _seasons(times) if times and not ticket else ()
    open_ones = growing and any(c.kind == "category" and not c.closed for c in columns if c.name in used)
    spare = SPARE if open_ones else 0
    return Schema(columns, target, tuple(used), time or ", ".join(parts), cycles, seasons, ticket, parts, spare)


def refuse_uses(declared: Mapping[str, Declared], target: str, inputs: Sequence[str] | None, ticket: str) -> None:
    """Refuse columns that are declared as one thing and used as another."""
    times = [name for name, one in declared.items() if one.kind == "time"]
    if len(times) > 1:
        raise RowsError(f"`schema` has two times, {times[0]!r} and {times[1]!r}; one column says when")
    for name, use in [(target, "the target"), *((name, "an input") for name in inputs or ()), (ticket, "the ticket")]:
        kind = declared[name].kind if name in declared else ""
        if kind == "ignore" or (name == target and kind not in ("", "number")):
            raise RowsError(f"`schema` says that {name!r} is {kind!r}, but it is {use}; change one of them")


def _as_declared(name: str, one: Declared, values: Sequence[Any], decimal: str, forms: Sequence[str]) -> Column:
    """A column of the kind that the user says."""
    if one.kind == "ignore":
        return Column(name, "ignored", (), "as declared")
    if one.kind == "number":
        notes = [f"the unit {forms[0]} is left out" if forms else "", described(values, decimal)]
        return Column(name, "number", (), "; ".join(filter(None, notes)), decimal, "".join(forms[:1]))
    levels = one.levels or tuple(sorted(set(map(_level, values)) - {EMPTY}))
    if len(levels) > max(MOST_LEVELS, len(one.levels)):
        raise RowsError(
            f"`schema` says that {name!r} is a category, but the first rows have {len(levels)} different values; the "
            f"limit is {MOST_LEVELS}, unless you name the levels"
        )
    return Column(name, "category", levels, closed=bool(one.levels))


def _as_time(name: str, values: Sequence[Any]) -> Column:
    """The column that says when, with what to tell of it."""
    order, certain = order_of(values)
    notes = [ORDERS[order]] if order else []
    if not certain:
        notes.append("no day is beyond 12, so that this is a guess; write 2025-12-31 to be sure")
    shown = [str(value).strip() for value in values if not is_missing(value)]
    if repeated := sum(now == before for before, now in pairwise(shown)):
        notes.append(f"{repeated} of the first {len(shown):,} rows repeat the time of the row before")
    return Column(name, "time", (), "; ".join(notes), "", order)


def _times(chunk: Chunk, time: str, parts: Sequence[str], order: str) -> list[str] | None:
    """When rows were observed: as it was written, or in ISO 8601 where that was in another order or several columns."""
    if parts:
        return joined_parts([_values(chunk, name) for name in parts])
    if not time:
        return None
    times = ["" if value is None else str(value) for value in _values(chunk, time)]
    return [as_iso(text, order) or text for text in times] if order else times


def _with_fill_value(column: Column, values: Sequence[Any]) -> Column:
    """A column of numbers that says whether one of them may stand for missing values."""
    if column.kind != "number" or (found := fill_value([as_number(v, column.decimal) for v in values])) is None:
        return column
    note = f"{found:.0f} may stand for missing values (leave the cells empty if so)"
    return column._replace(note="; ".join(filter(None, [column.note, note])))


def _unclear(name: str, values: Sequence[Any]) -> str:
    text = unclear_value(values)
    point, comma = (f"{as_number(text, mark):g}" for mark in MARKS)
    return (
        f"the column {name!r} has {_short(text)}, which may be {point} or {comma}; "
        f"say which with `decimal=.` ({point}) or `decimal=,` ({comma})"
    )


class Ticket(NamedTuple):
    """By which a row is known again.

    Args:
        name: what the column says.
        alone: the row has a value in none of the input columns.
    """

    name: str
    alone: bool


class EncodedRows(NamedTuple):
    """Rows as numbers.

    Args:
        X: (n, d) inputs, gaps filled.
        y: (n,) targets, NaN where missing.
        times: what the time column says, in ISO 8601 where it is written in another order; None when there is none.
        lines: the number of each row's line.
        bad: rows that are left out.
        tickets: of the rows; None when they have none.
    """

    X: FloatArray
    y: FloatArray
    times: list[str] | None
    lines: list[int]
    bad: list[BadRow]
    tickets: list[Ticket] | None = None

    def part(self, start: int, stop: int) -> EncodedRows:
        """Some of the rows, of which none is bad."""
        times = None if self.times is None else self.times[start:stop]
        tickets = None if self.tickets is None else self.tickets[start:stop]
        return EncodedRows(self.X[start:stop], self.y[start:stop], times, self.lines[start:stop], [], tickets)


@dataclass
class RowEncoder:
    """Turns rows into numbers; a gap in a column of numbers is filled with its last value.

    Args:
        schema: what the columns are.
        last: the last known value of every input.
        gaps: how many values of every column were missing so far.
        joined: levels that appeared later and have an input of their own: column and level, in order of appearance.
        strangers: by column, how many values were none of its levels and found no spare input.
    """

    schema: Schema
    last: FloatArray = field(default_factory=lambda: np.zeros(0))
    gaps: dict[str, int] = field(default_factory=dict)
    joined: list[tuple[str, str]] = field(default_factory=list)
    strangers: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.last.size == 0:
            self.last = np.full(len(self.schema.input_names), np.nan)

    @property
    def input_names(self) -> list[str]:
        """The name of every number that a row becomes; of spare inputs the levels that have joined."""
        names = self.schema.input_names
        for at, (column, level) in enumerate(self.joined, len(names) - self.schema.spare):
            names[at] = f"{column}={level}"
        return names

    def source_of(self, name: str) -> str:
        """The column that an input is made of."""
        return next(
            (column for column, level in self.joined if name == f"{column}={level}"), self.schema.source_of(name)
        )

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
        numbers = self._plain(chunk)
        if numbers is None:
            numbers = np.array([self._numbers(name, _values(chunk, name), wrong) for name in self._number_columns])
        chunk = self._without_missing(chunk)
        y = numbers[-1]
        parts = [
            numbers[part].T if isinstance(part, slice) else _indicators(part, _values(chunk, part.name))
            for part in self._parts
        ]
        order = "" if schema.time_parts or not schema.time else schema.column(schema.time).form
        times = _times(chunk, schema.time, schema.time_parts, order)
        if times is not None and schema.cycles:
            parts.append(_phases(times, schema.cycles, schema.time, wrong))
        if self._has_categories:
            parts.append(self._later_levels(chunk, wrong))
        X = np.ascontiguousarray(parts[0] if len(parts) == 1 else np.hstack([np.empty((n, 0)), *parts]))
        tickets = _tickets(chunk, schema, wrong) if schema.ticket else None
        lines = list(chunk.lines)
        bad = [*chunk.bad, *(BadRow(lines[i], reason) for i, reason in wrong.items())]
        if wrong:
            keep = [i for i in range(n) if i not in wrong]
            X, y, lines = X[keep], y[keep], [lines[i] for i in keep]
            times = None if times is None else [times[i] for i in keep]
            tickets = None if tickets is None else [tickets[i] for i in keep]
        return EncodedRows(X, y, times, lines, sorted(bad), tickets)

    def fill(self, encoded: EncodedRows) -> EncodedRows:
        """Fill the gaps of rows that will be used, and count them."""
        X, y = encoded.X, encoded.y
        if len(X) and np.isfinite(X).all() and np.isfinite(y).all():
            self.last = X[-1].copy()
            return encoded
        names = self.schema.input_names
        own = [] if self.schema.ticket else [(self.schema.target, np.isnan(y))]  # a late target is not missing
        for name, missing in [*own, *zip(names, np.isnan(X).T, strict=True)]:
            if count := int(np.count_nonzero(missing)):
                self.gaps[name] = self.gaps.get(name, 0) + count
        if len(X):
            self.last = _fill(X, self.last)
        return encoded

    def _without_missing(self, chunk: Chunk) -> Chunk:
        """Rows with None in categories where the schema says that a value stands for a missing one."""
        one = {c.name: c.missing for c in self.schema.columns if c.missing and c.kind == "category"}
        if not one:
            return chunk
        return Chunk(
            {
                name: without_missing(values, one[name]) if name in one else values
                for name, values in chunk.columns.items()
            },
            chunk.lines,
            chunk.bad,
            chunk.news,
        )

    @cached_property
    def _has_categories(self) -> bool:
        """Whether values of inputs may be levels that are not known yet."""
        return any(self.schema.column(name).kind == "category" for name in self.schema.inputs)

    def _later_levels(self, chunk: Chunk, wrong: Mapping[int, str]) -> FloatArray:
        """The spare inputs: 1 where a row has the level that has joined; others that are no levels are counted."""
        spare = self.schema.spare
        result = np.zeros((len(chunk), spare))
        for name in self.schema.inputs:
            column = self.schema.column(name)
            if column.kind != "category":
                continue
            for row, level in enumerate(map(_level, _values(chunk, name))):
                if level in column.levels or level == EMPTY or row in wrong:
                    continue
                if (name, level) not in self.joined and not column.closed and len(self.joined) < spare:
                    self.joined.append((name, level))
                if (name, level) in self.joined:
                    result[row, self.joined.index((name, level))] = 1.0
                else:
                    self.strangers[name] = self.strangers.get(name, 0) + 1
        return result

    def _plain(self, chunk: Chunk) -> FloatArray | None:
        """The columns of numbers, (columns, n), if all of them hold finite ones or nothing, and no text."""
        columns, missing = chunk.columns, [None] * len(chunk)
        values = [columns.get(name, missing) for name in self._number_columns]
        if not PLAIN.issuperset(map(type, chain.from_iterable(values))):
            return None
        try:
            block = np.array(values, dtype=np.float64)
        except OverflowError:
            return None
        for at, name in enumerate(self._number_columns):
            if missing_numbers := [as_number(text, ".") for text in self.schema.column(name).missing]:
                block[at, np.isin(block[at], np.array(missing_numbers, dtype=np.float64))] = np.nan
        return None if np.isinf(block).any() else block

    @cached_property
    def _number_columns(self) -> list[str]:
        """The inputs that are numbers, then the target."""
        return [*(name for name in self.schema.inputs if self.schema.column(name).kind == "number"), self.schema.target]

    @cached_property
    def _parts(self) -> list[slice | Column]:
        """The inputs in their order: which columns of numbers follow each other, and categories."""
        parts: list[slice | Column] = []
        for numbers, group in groupby(map(self.schema.column, self.schema.inputs), lambda one: one.kind == "number"):
            columns = list(group)
            first = self._number_columns.index(columns[0].name) if numbers else 0
            parts += [slice(first, first + len(columns))] if numbers else columns
        return parts

    def _numbers(self, name: str, values: Sequence[Any], wrong: dict[int, str]) -> FloatArray:
        column = self.schema.column(name)
        decimal, values = column.decimal, without_missing(values, column.missing)
        if column.form:
            values = [without_unit(value, column.form) for value in values]
        try:
            if decimal == ",":  # Python's float() reads points
                raise ValueError
            numbers = np.fromiter(map(float, values), np.float64, len(values))
        except (TypeError, ValueError, OverflowError):
            numbers = np.empty(len(values))
            for i, value in enumerate(values):
                number = as_number(value, decimal)
                if number is None:
                    wrong.setdefault(i, _no_number(value, name, decimal))
                    number = np.nan
                numbers[i] = number
        for at in np.flatnonzero(np.isinf(numbers)).tolist():
            wrong.setdefault(at, f"has an infinite number in the column {name!r}")
        return numbers


def _no_number(value: Any, name: str, decimal: str) -> str:
    """What is wrong with a value that the mark of its column does not make a number."""
    has = f"has {_short(value)} in the column {name!r}"
    if all(as_number(value, mark) is None for mark in MARKS):
        return f"{has}, which holds numbers"
    if decimal:
        return f"{has}, whose numbers have {MARKS[decimal]}"
    return f"{has}, whose first numbers have no comma; say what it means with `decimal=.` or `decimal=,`"


def _values(chunk: Chunk, name: str) -> Sequence[Any]:
    """A column's values; of a sparse table it may not be there yet."""
    return chunk.columns.get(name, [None] * len(chunk))


def listed(names: Sequence[str]) -> str:
    """Names for a message: not too many, none too long."""
    if not names:
        return "none"
    shown = ", ".join(name if len(name) <= 60 else f"{name[:57]}..." for name in names[:MOST_NAMES])
    return f"{shown} and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else shown


def _column(
    name: str, values: Sequence[Any], decimal: str, wanted: bool, forms: Sequence[str], growing: bool
) -> Column:
    """What a column is whose numbers have these units."""
    if not wanted and _dates_in_digits(name, values, decimal):
        return Column(name, "ignored", (), "dates")
    numbers = [as_number(value, decimal) for value in values]
    if are_mostly_numbers(numbers):
        steps = np.diff([number for number in numbers if number is not None and number == number])
        if not wanted and len(steps) >= 10 and np.all(steps == steps[0]) and steps[0] != 0:
            return Column(name, "ignored", (), "row counter")
        note = described(values, decimal)
        if forms:
            note = "; ".join(filter(None, [f"the unit {forms[0]} is left out", note]))
        return Column(name, "number", (), note, decimal, "".join(forms))
    if len(forms) > 1:
        return Column(name, "ignored", (), f"numbers in different units: {listed(forms)}")
    shown = [str(value) for value in values if not is_missing(value)]
    if not shown:
        return Column(name, "ignored", (), "no values in the first rows")
    if all(map(_is_date, shown)):
        return Column(name, "ignored", (), "dates")
    levels = Counter(map(_level, values))  # "None" may be a level as any other
    if len(levels) > MOST_LEVELS:
        return Column(name, "ignored", (), f"text with more than {MOST_LEVELS} different values")
    if len(levels.keys() - {EMPTY}) == 1 and not (growing and len(shown) < FEW_ROWS):
        return Column(name, "ignored", (), "constant text")
    return Column(name, "category", tuple(sorted(levels)))


def _indicators(column: Column, values: Sequence[Any]) -> FloatArray:
    """One input for each level: 1 where the row has it."""
    levels = column.levels[1 if len(column.levels) == 2 else 0 :]
    index = {level: i for i, level in enumerate(levels)}
    result = np.zeros((len(values), len(levels)))
    for row, value in enumerate(values):
        level = _level(value)
        if level in index:
            result[row, index[level]] = 1.0
        elif level not in column.levels and len(column.levels) == 2:
            result[row] = 0.5  # neither of the two
    return result


def _level(value: Any) -> str:
    """The level of a category that a value is."""
    text = "" if value is None else str(value)
    return text if text.strip() else EMPTY


def _tickets(chunk: Chunk, schema: Schema, wrong: dict[int, str]) -> list[Ticket]:
    inputs = [_values(chunk, name) for name in schema.inputs]
    tickets = []
    for i, value in enumerate(_values(chunk, schema.ticket)):
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


# The time


def _time_column(chunk: Chunk, others: Sequence[str], marks: Mapping[str, str], inputs: Sequence[str] | None) -> str:
    """The column that says when: dates, or numbers called time, that never go back."""
    for wanted in (_dates, _dates_in_digits, _stamps):
        for name, values in chunk.columns.items():
            if name in others or not values or (inputs is not None and name in inputs and wanted is not _dates):
                continue
            if wanted(name, values, marks[name]):
                return name
    return ""


def _dates(_: str, values: Sequence[Any], __: str) -> bool:
    shown = [str(value) for value in values if not is_missing(value)]
    return bool(shown) and sum(map(_is_date, shown)) >= LEAST_NUMBERS * len(shown)


def _is_date(text: str) -> bool:
    return bool(DATE.fullmatch(text) or WRITTEN.fullmatch(text.strip()))


def _dates_in_digits(name: str, values: Sequence[Any], _: str) -> bool:
    """Numbers that are all dates, such as 20240131: called so, or at least three that never go back."""
    shown = []
    for value in values:
        if not is_missing(value):
            shown.append(str(value).strip())
            if not DIGITS_OF_DATE.fullmatch(shown[-1]):
                return False
    return bool(shown and TIME_NAMES.fullmatch(name.strip())) or (len(set(shown)) >= 3 and shown == sorted(shown))


def _stamps(name: str, values: Sequence[Any], decimal: str) -> bool:
    if not TIME_NAMES.fullmatch(name.strip()):
        return False
    numbers = [as_number(value, decimal) for value in values]
    if any(number is None or number != number for number in numbers):
        return False
    return bool(np.all(np.diff(np.array(numbers, dtype=np.float64)) >= 0))


def _seasons(values: Sequence[Any]) -> tuple[int, ...]:
    """How many rows a day and a week have, if that is a whole number of at least two and not too many."""
    known = moments(values)
    spacing = float(np.median(np.diff(known))) if len(known) else 0.0
    if spacing <= 0.0:
        return ()
    rows = [length / spacing for length in (DAY, WEEK)]
    return tuple(round(count) for count in rows if 2 <= count <= MOST_SEASON and abs(count - round(count)) < 1e-6)


def _cycles(values: Sequence[Any]) -> tuple[str, ...]:
    """Which cycles of the time the rows can tell something about."""
    known = moments(values, local=True)
    if not len(known):
        return ()
    spacing = float(np.median(np.diff(known)))
    if np.all(known % DAY == known[0] % DAY):
        return tuple(name for name, (length, low, high) in CYCLES.items() if length > DAY and low <= spacing <= high)
    return tuple(name for name, (_, low, high) in CYCLES.items() if low <= spacing <= high)


def _phases(times: list[str], cycles: tuple[str, ...], name: str, wrong: dict[int, str]) -> FloatArray:
    found = np.empty(len(times))
    for i, text in enumerate(times):
        moment = seconds(text, local=True)
        if moment is None and not is_missing(text):
            wrong.setdefault(i, f"has {_short(text)} in the column {name!r}, which holds the time")
        found[i] = np.nan if moment is None else moment
    angles = [2.0 * np.pi * found / CYCLES[cycle][0] for cycle in cycles]
    return np.stack([wave(angle) for angle in angles for wave in (np.sin, np.cos)], axis=1)


def _examples(values: Sequence[Any], decimal: str) -> str:
    """The values that are no numbers, the most frequent first."""
    wrong = Counter(str(value) for value in values if as_number(value, decimal) is None)
    return ", ".join(_short(value) for value, _ in wrong.most_common(3)) or "nothing in the first rows"


def _short(value: Any) -> str:
    text = str(value)
    return repr(text if len(text) <= 30 else f"{text[:27]}...")
