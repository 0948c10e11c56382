"""Formats of rows: CSV, NDJSON and Parquet, all read into chunks of columns with the numbers of their lines."""

from __future__ import annotations

import csv
import io
import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from streamgp.rows.source import Lines, Position, RowsError, known_again

DELIMITERS = (",", ";", "\t", "|")
ROWS = 1000  # of a Parquet file at once
MOST_OPEN_LINES = 1000  # a quote that is open for longer was never meant to be closed
ENDINGS = {".csv": "csv", ".tsv": "csv", ".txt": "csv", ".ndjson": "ndjson", ".jsonl": "ndjson", ".parquet": "parquet"}


class BadRow(NamedTuple):
    """A row that cannot be used: where it is, and why."""

    line: int
    reason: str


@dataclass
class Chunk:
    """Some rows, column by column.

    Args:
        columns: the values of every column, as they were written: text, numbers, None.
        lines: the number of each row's (last) line, from 1; of the row itself in a Parquet file.
        bad: rows that are left out.
    """

    columns: dict[str, Sequence[Any]] = field(default_factory=dict)
    lines: Sequence[int] = ()
    bad: list[BadRow] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.lines)


class Reader(Protocol):
    """Reads a source in chunks; a chunk without rows says that a live source is silent."""

    unit: str  # what the numbers count: "line" or "row"
    names: list[str]
    live: bool

    def chunks(self) -> Iterator[Chunk]: ...

    def progress(self) -> tuple[int, int | None]:
        """How much has been read, and of how much, if that is known."""

    def position(self, lines: int) -> Position: ...

    def close(self) -> None: ...


