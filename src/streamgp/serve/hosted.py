"""A hosted stream: one writer, a bounded queue before it, and the journal behind it.

A request is applied to the learner, then journaled with its answer, then answered. If it cannot be journaled, the
learner is loaded anew from what is on disk, so that memory never knows more than the disk.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from streamgp.process.memory import Reservoir
from streamgp.serve import events
from streamgp.serve.events import Hub
from streamgp.serve.journal import TABLES, Journal, Kept, stopping, trim
from streamgp.serve.learner import OPS, Learner, Op, Outcome, refused_rows, reservoirs
from streamgp.serve.messages import SETTINGS, Health, RefusedError, encode
from streamgp.serve.view import RECENT, View, seen_by

LOG = logging.getLogger("streamgp.serve")
MOST_WAITING = 64  # requests in the queue of a stream
GROUP = 32  # requests that are journaled together
ROUNDS = 4  # groups after which other streams get their turn
REPLAY = 2.0  # seconds of work that a restart may have to repeat, before a snapshot is taken
SNAPSHOT_SHARE = 20.0  # and at least this multiple of the time of the last snapshot
LOOKED = 0.5  # seconds between two looks at a stream under load


class Asked(Struct):
    """A request in the queue.

    Args:
        future: gets the answer, as bytes.
        op: what to do.
        key: by which a repeated request is known again.
        digest: of the request.
    """

    future: Any
    op: Op
    key: str = ""
    digest: bytes = b""


class Call(Struct):
    """Something else in the queue.

    Args:
        future: gets what it returns.
        call: what to do.
    """

    future: Any
    call: Callable[[], bytes]


class Hosted:
    """A stream in the service.

    Args:
        kept: as the journal knows it.
        journal: that keeps it.
        pool: in whose threads it works, in one at a time.
        builder: where what takes long to build is built, so that other streams need not wait for a thread.
        retain: rows that are kept one by one.
    """

    def __init__(self, kept: Kept, journal: Journal, pool: Executor, builder: Executor, retain: int) -> None:
        self.id, self.name, self.tag, self.seq = kept.id, kept.name, kept.tag, kept.seq
        self.settings = SETTINGS.decode(kept.settings)
        self.hub = Hub()
        self.gone = False
        self.busy_seconds = 0.0
        self._journal, self._pool, self._builder, self._retain = journal, pool, builder, retain
        self._built = False
        self._learner: Learner | None = None
        self._queue: deque[Asked | Call] = deque()
        self._working = False
        self._lock = threading.Lock()
        self._owed = 0.0  # seconds of work since the last snapshot
        self._snapshot_seconds = 0.0
        self._saved = -1  # the position of the last snapshot
        self._keys = 0  # the number of the last idempotency key; 0: not known yet
        self.view = View(state="loading")
        self._looked = 0.0
        self.recent: deque[float] = deque(maxlen=RECENT)

    # The queue.

    def ask(self, op: Op, key: str = "", digest: bytes = b"") -> Future[bytes]:
        """Have a request done; the future gets its answer when it is on disk."""
        return self._put(Asked(Future(), op, key, digest))

    def call(self, call: Callable[[], bytes]) -> Future[bytes]:
        """Have something else done in the stream's turn."""
        return self._put(Call(Future(), call))

    def load(self) -> None:
        """Have the state loaded in the background."""
        self._put(Call(Future(), lambda: b""))

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def _put(self, asked: Asked | Call) -> Future[bytes]:
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
                self._working = True
                self._go_on(self._pool, self._work)
        future: Future[bytes] = asked.future
        return future

    def _work(self) -> None:
        if not self._built:
            self._built = True
            if parts := reservoirs(self.settings):
                with self._lock:
                    self._go_on(self._builder, partial(self._build, parts))
                return
        for _ in range(ROUNDS):
            with self._lock:
                if not self._queue:
                    self._working = False
                    return
                group = [self._queue.popleft() for _ in range(min(GROUP, len(self._queue)))]
            # A client that has gone away before its turn is not served.
            group = [asked for asked in group if asked.future.set_running_or_notify_cancel()]
            began = time.perf_counter()
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                self._do(group)
            self.busy_seconds += time.perf_counter() - began
        with self._lock:
            self._go_on(self._pool, self._work)

    def _build(self, parts: list[Reservoir]) -> None:
        """Compute what takes long and is then known, however often the model is built."""
        for part in parts:
            part.drawn_radius()
        with self._lock:
            self._go_on(self._pool, self._work)

    def _go_on(self, executor: Executor, work: Callable[[], None]) -> None:
        """Have the queue worked on, or refuse what is in it if the server stops."""
        try:
            executor.submit(work)
        except RuntimeError:
            self._working = False
            self._fail(list(self._queue), stopping())
            self._queue.clear()

    def _do(self, group: list[Asked | Call]) -> None:
        """Do requests in their order; ops up to the next call are journaled together."""
        while group:
            ops: list[Asked] = []
            for asked in group:
                if isinstance(asked, Call):
                    break
                ops.append(asked)
            part, group = group[: len(ops) or 1], group[len(ops) or 1 :]
            try:
                self._loaded()
                if ops:
                    self._ops(ops)
                elif isinstance(call := part[0], Call):
                    call.future.set_result(call.call())
            except Exception as error:
                if not isinstance(error, RefusedError):
                    LOG.exception("stream %s", self.name)
                    error = RefusedError(500, "internal", f"unexpected: {error}", "see the server's log")
                self._fail(part, error)

    def _fail(self, part: Sequence[Asked | Call], error: RefusedError) -> None:
        for asked in part:
            if not asked.future.done():
                asked.future.set_exception(error)

    # Requests.

    def _ops(self, part: list[Asked]) -> None:
        if self.gone:
            raise unknown(self.name)
        if self._journal.trouble is not None:
            self._journal.probe()
        done: list[tuple[Asked, int, Outcome, bytes]] = []
        answers: dict[str, tuple[bytes, bytes]] = {}  # of this group, by key
        repeated: list[tuple[Asked, bytes]] = []
        began = time.perf_counter()
        for asked in part:
            if asked.key:
                before = answers.get(asked.key) or self._journal.answer(self.id, asked.key)
                if before is not None:
                    if before[0] != asked.digest:
                        asked.future.set_exception(reused(asked.key))
                    else:
                        repeated.append((asked, before[1]))
                    continue
            outcome = self._applied(asked)
            if outcome is None:
                if self._learner is None:  # after an unexpected error: what came before it in this group is lost, too
                    break
                continue
            answer = encode(outcome.answer)
            done.append((asked, self.seq + len(done) + 1, outcome, answer))
            if asked.key:
                answers[asked.key] = asked.digest, answer
        if self._learner is None:
            self._fail(part, RefusedError(503, "again", "a request before this one failed", "send it again", 1))
            return
        spent = time.perf_counter() - began
        self._keep(done, spent)
        self.view.stale, self.view.rows = True, self._learner.rows
        for asked, seq, outcome, answer in done:
            self.recent.extend(outcome.points[:, 1].tolist())
            asked.future.set_result(answer)
            if self.hub.listeners and (data := events.frames(seq, outcome.points, outcome.notes)):
                self.hub.publish(seq, data)
        for asked, answer in repeated:
            asked.future.set_result(answer)
        if done:
            self.view.pace = 0.9 * self.view.pace + 0.1 * spent / len(done)
        if time.monotonic() - self._looked > LOOKED:
            self.look()

    def _applied(self, asked: Asked) -> Outcome | None:
        """The outcome; None where the request was refused. After an unexpected error there is no learner any more."""
        learner = self._loaded()
        try:
            outcome = learner.apply(asked.op)
        except RefusedError as problem:
            asked.future.set_exception(problem)
            return None
        except Exception as error:
            self._learner = None
            if not isinstance(error, ValueError | ArithmeticError | np.linalg.LinAlgError | MemoryError):
                LOG.exception("stream %s", self.name)
            asked.future.set_exception(refused_rows(error))
            return None
        if learner.pipeline is not None:
            learner.pipeline.report_to(self._doing)
        return outcome

    def _doing(self, sentence: str) -> None:
        self.view.doing = sentence

    def _keep(self, done: list[tuple[Asked, int, Outcome, bytes]], spent: float) -> None:
        """Journal what was done, with a snapshot where it is time for one; wait until it is on disk."""
        if not done:
            return
        self._owed += spent
        self.view.doing = ""
        seq = done[-1][1]
        state = None
        if self._owed > max(REPLAY, SNAPSHOT_SHARE * self._snapshot_seconds):
            state = self._state()
        if not self._keys:
            found = self._journal.read("SELECT max(number) FROM keys WHERE stream=?", self.id)
            self._keys = found[0][0] or 0
        write = Writing(self.id, done, self._keys, state, self._retain)
        try:
            self._journal.write(write).result()
        except BaseException:
            self._learner = None  # it knows more than the disk
            raise
        self.seq, self._keys = seq, self._keys + sum(bool(asked.key) for asked, *_ in done)
        if state is not None:
            self._owed, self._saved = 0.0, seq

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
            raise RefusedError(
                503, "failed", f"{self.name} cannot be loaded: {error}", "see the server's log", 60
            ) from None
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
        for seq, body in self._journal.ops(self.id, at):
            if seq != at + 1:
                raise RefusedError(
                    503, "damaged", f"the journal of {self.name} lacks a request", "restore a backup", 60
                )
            learner.apply(OPS.decode(body))
            at = seq
        self.seq = at
        self._owed = time.perf_counter() - began
        if not self.recent:
            self.recent.extend(self._journal.points(self.id, RECENT)[:, 1].tolist())
        return learner

    def look(self) -> bytes:
        """In the stream's turn: renew what can be seen from outside."""
        before, self.view = self.view, seen_by(self._loaded(), self.view)
        self._looked = time.monotonic()
        health = self.view.rest.get("health")
        if self.hub.listeners and health is not None and health != before.rest.get("health", Health(0, [])):
            self.hub.publish(self.seq + 1, events.frame("health", health))
        return b""

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
        self.recent.clear()
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


