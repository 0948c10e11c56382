"""Recognizing: which columns of a table are numbers, categories or the time, as its first rows tell."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np

from streamgp.contract.spacing import usual_gap
from streamgp.settings import FloatArray, nearest, option
from streamgp.tables.columns import CYCLES, DAY, EMPTY, WEEK, Column, Schema, level_of, listed, short, times_of
from streamgp.tables.dates import DIGITS_OF_DATE, FORMS, WRITTEN, TimeReader, form_of, parts_of_date
from streamgp.tables.declared import Declared, bare, refuse_unknown_columns, without_missing
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
    refuse_unknown_columns(declared or {}, names)
    refuse_uses(declared or {}, target, inputs, ticket)
    declared = {name: Declared() for name in names} | dict(declared or {})
    samples = _samples(chunk, declared, decimal)
    chunk = Chunk({name: one.values for name, one in samples.items()}, chunk.lines)
    others = [name for name in names if samples[name].units or declared[name].kind not in ("", "time")]
    others += [target, ticket]
    time = next((name for name in names if declared[name].kind == "time"), "") or _time_column(samples, others, inputs)
    parts = () if time else parts_of_date(chunk.columns, [*others, *(inputs or ())])

    given = {name: Column(name, "time") for name in parts}
    if ticket:
        given[ticket] = Column(ticket, "ticket")
    if time:
        given[time] = _as_time(time, samples[time])
    for name, one in declared.items():
        if name not in given and one.kind:
            given[name] = _as_declared(name, one, samples[name])
    if (ticket or unlabeled) and all(map(is_missing, chunk.columns[target])):  # none has come yet
        given[target] = Column(target, "number", form="".join(samples[target].units[:1]))

    wanted = {target, *(inputs or ())}
    asked = names if inputs is None else [name for name in names if name in wanted]
    for name in asked:
        if samples[name].unclear and name not in given:
            raise RowsError(_unclear(name, chunk.columns[name]))
    numbers = [samples[name].numbers for name in asked if name not in given or given[name].kind == "number"]
    faulty = {row for found in numbers if are_mostly_numbers(found) for row, n in enumerate(found) if n is None}
    columns = {
        name: given[name] if name in given else _column(name, one, name in wanted, growing, faulty)
        for name, one in samples.items()
    }
    columns = {name: column._replace(missing=declared[name].missing) for name, column in columns.items()}
    if columns[target].kind != "number":
        raise RowsError(f"the target {target!r} must hold numbers; it holds {_examples(samples[target])}")

    cycles: tuple[str, ...] = ()
    reader = TimeReader(columns[time].form, columns[time].decimal) if time else TimeReader()
    times = times_of(chunk, time, parts, reader.form)
    if times and (inputs is None or time in inputs):
        cycles = _cycles(reader.dates(times, local=True))
    if inputs is None:
        used = [name for name in names if columns[name].kind in ("number", "category") and name != target]
        columns |= {name: _with_fill_value(columns[name], samples[name]) for name in used}
    else:
        used = [name for name in inputs if name != time]
        for name in used:
            if columns[name].kind == "ignored":
                raise RowsError(f"the column {name!r} cannot be an input: {columns[name].note}")
        left = [name for name in names if name not in (*used, target, time, ticket, *parts)]
        columns |= {n: Column(n, "ignored", (), "not in inputs") for n in left if columns[n].kind != "ignored"}
    dates = reader.dates(times) if times and not ticket else np.empty(0)
    seasons, uneven = _seasons(dates), _uneven(dates)
    open_ones = growing and any(columns[name].kind == "category" and not columns[name].closed for name in used)
    spare, when = SPARE if open_ones else 0, time or ", ".join(parts)
    return Schema(tuple(columns.values()), target, tuple(used), when, cycles, seasons, ticket, parts, spare, uneven)


class Sample(NamedTuple):
    """The first values of a column, and how it writes them."""

    values: Sequence[Any]  # without units, None where a value stands for a missing one
    units: Sequence[str]  # the most frequent first
    mark: str  # the decimal mark of its numbers; "": none was seen, or it is unclear
    unclear: bool  # whether every number with a mark can be read in both ways
    numbers: Sequence[float | None]  # the values as numbers; None: text


def _samples(chunk: Chunk, declared: Mapping[str, Declared], decimal: str | None) -> dict[str, Sample]:
    """The first values of all columns, which tell each other's decimal mark."""
    values, forms = {}, {}
    for name, one in declared.items():
        known = without_missing(chunk.columns[name], one.missing)
        forms[name] = [one.unit] if one.unit else units(known)
        values[name] = bare(known, forms[name][0], one.missing) if len(forms[name]) == 1 else known
    marks = decimal_marks(values) if decimal is None else dict.fromkeys(values, decimal)
    found = {}
    for name, mark in marks.items():
        clear = "" if mark == UNCLEAR else mark
        numbers = [as_number(value, clear) for value in values[name]]
        found[name] = Sample(values[name], forms[name], clear, mark == UNCLEAR, numbers)
    return found


