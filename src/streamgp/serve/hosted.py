"""A hosted stream or fleet: a bounded queue, a task that empties it, and the journal behind it.

What waits is taken together: a thread applies it to the learner and writes it with its answers, in one commit; then it
is answered. If it cannot be written, the learner is loaded anew from what is on disk, so that memory never knows more
than the disk.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, NamedTuple, TypeVar

import numpy as np
from msgspec import Struct

from streamgp.contract.snapshot import SnapshotError
from streamgp.serve.events import Hub
from streamgp.serve.fleets import FleetLearner
from streamgp.serve.forecasts import Forecasting
from streamgp.serve.journal import GROUP, TABLES, Done, Journal, Kept, Write, statement, stopping
from streamgp.serve.learner import Learner, refused_rows
from streamgp.serve.messages import (
    FLEET_SETTINGS,
    SETTINGS,
    FleetDetail,
    RefusedError,
    StreamDetail,
    TargetsAnswer,
    encode,
)
from streamgp.serve.ops import OPS, Note, Op, Outcome

LOG = logging.getLogger("streamgp.serve")
T = TypeVar("T")
MOST_WAITING = 64  # requests in the queue of a stream
GATHERED = 4  # rounds of the loop before a group is taken
GROUP_ROWS = 10_000  # rows beyond which no more requests join them
REPLAY = 2.0  # seconds of work that a restart may have to repeat, before a snapshot is taken
SNAPSHOT_SHARE = 20.0  # and at least this multiple of the time of the last snapshot
BETWEEN = 0.01  # seconds between the parts of a snapshot, in which others write
LOOKED = 0.5  # seconds between two looks at a stream under load


class Kind(NamedTuple):
    """What is hosted."""

    settings: Any  # what decodes them
    learner: Any
    detail: Any  # what is told of it


KINDS = {
    "streams": Kind(SETTINGS, Learner, StreamDetail),
    "fleets": Kind(FLEET_SETTINGS, FleetLearner, FleetDetail),
}


class Asked(Struct, eq=False):
    """What waits in the queue: a request, or something else to do in the stream's turn."""

    future: Any  # gets the answer, as bytes, or what the call returns
    op: Op | None = None
    key: str = ""  # by which a repeated request is known again
    digest: bytes = b""  # of the request
    call: Callable[[], Any] | None = None  # in place of a request
    blind: bool = False  # whether the call works, too, if what the stream has learned cannot be loaded
    result: Any = None  # what the future gets, or the error


