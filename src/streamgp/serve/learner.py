"""Learner: the state of a stream, which is what its requests make of it, one after the other, and of nothing else.

Hence the same requests lead to the same state, bit for bit; a snapshot and the requests after it are enough to resume.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

from streamgp.contract import snapshot
from streamgp.contract.atomic import discarded_on_error
from streamgp.contract.waiting import Tickets
from streamgp.job.pipeline import Pipeline
from streamgp.job.request import told_of_columns
from streamgp.job.verdict import leaders
from streamgp.serve import cost
from streamgp.serve.described import new_pipeline, pending_of, refuse_waiting, run_settings, settings_of
from streamgp.serve.forecasts import KEPT
from streamgp.serve.messages import (
    PredictAnswer,
    PredictedRow,
    RefusedError,
    Row,
    RowsAnswer,
    StreamSettings,
    Target,
    TargetResult,
    TargetsAnswer,
    TicketRow,
)
from streamgp.serve.rows import as_chunk
from streamgp.settings import FloatArray, nearest
from streamgp.tables.columns import Schema, listed
from streamgp.tables.declared import misspelled
from streamgp.tables.encoding import EncodedRows
from streamgp.tables.formats import LOOK
from streamgp.tables.recognizing import recognize
from streamgp.tables.source import Position, RowsError
from streamgp.tables.writing import PredictedRows

SETTLED = 50  # rows after which it is fixed what the columns are
RUN = "run"  # in a snapshot
NOTHING = np.empty((0, 5))


class Op(Struct, omit_defaults=True):
    """A request that changes the state.

    Args:
        kind: "rows", "predict" or "targets".
        rows: of the first two.
        targets: of the last.
    """

    kind: str
    rows: list[Row] = []
    targets: list[Target] = []

    @property
    def size(self) -> int:
        """Rows or targets."""
        return len(self.rows) + len(self.targets)

    @property
    def tickets(self) -> int:
        """How many it gives."""
        return len(self.rows) if self.kind == "predict" else 0


class Note(Struct):
    """Something that happened, for whoever listens: kind "drift", "alarm" or "model"."""

    kind: str
    row: int
    text: str


class Noted(NamedTuple):
    """Changes and abnormal rows of a stream, which models were chosen, and all of it in short, so far."""

    drift: list[tuple[int, str]]
    alarms: list[tuple[int, str]]
    chosen: Any
    happened: tuple[int, int, bool]

    @classmethod
    def of(cls, pipeline: Pipeline, before: Noted | None = None) -> Noted:
        """Of a pipeline; alarms, each of which has a sentence, are written anew only if there are more."""
        happened = pipeline.happened
        same = before is not None and before.happened[1] == happened[1]
        return cls(
            pipeline.drift, before.alarms if before is not None and same else pipeline.alarms, pipeline.chosen, happened
        )


class Outcome(Struct):
    """What an op led to.

    Args:
        answer: to the client.
        points: (n, 5) rows whose predictions are now complete: number, target (NaN: none), mean, lower, upper.
        notes: what happened.
    """

    answer: RowsAnswer | PredictAnswer | TargetsAnswer
    points: Any = NOTHING
    notes: list[Note] = []


# Made here, in one thread: msgspec crashes where several threads are the first to decode a type at the same time.
YOUNG, OPS = msgspec.msgpack.Decoder(list[Op] | None), msgspec.msgpack.Decoder(Op)


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
        self.tickets = Tickets[FloatArray](pending_of(settings))
        self.past = deque[tuple[float, float, float]](maxlen=KEPT)  # for forecasts; see forecasts.py
        self.written = ""  # the last time, as it came
        self._first = self._issued = issued
        self._known: tuple[Pipeline, Noted] | None = None  # of the pipeline after its last rows

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
            rows = sum(op.size for op in alike)
            if kind == "rows" and len(alike) > 1 and self.is_calm(rows) and not self._ready().schema.ticket:
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

    def is_calm(self, rows: int) -> bool:
        """Whether this many more rows are learned without anything being built, tuned or learned again."""
        return self.young is None and self.pipeline is not None and self.pipeline.is_calm(rows)

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
        again = Learner(self.settings, self.tag, self._first)
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
                raise RefusedError(
                    422,
                    "no_target",
                    f"no row has the target {target!r}.{nearest(target, names)} The columns are: {listed(names)}",
                    f'send "{target}": null where it is not known yet',
                )
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
        before = self._noted(pipeline)
        rows = pipeline.encoder.encode_complete(new)
        if rows is None:
            rows = self._encoded(pipeline, new)
            if not pipeline.schema.ticket:
                rows = pipeline.encoder.fill(rows)
        predicted = pipeline.take(rows, ahead=True)
        self._detach(pipeline)
        answers = [PredictedRow(int(row), *rest) for row, *rest in _table(predicted)]
        return answers, self._scored(pipeline.scored, pipeline.scored.time), self._notes(pipeline, before)

    def _predict(self, op: Op) -> Outcome:
        pipeline = self._ready()
        refuse_waiting(pipeline)
        rows = self._encoded(pipeline, op.rows)
        waits = pipeline.issue(rows)
        answers = []
        for waited, (_, *rest) in zip(waits, _table(pipeline.issued(waits)), strict=True):
            self._issued += 1
            ticket = f"{self.tag}-{self._issued}"
            self.tickets.issue(ticket, waited)
            answers.append(TicketRow(ticket, *rest))
        return Outcome(PredictAnswer(answers, pipeline.rows))

    def _targets(self, op: Op) -> Outcome:
        pipeline = self._ready()
        before = self._noted(pipeline)
        results, waits, y, times = [], [], [], []
        for target in op.targets:
            waited = self.tickets.resolve(target.ticket)
            if waited is None:
                resolved = self.tickets.closed.get(target.ticket)
                status = "unknown" if resolved is None else "known" if resolved else "expired"
            else:
                status = "learned"
                waits.append(waited)
                y.append(target.value)
                times.append(target.time or "")
            results.append(TargetResult(target.ticket, status))
        points = NOTHING
        if waits:
            points = self._scored(pipeline.resolve(np.array(waits), np.array(y), times), times)
            self._detach(pipeline)
        return Outcome(TargetsAnswer(results, len(waits), pipeline.rows), points, self._notes(pipeline, before))

    def _scored(self, scored: PredictedRows, times: list[str] | None) -> FloatArray:
        """Keep rows whose targets have come for forecasts; these rows as points."""
        self._keep_past(list(zip(scored.row.tolist(), scored.observed.tolist(), strict=True)), times)
        return _points(scored)

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

    def _noted(self, pipeline: Pipeline) -> Noted:
        """The changes and the choice of models so far."""
        if self._known is None or self._known[0] is not pipeline:
            self._known = pipeline, Noted.of(pipeline)
        return self._known[1]

    def _notes(self, pipeline: Pipeline, before: Noted) -> list[Note]:
        """What has happened since."""
        if before.happened == pipeline.happened:
            return []
        now = Noted.of(pipeline, before)
        self._known = pipeline, now
        told = pipeline.told
        notes = [Note("drift", row, told(row, text)) for row, text in now.drift if (row, text) not in before.drift]
        if now.alarms is not before.alarms:
            known = set(before.alarms)
            notes += [Note("alarm", row, told(row, text)) for row, text in now.alarms if (row, text) not in known]
        if now.chosen is not None and before.chosen is None:
            notes.append(Note("model", pipeline.rows, leaders(pipeline)))
        return notes

    def _ready(self) -> Pipeline:
        if self.pipeline is None:
            raise RefusedError(
                409, "no_rows_yet", "the stream has no rows yet, so no ticket is waiting", "post rows, or predict some"
            )
        return self.pipeline

    def _encoded(self, pipeline: Pipeline, rows: list[Row]) -> EncodedRows:
        needed, known = set(pipeline.schema.needed), pipeline.schema.names
        for number, row in enumerate(rows, 1):
            if needed.isdisjoint(row):
                columns = ", ".join(sorted(needed)[:20])
                raise RefusedError(
                    422, "bad_row", f"row {number} has none of the stream's columns", f"they are: {columns}"
                )
            for name in row.keys() - known:  # a new column is left out, unless it looks like one that is missing
                if meant := nearest(name, sorted(needed - row.keys())):
                    raise _no_column(number, name, meant)
        encoder = pipeline.encoder
        levels, strangers = list(encoder.joined), dict(encoder.strangers)
        encoded = encoder.encode(as_chunk(rows))
        if encoded.bad:
            encoder.joined, encoder.strangers = levels, strangers
            line, reason = encoded.bad[0]
            raise RefusedError(
                422, "bad_row", f"row {line} {reason}", "nothing of this request was learned; fix it, resend"
            )
        return encoded

    def _detach(self, pipeline: Pipeline) -> None:
        """From now on the run is no longer that over the file which it may have come from."""
        pipeline.position, pipeline.extra = Position(), {}

    # The state.

    def to_bytes(self) -> bytes:
        """The whole state."""
        tickets = self.tickets
        runs, tensors = snapshot.nested({} if self.pipeline is None else {RUN: self.pipeline.contents()})
        header = {
            "holds": "a stream of streamgp serve",
            "runs": runs,
            "tickets": list(tickets.rows),
            "closed": list(tickets.closed.items()),
            "issued": self._issued,
            "expired": tickets.expired,
            "written": self.written,
        }
        tensors["waiting"] = np.array(list(tickets.rows.values()))
        tensors["past"] = np.array(self.past).reshape(-1, 3)
        tensors["young"] = np.frombuffer(msgspec.msgpack.encode(self.young), dtype=np.uint8)
        return snapshot.packed(header, tensors)

    @classmethod
    def from_bytes(cls, settings: StreamSettings, tag: str, data: bytes) -> Learner:
        """The learner whose ``to_bytes`` gave this."""
        header, tensors = snapshot.unpacked(data)
        learner = cls(settings, tag)
        if RUN in header["runs"]:
            with cost.refusing():
                learner.pipeline = Pipeline.of(*snapshot.part(RUN, header["runs"], tensors))
        learner.young = YOUNG.decode(tensors["young"].tobytes())
        learner.tickets.rows = dict(zip(header["tickets"], tensors["waiting"].copy(), strict=True))
        learner.tickets.closed = dict(header["closed"])
        learner.past.extend(map(tuple, tensors["past"].tolist()))
        learner.written = header["written"]
        learner._issued, learner.tickets.expired = header["issued"], header["expired"]
        learner._first = learner._issued - sum(op.tickets for op in learner.young or ())
        return learner

    @classmethod
    def of_run(cls, data: bytes, tag: str) -> Learner:
        """One that goes on with a run that ``streamgp run --save``, a notebook or another server has saved."""
        try:
            with cost.refusing():
                pipeline = Pipeline.from_bytes(data)
        except snapshot.SnapshotError as error:
            raise RefusedError(
                422, "bad_snapshot", str(error), "send a file of streamgp run --save, unaltered"
            ) from None
        settings = settings_of(pipeline)
        learner = cls(settings, tag)
        cost.refuse(pipeline.request, len(pipeline.input_names), pending_of(settings))
        cost.refuse_waiting(pipeline, pending_of(settings))
        learner.pipeline, learner.young = pipeline, None
        return learner


def _no_column(number: int, name: str, meant: str) -> RefusedError:
    return RefusedError(
        422,
        "bad_row",
        f"row {number} has {name!r}, which is no column of the stream.{meant}",
        "nothing of this request was learned; fix the name, resend",
    )


def refused_rows(error: Exception) -> RefusedError:
    """Rows that cannot be used, as a problem."""
    return error if isinstance(error, RefusedError) else RefusedError(422, "bad_row", str(error), "nothing was learned")


def _table(predicted: PredictedRows) -> Iterator[tuple[Any, ...]]:
    """Number, mean, lower, upper and standard deviation of each row; None where nothing could be predicted."""
    columns = predicted.row, predicted.mean, predicted.lower, predicted.upper, predicted.std
    for row, mean, *rest in zip(*(column.tolist() for column in columns), strict=True):
        yield (row, mean, *rest) if math.isfinite(mean) else (row, None, None, None, None)


def _points(scored: PredictedRows) -> FloatArray:
    return np.column_stack([scored.row.astype(np.float64), scored.observed, scored.mean, scored.lower, scored.upper])
