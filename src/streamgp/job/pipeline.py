"""The pipeline: a run is a row encoder, one stream model, what is counted beside it, and a position."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from streamgp.contract import passing, snapshot
from streamgp.contract.atomic import undo_of
from streamgp.contract.conditions import part
from streamgp.contract.ladder import BELOW, LOG_DENSITY
from streamgp.contract.lanes import ISSUE, LEARN, ONE
from streamgp.contract.loading import model_of
from streamgp.contract.prediction import Prediction, bare
from streamgp.contract.waiting import Tickets
from streamgp.job import told
from streamgp.job.ahead import compile_ahead
from streamgp.job.changes import Changes
from streamgp.job.refused import Refused
from streamgp.job.request import AUTO, Request, checked_lags, stream_model
from streamgp.job.scores import RunningScores
from streamgp.job.told import asked, model_with, uses_time
from streamgp.job.yardsticks import Yardsticks
from streamgp.settings import FloatArray, copied, whole
from streamgp.tables.columns import Schema
from streamgp.tables.encoding import EncodedRows, RowEncoder
from streamgp.tables.kept import Kept
from streamgp.tables.source import Position, RowsError
from streamgp.tables.times import Times
from streamgp.tables.writing import PredictedRows
from streamgp.wrappers.alarms import Alarm

MODEL = "model"  # in a file
MOST_AHEAD = 100_000  # rows whose predictions wait for their targets
MORE_TIMES = 1000  # rows beyond the warm-up whose times are kept: a change is told that many rows later at most
DIVERGED = 1e6  # times the median error of the members of a committee, or that of the previous value


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
        >>> from streamgp.tables.columns import Column
        >>> from streamgp.tables.encoding import EncodedRows
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
        self.lags = checked_lags(schema, self.request, lags)
        compile_ahead(self.request.model)  # all at once, before the first model asks for its part
        self.model = stream_model(schema, self.request, self.lags)
        self.rows = 0
        own, run, seasons = len(schema.input_names), self.request.run, () if schema.uneven else schema.seasons
        self.yardsticks = Yardsticks(own, self.lags, self.horizon, seasons)
        self.scores = RunningScores(self.yardsticks.names)
        self.changes = Changes(own, run.drift and not schema.ticket)
        self.refused = Refused(own, run.screen)
        self.times = Times(schema.reader, run.warmup + self.horizon + MORE_TIMES)
        self.tickets = Tickets[FloatArray](run.pending) if schema.ticket else None
        self.position = Position()
        self.extra: dict[str, Any] = {}  # what else is kept in the file
        self.scored = self._nothing()  # the rows whose targets came last
        self._marked = 0  # alarms whose times are kept

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
        moments = self.times.add(rows.times, n)
        while start < n:
            stop = min(n, start + (self.refused.next_look(self.rows) or n))
            X, y, block = rows.X[start:stop], rows.y[start:stop], part(time, start, stop)
            self.refused.keep(self.rows, X, y, block)
            blocks.append(self._track(X, y, block, moments[start:stop]))
            self._strike_out()
            start = stop
        self.scored = PredictedRows.joined(blocks)._replace(time=rows.times)
        self._mark_events()
        if not (h and ahead):
            return self.scored
        made = self.scored.since(min(h, n))._replace(time=None, p_value=None, alarm=None, learned=None)
        coming, unknown = PredictedRows.joined([made, self.outstanding()]), np.full(n, np.nan)
        return coming.since(len(coming.row) - n)._replace(observed=unknown, log_density=unknown, pit=unknown)

    def _moments(self, texts: list[str] | None) -> FloatArray | None:
        """When rows came, if the model uses it."""
        return self.times.moments(texts) if texts is not None and uses_time(self.model) else None

    def _track(self, X: FloatArray, y: FloatArray, time: FloatArray | None, moments: FloatArray) -> PredictedRows:
        """Predict rows and learn them; score what was predicted.

        Args:
            X: (n, d) inputs.
            y: (n,) targets.
            time: (n,) times, if models forget by time.
            moments: (n,) times for people.
        """
        predicted = self._counted(y, *self._learn(X, y, time))
        self.changes.add(X, predicted.observed, predicted.mean, predicted.row, moments)
        return predicted

    def _counted(self, y: FloatArray, p: Prediction, learned: FloatArray, rows: FloatArray) -> PredictedRows:
        """Predictions of rows that come next and were learned, scored.

        Args:
            y: (n,) their targets.
            p: of n rows.
            learned: (n,) the targets as the model took them.
            rows: (n, width) what yardsticks keep of them.
        """
        numbers = np.arange(self.rows + 1, self.rows + len(y) + 1)
        predicted = self._columns(p, numbers, self.refused.take(y, learned, self.rows + 1), rows, learned)
        self.rows += len(y)
        self.scores.add(predicted)
        return predicted

    def _learn(
        self, X: FloatArray, y: FloatArray, time: FloatArray | None
    ) -> tuple[Prediction, FloatArray, FloatArray]:
        """What the model predicts of rows, their targets as it learned them, and what yardsticks keep of them."""
        p = self.model.track(X, y, time=time)
        learned: FloatArray = self.model._last_targets[:, 0]
        return p, learned, self.yardsticks.track(X, learned)

    def _columns(
        self, p: Any, row: np.ndarray, y: FloatArray, rows: FloatArray, learned: FloatArray | None = None
    ) -> PredictedRows:
        """Predictions in columns, scored; NaN where there was nothing to predict from.

        That is in the first rows of a horizon, and, where past targets are needed, in all before one is known.

        Args:
            p: of n rows.
            row: (n,) their numbers.
            y: (n,) their targets, NaN where unknown.
            rows: (n, width) what yardsticks keep of them.
            learned: (n,) the targets as the model took them; None: as they are.
        """
        known = self.yardsticks.known(rows, past=bool(self.lags) or self.request.model == AUTO)
        if not known.all():
            p = p._each(lambda column: np.where(known, column, np.nan) if column.dtype.kind == "f" else column)
        ladder, error = p.law.ladder(p), y - p.mean
        density, pit = ladder.evaluated(LOG_DENSITY, error), ladder.evaluated(BELOW, error)
        columns = p.lower, p.upper, p.std, density, *p.raw.interval(self.level), pit
        if (unknown := np.isinf(p.std)).any():  # before a scale is known there is nothing to write or to score
            columns = tuple(np.where(unknown, np.nan, column) for column in columns)
        lower, upper, std, *scored = columns
        predicted = PredictedRows(row, None, p.mean, lower, upper, std, y, *scored)
        predicted = predicted._replace(yardsticks=self.yardsticks.said(rows), learned=learned)
        if not self.judges:
            return predicted
        if p.alarm is None:
            return predicted._replace(p_value=np.full(len(row), np.nan), alarm=[""] * len(row))
        return predicted._replace(p_value=np.exp(-p.surprise), alarm=p.alarm.tolist())

    def _strike_out(self) -> None:
        """Learn and score the first rows again if fill values are among them that could not be told when they came."""
        if (found := self.refused.look_back(self.rows)) is None:
            return
        X, y, time = found
        again = Pipeline(self.schema, self.request.model, self.request.settings, self.lags, self.horizon)
        again.refused = self.refused
        again.report_to(asked(self.model, "doing"))
        moments = np.array([self.times.moment(row) for row in range(1, len(y) + 1)])
        again._track(X, y, time if uses_time(self.model) else None, moments)
        for name in ("model", "yardsticks", "scores", "changes"):
            setattr(self, name, getattr(again, name))

    def outstanding(self) -> PredictedRows:
        """The predictions of rows that have not come yet."""
        h, rows = self.horizon, self.yardsticks.upcoming()
        numbers, model = np.arange(self.rows + 1, self.rows + h + 1), model_with(self.model, "upcoming")
        coming = passing.nothing(self.model) if model is None else model.upcoming()
        missing = np.full(h - len(coming), np.nan)  # before the first rows
        p = coming._each(lambda column: np.concatenate([missing, column.reshape(-1)]))
        predicted = self._columns(p, numbers, np.full(h, np.nan), rows)
        return predicted._replace(yardsticks=np.full_like(predicted.yardsticks, np.nan), p_value=None, alarm=None)

    # Late targets, under the tickets of a column.

    def _take_late(self, rows: EncodedRows, late: Tickets[FloatArray]) -> PredictedRows:
        """Predict the rows with new tickets; learn targets that come with their row, or later."""
        new: list[int] = []  # rows of the block that are predicted
        before = self.scores.rows
        issued, scored = [self._nothing()], [self._nothing()]
        moments = self._moments(rows.times)
        for i, (name, alone) in enumerate(rows.tickets or []):
            y, time, comes = rows.y[i : i + 1], part(moments, i, i + 1), not np.isnan(rows.y[i])
            known, number = name in late or (alone and comes), np.array([self.rows + 1 + i])
            waits = late.resolve(name) if known and comes else None
            if known and waits is None:
                late.ignored += 1
                continue
            if waits is not None:
                lines, learned = waits[None], self._learn_late(waits[None], y, time)
                p, kept = self._told(lines)
            else:
                X = self.encoder.fill(rows.part(i, i + 1)).X
                if comes:
                    late.close(name)
                    p, learned, kept = self._learn(X, y, time)
                else:
                    lines, learned = self._issue(X, time, advance=True), y
                    late.issue(name, lines[0])
                    p, kept = self._told(lines)
            y = self.refused.take(y, learned, int(number[0]))
            predicted = self._columns(p, number, y, kept, learned)
            if comes:
                self.times.add(None if rows.times is None else rows.times[i : i + 1], 1)
                scored.append(predicted._replace(row=np.array([before + len(scored)])))
            if not known:
                new.append(i)
                issued.append(predicted)
        self.scored = PredictedRows.joined(scored)
        self.scores.add(self.scored)
        self._mark_events()
        self.rows += len(rows.y)
        times = None if rows.times is None else [rows.times[i] for i in new]
        names = [rows.tickets[i].name for i in new] if rows.tickets else []
        return PredictedRows.joined(issued)._replace(time=times, ticket=names, learned=None)

    def _nothing(self) -> PredictedRows:
        """The prediction of no rows."""
        none = np.empty(0)
        return self._columns(passing.nothing(self.model), np.arange(0), none, self.yardsticks.none, none)

    # Late targets, of rows that whoever asks keeps.

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
        X = np.nan_to_num(np.where(np.isnan(rows.X), self.encoder.last, rows.X))
        coming = rows.times is not None and uses_time(self.model)
        return self._issue(X, self.times.coming(rows.times or []) if coming else None, advance=False)

    def _issue(self, X: FloatArray, time: FloatArray | None, *, advance: bool) -> FloatArray:
        """Lines of rows whose targets come later, each as the next one.

        Args:
            X: (n, d) inputs.
            time: (n,) when the rows come, if models see times.
            advance: whether they come, in this order; if not, each goes into the memory, and out again.
        """
        model, conditions, at = self.model, None, np.full(len(X), np.nan)
        if time is not None and (model._moment is not None or not model._needs_time):  # others forget by targets
            at, conditions = time, passing.conditions_at(model, time, len(X), many=True)
        passing.refuse_unfit(model, X, many=True)
        width = model._kept_width
        waits = np.full((len(X), width + self._said), np.nan)
        for t, line in enumerate(waits):
            undo = None if advance else undo_of(model)
            with passing.whole(model, quick=True):
                columns = model._pass(
                    ONE[ISSUE], X[t : t + 1].copy(), None, part(conditions, t, t + 1), line[None, :width]
                )
            line[width:] = columns[: self._said, 0, 0]
            if undo is not None:
                undo()
        return np.hstack([self.yardsticks.issue(X), X, at[:, None], waits])

    def issued(self, lines: FloatArray) -> PredictedRows:
        """What was predicted of rows that wait for their targets.

        Args:
            lines: from ``issue``.
        """
        p, kept = self._told(lines)
        unknown = np.full(len(lines), np.nan)
        return self._columns(p, np.zeros(len(lines), dtype=int), unknown, kept)

    def _told(self, lines: FloatArray) -> tuple[Prediction, FloatArray]:
        """What was predicted of rows that wait, and what yardsticks keep of them."""
        kept, *_, columns = self._parts_of(lines)
        return self.model._told(list(columns.T)), kept

    def _parts_of(self, lines: FloatArray) -> list[FloatArray]:
        """Of lines, what yardsticks keep, inputs, times, what it takes to learn the rows, and what was predicted."""
        return np.split(lines, np.cumsum(self._widths[:-1]), axis=1)

    @property
    def _widths(self) -> list[int]:
        """Of the same parts."""
        return [self.yardsticks.none.shape[1], len(self.schema.input_names), 1, self.model._kept_width, self._said]

    @property
    def line_width(self) -> int:
        """How many numbers a row has that waits for its target."""
        return sum(self._widths)

    @property
    def _said(self) -> int:
        """Columns of a prediction that rows keep which wait."""
        return bare(self.model._columns)

    def resolve(self, lines: FloatArray, y: FloatArray, times: list[str] | None = None) -> PredictedRows:
        """Learn late targets in the order in which they come; each counts as a row.

        Args:
            lines: of ``issue``.
            y: (n,) their targets.
            times: when they came, if models forget by time; None: when the last row came.
        """
        time, (p, kept) = self._moments([""] * len(y) if times is None else times), self._told(lines)
        self.refused.leave_first()
        self.scored = self._counted(y, p, self._learn_late(lines, y, time), kept)
        self.times.add(times, len(y))
        self._mark_events()
        return self.scored

    def _learn_late(self, lines: FloatArray, y: FloatArray, time: FloatArray | None) -> FloatArray:
        """Learn rows that wait; their targets as the model learned them."""
        model, learned = self.model, np.empty(len(y))
        kept, own, at, waits, _ = self._parts_of(lines)
        if (moment := model._moment) is not None:  # what a kernel over time learns is of the time of the row
            time = np.fmax(at[:, 0], moment.learned)
        for t in range(len(y)):
            Y = y[t : t + 1, None].copy()
            conditions = passing.conditions_of(model, 1, Y, time=part(time, t, t + 1), many=True)
            with passing.whole(model, quick=True):
                Y = model._screened(Y)
                model._pass(ONE[LEARN], own[t : t + 1].copy(), Y, conditions, waits[t : t + 1].copy())
            learned[t] = Y[0, 0]
        self.yardsticks.resolve(kept, learned)
        return learned

    # The file.

    @property
    def kept(self) -> tuple[Kept, ...]:
        """What is counted beside the model, to be saved."""
        return self.yardsticks, self.scores, self.changes, self.refused, self.times

    def contents(self) -> snapshot.Contents:
        """What a snapshot of the run has."""
        settings, parts = snapshot.encoded(self.request.settings)
        models, states = snapshot.nested({MODEL: snapshot.contents(self.model)})
        own = {"last": self.encoder.last} | {name: array for one in self.kept for name, array in one.arrays().items()}
        late = None
        if (tickets := self.tickets) is not None:
            own["waiting"] = np.array([*tickets.rows.values()]).reshape(len(tickets), self.line_width)
            late = {"waiting": list(tickets.rows), "closed": list(tickets.closed.items()), "counts": self.late}
        run = {
            "schema": self.schema.to_dict(),
            "model": self.request.model,
            "settings": settings,
            "lags": self.lags,
            "horizon": self.horizon,
            "encoder": self.encoder.known(),
            "rows": self.rows,
            "position": list(self.position),
            "about": self.extra,
            "late": late,
            "models": models,
        }
        return {"holds": "a run over rows of a table", "run": run}, own | parts | states

    def save(self, path: str | Path) -> None:
        """Write everything that the next row needs to one file."""
        snapshot.write(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the whole state as bytes."""
        return snapshot.packed(*self.contents())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return the run of a file written by ``save``."""
        try:
            data = snapshot.read(path)
        except OSError as error:
            raise RowsError(f"{path} cannot be read: {error.strerror}") from None
        return cls.from_bytes(data)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the run of a snapshot."""
        return cls.of(*snapshot.unpacked(data))

    @classmethod
    def of(cls, header: dict[str, Any], tensors: dict[str, np.ndarray]) -> Self:
        """Return the run of ``contents``."""
        if "run" not in header:
            raise snapshot.SnapshotError(
                f"the snapshot holds a single {header.get('model', 'model')}, not a run; open it with sg.load, "
                "or start a new run"
            )
        try:
            saved = header["run"]
            settings = snapshot.decoded(saved["settings"], tensors, {})
            run = cls(Schema.from_dict(saved["schema"]), saved["model"], settings, saved["lags"], saved["horizon"])
            run._go_on(saved, tensors)
        except snapshot.SnapshotError:
            raise
        except Exception as error:  # of whatever kind: what a file says may do anything to a constructor
            raise snapshot.SnapshotError(
                f"the snapshot does not describe a run this version can resume: {error}; start a new run, or resume it "
                "with the version that saved it"
            ) from error
        return run

    def _go_on(self, saved: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
        """Go on, just built, where the saved run stood."""
        self.rows = whole("rows", saved["rows"], at_least=0)
        self.position, self.extra = Position(*saved["position"]), saved["about"]
        self.encoder.go_on(saved["encoder"], tensors["last"])
        for one in self.kept:
            one.restore(tensors)
        model = model_of(*snapshot.part(MODEL, saved["models"], tensors))
        if repr(model) != repr(self.model) or model._shape != self.model._shape:
            raise snapshot.SnapshotError(
                f"the snapshot's model is not the one that its settings say, {self.model!r}: it is {model!r}"
            )
        self.model = model
        if (tickets := self.tickets) is None:
            return
        names, rows = [str(name) for name in saved["late"]["waiting"]], tensors["waiting"]
        if not len(set(names)) == len(names) == len(rows):
            raise snapshot.SnapshotError(
                "the snapshot does not name all rows that wait for their targets: resume it with the version that "
                "saved it, or start a new run"
            )
        tickets.rows = dict(zip(names, rows.reshape(len(rows), self.line_width).copy(), strict=True))
        tickets.closed = {str(name): bool(resolved) for name, resolved in saved["late"]["closed"]}
        tickets.resolved, tickets.expired, tickets.ignored = (
            whole(name, saved["late"]["counts"][name], at_least=0) for name in ("learned", "expired", "ignored")
        )

    # What can be read.

    def report_to(self, doing: Callable[[str], None]) -> None:
        """Say from now on what the pipeline does, where that takes seconds.

        Args:
            doing: takes the sentences.
        """
        if (model := model_with(self.model, "doing")) is not None:
            model.doing = doing

    @property
    def chosen(self) -> Any:
        """Which models were chosen on the first rows, and why; None before."""
        return asked(self.model, "chosen")

    def score_summary(self) -> dict[str, Any]:
        """The scores over all rows by name, and of the first rows and those after them beside the yardsticks'."""
        return self.scores.summary() | self.scores.parts(self.rows)

    @property
    def input_names(self) -> list[str]:
        """The name of every input of the model."""
        first, target = 0 if self.horizon else 1, self.schema.target
        columns = max(self.lags, int(self.request.model == AUTO))  # auto also predicts the change since the last one
        lagged = [f"{target}[-{k}]" if k else target for k in range(first, first + columns)]
        return self.encoder.input_names + lagged

    def importance(self) -> dict[str, float]:
        """How much each column counts, as shares, the largest first; empty where models cannot tell."""
        return told.importance(self.model, self.encoder, self.input_names)

    @property
    def late(self) -> dict[str, int] | None:
        """With a ticket column: rows that wait, targets that came late and were learned, rows that expired, and late
        rows without effect."""
        if (tickets := self.tickets) is None:
            return None
        learned, expired, ignored = tickets.resolved, tickets.expired, tickets.ignored
        return {"waiting": len(tickets), "learned": learned, "expired": expired, "ignored": ignored}

    @property
    def judges(self) -> bool:
        """Whether the run tells abnormal rows."""
        return self.request.run.alarms is not None

    @property
    def alarms(self) -> list[tuple[int, str]]:
        """Where rows were abnormal: the number of the row, and a sentence."""
        return self._in_words(self._events)

    def strangest(self, most: int = 10) -> list[tuple[int, str]]:
        """The alarms with the largest surprise, the strangest first: the number of the row, and a sentence."""
        return self._in_words(sorted(self._events, key=lambda alarm: -alarm.surprise)[:most])

    def _in_words(self, events: list[Alarm]) -> list[tuple[int, str]]:
        return [(one.row + 1, told.of_alarm(one, self.encoder.input_names)) for one in events]

    @property
    def _events(self) -> list[Alarm]:
        """Abnormal rows."""
        return asked(self.model, "events") if self.judges else []

    @property
    def alarm_counts(self) -> dict[str, int]:
        """How many alarms there were of each kind; empty where rows are not judged."""
        return asked(self.model, "counts") if self.judges else {}

    @property
    def drift(self) -> list[tuple[int, str]]:
        """Where the stream has changed: the number of the row, and a sentence."""
        return [(one.row, told.of_change(one, self.schema)) for one in self.changes.found]

    @property
    def happened(self) -> tuple[int, int, bool]:
        """What has happened so far, in short: when a change was noticed last, how many alarms there were, and whether
        models were chosen. If it is the same as before, nothing has.
        """
        return self.changes.last_noticed, sum(self.alarm_counts.values()), self.chosen is not None

    def when(self, row: int) -> str:
        """The time of a row at which something happened, or its number where there are no times, for people."""
        return self.times.when(row)

    def told(self, row: int, sentence: str) -> str:
        """A sentence about a row, after its time where rows have times."""
        return f"{self.when(row)}: {sentence}" if self.schema.time else sentence

    def _mark_events(self) -> None:
        """Keep the times of rows at which something happened."""
        if not self.schema.time:
            return
        if self.judges and self._marked != (count := sum(self.alarm_counts.values())):
            self._marked = count
            self.times.mark(one.row + 1 for one in self._events)
        for change in self.changes.found:
            self.times.keep(change.row, change.moment)

    @property
    def weights(self) -> dict[str, float]:
        """The present weight of each model, by name."""
        return asked(self.model, "weights") if self.request.model == AUTO else {self.request.model: 1.0}

    @property
    def diverged(self) -> list[str]:
        """The models of a committee that err beyond measure of late, and so have no weight; or the one of a run."""
        if self.request.model != AUTO:
            rmse, previous = (self.scores.summary()[name] for name in ("rmse", "rmse_previous_value"))
            return [self.request.model] if np.isinf(rmse) or rmse > DIVERGED * previous > 0 else []
        errors = asked(self.model, "errors")
        known = [error for error in errors.values() if np.isfinite(error)]
        far = DIVERGED * np.median(known) if known else np.inf
        return [name for name, error in errors.items() if error > far > 0]

    @property
    def health(self) -> dict[str, Any]:
        """Numerical repairs of the model, by kind and in all, and models that have diverged."""
        health = self.model.health._replace(fill_values=self.refused.count)
        return health._asdict() | {"repairs": health.repairs, "diverged": self.diverged}
