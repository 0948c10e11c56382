"""A hosted stream: one writer, a bounded queue before it, and the journal behind it.

What waits is applied to the learner together, in a thread; then it is journaled with its answers, in one commit; then
it is answered. If it cannot be journaled, the learner is loaded anew from what is on disk, so that memory never knows
more than the disk.
"""

from __future__ import annotations

import logging
import math
import sqlite3
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from functools import partial
from typing import TypeVar

import numpy as np

from streamgp.contract.snapshot import SnapshotError
from streamgp.job.pipeline import Pipeline
from streamgp.serve import events, forecasts
from streamgp.serve.asked import Asked, Call, Done
from streamgp.serve.events import Hub
from streamgp.serve.forecasts import Asked as AskedForecast
from streamgp.serve.forecasts import Forecasting, Series
from streamgp.serve.journal import TABLES, Journal, Kept, stopping
from streamgp.serve.learner import OPS, Learner, Op, Outcome, refused_rows
from streamgp.serve.messages import SETTINGS, ForecastAnswer, Health, RefusedError, encode
from streamgp.serve.view import RECENT, View, seen_by
from streamgp.serve.writing import Writing

LOG = logging.getLogger("streamgp.serve")
T = TypeVar("T")
MOST_WAITING = 64  # requests in the queue of a stream
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
        retain: rows that are kept.
        alarmed: told of alarms: the name of the stream, the row, a sentence.
    """

    def __init__(
        self,
        kept: Kept,
        journal: Journal,
        pool: Executor,
        retain: int,
        alarmed: Callable[[str, int, str], None],
    ) -> None:
        self.id, self.name, self.tag, self.seq = kept.id, kept.name, kept.tag, kept.seq
        self.settings = SETTINGS.decode(kept.settings)
        self.hub, self.forecasting = Hub(), Forecasting()
        self.gone = False
        self.busy_seconds = 0.0
        self.noticed: Counter[str] = Counter()  # kinds of notes, since the server started
        self._journal, self._pool, self._retain, self._alarmed = journal, pool, retain, alarmed
        self._learner: Learner | None = None
        self._queue: deque[Asked | Call] = deque()
        self._working = False
        self._singly = 0  # requests that are done one by one, because some of them failed together
        self._reporting: Pipeline | None = None  # that says what it does
        self._lock = threading.Lock()
        self._owed = 0.0  # seconds of work since the last snapshot
        self._snapshot_seconds = 0.0
        self._saved = -1  # the position of the last snapshot
        self._keys = 0  # the number of the last idempotency key; 0: not known yet
        self.view = View(state="loading")
        self._looked = 0.0
        self.recent: deque[float] = deque(maxlen=RECENT)
        self.newest: tuple[float, ...] | None = None  # row, target, mean, lower and upper, since the server started

    # The queue.

    def ask(self, op: Op, key: str = "", digest: bytes = b"") -> Future[bytes]:
        """Have a request done; the future gets its answer when it is on disk."""
        future: Future[bytes] = Future()
        self._put(Asked(future, op, key, digest))
        return future

    def call(self, call: Callable[[], T], blind: bool = False) -> Future[T]:
        """Have something else done in the stream's turn; see Call."""
        future: Future[T] = Future()
        self._put(Call(future, call, blind))
        return future

    def load(self) -> None:
        """Have the state loaded in the background."""
        self._put(Call(Future(), lambda: b""))

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def _put(self, asked: Asked | Call) -> None:
        with self._lock:
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
            if not self._working:
                self._begin()

    def _begin(self) -> None:
        """With the lock: have a turn, or refuse what waits if the server stops."""
        try:
            self._pool.submit(self._turn)
            self._working = True
        except RuntimeError:
            self._working = False
            self._fail(self._queue, stopping())
            self._queue.clear()

    def _end(self) -> None:
        """End a turn; another one follows if more has come, or to look."""
        with self._lock:
            if self._queue or self._is_look_due():
                self._begin()
            else:
                self._working = False

    def _is_look_due(self) -> bool:
        return self.view.stale and self._learner is not None and time.monotonic() - self._looked > LOOKED

    def _taken(self) -> list[Asked | Call]:
        """What is done together: a call, or requests up to the next one."""
        with self._lock:
            group: list[Asked | Call] = []
            rows = 0
            while self._queue and len(group) < (1 if self._singly else GROUP) and rows < GROUP_ROWS:
                if isinstance(self._queue[0], Call) and group:
                    break
                group.append(asked := self._queue.popleft())
                self._singly = max(0, self._singly - 1)
                if isinstance(asked, Call):
                    break
                rows += asked.op.size
        # A client that has gone away before its turn is not served.
        return [one for one in group if one.future.running() or one.future.set_running_or_notify_cancel()]

    def _turn(self) -> None:
        """In a thread: do what waits."""
        began = time.perf_counter()
        is_look = self._is_look_due()
        group = [] if is_look else self._taken()
        is_journaled = False
        try:
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                if is_look:
                    self.look()
                if group and not (isinstance(group[0], Call) and group[0].blind):
                    self._loaded()
                if group and isinstance(call := group[0], Call):
                    call.future.set_result(call.call())
                elif group:
                    is_journaled = self._ops([asked for asked in group if isinstance(asked, Asked)])
        except Exception as error:
            if not isinstance(error, RefusedError):
                LOG.exception("stream %s", self.name)
                error = RefusedError(500, "internal", f"unexpected: {error}", "see the server's log")
            self._fail(group, error)
        self.busy_seconds += time.perf_counter() - began
        if not is_journaled:
            self._end()

    def _fail(self, part: Iterable[Asked | Call], error: RefusedError) -> None:
        for asked in part:
            if not asked.future.done():
                asked.future.set_exception(error)

    # Requests.

    def _ops(self, part: list[Asked]) -> bool:
        """Do requests; whether something is being journaled, after which the turn ends."""
        if self.gone:
            raise unknown(self.name)
        if self._journal.trouble is not None:
            self._journal.probe()
        new, repeated = self._without_repeated(part)
        learner, saved = self._loaded(), self._is_snapshot_due()
        began = time.thread_time()
        outcomes: list[Outcome | RefusedError]
        try:
            outcomes = learner.apply_all([asked.op for asked in new])
        except Exception as error:
            self._learner = None
            if len(new) > 1:  # it is not known whose fault it was
                with self._lock:
                    self._queue.extendleft(reversed(part))
                    self._singly += len(part)
                return False
            if not isinstance(error, ValueError | ArithmeticError | np.linalg.LinAlgError | MemoryError):
                LOG.exception("stream %s", self.name)
            outcomes = [refused_rows(error)]
        if learner.pipeline is not None and learner.pipeline is not self._reporting:
            learner.pipeline.report_to(self._doing)
            self._reporting = learner.pipeline
        done: list[Done] = []
        for asked, outcome in zip(new, outcomes, strict=True):
            if isinstance(outcome, RefusedError):
                self._fail([asked, *(one for one, first in repeated if first is asked)], outcome)
            else:
                done.append(Done(asked, self.seq + len(done) + 1, outcome, encode(outcome.answer)))
        answers = {id(one.asked): one.answer for one in done}
        known = [
            (asked, first if isinstance(first, bytes) else answers[id(first)])
            for asked, first in repeated
            if isinstance(first, bytes) or id(first) in answers
        ]
        if not done:
            self._answer(known)
            return False
        spent = time.thread_time() - began
        self.view.doing = ""
        self.view.pace = 0.9 * self.view.pace + 0.1 * spent / len(done)
        self._owed += spent
        self._keep(done, known, saved)
        return True

    def _without_repeated(self, part: list[Asked]) -> tuple[list[Asked], list[tuple[Asked, bytes | Asked]]]:
        """Requests to do; and those that repeat earlier ones, with the answer or the request of this group."""
        new: list[Asked] = []
        repeated: list[tuple[Asked, bytes | Asked]] = []
        first: dict[str, Asked] = {}
        for asked in part:
            if not asked.key:
                new.append(asked)
            elif (before := first.get(asked.key)) is not None:
                self._repeat(asked, before.digest, before, repeated)
            elif (found := self._journal.answer(self.id, asked.key)) is not None:
                self._repeat(asked, *found, repeated)
            else:
                first[asked.key] = asked
                new.append(asked)
        return new, repeated

    def _repeat(
        self, asked: Asked, digest: bytes, answer: bytes | Asked, repeated: list[tuple[Asked, bytes | Asked]]
    ) -> None:
        if digest == asked.digest:
            repeated.append((asked, answer))
        else:
            asked.future.set_exception(reused(asked.key))

    def _doing(self, sentence: str) -> None:
        self.view.doing = sentence

    def _is_snapshot_due(self) -> bool:
        return self._owed > max(REPLAY, SNAPSHOT_SHARE * self._snapshot_seconds)

    def _keep(self, done: list[Done], repeated: list[tuple[Asked, bytes]], saved: bool) -> None:
        """Journal what was done, with a snapshot where it is time for one; answer when it is on disk."""
        state = self._state() if saved else None
        if not self._keys:
            found = self._journal.read("SELECT max(number) FROM keys WHERE stream=?", self.id)
            self._keys = found[0][0] or 0
        write = Writing(self.id, done, self._keys, state, self._retain)
        self._journal.write(write).add_done_callback(partial(self._kept, done, repeated, saved))

    def _kept(self, done: list[Done], repeated: list[tuple[Asked, bytes]], saved: bool, written: Future[None]) -> None:
        """In the journal's thread: requests are on disk, or could not be written; the turn ends."""
        learner, error = self._learner, written.exception()
        try:
            if error is not None or learner is None:
                self._learner = None  # it knows more than the disk
                if not isinstance(error, RefusedError):
                    LOG.error("stream %s", self.name, exc_info=error)
                    error = RefusedError(500, "internal", f"unexpected: {error}", "see the server's log")
                self._fail([*(one.asked for one in done), *(asked for asked, _ in repeated)], error)
                return
            self.seq, self._keys = done[-1].seq, self._keys + sum(bool(one.asked.key) for one in done)
            if saved:
                self._owed, self._saved = 0.0, self.seq
            self.view.stale, self.view.rows = True, learner.rows
            self._answer([*((one.asked, one.answer) for one in done), *repeated])
            self._publish(done)
        finally:
            self._end()

    def _publish(self, done: list[Done]) -> None:
        """Tell those who listen."""
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

    def _answer(self, answers: list[tuple[Asked, bytes]]) -> None:
        for asked, answer in answers:
            asked.future.set_result(answer)

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
            at, learner = found[0], Learner.from_bytes(self.settings, self.tag, found[1])
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
                "UPDATE streams SET seq=?, settings=?, tag=? WHERE id=?", (seq, settings, learner.tag, self.id)
            )

        self._journal.write(write).result()
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
            write = Writing(self.id, [], 0, self._state(), self._retain, self.seq)
            self._journal.write(write).result()
            self._saved, self._owed = self.seq, 0.0
        return b""

    def remove(self) -> bytes:
        """In the stream's turn: forget all."""

        def write(cursor: sqlite3.Cursor) -> None:
            for table in TABLES:
                cursor.execute(f"DELETE FROM {table} WHERE stream=?", (self.id,))
            cursor.execute("DELETE FROM streams WHERE id=?", (self.id,))

        self._journal.write(write).result()
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
