"""Formats of rows: CSV, NDJSON, JSON arrays and Parquet, read into chunks of columns with their lines' numbers."""

from __future__ import annotations

import csv
import io
import json
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from streamgp.contract.frames import columns_of, plain
from streamgp.tables.source import (
    NOT_UTF8,
    CutShortError,
    Position,
    RowsError,
    TextLines,
    cut_short,
    head,
    is_file,
    lines_to_pass,
    position_of,
)

LOOK = 1000  # rows on which it is decided what the columns are
MOST_COLUMNS = 5000  # of a table
DELIMITERS = (",", ";", "\t", "|")
# R writes tables whose rows begin with a name for which the header has none; this many rows are looked at.
ROW_NAME, ROW_NAMES = "row name", 3
ROWS = 1000  # of a Parquet file at once
MOST_OPEN_LINES = 1000  # a quote that is open for longer was never meant to be closed
ENDINGS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".json": "ndjson",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".parquet": "parquet",
}
PACKED = {".gz", ".bz2", ".xz", ".zst"}


class BadRow(NamedTuple):
    """A row that cannot be used: where it is, and why."""

    line: int
    reason: str


@dataclass
class Chunk:
    """Some rows, column by column."""

    columns: dict[str, Sequence[Any]] = field(default_factory=dict)  # as they were written: text, numbers, None
    lines: Sequence[int] = ()  # the number of each row's (last) line, from 1; of the row itself in a Parquet file
    bad: list[BadRow] = field(default_factory=list)  # rows that are left out
    news: str = ""  # what has become of the source, for people

    def __len__(self) -> int:
        return len(self.lines)

    @classmethod
    def joined(cls, chunks: Sequence[Chunk]) -> Chunk:
        """Chunks that follow each other, as one; None where one of them has no such column."""
        columns: dict[str, Sequence[Any]] = {
            name: [v for chunk in chunks for v in chunk.columns.get(name, [None] * len(chunk))]
            for name in dict.fromkeys(name for chunk in chunks for name in chunk.columns)
        }
        lines, bad = ([*chain.from_iterable(getattr(chunk, name) for chunk in chunks)] for name in ("lines", "bad"))
        return cls(columns, lines, bad, next((chunk.news for chunk in chunks if chunk.news), ""))


def read_rows(
    source: str | Path,
    *,
    follow: bool = False,
    format: str | None = None,
    stop: threading.Event | None = None,
    after: Position | None = None,
    names: Sequence[str] = (),
) -> Reader:
    """Open a table for reading in chunks.

    Args:
        source: a CSV, NDJSON or Parquet file by its ending, or "-" for standard input. CSV and NDJSON may be compressed
            with gzip, bzip2 or xz, which their first bytes tell.
        follow: wait for more rows at the end of the file.
        format: "csv", "ndjson" or "parquet" for a source whose name does not say it; None: by its first bytes and its
            ending. A text that begins with { is NDJSON in any case, one that begins with [{ a JSON array of rows.
        stop: when set, reading ends after the present rows.
        after: where an earlier run stopped; the rows up to there are passed over. OtherSourceError: this is another
            file, or it has fewer rows.
        names: of the columns, for a CSV that has as many and no header.

    Example:
        >>> from pathlib import Path
        >>> _ = Path("few.csv").write_text("x,y\\n1,2\\n3,4\\n")
        >>> rows = read_rows("few.csv")
        >>> [(chunk.columns, chunk.lines) for chunk in rows.chunks()]
        [({'x': ('1', '3'), 'y': ('2', '4')}, [2, 3])]
        >>> rows.close()
        >>> Path("few.csv").unlink()
    """
    path = str(source)
    name = Path(path)
    kind = format or ENDINGS.get((name.with_suffix("") if name.suffix.lower() in PACKED else name).suffix.lower())
    if kind not in (None, "csv", "ndjson", "parquet"):
        raise ValueError(f"format must be 'csv', 'ndjson' or 'parquet'; got {format!r}")
    passed = lines_to_pass(path, after)
    if format is None and is_file(path) and head(path, 4) == b"PAR1":
        kind = "parquet"
    if kind == "parquet":
        if follow:
            raise RowsError(f"{path!r} is a Parquet file and cannot be followed; follow a CSV file")
        return ParquetReader(path, passed)
    return TextReader(TextLines(path, follow, stop), kind, passed, names)


