"""InfluxDB line protocol, read and written: measurement,tag=value field=1.5,other=2i 1700000000000000000."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

NANOSECONDS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}  # of a unit of time
LONGEST = 1 << 63  # timestamps and integers are smaller than this
BOOLEANS = {text: text[0] in "tT" for text in ("t", "T", "true", "True", "TRUE", "f", "F", "false", "False", "FALSE")}

# A backslash escapes what would end a name; before any other character it is a backslash. What has been matched is not
# given back (++), so that an escaped comma never ends a name.
MEASUREMENT = re.compile(r"(?:\\[, ]|[^, \n])++")
KEY = re.compile(r"(?:\\[,= ]|[^,= \n])++")
STRING = re.compile(r'"((?:\\.|[^"\\])*+)"', re.DOTALL)
BARE = re.compile(r"[^, \n\r]+")
FLOAT = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
WHOLE = re.compile(r"([+-]?\d{1,20})([iu])")
SPACES, TIME, END = re.compile(" +"), re.compile(r"[+-]?\d+(?=[ \r\n]|\Z)"), re.compile(r" *\r?(?:\n|\Z)")
SKIPPED = re.compile(r" *(?:#[^\n]*)?(?:\n|\r\n|\Z)")

Value = float | int | bool | str


class LineError(ValueError):
    """A line that is not line protocol; the message begins with its number."""


class Point(NamedTuple):
    """One line.

    Args:
        line: its number, from 1.
        measurement: its name.
        tags: by key.
        fields: by key.
        time: nanoseconds since 1970, or None where there is no timestamp.
    """

    line: int
    measurement: str
    tags: dict[str, str]
    fields: dict[str, Value]
    time: int | None


def points(text: str, precision: str = "ns") -> Iterator[Point]:
    r"""Yield the lines of a text; comments and empty lines are left out.

    Args:
        text: the lines.
        precision: unit of the timestamps: "ns", "us", "ms" or "s".

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
        reading = _Line(text, at, line)
        yield reading.point(unit)
        line, at = line + text.count("\n", at, reading.at), reading.at


class _Line:
    """Reads one line from a position on."""

    def __init__(self, text: str, at: int, line: int) -> None:
        self.text, self.at, self.line = text, at, line

    def point(self, unit: int) -> Point:
        spaces = SPACES.match(self.text, self.at)
        self.at = spaces.end() if spaces else self.at
        measurement = re.sub(r"\\([, ])", r"\1", self._taken(MEASUREMENT, "a measurement"))
        tags: dict[str, str] = {}
        while self._is_next(","):
            key = self._new_key(tags, "tag")
            tags[key] = _unescaped(self._taken(KEY, f"a value of the tag {key!r}"))
        self._taken(SPACES, "a space and a field")
        fields: dict[str, Value] = {}
        while not fields or self._is_next(","):
            key = self._new_key(fields, "field")
            fields[key] = self._value(key)
        time = None
        if not END.match(self.text, self.at):
            self._taken(SPACES, "a comma, a space and a timestamp, or the end of the line")
            time = self._time(unit) if not END.match(self.text, self.at) else None
        self._taken(END, "the end of the line")
        return Point(self.line, measurement, tags, fields, time)

    def _taken(self, pattern: re.Pattern[str], what: str) -> str:
        if not (found := pattern.match(self.text, self.at)):
            rest = self.text[self.at :].partition("\n")[0]
            raise self._error(f"needs {what} at {rest[:40]!r}" if rest else f"ends where it needs {what}")
        self.at = found.end()
        return found[0]

    def _is_next(self, mark: str) -> bool:
        if self.text[self.at : self.at + 1] != mark:
            return False
        self.at += 1
        return True

    def _new_key(self, known: Mapping[str, Value], kind: str) -> str:
        key = _unescaped(self._taken(KEY, f"a {kind}"))
        if not self._is_next("="):
            raise self._error(f"has the {kind} {key[:40]!r} without a value")
        if key in known:
            raise self._error(f"has the {kind} {key[:40]!r} twice")
        return key

    def _value(self, key: str) -> Value:
        if found := STRING.match(self.text, self.at):
            self.at = found.end()
            return re.sub(r'\\(["\\])', r"\1", found[1])
        if self.text[self.at : self.at + 1] == '"':
            raise self._error(f"has a quote in the field {key[:40]!r} that is not closed")
        text = self._taken(BARE, f"a value of the field {key[:40]!r}")
        if text in BOOLEANS:
            return BOOLEANS[text]
        if FLOAT.fullmatch(text) and math.isfinite(number := float(text)):
            return number
        if found := WHOLE.fullmatch(text):
            least, most = (-LONGEST, LONGEST) if found[2] == "i" else (0, 2 * LONGEST)
            if least <= (whole := int(found[1])) < most:
                return whole
        raise self._error(f"has {text[:40]!r} in the field {key[:40]!r}, which is no number; put text in double quotes")

    def _time(self, unit: int) -> int:
        text = self._taken(TIME, "a timestamp of digits only")
        time = int(text) * unit if len(text) <= 20 else LONGEST
        if not -LONGEST <= time < LONGEST:
            raise self._error(f"has the timestamp {text[:40]}, which is out of range; say its unit with precision")
        return time

    def _error(self, message: str) -> LineError:
        return LineError(f"line {self.line} {message}")


def _unescaped(text: str) -> str:
    return re.sub(r"\\([,= ])", r"\1", text)


def written(measurement: str, tags: Mapping[str, str], fields: Mapping[str, Value], time: int | None = None) -> str:
    """One line, without its end.

    Args:
        measurement: its name.
        tags: by key; a tag without a value is left out.
        fields: by key; what is not finite is left out, and with no field left the line is "".
        time: nanoseconds since 1970; None: no timestamp.

    Example:
        >>> written("boiler, old", {"plant": "north 1"}, {"power": 351.5, "n": 3}, 1700000000000000000)
        'boiler\\\\,\\\\ old,plant=north\\\\ 1 power=351.5,n=3i 1700000000000000000'
    """
    told = {key: _shown(value) for key, value in fields.items() if not _is_missing(value)}
    if not told:
        return ""
    head = ",".join([_escaped(measurement, ", "), *(f"{_name(k)}={_name(v)}" for k, v in tags.items() if v)])
    line = f"{head} {','.join(f'{_name(key)}={text}' for key, text in told.items())}"
    return line if time is None else f"{line} {time}"


def _is_missing(value: Value) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


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
