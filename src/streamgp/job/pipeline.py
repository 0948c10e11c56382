"""The pipeline: a row encoder, one stream model, its scores and a position; the whole of its state in one file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from streamgp.auto.auto import Auto
from streamgp.auto.staged import Chosen, Staged
from streamgp.auto.tuned import Tuned
from streamgp.contract import snapshot
from streamgp.contract.model import Shape, StreamModel
from streamgp.contract.prediction import CalibratedPrediction, Prediction, packed, unpacked
from streamgp.contract.saved import refuse_unlike
from streamgp.contract.waiting import Tickets
from streamgp.job.ahead import compile_ahead
from streamgp.job.request import AUTO, Request
from streamgp.job.scores import RunningScores
from streamgp.job.screening import Screening
from streamgp.job.yardsticks import Yardsticks
from streamgp.loading import decoded, model_of
from streamgp.settings import FloatArray, copied, whole
from streamgp.tables.columns import EncodedRows, RowEncoder, Schema
from streamgp.tables.dates import seconds
from streamgp.tables.source import Position, RowsError
from streamgp.tables.writing import PredictedRows
from streamgp.wrappers.delayed import Ahead
from streamgp.wrappers.driftaware import DriftAware
from streamgp.wrappers.lagged import Lagged
from streamgp.wrappers.wrapper import Wrapper

MOST_INPUTS = 1000  # of a model: beyond this the first prediction takes seconds
DIVERGED = 1e6  # times the median error of the members of a committee, or that of the previous value
MOST_AHEAD = 100_000  # rows whose predictions wait for their targets
DEFAULT_LAGS = 10  # ahead of time, or where the target's own past is all there is to predict from
DRIFT = {
    "raised": "drift suspected, forgetting faster",
    "kept": "drift confirmed, keeping the faster model",
    "reverted": "false alarm, reverted",
}
MODEL = "model"  # in a file, beside the yardsticks
CHANGED = "the stream changed: models that learned only what came since err less"


class Pipeline:
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
        self._first_target = -1  # the row of the first target that is known; -1: none is
        pending = self.request.run.pending if schema.ticket else 0
        self.yardsticks = Yardsticks(own, self.lags, self.horizon, pending, schema.seasons)
        self.screening = Screening(own, self.request.run.screen)
        self.scores = RunningScores(self.yardsticks.names)
        self.position = Position()
        self.extra: dict[str, Any] = {}  # what else is kept in the file
        self.model = self._built(own, pending)
        self._late = Tickets(pending) if schema.ticket else None
        self.previous = np.empty(0)  # the previous value as a prediction of the rows taken last
        self.scored = self._predicted(self.model._empty(), np.empty(0, dtype=int), None, np.empty(0))
        self._moment = np.array([np.nan])  # the last time
        if self.model._needs_time and not schema.time:
            raise RowsError(
                "half_life needs a column that says when each row was observed, with dates or Unix times, and there is "
                "none; drop `half_life` to forget by rows"
            )

    def _built(self, own: int, pending: int) -> StreamModel:
        """The model of the run: what was asked for, with past targets as inputs, ahead of time."""
        request, run = self.request, self.request.run
        model: StreamModel
        common: dict[str, Any] = {name: getattr(run, name) for name in ("level", "warmup", "tune", "drift", "screen")}
        if request.model == AUTO:
            candidates = request.own or None
            own_settings = {"seasons": list(self.schema.seasons), "budget": run.budget, "candidates": candidates}
            model = Auto(lags=self.lags, **own_settings, **common)
        else:
            built = request.build(own + self.lags)
            model = Tuned(built, made_up=max(self.lags - 1, 0), **common)
            model = Lagged(model, lags=self.lags) if self.lags else model
        if self.horizon:
            model = Ahead(model, horizon=self.horizon, pending=pending)
        model._prepare(Shape(own, 1, scalar=True, certain=True))
        return model

    def report_to(self, doing: Callable[[str], None]) -> None:
        """Say from now on what the pipeline does, where that takes seconds.

        Args:
            doing: takes the sentences.
        """
        self._staged.doing = doing

    @property
    def _staged(self) -> Staged:
        """The part of the model that is chosen and tuned."""
        return next(one for one in self.model._family() if isinstance(one, Staged))

    def is_calm(self, rows: int) -> bool:
        """Whether so many more rows are learned without anything being built, tuned or learned again."""
        look = self.screening.next_look(self.rows)
        return self._staged._before_change(rows + 1) > rows and not 0 < look <= rows

    @property
    def chosen(self) -> Chosen | None:
        """Which models were chosen on the first rows, and why; None before."""
        return self._staged.chosen

    def score_summary(self) -> dict[str, Any]:
        """The scores over all rows by name, and of the first rows and those after them beside the yardsticks'."""
        return self.scores.summary() | self.scores.parts(self.rows)

    @property
    def input_names(self) -> list[str]:
        """The name of every input of the model."""
        first, target = 0 if self.horizon else 1, self.schema.target
        columns = max(self.lags, int(self.request.model == AUTO))  # auto also predicts the change since the last one
        lagged = [f"{target}[-{k}]" if k else target for k in range(first, first + columns)]
        return self.schema.input_names + lagged

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
        parts, targets, previous, start = [self.model._empty()], [np.empty(0)], [np.empty(0)], 0
        time = self._moments(rows.times)
        while start < n:
            stop = min(n, start + (self.screening.next_look(self.rows) or n))
            y = self.screening.take(rows.y[start:stop], self.rows + 1)
            X, moments = np.ascontiguousarray(rows.X[start:stop]), None if time is None else time[start:stop]
            self.screening.keep(self.rows, X, y, moments)
            parts.append(self._track(X, y, moments))
            targets.append(y)
            previous.append(self.previous)
            self._strike_out()
            start = stop
        resolved, y = _joined(*parts), np.concatenate(targets)
        numbers = np.arange(self.rows - n + 1, self.rows + 1)
        self.previous = np.concatenate(previous)
        predicted = self.scored = self._predicted(resolved, numbers, rows.times, y)
        if h and ahead:
            coming = _joined(resolved[min(h, n) :], self._upcoming())[-n:] if n else resolved
            return self._predicted(coming, numbers + h, None, np.full(n, np.nan))
        return predicted

    def _strike_out(self) -> None:
        """Learn and score the first rows again if fill values are among them that could not be told when they came."""
        found = self.screening.look_back(self.rows)
        if found is None:
            return
        X, y, time = found
        again = Pipeline(self.schema, self.request.model, self.request.settings, self.lags, self.horizon)
        again.report_to(self._staged.doing)
        again._track(X, y, time if self.model._needs_time else None)
        self.model, self.yardsticks, self.scores = again.model, again.yardsticks, again.scores
        self._first_target = again._first_target

    def _track(self, X: FloatArray, y: FloatArray, time: FloatArray | None) -> CalibratedPrediction:
        """Predict rows and learn them; score what was predicted."""
        n = len(y)
        p = self.model.track(X, y, time=time)
        known = np.flatnonzero(~np.isnan(y))
        if self._first_target < 0 and known.size:
            self._first_target = self.rows + int(known[0])
        ready = self._ready(np.arange(self.rows, self.rows + n) - self.horizon)
        p = _unknown(p, ~ready)
        of_yardsticks = self.yardsticks.track(X, y)
        of_yardsticks[~self._after_target(np.arange(self.rows, self.rows + n) - self.horizon), 0] = np.nan
        self._count(p, self.rows + 1, y, of_yardsticks)
        self.rows += n
        return p

    def _ready(self, issued: np.ndarray) -> np.ndarray:
        """Whether something was known of the rows issued at these rows."""
        return np.asarray(issued >= 0) if not self._needs_past else self._after_target(issued)

    @property
    def _needs_past(self) -> bool:
        """Whether nothing can be predicted before the first target."""
        return bool(self.lags) or self.request.model == AUTO

    def _after_target(self, issued: np.ndarray) -> np.ndarray:
        """Whether a target was known when rows were issued."""
        after = 0 if self.horizon else 1  # with a horizon a row's own target is known
        return np.asarray((self._first_target >= 0) & (issued >= max(self._first_target, 0) + after))

    def _count(self, p: CalibratedPrediction, first: int, y: FloatArray, of_yardsticks: FloatArray) -> None:
        """Score predictions whose targets have come; the first is of this row."""
        self.previous = of_yardsticks[:, 0]
        self.scored = self._predicted(p, first + np.arange(len(y)), None, y)
        self.scores.add(self.scored, of_yardsticks)

    def _moments(self, times: list[str] | None) -> FloatArray | None:
        """Seconds since 1970, if models forget by time; one that cannot be read, or goes back, counts as the last."""
        if times is None or not self.model._needs_time:
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

    def _upcoming(self) -> Prediction:
        """What was predicted of the next rows; NaN where nothing could be."""
        if not isinstance(self.model, Ahead):
            return self.model._empty()
        coming = self.model.upcoming()
        missing = self.horizon - len(coming)  # before the first rows
        ready = self._ready(np.arange(self.rows - self.horizon, self.rows))
        return _unknown(_padded(coming, missing), ~ready)

    # Rows whose targets come late.

    def _take_late(self, rows: EncodedRows, late: Tickets) -> PredictedRows:
        """Predict the rows with new tickets; learn targets that come with their row, or later."""
        new: list[int] = []
        issued: list[CalibratedPrediction] = []
        scored: list[tuple[FloatArray, float]] = []  # each what waited, and the target
        moments, observed = self._moments(rows.times), rows.y.copy()
        for i, (name, alone) in enumerate(rows.tickets or []):
            y = rows.y[i]
            if name in late or (alone and not np.isnan(y)):
                waiting = None if np.isnan(y) else late.resolve(name)
                if waiting is None:
                    late.ignored += 1
                else:
                    y = observed[i] = self._screened(y, self.rows + 1 + i)
                    self._resolve_one(waiting, y, None if moments is None else moments[i])
                    scored.append((waiting, y))
                continue
            X = np.ascontiguousarray(self.encoder.fill(rows.part(i, i + 1)).X)
            waited = self._issue(X, at_once=not np.isnan(y))
            new.append(i)
            issued.append(self._prediction(waited[None]))
            if np.isnan(y):
                late.issue(name, waited)
            else:
                late.close(name)
                y = observed[i] = self._screened(y, self.rows + 1 + i)
                if not np.isnan(y):
                    self._see_target()
                self.model.learn_one(X[0], y, time=None if moments is None else moments[i])
                self.yardsticks.learn(X, y)
                scored.append((waited, y))
        self._score(scored, self.scores.rows + 1)
        times = None if rows.times is None else [rows.times[i] for i in new]
        numbers = self.rows + 1 + np.array(new, dtype=int)
        self.rows += len(rows.y)
        names = [rows.tickets[i].name for i in new] if rows.tickets else []
        return self._predicted(_joined(self.model._empty(), *issued), numbers, times, observed[new], names)

    def _screened(self, y: float, row: int) -> float:
        """A target as it is learned: NaN where it cannot be an observation."""
        return float(self.screening.take(np.array([y]), row)[0])

    def issue(self, rows: EncodedRows) -> FloatArray:
        """Predict rows whose targets come later, each as the next one.

        Args:
            rows: from the encoder, gaps not filled; their targets are not looked at.

        Returns:
            One line for each row: its inputs, what was issued, and what was predicted. ``issued`` reads it, and
            ``resolve`` takes it with the target.
        """
        own = np.nan_to_num(np.where(np.isnan(rows.X), self.encoder.last, rows.X))
        return self._lines(self._issue(x[None].copy()) for x in own)

    def issued(self, waits: FloatArray) -> PredictedRows:
        """What was predicted of rows that wait for their targets.

        Args:
            waits: from ``issue``.
        """
        unknown = np.full(len(waits), np.nan)
        return self._predicted(self._prediction(waits), np.zeros(len(waits), dtype=int), None, unknown)

    def resolve(self, waits: FloatArray, y: FloatArray, times: list[str] | None = None) -> PredictedRows:
        """Learn late targets in the order in which they come; each counts as a row.

        Args:
            waits: (n, waiting_width) lines of ``issue``.
            y: (n,) their targets.
            times: when they came, if models forget by time; None: when the last row came.
        """
        moments = self._moments([""] * len(y) if times is None else times)
        first = self.rows + 1
        y = self.screening.take(y, first)
        for t, (waited, target) in enumerate(zip(waits, y.tolist(), strict=True)):
            self._resolve_one(waited, target, None if moments is None else moments[t])
            self.rows += 1
        self._score(list(zip(waits, y.tolist(), strict=True)), first)
        return self.scored

    def _widths(self) -> list[int]:
        """Numbers of a waiting row: its inputs, what the model and the yardsticks issued, what was predicted."""
        predicted = packed(self.model._empty()._each(lambda _: np.empty((0, 1))), 1).shape[1]
        own = len(self.schema.input_names)
        return [own, self.model._issued_width(1), self.yardsticks.issued_width, predicted]

    @property
    def waiting_width(self) -> int:
        """Numbers of a row that waits for its target."""
        return sum(self._widths())

    def _lines(self, waits: Iterable[FloatArray]) -> FloatArray:
        """Rows that wait, (n, waiting_width)."""
        return np.reshape(list(waits), (-1, self.waiting_width))

    def _split(self, waits: FloatArray) -> list[FloatArray]:
        return np.split(waits, np.cumsum(self._widths())[:-1], axis=1)

    def _issue(self, X: FloatArray, at_once: bool = False) -> FloatArray:
        """The inputs of a row, what is issued and what is predicted; NaN without anything to go by."""
        p, issued = self.model._issue(X)
        yardsticks = self.yardsticks.issue(X)
        if self.horizon and not at_once:  # the row is one from which a later target is predicted
            self.model._remember(X)
            self.yardsticks.remember(X)
        known = self._first_target >= 0 or not self._needs_past
        if self.horizon:
            known = bool(self._ready(np.array([self.model.rows_seen - (not at_once) - self.horizon]))[0])
        prediction = packed(p, 1)[0]
        return np.concatenate([X[0], issued[0], yardsticks, prediction if known else np.full_like(prediction, np.nan)])

    def _see_target(self) -> None:
        """A target comes that belongs to a row by its ticket; predictions may be made from the first on."""
        if self._first_target < 0:
            self._first_target = self.model.rows_seen

    def _prediction(self, waits: FloatArray) -> CalibratedPrediction:
        """What was predicted of rows that wait."""
        return _calibrated(unpacked(self._split(waits)[-1], self.model._empty(), 1)._each(lambda part: part[:, 0]))

    def _resolve_one(self, waited: FloatArray, y: float, time: float | None) -> None:
        """Learn the target of a row that waited."""
        X, issued, yardsticks, _ = self._split(waited[None])
        Y = np.array([[y]])
        if not np.isnan(y):
            self._see_target()
        conditions = self.model._conditions(1, Y, time=time, many=False)
        with self.model._whole(quick=True):
            self.model._resolve(np.ascontiguousarray(X), Y, np.ascontiguousarray(issued), conditions)
        self.yardsticks.resolve(np.ascontiguousarray(X), y, yardsticks[0])

    def _score(self, scored: list[tuple[FloatArray, float]], first: int) -> None:
        """Count predictions whose targets have come late; the first gets this number."""
        waits = self._lines(waited for waited, _ in scored)
        y = np.array([y for _, y in scored])
        _, _, yardsticks, _ = self._split(waits)
        p = self._prediction(waits)
        of_yardsticks = np.column_stack([self.yardsticks.predicted(yardsticks), self.yardsticks.seasonal(y)])
        self._count(p, first, y, np.where(np.isnan(p.mean)[:, None], np.nan, of_yardsticks))

    def _predicted(
        self,
        prediction: Prediction,
        row: np.ndarray,
        time: list[str] | None,
        y: FloatArray,
        ticket: list[str] | None = None,
    ) -> PredictedRows:
        p = _calibrated(prediction)
        raw_lower, raw_upper = p.raw.interval(self.level)
        density = p.log_density(y)
        return PredictedRows(row, time, p.mean, p.lower, p.upper, p.std, y, density, raw_lower, raw_upper, ticket)

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
        models, states = snapshot.nested({MODEL: snapshot.contents(self.model)} | self.yardsticks.contents())
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
                "first_target": self._first_target,
                "position": list(self.position),
                "about": self.extra,
                "late": None if self._late is None else self._late_header(self._late),
                "models": models,
            },
        }
        late = {} if self._late is None else {"late_waiting": self._lines(self._late.rows.values())}
        return header, self._arrays() | self.screening.arrays() | parts | late | states

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
        pipeline._first_target = whole("first_target", saved["first_target"], at_least=-1)
        pipeline.position = Position(*saved["position"])
        pipeline.extra = saved["about"]
        pipeline.encoder.gaps = {name: whole("gaps", count) for name, count in saved["gaps"].items()}
        arrays = pipeline._arrays()
        refuse_unlike({name: tensors[name] for name in arrays}, arrays)
        for name, array in arrays.items():
            array[...] = tensors[name]
        pipeline.yardsticks.restore(saved["models"], tensors)
        pipeline.screening.restore(tensors)
        if pipeline._late is not None:
            pipeline._restore_late(pipeline._late, saved["late"], tensors)
        model = model_of(*snapshot.part(MODEL, saved["models"], tensors))
        if repr(model) != repr(pipeline.model) or (model._d, model._p) != (pipeline.model._d, 1):
            raise snapshot.SnapshotError(
                f"the snapshot's model is not the one that its settings say, {pipeline.model!r}: it is {model!r}"
            )
        pipeline.model = model
        return pipeline

    def _late_header(self, late: Tickets) -> dict[str, Any]:
        """The tickets of a run for a file, oldest first."""
        return {"waiting": list(late.rows), "closed": list(late.closed), "counts": self.late}

    def _restore_late(self, late: Tickets, saved: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
        """Go on with the tickets of a file."""
        names, rows, counts = saved["waiting"], tensors["late_waiting"], saved["counts"]
        if rows.shape != (len(names), self.waiting_width) or not all(isinstance(name, str) for name in names):
            raise snapshot.SnapshotError(
                "the snapshot does not name all rows that wait for their targets: resume it with the version that "
                "saved it, or start a new run"
            )
        late.rows = dict(zip(names, rows.copy(), strict=True))
        late.closed = dict.fromkeys(map(str, saved["closed"]), True)
        late.resolved, late.expired, late.ignored = (
            whole(name, counts[name], at_least=0) for name in ("learned", "expired", "ignored")
        )

    @property
    def late(self) -> dict[str, int] | None:
        """With a ticket column: rows that wait, targets that came late and were learned, rows that expired, and late
        rows without effect."""
        if (late := self._late) is None:
            return None
        return {"waiting": len(late), "learned": late.resolved, "expired": late.expired, "ignored": late.ignored}

    @property
    def learned(self) -> int:
        """How far the model is: rows, or with a ticket column, targets."""
        return self.rows if self._late is None else self._staged.rows_seen

    @property
    def watches_drift(self) -> bool:
        """Whether changes are looked for: if it was not switched off, and the model can forget."""
        if self.request.model == AUTO:
            return self.request.run.drift
        return isinstance(self._staged._model._within, DriftAware)

    @property
    def drift(self) -> list[tuple[int, str]]:
        """Where the model noticed a change, and what came of it: the number of the row, and a sentence."""
        skipped = 0 if self.request.model == AUTO or not self.lags else max(self._first_target, 0) + (not self.horizon)
        first = skipped + self.horizon  # rows before the one whose target came with the model's first row
        if (auto := self._auto) is not None:
            return [(row + first, CHANGED) for row in auto.changes]
        watcher = self._staged._model._within
        if not isinstance(watcher, DriftAware):
            return []
        return [(event.row + first + 1, DRIFT[event.direction]) for event in watcher.events]

    @property
    def _auto(self) -> Auto | None:
        return next((one for one in self.model._family() if isinstance(one, Auto)), None)

    @property
    def inner(self) -> StreamModel:
        """A copy of the model under the calibration, the detection of drift and the scaling."""
        return self._innermost().copy()

    def _innermost(self) -> StreamModel:
        model: StreamModel = self._staged._model
        while isinstance(model, Wrapper):
            model = model._within
        return model

    @property
    def weights(self) -> dict[str, float]:
        """The present weight of each model, by name."""
        return {self.request.model: 1.0} if (auto := self._auto) is None else auto.weights

    @property
    def diverged(self) -> list[str]:
        """The models of a committee that err beyond measure of late, and so have no weight; or the one of a run."""
        if (auto := self._auto) is None:
            rmse, previous = (self.scores.summary()[name] for name in ("rmse", "rmse_previous_value"))
            return [self.request.model] if np.isinf(rmse) or rmse > DIVERGED * previous > 0 else []
        errors = auto.errors
        known = [error for error in errors.values() if np.isfinite(error)]
        far = DIVERGED * np.median(known) if known else np.inf
        return [name for name, error in errors.items() if error > far > 0]

    @property
    def health(self) -> dict[str, Any]:
        """Numerical repairs of the model, by kind and in all, and models that have diverged."""
        health = self.model.health._replace(fill_values=self.screening.count)
        return health._asdict() | {"repairs": health.repairs, "diverged": self.diverged}


def default_lags(schema: Schema, model: str, horizon: int) -> int:
    """Without other inputs, or ahead of time, a few; auto lets models with and without them compete."""
    own = len(schema.input_names)
    if model == AUTO:
        return Auto(seasons=schema.seasons, ahead=horizon).lags_for(own)
    return 0 if own and not horizon else DEFAULT_LAGS


def _calibrated(p: Prediction) -> CalibratedPrediction:
    if not isinstance(p, CalibratedPrediction):
        raise TypeError(f"the model of a run predicts calibrated intervals; got {type(p).__name__}")
    return p


def _unknown(p: Prediction, which: np.ndarray) -> CalibratedPrediction:
    """A prediction in which nothing is predicted for some rows."""
    return _calibrated(p._each(lambda part: np.where(which, np.nan, part)) if which.any() else p)


def _joined(*predictions: Any) -> Any:
    """Predictions of rows that follow each other, as one."""
    return predictions[0]._each(lambda *parts: np.concatenate(parts), *predictions[1:])


def _padded(p: Any, rows: int) -> Any:
    """A prediction behind some rows for which nothing is predicted."""
    return p._each(lambda part: np.concatenate([np.full(rows, np.nan), part])) if rows else p