class TextReader:
    """CSV or NDJSON: one row a line; or the rows of a JSON array, which are counted in place of lines.

    A chunk without rows says that a live source is silent.
    """

    def __init__(self, source: TextLines, kind: str | None, passed: int = 0, known: Sequence[str] = ()) -> None:
        self.source, self.kind, self.known = source, kind, list(known)
        self.names: list[str] = []
        self.live = source.live
        self.headless = False
        self.delimiter = ","
        self.passed = passed
        self._begun = self._ended = False
        self._line = 0  # lines that have been handed on
        self._fault = ""  # after which the elements of an array cannot be told from each other
        self._objects = 0  # JSON objects whose names were looked at

    @property
    def unit(self) -> str:
        """What the numbers of rows count."""
        return "row" if self.kind == "array" else "line"

    @property
    def sparse(self) -> bool:
        """Whether a column may show up later than in the first rows."""
        return self.kind in ("ndjson", "array") and self.live

    def progress(self) -> tuple[int, int | None]:
        """How much has been read, and of how much, if that is known."""
        return self.source.bytes_read, self.source.size

    def position(self, lines: int) -> Position:
        if self.kind == "array":
            return self.source.position(lines, lambda start: _end_of_elements(start, lines))
        return self.source.position(lines)

    def close(self) -> None:
        self.source.close()

    def chunks(self) -> Iterator[Chunk]:
        rest: list[str] = []
        try:
            for block in self.source.blocks():
                if block is None:  # a new file, which may begin with the names of the columns again
                    self._refuse_rest(rest)
                    rest, self._line, self.passed = [], 0, 0
                    self._begun, self._ended = self.kind != "array", False
                    continue
                if not block and self._line + bool(self.source.unfinished) < self.passed:
                    self._refuse_short()
                if block and not rest and not self.source.array and _is_blank(block):
                    self._line += block.count(b"\n")
                    continue
                lines, bad = _decoded(block, self._line + len(rest))
                if bad and self.source.array:
                    raise RowsError(f"{self.source.name} {NOT_UTF8}")
                lines = rest + lines
                if not self._begun:
                    lines, rest = self._begin(lines), []
                    if not self._begun:
                        continue
                read = {"ndjson": self._json, "array": self._array}.get(self.kind or "", self._csv)
                chunk, rest = read(lines)
                chunk.bad = sorted([*chunk.bad, *(row for row in bad if row.line > self.passed)])
                chunk.news, self.source.news = self.source.news, ""
                yield chunk
                if self._fault:
                    raise RowsError(self._fault)
                if len(rest) > MOST_OPEN_LINES:
                    raise RowsError(
                        f"a quote opened in line {self._line + 1} is not closed within {MOST_OPEN_LINES} lines"
                    )
        except CutShortError as error:
            raise RowsError(f"{self.unit} {self._line + len(rest) + 1}: {error}") from None
        if self.source.stop.is_set():
            return
        self._refuse_rest(rest)
        if not self._begun:
            raise RowsError(f"{self.source.name} is empty; expected a header row, then rows")
        if self._line < self.passed:
            self._refuse_short()

    def _refuse_short(self) -> None:
        raise cut_short(self.source.name, self._line, self.unit, self.passed)

    def _refuse_rest(self, rest: list[str]) -> None:
        if rest and self.kind == "array":
            raise RowsError(f"row {self._line + 1} is not JSON, or cut short: {_shown(rest[0])}")
        if self.kind == "array" and not self._ended:
            raise RowsError(f"{self.source.name} ends inside its JSON array, after row {self._line}; the ] is missing")
        if rest:
            raise RowsError(f"the file ends inside a quote that was opened in line {self._line + 1}")

    def _begin(self, lines: list[str]) -> list[str]:
        """Learn format and columns from the first line that is not empty; returns the lines that are left to read."""
        skipped = next((i for i, line in enumerate(lines) if line.strip()), len(lines))
        self._line += skipped
        lines = lines[skipped:]
        if not lines:
            return []
        self._begun = True
        first = lines[0].lstrip()
        if self.source.array:
            self.kind, self._line = "array", 0
            return [first.removeprefix("["), *lines[1:]]
        self.kind = "ndjson" if first.startswith("{") else self.kind or "csv"
        if self.kind == "ndjson":
            return lines
        self.delimiter = max(DELIMITERS, key=first.count)
        following = [line for line in lines[1 : 1 + ROW_NAMES] if line.strip()]
        if not any(mark in first for mark in DELIMITERS) and following and " " in first:
            blanks = first.strip().count(" ")
            self.delimiter = " " if following[0].strip().count(" ") in (blanks, blanks + 1) else self.delimiter
        try:
            fields = next(csv.reader([lines[0]], delimiter=self.delimiter))
        except csv.Error as error:
            raise RowsError(f"line {self._line + 1} cannot be read as CSV ({error})") from None
        numbers = sum(_is_number(value) for value in fields)
        expected = len(fields) == len(self.known)
        if fields and (numbers == len(fields) or (numbers and expected)):
            self.headless = True
            self.names = _checked(self.known if expected else [str(i + 1) for i in range(len(fields))])
            return lines
        self._line += 1
        if ROW_NAME not in fields and _begin_with_names(following, self.delimiter, len(fields)):
            fields = [ROW_NAME, *fields]
        self.names = _checked([name.strip() or f"column {i + 1}" for i, name in enumerate(fields)], self._line)
        return lines[1:]

    def _csv(self, lines: list[str]) -> tuple[Chunk, list[str]]:
        """Rows of whole lines, and the lines of a row whose quotes are still open."""
        records: list[list[str]] = []
        numbers: list[int] = []
        bad: list[BadRow] = []
        width, start = len(self.names), self._line
        done = max(0, min(len(lines), self.passed - start))
        while done < len(lines):
            reader = csv.reader(lines[done:], delimiter=self.delimiter, strict=True)
            read = 0
            try:
                for record in reader:
                    read = reader.line_num
                    if record == self.names and not self.headless:
                        if start + done + read == 1:  # of a new file
                            continue
                        bad.append(BadRow(start + done + read, "repeats the header"))
                    elif len(record) == width:
                        records.append(record)
                        numbers.append(start + done + read)
                    elif record:
                        bad.append(BadRow(start + done + read, self._wrong_width(record)))
            except csv.Error as error:
                if "unexpected end" in str(error):
                    done += read
                    break
                bad.append(BadRow(start + done + reader.line_num, f"cannot be read as CSV ({error})"))
                read = reader.line_num
            done += read
        self._line += done
        columns: dict[str, Sequence[Any]] = {}
        if records:
            columns = dict(zip(self.names, zip(*records, strict=True), strict=True))
        return Chunk(columns, numbers, bad), lines[done:]

    def _wrong_width(self, record: list[str]) -> str:
        came, expected = len(record), len(self.names)
        return (
            f"has {came} value{'s' if came != 1 else ''}, expected {expected} as in the first line: "
            f"{_shown(self.delimiter.join(record))}"
        )

    def _json(self, lines: list[str]) -> tuple[Chunk, list[str]]:
        """Rows of whole lines; of those that are passed over, the first tell the names."""
        chunk = self._objects_of(
            (number, *_object(line))
            for number, line in enumerate(lines, self._line + 1)
            if line.strip() and not (number <= self.passed and self._objects >= LOOK)
        )
        self._line += len(lines)
        return chunk, []

    def _array(self, lines: list[str]) -> tuple[Chunk, list[str]]:
        """The elements that are whole, and the text of one that is not."""
        elements: list[tuple[int, dict[str, Any] | None, str]] = []
        text, at = "".join(lines), 0
        while (at := _after_comma(text, at)) < len(text):
            number = self._line + len(elements) + 1
            if self._ended:
                self._fault = f"{self.source.name} goes on after the end of its JSON array: {_shown(text[at:])}"
                break
            if text[at] == "]":
                self._ended, at = True, at + 1
                continue
            try:
                element, at = ELEMENT.raw_decode(text, at)
            except json.JSONDecodeError:
                if len(text) - at > LONGEST_ELEMENT:
                    self._fault = f"row {number} is not JSON: {_shown(text[at:])}"
                break
            except RecursionError:
                self._fault = f"row {number} is nested too deeply for a row"
                break
            found = element if isinstance(element, dict) else None
            elements.append((number, found, f"is not a JSON object: {_shown(repr(element))}"))
        self._line += len(elements)
        return self._objects_of(elements), [text[at:]] if at < len(text) else []

    def _objects_of(self, found: Iterable[tuple[int, dict[str, Any] | None, str]]) -> Chunk:
        """Rows of numbered JSON objects, or of reasons why there is none."""
        records: list[dict[str, Any]] = []
        numbers: list[int] = []
        bad: list[BadRow] = []
        names = dict.fromkeys(self.names)
        for number, record, reason in found:
            if record is not None and self._objects < LOOK:
                self._objects += 1
                names |= dict.fromkeys(record)
            if number <= self.passed:
                continue
            if record is None:
                bad.append(BadRow(number, reason))
            else:
                records.append(record)
                numbers.append(number)
        self.names = _checked(list(names))
        columns: dict[str, Sequence[Any]] = {}
        if records:
            columns = {name: [record.get(name) for record in records] for name in self.names}
        return Chunk(columns, numbers, bad)


