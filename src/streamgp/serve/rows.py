"""Bodies of requests: rows as JSON, NDJSON, CSV or line protocol, within limits, or a sentence on what is wrong."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from streamgp.serve import lines
from streamgp.serve.messages import RefusedError, Row
from streamgp.tables.formats import Chunk, TextReader
from streamgp.tables.source import Position, RowsError

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
MOST_WIDTH = 1000  # columns of a row
MOST_ROWS = 10_000  # of a request
LONGEST_TEXT = 1000  # characters of a name or a value
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
        raise RefusedError(
            415,
            "unsupported_media_type",
            f"the header Content-Type must be {JSON}, {NDJSON}, {CSV} or {LINES}; {came}",
            f"add the header, such as: curl -H 'Content-Type: {JSON}'",
        )
    return KINDS[media]


# Made here, in one thread; see learner.py.
ROWS = msgspec.json.Decoder(list[Row])


def decoded(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """A JSON body of a type."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise RefusedError(
            422, "invalid_body", f"the body does not fit: {error}", "GET /openapi.json describes it"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        said = f"is not JSON: {error}" if body.strip() else "is empty"
        hint = "send UTF-8 JSON, in which null stands for NaN"
        raise RefusedError(400, "invalid_json", f"the body {said}", hint) from None


def read_rows(body: bytes, kind: str, precision: str = "ns") -> list[Row]:
    """The rows of a body, in the order in which they came.

    Args:
        body: as it came.
        kind: from ``media_type``.
        precision: unit of the timestamps of line protocol.
    """
    if kind == "lines":
        return checked(lines.rows_of(body, precision))
    if kind == "json" and body.lstrip()[:1] == b"{":
        raise RefusedError(
            422, "invalid_body", "rows are a list; the body is one object", "put it in brackets: [{...}]"
        )
    rows = decoded(body, ROWS) if kind == "json" else list(_lines(body, kind))
    if not rows:
        csv = "send a header and rows; with curl use --data-binary, because -d drops the ends of lines"
        hint = csv if kind == "csv" else 'send at least one, such as [{"x": 1.5, "y": 2}]'
        raise RefusedError(422, "no_rows", "the body has no rows", hint)
    return checked(rows)


def checked(rows: list[Row]) -> list[Row]:
    """Rows within the limits."""
    if len(rows) > MOST_ROWS:
        raise RefusedError(
            413, "too_many_rows", f"the body has {len(rows)} rows; the limit is {MOST_ROWS}", "send them in parts"
        )
    return [_checked(row, number) for number, row in enumerate(rows, 1)]


def _lines(body: bytes, kind: str) -> Iterator[Row]:
    reader = TextReader(_Body(body), kind)  # type: ignore[arg-type]
    try:
        for chunk in reader.chunks():
            if chunk.bad:
                raise RefusedError(
                    422, "bad_row", f"line {chunk.bad[0].line} {chunk.bad[0].reason}", "nothing was learned"
                )
            for values in zip(*chunk.columns.values(), strict=True):
                yield dict(zip(chunk.columns, values, strict=True))
    except (RowsError, ValueError) as error:
        raise RefusedError(422, "bad_row", str(error), "nothing was learned") from None


def _checked(row: Row, number: int) -> Row:
    if len(row) > MOST_WIDTH:
        raise RefusedError(
            422,
            "row_too_wide",
            f"row {number} has {len(row)} columns; the limit is {MOST_WIDTH}",
            "send only the columns that you need",
        )
    for name in row:
        if not _is_text(name):
            _text(name, number)  # says why
    return {name: value if type(value) is float else _value(name, value, number) for name, value in row.items()}


@lru_cache(4096)
def _is_text(name: str) -> bool:
    """Whether a column can have this name."""
    try:
        _text(name, 0)
    except RefusedError:
        return False
    return True


def _value(name: str, value: Any, number: int) -> Any:
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, str):
        return _text(value, number)
    if isinstance(value, int):
        try:
            return value if -LARGEST <= value < LARGEST else float(value)
        except OverflowError:
            raise RefusedError(
                422, "bad_row", f"row {number} has an infinite number in the column {name[:60]!r}"
            ) from None
    raise RefusedError(
        422,
        "bad_row",
        f"row {number} has {type(value).__name__} in the column {name[:60]!r}",
        "a value is a number, text, true, false or null",
    )


def _text(text: str, number: int) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise RefusedError(422, "bad_row", f"row {number} has text that is not Unicode: {text[:60]!r}") from None
    if len(text) > LONGEST_TEXT:
        raise RefusedError(
            422, "bad_row", f"row {number} has text of {len(text)} characters; the limit is {LONGEST_TEXT}"
        )
    return text


def as_chunk(rows: Sequence[Row]) -> Chunk:
    """Rows column by column; a column that a row does not have is missing there."""
    names = dict.fromkeys(name for row in rows for name in row)
    return Chunk({name: [row.get(name) for row in rows] for name in names}, range(1, len(rows) + 1))
