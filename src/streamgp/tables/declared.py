"""Declared columns: what a user says that the columns of a table are, in place of what the first rows suggest.

A schema is a table of columns, in TOML, in JSON or as a dictionary. A column is the name of its kind, or has ``kind``,
``levels``, ``unit`` and ``missing``, each of which may be left out::

    note = "ignore"

    [temperature]
    kind = "number"
    unit = "°C"
    missing = [-999, "broken"]

    [mode]
    kind = "category"
    levels = ["day", "night", "off"]
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from streamgp.settings import nearest, option
from streamgp.tables.numbers import MARKS, as_number, without_unit
from streamgp.tables.source import RowsError

KINDS = ("number", "category", "time", "ignore")
FIELDS = ("kind", "levels", "unit", "missing")
MOST_DECLARED = 1000  # levels, or values that stand for missing ones, of a column
ALIKE = 0.75  # names whose letters agree to this part are the same name, misspelled
BARE = re.compile("[A-Za-z0-9_-]+")  # a key of TOML that needs no quotes
DIGITS = re.compile("[0-9]")
EXAMPLE = 'such as {"note": "ignore", "mode": {"kind": "category", "levels": ["day", "night"]}}'


class Declared(NamedTuple):
    """What a user says of a column."""

    kind: str = ""  # of KINDS; "": the first rows tell
    levels: tuple[str, ...] = ()  # of a category, all that have an input; (): those of the first rows, others may join
    unit: str = ""  # of its numbers, behind or before each
    missing: tuple[str, ...] = ()  # values that stand for missing ones


def declared_columns(name: str, schema: Any) -> dict[str, Declared]:
    """What a schema says of each column, or a sentence about what is wrong with the setting of this name.

    Example:
        >>> declared_columns("schema", {"note": "ignore", "t": {"unit": "°C", "missing": [-999]}})["t"]
        Declared(kind='', levels=(), unit='°C', missing=('-999',))
    """
    if not isinstance(schema, Mapping) or not all(isinstance(column, str) for column in schema):
        raise TypeError(f"`{name}` says by column what it is, {EXAMPLE}; got {_shown(schema)}")
    return {column: _declared(f"`{name}`: the column {column!r}", given) for column, given in schema.items()}


def _declared(whose: str, given: Any) -> Declared:
    given = {"kind": given} if isinstance(given, str) else given
    if not isinstance(given, Mapping):
        raise TypeError(f"{whose} must be one of {', '.join(KINDS)}, or a table with a kind; got {_shown(given)}")
    for field in given:
        if field not in FIELDS:
            raise ValueError(f"{whose} has {field!r}.{nearest(str(field), FIELDS)} It may have: {', '.join(FIELDS)}")
    kind, unit = given.get("kind", ""), given.get("unit", "")
    if kind != "":
        option(f"{whose}: kind", kind, KINDS)
    if not isinstance(unit, str):
        raise TypeError(f"{whose}: unit must be a text such as '°C'; got {_shown(unit)}")
    levels, missing = (_texts(f"{whose}: {field}", given.get(field, ())) for field in ("levels", "missing"))
    if levels and kind != "category":
        raise ValueError(f"{whose} has levels, so its kind must be 'category'; it is {kind or 'not given'!r}")
    if unit and kind not in ("", "number"):
        raise ValueError(f"{whose} has a unit, so its kind must be 'number'; it is {kind!r}")
    if twice := {one for one in levels if levels.count(one) > 1}:
        raise ValueError(f"{whose} has the level {min(twice)!r} twice")
    if len(levels) == 1:
        raise ValueError(f"{whose} has one level, {levels[0]!r}; name at least two, or leave levels out")
    return Declared(kind, levels, unit.strip(), missing)


def _texts(whose: str, values: Any) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise TypeError(f"{whose} must be a list; got {_shown(values)}")
    if len(values) > MOST_DECLARED:
        raise ValueError(f"{whose} has {len(values)} values; the limit is {MOST_DECLARED}")
    for value in values:
        if not isinstance(value, str | int | float):
            raise TypeError(f"{whose} must hold texts and numbers; got {_shown(value)}")
    return tuple(str(value).strip() for value in values)


def read_schema(place: str | Path) -> dict[str, Any]:
    """The schema in a .toml or .json file."""
    path = Path(place)
    kinds = {".toml": tomllib.loads, ".json": json.loads}
    if path.suffix.lower() not in kinds:
        raise ValueError(f"`schema` must be a .toml or .json file; got {str(place)!r}")
    try:
        found: Any = kinds[path.suffix.lower()](path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise RowsError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise RowsError(f"{path} is not {path.suffix[1:].upper()}: {error}") from None
    declared_columns("schema", found)
    return dict(found)


def refuse_unknown_columns(declared: Iterable[str], names: Sequence[str]) -> None:
    """Refuse a schema with columns that a table does not have."""
    for name in declared:
        if name not in names:
            raise RowsError(f"`schema` has the column {name!r}, but the table has not.{nearest(name, names)}")


def misspelled(name: str, names: Iterable[str]) -> str:
    """Which of the names is meant by one that differs in few letters; "" where none is, or they differ in digits."""
    close = difflib.get_close_matches(name, [*names], n=1, cutoff=ALIKE)
    return close[0] if close and DIGITS.sub("", close[0]) != DIGITS.sub("", name) else ""


def without_missing(values: Sequence[Any], missing: Sequence[str], marks: Iterable[str] = MARKS) -> Sequence[Any]:
    """A column's values with None in place of those that stand for missing ones: the same text, or the same number."""
    if not missing:
        return values
    numbers = {number for text in missing if (number := as_number(text, ".")) is not None}

    def stands(value: Any) -> bool:
        return str(value).strip() in missing or any(numbers and as_number(value, mark) in numbers for mark in marks)

    return [None if value is not None and stands(value) else value for value in values]


def bare(values: Sequence[Any], unit: str, missing: Sequence[str], marks: Iterable[str] = MARKS) -> Sequence[Any]:
    """A column's values without their unit, and without those that stand for missing ones, with a unit or without."""
    values = without_missing(values, missing, marks)
    return without_missing([without_unit(value, unit) for value in values], missing, marks) if unit else values


def as_toml(schema: Mapping[str, Any]) -> str:
    """A schema as TOML: columns that have a kind only first."""
    short = [f"{_key(column)} = {_quoted(given)}" for column, given in schema.items() if isinstance(given, str)]
    parts = ["\n".join(short)] if short else []
    for column, given in schema.items():
        if not isinstance(given, str):
            lines = [f"{field} = {_value(value)}" for field, value in given.items()]
            parts.append("\n".join([f"[{_key(column)}]", *lines]))
    return "\n\n".join(parts) + "\n"


def _key(name: str) -> str:
    return name if BARE.fullmatch(name) else _quoted(name)


def _value(value: Any) -> str:
    return f"[{', '.join(map(_value, value))}]" if isinstance(value, list | tuple) else _quoted(value)


def _quoted(value: Any) -> str:
    """A text or a number; the strings of JSON are strings of TOML, but for one sign that TOML wants escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
