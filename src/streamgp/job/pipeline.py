"""The pipeline: a row encoder, one stream model, its scores and a position; the whole of its state in one file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from streamgp.contract import snapshot
from streamgp.contract.conditions import part
from streamgp.contract.prediction import packed, unpacked
from streamgp.contract.waiting import Tickets
from streamgp.job import saving
from streamgp.job.ahead import compile_ahead
from streamgp.job.building import checked_lags, stream_model
from streamgp.job.changes import Changes
from streamgp.job.reading import ReadableRun
from streamgp.job.request import Request
from streamgp.job.scores import RunningScores
from streamgp.job.screening import Screening
from streamgp.job.times import Times
from streamgp.job.yardsticks import yardsticks
from streamgp.settings import FloatArray, copied, whole
from streamgp.tables.columns import EncodedRows, RowEncoder, Schema
from streamgp.tables.dates import seconds
from streamgp.tables.source import Position, RowsError
from streamgp.tables.writing import PredictedRows
from streamgp.wrappers.alarms import words
from streamgp.wrappers.delayed import Delayed
from streamgp.wrappers.issuing import issued_width, learn_issued, unresolved
from streamgp.wrappers.wrapper import joined

MOST_AHEAD = 100_000  # rows whose predictions wait for their targets
MORE_TIMES = 1000  # rows beyond the warm-up whose times are kept: a change is told that many rows later at most


class Pipeline(ReadableRun):
    """Predicts the target of every row before it learns it.

    Args:
        schema: what the columns are.
        model: the name of a model, or "auto": the best of a small set on the first rows.
        settings: of the model and of the run (RunSettings) by name, as text or values.
        lags: past values of the target that are inputs; None: 0, or 10 where there is nothing else, or a horizon.
        horizon: rows ahead; 0 predicts the target of a row from its other columns, h the target h rows later from all
            that the row has, its own target included. Nothing is learned before its target has come.

    Example:
        >>> import numpy as np
        >>> from streamgp.tables.columns import Column, EncodedRows
        >>> t = np.arange(300)
        >>> schema = Schema((Column("y", "number"),), "y", ())
        >>> pipeline = Pipeline(schema, model="KRLST", settings={"warmup": 100}, lags=2, horizon=1)
        >>> predicted = pipeline.take(EncodedRows(np.empty((300, 0)), np.sin(0.3 * t), None, list(t + 2), []))
        >>> bool(np.abs(predicted.mean - predicted.observed)[-50:].max() < 0.1)
        True
    """

    def __init__(
        self,
        schema: Schema,
        model: str = "auto",
        settings: Mapping[str, Any] | None = None,
        lags: int | None = None,
        horizon: int = 0,
    ) -> None:
        self.schema, self.encoder = schema, RowEncoder(schema)
        self.horizon = whole("horizon", horizon, at_least=0, at_most=MOST_AHEAD)
        kept = {name: copied(value) for name, value in (settings or {}).items()}
        self.request = Request(model, kept, horizon, late=bool(schema.ticket))
        self.level = self.request.run.level
        compile_ahead(self.request.model)  # all at once, before the first model asks for its part
        self.lags = checked_lags(schema, self.request, lags)
        self.rows = 0
        named = yardsticks(len(schema.input_names), self.lags, self.horizon, schema.seasons)
        self.stream = stream_model(schema, self.request, self.lags, list(named.values()))
        self.screening = Screening(len(schema.input_names), self.request.run.screen)
        self.scores = RunningScores(list(named))
        self.changes = Changes(len(schema.input_names), self.request.run.drift)
        self.times = Times(self.request.run.warmup + self.horizon + MORE_TIMES)
        self.position = Position()
        self.extra: dict[str, Any] = {}  # what else is kept in the file
        self.tickets = Tickets[int](self.request.run.pending) if schema.ticket else None
        self.moment = np.array([np.nan])  # the last time
        self.scored = self._nothing()  # the rows whose targets came last

    # Rows.

    def take(self, rows: EncodedRows, ahead: bool = False) -> PredictedRows:
        """Predict a block of rows and learn it, row by row.

        Args:
            rows: from the encoder, gaps filled; with tickets as they are, because late targets leave no gaps.
            ahead: with a horizon, return predictions when they are made, of rows to come, rather than when the row that
                they are of has come.
        """
        if self.tickets is not None:
            return self._take_late(rows, self.tickets)
        n, h, start = len(rows.y), self.horizon, 0
        time, blocks = self._moments(rows.times), [] if n else [self._nothing()]
        shown = self.times.add(rows.times, n)
        while start < n:
            stop = min(n, start + (self.screening.next_look(self.rows) or n))
            X, y, moments = rows.X[start:stop], rows.y[start:stop], part(time, start, stop)
            y = self.screening.take(y, self.rows + 1)
            self.screening.keep(self.rows, X, y, moments)
            blocks.append(self._track(X, y, moments, shown[start:stop]))
            self._strike_out()
            start = stop
        self.scored = PredictedRows.joined(blocks)._replace(time=rows.times)
        self.mark_events()
        if not (h and ahead):
            return self.scored
        made = self.scored.since(min(h, n))._replace(time=None, p_value=None, alarm=None)
        coming, unknown = PredictedRows.joined([made, self.outstanding()]), np.full(n, np.nan)
        return coming.since(len(coming.row) - n)._replace(observed=unknown, log_density=unknown, pit=unknown)

    def _track(self, X: FloatArray, y: FloatArray, time: FloatArray | None, shown: FloatArray) -> PredictedRows:
        """Predict rows and learn them; score what was predicted.

        Args:
            X: (n, d) inputs.
            y: (n,) targets.
            time: (n,) times, if models forget by time.
            shown: (n,) times for people.
        """
        p, numbers = self.stream.track(X, y[:, None], time=time), np.arange(self.rows + 1, self.rows + len(y) + 1)
        predicted = self._predicted(p, numbers, y, self._judged)
        self.rows += len(y)
        self.scores.add(predicted)
        self.changes.add(X, y, predicted.mean, numbers, shown)
        return predicted

    def _strike_out(self) -> None:
        """Learn and score the first rows again if fill values are among them that could not be told when they came."""
        found = self.screening.look_back(self.rows)
        if found is None:
            return
        X, y, time = found
        again = Pipeline(self.schema, self.request.model, self.request.settings, self.lags, self.horizon)
        again.report_to(self._staged.doing)
        shown = np.array([self.times.moment(row) for row in range(1, len(y) + 1)])
        again._track(X, y, time if self._timed else None, shown)
        self.stream, self.scores, self.changes = again.stream, again.scores, again.changes

    @property
    def _timed(self) -> bool:
        """Whether models use the times of rows."""
        return self.stream._needs_time or self.stream._sees_time

    def _moments(self, times: list[str] | None) -> FloatArray | None:
        """Seconds since 1970, if models use them; one that cannot be read, or goes back, counts as the last."""
        if times is None or not self._timed:
            return None
        known = self._read(times)
        self.moment[0] = known[-1]
        return np.nan_to_num(known[1:])

    def _read(self, times: list[str]) -> FloatArray:
        """The last time and the times of rows, which do not go back; NaN: none is known so far."""
        read = [seconds(text) for text in times]
        known = np.array([self.moment[0], *(np.nan if moment is None else moment for moment in read)])
        known = np.fmax.accumulate(known)
        first = known[~np.isnan(known)]
        return np.where(np.isnan(known), first[0], known) if len(first) else known

    def _issued_at(self, times: list[str] | None) -> FloatArray | None:
        """When rows come whose targets come later, for models that see it and do not forget by it."""
        if times is None or not self._timed or self.stream._needs_time:
            return None
        return np.nan_to_num(self._read(times)[1:])

    def outstanding(self) -> PredictedRows:
        """The predictions of rows that have not come yet."""
        numbers = np.arange(self.rows + 1, self.rows + self.horizon + 1)
        return self._predicted(self._measured.upcoming(), numbers, np.full(self.horizon, np.nan))

    def _nothing(self) -> PredictedRows:
        """The prediction of no rows."""
        return self._predicted(self.stream._empty(), np.arange(0), np.empty(0), np.empty((2, 0)))

    def _predicted(
        self,
        prediction: Any,
        row: np.ndarray,
        y: FloatArray,
        judged: FloatArray | None = None,
        time: list[str] | None = None,
        ticket: list[str] | None = None,
    ) -> PredictedRows:
        """A MeasuredPrediction in columns, with the surprises and kinds of alarms of the rows, (2, n), if any."""
        p, measured = prediction.own, prediction.yardsticks
        density, pit = p._ladder.scored(y[:, None] - p.mean)
        columns = p.lower, p.upper, p.std, density, *p.raw.interval(self.level), pit
        if (unknown := np.isinf(columns[2])).any():  # before a scale is known there is nothing to write or to score
            columns = tuple(np.where(unknown, np.nan, column) for column in columns)
        mean, lower, upper, std, density, raw_lower, raw_upper, pit = [column[:, 0] for column in (p.mean, *columns)]
        p_value = alarm = None
        if judged is not None and self._alarms is not None:
            p_value, alarm = np.exp(-judged[0]), words(judged[1]).tolist()
        scored = mean, lower, upper, std, y, density, raw_lower, raw_upper, pit
        return PredictedRows(row, time, *scored, ticket, p_value, alarm, np.concatenate(measured, axis=1))

    # Rows whose targets come late, under the tickets of a column.

    def _take_late(self, rows: EncodedRows, late: Tickets[int]) -> PredictedRows:
        """Predict the rows with new tickets; learn targets that come with their row, or later."""
        new: list[int] = []  # rows of the block that are predicted
        judged = [np.empty((2, 0))]  # of these
        issued, scored = [self.stream._empty()], [self.stream._empty()]
        targets, moments, observed = [np.empty(0)], self._moments(rows.times), rows.y.copy()
        for i, (name, alone) in enumerate(rows.tickets or []):
            y, time, comes, found = rows.y[i : i + 1], part(moments, i, i + 1), not np.isnan(rows.y[i]), None
            known = name in late or (alone and comes)
            number = late.resolve(name) if known and comes else None
            if known and number is None:
                late.ignored += 1
                continue
            y = self.screening.take(y, self.rows + 1 + i) if comes else y
            if number is not None:
                p = self._delayed.resolve(number, y, time=time)
            else:
                X = self.encoder.fill(rows.part(i, i + 1)).X
                if comes:
                    late.close(name)
                    observed[i], p, found = y[0], self.stream.track(X, y[:, None], time=time), self._judged
                else:
                    late.issue(name, self.stream.rows_seen)
                    p = self._delayed.issue(X[0], time=None if self.stream._needs_time else time)
            p = p._each(np.atleast_2d)
            if not known:
                new.append(i)
                judged.append(np.full((2, 1), np.nan) if found is None else found)
                issued.append(p)
            if comes:
                scored.append(p)
                targets.append(y)
                self.times.add(None if rows.times is None else rows.times[i : i + 1], 1)
        first, y = self.scores.rows + 1, np.concatenate(targets)
        self.scored = self._predicted(joined(scored), np.arange(first, first + len(y)), y)
        self.scores.add(self.scored)
        self.mark_events()
        row = self.rows + 1 + np.array(new, dtype=int)
        self.rows += len(rows.y)
        times = None if rows.times is None else [rows.times[i] for i in new]
        names = [rows.tickets[i].name for i in new] if rows.tickets else []
        return self._predicted(joined(issued), row, observed[new], np.hstack(judged), times, names)

    @property
    def _delayed(self) -> Delayed:
        """The stream model of a run with tickets."""
        if not isinstance(self.stream, Delayed):
            raise TypeError(f"a run with a ticket column waits for targets; its model is {self.stream!r}")
        return self.stream

    # Rows whose targets come late, kept by whoever asks.

    def issue(self, rows: EncodedRows) -> FloatArray:
        """Predict rows whose targets come later, each as the next one; the run does not change.

        Args:
            rows: from the encoder, gaps not filled; their targets are not looked at.

        Returns:
            One line for each row: what it takes to learn it, and what was predicted. ``issued`` reads it, and
            ``resolve`` takes it with the target.
        """
        if self.horizon:
            raise ValueError(
                f"the run predicts {self.horizon} rows ahead and learns a row by later ones: take rows, with tickets "
                "where targets come late"
            )
        own = np.nan_to_num(np.where(np.isnan(rows.X), self.encoder.last, rows.X))
        times = self._issued_at(rows.times)
        conditions = None if times is None else self.stream._conditions_at(times, len(own), many=True)
        p, lines = unresolved(self.stream, own, conditions)
        return np.hstack([lines, packed(p, 1)])

    def issued(self, lines: FloatArray) -> PredictedRows:
        """What was predicted of rows that wait for their targets.

        Args:
            lines: from ``issue``.
        """
        return self._issued(lines, np.zeros(len(lines), dtype=int), np.full(len(lines), np.nan))

    def _issued(self, lines: FloatArray, numbers: np.ndarray, y: FloatArray) -> PredictedRows:
        p = unpacked(lines[:, issued_width(self.stream) :], self.stream._empty(), 1)
        return self._predicted(p, numbers, y)

    def resolve(self, lines: FloatArray, y: FloatArray, times: list[str] | None = None) -> PredictedRows:
        """Learn late targets in the order in which they come; each counts as a row.

        Args:
            lines: of ``issue``.
            y: (n,) their targets.
            times: when they came, if models forget by time; None: when the last row came.
        """
        time, stream = self._moments([""] * len(y) if times is None else times), self.stream
        numbers = np.arange(self.rows + 1, self.rows + len(y) + 1)
        y = self.screening.take(y, self.rows + 1)
        for t, line in enumerate(lines):
            Y = y[t : t + 1, None]
            conditions = stream._conditions(1, Y, time=part(time, t, t + 1), many=True)
            with stream._whole(quick=True):
                learn_issued(stream, line, stream._screened(Y), conditions, last=False, unchanged=False)
        self.rows += len(y)
        self.times.add(times, len(y))
        self.scored = self._issued(lines, numbers, y)
        self.scores.add(self.scored)
        self.mark_events()
        return self.scored

    # One file.

    def save(self, path: str | Path) -> None:
        """Write everything that the next row needs to one file."""
        snapshot.write(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the whole state as bytes."""
        return snapshot.packed(*self.contents())

    def contents(self) -> snapshot.Contents:
        """What a snapshot of the run has."""
        return saving.contents(self)

    @classmethod
    def load(cls, path: str | Path) -> Pipeline:
        """Return the pipeline of a file written by ``save``."""
        try:
            data = snapshot.read(path)
        except OSError as error:
            raise RowsError(f"{path} cannot be read: {error.strerror}") from None
        return cls.from_bytes(data)

    @classmethod
    def from_bytes(cls, data: bytes) -> Pipeline:
        """Return the pipeline of a snapshot."""
        return cls.of(*snapshot.unpacked(data))

    @classmethod
    def of(cls, header: dict[str, Any], tensors: dict[str, np.ndarray]) -> Pipeline:
        """Return the pipeline of ``contents``."""
        try:
            pipeline = cls(*saving.request_of(header, tensors))
            saving.restore(pipeline, header["run"], tensors)
        except snapshot.SnapshotError:
            raise
        except Exception as error:  # of whatever kind: what a file says may do anything to a constructor
            raise snapshot.SnapshotError(
                f"the snapshot does not describe a run this version can resume: {error}; start a new run, or resume it "
                "with the version that saved it"
            ) from error
        return pipeline
