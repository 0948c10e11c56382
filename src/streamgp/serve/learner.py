"""Learner: the state of a stream, which is what its requests make of it, one after the other, and of nothing else.

Hence the same requests lead to the same state, bit for bit; a snapshot and the requests after it are enough to resume.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, islice
from typing import Any

import msgspec
import numpy as np

from streamgp.contract import snapshot
from streamgp.contract.atomic import discarded_on_error
from streamgp.job.pipeline import Pipeline
from streamgp.job.request import told_of_columns
from streamgp.job.scores import later_part
from streamgp.job.told import relevance
from streamgp.job.verdict import leaders, verdict
from streamgp.serve import cost
from streamgp.serve.described import new_pipeline, pending_of, refuse_waiting, run_settings, settings_of
from streamgp.serve.messages import (
    KEPT,
    DriftEvent,
    Health,
    PredictAnswer,
    PredictedRow,
    RefusedError,
    Row,
    RowsAnswer,
    Scores,
    StreamDetail,
    StreamSettings,
    TargetsAnswer,
    TicketRow,
    refusing,
)
from streamgp.serve.ops import NO_POINTS, YOUNG, Issued, Note, Op, Outcome
from streamgp.serve.rows import as_chunk
from streamgp.settings import FloatArray, nearest
from streamgp.tables.columns import Schema, is_spare, listed
from streamgp.tables.declared import misspelled
from streamgp.tables.encoding import EncodedRows
from streamgp.tables.formats import LOOK
from streamgp.tables.recognizing import recognize
from streamgp.tables.source import Position, RowsError
from streamgp.tables.writing import PredictedRows

SETTLED = 50  # rows after which it is fixed what the columns are
RECENT = 60  # targets of a sparkline
MOST_INPUTS = 30  # whose relevance is shown
RUN = "run"  # in a snapshot
Happened = tuple[tuple[int, int, bool], list[tuple[int, str]]]  # what a pipeline says of it, and where it changed


class Learner:
    """What a stream has learned, and the rows that wait for their targets.

    Args:
        settings: of the stream.
        tag: begins its tickets, so that those of another stream of the same name are unknown.
        issued: tickets that were given before.
    """

    def __init__(self, settings: StreamSettings, tag: str, issued: int = 0) -> None:
        self.settings, self.tag = settings, tag
        self.pipeline: Pipeline | None = None
        self.young: list[Op] | None = []  # ops so far, while it is not settled what the columns are
        self.tickets = Issued(tag, pending_of(settings), issued)
        self.past = deque[tuple[float, float, float]](maxlen=KEPT)  # for forecasts; see forecasts.py
        self.written = ""  # the last time, as it came

    @property
    def rows(self) -> int:
        return 0 if self.pipeline is None else self.pipeline.rows

    def apply(self, op: Op) -> Outcome:
        """Do what a request asks for. RefusedError: nothing has changed; after any other error, load the state anew."""
        if self.young is not None:
            self._refuse_misspelled(op.rows)
        renewed = self._renewed(op, self.young) if self.young is not None and op.rows else None
        if renewed is None:
            outcome = self._applied(op)
        else:
            outcome = renewed._applied(op)
            vars(self).update(vars(renewed))
        if self.young is not None:
            self.young = [*self.young, op]
            if sum(len(one.rows) for one in self.young) >= SETTLED:
                self.young = None
        return outcome

    def apply_all(self, ops: Sequence[Op]) -> list[Outcome | RefusedError]:
        """Do requests in their order; rows of several are learned as one block, which gives the same numbers."""
        outcomes: list[Outcome | RefusedError] = []
        for kind, group in groupby(ops, key=lambda op: op.kind):
            alike = list(group)
            if kind == "rows" and len(alike) > 1 and self.young is None and not self._ready().schema.ticket:
                try:
                    outcomes += self._together(alike)
                    continue
                except RefusedError:  # nothing has changed; one by one it turns out whose row it is
                    pass
            outcomes += map(self._outcome, alike)
        return outcomes

    def _outcome(self, op: Op) -> Outcome | RefusedError:
        try:
            return self.apply(op)
        except RefusedError as problem:
            return problem

    def _together(self, ops: Sequence[Op]) -> list[Outcome | RefusedError]:
        """What requests lead to whose rows are learned as one block."""
        before = seen = self.rows
        with discarded_on_error():
            predicted, points, notes = self._take([row for op in ops for row in op.rows])
        outcomes: list[Outcome | RefusedError] = []
        told: list[Note] = []
        for op in ops:
            own = slice(seen - before, seen - before + len(op.rows))
            seen += len(op.rows)
            answer = RowsAnswer(predicted[own], seen)
            # What is told of earlier rows, such as where a change began, goes with the last request.
            first = seen - len(op.rows) if op is not ops[-1] else 0
            of_it = [note for note in notes if first < note.row <= seen and note not in told]
            told += of_it
            outcomes.append(Outcome(answer, points[own], of_it))
        return outcomes

    def _refuse_misspelled(self, rows: list[Row]) -> None:
        """Refuse a new column that is another one misspelled, which the row lacks."""
        known = {self.settings.target, *(self.settings.inputs or ()), *(self.settings.schema or ())}
        known |= set() if self.pipeline is None else self.pipeline.schema.names
        for number, row in enumerate(rows, 1):
            for name in row.keys() - known:
                if meant := misspelled(name, sorted(known - row.keys())):
                    raise _no_column(number, name, f" Did you mean {meant!r}?")

    def _renewed(self, op: Op, young: list[Op]) -> Learner | None:
        """One that has done the same with the columns as they look now; None where they look as before."""
        schema = self._recognized(op, young)
        if schema is None or (self.pipeline is not None and schema == self.pipeline.schema):
            return None
        first = self.tickets.issued - sum(op.tickets for op in young)
        again = Learner(self.settings, self.tag, first)
        try:
            again.pipeline = new_pipeline(self.settings, schema)
            for earlier in young:
                again._applied(earlier)
        except (RefusedError, ValueError) as error:
            if self.pipeline is None:
                raise refused_rows(error) from None
            return None  # the first rows do not fit what the columns look like now: they stay what they are
        again.young = young
        return again

    def _recognized(self, op: Op, young: list[Op]) -> Schema | None:
        target = self.settings.target
        earlier = [row for one in young for row in one.rows]
        chunk = as_chunk([*earlier, *op.rows][: max(LOOK, SETTLED)])
        if target not in chunk.columns:
            if op.kind == "rows":
                names = list(chunk.columns)
                missing = f"no row has the target {target!r}.{nearest(target, names)} The columns are: {listed(names)}"
                raise RefusedError("no_target", missing, f'send "{target}": null where it is not known yet')
            chunk.columns[target] = [None] * len(chunk)
        try:
            known = told_of_columns(run_settings(self.settings))
            for name in known["declared"] or {}:  # one that has not come yet
                chunk.columns.setdefault(name, [None] * len(chunk))
            return recognize(chunk, target, self.settings.inputs, unlabeled=True, growing=True, **known)
        except RowsError as error:
            if self.pipeline is None:
                raise refused_rows(error) from None
            return None

    def _applied(self, op: Op) -> Outcome:
        with discarded_on_error():
            return {"rows": self._rows, "predict": self._predict, "targets": self._targets}[op.kind](op)

    def _rows(self, op: Op) -> Outcome:
        predicted, points, notes = self._take(op.rows)
        return Outcome(RowsAnswer(predicted, self.rows), points, notes)

    def _take(self, new: list[Row]) -> tuple[list[PredictedRow], FloatArray, list[Note]]:
        """Predict rows and learn them: the answer, the points and the notes."""
        pipeline = self._ready()
        before = _happened(pipeline)
        rows = pipeline.encoder.encode_complete(new)
        if rows is None:
            rows = self._encoded(pipeline, new)
            if not pipeline.schema.ticket:
                rows = pipeline.encoder.fill(rows)
        predicted = pipeline.take(rows, ahead=True)
        answers = [PredictedRow(int(row), *rest) for row, *rest in _table(predicted)]
        return answers, self._scored(pipeline.scored, pipeline.scored.time), _notes(pipeline, before)

    def _predict(self, op: Op) -> Outcome:
        pipeline = self._ready()
        refuse_waiting(pipeline)
        waits = pipeline.issue(self._encoded(pipeline, op.rows))
        told = zip(waits, _table(pipeline.issued(waits)), strict=True)
        answers = [TicketRow(self.tickets.new(waited), *rest) for waited, (_, *rest) in told]
        return Outcome(PredictAnswer(answers, pipeline.rows))

    def _targets(self, op: Op) -> Outcome:
        pipeline = self._ready()
        before = _happened(pipeline)
        results, waits = self.tickets.look(op.targets)
        points = NO_POINTS
        if waits:
            targets, rows = zip(*waits.values(), strict=True)
            times = [target.time or "" for target in targets]
            scored = pipeline.resolve(np.array(rows), np.array([target.value for target in targets]), times)
            for ticket in waits:
                self.tickets.resolve(ticket)
            points = self._scored(scored, times)
        return Outcome(TargetsAnswer(results, len(waits), pipeline.rows), points, _notes(pipeline, before))

    def _scored(self, scored: PredictedRows, times: list[str] | None) -> FloatArray:
        """Keep rows whose targets have come for forecasts; these rows as points."""
        pipeline = self._ready()
        pipeline.position, pipeline.extra = Position(), {}  # it is no longer over the file which it may have come from
        self._keep_past(list(zip(scored.row.tolist(), scored.observed.tolist(), strict=True)), times)
        columns = scored.row.astype(np.float64), scored.observed, scored.mean, scored.lower, scored.upper
        return np.column_stack(columns)

    def _keep_past(self, rows: Sequence[tuple[int, float]], times: list[str] | None) -> None:
        """Keep numbers and targets of rows for forecasts."""
        schema = self._ready().schema
        if times is None or not schema.reader.is_dated:
            self.past.extend([(row, math.nan, y) for row, y in rows])
            return
        for (row, y), text in zip(rows, times, strict=True):
            moment = schema.reader.seconds(text)
            self.past.append((row, moment, y))
            if math.isfinite(moment):
                self.written = text

    def report_to(self, say: Callable[[str], None]) -> None:
        """Say from now on what takes seconds."""
        if self.pipeline is not None:
            self.pipeline.report_to(say)

    def _ready(self) -> Pipeline:
        if self.pipeline is None:
            raise RefusedError("no_rows_yet", "the stream has no rows yet, so no ticket is waiting")
        return self.pipeline

    def _encoded(self, pipeline: Pipeline, rows: list[Row]) -> EncodedRows:
        needed, known = set(pipeline.schema.needed), pipeline.schema.names
        for number, row in enumerate(rows, 1):
            if needed.isdisjoint(row):
                columns = ", ".join(sorted(needed)[:20])
                raise RefusedError("bad_row", f"row {number} has none of the stream's columns", f"they are: {columns}")
            for name in row.keys() - known:  # a new column is left out, unless it looks like one that is missing
                if meant := nearest(name, sorted(needed - row.keys())):
                    raise _no_column(number, name, meant)
        encoder = pipeline.encoder
        levels, strangers = list(encoder.joined), dict(encoder.strangers)
        encoded = encoder.encode(as_chunk(rows))
        if encoded.bad:
            encoder.joined, encoder.strangers = levels, strangers
            line, reason = encoded.bad[0]
            raise RefusedError("bad_row", f"row {line} {reason}")
        return encoded

    # The state.

    def frozen(self) -> Callable[[], bytes]:
        """What gives the whole state as it is now, also while more is learned."""
        state = self.to_bytes()
        return lambda: state

    def to_bytes(self) -> bytes:
        """The whole state."""
        runs, tensors = snapshot.nested({} if self.pipeline is None else {RUN: self.pipeline.contents()})
        header = {"holds": "a stream of streamgp serve", "runs": runs, "written": self.written}
        tensors["waiting"] = np.array(list(self.tickets.rows.values()))
        tensors["past"] = np.array(self.past).reshape(-1, 3)
        tensors["young"] = np.frombuffer(msgspec.msgpack.encode(self.young), dtype=np.uint8)
        return snapshot.packed(header | self.tickets.header(), tensors)

    @classmethod
    def from_bytes(cls, settings: StreamSettings, tag: str, data: bytes) -> Learner:
        """The learner whose ``to_bytes`` gave this."""
        header, tensors = snapshot.unpacked(data)
        learner = cls(settings, tag)
        if RUN in header["runs"]:
            with cost.refusing():
                learner.pipeline = Pipeline.of(*snapshot.part(RUN, header["runs"], tensors))
        learner.young = YOUNG.decode(tensors["young"].tobytes())
        learner.tickets.restore(header, tensors["waiting"])
        learner.past.extend(map(tuple, tensors["past"].tolist()))
        learner.written = header["written"]
        return learner

    def seen(self, name: str) -> StreamDetail:
        """What is told of the stream, while nobody else uses it."""
        if (pipeline := self.pipeline) is None:
            return StreamDetail(name, self.settings, "new")
        scores, health, chosen = pipeline.score_summary(), pipeline.health, pipeline.chosen
        judged = later_part(scores)
        named = {field: scores[field] for field in Scores.__struct_fields__ if field != "mae"}
        alarms, diverged = sum(pipeline.alarm_counts.values()), list(health["diverged"])
        return StreamDetail(
            name,
            self.settings,
            state="ready" if chosen else "learning",
            rows=pipeline.rows,
            inputs=[column for column in pipeline.input_names if not is_spare(column)],
            columns=pipeline.encoder.sentences(),
            chosen="" if chosen is None else leaders(pipeline),
            models=dict(sorted(pipeline.weights.items(), key=lambda item: -item[1])),
            relevance=_relevance(pipeline),
            scores=Scores(**named, mae=None if judged is None else judged["compared_mae"]),
            health=Health(int(health["repairs"]), diverged, int(health["fill_values"]), alarms),
            drift=[DriftEvent(row, pipeline.told(row, text)) for row, text in pipeline.drift],
            tickets=self.tickets.told(),
            gaps=dict(pipeline.encoder.gaps),
            verdict=verdict(pipeline),
            times=pipeline.times.anchors(),
            recent=[y for *_, y in islice(reversed(self.past), RECENT)][::-1],
        )

    def saved(self) -> bytes:
        """The run, as the library's file."""
        if self.pipeline is None:
            raise RefusedError("no_rows_yet", "the stream has no rows yet, so there is nothing to save")
        return self.pipeline.to_bytes()

    @classmethod
    def of_run(cls, data: bytes, tag: str) -> Learner:
        """One that goes on with a run that ``streamgp run --save``, a notebook or another server has saved."""
        hint = "send a file of streamgp run --save, unaltered"
        with refusing("bad_snapshot", snapshot.SnapshotError, hint), cost.refusing():
            pipeline = Pipeline.from_bytes(data)
        settings = settings_of(pipeline)
        learner = cls(settings, tag)
        cost.refuse(pipeline.request, len(pipeline.input_names), pending_of(settings))
        cost.refuse_pending(pipeline, pending_of(settings))
        learner.pipeline, learner.young = pipeline, None
        return learner


