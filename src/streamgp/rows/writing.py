"""Writing predictions: CSV, NDJSON or Parquet, to a file or to standard output, so that what is written is whole."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from streamgp.rows.pipeline import Lines
from streamgp.rows.source import RowsError

VALUES = ("mean", "lower", "upper", "std", "observed", "log_density")


class WriteError(OSError):
    """Output that cannot be written; the message says what is safe."""


class Writer(Protocol):
    """Takes predictions, some rows at a time."""

    def write(self, lines: Lines) -> None: ...

    def written(self) -> int:
        """Bytes that are safely in the file: where a continued run goes on."""

    def close(self) -> None: ...


def write_rows(path: str | Path | None, *, timed: bool, as_json: bool = False, after: int | None = None) -> Writer:
    """Open a file for predictions, CSV or Parquet by its ending.

    Args:
        path: .csv, .ndjson or .parquet; None or "-": standard output.
        timed: whether the rows have a time.
        as_json: one JSON object a line on standard output.
        after: go on in a file after so many bytes, of an earlier run; None: a new file.
    """
    if path is None or str(path) == "-":
        return TextWriter(sys.stdout.buffer, "standard output", timed, as_json)
    path = Path(path)
    ending = path.suffix.lower()
    if ending == ".parquet":
        if after is not None and path.exists():
            raise RowsError(f"{path} is there already, and a Parquet file cannot be continued; give --out another name")
        return ParquetWriter(path, timed)
    if ending not in (".csv", ".ndjson", ".jsonl"):
        raise RowsError(f"cannot tell how to write {str(path)!r}: end its name in .csv, .ndjson or .parquet")
    try:
        if after is not None and path.exists() and path.stat().st_size >= after:
            file: BinaryIO = open(path, "r+b", buffering=0)  # noqa: SIM115
            file.truncate(after)
            file.seek(after)
        else:
            after, file = None, open(path, "wb", buffering=0)  # noqa: SIM115
    except OSError as error:
        raise WriteError(f"{path} cannot be written: {error.strerror}; choose another place with --out") from None
    return TextWriter(file, str(path), timed, ending != ".csv", after or 0)


class TextWriter:
    """CSV with a header, or NDJSON."""

    def __init__(self, file: BinaryIO, name: str, timed: bool, as_json: bool, start: int = 0) -> None:
        self._file, self._name, self._timed, self._json = file, name, timed, as_json
        self._whole = start
        self.rows = 0
        if start == 0 and not as_json:
            first = ["row", "time"] if timed else ["row"]
            self._put(",".join([*first, *VALUES]) + "\n")

    def write(self, lines: Lines) -> None:
        if len(lines.row):
            self._put(self._as_json(lines) if self._json else self._as_csv(lines))
            self.rows += len(lines.row)

    def _as_csv(self, lines: Lines) -> str:
        columns = [[repr(value) if value == value else "" for value in values.tolist()] for values in lines.values()]
        first = [list(map(str, lines.row.tolist()))]
        if self._timed:
            times = lines.time if lines.time is not None else [""] * len(lines.row)
            first.append([_quoted(time) for time in times])
        return "\n".join(map(",".join, zip(*first, *columns, strict=True))) + "\n"

    def _as_json(self, lines: Lines) -> str:
        values = [[value if value == value else None for value in column.tolist()] for column in lines.values()]
        times = [lines.time] if self._timed and lines.time is not None else []
        names = ["row", *(["time"] if times else []), *VALUES]
        rows = zip(lines.row.tolist(), *times, *values, strict=True)
        return "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)

    def _put(self, text: str) -> None:
        data = memoryview(text.encode())
        done = 0
        try:
            while done < len(data):
                done += self._file.write(data[done:]) or 0
            self._file.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            with contextlib.suppress(OSError, ValueError):
                self._file.truncate(self._whole)
            raise WriteError(
                f"{self._name} cannot be written: {error.strerror or error}; "
                f"the {self.rows} rows before are in it, whole"
            ) from None
        self._whole += len(data)

    def written(self) -> int:
        return self._whole

    def close(self) -> None:
        if self._file is not sys.stdout.buffer:
            self._file.close()


class ParquetWriter:
    """Parquet, with the package pyarrow; the file is whole once it is closed."""

    def __init__(self, path: Path, timed: bool) -> None:
        try:
            import pyarrow as pa
            from pyarrow import parquet
        except ImportError:
            raise RowsError('Parquet needs pyarrow: pip install "streamgp[tables]"') from None
        times = [("time", pa.string())] if timed else []
        fields = [("row", pa.int64()), *times, *((name, pa.float64()) for name in VALUES)]
        self._arrow, self._path, self._timed = pa, path, timed
        self._schema = pa.schema(fields)
        self.rows = 0
        try:
            self._writer = parquet.ParquetWriter(path, self._schema)
        except OSError as error:
            raise WriteError(f"{path} cannot be written: {os.strerror(error.errno or 0)}") from None

    def write(self, lines: Lines) -> None:
        if not len(lines.row):
            return
        times: list[Any] = []
        if self._timed:
            times = [lines.time if lines.time is not None else [None] * len(lines.row)]
        values = [self._arrow.array(column, from_pandas=True) for column in lines.values()]
        try:
            self._writer.write_table(self._arrow.table([lines.row, *times, *values], schema=self._schema))
        except OSError as error:
            with contextlib.suppress(OSError):
                self.close()
            raise WriteError(f"{self._path} cannot be written: {error}; rows before may be in it") from None
        self.rows += len(lines.row)

    def written(self) -> int:
        return 0

    def close(self) -> None:
        self._writer.close()


def _quoted(text: str) -> str:
    if any(c in text for c in ',"\n'):
        return '"' + text.replace('"', '""') + '"'
    return text


def finite(value: Any) -> Any:
    """A number for JSON: NaN and inf as null, arrays as lists."""
    if isinstance(value, dict):
        return {name: finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    if isinstance(value, np.ndarray | np.generic):
        return finite(value.tolist())
    return None if isinstance(value, float) and not np.isfinite(value) else value
