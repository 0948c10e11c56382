"""Bodies of requests: rows as JSON, NDJSON, CSV or line protocol, within limits, or a sentence on what is wrong."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import msgspec

from streamgp.serve import lines
from streamgp.serve.messages import RefusedError, Row, Scalar, refusing
from streamgp.tables.formats import Chunk, TextReader
from streamgp.tables.source import Position

JSON, NDJSON, CSV = "application/json", "application/x-ndjson", "text/csv"
LINES = "text/plain; format=influx"  # line protocol
KINDS = {
    JSON: "json",
    NDJSON: "ndjson",
    "application/ndjson": "ndjson",
    "application/jsonl": "ndjson",
    CSV: "csv",
    LINES: "lines",
}
MOST_ROWS = 10_000  # of a request
LARGEST = 1 << 63  # integers from here on are taken as floats

T = TypeVar("T")


class _Body:
    """A body in the place of a file that lines are read from."""

    name = "the body"
    live = array = False
    news = ""
    unfinished = b""
    size: int | None = None

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.bytes_read = len(data)
        self.stop = threading.Event()

    def blocks(self) -> Iterator[bytes | None]:
        yield self._data

    def position(self, lines: int) -> Position:
        return Position(lines)

    def close(self) -> None:
        """There is nothing to close."""


def media_type(header: str | None) -> str:
    """The kind of a body by its Content-Type."""
    media, _, rest = (part.strip().lower() for part in (header or "").partition(";"))
    if media == "text/plain" and "format=influx" in rest.replace(" ", "").split(";"):
        media = LINES
    if media not in KINDS:
        came = f"it is {media[:80]!r}" if media else "there is none"
        message = f"the header Content-Type must be {JSON}, {NDJSON}, {CSV} or {LINES}; {came}"
        hint = f"add the header, such as: curl -H 'Content-Type: {JSON}'"
        raise RefusedError("unsupported_media_type", message, hint)
    return KINDS[media]


# Made here, in one thread; see ops.py.
ROWS, ROW = msgspec.json.Decoder(list[Row]), msgspec.json.Decoder(Row)
LONG = re.compile(rb"\d{19}")


def decoded(body: bytes, decode: Callable[[bytes], T]) -> T:
    """A JSON body of a type."""
    try:
        return decode(body)
    except msgspec.ValidationError as error:
        raise RefusedError("invalid_body", f"the body does not fit: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        said = f"is not JSON: {error}" if body.strip() else "is empty"
        hint = "send UTF-8 JSON, in which null stands for NaN"
        raise RefusedError("invalid_json", f"the body {said}", hint) from None


def read_rows(body: bytes, kind: str, precision: str = "ns") -> list[Row]:
    """The rows of a body of a kind that ``media_type`` tells; ``precision`` is that of times in line protocol."""
    if kind == "lines":
        rows = lines.rows_of(body, precision)
    elif kind == "csv":
        rows = list(_csv(body))
    else:
        if kind == "json" and body.lstrip()[:1] == b"{":
            raise RefusedError("invalid_body", "rows are a list; the body is one object", "put it in brackets: [{...}]")
        rows = decoded(body, ROWS.decode if kind == "json" else ROW.decode_lines)
    if not rows:
        csv = "send a header and rows; with curl use --data-binary, because -d drops the ends of lines"
        hint = csv if kind == "csv" else 'send at least one, such as [{"x": 1.5, "y": 2}]'
        raise RefusedError("no_rows", "the body has no rows", hint)
    if LONG.search(body):
        rows = [{name: _as_float(value) for name, value in row.items()} for row in rows]
    return checked(rows)


def checked(rows: list[Row]) -> list[Row]:
    """Rows within the limits."""
    if len(rows) > MOST_ROWS:
        over = f"the body has {len(rows)} rows; the limit is {MOST_ROWS}"
        raise RefusedError("too_many_rows", over, "send them in parts")
    return rows


def _csv(body: bytes) -> Iterator[Row]:
    reader = TextReader(_Body(body), "csv")  # type: ignore[arg-type]
    with refusing("bad_row"):
        for chunk in reader.chunks():
            if chunk.bad:
                raise RefusedError("bad_row", f"line {chunk.bad[0].line} {chunk.bad[0].reason}")
            for values in zip(*chunk.columns.values(), strict=True):
                yield msgspec.convert(dict(zip(chunk.columns, values, strict=True)), Row)


def _as_float(value: Scalar) -> Scalar:
    """Integers that no machine has as floats."""
    if type(value) is not int or -LARGEST <= value < LARGEST:
        return value
    try:
        return float(value)
    except OverflowError:
        raise RefusedError("bad_row", "a row has an infinite number", "send null in its place") from None


def as_chunk(rows: Sequence[Row]) -> Chunk:
    """Rows column by column; a column that a row does not have is missing there."""
    names = dict.fromkeys(name for row in rows for name in row)
    return Chunk({name: [row.get(name) for row in rows] for name in names}, range(1, len(rows) + 1))
