"""Lines: rows that come as InfluxDB line protocol, and predictions and alarms that go out as such."""

from __future__ import annotations

import datetime as dt
import hashlib
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    """The lines of one series in a request.

    Args:
        stream: its name.
        rows: in the order in which they came.
        settings: of the stream, if it is to be created; None where it is not clear what is predicted.
        key: by which the same lines are known again; "" where they have no timestamps of their own.
    """

    stream: str
    rows: list[Row]
    settings: StreamSettings | None
    key: str


def unpacked(body: bytes, encoding: str, most: int) -> bytes:
    """A body without its compression.

    Args:
        body: as it came.
        encoding: of the header Content-Encoding.
        most: bytes.
    """
    if encoding.strip().lower() in ("", "identity"):
        return body
    if encoding.strip().lower() != "gzip":
        raise RefusedError(
            415, "unsupported_encoding", f"the body is encoded as {encoding[:40]!r}", "use gzip, or none"
        )
    unpacking = zlib.decompressobj(wbits=31)
    try:
        data = unpacking.decompress(body, most + 1)
    except zlib.error:
        raise RefusedError(400, "bad_encoding", "the body is not gzip", "send it without Content-Encoding") from None
    if len(data) > most:
        raise RefusedError(413, "body_too_long", f"the body is longer than {most} bytes", "send it in parts")
    if not unpacking.eof:
        raise RefusedError(400, "bad_encoding", "the body ends in the middle of its gzip data", "send it again")
    return data


def read_points(body: bytes, precision: str) -> list[Point]:
    """The lines of a body.

    Args:
        body: UTF-8.
        precision: unit of the timestamps.
    """
    unit = {"n": "ns", "u": "us", "µ": "us", "": "ns"}.get(precision, precision)
    if unit not in NANOSECONDS:
        raise RefusedError(422, "bad_parameter", f"precision must be ns, us, ms or s; got {precision[:40]!r}")
    try:
        found = list(points(body.decode(), unit))
    except UnicodeDecodeError as error:
        raise RefusedError(400, "bad_line", f"the body is not UTF-8: {error}", "nothing was learned") from None
    except LineError as error:
        raise RefusedError(422, "bad_line", str(error), "nothing was learned") from None
    if not found:
        raise RefusedError(422, "no_rows", "the body has no lines", "send lines such as: boiler power=351.5")
    return found


def rows_of(body: bytes, precision: str) -> list[Row]:
    """The lines of one measurement as rows: tags and fields are columns."""
    found = read_points(body, precision)
    if len(names := sorted({point.measurement for point in found})) > 1:
        raise RefusedError(
            422,
            "several_measurements",
            f"the lines are of {len(names)} measurements: {', '.join(names)[:200]}",
            "post lines of one stream here, or all of them to /api/v2/write",
        )
    now = time.time_ns()
    return [_row(point, point.tags, now) for point in found]


def by_series(body: bytes, precision: str) -> list[Series]:
    """The lines of a body by series, each in its order."""
    groups: dict[str, list[Point]] = {}
    for point in read_points(body, precision):
        groups.setdefault(of_series(point.measurement, point.tags), []).append(point)
    now = time.time_ns()
    found = []
    for stream, alike in groups.items():
        rows = [_row(point, {}, now) for point in alike]
        target = _target(alike)
        settings = None if target is None else StreamSettings(target)
        found.append(Series(stream, rows, settings, _key(alike)))
    return found


def _row(point: Point, tags: Mapping[str, str], now: int) -> Row:
    row: Row = {TIME: as_iso(now if point.time is None else point.time, point.line)}
    for names in (tags, point.fields):
        if twice := row.keys() & names.keys():
            raise RefusedError(
                422, "bad_line", f"line {point.line} has {sorted(twice)[0]!r} twice", "nothing was learned; rename one"
            )
        row |= names
    return row


def as_iso(moment: int, line: int) -> str:
    """A timestamp in nanoseconds in ISO 8601, to microseconds."""
    try:
        return (FIRST + dt.timedelta(microseconds=moment // 1000)).isoformat()
    except OverflowError:
        raise RefusedError(
            422, "bad_line", f"line {line} has a timestamp outside of the years 1 to 9999", "check precision"
        ) from None


def _target(alike: Sequence[Point]) -> str | None:
    """The field that a new stream predicts: "value", or the only number."""
    numbers = {
        key
        for point in alike
        for key, value in point.fields.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    if TARGET in numbers:
        return TARGET
    return next(iter(numbers)) if len(numbers) == 1 else None


def _key(alike: Sequence[Point]) -> str:
    if any(point.time is None for point in alike):
        return ""
    text = repr([(point.fields, point.time) for point in alike])
    return f"lines-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def no_stream(series: Series) -> RefusedError:
    """A series of which it is not clear what is predicted."""
    fields = ", ".join(sorted({key for row in series.rows for key in row} - {TIME}))
    return RefusedError(
        422,
        "no_such_stream",
        f"there is no stream {series.stream!r}, and its lines do not tell what to predict: {fields[:200]}",
        f"create it: PUT /v1/streams/{series.stream} with a field as the target, or call it {TARGET!r}",
    )


def too_many(new: int) -> RefusedError:
    """More new series than become streams at once."""
    return RefusedError(
        413,  # after which Telegraf sends the lines in parts
        "too_many_series",
        f"the lines are of {new} new series; at most {MOST_NEW} become streams in one request",
        "nothing was learned; send the lines in parts",
    )


def out(stream: str, dated: Iterable[tuple[int, float]], newest: FloatArray, events: Sequence[DriftEvent]) -> str:
    """Predictions and alarms as lines; rows whose time is not known have none.

    Args:
        stream: its name, a tag of every line.
        dated: number and time, in seconds since 1970, of rows.
        newest: (n, 5) rows: number, target, mean, lower, upper.
        events: changes and alarms.
    """
    # Times are kept as floats, which tell microseconds.
    moments = {row: 1000 * round(1e6 * seconds) for row, seconds in dated}
    return "".join(f"{line}\n" for line in _out(stream, moments, newest, events) if line)


def _out(stream: str, moments: Mapping[int, int], newest: FloatArray, events: Sequence[DriftEvent]) -> Iterator[str]:
    names = ("observed", "mean", "lower", "upper")
    for row, *values in newest.tolist():
        if (moment := moments.get(int(row))) is not None:
            yield written(PREDICTION, {"stream": stream}, dict(zip(names, values, strict=True)), moment)
    for event in events:
        if event.kind == "alarm" and (moment := moments.get(event.row)) is not None:
            yield written(ALARM, {"stream": stream}, {"row": event.row, "text": event.event}, moment)
