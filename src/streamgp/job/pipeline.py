"""The pipeline: from rows of numbers to calibrated predictions, and the whole of its state in one file."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from streamgp.contract import snapshot
from streamgp.contract.delay import Delay
from streamgp.contract.model import StreamModel
from streamgp.contract.prediction import CalibratedPrediction, Prediction
from streamgp.job.ahead import compile_ahead
from streamgp.job.auto import Auto
from streamgp.job.lags import Lags
from streamgp.job.late import Late
from streamgp.job.request import AUTO, Request
from streamgp.job.scores import PartScores, RunningScores
from streamgp.job.screening import Screening
from streamgp.job.selection import Chosen, Selection
from streamgp.job.yardsticks import Yardsticks
from streamgp.loading import from_bytes
from streamgp.settings import FloatArray, whole
from streamgp.tables.columns import EncodedRows, RowEncoder, Schema, seconds
from streamgp.tables.source import Position, RowsError
from streamgp.tables.writing import PredictedRows
from streamgp.wrappers.calibrated import Calibrated
from streamgp.wrappers.committee import Committee
from streamgp.wrappers.driftaware import DriftAware
from streamgp.wrappers.wrapper import Wrapper

MOST_INPUTS = 1000  # of a model: beyond this the first prediction takes seconds
DIVERGED = 1e6  # times the median error of the members of a committee, or that of the previous value
MOST_AHEAD = 100_000  # rows whose predictions wait for their targets
DEFAULT_LAGS = 10  # where the target's own past is all there is to predict from
FEW_LAGS, DAY_OF_LAGS = 3, 48  # of auto beside other inputs; a day of them where it has no more rows than this
# Numbers of a prediction: mean, variance, noise, lower, upper, the model's own variance and noise, and least squares.
ISSUED = 8
NUMBERS = [name for name in PredictedRows._fields if name not in ("time", "ticket")]
DRIFT = {
    "raised": "drift suspected, forgetting faster",
    "kept": "drift confirmed, keeping the faster model",
    "reverted": "false alarm, reverted",
}
CHANGED = "the stream changed: models that learnt only what came since err less"


class Pipeline:
    """Predicts the target of every row before it learns it.

    Args:
        schema: what the columns are.
        model: the name of a model, or "auto": the best of a small set on the first rows.
        settings: of the model by name, as text or values; also ``level`` of the intervals, ``warmup``, the rows after
            which the model is chosen and its hyperparameters are found (before, a simple one predicts), ``tune``,
            ``drift``, ``screen`` and ``pending``; see Request.
        lags: past values of the target that are inputs; None: 0, or 10 where there is nothing else, or a horizon.
        horizon: rows ahead; 0 predicts the target of a row from its other columns, h the target h rows later from all
            that the row has, its own target included. Nothing is learnt before its target has come.

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
        self.horizon = whole("horizon", horizon, at_least=0)
        if horizon > MOST_AHEAD:
            raise ValueError(f"horizon must be at most {MOST_AHEAD} rows; got {horizon}")
        if schema.ticket and horizon:
            raise ValueError(
                f"--ticket-column and --horizon {horizon} exclude each other: targets come by ticket, or so many rows "
                "later; drop one of them"
            )
        self.request = Request(model, dict(settings or {}), horizon, late=bool(schema.ticket))
        self.level = self.request.level
        own = len(schema.input_names)
        auto = self.request.model == AUTO
        self.lags = self._default_lags(auto) if lags is None else whole("lags", lags, at_least=0)
        if own + self.lags > MOST_INPUTS:
            raise ValueError(
                f"a row would have {own + self.lags} inputs ({own} of the columns, {self.lags} lags); the limit is "
                f"{MOST_INPUTS}. Select columns with --inputs, or lower --lags"
            )
        if own + self.lags == 0:
            raise RowsError(
                "nothing to predict from: the target is the only column in use; give --lags 10, or --inputs"
            )
        compile_ahead(self.request.model)
        self.rows = 0
        self._unready = 0  # first rows without anything to predict from
        self.yardsticks = Yardsticks(own + self.lags, self.horizon, schema.seasons)
        self.scores, self.parts = RunningScores(), PartScores(self.yardsticks.names)
        self.position = Position()
        self.extra: dict[str, Any] = {}  # what else is kept in the file
        self.screening = Screening(own, self.request.run["screen"])
        self.previous = np.empty(0)  # the previous value as a prediction of the rows taken last
        self._columns = max(self.lags, int(auto))  # of past targets; auto also predicts the change since the last one
        self._lags = Lags(self._columns, self.horizon)
        self._delay = Delay(max(self.horizon, 1), own + self._columns + ISSUED)
        # A row that waits for its ticket: as above, and the last target known when it was predicted.
        self._late = Late(self.request.run["pending"], own + self._columns + ISSUED + 1) if schema.ticket else None
        self.scored = self._predicted(np.empty((0, ISSUED)), np.empty(0, dtype=int), None, np.empty(0))
        self._selection: Auto | Selection
        if auto:
            self._selection = Auto(self.request, own, self.lags, schema.seasons)
        else:
            self._selection = Selection(self.request, own + self.lags, made_up=max(self.lags - 1, 0))
        self.model: Calibrated = self._selection.first()
        # Whether models forget by the time between rows, and the last one's.
        self._timed = self.model._needs_time or (auto and self.request.by_time)
        self._moment = np.array([np.nan])
        if self._timed and not schema.time:
            raise RowsError(
                "half_life needs a column that says when each row was observed, with dates or Unix times, and there is "
                "none; drop --half-life to forget by rows"
            )

    def report_to(self, doing: Callable[[str], None]) -> None:
        """Say from now on what the pipeline does, where that takes seconds.

        Args:
            doing: takes the sentences.
        """
        self._selection.doing = doing

    def _default_lags(self, auto: bool) -> int:
        """Without other inputs, or ahead of time, a few; auto lets models with and without them compete."""
        if not self.schema.input_names or self.horizon:
            return DEFAULT_LAGS
        if not auto:
            return 0
        return next((rows for rows in self.schema.seasons if rows <= DAY_OF_LAGS), FEW_LAGS)

    @property
    def chosen(self) -> Chosen | None:
        """Which models were chosen on the first rows, and why; None before."""
        return self._selection.chosen

    def score_summary(self) -> dict[str, Any]:
        """The scores over all rows by name, and of the first rows and those after them beside the yardsticks'."""
        return self.scores.summary() | self.parts.summary(self.rows)

    @property
    def input_names(self) -> list[str]:
        """The name of every input of the model."""
        first, target = 0 if self.horizon else 1, self.schema.target
        lagged = [f"{target}[-{k}]" if k else target for k in range(first, first + self._columns)]
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
        taken, scored, previous = [], [], []
        start, n = 0, len(rows.y)
        while start < n or not taken:
            look = self.screening.next_look(self.rows)
            part = rows.part(start, min(n, start + look) if look else n)
            y, time = self.screening.take(part.y, self.rows + 1), self._moments(part.times)
            self.screening.keep(part.X, y, time)
            taken.append(self._take_block(part.X, y, time, part.times, ahead))
            scored.append(self.scored)
            previous.append(self._lags.previous)
            self._strike_out()
            start += len(y)
        self.scored, self.previous = _joined(scored), np.concatenate(previous)
        return _joined(taken)

    def _strike_out(self) -> None:
        """Learn the first rows again if there were fill values among them that could not be told when they came."""
        found = self.screening.look_back(self.rows)
        if found is None:
            return
        own, y, time = found
        again = Pipeline(self.schema, self.request.model, self.request.settings, self.lags, self.horizon)
        again.report_to(self._selection.doing)
        again._take_block(own, y, time if self._timed else None, None, False)
        self.model, self._selection, self.yardsticks = again.model, again._selection, again.yardsticks
        self._lags, self._delay, self._unready = again._lags, again._delay, again._unready

    def _take_block(
        self, own: FloatArray, y: FloatArray, time: FloatArray | None, times: list[str] | None, ahead: bool
    ) -> PredictedRows:
        """Predict and learn rows of own inputs; times are as they were written."""
        n, h = len(y), self.horizon
        X = np.column_stack([own, self._lags.columns(y)])
        if self.request.model == AUTO and not h:  # experts that see no lags need not wait for them
            X = np.nan_to_num(X)
        ready = np.flatnonzero(~np.isnan(X).any(axis=1))
        unready = int(ready[0]) if len(ready) else n
        coming, previous = self._coming(), self._lags.previous
        self._unready += unready
        self.yardsticks.skipped += max(self._lags.made_up if self.lags else 0, unready)
        resolved = np.concatenate([coming, np.full((n, ISSUED), np.nan)])
        issued = resolved[h:]
        start = unready
        while start < n:
            stop = start + self._selection.before_next(n - start)
            block = slice(start, stop)
            part = X[block], y[block], None if time is None else time[block]
            issued[block] = self._step(self.rows + start, *part)
            if isinstance(self._selection, Auto):
                self._selection.watch(y[block], resolved[block, 0], previous[block])
            self.model = self._selection.keep(*part, self.model)
            start = stop
        numbers = np.arange(self.rows + 1, self.rows + n + 1)
        predicted = self.scored = self._predicted(resolved[:n], numbers, times, y)
        self.scores.add(predicted, previous)
        self.parts.add(predicted, self.yardsticks.said(previous, resolved[:n, -1], y))
        self.rows += n
        if h and ahead:
            return self._predicted(issued, numbers + h, None, np.full(n, np.nan))
        return predicted

    def _moments(self, times: list[str] | None) -> FloatArray | None:
        """Seconds since 1970, if models forget by time; one that cannot be read, or goes back, counts as the last."""
        if times is None or not self._timed:
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
        coming = self._coming()
        numbers = np.arange(self.rows + 1, self.rows + len(coming) + 1)
        return self._predicted(coming, numbers, None, np.full(len(coming), np.nan))

    def _coming(self) -> FloatArray:
        """What was predicted of each of the next rows, (horizon, ISSUED); NaN where nothing could be."""
        waiting = self._delay.waiting()[:, -ISSUED:]
        return np.concatenate([np.full((self.horizon - len(waiting), ISSUED), np.nan), waiting])

    def _step(self, row: int, X: FloatArray, y: FloatArray, time: FloatArray | None) -> FloatArray:
        """Predict rows, and learn each when its target has come; the first has this number, from 0."""
        h, n = self.horizon, len(y)
        early = min(h, 1)  # with a horizon a row's own target comes before its prediction, without one after it
        if early:
            self._learn(row - h, y[0], None if time is None else time[0])
        issued = np.empty((n, ISSUED))
        done = 0
        if self._delay.places == 1 and n > early:  # each prediction's own target follows it: one compiled loop
            done = n - early
            came = None if time is None else time[early:]
            issued[:done, :-1] = _table(self.model.track(X[:done], y[early:], time=came))
            issued[:done, -1] = self.yardsticks.track(row, X[:done], y[early:])
        for t in range(done, n):
            issued[t, :-1] = _table(self.model.predict_many(X[t : t + 1]))[0]
            issued[t, -1] = self.yardsticks.predict(row + t, X[t])
            self._delay.put(row + t, np.concatenate([X[t], issued[t]]))
            if t + early < n:
                self._learn(row + t + early - h, y[t + early], None if time is None else time[t + early])
        return issued

    def _learn(self, row: int, y: float, time: float | None) -> None:
        """Learn the target of a row that waits for it, at the time at which it has come."""
        if row in self._delay:
            waited = self._delay.take(row)
            # Where nothing was learnt in between, the model would predict the same now.
            issued = None if self._delay.places == 1 else _prediction(waited[-ISSUED:], self.level)
            self.model.learn_one(waited[:-ISSUED], y, issued=issued, time=time)
            self.yardsticks.learn(row, waited[:-ISSUED], y)

    def _take_late(self, rows: EncodedRows, late: Late) -> PredictedRows:
        """Predict the rows with new tickets; learn targets that come with their row, or later."""
        assert rows.tickets is not None
        new: list[int] = []
        issued: list[FloatArray] = []
        scored: list[tuple[FloatArray, float]] = []  # each what waited, and the target
        moments, observed = self._moments(rows.times), rows.y.copy()
        for i, (name, alone) in enumerate(rows.tickets):
            y = rows.y[i]
            at_once = name not in late and not (alone and not np.isnan(y))
            if not at_once:
                waited = late.take(name, y)
            else:
                waited = self._issue(self.encoder.fill(rows.part(i, i + 1)).X)
                new.append(i)
                issued.append(waited[-1 - ISSUED : -1])
                if np.isnan(y):
                    late.wait(name, self.rows + i, waited)
                    continue
                late.close(name)
            if waited is not None:
                y = observed[i] = self.screening.take(observed[i : i + 1], self.rows + 1 + i)[0]
                self._learn_target(waited, y, None if moments is None else moments[i], at_once)
                scored.append((waited, y))
        waits = np.reshape([waited for waited, _ in scored], (-1, self.waiting_width))
        self._score(waits, np.array([y for _, y in scored]), self.scores.rows + 1)
        times = None if rows.times is None else [rows.times[i] for i in new]
        numbers = self.rows + 1 + np.array(new, dtype=int)
        self.rows += len(rows.y)
        names = [rows.tickets[i].name for i in new]
        return self._predicted(np.reshape(issued, (-1, ISSUED)), numbers, times, observed[new], names)

    def issue(self, rows: EncodedRows) -> FloatArray:
        """Predict rows whose targets come later, each as the next one; nothing changes.

        Args:
            rows: from the encoder, gaps not filled; their targets are not looked at.

        Returns:
            One line for each row: its inputs, what is predicted, the last target known. ``issued`` reads it, and
            ``learn_issued`` takes it with the target.
        """
        own = np.nan_to_num(np.where(np.isnan(rows.X), self.encoder.last, rows.X))
        return np.reshape([self._issue(x[None]) for x in own], (-1, self.waiting_width))

    def issued(self, waits: FloatArray) -> PredictedRows:
        """What was predicted of rows that wait for their targets.

        Args:
            waits: from ``issue``.
        """
        unknown = np.full(len(waits), np.nan)
        return self._predicted(waits[:, -1 - ISSUED : -1], np.zeros(len(waits), dtype=int), None, unknown)

    def learn_issued(self, waits: FloatArray, y: FloatArray, times: list[str] | None = None) -> PredictedRows:
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
            self._learn_target(waited, target, None if moments is None else moments[t], at_once=False)
            self.rows += 1
        self._score(waits, y, first)
        return self.scored

    @property
    def waiting_width(self) -> int:
        """Numbers of a row that waits for its target."""
        return len(self.input_names) + ISSUED + 1

    def _score(self, waits: FloatArray, y: FloatArray, first: int) -> None:
        """Count predictions whose targets have come late; the first gets this number."""
        issued, previous = waits[:, -1 - ISSUED : -1], waits[:, -1]
        self.scored = self._predicted(issued, first + np.arange(len(y)), None, y)
        self.scores.add(self.scored, previous)
        self.parts.add(self.scored, self.yardsticks.said(previous, issued[:, -1], y))

    def _issue(self, own: FloatArray) -> FloatArray:
        """The inputs of a row, what is predicted of it, and the last target known; NaN without anything to go by."""
        X = np.column_stack([own, self._lags.upcoming()])
        if self.request.model == AUTO:
            X = np.nan_to_num(X)
        issued = np.full(ISSUED, np.nan)
        if not np.isnan(X).any():
            issued[:-1] = _table(self.model.predict_many(X))[0]
            issued[-1] = self.yardsticks.predict(self.rows, X[0])
        return np.concatenate([X[0], issued, self._lags.previous])

    def _learn_target(self, waited: FloatArray, y: float, time: float | None, at_once: bool) -> None:
        X, issued = waited[None, : -1 - ISSUED], waited[-1 - ISSUED : -1]
        self._lags.columns(np.array([y]))  # from now on it is known
        if not np.isnan(X).any():
            said = None if at_once else _prediction(issued, self.level)
            self.model.learn_one(X[0], y, issued=said, time=time)
            self.yardsticks.learn(self.rows, X[0], y)
            if isinstance(self._selection, Auto):
                self._selection.watch(np.array([y]), issued[:1], waited[-1:])
            self.model = self._selection.keep(X, np.array([y]), None if time is None else np.array([time]), self.model)

    def _predicted(
        self,
        issued: FloatArray,
        row: np.ndarray,
        time: list[str] | None,
        y: FloatArray,
        ticket: list[str] | None = None,
    ) -> PredictedRows:
        p = _prediction(issued, self.level)
        raw_lower, raw_upper = p.raw.interval(self.level)
        density = p.log_density(y)
        return PredictedRows(row, time, p.mean, p.lower, p.upper, p.std, y, density, raw_lower, raw_upper, ticket)

    # One file.

    def save(self, path: str | Path) -> None:
        """Write everything that the next row needs to one file."""
        snapshot.write(path, self.to_bytes())

    def _arrays(self) -> dict[str, np.ndarray]:
        """The arrays of all parts by name, of fixed shape."""
        late = {} if self._late is None else self._late.arrays()
        own = {"last": self.encoder.last, "moment": self._moment}
        return own | self._lags.arrays() | self._delay.arrays() | self.parts.arrays() | late

    def to_bytes(self) -> bytes:
        """Return the whole state as bytes."""
        request = self.request
        header = {
            "holds": "a run over rows of a table",
            "run": {
                "schema": self.schema.to_dict(),
                "model": request.model,
                "settings": {name: str(value) for name, value in request.settings.items()},
                "lags": self.lags,
                "horizon": self.horizon,
                "gaps": self.encoder.gaps,
                "rows": self.rows,
                "unready": self._unready,
                "skipped": self.yardsticks.skipped,
                "scores": vars(self.scores),
                "position": list(self.position),
                "about": self.extra,
                "late": None if self._late is None else self._late.header(),
            }
            | self._selection.header(),
        }
        model = {"model": np.frombuffer(self.model.to_bytes(), dtype=np.uint8)}
        arrays = self._arrays() | self.screening.arrays() | self._selection.arrays() | self.yardsticks.arrays() | model
        return snapshot.packed(header, {name: np.ascontiguousarray(array) for name, array in arrays.items()})

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
        header, tensors = snapshot.unpacked(data)
        if "run" not in header:
            raise snapshot.SnapshotError(
                f"the snapshot holds a single {header.get('model', 'model')}, not a run; open it with sg.load, "
                "or start a new run without --load"
            )
        try:
            return cls._restored(header["run"], tensors)
        except snapshot.SnapshotError:
            raise
        except Exception as error:  # of whatever kind: what a file says may do anything to a constructor
            raise snapshot.SnapshotError(
                f"the snapshot does not describe a run this version can resume: {error}"
            ) from error

    @classmethod
    def _restored(cls, saved: dict[str, Any], tensors: dict[str, np.ndarray]) -> Pipeline:
        pipeline = cls(
            Schema.from_dict(saved["schema"]),
            saved["model"],
            saved["settings"],
            saved["lags"],
            saved["horizon"],
        )
        pipeline.rows = whole("rows", saved["rows"], at_least=0)
        pipeline._unready = whole("unready", saved["unready"], at_least=0)
        pipeline.scores = RunningScores(**saved["scores"])
        if not all(isinstance(value, int | float) for value in vars(pipeline.scores).values()):
            raise snapshot.SnapshotError(f"the snapshot's scores must be numbers; they are {saved['scores']}")
        pipeline.position = Position(*saved["position"])
        pipeline.extra = saved["about"]
        pipeline.encoder.gaps = {name: whole("gaps", count) for name, count in saved["gaps"].items()}
        pipeline.screening.restore(tensors)
        pipeline._selection.restore(tensors, saved)
        for name, array in pipeline._arrays().items():
            tensor = tensors[name]
            if tensor.dtype != array.dtype or tensor.shape != array.shape:
                raise snapshot.SnapshotError(f"the array {name} has shape {tensor.shape}, the run needs {array.shape}")
            array[...] = tensor
        pipeline._delay.check_restored()
        pipeline.yardsticks.restore(tensors, saved["skipped"])
        if pipeline._late is not None:
            pipeline._late.restore(saved["late"])
        model = from_bytes(tensors["model"].tobytes())
        inputs = len(pipeline.input_names)
        if not isinstance(model, Calibrated) or model._d not in (None, inputs) or model._p not in (None, 1):
            raise snapshot.SnapshotError(
                f"the snapshot's model is not one of {inputs} inputs and one target: {model!r}"
            )
        pipeline.model = model
        committee = pipeline._innermost()
        if isinstance(committee, Committee) and len(committee._models) != len(pipeline._selection.names):
            raise snapshot.SnapshotError("the snapshot does not name all members of its committee")
        return pipeline

    @property
    def late(self) -> dict[str, int] | None:
        """What became of the rows whose targets come later, with a ticket column; see Late.counts()."""
        return None if self._late is None else self._late.counts()

    @property
    def learnt(self) -> int:
        """How far the model is: rows, or with a ticket column, targets."""
        return self.rows if self._late is None else self.model.rows_seen

    @property
    def watches_drift(self) -> bool:
        """Whether changes are looked for: if it was not switched off, and the model can forget."""
        if isinstance(self._selection, Auto):
            return bool(self.request.run["drift"])
        return isinstance(self.model._within, DriftAware)

    @property
    def drift(self) -> list[tuple[int, str]]:
        """Where the model noticed a change, and what came of it: the number of the row, and a sentence."""
        if isinstance(self._selection, Auto):
            return [(row + self._unready, CHANGED) for row in self._selection.events]
        watcher = self.model._within
        if not isinstance(watcher, DriftAware):
            return []
        first = 1 + self._unready + self.horizon  # the row whose target came with the model's row 0; by ticket, targets
        return [(event.row + first, DRIFT[event.direction]) for event in watcher.events]

    @property
    def inner(self) -> StreamModel:
        """A copy of the model under the calibration, the detection of drift and the scaling."""
        return self._innermost().copy()

    def _innermost(self) -> StreamModel:
        model: StreamModel = self.model
        while isinstance(model, Wrapper):
            model = model._within
        return model

    @property
    def weights(self) -> dict[str, float]:
        """How much each model has to say at present, by name."""
        model = self._innermost()
        if not isinstance(model, Committee):
            return {self.request.model: 1.0}
        return dict(zip(self._selection.names, model.weights.tolist(), strict=True))

    @property
    def diverged(self) -> list[str]:
        """The models of a committee that err beyond measure of late, and so have no weight; or the one of a run."""
        model = self._innermost()
        if not isinstance(model, Committee):
            rmse, previous = (self.scores.summary()[name] for name in ("rmse", "rmse_previous_value"))
            return [self.request.model] if np.isinf(rmse) or rmse > DIVERGED * previous > 0 else []
        if model._d is None:
            return []
        errors = model.errors
        far = DIVERGED * np.nanmedian(errors) if np.isfinite(errors).any() else np.inf
        return [name for name, error in zip(self.weights, errors, strict=True) if error > far > 0]

    @property
    def health(self) -> dict[str, Any]:
        """Numerical repairs of the model, by kind and in all, targets not learned, and models that have diverged."""
        health = self.model.health._replace(fill_values=self.screening.count)
        return health._asdict() | {"repairs": health.repairs, "diverged": self.diverged}


def _joined(parts: list[PredictedRows]) -> PredictedRows:
    """Predictions of blocks that follow each other, none of them by ticket."""
    if len(parts) == 1:
        return parts[0]
    times = [part.time for part in parts if part.time is not None]
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in NUMBERS}
    return PredictedRows(**columns, time=list(itertools.chain(*times)) if times else None)


def _table(p: Prediction) -> FloatArray:
    assert isinstance(p, CalibratedPrediction)
    return np.column_stack([p.mean, p.variance, p.noise, p.lower, p.upper, p.raw.variance, p.raw.noise])


def _prediction(table: FloatArray, level: float) -> CalibratedPrediction:
    mean, variance, noise, lower, upper, raw_variance, raw_noise, _ = table.T
    return CalibratedPrediction(
        mean, variance, noise, lower, upper, level, raw=Prediction(mean, raw_variance, raw_noise)
    )
