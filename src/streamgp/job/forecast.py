"""A forecast of one column of a table: its past is read and put in order, modeled over time, and continued."""

from __future__ import annotations

import copy
import csv
import io
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from streamgp.contract.spacing import LONGEST, usual_gap
from streamgp.defaults import QUANTILES
from streamgp.job.ahead import compile_forecast
from streamgp.job.job import first_rows
from streamgp.settings import FloatArray, duration, nearest, probability
from streamgp.tables.columns import listed
from streamgp.tables.encoding import RowEncoder
from streamgp.tables.formats import Chunk, read_rows
from streamgp.tables.recognizing import recognize
from streamgp.tables.source import RowsError
from streamgp.tables.times import Written
from streamgp.tables.writing import TextOutput, finite
from streamgp.tuning.forecaster import FILL_VALUES, REPEATED, Forecaster, SeriesForecast, in_order

LEAST_ROWS = 10
MOST_STEPS = 10_000
KEPT = MOST_STEPS  # rows that are kept while following: as many as the longest forecast has
# Rows at the end, fewer than LEAST_ROWS, have a wrong time stamp rather than a pause before them if that would be this
# many times as long as all before it, and longer than LONGEST (contract/spacing.py).
FAR = 3.0
# Rows of another table whose times differ by less than this part of the time between rows are of the same time.
SAME = 1e-3
# What is counted of rows, in the order in which it is told.
UNUSABLE = "rows left out because a time or a number cannot be read"
UNORDERED = "rows earlier than the row before, sorted by time or left out while following"
BEYOND = "rows left out because their time is far beyond all others, such as {}; check the clock"
MISSING = "rows without a target, which the model passes over"
LONG = "gaps in the times, whose lengths the model knows"
UNEVEN = "further rows not as far apart as most"
COUNTED = UNUSABLE, UNORDERED, REPEATED, BEYOND, MISSING, LONG, UNEVEN
Tell = Callable[[str], None]
Rows = tuple[FloatArray, FloatArray, FloatArray]  # times, targets, inputs