class ParquetReader:
    """Parquet, with the package pyarrow."""

    unit = "row"
    live = sparse = False

    def __init__(self, path: str, passed: int = 0) -> None:
        try:
            from pyarrow import ArrowException, parquet
        except ImportError:
            raise RowsError('Parquet needs pyarrow: pip install "streamgp[tables]"') from None
        self._errors = (ArrowException, ArithmeticError, OSError, ValueError)
        try:
            self._file = parquet.ParquetFile(path)
        except self._errors as error:
            raise RowsError(f"{path} cannot be read as Parquet: {_shown(str(error))}") from None
        self.path, self.passed = path, passed
        self.names = _checked([str(name) for name in self._file.schema_arrow.names])
        self._row = 0
        if passed > (rows := self._file.metadata.num_rows):
            self._file.close()
            raise cut_short(path, rows, self.unit, passed)

    def progress(self) -> tuple[int, int | None]:
        return self._row, self._file.metadata.num_rows

    def position(self, lines: int) -> Position:
        return position_of(head(self.path), lines)

    def close(self) -> None:
        self._file.close()

    def chunks(self) -> Iterator[Chunk]:
        batches = self._file.iter_batches(batch_size=ROWS)
        while True:
            try:
                batch = next(batches, None)
                if batch is None:
                    break
                n = batch.num_rows
                part = batch.slice(max(0, min(n, self.passed - self._row)))
                columns: dict[str, Sequence[Any]] = {
                    name: list(map(plain, part.column(i).to_pylist())) for i, name in enumerate(self.names)
                }
            except self._errors as error:
                raise RowsError(
                    f"row {self._row + 1}: {self.path} is damaged here ({_shown(str(error))}); the rows before are kept"
                ) from None
            self._row += n
            if part.num_rows:
                yield Chunk(columns, range(self._row - part.num_rows + 1, self._row + 1))
        if self._row == 0:
            raise RowsError(f"{self.path} is empty; expected rows")


