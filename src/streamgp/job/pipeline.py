"""The pipeline: a row encoder, one stream model, its scores and a position; the whole of its state in one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from streamgp.contract import snapshot
from streamgp.contract.prediction import packed, unpacked
from streamgp.contract.saved import refuse_unlike
from streamgp.contract.waiting import Tickets
from streamgp.job.ahead import compile_ahead
from streamgp.job.building import MOST_INPUTS, default_lags, stream_model
from streamgp.job.reading import ReadableRun
from streamgp.job.request import AUTO, Request
from streamgp.job.scores import RunningScores
from streamgp.job.screening import Screening
from streamgp.job.yardsticks import MeasuredPrediction, only_where, yardsticks
from streamgp.loading import decoded, model_of
from streamgp.settings import FloatArray, copied, whole
from streamgp.tables.columns import EncodedRows, RowEncoder, Schema
from streamgp.tables.dates import seconds
from streamgp.tables.source import Position, RowsError
from streamgp.tables.writing import PredictedRows
from streamgp.wrappers.alarms import words
from streamgp.wrappers.delayed import Ahead, Delayed, issued_width, learn_issued, unresolved

MOST_AHEAD = 100_000  # rows whose predictions wait for their targets
MODEL = "model"  # in a file


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
        own = len(schema.input_names)
        self.lags = (
            default_lags(schema, self.request.model, horizon) if lags is None else whole("lags", lags, at_least=0)
        )
        if own + self.lags > MOST_INPUTS:
            raise ValueError(
                f"a row would have {own + self.lags} inputs ({own} of the columns, {self.lags} lags); the limit is "
                f"{MOST_INPUTS}. Select columns with `inputs`, or lower `lags`"
            )
        if own + self.lags == 0:
            raise RowsError(
                "nothing to predict from: the target is the only column in use; give `lags=10`, or `inputs`"
            )
        compile_ahead(self.request.model)
        self.rows = 0
        self._known_from = -1  # the first row of the model that was predicted with a target known; -1: none was
        named = yardsticks(own, self.lags, self.horizon, schema.seasons)
        self.stream = stream_model(schema, self.request, self.lags, list(named.values()))
        self.screening = Screening(own, self.request.run.screen)
        self.scores = RunningScores(list(named))
        self.position = Position()
        self.extra: dict[str, Any] = {}  # what else is kept in the file
        self._late = Tickets[int](self.request.run.pending) if schema.ticket else None
        self._moment = np.array([np.nan])  # the last time
        self.scored: PredictedRows  # the rows whose targets came last
        self.previous: FloatArray  # the previous value as a prediction of the rows scored last
        self._count(_measured(self.stream._empty()), np.empty(0), 1)
        if self.stream._needs_time and not schema.time:
            which, instead = "half_life", "drop `half_life` to forget by rows"
            if not self.request.by_time:
                which, instead = "a rate of alarms by time", "give `alarms` for each row, such as 1e-3"
            raise RowsError(
                f"{which} needs a column that says when each row was observed, with dates or Unix times, and there is "
                f"none; {instead}"
            )

    # Rows.

    def take(self, rows: EncodedRows, ahead: bool = False) -> PredictedRows:
        """Predict a block of rows and learn it, row by row.

        Args:
            rows: from the encoder, gaps filled; with tickets as they are, because late targets leave no gaps.
            ahead: with a horizon, return predictions when they are made, of rows to come, rather than when the row that
                they are of has come.
        """
        if self._late is not None:
            return self._take_late(rows, self._late)
        n, h = len(rows.y), self.horizon
        parts, targets, judged, start = [], [], [], 0
        time = self._moments(rows.times)
        while start < n:
            stop = min(n, start + (self.screening.next_look(self.rows) or n))
            y = self.screening.take(rows.y[start:stop], self.rows + 1)
            X, moments = np.ascontiguousarray(rows.X[start:stop]), None if time is None else time[start:stop]
            self.screening.keep(self.rows, X, y, moments)
            parts.append(self._track(X, y, moments))
            targets.append(y)
            judged.append(self._judged(len(y)))
            self._strike_out()
            start = stop
        numbers = np.arange(self.rows - n + 1, self.rows + 1)
        if len(parts) == 1:
            resolved, predicted = parts[0], self.scored._replace(time=rows.times)
        else:  # none, or several because the first rows were looked at again between them
            resolved = _joined([_measured(self.stream._empty()), *parts])
            y = np.concatenate([np.empty(0), *targets])
            predicted = self._predicted(resolved, numbers, rows.times, y)
            self.previous = resolved.yardsticks[0]
        self.scored = predicted = self._with_alarms(predicted, np.hstack([np.empty((2, 0)), *judged]))
        if h and ahead:
            coming = _measured(_joined([resolved[min(h, n) :], self._upcoming()])[-n:]) if n else resolved
            return self._predicted(coming, numbers + h, None, np.full(n, np.nan))
        return predicted

    def _judged(self, n: int) -> FloatArray:
        """Surprises and kinds of alarms of the n rows that were learned last, (2, n)."""
        alarms = self._alarms
        return np.full((2, n), np.nan) if alarms is None else alarms._found[:, :, 0]

    def _with_alarms(self, predicted: PredictedRows, judged: FloatArray) -> PredictedRows:
        if self._alarms is None:
            return predicted
        return predicted._replace(p_value=np.exp(-judged[0]), alarm=words(judged[1]).tolist())

    def _strike_out(self) -> None:
        """Learn and score the first rows again if fill values are among them that could not be told when they came."""
        found = self.screening.look_back(self.rows)
        if found is None:
            return
        X, y, time = found
        again = Pipeline(self.schema, self.request.model, self.request.settings, self.lags, self.horizon)
        again.report_to(self._staged.doing)
        again._track(X, y, time if self.stream._needs_time else None)
        self.stream, self.scores, self._known_from = again.stream, again.scores, again._known_from

    def _track(self, X: FloatArray, y: FloatArray, time: FloatArray | None) -> MeasuredPrediction:
        """Predict rows and learn them; score what was predicted."""
        p = self._tracked(X, y, time)
        self._count(p, y, self.rows + 1)
        self.rows += len(y)
        return p

    def _tracked(self, X: FloatArray, y: FloatArray, time: FloatArray | None) -> MeasuredPrediction:
        """Predict rows and learn them."""
        numbers = self.stream.rows_seen + np.arange(len(y))
        p = _measured(self.stream.track(X, y, time=time))
        self._see(y, numbers + (not self.horizon))  # with a horizon a row is predicted from with its own target known
        return self._known(p, numbers)

    def _see(self, y: FloatArray, rows: np.ndarray) -> None:
        """Targets come, each of which is known from a row of the model on."""
        known = rows[~np.isnan(y)]
        if self._known_from < 0 and known.size:
            self._known_from = int(known[0])

    def _known(self, p: MeasuredPrediction, numbers: np.ndarray) -> MeasuredPrediction:
        """Predictions of these rows of the model, NaN where there was nothing to predict from."""
        issued = numbers - self.horizon
        after = (self._known_from >= 0) & (issued >= self._known_from)
        needs_past = self.lags or self.request.model == AUTO
        own = only_where(after if needs_past else issued >= 0, p.own)
        return MeasuredPrediction.of(own, [np.where(after, p.yardsticks[0], np.nan), *p.yardsticks[1:]])

    def _count(self, p: MeasuredPrediction, y: FloatArray, first: int) -> None:
        """Score predictions whose targets have come; the first counts as this row."""
        self.scored = self._predicted(p, first + np.arange(len(y)), None, y)
        self.previous = p.yardsticks[0]
        self.scores.add(self.scored, np.column_stack(p.yardsticks))

    def _moments(self, times: list[str] | None) -> FloatArray | None:
        """Seconds since 1970, if models forget by time; one that cannot be read, or goes back, counts as the last."""
        if times is None or not self.stream._needs_time:
            return None
        read = [seconds(text) for text in times]
        known = np.array([self._moment[0], *(np.nan if moment is None else moment for moment in read)])
        known = np.fmax.accumulate(known)
        first = known[~np.isnan(known)]
        known[np.isnan(known)] = first[0] if len(first) else 0.0
        self._moment[0] = known[-1] if len(first) else np.nan
        return known[1:]

    def outstanding(self) -> PredictedRows:
        """The predictions of rows that have not come yet."""
        coming = self._upcoming()
        numbers = np.arange(self.rows + 1, self.rows + len(coming) + 1)
        return self._predicted(coming, numbers, None, np.full(len(coming), np.nan))

    def _upcoming(self) -> MeasuredPrediction:
        """What was predicted of the next rows; NaN where nothing could be."""
        ahead = next((one for one in self.model._family() if isinstance(one, Ahead)), None)
        coming = self.model._empty() if ahead is None else ahead.upcoming()
        missing = np.full(self.horizon - len(coming), np.nan)  # before the first rows
        own = coming._each(lambda part: np.concatenate([missing, part]))
        p = MeasuredPrediction.of(own, [np.full(self.horizon, np.nan)] * len(self.scores.names))
        return self._known(p, self.stream.rows_seen + np.arange(self.horizon))

    # Rows whose targets come late, under the tickets of a column.

    def _take_late(self, rows: EncodedRows, late: Tickets[int]) -> PredictedRows:
        """Predict the rows with new tickets; learn targets that come with their row, or later."""
        new: list[int] = []  # rows of the block that are predicted
        judged = [np.empty((2, 0))]  # of these
        issued, scored = [_measured(self.stream._empty())], [_measured(self.stream._empty())]
        targets, moments, observed = [np.empty(0)], self._moments(rows.times), rows.y.copy()
        for i, (name, alone) in enumerate(rows.tickets or []):
            time, comes = None if moments is None else moments[i : i + 1], not np.isnan(rows.y[i])
            if name in late or (alone and comes):
                number = late.resolve(name) if comes else None
                if number is None:
                    late.ignored += 1
                    continue
                y = self.screening.take(rows.y[i : i + 1], self.rows + 1 + i)
                p = self._resolved(number, y, time)
            else:
                X = np.ascontiguousarray(self.encoder.fill(rows.part(i, i + 1)).X)
                if comes:
                    late.close(name)
                    y = observed[i : i + 1] = self.screening.take(rows.y[i : i + 1], self.rows + 1 + i)
                    p = self._tracked(X, y, time)
                else:
                    late.issue(name, number := self.stream.rows_seen)
                    p = self._known(_measured(self._delayed.issue(X[0])), np.array([number]))
                new.append(i)
                judged.append(self._judged(1) if comes else np.full((2, 1), np.nan))
                issued.append(p)
            if comes:
                scored.append(p)
                targets.append(y)
        self._count(_joined(scored), np.concatenate(targets), self.scores.rows + 1)
        times = None if rows.times is None else [rows.times[i] for i in new]
        row = self.rows + 1 + np.array(new, dtype=int)
        self.rows += len(rows.y)
        names = [rows.tickets[i].name for i in new] if rows.tickets else []
        predicted = self._predicted(_joined(issued), row, times, observed[new], names)
        return self._with_alarms(predicted, np.hstack(judged))

    def _resolved(self, number: int, y: FloatArray, time: FloatArray | None) -> MeasuredPrediction:
        """Learn the target of a row of the model; what was predicted of it."""
        self._see(y, np.array([self.stream.rows_seen]))
        p = _measured(self._delayed.resolve(number, y[0], time=None if time is None else time[0]))
        return self._known(p, np.array([number]))

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
        p, lines = unresolved(self.stream, own)
        p = self._known(_measured(self.stream._shaped(p, many=True)), np.full(len(own), self.stream.rows_seen))
        return np.hstack([lines, packed(p._each(lambda part: part[:, None]), 1)])

    def issued(self, lines: FloatArray) -> PredictedRows:
        """What was predicted of rows that wait for their targets.

        Args:
            lines: from ``issue``.
        """
        unknown = np.full(len(lines), np.nan)
        return self._predicted(self._issued(lines), np.zeros(len(lines), dtype=int), None, unknown)

    def _issued(self, lines: FloatArray) -> MeasuredPrediction:
        p = unpacked(lines[:, issued_width(self.stream) :], self.stream._empty(), 1)
        return _measured(p._each(lambda part: part[:, 0]))

    def resolve(self, lines: FloatArray, y: FloatArray, times: list[str] | None = None) -> PredictedRows:
        """Learn late targets in the order in which they come; each counts as a row.

        Args:
            lines: of ``issue``.
            y: (n,) their targets.
            times: when they came, if models forget by time; None: when the last row came.
        """
        moments = self._moments([""] * len(y) if times is None else times)
        first, stream = self.rows + 1, self.stream
        y = self.screening.take(y, first)
        for t, line in enumerate(lines):
            Y = y[t : t + 1, None]
            self._see(y[t : t + 1], np.array([stream.rows_seen]))
            conditions = stream._conditions(1, Y, time=None if moments is None else moments[t], many=False)
            with stream._whole(quick=True):
                learn_issued(stream, line, stream._screened(Y), conditions, last=False, unchanged=False)
            self.rows += 1
        self._count(self._issued(lines), y, first)
        return self.scored

    def _predicted(
        self,
        prediction: MeasuredPrediction,
        row: np.ndarray,
        time: list[str] | None,
        y: FloatArray,
        ticket: list[str] | None = None,
    ) -> PredictedRows:
        p = prediction.own
        parts = p.lower, p.upper, p.std, p.log_density(y), *p.raw.interval(self.level), p.pit(y)
        # Before a scale is known the intervals are infinite: there is nothing to write or to score.
        lower, upper, std, density, raw_lower, raw_upper, pit = np.where(np.isinf(p.std), np.nan, parts)
        return PredictedRows(row, time, p.mean, lower, upper, std, y, density, raw_lower, raw_upper, pit, ticket)

    # One file.

    def save(self, path: str | Path) -> None:
        """Write everything that the next row needs to one file."""
        snapshot.write(path, self.to_bytes())

    def _arrays(self) -> dict[str, np.ndarray]:
        """The arrays of all parts by name, of fixed shape."""
        return {"last": self.encoder.last, "moment": self._moment, "scores": self.scores.sums}

    def to_bytes(self) -> bytes:
        """Return the whole state as bytes."""
        return snapshot.packed(*self.contents())

    def contents(self) -> snapshot.Contents:
        """What a snapshot of the run has."""
        request = self.request
        settings, parts = snapshot.encoded(request.settings)
        models, states = snapshot.nested({MODEL: snapshot.contents(self.stream)})
        header = {
            "holds": "a run over rows of a table",
            "run": {
                "schema": self.schema.to_dict(),
                "model": request.model,
                "settings": settings,
                "lags": self.lags,
                "horizon": self.horizon,
                "gaps": self.encoder.gaps,
                "rows": self.rows,
                "known_from": self._known_from,
                "position": list(self.position),
                "about": self.extra,
                "late": None if self._late is None else _tickets(self._late),
                "models": models,
            },
        }
        return header, self._arrays() | self.screening.arrays() | parts | states

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
        if "run" not in header:
            raise snapshot.SnapshotError(
                f"the snapshot holds a single {header.get('model', 'model')}, not a run; open it with sg.load, "
                "or start a new run"
            )
        try:
            return cls._restored(header["run"], tensors)
        except snapshot.SnapshotError:
            raise
        except Exception as error:  # of whatever kind: what a file says may do anything to a constructor
            raise snapshot.SnapshotError(
                f"the snapshot does not describe a run this version can resume: {error}; start a new run, or resume it "
                "with the version that saved it"
            ) from error

    @classmethod
    def _restored(cls, saved: dict[str, Any], tensors: dict[str, np.ndarray]) -> Pipeline:
        pipeline = cls(
            Schema.from_dict(saved["schema"]),
            saved["model"],
            decoded(saved["settings"], tensors, {}),
            saved["lags"],
            saved["horizon"],
        )
        pipeline.rows = whole("rows", saved["rows"], at_least=0)
        pipeline._known_from = whole("known_from", saved["known_from"], at_least=-1)
        pipeline.position = Position(*saved["position"])
        pipeline.extra = saved["about"]
        pipeline.encoder.gaps = {name: whole("gaps", count) for name, count in saved["gaps"].items()}
        arrays = pipeline._arrays()
        refuse_unlike({name: tensors[name] for name in arrays}, arrays)
        for name, array in arrays.items():
            array[...] = tensors[name]
        pipeline.screening.restore(tensors)
        stream = model_of(*snapshot.part(MODEL, saved["models"], tensors))
        if repr(stream) != repr(pipeline.stream) or (stream._d, stream._p) != (pipeline.stream._d, 1):
            raise snapshot.SnapshotError(
                f"the snapshot's model is not the one that its settings say, {pipeline.stream!r}: it is {stream!r}"
            )
        pipeline.stream = stream
        if pipeline._late is not None:
            pipeline._restore_late(pipeline._late, saved["late"])
        return pipeline

    def _restore_late(self, late: Tickets[int], saved: dict[str, Any]) -> None:
        """Go on with the tickets of a file."""
        late.rows = {name: whole("row", row, at_least=0) for name, row in saved["waiting"]}
        waiting = self._delayed._waiting
        if len(late.rows) != len(waiting) or not all(row in waiting for row in late.rows.values()):
            raise snapshot.SnapshotError(
                "the snapshot does not name all rows that wait for their targets: resume it with the version that "
                "saved it, or start a new run"
            )
        late.closed = {str(name): bool(resolved) for name, resolved in saved["closed"]}
        late.resolved, late.expired, late.ignored = (
            whole(name, saved["counts"][name], at_least=0) for name in ("learned", "expired", "ignored")
        )

    @property
    def late(self) -> dict[str, int] | None:
        """With a ticket column: rows that wait, targets that came late and were learned, rows that expired, and late
        rows without effect."""
        return None if self._late is None else _counts(self._late)


def _counts(late: Tickets[int]) -> dict[str, int]:
    return {"waiting": len(late), "learned": late.resolved, "expired": late.expired, "ignored": late.ignored}


def _tickets(late: Tickets[int]) -> dict[str, Any]:
    """The tickets of a run for a file, oldest first."""
    return {"waiting": list(late.rows.items()), "closed": list(late.closed.items()), "counts": _counts(late)}


def _measured(p: Any) -> MeasuredPrediction:
    """A prediction of the stream model, of one row or of many, as one of many."""
    measured: MeasuredPrediction = p._each(np.atleast_1d)
    return measured


def _joined(predictions: Sequence[Any]) -> MeasuredPrediction:
    """Predictions of rows that follow each other, as one."""
    joined: MeasuredPrediction = predictions[0]._each(lambda *parts: np.concatenate(parts), *predictions[1:])
    return joined
