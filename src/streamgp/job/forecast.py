"""A forecast of one column of a table: its past is read and put in order, modeled over time, and continued."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from streamgp.job.job import first_rows
from streamgp.settings import FloatArray, duration, probability
from streamgp.tables import RowsError, WriteError
from streamgp.tables.columns import RowEncoder, recognize
from streamgp.tables.dates import seconds
from streamgp.tables.formats import Chunk, read_rows
from streamgp.tables.numbers import as_number
from streamgp.tables.writing import finite
from streamgp.tuning.forecaster import Forecaster, SeriesForecast

LEAST_ROWS = 10
MOST_STEPS = 10_000
# Past forecasts by which intervals are judged: at most so many, within this last part of the rows.
ORIGINS, PART = 40, 0.5
Tell = Callable[[str], None]


class Readings:
    """One column of a table in the order of time, as far as it has been read.

    Args:
        first: the first rows, which tell what the columns are.
        target: the column.
    """

    def __init__(self, first: Chunk, target: str) -> None:
        self.schema = recognize(first, target, [])
        self._encoder = RowEncoder(self.schema)
        self.times, self.y = np.empty(0), np.empty(0)
        self.zone: dt.tzinfo | None = None
        self.separator = " "
        self.is_dated = False
        self.unusable = self.repeated = self.unordered = self._read = 0

    def take(self, chunk: Chunk) -> tuple[FloatArray, FloatArray]:
        """The times and the targets of some rows, without those whose time or target cannot be read."""
        rows = self._encoder.encode(chunk)
        times = np.arange(float(len(rows.y))) + self._read
        if rows.times is not None:
            times = np.array([self._moment(text) for text in rows.times], dtype=np.float64)
        self._read += len(rows.y)
        usable = np.isfinite(times)
        self.unusable += len(rows.bad) + int(np.count_nonzero(~usable))
        return times[usable], rows.y[usable]

    def _moment(self, text: str) -> float:
        """When: seconds since 1970 of a date, or the number that stands there."""
        moment = seconds(text)
        if moment is None:
            number = as_number(text, self.schema.column(self.schema.time).decimal)
            return np.nan if number is None or self.is_dated else number
        if not self.is_dated:
            self.is_dated = True
        try:
            self.zone = dt.datetime.fromisoformat(text).tzinfo
            self.separator = "T" if "T" in text else " "
        except ValueError:  # seconds since 1970 have no zone
            self.zone = dt.UTC
        return moment

    def sort(self, times: FloatArray, y: FloatArray) -> None:
        """Begin with these rows: sorted by time, and of rows of the same time the last."""
        self.unordered += int(np.count_nonzero(np.diff(times) < 0))
        order = np.argsort(times, kind="stable")
        times, y = times[order], y[order]
        last = np.append(np.diff(times) > 0, True) if len(times) else np.zeros(0, dtype=bool)
        self.repeated += int(np.count_nonzero(~last))
        self.times, self.y = times[last], y[last]

    def add(self, time: float, y: float) -> bool:
        """Add a row that comes after all others; False if it does not."""
        if time <= self.times[-1]:
            self.unordered += time < self.times[-1]
            self.repeated += time == self.times[-1]
            return False
        self.times, self.y = np.append(self.times, time), np.append(self.y, y)
        return True

    @property
    def step(self) -> float:
        return float(np.median(np.diff(self.times)))

    def ahead(self, length: float) -> FloatArray:
        """The times of a forecast: as far apart as the rows are, up to the length."""
        steps = max(1, round(length / self.step))
        if steps > MOST_STEPS:
            raise ValueError(
                f"`ahead` is {steps} rows, which are {self.step:g} apart; the most is {MOST_STEPS}. Give a shorter time"
            )
        return np.asarray(self.times[-1] + self.step * np.arange(1.0, steps + 1))

    def as_times(self, times: FloatArray) -> Any:
        """Times as the library takes them: dates where they are."""
        return (times * 1e6).round().astype("datetime64[us]") if self.is_dated else times

    def shown(self, time: float) -> str:
        """A time as the table writes it."""
        if not self.is_dated:
            return f"{time:.15g}"
        moment = dt.datetime.fromtimestamp(time, self.zone or dt.UTC)
        return (moment if self.zone else moment.replace(tzinfo=None)).isoformat(self.separator, "seconds")

    def notes(self) -> list[str]:
        """What was read, and what was wrong with it."""
        column = self.schema.time
        others = [one for one in self.schema.columns if one.kind != "time" and one.name != self.schema.target]
        missing, gaps = int(np.count_nonzero(np.isnan(self.y))), np.diff(self.times)
        long = int(np.count_nonzero(gaps > 1.5 * self.step))
        uneven = int(np.count_nonzero(np.abs(gaps - self.step) > 0.01 * self.step)) - long
        counted = [
            (self.unusable, "rows left out because a time or a number cannot be read"),
            (self.unordered, "rows earlier than the row before, sorted by time or left out while following"),
            (self.repeated, "rows that repeat a time, the last of which counts"),
            (missing, "rows without a target, which the model passes over"),
            (long, "gaps in the times, whose lengths the model knows"),
            (uneven, "further rows not as far apart as most"),
        ]
        return [
            f"target: {self.schema.target}",
            f"time: {column}" if column else "time: the row number; there is no time column",
            f"rows: {len(self.times)}, from {self.shown(self.times[0])} to {self.shown(self.times[-1])}",
            *(f"{what}: {count}" for count, what in counted if count > 0),
            *(["other columns are not used: the forecast is of the time alone"] if others else []),
        ]


class Issued:
    """A forecast, and what it was made of."""

    def __init__(self, readings: Readings, forecaster: Forecaster, length: float, quantiles: Sequence[float]) -> None:
        self.readings, self.forecaster, self.quantiles = readings, forecaster, quantiles
        self.forecast: SeriesForecast = forecaster.forecast(readings.as_times(readings.ahead(length)))

    def rows(self) -> Iterator[dict[str, Any]]:
        """The rows of the output: when the forecast was issued, the time it is for, and its quantiles."""
        shown, values = self.readings.shown, [self.forecast.quantile(level) for level in self.quantiles]
        issued = shown(self.readings.times[-1])
        for i, time in enumerate(self.forecast.times):
            named = {f"q{level:g}": float(column[i]) for level, column in zip(self.quantiles, values, strict=True)}
            yield {"issued": issued, "time": shown(time), **named}

    def structure(self) -> str:
        """What the model is made of."""
        found = self.forecaster.chosen.structure
        seasons = [name for name in self.forecast.components if not name.startswith(("level", "trend"))]
        parts = ["level", "short memory", *["trend"] * found.trend, *(f"season {name}" for name in seasons)]
        return f"model: {', '.join(parts)}; of {'the logarithm of ' * found.log}{self.readings.schema.target}"

    def past(self, level: float) -> tuple[FloatArray, int]:
        """Of past forecasts, the part inside the interval, by steps ahead; and how many forecasts these were.

        The hyperparameters are those found on all rows; the rows themselves were learned up to each forecast only.
        """
        readings, steps = self.readings, len(self.forecast.times)
        first = max(int((1.0 - PART) * len(readings.y)), LEAST_ROWS)
        origins = np.unique(np.linspace(first, len(readings.y) - 1, ORIGINS).astype(int))
        inside, counted = np.zeros(steps), np.zeros(steps)
        model, learned = self.forecaster.fresh(), 0
        for origin in origins:
            model.learn(readings.y[learned:origin], readings.as_times(readings.times[learned:origin]))
            learned = origin
            # Which step a row is: rows may be missing, or not as far apart as most.
            step = np.round((readings.times[origin:] - readings.times[origin - 1]) / readings.step).astype(int)
            rows = origin + np.flatnonzero((step >= 1) & (step <= steps) & ~np.isnan(readings.y[origin:]))
            if not rows.size:
                continue
            low, high = model.forecast(readings.as_times(readings.times[rows])).interval(level)
            at = step[rows - origin] - 1
            np.add.at(inside, at, (low <= readings.y[rows]) & (readings.y[rows] <= high))
            np.add.at(counted, at, 1.0)
        with np.errstate(invalid="ignore"):
            return inside / counted, len(origins)


def forecast_table(
    source: str,
    target: str,
    ahead: str,
    *,
    quantiles: Sequence[float] = (0.1, 0.5, 0.9),
    seasons: Sequence[str] | None = None,
    out: str | Path | None = None,
    as_json: bool = False,
    follow: bool = False,
    every: str | None = None,
    tell: Tell = lambda _: None,
    show: Callable[[Issued], None] = lambda _: None,
    stop: threading.Event | None = None,
) -> Issued:
    """Forecast a column of a table; with ``follow`` again as rows come. Returns the last forecast.

    Args:
        source: a CSV, NDJSON or Parquet file, or "-".
        target: the column.
        ahead: how far, such as "24h"; without dates a number in the unit of the time column, or of rows.
        quantiles: probabilities; each has a column in the output.
        seasons: periods such as "1d"; None: found.
        out: a .csv or .ndjson file; None: standard output.
        as_json: write JSON to standard output.
        follow: wait for more rows at the end of the file.
        every: the least time between two forecasts while following; None: one for each row.
        tell: takes sentences for people.
        show: takes every forecast.
        stop: when set, reading ends.
    """
    levels = sorted({probability("each of `quantiles`", level) for level in quantiles})
    length, least = duration("ahead", ahead), 0.0 if every is None else duration("every", every)
    writer = _Writer(out, as_json)
    reader = read_rows(source, follow=follow, stop=stop)
    try:
        first, chunks = first_rows(reader.chunks(), reader.live)
        if not len(first):
            raise RowsError(f"{source} has no rows")
        readings = Readings(first, target)
        taken = [readings.take(first)]
        issued: Issued | None = None

        def issue(forecaster: Forecaster) -> Issued:
            made = Issued(readings, forecaster, length, levels)
            writer.write(made)
            show(made)
            return made

        def begin() -> Issued | None:
            """The first forecast, of all rows so far, if these are enough."""
            times, y = (np.concatenate(part) for part in zip(*taken, strict=True))
            if np.count_nonzero(~np.isnan(y)) < LEAST_ROWS:
                return None
            readings.sort(times, y)
            for note in readings.notes():
                tell(note)
            forecaster = Forecaster(readings.y, readings.as_times(readings.times), seasons=seasons)
            made = issue(forecaster)
            tell(made.structure())
            return made

        for chunk in chunks:
            if issued is None:
                taken.append(readings.take(chunk))
                issued = begin() if follow and not len(chunk) else None
                continue
            for time, y in zip(*readings.take(chunk), strict=True):
                since = issued.forecast.times[0]
                if readings.add(time, y):
                    issued.forecaster.learn([y], readings.as_times(np.array([time])))
                    if time - since >= least - readings.step:
                        issued = issue(issued.forecaster)
        issued = issued or begin()
    finally:
        reader.close()
        writer.close()
    if issued is None:
        raise RowsError(f"{source} has fewer than {LEAST_ROWS} rows with a number in {target!r}; a forecast needs more")
    return issued


class _Writer:
    """Forecasts as CSV or as JSON lines."""

    def __init__(self, path: str | Path | None, as_json: bool) -> None:
        self._name = "standard output" if path is None else str(path)
        ending = "" if path is None else Path(path).suffix.lower()
        if path is not None and ending not in (".csv", ".ndjson", ".jsonl"):
            raise RowsError(f"unknown output format {self._name!r}; use a name that ends in .csv or .ndjson")
        self._json = as_json if path is None else ending != ".csv"
        self._headed = False
        try:
            self._file = sys.stdout if path is None else open(path, "w", encoding="utf-8", newline="")  # noqa: SIM115
        except OSError as error:
            raise WriteError(f"{self._name} cannot be written: {error.strerror}; choose another place") from None

    def write(self, issued: Issued) -> None:
        rows = list(issued.rows())
        text = io.StringIO()
        if self._json:
            text.writelines(json.dumps(finite(row)) + "\n" for row in rows)
        else:
            table = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
            if not self._headed:
                table.writeheader()
            table.writerows(rows)
        self._headed = True
        try:
            self._file.write(text.getvalue())
            self._file.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise WriteError(f"{self._name} cannot be written: {error.strerror or error}") from None

    def close(self) -> None:
        if self._file is not sys.stdout:
            self._file.close()