class FrameReader:
    """A data frame of pandas, polars, pyarrow... An index of dates is its first column; all its rows are read."""

    unit = "row"
    live = sparse = False

    def __init__(self, frame: Any) -> None:
        self._columns = columns_of(frame)
        self.names = list(self._columns)
        self._rows = len(frame)
        self._row = 0

    def chunks(self) -> Iterator[Chunk]:
        while self._row < self._rows:
            start, self._row = self._row, min(self._row + ROWS, self._rows)
            columns = {name: values[start : self._row] for name, values in self._columns.items()}
            yield Chunk(columns, range(start + 1, self._row + 1))

    def progress(self) -> tuple[int, int | None]:
        return self._row, self._rows

    def position(self, lines: int) -> Position:
        """Whatever a run goes on with is read from its first row."""
        return Position()

    def close(self) -> None:
        """There is nothing to close."""


Reader = TextReader | ParquetReader | FrameReader


def _decoded(block: bytes, line: int) -> tuple[list[str], list[BadRow]]:
    """Lines of UTF-8; a line that is not is emptied and named."""
    bad: list[BadRow] = []
    try:
        text = block.decode("utf-8-sig" if line == 0 else "utf-8")
    except UnicodeDecodeError:
        parts = block.split(b"\n")
        for i, part in enumerate(parts):
            try:
                part.decode()
            except UnicodeDecodeError:
                bad.append(BadRow(line + i + 1, NOT_UTF8))
                parts[i] = b""
        text = b"\n".join(parts).decode("utf-8-sig" if line == 0 else "utf-8")
    return io.StringIO(text, newline="").readlines(), bad


