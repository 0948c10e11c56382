"""A hosted stream: a bounded queue, a task that empties it, and the journal behind it.

What waits is taken together: a thread applies it to the learner and writes it with its answers, in one commit; then it
is answered. If it cannot be written, the learner is loaded anew from what is on disk, so that memory never knows more
than the disk.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sqlite3
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

import numpy as np

from streamgp.contract.snapshot import SnapshotError
from streamgp.job.pipeline import Pipeline
from streamgp.serve import events, forecasts
from streamgp.serve.asked import Asked, Call, Done
from streamgp.serve.events import Hub
from streamgp.serve.forecasts import Asked as AskedForecast
from streamgp.serve.forecasts import Forecasting, Series
from streamgp.serve.journal import TABLES, Journal, Kept, stopping
from streamgp.serve.learner import OPS, Learner, Note, Op, Outcome, refused_rows
from streamgp.serve.messages import SETTINGS, ForecastAnswer, Health, RefusedError, TargetsAnswer, encode
from streamgp.serve.view import RECENT, View, seen_by
from streamgp.serve.writing import Writing

LOG = logging.getLogger("streamgp.serve")
T = TypeVar("T")
Became = list[tuple[Asked | Call, Any]]  # what became of requests: an answer, or an error
MOST_WAITING = 64  # requests in the queue of a stream
GATHERED = 4  # rounds of the loop before a group is taken
GROUP = 32  # requests that are learned and journaled together
GROUP_ROWS = 10_000  # rows beyond which no more requests join them
REPLAY = 2.0  # seconds of work that a restart may have to repeat, before a snapshot is taken
SNAPSHOT_SHARE = 20.0  # and at least this multiple of the time of the last snapshot
LOOKED = 0.5  # seconds between two looks at a stream under load


class Hosted:
    """A stream in the service.

    Args:
        kept: as the journal knows it.
        journal: that keeps it.
        pool: where it works, in one thread at a time.
        retain: rows of its history.
        keep: rows that are kept as they came.
        alarmed: told of alarms: the name of the stream, the row, a sentence.
    """

    def __init__(
        self,
        kept: Kept,
        journal: Journal,
        pool: Executor,
        retain: int,
        keep: int,
        alarmed: Callable[[str, int, str], None],
    ) -> None:
        self.id, self.name, self.tag, self.seq = kept.id, kept.name, kept.tag, kept.seq
        self.settings = SETTINGS.decode(kept.settings)
        self.hub, self.forecasting = Hub(), Forecasting()
        self.gone = False
        self.busy_seconds = 0.0
        self.noticed: Counter[str] = Counter()  # kinds of notes, since the server started
        self._journal, self._pool, self._alarmed = journal, pool, alarmed
        self._retain, self._kept_rows = retain, keep
        self._learner: Learner | None = None
        self._queue: deque[Asked | Call] = deque()
        self._task: asyncio.Task[None] | None = None  # that empties the queue
        self._reporting: Pipeline | None = None  # that says what it does
        self._owed = 0.0  # seconds of work since the last snapshot
        self._snapshot_seconds = 0.0
        self._saved = -1  # the position of the last snapshot
        self._keys: int | None = None  # the number of the last idempotency key; None: not known yet
        self.view = View(state="loading")
        self._looked = 0.0
        self.recent: deque[float] = deque(maxlen=RECENT)
        self.newest: tuple[float, ...] | None = None  # row, target, mean, lower and upper, since the server started

    # The queue, in the server's loop.

    def ask(self, op: Op, key: str = "", digest: bytes = b"") -> asyncio.Future[bytes]:
        """Have a request done; the future gets its answer when it is on disk."""
        return self._put(Asked(asyncio.get_running_loop().create_future(), op, key, digest))

    def call(self, call: Callable[[], T], blind: bool = False) -> asyncio.Future[T]:
        """Have something else done in the stream's turn; see Call."""
        return self._put(Call(asyncio.get_running_loop().create_future(), call, blind))

    def load(self) -> None:
        """Have the state loaded in the background."""
        self.call(lambda: b"")

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def _put(self, asked: Asked | Call) -> asyncio.Future[Any]:
        if self.gone:
            raise unknown(self.name)
        if len(self._queue) >= MOST_WAITING:
            raise RefusedError(
                429,
                "busy",
                f"{MOST_WAITING} requests wait for {self.name} already",
                "wait for answers before you send more, or send several rows at once",
                retry_after=max(1, round(self.view.pace * MOST_WAITING)),
            )
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
                became = await loop.run_in_executor(self._pool, self._turn, group)
            except RuntimeError:  # there are no threads any more
                became = [(asked, stopping()) for asked in group]
            for asked, result in became:
                if asked.future.done():  # its client has gone away
                    continue
                if isinstance(result, BaseException):
                    asked.future.set_exception(result)
                    asked.future.exception()  # whether somebody waits for it or not
                else:
                    asked.future.set_result(result)
        self._task = None

    def _is_look_due(self) -> bool:
        return self.view.stale and self._learner is not None and time.monotonic() - self._looked > LOOKED

    def _taken(self) -> list[Asked | Call]:
        """What is done together: a call, or requests up to the next one."""
        group: list[Asked | Call] = []
        rows = 0
        while self._queue and len(group) < GROUP and rows < GROUP_ROWS:
            if isinstance(asked := self._queue[0], Call):
                return group or [self._queue.popleft()]
            self._queue.popleft()
            if not asked.future.cancelled():  # a client that has gone away before its turn is not served
                group.append(asked)
                rows += asked.op.size
        return group

    # A turn, in a thread.

    def _turn(self, group: list[Asked | Call]) -> Became:
        """Do requests together, or a call; nothing: look."""
        began = time.perf_counter()
        try:
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                if not group:
                    self.look()
                    return []
                if isinstance(call := group[0], Call):
                    if not call.blind:
                        self._loaded()
                    return [(call, call.call())]
                return self._ops([asked for asked in group if isinstance(asked, Asked)])
        except Exception as error:
            if not isinstance(error, RefusedError):
                LOG.exception("stream %s", self.name)
                error = RefusedError(500, "internal", f"unexpected: {error}", "see the server's log")
            return [(asked, error) for asked in group]
        finally:
            self.busy_seconds += time.perf_counter() - began

    def _ops(self, part: list[Asked]) -> Became:
        """Do requests and journal them."""
        if self.gone:
            raise unknown(self.name)
        if self._journal.trouble is not None:
            self._journal.probe()
        learner = self._loaded()
        new, became = self._without_repeated(part)
        began = time.thread_time()
        outcomes: list[Outcome | RefusedError]
        try:
            outcomes = learner.apply_all([asked.op for asked in new])
        except Exception as error:
            self._learner = None
            if len(part) > 1:  # it is not known whose fault it was
                return [one for asked in part for one in self._turn([asked])]
            if not isinstance(error, ValueError | ArithmeticError | np.linalg.LinAlgError | MemoryError):
                LOG.exception("stream %s", self.name)
            outcomes = [refused_rows(error)]
        if learner.pipeline is not None and learner.pipeline is not self._reporting:
            learner.pipeline.report_to(self._doing)
            self._reporting = learner.pipeline
        done: list[Done] = []
        for asked, outcome in zip(new, outcomes, strict=True):
            if isinstance(outcome, RefusedError):
                became.append((asked, outcome))
            else:
                done.append(Done(asked, self.seq + len(done) + 1, outcome, encode(outcome.answer)))
                became.append((asked, done[-1].answer))
        if done:
            self._keep(done, learner, time.thread_time() - began)
        by_request = {id(asked): result for asked, result in became}
        return [(asked, by_request.get(id(result), result)) for asked, result in became]

    def _without_repeated(self, part: list[Asked]) -> tuple[list[Asked], Became]:
        """Requests to do; and those that repeat earlier ones, with the answer or the request of this group."""
        new: list[Asked] = []
        repeated: Became = []
        first: dict[str, Asked] = {}
        for asked in part:
            if not asked.key:
                new.append(asked)
                continue
            before = first.get(asked.key)
            found = (before.digest, before) if before else self._journal.answer(self.id, asked.key)
            if found is None:
                first[asked.key] = asked
                new.append(asked)
            else:
                repeated.append((asked, found[1] if found[0] == asked.digest else reused(asked.key)))
        return new, repeated

    def _doing(self, sentence: str) -> None:
        self.view.doing = sentence

    def _keep(self, done: list[Done], learner: Learner, spent: float) -> None:
        """Journal what was done, with a snapshot where it is time for one; then tell those who listen."""
        if self._keys is None:
            found = self._journal.read("SELECT max(number) FROM keys WHERE stream=?", self.id)
            self._keys = found[0][0] or 0
        saved = self._owed > max(REPLAY, SNAPSHOT_SHARE * self._snapshot_seconds)
        try:
            state = self._state() if saved else None
            self._journal.write(Writing(self.id, done, self._keys, state, self._retain, self._kept_rows))
        except BaseException:
            self._learner = None  # it knows more than the disk
            raise
        self.seq, self._keys = done[-1].seq, self._keys + sum(bool(one.asked.key) for one in done)
        self._owed += spent
        if saved:
            self._owed, self._saved = 0.0, self.seq
        view = self.view
        view.stale, view.rows, view.doing, view.pace = True, learner.rows, "", 0.9 * view.pace + 0.1 * spent / len(done)
        for one in done:
            self.recent.extend(one.outcome.points[:, 1].tolist())
            if len(one.outcome.points):
                self.newest = tuple(one.outcome.points[-1].tolist())
            if self.hub.listeners and (data := events.frames(one.seq, one.outcome.points, one.outcome.notes)):
                self.hub.publish(one.seq, data)
            for note in one.outcome.notes:
                self.noticed[note.kind] += 1
                if note.kind == "alarm":
                    self._alarmed(self.name, note.row, note.text)

    def _state(self) -> bytes:
        began = time.perf_counter()
        state = self._loaded().to_bytes()
        self._snapshot_seconds = time.perf_counter() - began
        return state

    # The state.

    def _loaded(self) -> Learner:
        """The learner: the newest snapshot, and all ops since."""
        if self._learner is not None:
            return self._learner
        try:
            learner = self._replayed()
        except Exception as error:
            self.view = View("failed", doing=str(error))
            if isinstance(error, RefusedError) and error.status >= 500:
                raise
            LOG.exception("stream %s", self.name)
            old = "serve the folder with the streamgp that wrote it, or DELETE the stream and send its rows again"
            hint = old if isinstance(error, SnapshotError) else "see the server's log"
            raise RefusedError(503, "failed", f"{self.name} cannot be loaded: {error}", hint, 60) from None
        if learner.pipeline is not None:
            learner.pipeline.report_to(self._doing)
        self._learner = learner
        self.look()
        return learner

    def _replayed(self) -> Learner:
        began = time.perf_counter()
        found = self._journal.snapshot(self.id)
        if found is None:
            at, learner = 0, Learner(self.settings, self.tag)
        else:
            try:
                at, learner = found[0], Learner.from_bytes(self.settings, self.tag, found[1])
            except SnapshotError as error:
                at, learner = self._learned_again(error)
        self._saved = at
        for group in self._journal.ops(self.id, at, GROUP):
            if [seq for seq, _ in group] != list(range(at + 1, at + 1 + len(group))):
                raise RefusedError(
                    503, "damaged", f"the journal of {self.name} lacks a request", "restore a backup", 60
                )
            for outcome in learner.apply_all([OPS.decode(body) for _, body in group]):
                if isinstance(outcome, RefusedError):
                    raise outcome
            at = group[-1][0]
        self.seq = at
        self._owed = time.perf_counter() - began
        if not self.recent:
            self.recent.extend(self._journal.points(self.id, RECENT)[:, 1].tolist())
        return learner

    def _learned_again(self, error: SnapshotError) -> tuple[int, Learner]:
        """A learner of the requests that are kept, where the snapshot cannot be read; history begins anew with them."""
        query = "SELECT dropped, (SELECT min(seq) FROM ops WHERE stream=id) FROM streams WHERE id=?"
        ((dropped, first),) = self._journal.read(query, self.id)
        if dropped is None or first is None:
            raise error
        learner, done = Learner(self.settings, self.tag, dropped), []
        for group in self._journal.ops(self.id, first - 1, GROUP):
            ops = [OPS.decode(body) for _, body in group]
            for (seq, _), op, outcome in zip(group, ops, learner.apply_all(ops), strict=True):
                if isinstance(outcome, RefusedError):
                    if op.kind != "targets" or first == 1:
                        raise error
                    outcome = Outcome(TargetsAnswer([], 0, 0))  # of rows that came before the first one here
                done.append(Done(Asked(None, op), seq, outcome, b""))
        told = f"{str(error).partition(';')[0]}; the stream was learned again from its last {learner.rows:,} rows"
        done[-1].outcome.notes.append(Note("model", learner.rows, told))
        LOG.warning("stream %s: %s", self.name, told)
        written = Writing(self.id, done, 0, learner.to_bytes(), self._retain, self._kept_rows)

        def write(cursor: sqlite3.Cursor) -> None:
            for table in ("ops", "points", "notes"):
                cursor.execute(f"DELETE FROM {table} WHERE stream=?", (self.id,))
            written(cursor)

        self._journal.write(write)
        return done[-1].seq, learner

    def look(self) -> bytes:
        """In the stream's turn: renew what can be seen from outside."""
        self._looked = time.monotonic()
        before, self.view = self.view, seen_by(self._loaded(), self.view)
        health = self.view.rest.get("health")
        if self.hub.listeners and health is not None and health != before.rest.get("health", Health(0, [])):
            self.hub.publish(self.seq + 1, events.frame("health", health))
        return b""

    def forecast(self, asked: AskedForecast) -> Series | ForecastAnswer:
        """In the stream's turn: the forecast of its model, or what a model over time needs for one."""
        learner = self._loaded()
        series = Series(learner.past, learner.written)
        found = None if learner.pipeline is None else forecasts.own(learner.pipeline, series, asked)
        return series if found is None else found

    def dated(self, rows: int) -> list[tuple[int, float]]:
        """In the stream's turn: numbers and times of the last rows that have a time, in seconds since 1970."""
        return [(int(row), moment) for row, moment, _ in list(self._loaded().past)[-rows:] if math.isfinite(moment)]

    def snapshot(self) -> bytes:
        """In the stream's turn: the library's file."""
        pipeline = self._loaded().pipeline
        if pipeline is None:
            raise RefusedError(
                409, "no_rows_yet", f"{self.name} has no rows yet, so there is nothing to save", "post rows"
            )
        return pipeline.to_bytes()

    def replace(self, learner: Learner) -> bytes:
        """In the stream's turn: go on from another state."""
        seq, state, settings = self.seq + 1, learner.to_bytes(), encode(learner.settings)

        def write(cursor: sqlite3.Cursor) -> None:
            for table in TABLES - {"keys"}:  # a repeated request gets its first answer as before
                cursor.execute(f"DELETE FROM {table} WHERE stream=?", (self.id,))
            cursor.execute("INSERT INTO snapshots VALUES (?, ?, ?)", (self.id, seq, state))
            cursor.execute(
                "UPDATE streams SET seq=?, settings=?, tag=?, dropped=NULL WHERE id=?",
                (seq, settings, learner.tag, self.id),
            )

        self._journal.write(write)
        self._learner, self.settings, self.tag, self.seq = learner, learner.settings, learner.tag, seq
        self._saved, self._owed = seq, 0.0
        self.forecasting = Forecasting()
        self.recent.clear()
        self.newest = None
        self.look()
        return b""

    def save(self) -> bytes:
        """In the stream's turn: take a snapshot, so that the next start is quick."""
        if self._learner is not None and self._saved != self.seq:
            write = Writing(self.id, [], 0, self._state(), self._retain, self._kept_rows, self.seq)
            self._journal.write(write)
            self._saved, self._owed = self.seq, 0.0
        return b""

    def remove(self) -> bytes:
        """In the stream's turn: forget all."""

        def write(cursor: sqlite3.Cursor) -> None:
            for table in TABLES:
                cursor.execute(f"DELETE FROM {table} WHERE stream=?", (self.id,))
            cursor.execute("DELETE FROM streams WHERE id=?", (self.id,))

        self._journal.write(write)
        self.gone = True
        self.hub.close()
        return b""


def unknown(name: str) -> RefusedError:
    """There is no such stream."""
    return RefusedError(404, "no_such_stream", f"there is no stream {name!r}", f"create it: PUT /v1/streams/{name}")


def reused(key: str) -> RefusedError:
    """The same key for two different requests."""
    return RefusedError(
        422,
        "key_reused",
        f"the Idempotency-Key {key!r} was used for a different request",
        "use a new key for every new request",
    )
