"""Lines: rows that come as InfluxDB line protocol, and predictions and alarms that go out as such."""

from __future__ import annotations

import datetime as dt
import hashlib
import time
import zlib
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from streamgp.serve.line_protocol import NANOSECONDS, LineError, Point, points, written
from streamgp.serve.messages import DriftEvent, RefusedError, Row, StreamSettings
from streamgp.serve.naming import of_series
from streamgp.settings import FloatArray

TIME = "time"  # the column of the timestamps
TARGET = "value"  # the field that is predicted where a new series has several
FIRST = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MOST_NEW = 100  # series of a request that become streams: each takes some 30 ms, and Telegraf waits 5 s for an answer
PREDICTION, ALARM = "streamgp_prediction", "streamgp_alarm"  # measurements


class Series(NamedTuple):
    """The lines of one series in a request."""

    stream: str  # its name
    rows: list[Row]  # in the order in which they came
    settings: StreamSettings | None  # of a new stream; None where it is not clear what is predicted
    key: str  # by which the same lines are known again; "" where they have no timestamps of their own


def unpacked(body: bytes, encoding: str, most: int) -> bytes:
    """A body of at most so many bytes without its compression, which the header Content-Encoding tells."""
    if encoding.strip().lower() in ("", "identity"):
        return body
    if encoding.strip().lower() != "gzip":
        raise RefusedError("unsupported_encoding", f"the body is encoded as {encoding[:40]!r}", "use gzip, or none")
    unpacking = zlib.decompressobj(wbits=31)
    try:
        data = unpacking.decompress(body, most + 1)
    except zlib.error:
        raise RefusedError("bad_encoding", "the body is not gzip", "send it without Content-Encoding") from None
    if len(data) > most:
        raise RefusedError("body_too_long", f"the body is longer than {most} bytes", "send it in parts")
    if not unpacking.eof:
        raise RefusedError("bad_encoding", "the body ends in the middle of its gzip data", "send it again")
    return data


def read_points(body: bytes, precision: str) -> list[Point]:
    """The lines of a body in UTF-8; ``precision`` is the unit of the timestamps."""
    unit = {"n": "ns", "u": "us", "µ": "us", "": "ns"}.get(precision, precision)
    if unit not in NANOSECONDS:
        raise RefusedError("bad_parameter", f"precision must be ns, us, ms or s; got {precision[:40]!r}")
    try:
        found = list(points(body.decode(), unit))
    except UnicodeDecodeError as error:
        raise RefusedError("bad_encoding", f"the body is not UTF-8: {error}", "send UTF-8") from None
    except LineError as error:
        raise RefusedError("bad_line", str(error)) from None
    if not found:
        raise RefusedError("no_rows", "the body has no lines", "send lines such as: boiler power=351.5")
    return found


def rows_of(body: bytes, precision: str) -> list[Row]:
    """The lines of one measurement as rows: tags and fields are columns."""
    found = read_points(body, precision)
    if len(names := sorted({point.measurement for point in found})) > 1:
        several = f"the lines are of {len(names)} measurements: {', '.join(names)[:200]}"
        hint = "post lines of one stream here, or all of them to /api/v2/write"
        raise RefusedError("several_measurements", several, hint)
    now = time.time_ns()
    return [_row(point, point.tags, now) for point in found]


def by_series(body: bytes, precision: str) -> list[Series]:
    """The lines of a body by series, each in its order."""
    groups: dict[str, list[Point]] = {}
    for point in read_points(body, precision):
        groups.setdefault(of_series(point.measurement, point.tags), []).append(point)
    now = time.time_ns()
    return [
        Series(stream, [_row(point, {}, now) for point in alike], _settings(alike), _key(alike))
        for stream, alike in groups.items()
    ]


def _row(point: Point, tags: Mapping[str, str], now: int) -> Row:
    since = dt.timedelta(microseconds=(now if point.time is None else point.time) // 1000)
    try:
        row: Row = {TIME: (FIRST + since).isoformat()}
    except OverflowError:
        far = f"line {point.line} has a timestamp outside of the years 1 to 9999"
        raise RefusedError("bad_line", far, "check precision") from None
    for names in (tags, point.fields):
        if twice := row.keys() & names.keys():
            raise RefusedError("bad_line", f"line {point.line} has {sorted(twice)[0]!r} twice")
        row |= names
    return row


def _settings(alike: Sequence[Point]) -> StreamSettings | None:
    """A new stream predicts "value", or the only number."""
    fields = [field for point in alike for field in point.fields.items()]
    numbers = {key for key, value in fields if isinstance(value, int | float) and not isinstance(value, bool)}
    if TARGET in numbers:
        return StreamSettings(TARGET)
    return StreamSettings(numbers.pop()) if len(numbers) == 1 else None


def _key(alike: Sequence[Point]) -> str:
    if any(point.time is None for point in alike):
        return ""
    text = repr([(point.fields, point.time) for point in alike])
    return f"lines-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def new_streams(found: Iterable[Series], known: Container[str]) -> set[str]:
    """The series that are to become streams; refused where they are too many, or what is predicted is not clear."""
    new = [series for series in found if series.stream not in known]
    for series in new:
        if series.settings is None:
            fields = ", ".join(sorted({key for row in series.rows for key in row} - {TIME}))
            unclear = f"there is no stream {series.stream!r}, and its lines do not tell what to predict: {fields[:200]}"
            hint = f"create it: PUT /v1/streams/{series.stream} with a field as the target, or call it {TARGET!r}"
            raise RefusedError("no_target", unclear, hint)
    if len(new) > MOST_NEW:  # with this status Telegraf sends the lines in parts
        message = f"the lines are of {len(new)} new series; at most {MOST_NEW} become streams in one request"
        raise RefusedError("too_many_series", message, "nothing was learned; send the lines in parts")
    return {series.stream for series in new}


def out(stream: str, dated: Iterable[tuple[int, float]], newest: FloatArray, events: Sequence[DriftEvent]) -> str:
    """Predictions and alarms of a stream as lines; rows whose time is not known have none.

    Args:
        stream: its name, a tag of every line.
        dated: number and time, in seconds since 1970, of rows.
        newest: (n, 5) rows: number, target, mean, lower, upper.
        events: changes and alarms.
    """
    # Times are kept as floats, which tell microseconds.
    moments = {row: 1000 * round(1e6 * seconds) for row, seconds in dated}
    found = [
        (PREDICTION, int(row), dict(zip(("observed", "mean", "lower", "upper"), values, strict=True)))
        for row, *values in newest.tolist()
    ]
    found += [(ALARM, one.row, {"row": one.row, "text": one.event}) for one in events if one.kind == "alarm"]
    told = [written(name, {"stream": stream}, fields, moments[at]) for name, at, fields in found if at in moments]
    return "".join(f"{line}\n" for line in told if line)