def _begin_with_names(lines: list[str], delimiter: str, width: int) -> bool:
    """Whether the first rows have a value more than the header: a first one in quotes, a text, or a counter."""
    try:
        records = list(csv.reader(lines, delimiter=delimiter, strict=True))
    except csv.Error:
        return False
    if not records or any(len(record) != width + 1 or not record[-1].strip() for record in records):
        return False
    first = [record[0] for record in records]
    if all(line.startswith('"') for line in lines) or not any(map(_is_number, first)):
        return True
    return len(first) == ROW_NAMES and first == [str(i + 1) for i in range(ROW_NAMES)]


def _checked(names: list[str], line: int = 0) -> list[str]:
    """Names of columns, not too many, each but once."""
    if len(names) > MOST_COLUMNS:
        raise ValueError(
            f"the table has {len(names)} columns; the limit is {MOST_COLUMNS}. Keep those you need, for example: "
            "cut -d, -f1-100 FILE | streamgp run - ..."
        )
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        where = f"line {line}: " if line else ""
        raise RowsError(f"{where}two columns are named {twice!r}; rename one")
    return names


def _is_blank(block: bytes) -> bool:
    """Whether there is nothing in these lines; it takes next to no time, of which a file may need a lot."""
    return not block.replace(b"\r\n", b"\n").strip(b"\n\t ")


def _whole(digits: str) -> float:
    """A JSON integer; one of thousands of digits, which Python does not read, is infinite as a float."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)


def _after_comma(text: str, at: int) -> int:
    """Where the next element of an array begins."""
    between = BETWEEN.match(text, at)
    return at if between is None else between.end()


def _end_of_elements(start: bytes, count: int) -> int:
    """How many of the first bytes of an array are its first elements; all, if there are more of them."""
    text = start.decode(errors="ignore")
    at = text.find("[") + 1
    try:
        for _ in range(count):
            _, at = ELEMENT.raw_decode(text, _after_comma(text, at))
    except (json.JSONDecodeError, RecursionError):
        return len(start)
    return len(text[:at].encode())


BETWEEN = re.compile(r"[\s,]+")
ELEMENT = json.JSONDecoder(parse_int=_whole)
LONGEST_ELEMENT = 1 << 20  # characters: beyond this one that cannot be read was never meant to be


def _object(line: str) -> tuple[dict[str, Any] | None, str]:
    """The JSON object in a line, or why there is none."""
    record: Any = None
    try:
        record = ELEMENT.decode(line)
    except json.JSONDecodeError:
        pass
    except RecursionError:
        return None, "is nested too deeply for a row"
    if isinstance(record, dict):
        return record, ""
    return None, f"is not a JSON object: {_shown(line)}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _shown(text: str) -> str:
    text = " ".join(text[:200].split())
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