def read_rows(
    source: str | Path,
    *,
    follow: bool = False,
    format: str | None = None,
    stop: threading.Event | None = None,
    after: Position | None = None,
) -> Reader:
    """Open a table for reading in chunks.

    Args:
        source: a CSV, NDJSON or Parquet file by its ending (CSV and NDJSON also with .gz), or "-" for standard input.
        follow: wait for more rows at the end of the file.
        format: "csv", "ndjson" or "parquet" for a source whose name does not say it; None: by its ending, and CSV or
            NDJSON by the first character otherwise.
        stop: when set, reading ends after the present rows.
        after: where an earlier run stopped; if this is the same source, its rows up to there are passed over.

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
    kind = format or ENDINGS.get(Path(path.removesuffix(".gz")).suffix.lower())
    if kind not in (None, "csv", "ndjson", "parquet"):
        raise ValueError(f"format must be 'csv', 'ndjson' or 'parquet'; got {format!r}")
    if after is not None and not (Path(path).is_file() and known_again(path, after)):
        after = None
    passed = 0 if after is None else after.lines
    if kind == "parquet":
        if follow:
            raise RowsError(f"{path!r} is a Parquet file, which is written whole and cannot be followed; follow a CSV")
        return ParquetReader(path, passed)
    return TextReader(Lines(path, follow, stop), kind, passed)


class TextReader:
    """CSV or NDJSON: one row a line."""

    unit = "line"

    def __init__(self, source: Lines, kind: str | None, passed: int = 0) -> None:
        self.source, self.kind = source, kind
        self.names: list[str] = []
        self.live = source.live
        self.headless = False
        self.delimiter = ","
        self.passed = passed
        self._line = 0  # lines that have been handed on

    def progress(self) -> tuple[int, int | None]:
        return self.source.bytes_read, self.source.size

    def position(self, lines: int) -> Position:
        return self.source.position(lines)

    def close(self) -> None:
        self.source.close()

    def chunks(self) -> Iterator[Chunk]:
        rest: list[str] = []
        for block in self.source.blocks():
            lines, bad = _decoded(block, self._line + len(rest))
            lines = rest + lines
            if not self.names:
                lines = self._begin(lines)
                if not self.names:
                    rest = []
                    continue
            read = self._json if self.kind == "ndjson" else self._csv
            chunk, rest = read(lines)
            if len(rest) > MOST_OPEN_LINES:
                raise RowsError(f"a quote opened in line {self._line + 1} is not closed within {MOST_OPEN_LINES} lines")
            chunk.bad = sorted([*chunk.bad, *(row for row in bad if row.line > self.passed)])
            yield chunk
        if rest:
            raise RowsError(f"the file ends inside a quote that was opened in line {self._line + 1}")
        if not self.names and not self.source.stop.is_set():
            raise RowsError(f"{self._name()} is empty; expected a line with the names of the columns, then rows")

    def _name(self) -> str:
        return "standard input" if self.source.path == "-" else self.source.path

    def _begin(self, lines: list[str]) -> list[str]:
        """Learn format and columns from the first line that is not empty; returns the lines that are left to read."""
        skipped = next((i for i, line in enumerate(lines) if line.strip()), len(lines))
        self._line += skipped
        lines = lines[skipped:]
        if not lines:
            return []
        first = lines[0].lstrip()
        if self.kind is None:
            self.kind = "ndjson" if first.startswith("{") else "csv"
        if self.kind == "ndjson":
            try:
                self.names = [str(name) for name in json.loads(first)]
            except (ValueError, TypeError):
                raise RowsError(f"line {self._line + 1} is no JSON object: {_shown(first)}") from None
            return lines
        self.delimiter = max(DELIMITERS, key=first.count)
        fields = next(csv.reader([lines[0]], delimiter=self.delimiter))
        if fields and all(_is_number(value) for value in fields):
            self.headless = True
            self.names = [str(i + 1) for i in range(len(fields))]
            return lines
        self.names = [name.strip() or f"column {i + 1}" for i, name in enumerate(fields)]
        if len(set(self.names)) < len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise RowsError(f"line {self._line + 1}: two columns are called {twice!r}; give each a name of its own")
        self._line += 1
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
                        bad.append(BadRow(start + done + read, "repeats the names of the columns"))
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
        records: list[dict[str, Any]] = []
        numbers: list[int] = []
        bad: list[BadRow] = []
        start = self._line
        for number in range(start + 1, start + len(lines) + 1):
            line = lines[number - start - 1]
            if number <= self.passed or not line.strip():
                continue
            try:
                record = json.loads(line)
            except ValueError:
                record = None
            if isinstance(record, dict):
                records.append(record)
                numbers.append(number)
            else:
                bad.append(BadRow(number, f"is no JSON object: {_shown(line)}"))
        self._line += len(lines)
        columns: dict[str, Sequence[Any]] = {}
        if records:
            columns = {name: [record.get(name) for record in records] for name in self.names}
        return Chunk(columns, numbers, bad), []


class ParquetReader:
    """Parquet, with the package pyarrow."""

    unit = "row"
    live = False

    def __init__(self, path: str, passed: int = 0) -> None:
        if not Path(path).is_file():
            raise RowsError(f"there is no file {path!r}; give a CSV, NDJSON or Parquet file, or - for standard input")
        try:
            from pyarrow import ArrowInvalid, parquet
        except ImportError:
            raise RowsError('Parquet needs pyarrow: pip install "streamgp[tables]"') from None
        try:
            self._file = parquet.ParquetFile(path)
        except ArrowInvalid as error:
            raise RowsError(f"{path} cannot be read as Parquet: {error}") from None
        self.path, self.passed = path, passed
        self.names = [str(name) for name in self._file.schema_arrow.names]
        self._row = 0

    def progress(self) -> tuple[int, int | None]:
        return self._row, self._file.metadata.num_rows

    def position(self, lines: int) -> Position:
        again = Lines(self.path)
        try:
            next(again.blocks(), b"")
            return again.position(lines)
        finally:
            again.close()

    def close(self) -> None:
        self._file.close()

    def chunks(self) -> Iterator[Chunk]:
        for batch in self._file.iter_batches(batch_size=ROWS):
            first, n = self._row, batch.num_rows
            self._row += n
            left_out = max(0, min(n, self.passed - first))
            if left_out < n:
                part = batch.slice(left_out)
                columns = {name: part.column(i).to_pylist() for i, name in enumerate(self.names)}
                yield Chunk(columns, range(first + left_out + 1, first + n + 1))
        if self._row == 0:
            raise RowsError(f"{self.path} is empty; expected rows")


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
                bad.append(BadRow(line + i + 1, "is not UTF-8 text"))
                parts[i] = b""
        text = b"\n".join(parts).decode("utf-8-sig" if line == 0 else "utf-8")
    return io.StringIO(text, newline="").readlines(), bad


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _shown(text: str) -> str:
    text = text.strip()
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