def refuse_uses(declared: Mapping[str, Declared], target: str, inputs: Sequence[str] | None, ticket: str) -> None:
    """Refuse columns that are declared as one thing and used as another."""
    times = [name for name, one in declared.items() if one.kind == "time"]
    if len(times) > 1:
        raise RowsError(f"`schema` has two times, {times[0]!r} and {times[1]!r}; one column says when")
    for name, use in [(target, "the target"), *((name, "an input") for name in inputs or ()), (ticket, "the ticket")]:
        kind = declared[name].kind if name in declared else ""
        if kind == "ignore" or (name == target and kind not in ("", "number")):
            raise RowsError(f"`schema` says that {name!r} is {kind!r}, but it is {use}; change one of them")


def _as_declared(name: str, one: Declared, sample: Sample) -> Column:
    """A column of the kind that the user says."""
    if one.kind == "ignore":
        return Column(name, "ignored", (), "as declared")
    if one.kind == "number":
        return _as_numbers(name, sample)
    levels = one.levels or tuple(sorted(set(map(level_of, sample.values)) - {EMPTY}))
    if len(levels) > max(MOST_LEVELS, len(one.levels)):
        raise RowsError(
            f"`schema` says that {name!r} is a category, but the first rows have {len(levels)} different values; the "
            f"limit is {MOST_LEVELS}, unless you name the levels"
        )
    return Column(name, "category", levels, closed=bool(one.levels))


def _as_numbers(name: str, sample: Sample) -> Column:
    notes = [f"the unit {unit} is left out" for unit in sample.units[:1]] + [described(sample.values, sample.mark)]
    return Column(name, "number", (), "; ".join(filter(None, notes)), sample.mark, "".join(sample.units[:1]))


def _as_time(name: str, sample: Sample) -> Column:
    """The column that says when, with what to tell of it."""
    form, certain = form_of(sample.values, sample.mark)
    notes = [FORMS[form]] if form else []
    if not certain:
        notes.append("no day is beyond 12, so that this is a guess; write 2025-12-31 to be sure")
    shown = [str(value).strip() for value in sample.values if not is_missing(value)]
    if repeated := sum(now == before for before, now in pairwise(shown)):
        notes.append(f"{repeated} of the first {len(shown):,} rows repeat the time of the row before")
    return Column(name, "time", (), "; ".join(notes), sample.mark, form)


def _with_fill_value(column: Column, sample: Sample) -> Column:
    """A column of numbers that says whether one of them may stand for missing values."""
    if column.kind != "number" or (found := fill_value(sample.numbers)) is None:
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


def _column(name: str, sample: Sample, wanted: bool, growing: bool, faulty: Container[int]) -> Column:
    """What a column is that has these first values; faulty rows have no levels."""
    values, numbers = sample.values, sample.numbers
    if not wanted and _dates_in_digits(name, sample):
        return Column(name, "ignored", (), "dates")
    if are_mostly_numbers(numbers):
        steps = np.diff([number for number in numbers if number is not None and number == number])
        if not wanted and len(steps) >= 10 and np.all(steps == steps[0]) and steps[0] != 0:
            return Column(name, "ignored", (), "row counter")
        return _as_numbers(name, sample)
    if any(isinstance(value, complex) for value in values):
        return Column(name, "ignored", (), "complex numbers; hand over real and imaginary parts as columns")
    if len(sample.units) > 1:
        return Column(name, "ignored", (), f"numbers in different units: {listed(sample.units)}")
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


def _time_column(samples: Mapping[str, Sample], others: Sequence[str], inputs: Sequence[str] | None) -> str:
    """The column that says when: dates, or numbers called time, that never go back."""
    for wanted in (_dates, _dates_in_digits, _stamps):
        for name, sample in samples.items():
            if name in others or not sample.values or (inputs is not None and name in inputs and wanted is not _dates):
                continue
            if wanted(name, sample):
                return name
    return ""


def _dates(_: str, sample: Sample) -> bool:
    shown = [str(value) for value in sample.values if not is_missing(value)]
    return bool(shown) and sum(map(_is_date, shown)) >= LEAST_NUMBERS * len(shown)


def _is_date(text: str) -> bool:
    return bool(DATE.fullmatch(text) or WRITTEN.fullmatch(text.strip()))


def _dates_in_digits(name: str, sample: Sample) -> bool:
    """Numbers that are all dates, such as 20240131: called so, or at least three that never go back."""
    shown = []
    for value in sample.values:
        if not is_missing(value):
            shown.append(str(value).strip())
            if not DIGITS_OF_DATE.fullmatch(shown[-1]):
                return False
    return bool(shown and TIME_NAMES.fullmatch(name.strip())) or (len(set(shown)) >= 3 and shown == sorted(shown))


def _stamps(name: str, sample: Sample) -> bool:
    if not TIME_NAMES.fullmatch(name.strip()) or any(n is None or n != n for n in sample.numbers):
        return False
    return bool(np.all(np.diff(np.array(sample.numbers, dtype=np.float64)) >= 0))


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


def _examples(sample: Sample) -> str:
    """The values that are no numbers, the most frequent first."""
    wrong = Counter(str(value) for value, n in zip(sample.values, sample.numbers, strict=True) if n is None)
    return ", ".join(short(value) for value, _ in wrong.most_common(3)) or "nothing in the first rows"
