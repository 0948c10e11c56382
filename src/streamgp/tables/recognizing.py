"""Recognizing: which columns of a table are numbers, categories or the time, as its first rows tell."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from streamgp.contract.spacing import usual_gap
from streamgp.settings import FloatArray, nearest, option
from streamgp.tables.columns import CYCLES, DAY, EMPTY, WEEK, Column, Schema, level_of, listed, short, times_of
from streamgp.tables.dates import DIGITS_OF_DATE, FORMS, WRITTEN, TimeReader, form_of, parts_of_date
from streamgp.tables.declared import Declared, refuse_unknown_columns, without_missing
from streamgp.tables.formats import Chunk
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
SPARE = 3  # levels that may join later, of all categories together
MOST_LEVELS = 20  # a text column with more is ignored: one input for each would be too many
MONTHS = 12
COUNTED = 5  # values by chance in order: one in 5! = 120
DIGITS = re.compile("[0-9]+")
TIME_NAMES = re.compile(r"(date|time|timestamp|datetime|stamp|ts|t|epoch|utc|when)|.*(_|\b)(time|timestamp|date)", re.I)
DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ].*)?")
MOST_SEASON = 10_080  # rows of a week of minutes


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
    missing = {name: one.missing for name, one in declared.items()}
    chunk = Chunk(
        {name: without_missing(values, missing.get(name, ())) for name, values in chunk.columns.items()}, chunk.lines
    )
    forms = {name: found for name, values in chunk.columns.items() if (found := units(values))}
    forms |= {name: [one.unit] for name, one in declared.items() if one.unit}
    for name, found in forms.items():
        if len(found) == 1:
            bare = [without_unit(value, found[0]) for value in chunk.columns[name]]
            chunk.columns[name] = without_missing(bare, missing.get(name, ()))
    marks = decimal_marks(chunk.columns) if decimal is None else dict.fromkeys(names, decimal)
    unclear = {name for name, mark in marks.items() if mark == UNCLEAR}
    marks |= dict.fromkeys(unclear, "")
    declared_times = [name for name, one in declared.items() if one.kind == "time"]
    others = [target, ticket, *forms, *(name for name, one in declared.items() if one.kind not in ("", "time"))]
    time = declared_times[0] if declared_times else _time_column(chunk, others, marks, inputs)
    parts = () if time else parts_of_date(chunk.columns, [*others, *(inputs or ())])
    wanted = {target, *(inputs or ())}
    given = {name: Column(name, "time") for name in parts}
    if ticket:
        given[ticket] = Column(ticket, "ticket")
    if time:
        given[time] = _as_time(time, chunk.columns[time], marks[time])
    for name, one in declared.items():
        if name not in given and one.kind:
            values = chunk.columns[name]
            given[name] = _as_declared(name, one, values, "" if name in unclear else marks[name], forms.get(name, []))
    if (ticket or unlabeled) and all(map(is_missing, chunk.columns[target])):  # none has come yet
        given[target] = Column(target, "number", form="".join(forms.get(target, [])[:1]))
    if asked := [n for n in names if n in unclear and n not in given and (inputs is None or n in wanted)]:
        raise RowsError(_unclear(asked[0], chunk.columns[asked[0]]))
    numbers = {name: [as_number(v, marks[name]) for v in values] for name, values in chunk.columns.items()}
    used_numbers = [
        found
        for name, found in numbers.items()
        if (inputs is None or name in wanted) and (name not in given or given[name].kind == "number")
    ]
    faulty = {i for found in used_numbers if are_mostly_numbers(found) for i, n in enumerate(found) if n is None}
    columns = tuple(
        given[name]
        if name in given
        else _column(name, values, numbers[name], marks[name], name in wanted, forms.get(name, []), growing, faulty)
        for name, values in chunk.columns.items()
    )
    columns = tuple(column._replace(missing=missing.get(column.name, ())) for column in columns)
    kinds = {column.name: column for column in columns}
    if kinds[target].kind != "number" and (target != time):
        raise RowsError(
            f"the target {target!r} must hold numbers; it holds {_examples(chunk.columns[target], marks[target])}"
        )
    cycles: tuple[str, ...] = ()
    reader = TimeReader(kinds[time].form, kinds[time].decimal) if time else TimeReader()
    times = times_of(chunk, time, parts, reader.form)
    if times and (inputs is None or time in inputs):
        cycles = _cycles(reader.dates(times, local=True))
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
    dates = reader.dates(times) if times and not ticket else np.empty(0)
    seasons, uneven = _seasons(dates), _uneven(dates)
    open_ones = growing and any(c.kind == "category" and not c.closed for c in columns if c.name in used)
    spare = SPARE if open_ones else 0
    when = time or ", ".join(parts)
    return Schema(columns, target, tuple(used), when, cycles, seasons, ticket, parts, spare, uneven)


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
    levels = one.levels or tuple(sorted(set(map(level_of, values)) - {EMPTY}))
    if len(levels) > max(MOST_LEVELS, len(one.levels)):
        raise RowsError(
            f"`schema` says that {name!r} is a category, but the first rows have {len(levels)} different values; the "
            f"limit is {MOST_LEVELS}, unless you name the levels"
        )
    return Column(name, "category", levels, closed=bool(one.levels))


def _as_time(name: str, values: Sequence[Any], decimal: str) -> Column:
    """The column that says when, with what to tell of it."""
    form, certain = form_of(values, decimal)
    notes = [FORMS[form]] if form else []
    if not certain:
        notes.append("no day is beyond 12, so that this is a guess; write 2025-12-31 to be sure")
    shown = [str(value).strip() for value in values if not is_missing(value)]
    if repeated := sum(now == before for before, now in pairwise(shown)):
        notes.append(f"{repeated} of the first {len(shown):,} rows repeat the time of the row before")
    return Column(name, "time", (), "; ".join(notes), decimal, form)


def _with_fill_value(column: Column, values: Sequence[Any]) -> Column:
    """A column of numbers that says whether one of them may stand for missing values."""
    if column.kind != "number" or (found := fill_value([as_number(v, column.decimal) for v in values])) is None:
        return column
    note = f"{found:.0f} may stand for missing values (declare it in a `schema` if so)"
    return column._replace(note="; ".join(filter(None, [column.note, note])))


def _unclear(name: str, values: Sequence[Any]) -> str:
    text = unclear_value(values)
    point, comma = (f"{as_number(text, mark):g}" for mark in MARKS)
    return (
        f"the column {name!r} has {short(text)}, which may be {point} or {comma}; "
        f"say which with `decimal=.` ({point}) or `decimal=,` ({comma})"
    )


def _column(
    name: str,
    values: Sequence[Any],
    numbers: Sequence[float | None],
    decimal: str,
    wanted: bool,
    forms: Sequence[str],
    growing: bool,
    faulty: Container[int],
) -> Column:
    """What a column is whose values are these numbers and have these units; faulty rows have no levels."""
    if not wanted and _dates_in_digits(name, values, decimal):
        return Column(name, "ignored", (), "dates")
    if are_mostly_numbers(numbers):
        steps = np.diff([number for number in numbers if number is not None and number == number])
        if not wanted and len(steps) >= 10 and np.all(steps == steps[0]) and steps[0] != 0:
            return Column(name, "ignored", (), "row counter")
        note = described(values, decimal)
        if forms:
            note = "; ".join(filter(None, [f"the unit {forms[0]} is left out", note]))
        return Column(name, "number", (), note, decimal, "".join(forms))
    if any(isinstance(value, complex) for value in values):
        return Column(name, "ignored", (), "complex numbers; hand over real and imaginary parts as columns")
    if len(forms) > 1:
        return Column(name, "ignored", (), f"numbers in different units: {listed(forms)}")
    shown = [str(value) for value in values if not is_missing(value)]
    if not shown:
        return Column(name, "ignored", (), "no values in the first rows")
    if all(map(_is_date, shown)):
        return Column(name, "ignored", (), "dates")
    # "None" may be a level as any other.
    levels = Counter(level_of(value) for row, value in enumerate(values) if row not in faulty)
    if not levels.keys() - {EMPTY}:
        return Column(name, "ignored", (), "no values in rows that can be used")
    if len(levels) > MOST_LEVELS:
        return Column(name, "ignored", (), f"text with more than {MOST_LEVELS} different values")
    if not wanted and _never_return(shown):
        note = "each value comes once and never returns, as an order number does; declare a category if it will"
        return Column(name, "ignored", (), note)
    if len(levels.keys() - {EMPTY}) == 1 and not (growing and len(shown) < FEW_ROWS):
        return Column(name, "ignored", (), "constant text")
    return Column(name, "category", tuple(sorted(levels)))


def _never_return(shown: Sequence[str]) -> bool:
    """Whether each value comes for a stretch of rows and never again, which tells nothing of rows to come.

    So may a category look in its first rows: the days of a week, the phases of a batch. Hence the values must be more
    than the longest cycle that people have names for, or count upwards.
    """
    stretches = [value for value, _ in groupby(shown)]
    if len(set(stretches)) < len(stretches) or len(stretches) < COUNTED:
        return False
    counts = [tuple(map(int, DIGITS.findall(value))) for value in stretches]
    return len(stretches) > MONTHS or all(before < now for before, now in pairwise(counts))


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


def _seasons(known: FloatArray) -> tuple[int, ...]:
    """How many rows a day and a week have, if that is a whole number of at least two and not too many."""
    spacing, steps = usual_gap(known), np.diff(known)
    if not spacing or np.count_nonzero(steps == 0.0) > 0.5 * len(steps):  # a time has several rows
        return ()
    rows = [length / spacing for length in (DAY, WEEK)]
    return tuple(round(count) for count in rows if 2 <= count <= MOST_SEASON and abs(count - round(count)) < 1e-6)


def _uneven(known: FloatArray) -> bool:
    """Whether more than a tenth of the rows do not come one usual gap after the row before, to a quarter of it."""
    usual = usual_gap(known)
    return len(known) > 1 and bool(np.mean(np.abs(np.diff(known) - usual) > 0.25 * usual) > 0.1)


def _cycles(known: FloatArray) -> tuple[str, ...]:
    """Which cycles of the time the rows can tell something about."""
    if not len(known):
        return ()
    spacing = usual_gap(known)
    if np.all(known % DAY == known[0] % DAY):
        return tuple(name for name, (length, low, high) in CYCLES.items() if length > DAY and low <= spacing <= high)
    return tuple(name for name, (_, low, high) in CYCLES.items() if low <= spacing <= high)


def _examples(values: Sequence[Any], decimal: str) -> str:
    """The values that are no numbers, the most frequent first."""
    wrong = Counter(str(value) for value in values if as_number(value, decimal) is None)
    return ", ".join(short(value) for value, _ in wrong.most_common(3)) or "nothing in the first rows"
