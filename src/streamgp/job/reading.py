"""What can be read of a run: its model, what was chosen, changes, alarms, weights and health."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from streamgp.auto.auto import Auto
from streamgp.auto.importance import importance
from streamgp.auto.staged import Chosen, Staged
from streamgp.contract.model import StreamModel
from streamgp.contract.waiting import Tickets
from streamgp.job.changes import Changes, StreamChange
from streamgp.job.request import AUTO, Request
from streamgp.job.scores import RunningScores, shown
from streamgp.job.screening import Screening
from streamgp.job.times import Times
from streamgp.job.yardsticks import Measured
from streamgp.settings import FloatArray
from streamgp.tables.columns import NEW_LEVEL, Schema
from streamgp.tables.encoding import RowEncoder
from streamgp.tables.source import Position
from streamgp.tables.writing import PredictedRows
from streamgp.wrappers.alarms import Alarm, Alarms
from streamgp.wrappers.delayed import Delayed
from streamgp.wrappers.wrapper import Wrapper

DIVERGED = 1e6  # times the median error of the members of a committee, or that of the previous value
ALARMS = {"spike": "one row", "level": "the level changed", "relation": "inputs and target relate otherwise"}
COUNTED = {
    "spike": ("spike", "spikes"),
    "level": ("change of the level", "changes of the level"),
    "relation": ("change of the relation", "changes of the relation"),
}
FAINT = 0.02  # a smaller shift of the targets, as a part of their level, is none to be told


class Happened(NamedTuple):
    """What has happened to a run, in short: if it is the same as before, nothing has.

    Args:
        changed: the row after which the last change was clear.
        alarms: how many there were.
        chosen: whether models were chosen.
    """

    changed: int
    alarms: int
    chosen: bool


class ReadableRun:
    """A run, as far as it is read and not changed."""

    schema: Schema
    request: Request
    lags: int
    horizon: int
    rows: int  # so far
    level: float  # of the intervals
    scored: PredictedRows  # the rows whose targets came last
    screening: Screening
    times: Times
    encoder: RowEncoder
    tickets: Tickets[int] | None  # of rows that wait, where there is a ticket column
    position: Position  # in the source
    extra: dict[str, Any]  # what else is kept in the file
    _marked: int = 0  # alarms whose times are kept
    _stream: Measured | Delayed  # the model, and its yardsticks, which may be some rows behind it
    _scores: RunningScores  # and so may these
    _changes: Changes
    _found: tuple[Any, Staged] | None = None  # the part of a model that is chosen and tuned

    def settle(self) -> None:
        """Do what has waited: yardsticks, scores and changes take the rows that the model has taken."""

    @property
    def stream(self) -> Measured | Delayed:
        """The model and its yardsticks."""
        self.settle()
        return self._stream

    @property
    def scores(self) -> RunningScores:
        """Of all rows so far, beside those of the yardsticks."""
        self.settle()
        return self._scores

    @property
    def changes(self) -> Changes:
        """What is known of changes of the stream."""
        self.settle()
        return self._changes

    def report_to(self, doing: Callable[[str], None]) -> None:
        """Say from now on what the pipeline does, where that takes seconds.

        Args:
            doing: takes the sentences.
        """
        self._staged.doing = doing

    @property
    def _measured(self) -> Measured:
        """The model and the yardsticks, which learn targets as they come."""
        within: Any = self._stream._within if isinstance(self._stream, Delayed) else self._stream
        return within  # type: ignore[no-any-return]

    @property
    def model(self) -> StreamModel:
        """The model without the yardsticks."""
        return self._measured._models[0]

    @property
    def _staged(self) -> Staged:
        """The part of the model that is chosen and tuned."""
        if self._found is None or self._found[0] is not self._stream:  # looked for once: it takes as long as a row
            self._found = self._stream, next(one for one in self.model._family() if isinstance(one, Staged))
        return self._found[1]

    def is_calm(self, rows: int) -> bool:
        """Whether this many more rows are learned without anything being built, tuned or learned again."""
        look = self.screening.next_look(self.rows)
        return self._staged._next_change() > self._staged.rows_seen + rows and not 0 < look <= rows

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
        return self.encoder.input_names + lagged

    @property
    def late(self) -> dict[str, int] | None:
        """With a ticket column: rows that wait, targets that came late and were learned, rows that expired, and late
        rows without effect."""
        if (tickets := self.tickets) is None:
            return None
        learned, expired, ignored = tickets.resolved, tickets.expired, tickets.ignored
        return {"waiting": len(tickets), "learned": learned, "expired": expired, "ignored": ignored}

    # Changes and alarms.

    @property
    def _alarms(self) -> Alarms | None:
        return self.model if isinstance(self.model, Alarms) else None

    @property
    def _judged(self) -> FloatArray | None:
        """Surprises and kinds of alarms of the rows that were learned last, (2, n); None where they are not judged."""
        alarms = self._alarms
        return None if alarms is None else alarms._found[:, :, 0]

    @property
    def alarms(self) -> list[tuple[int, str]]:
        """Where rows were abnormal: the number of the row, and a sentence."""
        if (alarms := self._alarms) is None:
            return []
        return [(alarm.row + 1, self._sentence(alarm)) for alarm in alarms.events]

    def _sentence(self, alarm: Alarm) -> str:
        cause = "" if alarm.cause < 0 else f"; most unlike its usual effect: {self.encoder.input_names[alarm.cause]}"
        seen = f"{alarm.observed:.4g} observed, {alarm.expected:.4g} expected"
        chance = (
            f"p = {alarm.p_value:.1g}"
            if alarm.kind == "spike"
            else f"by chance at most once in {shown(1 / alarm.p_value)} rows"
        )
        return f"alarm, {ALARMS[alarm.kind]}: {seen}, {chance}{cause}"

    def strangest(self, most: int = 10) -> list[tuple[int, str]]:
        """The alarms with the largest surprise, the strangest first: the number of the row, and a sentence."""
        alarms = [] if self._alarms is None else self._alarms.events
        ordered = sorted(alarms, key=lambda alarm: -alarm.surprise)[:most]
        return [(alarm.row + 1, self._sentence(alarm)) for alarm in ordered]

    @property
    def alarm_counts(self) -> dict[str, int]:
        """How many alarms there were of each kind; empty where rows are not judged."""
        return {} if (alarms := self._alarms) is None else alarms.counts

    def counted_alarms(self) -> str:
        """How many alarms there were of each kind, in words; empty where there were none."""
        return ", ".join(f"{count} {COUNTED[kind][count > 1]}" for kind, count in self.alarm_counts.items() if count)

    @property
    def drift(self) -> list[tuple[int, str]]:
        """Where the stream has changed: the number of the row, and a sentence."""
        return [(one.row, self._change(one)) for one in self.changes.found]

    def _change(self, change: StreamChange) -> str:
        """What has changed, for people."""
        target, unit = self.schema.target, self.schema.column(self.schema.target).form
        shift, level = change.shift, change.level
        by = f"{shown(abs(shift))}{unit and ' '}{unit}"
        if abs(level) > abs(shift):
            by += f" ({100 * abs(shift / level):.0f}%)"
        if abs(shift) < FAINT * max(abs(level), abs(shift)):
            return f"{target} depends on its inputs otherwise than before"
        return f"{target} is {by} {'higher' if shift > 0 else 'lower'} than the same inputs gave before"

    @property
    def happened(self) -> Happened:
        """What has happened so far, as far as it is settled."""
        alarms = self._alarms
        raised = 0 if alarms is None else sum(alarms.counts.values())
        return Happened(self._changes.last_noticed, raised, self._staged.chosen is not None)

    def when(self, row: int) -> str:
        """The time of a row at which something happened, or its number where there are no times, for people."""
        return self.times.when(row)

    def told(self, row: int, sentence: str) -> str:
        """A sentence about a row, after its time where rows have times."""
        return f"{self.when(row)}: {sentence}" if self.schema.time else sentence

    def mark_events(self) -> None:
        """Keep the times of rows at which something happened."""
        if not self.schema.time:
            return
        if self._alarms is not None and self._marked != (count := sum(self.alarm_counts.values())):
            self._marked = count
            self.times.mark(alarm.row + 1 for alarm in self._alarms.events)
        for one in self.changes.found:
            self.times.keep(one.row, one.moment)

    @property
    def _auto(self) -> Auto | None:
        if self.request.model != AUTO:
            return None
        return next((one for one in self.model._family() if isinstance(one, Auto)), None)

    def importance(self) -> dict[str, float]:
        """How much each column counts, as shares, the largest first; empty where models cannot tell.

        Of auto by how far predictions of the last rows move (auto/importance.py), of other models by lengthscales. It
        takes as long as a few thousand predictions.
        """
        names, columns = self.input_names, [self.encoder.source_of(name) for name in self.encoder.input_names]
        columns += [f"past {self.schema.target}"] * (len(names) - len(columns))
        if (auto := self._auto) is not None:
            experts, own = auto._shown, len(self.schema.input_names)
            columns = columns[:own] + [f"past {self.schema.target}"] * experts._past
            groups = [[i for i, one in enumerate(columns) if one == name] for name in dict.fromkeys(columns)]
            values = importance(experts, groups) if experts._d is not None else np.zeros(0)
            shares = dict(zip(dict.fromkeys(columns), values.tolist(), strict=False))
        else:
            try:
                weights = self.model.relevance().inputs
            except (ValueError, RuntimeError):
                return {}
            shares = dict.fromkeys(columns, 0.0) if len(weights) == len(columns) else {}
            for name, weight in zip(shares and columns, weights.tolist(), strict=False):
                shares[name] += weight
        shares.pop(NEW_LEVEL, None)
        total = sum(shares.values()) or 1.0
        return {name: share / total for name, share in sorted(shares.items(), key=lambda item: -item[1])}

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
