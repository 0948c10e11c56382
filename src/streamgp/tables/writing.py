"""Writing predictions: CSV, NDJSON or Parquet, to a file or to standard output, so that what is written is whole."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from streamgp.settings import FloatArray
from streamgp.tables.source import RowsError

ELSEWHERE = "; choose another place with `out`"
VALUES = ("mean", "lower", "upper", "std", "observed", "log_density")


class WriteError(OSError):
    """Output that cannot be written; the message says what is safe."""


@contextlib.contextmanager
def writing(name: object, then: str = "") -> Iterator[None]:
    """A block that writes what has this name; where that cannot be done it is said, and what is added to it."""
    try:
        yield
    except (BrokenPipeError, WriteError):
        raise
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise WriteError(f"{name} cannot be written: {reason}{then}") from None


class PredictedRows(NamedTuple):
    """Predictions, one for each row to predict."""

    row: np.ndarray  # the number of the row that is predicted, from 1
    time: list[str] | None  # what its time column says; None where there is none
    mean: FloatArray  # NaN where there was nothing to predict from
    lower: FloatArray  # bounds of the calibrated interval
    upper: FloatArray
    std: FloatArray  # calibrated standard deviation
    observed: FloatArray  # NaN where it is missing or has not come yet
    log_density: FloatArray  # of what was observed
    raw_lower: FloatArray  # bounds of the model's own interval at the same level
    raw_upper: FloatArray
    pit: FloatArray  # the probability that was predicted below what was observed
    ticket: list[str] | None = None  # under which the row waits for its target; None where there are none
    p_value: FloatArray | None = None  # of what was observed, given the inputs; None where rows are not judged
    alarm: list[str] | None = None  # "spike", "level", "relation" or "" for each row
    yardsticks: FloatArray | None = None  # (n, yardsticks) simple predictions of the same rows
    learned: FloatArray | None = None  # what was observed, NaN where the model did not take it; None: it took all

    def since(self, start: int) -> PredictedRows:
        """The rows from this one on, counted from 0."""
        columns: Iterable[Any] = self
        return PredictedRows._make(None if column is None else column[start:] for column in columns)

    @classmethod
    def joined(cls, blocks: Sequence[PredictedRows]) -> PredictedRows:
        """Blocks that follow each other, as one."""
        return blocks[0] if len(blocks) == 1 else cls._make(map(_column, zip(*blocks, strict=True)))

    def numbers(self, names: Sequence[str]) -> list[FloatArray]:
        """Columns of numbers by name; NaN where there is none."""
        columns = [getattr(self, name) for name in names]
        return [np.full(len(self.row), np.nan) if column is None else column for column in columns]


def _column(parts: Sequence[Any]) -> Any:
    if parts[0] is None:
        return None
    return [*chain.from_iterable(parts)] if isinstance(parts[0], list) else np.concatenate(parts)


def write_rows(
    path: str | Path | None,
    *,
    timed: bool,
    ticketed: bool = False,
    judged: bool = False,
    as_json: bool = False,
    after: Mapping[str, Any] | None = None,
) -> Writer:
    """Open a file for predictions, CSV or Parquet by its ending.

    Args:
        path: .csv, .ndjson or .parquet; None or "-": standard output.
        timed: whether the rows have a time.
        ticketed: whether they have a ticket.
        judged: whether they have a p-value and alarms.
        as_json: one JSON object a line on standard output.
        after: what an earlier run had written, which is continued; a file that holds anything else is refused. None: a
            new run, which replaces any file.
    """
    texts = [name for name, there in (("ticket", ticketed), ("time", timed), ("alarm", judged)) if there]
    numbers = (*VALUES, "p_value") if judged else VALUES
    place = None if path is None else Path(path)
    if place is None or place.suffix.lower() != ".parquet":
        return TextWriter(place, texts, numbers, as_json, after)
    if after is not None and place.exists():
        raise WriteError(f"{place} exists, and Parquet files cannot be appended to; give `out` another name")
    return ParquetWriter(place, texts, numbers)


class TextOutput:
    """A file of text, or standard output, in which every piece that was written is whole."""

    def __init__(
        self,
        path: str | Path | None,  # .csv or .ndjson; None or "-": standard output
        as_json: bool,  # one JSON object a line on standard output
        after: bool = False,  # keep what is in the file
        kinds: str = "",  # endings that a message names
    ) -> None:
        self.rows = self._whole = 0
        self._digest = hashlib.sha256()
        if path is None or str(path) == "-":
            self._name, self._json = "standard output", as_json
            self._file: BinaryIO = sys.stdout.buffer
            return
        self._name, ending = str(path), Path(path).suffix.lower()
        if ending not in (".csv", ".ndjson", ".jsonl"):
            raise RowsError(f"unknown output format {self._name!r}; use a name that ends in {kinds}")
        self._json = ending != ".csv"
        with writing(path, ELSEWHERE):
            self._file = open(path, "r+b" if after else "wb", buffering=0)  # noqa: SIM115

    def _put(self, text: str) -> None:
        data = memoryview(text.encode(errors="replace"))
        done = 0
        with writing(self._name, f"; the {self.rows} rows before are complete"):
            try:
                while done < len(data):
                    done += self._file.write(data[done:]) or 0
                self._file.flush()
            except OSError:
                with contextlib.suppress(OSError, ValueError):
                    self._file.truncate(self._whole)
                raise
        self._whole += len(data)
        self._digest.update(data)

    def close(self) -> None:
        if self._file is not getattr(sys.stdout, "buffer", None):  # a notebook has none
            self._file.close()


class TextWriter(TextOutput):
    """CSV with a header, or NDJSON."""

    def __init__(
        self,
        path: Path | None,
        texts: Sequence[str],
        numbers: Sequence[str],
        as_json: bool,
        after: Mapping[str, Any] | None,
    ) -> None:
        with writing(path, ELSEWHERE):
            if path is not None and not (path.exists() and path.stat().st_size):
                after = None
        super().__init__(path, as_json, after is not None, ".csv, .ndjson or .parquet")
        self._texts, self._numbers = texts, numbers
        if after is not None and path is not None:
            self._go_on(after)
        elif not self._json:
            self._put(",".join(["row", *texts, *numbers]) + "\n")

    def _go_on(self, after: Mapping[str, Any]) -> None:
        """Cut the file back to what an earlier run knows it has written; refuse one that does not begin with that."""
        left = after.get("bytes", 0)
        while data := self._file.read(min(left, 1 << 20)):
            self._digest.update(data)
            left -= len(data)
        self.rows, self._whole = after.get("rows", 0), after.get("bytes", 0)
        # Before the first row there is nothing to tell it by.
        if self._known() != after or (not self.rows and self._file.read(1)):
            self._file.close()
            raise WriteError(
                f"{self._name} is not what the loaded run wrote, and is left as it is; "
                "give `out` the file of that run, or a new name"
            )
        self._file.truncate(self._whole)
        self._file.seek(self._whole)

    def write(self, predicted: PredictedRows) -> None:
        if len(predicted.row):
            self._put(self._as_json(predicted) if self._json else self._as_csv(predicted))
            self.rows += len(predicted.row)

    def _as_csv(self, predicted: PredictedRows) -> str:
        numbers = predicted.numbers(self._numbers)
        columns = [[repr(v) if v == v else "" for v in column.tolist()] for column in numbers]
        rows = list(map(str, predicted.row.tolist()))
        texts = [map(_quoted, getattr(predicted, name) or [""] * len(rows)) for name in self._texts]
        return "\n".join(map(",".join, zip(rows, *texts, *columns, strict=True))) + "\n"

    def _as_json(self, predicted: PredictedRows) -> str:
        values = map(finite, predicted.numbers(self._numbers))
        texts = {name: found for name in self._texts if (found := getattr(predicted, name)) is not None}
        names = ["row", *texts, *self._numbers]
        rows = zip(predicted.row.tolist(), *texts.values(), *values, strict=True)
        return "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)

    def written(self) -> dict[str, Any]:
        """What is safely in the file, by which a continued run knows it again."""
        os.fsync(self._file.fileno())
        return self._known()

    def _known(self) -> dict[str, Any]:
        return {"json": self._json, "rows": self.rows, "bytes": self._whole, "digest": self._digest.hexdigest()}


class ParquetWriter:
    """Parquet, with the package pyarrow; the file is whole once it is closed."""

    def __init__(self, path: Path, texts: Sequence[str], numbers: Sequence[str]) -> None:
        try:
            import pyarrow as pa
            from pyarrow import parquet
        except ImportError:
            raise RowsError('Parquet needs pyarrow: pip install "streamgp[tables]"') from None
        fields = [
            ("row", pa.int64()),
            *((name, pa.string()) for name in texts),
            *((name, pa.float64()) for name in numbers),
        ]
        self._arrow, self._path, self._texts, self._numbers = pa, path, texts, numbers
        self._schema = pa.schema(fields)
        with writing(path):
            self._writer = parquet.ParquetWriter(path, self._schema)

    def write(self, predicted: PredictedRows) -> None:
        if not len(predicted.row):
            return
        texts = [getattr(predicted, name) or [None] * len(predicted.row) for name in self._texts]
        values = [self._arrow.array(column, from_pandas=True) for column in predicted.numbers(self._numbers)]
        with writing(self._path, "; rows before may be in it"):
            try:
                self._writer.write_table(self._arrow.table([predicted.row, *texts, *values], schema=self._schema))
            except OSError:
                with contextlib.suppress(OSError):
                    self.close()
                raise

    def written(self) -> dict[str, Any]:
        return {}

    def close(self) -> None:
        self._writer.close()


Writer = TextWriter | ParquetWriter


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
