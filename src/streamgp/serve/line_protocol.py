"""InfluxDB line protocol, read and written: measurement,tag=value field=1.5,other=2i 1700000000000000000."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

NANOSECONDS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}  # of a unit of time
LONGEST = 1 << 63  # timestamps and integers are smaller than this
BOOLEANS = {text: text[0] in "tT" for text in ("t", "T", "true", "True", "TRUE", "f", "F", "false", "False", "FALSE")}

# A backslash escapes what would end a name; before any other character it is a backslash. What has been matched is not
# given back (++), so that an escaped comma never ends a name.
NAME = r"(?:\\[,= ]|[^,= \n])++"
VALUE = r'(?:"(?:\\.|[^"\\])*+"|[^", \n\r][^, \n\r]*)'
LINE = re.compile(
    rf" *(?P<measurement>(?:\\[, ]|[^, \n])++)(?P<tags>(?:,{NAME}={NAME})*)"
    rf" +(?P<fields>{NAME}={VALUE}(?:,{NAME}={VALUE})*)"
    r"(?: +(?P<time>[+-]?\d+))? *\r?(?:\n|\Z)",
    re.DOTALL,
)
TAG, FIELD = re.compile(rf",({NAME})=({NAME})"), re.compile(rf"({NAME})=({VALUE}),?", re.DOTALL)
FLOAT = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
WHOLE = re.compile(r"([+-]?\d{1,20})([iu])")
SKIPPED = re.compile(r" *(?:#[^\n]*)?(?:\n|\r\n|\Z)")

Value = float | int | bool | str


class LineError(ValueError):
    """A line that is not line protocol; the message begins with its number."""


class Point(NamedTuple):
    """One line."""

    line: int  # its number, from 1
    measurement: str
    tags: dict[str, str]
    fields: dict[str, Value]
    time: int | None  # nanoseconds since 1970, or None where there is no timestamp


def points(text: str, precision: str = "ns") -> Iterator[Point]:
    r"""Yield the lines of a text without comments; the unit of timestamps, ``precision``, is "ns", "us", "ms" or "s".

    Example:
        >>> next(points('boiler,plant=north\\ 1 power=351.5,on=t,n=3i,note="a \\"b\\"" 1700000000', "s"))[1:]
        ('boiler', {'plant': 'north 1'}, {'power': 351.5, 'on': True, 'n': 3, 'note': 'a "b"'}, 1700000000000000000)
    """
    unit = NANOSECONDS[precision]
    at, line = 0, 1
    while at < len(text):
        if found := SKIPPED.match(text, at):
            line, at = line + 1, max(found.end(), at + 1)
            continue
        if not (found := LINE.match(text, at)):
            rest = text[at:].partition("\n")[0]
            raise LineError(
                f"line {line} is not line protocol: {rest[:80]!r}; write measurement,tag=value field=1.5 timestamp"
            )
        try:
            yield _point(found, line, unit)
        except ValueError as error:
            raise LineError(f"line {line} {error}") from None
        line, at = line + text.count("\n", at, found.end()), found.end()


def _point(found: re.Match[str], line: int, unit: int) -> Point:
    measurement = re.sub(r"\\([, ])", r"\1", found["measurement"])
    tags: dict[str, str] = {}
    for key, text in TAG.findall(found["tags"]):
        _add(tags, "tag", key, _unescaped(text))
    fields: dict[str, Value] = {}
    for key, text in FIELD.findall(found["fields"]):
        _add(fields, "field", key, _value(key, text))
    if (text := found["time"]) is None:
        return Point(line, measurement, tags, fields, None)
    time = int(text) * unit if len(text) <= 20 else LONGEST
    if not -LONGEST <= time < LONGEST:
        raise ValueError(f"has the timestamp {text[:40]}, which is out of range; say its unit with precision")
    return Point(line, measurement, tags, fields, time)


def _add(known: dict[str, Any], kind: str, key: str, value: Value) -> None:
    if (name := _unescaped(key)) in known:
        raise ValueError(f"has the {kind} {name[:40]!r} twice")
    known[name] = value


def _value(key: str, text: str) -> Value:
    if text.startswith('"'):
        return re.sub(r'\\(["\\])', r"\1", text[1:-1])
    if text in BOOLEANS:
        return BOOLEANS[text]
    if FLOAT.fullmatch(text) and math.isfinite(number := float(text)):
        return number
    if found := WHOLE.fullmatch(text):
        least, most = (-LONGEST, LONGEST) if found[2] == "i" else (0, 2 * LONGEST)
        if least <= (whole := int(found[1])) < most:
            return whole
    raise ValueError(f"has {text[:40]!r} in the field {key[:40]!r}, which is no number; put text in double quotes")


def _unescaped(text: str) -> str:
    return re.sub(r"\\([,= ])", r"\1", text)


def written(measurement: str, tags: Mapping[str, str], fields: Mapping[str, Value], time: int | None = None) -> str:
    """One line, without its end; a tag without a value and a field that is not finite are left out, and with no field
    left the line is "".

    Example:
        >>> written("boiler, old", {"plant": "north 1"}, {"power": 351.5, "n": 3}, 1700000000000000000)
        'boiler\\\\,\\\\ old,plant=north\\\\ 1 power=351.5,n=3i 1700000000000000000'
    """
    known = {key: value for key, value in fields.items() if not isinstance(value, float) or math.isfinite(value)}
    told = {key: _shown(value) for key, value in known.items()}
    if not told:
        return ""
    head = ",".join([_escaped(measurement, ", "), *(f"{_name(k)}={_name(v)}" for k, v in tags.items() if v)])
    line = f"{head} {','.join(f'{_name(key)}={text}' for key, text in told.items())}"
    return line if time is None else f"{line} {time}"


def _shown(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(value) if isinstance(value, float) else f"{value}i"


def _name(text: str) -> str:
    return _escaped(text, ",= ")


def _escaped(text: str, marks: str) -> str:
    if not text or "\n" in text or text.endswith("\\") or text.startswith("#"):
        raise ValueError(f"line protocol cannot have the name {text[:40]!r}")
    return re.sub(f"([{marks}])", r"\\\1", text)