class Readings:
    """One column of a table in the order of time, as far as it has been read, and those that explain it.

    Args:
        first: the first rows, which tell what the columns are.
        target: the column.
        inputs: the columns that explain it; a gap in one is filled with its last value.
    """

    def __init__(self, first: Chunk, target: str, inputs: Sequence[str] = ()) -> None:
        self.schema = recognize(first, target, list(inputs))
        self.is_dated = self.schema.is_dated
        self._encoder = RowEncoder(self.schema)
        self._read = 0
        self._written = Written()  # as the last date is
        # Of the last rows; columns are the inputs, (n, d).
        self.times, self.y, self.columns = np.empty(0), np.empty(0), np.empty((0, len(self.schema.input_names)))
        self.rows = 0  # of all rows how many there are, the time of the first, and how far apart they usually are
        self.first = self.step = np.nan
        self.counts = dict.fromkeys(COUNTED, 0)
        self.refused = 0  # targets that the model takes for fill values
        self._far_now, self._far_time = 0, np.nan  # rows far beyond all others that came last; the first of all of them

    def take(self, chunk: Chunk) -> Rows:
        """The times, the targets and the inputs of some rows, without those that cannot be read."""
        rows = self._encoder.fill(self._encoder.encode(chunk))
        times = np.arange(float(len(rows.y))) + self._read
        if rows.times is not None:
            times = self.schema.reader.moments(rows.times)
            if self.is_dated and (dated := np.flatnonzero(np.isfinite(times))).size:
                self._written = Written.like(rows.times[dated[-1]], self._written.separator)
        self._read += len(rows.y)
        usable = np.isfinite(times)
        self.counts[UNUSABLE] += len(rows.bad) + int(np.count_nonzero(~usable))
        return times[usable], rows.y[usable], rows.X[usable]

    def take_future(self, chunk: Chunk) -> Rows:
        """The same for rows of another table, which has the time and the inputs."""
        encoder = copy.deepcopy(self._encoder)
        rows = encoder.fill(encoder.encode(chunk))
        times = self.schema.reader.moments(rows.times or [])
        usable = np.isfinite(times)
        return times[usable], rows.y[usable], rows.X[usable]

    def sort(self, taken: Sequence[Rows]) -> None:
        """Begin with these rows: sorted by time, of rows of the same time the last, without those far in the future."""
        came = np.concatenate([part[0] for part in taken])
        times, y, X = ordered(taken)
        self.counts[UNORDERED] += int(np.count_nonzero(np.diff(came) < 0))
        self.counts[REPEATED] += len(came) - len(times)
        self.first, self.step = float(times[0]), usual_gap(times)
        n = len(times)
        last = range(max(LEAST_ROWS, n - LEAST_ROWS + 1), n)
        if (kept := next((k for k in last if self._is_far(times[k - 1], times[k])), n)) < n:
            self.counts[BEYOND], self._far_time = n - kept, float(times[kept])
        self.times, self.y, self.columns = times[:kept], y[:kept], X[:kept]
        self._count(np.diff(self.times), self.y)

    def add(self, time: float, y: float, x: FloatArray) -> bool:
        """Add a row that comes after all others; False if it does not, or only by a wrong time stamp."""
        last = self.times[-1]
        if time <= last:
            self.counts[UNORDERED if time < last else REPEATED] += 1
            return False
        self._far_now = self._far_now + 1 if self._is_far(last, time) else 0
        if 0 < self._far_now < LEAST_ROWS:
            self.counts[BEYOND] += 1
            self._far_time = time
            return False
        self.times = np.append(self.times[1 - KEPT :], time)
        self.y = np.append(self.y[1 - KEPT :], y)
        self.columns = np.vstack([self.columns[1 - KEPT :], x])
        self._count(np.array([time - last]), self.y[-1:])
        return True

    def _is_far(self, before: float, time: float) -> bool:
        """Whether a time is so long after the one before it that it is rather wrong."""
        return bool(time - before > max(LONGEST * self.step, FAR * (before - self.first)))

    def _count(self, gaps: FloatArray, y: FloatArray) -> None:
        """Take note of what the notes say of rows."""
        long = gaps > 1.5 * self.step
        self.rows += len(y)
        self.counts[MISSING] += int(np.count_nonzero(np.isnan(y)))
        self.counts[LONG] += int(np.count_nonzero(long))
        self.counts[UNEVEN] += int(np.count_nonzero(~long & (np.abs(gaps - self.step) > 0.01 * self.step)))

    def believe(self, y: FloatArray) -> None:
        """Take the targets of the last rows as the model learned them, which may have found fill values among them."""
        last = self.y[len(self.y) - len(y) :]
        self.refused += int(np.count_nonzero(np.isnan(y) & ~np.isnan(last)))
        last[:] = y

    @property
    def inputs(self) -> FloatArray | None:
        """The inputs of all rows, if there are any."""
        return self.columns if self.columns.shape[1] else None

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
        return self._written.shown(time)

    def notes(self) -> list[str]:
        """What was read, and what was wrong with it."""
        column = self.schema.time
        used = (*self.schema.inputs, self.schema.target, column, *self.schema.time_parts)
        others = [one.name for one in self.schema.columns if one.name not in used]
        far = self.shown(self._far_time) if self.counts[BEYOND] else ""
        return [
            f"target: {self.schema.target}",
            f"time: {column}" if column else "time: the row number; there is no time column",
            f"rows: {self.rows}, from {self.shown(self.first)} to {self.shown(self.times[-1])}",
            *(f"{what.format(far)}: {count}" for what, count in self.counts.items() if count),
            *([f"not used: {listed(others)}"] if others else []),
        ]


def ordered(taken: Sequence[Rows]) -> Rows:
    """Rows sorted by time, and of rows of the same time the last."""
    times, y, X = (np.concatenate(part) for part in zip(*taken, strict=True))
    at = in_order(times)
    return times[at], y[at], X[at]