class Writing:
    """One transaction's part of a stream: ops, rows, notes, answers, position, and a snapshot at times."""

    def __init__(
        self,
        stream: int,
        done: list[tuple[Asked, int, Outcome, bytes]],
        keys: int,
        state: bytes | None,
        retain: int,
        seq: int = 0,
    ) -> None:
        self._stream, self._state, self._retain = stream, state, retain
        self._seq = done[-1][1] if done else seq
        pack = msgspec.msgpack.encode
        self._ops = [(stream, seq, pack(asked.op)) for asked, seq, _, _ in done]
        self._points = [
            (stream, int(p[0, 0]), int(p[-1, 0]), seq, p.tobytes()) for _, seq, o, _ in done if len(p := o.points)
        ]
        self._notes = [
            (stream, seq, number, note.kind, note.row, note.text)
            for _, seq, outcome, _ in done
            for number, note in enumerate(outcome.notes)
        ]
        keyed = [(asked, answer) for asked, _, _, answer in done if asked.key]
        self._keys = [
            (stream, asked.key, number, asked.digest, answer) for number, (asked, answer) in enumerate(keyed, keys + 1)
        ]

    def __call__(self, cursor: sqlite3.Cursor) -> None:
        cursor.executemany("INSERT INTO ops (stream, seq, body) VALUES (?, ?, ?)", self._ops)
        cursor.executemany("INSERT INTO points VALUES (?, ?, ?, ?, ?)", self._points)
        cursor.executemany("INSERT INTO notes VALUES (?, ?, ?, ?, ?, ?)", self._notes)
        cursor.executemany("INSERT INTO keys VALUES (?, ?, ?, ?, ?)", self._keys)
        cursor.execute("UPDATE streams SET seq=? WHERE id=?", (self._seq, self._stream))
        if self._state is not None:
            cursor.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?)", (self._stream, self._seq, self._state))
            trim(cursor, self._stream, self._retain)


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