def _happened(pipeline: Pipeline) -> Happened:
    return pipeline.happened, pipeline.drift


def _notes(pipeline: Pipeline, before: Happened) -> list[Note]:
    """What has happened since."""
    (_, alarms, chosen), known = before
    if (now := pipeline.happened) == before[0]:
        return []
    found = [("drift", row, text) for row, text in pipeline.drift if (row, text) not in known]
    found += [("alarm", row, text) for row, text in pipeline.alarms[alarms - now[1] :] if now[1] > alarms]
    notes = [Note(kind, row, pipeline.told(row, text)) for kind, row, text in found]
    return [*notes, Note("model", pipeline.rows, leaders(pipeline))] if now[2] and not chosen else notes


def _relevance(pipeline: Pipeline) -> dict[str, float]:
    """The largest relevances by input."""
    names, weights = pipeline.input_names, relevance(pipeline.model)
    if len(names) != len(weights):
        return {}
    largest = np.argsort(-weights, kind="stable")[:MOST_INPUTS]
    used = [i for i in largest if np.isfinite(weights[i]) and not is_spare(names[i])]
    return {names[i]: float(weights[i]) for i in used}


def _no_column(number: int, name: str, meant: str) -> RefusedError:
    return RefusedError("bad_row", f"row {number} has {name!r}, which is no column of the stream.{meant}")


def refused_rows(error: Exception) -> RefusedError:
    """Rows that cannot be used, as a problem."""
    return error if isinstance(error, RefusedError) else RefusedError("bad_row", str(error))


def _table(predicted: PredictedRows) -> Iterator[tuple[Any, ...]]:
    """Number, mean, lower, upper and standard deviation of each row; None where nothing could be predicted."""
    columns = predicted.row, predicted.mean, predicted.lower, predicted.upper, predicted.std
    for row, mean, *rest in zip(*(column.tolist() for column in columns), strict=True):
        yield (row, mean, *rest) if math.isfinite(mean) else (row, None, None, None, None)