class Future:
    """Inputs that are known in advance: a table with the time and the inputs, read anew for each forecast.

    Args:
        source: a CSV, NDJSON or Parquet file.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.notes: list[str] = []

    def columns(self) -> list[str]:
        """The names of its columns."""
        with closing(read_rows(self.source)) as reader:
            return list(next(iter(reader.chunks()), Chunk()).columns)

    def at(self, readings: Readings, times: FloatArray) -> FloatArray:
        """The inputs at times after the last reading: its rows, between them interpolated, beyond them the last."""
        with closing(read_rows(self.source)) as reader:
            chunks = list(reader.chunks())
        schema, named = readings.schema, {name for chunk in chunks for name in chunk.columns}
        for name in (*schema.inputs, *(schema.time_parts or (schema.time,))):
            if name not in named:
                raise RowsError(
                    f"{self.source} has no column {name!r}, which the other table has.{nearest(name, named)}"
                )
        known, _, X = ordered([readings.take_future(chunk) for chunk in chunks])
        now = readings.times[-1]
        later = known > now
        if not later.any():
            raise RowsError(
                f"{self.source} has no row after {readings.shown(now)}, where the forecast begins; it needs rows up to "
                f"{readings.shown(times[-1])}"
            )
        known, X = np.append(now, known[later]), np.vstack([readings.columns[-1:], X[later]])
        before = np.searchsorted(known, times + SAME * readings.step, side="right") - 1
        own = np.abs(known[before] - times) <= SAME * readings.step
        beyond = ~own & (before == len(known) - 1)
        found = X[before]
        numbers = [schema.column(name).kind == "number" for name in schema.inputs for _ in schema.column(name).inputs()]
        for j in np.flatnonzero(numbers):
            found[~own, j] = np.interp(times[~own], known, X[:, j])
        counted = (
            (own, "from its rows"),
            (~own & ~beyond, "between two of its rows, where numbers are interpolated"),
            (beyond, "beyond its last row, whose values stay"),
        )
        parts = [f"{np.count_nonzero(which)} {where}" for which, where in counted if which.any()]
        self.notes = [f"inputs: {listed(schema.inputs)}; times ahead in {self.source}: {', '.join(parts)}"]
        return found


class Issued:
    """A forecast, and what it was made of.

    Args:
        readings: the rows so far.
        forecaster: what has learned them.
        length: how far to forecast.
        quantiles: probabilities, sorted.
        future: inputs that are known in advance.
        parts: of past forecasts, (forecasts, steps) the probability of the central interval that reaches each target.
    """

    def __init__(
        self,
        readings: Readings,
        forecaster: Forecaster,
        length: float,
        quantiles: Sequence[float],
        future: Future | None = None,
        parts: FloatArray | None = None,
    ) -> None:
        self.readings, self.forecaster, self.quantiles, self.future = readings, forecaster, quantiles, future
        times = readings.ahead(length)
        X = None if future is None else future.at(readings, times)
        if parts is None:
            parts = forecaster.calibrate(
                readings.y, readings.as_times(readings.times), readings.inputs, steps=len(times)
            )
        self.parts = parts
        self.forecast: SeriesForecast = forecaster.issue_forecast(readings.as_times(times), X)

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
        named = list(self.forecast.components)
        seasons = [f"season {name}" for name in named if not name.startswith(("inputs", "level", "trend"))]
        parts = [*["inputs"] * ("inputs" in named), "level", "short memory", *["trend"] * found.trend, *seasons]
        return f"model: {', '.join(parts)}; of {'the logarithm of ' * found.log}{self.readings.schema.target}"

    def notes(self) -> list[str]:
        """What the forecast was made of, and what it supposes."""
        inputs = self.readings.schema.inputs
        if self.future is not None:
            about = self.future.notes
        elif inputs:
            about = [f"inputs: {listed(inputs)}; their last values stay, because there is no table of future ones"]
        else:
            about = ["inputs: none; the forecast is of the time alone"]
        refused = self.readings.refused
        return [*([f"{FILL_VALUES}: {refused}"] if refused else []), *about, self.structure()]

    def past(self, level: float) -> FloatArray:
        """Of past forecasts, the part inside the interval, by steps ahead; NaN where there was none."""
        known = ~np.isnan(self.parts)
        with np.errstate(invalid="ignore"):
            return np.asarray((known & (self.parts <= level)).sum(axis=0) / known.sum(axis=0))


def forecast_table(
    source: str,
    target: str,
    ahead: str,
    *,
    quantiles: Sequence[float | str] = QUANTILES,
    seasons: Sequence[str] | None = None,
    inputs: Sequence[str] | None = None,
    future: str | None = None,
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
        inputs: columns that explain the target; None: those that ``future`` has too, without it none.
        future: a table with the time and the inputs of the times ahead; None: the last values of inputs stay.
        out: a .csv or .ndjson file; None: standard output.
        as_json: write JSON to standard output.
        follow: wait for more rows at the end of the file.
        every: the least time between two forecasts while following; None: one for each row.
        tell: takes sentences for people.
        show: takes every forecast.
        stop: when set, reading ends.
    """
    try:
        levels = sorted({probability("each of `quantiles`", float(level)) for level in quantiles})
    except ValueError:
        text = ",".join(map(str, quantiles))
        raise ValueError(
            f"`quantiles` are probabilities above 0 and below 1, such as 0.1,0.5,0.9; got {text}"
        ) from None
    length, least = duration("ahead", ahead), 0.0 if every is None else duration("every", every)
    issued: Issued | None = None
    with (
        closing(_Writer(out, as_json, kinds=".csv or .ndjson")) as writer,
        closing(read_rows(source, follow=follow, stop=stop)) as reader,
    ):
        first, chunks, _ = first_rows(reader.chunks(), reader.live)
        if not len(first):
            raise RowsError(f"{source} has no rows")
        ahead_of = None if future is None else Future(future)
        readings = Readings(first, target, _explaining(first, target, inputs, ahead_of))

        def issue(earlier: Issued | None = None) -> Issued:
            """A forecast by the model of an earlier one; without it by one that is found for the rows so far."""
            if earlier is None:
                model = Forecaster(readings.y, readings.as_times(readings.times), readings.inputs, seasons=seasons)
                readings.believe(model.targets)
                made = Issued(readings, model, length, levels, ahead_of)
            else:
                made = Issued(readings, earlier.forecaster, length, levels, ahead_of, earlier.parts)
            writer.write(made)
            show(made)
            return made

        def begin() -> Issued | None:
            """The first forecast, of all rows so far, if these are enough."""
            if np.count_nonzero(~np.isnan(ordered(taken)[1])) < LEAST_ROWS:
                return None
            compile_forecast()
            readings.sort(taken)
            for note in readings.notes():
                tell(note)
            made = issue()
            for note in made.notes():
                tell(note)
            return made

        taken = [readings.take(first)]
        for chunk in chunks:
            rows = readings.take(chunk)
            if issued is None:
                taken.append(rows)
                issued = begin() if follow and not len(chunk) else None
                continue
            for time, y, x in zip(*rows, strict=True):
                since = issued.forecast.times[0]
                if not readings.add(time, y, x):
                    continue
                given = None if readings.inputs is None else x[None]
                try:
                    issued.forecaster.learn(readings.y[-1:], readings.as_times(np.array([time])), given)
                except ValueError:
                    if not issued.forecaster.chosen.structure.log:
                        raise
                    tell(f"a target is not above 0, so that logarithms no longer do: the model is found anew: {y:g}")
                    issued = issue()
                    continue
                readings.believe(issued.forecaster.targets)
                if time - since >= least - readings.step:
                    issued = issue(issued)
        issued = issued or begin()
    if issued is None:
        raise RowsError(
            f"{source} has fewer than {LEAST_ROWS} rows with a number in {target!r} and times of their own; a forecast "
            "needs more"
        )
    return issued


def _explaining(first: Chunk, target: str, inputs: Sequence[str] | None, future: Future | None) -> list[str]:
    """The columns that explain the target: those named, or those that the table of the future has too."""
    if inputs is not None or future is None:
        return list(inputs or ())
    shared = [name for name in future.columns() if name in first.columns and name != target]
    time = recognize(first, target, [])
    found = [name for name in shared if name not in (time.time, *time.time_parts)]
    if not found:
        raise RowsError(
            f"{future.source} shares no column with the table but the time; name its columns as the table does, whose "
            f"columns are: {listed(list(first.columns))}"
        )
    return found


class _Writer(TextOutput):
    """Forecasts as CSV or as JSON lines."""

    def write(self, issued: Issued) -> None:
        rows = list(issued.rows())
        text = io.StringIO()
        if self._json:
            text.writelines(json.dumps(finite(row)) + "\n" for row in rows)
        else:
            table = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
            if not self.rows:
                table.writeheader()
            table.writerows(rows)
        self._put(text.getvalue())
        self.rows += len(rows)