class Hosted:
    """A stream in the service.

    Args:
        kept: as the journal knows it.
        journal: that keeps it.
        pool: where it works, in one thread at a time.
        later: where its snapshots are written.
        alarmed: told of alarms: the name of the stream, the row, a sentence.
    """

    def __init__(
        self,
        kept: Kept,
        journal: Journal,
        pool: Executor,
        later: Executor,
        alarmed: Callable[[str, int, str], None],
    ) -> None:
        self.id, self.name, self.tag, self.seq, self.kind = kept.id, kept.name, kept.tag, kept.seq, kept.kind
        decoder, self._kind, self._told = KINDS[kept.kind]
        self.settings: Any = decoder.decode(kept.settings)
        self.hub, self.forecasting = Hub(), Forecasting()
        self.gone = False
        self.busy_seconds = 0.0
        self.noticed: Counter[str] = Counter()  # kinds of notes, since the server started
        self.newest: tuple[float, ...] | None = None  # row, target, mean, lower and upper, since the server started
        self.detail: Any = self._told(self.name, self.settings)  # as of the last look
        self.stale = False  # whether more has happened since
        self._looked = 0.0
        self._pace = 0.0  # seconds of a request
        self._journal, self._pool, self._later, self._alarmed = journal, pool, later, alarmed
        self._learner: Any = None  # of this kind
        self._queue: deque[Asked] = deque()
        self._task: asyncio.Task[None] | None = None  # that empties the queue
        self._snapshot: Future[None] | None = None  # that is written
        self._owed = 0.0  # seconds of work since the last snapshot
        self._snapshot_seconds = 0.0
        self._saved = -1  # the position of the last snapshot

    # The queue, in the server's loop.

    def ask(self, op: Op, key: str = "", digest: bytes = b"") -> asyncio.Future[bytes]:
        """Have a request done; the future gets its answer when it is on disk."""
        return self._put(Asked(asyncio.get_running_loop().create_future(), op, key, digest))

    def call(self, call: Callable[[], T], blind: bool = False) -> asyncio.Future[T]:
        """Have something else done in the stream's turn; see Asked."""
        return self._put(Asked(asyncio.get_running_loop().create_future(), call=call, blind=blind))

    def load(self) -> None:
        """Have the state loaded in the background."""
        self.call(lambda: None)

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def _put(self, asked: Asked) -> asyncio.Future[Any]:
        if self.gone:
            raise unknown(self.name, self.kind)
        if len(self._queue) >= MOST_WAITING:
            busy = f"{MOST_WAITING} requests wait for {self.name} already"
            hint = "wait for answers before you send more, or send several rows at once"
            raise RefusedError("busy", busy, hint, max(1, round(self._pace * MOST_WAITING)))
        self._queue.append(asked)
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        future: asyncio.Future[Any] = asked.future
        return future

    async def _work(self) -> None:
        """Do what waits, until nothing does."""
        loop = asyncio.get_running_loop()
        while self._queue or self._is_look_due():
            for _ in range(GATHERED):  # meanwhile the loop answers, and hands over what clients send at the same time
                await asyncio.sleep(0)
            group = [] if self._is_look_due() else self._taken()
            try:
                await loop.run_in_executor(self._pool, self._turn, group)
            except RuntimeError:  # there are no threads any more
                for asked in group:
                    asked.result = stopping()
            for asked in group:
                if asked.future.done():  # its client has gone away
                    continue
                if isinstance(asked.result, BaseException):
                    asked.future.set_exception(asked.result)
                    asked.future.exception()  # whether somebody waits for it or not
                else:
                    asked.future.set_result(asked.result)
        self._task = None

    def _is_look_due(self) -> bool:
        return self.stale and self._learner is not None and time.monotonic() - self._looked > LOOKED

    def _taken(self) -> list[Asked]:
        """What is done together: a call, or requests up to the next one."""
        group: list[Asked] = []
        rows = 0
        while self._queue and len(group) < GROUP and rows < GROUP_ROWS:
            if (op := self._queue[0].op) is None:
                return group or [self._queue.popleft()]
            asked = self._queue.popleft()
            if not asked.future.cancelled():  # a client that has gone away before its turn is not served
                group.append(asked)
                rows += op.size
        return group

    # A turn, in a thread.

    def _turn(self, group: list[Asked]) -> None:
        """Do requests together, or a call; nothing: look."""
        began = time.perf_counter()
        try:
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                if not group:
                    self.look()
                elif (call := group[0].call) is None:
                    self._ops(group)
                else:
                    if not group[0].blind:
                        self.learner()
                    group[0].result = call()
        except Exception as error:
            if not isinstance(error, RefusedError):
                LOG.exception("stream %s", self.name)
                error = RefusedError("internal", f"unexpected: {error}")
            for asked in group:
                asked.result = error
        finally:
            self.busy_seconds += time.perf_counter() - began

    def _ops(self, group: list[Asked]) -> None:
        """Do requests and journal them; of those with the same key the first."""
        if self.gone:
            raise unknown(self.name, self.kind)
        if self._journal.trouble is not None:
            self._journal.probe()
        learner = self.learner()
        new: list[Any] = []
        repeated: list[tuple[Asked, Asked]] = []  # each with the one before it that has its key
        first: dict[str, Asked] = {}
        for asked in group:
            if asked.key in first:
                repeated.append((asked, first[asked.key]))
            elif asked.key and (known := self._journal.answer(self.id, asked.key)):
                asked.result = known[1] if known[0] == asked.digest else _reused(asked.key)
            else:
                new.append(asked)
                if asked.key:
                    first[asked.key] = asked
        began = time.thread_time()
        outcomes: list[Outcome | RefusedError]
        try:
            outcomes = learner.apply_all([asked.op for asked in new])
        except Exception as error:
            self._learner = None
            if len(group) > 1:  # it is not known whose fault it was
                for asked in group:
                    self._turn([asked])
                return
            if not isinstance(error, ValueError | ArithmeticError | np.linalg.LinAlgError | MemoryError):
                LOG.exception("stream %s", self.name)
            outcomes = [refused_rows(error)]
        learner.report_to(self._doing)
        done: list[Done] = []
        for asked, outcome in zip(new, outcomes, strict=True):
            if isinstance(outcome, RefusedError):
                asked.result = outcome
            else:
                asked.result = encode(outcome.answer)
                done.append(Done(asked.op, outcome, asked.result, asked.key, asked.digest))
        if done:
            self._keep(done, learner, time.thread_time() - began)
        for asked, before in repeated:
            asked.result = before.result if before.digest == asked.digest else _reused(asked.key)

    def _doing(self, sentence: str) -> None:
        self.detail.doing = sentence

    def _keep(self, done: list[Done], learner: Any, spent: float) -> None:
        """Journal what was done, begin a snapshot where it is time for one, and tell those who listen."""
        seq = self.seq + 1
        try:
            self._journal.write(self._journal.writing(self.id, seq, done))
        except BaseException:
            self._learner = None  # it knows more than the disk
            raise
        self.seq, self._owed = seq, self._owed + spent
        is_free = self._snapshot is None or self._snapshot.done()
        if is_free and self._owed > max(REPLAY, SNAPSHOT_SHARE * self._snapshot_seconds):
            self._owed = 0.0
            self._snapshot = self._later.submit(self._write_snapshot, seq, learner.frozen())
        self._pace = 0.9 * self._pace + 0.1 * spent / len(done)
        self.stale, self.detail.rows, self.detail.doing = True, learner.rows, ""
        points = np.concatenate([one.outcome.points for one in done])
        notes = [note for one in done for note in one.outcome.notes]
        if len(points):
            self.newest = tuple(points[-1].tolist())
        self.hub.tell()
        for note in notes:
            self.noticed[note.kind] += 1
            if note.kind == "alarm":
                self._alarmed(self.name, note.row, note.text)

    def _write_snapshot(self, seq: int, frozen: Callable[[], bytes]) -> None:
        """In a thread of its own, while rows go on."""
        began = time.perf_counter()
        try:
            for write in self._journal.snapping(self.id, seq, frozen()):
                self._journal.write(write)
                time.sleep(BETWEEN)
        except RefusedError as problem:  # all records are there still
            LOG.warning("stream %s: no snapshot: %s", self.name, problem)
            return
        self._snapshot_seconds, self._saved = time.perf_counter() - began, seq

    def _settle(self) -> None:
        """Wait until no snapshot is written."""
        if self._snapshot is not None:
            self._snapshot.result()

    # The state.

    def learner(self) -> Any:
        """In the stream's turn: what was learned, from the newest snapshot and all records since."""
        if self._learner is not None:
            return self._learner
        try:
            learner = self._replayed()
        except Exception as error:
            self.detail = self._told(self.name, self.settings, "failed", str(error))
            if isinstance(error, RefusedError) and error.status >= 500:
                raise
            LOG.exception("stream %s", self.name)
            old = "serve the folder with the streamgp that wrote it, or DELETE the stream and send its rows again"
            hint = old if isinstance(error, SnapshotError) else "see the server's log"
            raise RefusedError("failed", f"{self.name} cannot be loaded: {error}", hint, 60) from None
        learner.report_to(self._doing)
        self._learner = learner
        self.look()
        return learner

    def _replayed(self) -> Any:
        self._settle()
        began = time.perf_counter()
        found = self._journal.snapshot(self.id)
        at, learner = 0, self._kind(self.settings, self.tag)
        if found is not None:
            try:
                at, learner = found[0], self._kind.from_bytes(self.settings, self.tag, found[1])
            except SnapshotError as error:
                at, learner = self._learned_again(error)
        self._saved = at
        for seq, body in self._journal.ops(self.id, at):
            if seq != at + 1:
                raise RefusedError("damaged", f"the journal of {self.name} lacks a request", "restore a backup", 60)
            for outcome in learner.apply_all(OPS.decode(body)):
                if isinstance(outcome, RefusedError):
                    raise outcome
            at = seq
        self.seq = at
        self._owed = time.perf_counter() - began
        return learner

    def _learned_again(self, error: SnapshotError) -> tuple[int, Any]:
        """A learner of the requests that are kept, where the snapshot cannot be read; history begins anew with them."""
        query = "SELECT dropped, (SELECT min(seq) FROM ops WHERE stream=id) FROM streams WHERE id=?"
        ((dropped, first),) = self._journal.read(query, self.id)
        if dropped is None or first is None:
            raise error
        learner, seq = self._kind(self.settings, self.tag, dropped), first
        records: list[tuple[int, list[Done]]] = []
        for seq, body in self._journal.ops(self.id, first - 1):
            ops = OPS.decode(body)
            done = []
            for op, outcome in zip(ops, learner.apply_all(ops), strict=True):
                if isinstance(outcome, RefusedError):
                    if op.kind != "targets" or first == 1:
                        raise error
                    outcome = Outcome(TargetsAnswer([], 0, 0))  # of rows that came before the first one here
                done.append(Done(op, outcome))
            records.append((seq, done))
        told = f"{str(error).partition(';')[0]}; the stream was learned again from its last {learner.rows:,} rows"
        records[-1][1][-1].outcome.notes.append(Note("model", learner.rows, told))
        LOG.warning("stream %s: %s", self.name, told)
        written = [self._journal.writing(self.id, at, done, ops=False) for at, done in records]
        snapshot = self._journal.snapping(self.id, seq, learner.to_bytes())
        self._journal.write(*self._emptying("points", "notes"), *written, *snapshot)
        return seq, learner

    def _emptying(self, *tables: str) -> list[Write]:
        """What forgets all of the stream in some tables."""
        return [statement(f"DELETE FROM {table} WHERE stream=?", self.id) for table in tables]

    def look(self) -> None:
        """In the stream's turn: renew what can be seen from outside."""
        self._looked = time.monotonic()
        before, self.detail = self.detail, self.learner().seen(self.name)
        self.stale, self.detail.doing = False, before.doing
        self.hub.tell()

    def replace(self, learner: Learner) -> None:
        """In the stream's turn: go on from another state."""
        seq, settings = self.seq + 1, encode(learner.settings)
        emptied = self._emptying(*TABLES - {"keys"})  # a repeated request gets its first answer as before
        update = "UPDATE streams SET seq=?, settings=?, tag=?, dropped=NULL WHERE id=?"
        updated = statement(update, seq, settings, learner.tag, self.id)
        self._settle()
        self._journal.write(*emptied, updated, *self._journal.snapping(self.id, seq, learner.to_bytes()))
        self._learner, self.settings, self.tag, self.seq = learner, learner.settings, learner.tag, seq
        self._saved, self._owed = seq, 0.0
        self.forecasting = Forecasting()
        self.newest = None
        self.look()

    def save(self) -> None:
        """In the stream's turn: take a snapshot, so that the next start is quick."""
        self._settle()
        if self._learner is not None and self._saved != self.seq:
            self._write_snapshot(self.seq, self._learner.frozen())
            self._owed = 0.0

    def remove(self) -> None:
        """In the stream's turn: forget all."""
        self._settle()
        self._journal.write(*self._emptying(*TABLES), statement("DELETE FROM streams WHERE id=?", self.id))
        self.gone = True
        self.hub.close()


def unknown(name: str, kind: str = "streams") -> RefusedError:
    """There is no such stream, or fleet."""
    one = kind.removesuffix("s")
    return RefusedError(f"no_such_{one}", f"there is no {one} {name!r}", f"create it: PUT /v1/{kind}/{name}")


def _reused(key: str) -> RefusedError:
    used = f"the Idempotency-Key {key!r} was used for a different request"
    return RefusedError("key_reused", used, "use a new key for every new request")
