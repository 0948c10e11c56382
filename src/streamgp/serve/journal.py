"""Journal: one SQLite file that holds what the service has promised to keep.

All that waits goes into one transaction and one sync of the disk, and only then are clients answered. Each thread reads
through a connection of its own.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from streamgp.serve.messages import DriftEvent, RefusedError
from streamgp.serve.ops import POINT, Op, Outcome
from streamgp.settings import FloatArray
from streamgp.tables.places import locked
from streamgp.tables.writing import WriteError

NAME = "streamgp.sqlite"
APPLICATION, VERSION = 0x73677031, 3  # "sgp1"
GROUP = 32  # requests of a record, at most
MOST_KEYS = 10_000  # idempotency keys of a stream that are known
MOST_ANSWERS = 64 << 20  # bytes of their answers
MOST_NOTES = 1000  # of a stream
AT_ONCE = 32  # records that are read at once
PART = 16 << 20  # bytes of a snapshot in one row, and in one transaction: others wait for it
SCHEMA = """
CREATE TABLE streams (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, tag TEXT NOT NULL, settings BLOB NOT NULL,
    seq INTEGER NOT NULL, dropped INTEGER, kind TEXT NOT NULL DEFAULT 'streams');
CREATE TABLE ops (stream INTEGER, seq INTEGER, body BLOB, size INTEGER NOT NULL DEFAULT 0,
    tickets INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (stream, seq)) WITHOUT ROWID;
CREATE TABLE keys (stream INTEGER, key TEXT, number INTEGER, digest BLOB, answer BLOB, PRIMARY KEY (stream, key))
    WITHOUT ROWID;
CREATE TABLE snapshots (stream INTEGER, seq INTEGER, part INTEGER, state BLOB, last INTEGER,
    PRIMARY KEY (stream, seq, part));
CREATE TABLE points (stream INTEGER, row INTEGER, last INTEGER, seq INTEGER, data BLOB, PRIMARY KEY (stream, row))
    WITHOUT ROWID;
CREATE TABLE notes (stream INTEGER, seq INTEGER, number INTEGER, kind TEXT, row INTEGER, text TEXT,
    PRIMARY KEY (stream, seq, number)) WITHOUT ROWID;
CREATE TABLE tokens (id INTEGER PRIMARY KEY, digest BLOB NOT NULL, scope TEXT NOT NULL, created TEXT NOT NULL,
    name TEXT NOT NULL DEFAULT '', used TEXT NOT NULL DEFAULT '');
CREATE TABLE probe (id INTEGER PRIMARY KEY, filler BLOB);
"""
FROM_2 = (  # the version of streamgp 0.2 and 0.3
    "DELETE FROM blocks",
    "ALTER TABLE tokens ADD COLUMN name TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE tokens ADD COLUMN used TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE ops ADD COLUMN size INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE ops ADD COLUMN tickets INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE streams ADD COLUMN dropped INTEGER",
    "ALTER TABLE streams ADD COLUMN kind TEXT NOT NULL DEFAULT 'streams'",
    "ALTER TABLE snapshots RENAME TO whole",
    "CREATE TABLE snapshots (stream INTEGER, seq INTEGER, part INTEGER, state BLOB, last INTEGER, "
    "PRIMARY KEY (stream, seq, part))",
    "INSERT INTO snapshots SELECT stream, seq, 0, state, 1 FROM whole",
    "DROP TABLE whole",
    "UPDATE streams SET dropped=0 WHERE id NOT IN (SELECT stream FROM snapshots)",
)
TABLES = frozenset({"ops", "keys", "snapshots", "points", "notes"})  # that have rows of a stream

Write = Callable[[sqlite3.Cursor], object]


class JournalError(OSError):
    """A file of the service that cannot be used; the message says what to do."""


class Kept(NamedTuple):
    """A stream as it is kept."""

    id: int  # in the file
    name: str  # for clients
    tag: str  # begins its tickets
    settings: bytes  # as JSON
    seq: int  # the number of its last record
    kind: str  # "streams" or "fleets"


class Done(msgspec.Struct):
    """A request that was done, and what it led to."""

    op: Op
    outcome: Outcome
    answer: bytes = b""  # to the client
    key: str = ""  # by which a repeated request is known again; "": none
    digest: bytes = b""  # of the request


def statement(sql: str, *values: Any) -> Write:
    """What runs one statement."""
    return lambda cursor: cursor.execute(sql, values)


class _Waiting:
    """Something to write, and what became of it."""

    def __init__(self, works: Sequence[Write]) -> None:
        self.works, self.done = works, False
        self.problem: BaseException | None = None


class Journal:
    """The file of the service.

    Args:
        folder: where it is; made if it is not there.
        create: whether a new one is made.
        retain: rows of the history of a stream.
        keep: rows of a stream that stay as they came although a snapshot has them.
    """

    def __init__(self, folder: str | Path, create: bool = True, retain: int = 0, keep: int = 0) -> None:
        self.path, self._retain, self._keep = Path(folder) / NAME, retain, keep
        with _sentences(self.path):
            if create:
                Path(folder).mkdir(parents=True, exist_ok=True)
            elif not self.path.exists():
                raise JournalError(f"{folder} holds no data of streamgp serve; give the folder with --data")
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite makes its other files alike
            self._writing = self._connected()
            self._prepare()
        self._local = threading.local()
        self._readers: list[sqlite3.Connection] = []
        self._waiting: deque[_Waiting] = deque()
        self._using, self._closed = threading.Lock(), False  # the lock is held by whoever writes
        self.trouble: RefusedError | None = None  # why the last write failed

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=10, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA journal_size_limit=67108864")
        return connection

    def _prepare(self) -> None:
        """Make the tables, or check that they are ours."""
        db = self._writing
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            db.executescript(
                f"BEGIN; {SCHEMA} PRAGMA application_id={APPLICATION}; PRAGMA user_version={VERSION}; COMMIT;"
            )
        elif db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
            raise JournalError(f"{self.path} is not a file of streamgp serve; give another folder with --data")
        elif (found := db.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise JournalError(f"{self.path} is damaged ({found}); restore it from a backup")
        elif version == 2:
            self._upgrade()
        elif version != VERSION:
            raise JournalError(
                f"{self.path} has version {version}, this streamgp reads {VERSION}; serve it with the streamgp that "
                "wrote it, or give another folder with --data"
            )
        db.execute("BEGIN IMMEDIATE")  # whether it can be written
        db.execute("INSERT INTO probe (filler) VALUES (NULL)")
        db.execute("ROLLBACK")

    def _upgrade(self) -> None:
        """Make a file of version 2 one of this version."""
        cursor = self._writing.execute("BEGIN IMMEDIATE")
        for statement in FROM_2:
            cursor.execute(statement)
        for stream, seq, body in cursor.execute("SELECT stream, seq, body FROM ops").fetchall():
            op = msgspec.msgpack.decode(body)
            rows, targets = len(op.get("rows", ())), len(op.get("targets", ()))
            listed = msgspec.msgpack.encode([msgspec.Raw(body)])
            values = listed, rows + targets, rows if op["kind"] == "predict" else 0, stream, seq
            cursor.execute("UPDATE ops SET body=?, size=?, tickets=? WHERE stream=? AND seq=?", values)
        cursor.execute(f"PRAGMA user_version={VERSION}")
        cursor.execute("COMMIT")

    def close(self) -> None:
        """Close the file; nothing is written any more."""
        with self._using:
            self._closed = True
            for connection in [*self._readers, self._writing]:
                connection.close()

    # Writing.

    def write(self, *works: Write) -> None:
        """Write something; when this returns, it is on disk.

        Whoever comes first writes, in one transaction, also what others bring until it begins.
        """
        mine = _Waiting(works)
        self._waiting.append(mine)
        with self._using:
            if not mine.done:
                self._commit([self._waiting.popleft() for _ in range(len(self._waiting))])
        if mine.problem is not None:
            raise mine.problem

    def _commit(self, group: list[_Waiting]) -> None:
        """Write in one transaction."""
        problem, db = None, self._writing
        try:
            if self._closed:
                raise stopping()
            cursor = db.execute("BEGIN IMMEDIATE")
            for one in group:
                for work in one.works:
                    work(cursor)
            db.execute("COMMIT")
        except BaseException as error:
            with contextlib.suppress(sqlite3.Error):
                if db.in_transaction:
                    db.execute("ROLLBACK")
            problem = as_problem(error, self.path) if isinstance(error, sqlite3.Error) else error
        self.trouble = problem if isinstance(problem, RefusedError) else None
        for one in group:
            one.done, one.problem = True, problem

    def probe(self) -> None:
        """Raise a RefusedError if nothing can be written at present."""
        self.write(statement("INSERT INTO probe (filler) VALUES (?)", bytes(65536)), statement("DELETE FROM probe"))

    def writing(self, stream: int, seq: int, done: Sequence[Done], ops: bool = True) -> Write:
        """What writes a record, seq, of a stream: requests that were done together with their answers, and, unless not
        wanted, the requests themselves."""
        asked = [one.op for one in done]
        body = msgspec.msgpack.encode(asked)
        size, tickets = sum(op.size for op in asked), sum(op.tickets for op in asked)
        points = np.concatenate([one.outcome.points for one in done])
        notes = [note for one in done for note in one.outcome.notes]
        keyed = [one for one in done if one.key]

        def write(cursor: sqlite3.Cursor) -> None:
            if ops:
                values: tuple[Any, ...] = (stream, seq, body, size, tickets)
                cursor.execute("INSERT INTO ops (stream, seq, body, size, tickets) VALUES (?, ?, ?, ?, ?)", values)
            if len(points):
                values = stream, int(points[0, 0]), int(points[-1, 0]), seq, points.tobytes()
                cursor.execute("INSERT INTO points (stream, row, last, seq, data) VALUES (?, ?, ?, ?, ?)", values)
            if notes:
                told = [(stream, seq, number, note.kind, note.row, note.text) for number, note in enumerate(notes)]
                cursor.executemany("INSERT INTO notes VALUES (?, ?, ?, ?, ?, ?)", told)
            if keyed:
                # Numbers only grow; those of earlier versions, which counted keys, are smaller.
                numbered = enumerate(keyed, GROUP * seq)
                known = [(stream, one.key, number, one.digest, one.answer) for number, one in numbered]
                cursor.executemany("INSERT INTO keys VALUES (?, ?, ?, ?, ?)", known)
            cursor.execute("UPDATE streams SET seq=? WHERE id=?", (seq, stream))

        return write

    def snapping(self, stream: int, seq: int, state: bytes) -> list[Write]:
        """What writes a snapshot of a stream after a record, part by part; it counts from the last one on, which also
        forgets what is no longer needed."""

        def write(cursor: sqlite3.Cursor, part: int, start: int) -> None:
            is_last = start + PART >= len(state)
            values = stream, seq, part, memoryview(state)[start : start + PART], is_last
            cursor.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?, ?)", values)
            if is_last:
                cursor.execute("DELETE FROM snapshots WHERE stream=? AND seq<>?", (stream, seq))
                _trim(cursor, stream, seq, self._retain, self._keep)

        starts = range(0, len(state), PART)
        return [partial(write, part=part, start=start) for part, start in enumerate(starts)]

    # Reading.

    def read(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        try:
            connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
            if connection is None:
                connection = self._local.connection = self._connected()
                self._readers.append(connection)
            return connection.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise as_problem(error, self.path) from None

    def streams(self) -> list[Kept]:
        return [Kept(*row) for row in self.read("SELECT id, name, tag, settings, seq, kind FROM streams ORDER BY name")]

    def snapshot(self, stream: int) -> tuple[int, bytes] | None:
        """The position and the state of the newest snapshot."""
        newest = "SELECT max(seq) FROM snapshots WHERE stream=? AND last"
        query = f"SELECT seq, state FROM snapshots WHERE stream=? AND seq=({newest}) ORDER BY part"
        found = self.read(query, stream, stream)
        return (found[0][0], b"".join(state for _, state in found)) if found else None

    def ops(self, stream: int, after: int) -> Iterator[tuple[int, bytes]]:
        """Records after a position with their numbers."""
        query = "SELECT seq, body FROM ops WHERE stream=? AND seq>? ORDER BY seq LIMIT ?"
        while found := self.read(query, stream, after, AT_ONCE):
            yield from found
            after = found[-1][0]

    def answer(self, stream: int, key: str) -> tuple[bytes, bytes] | None:
        """The digest of the request that had this idempotency key, and its answer."""
        found = self.read("SELECT digest, answer FROM keys WHERE stream=? AND key=?", stream, key)
        return (found[0][0], found[0][1]) if found else None

    def points(self, stream: int, rows: int) -> FloatArray:
        """The last rows one by one, as many as there are, (n, POINT)."""
        last = self.read("SELECT max(last) FROM points WHERE stream=?", stream)[0][0] or 0
        found = self.read("SELECT data FROM points WHERE stream=? AND last>? ORDER BY row", stream, last - rows)
        return np.frombuffer(b"".join(data for (data,) in found)).reshape(-1, POINT)

    def points_after(self, stream: int, seq: int, most: int) -> list[tuple[int, FloatArray]]:
        """The rows of the newest records after a position: its number, and (n, POINT)."""
        query = "SELECT seq, data FROM points WHERE stream=? AND seq>? ORDER BY row DESC LIMIT ?"
        found = self.read(query, stream, seq, most)
        return [(at, np.frombuffer(data).reshape(-1, POINT)) for at, data in reversed(found)]

    def notes(self, stream: int, after: int = -1) -> list[tuple[int, str, int, str]]:
        """What happened: seq, kind, row, text."""
        return self.read(
            "SELECT seq, kind, row, text FROM notes WHERE stream=? AND seq>? ORDER BY seq, number", stream, after
        )

    def drift(self, stream: int) -> list[DriftEvent]:
        """Changes and alarms."""
        return [DriftEvent(row, text, kind) for _, kind, row, text in self.notes(stream) if kind in ("drift", "alarm")]

    def bytes(self) -> int:
        """How large the file is, and what is not in it yet."""
        beside = self.path.with_name(f"{self.path.name}-wal")
        return sum(path.stat().st_size for path in (self.path, beside) if path.exists())


@contextlib.contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Hold a folder; refuse one that another server holds."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if found := sorted(path.name for path in folder.glob("streamgp-*.sqlite")):
            raise JournalError(
                f"{folder} holds the files of several workers ({', '.join(found)}); serve it once with streamgp 0.3 "
                "without --workers, which moves all streams to one file"
            )
        with locked({"data": folder / NAME}):
            yield
    except WriteError as error:
        if "another run" not in str(error):
            raise JournalError(str(error)) from None
        raise JournalError(
            f"{folder} belongs to another streamgp serve that is running; stop it, or give another folder with --data"
        ) from None
    except OSError as error:
        if isinstance(error, JournalError):
            raise
        raise JournalError(f"{folder} cannot be used: {error.strerror}; give another folder with --data") from None


def _trim(cursor: sqlite3.Cursor, stream: int, seq: int, retain: int, keep: int) -> None:
    """Forget what is no longer needed of a stream that has a snapshot after this record."""
    (last,) = cursor.execute("SELECT max(last) FROM points WHERE stream=?", (stream,)).fetchone()
    newest = "SELECT seq, sum(size) OVER (ORDER BY seq DESC) AS rows FROM ops WHERE stream=?"
    (old,) = cursor.execute(f"SELECT max(seq) FROM ({newest}) WHERE rows>?", (stream, keep)).fetchone()
    gone = "FROM ops WHERE stream=? AND seq<=?"
    until = stream, min(seq, old or 0)
    tickets = f"SELECT coalesce(sum(tickets), 0) {gone}"
    cursor.execute(f"UPDATE streams SET dropped=dropped+({tickets}) WHERE id=?", (*until, stream))
    cursor.execute(f"DELETE {gone}", until)
    cursor.execute("DELETE FROM points WHERE stream=? AND last<=?", (stream, (last or 0) - retain))
    cursor.execute(
        "DELETE FROM keys WHERE stream=? AND number <= (SELECT max(number) FROM "
        "(SELECT number, row_number() OVER newest AS count, sum(length(answer)) OVER newest AS bytes "
        "FROM keys WHERE stream=? WINDOW newest AS (ORDER BY number DESC)) WHERE count>? OR bytes>?)",
        (stream, stream, MOST_KEYS, MOST_ANSWERS),
    )
    cursor.execute(
        "DELETE FROM notes WHERE stream=? AND seq < (SELECT seq FROM notes WHERE stream=? ORDER BY seq DESC "
        "LIMIT 1 OFFSET ?)",
        (stream, stream, MOST_NOTES),
    )


def stopping() -> RefusedError:
    """The server stops and takes no more."""
    return RefusedError("stopping", "the server stops", "send it again soon", 5)


def as_problem(error: BaseException, path: Path) -> RefusedError:
    """What is wrong with the disk or the file, for clients."""
    text = str(error)
    if "full" in text:
        full = f"the disk of {path.parent} is full; nothing of this request was kept"
        return RefusedError("disk_full", full, "make room, resend")
    if "readonly" in text or "read-only" in text:
        return RefusedError("read_only", f"{path} cannot be written: {text}", "make the disk writable, then resend", 30)
    if "malformed" in text or "not a database" in text:
        return RefusedError("damaged", f"{path} is damaged: {text}", "stop the server and restore a backup", 60)
    return RefusedError("disk_error", f"{path} cannot be used: {text}", "see the server's log, then resend", 10)


@contextlib.contextmanager
def _sentences(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        problem = as_problem(error, path)
        raise JournalError(f"{problem.message}; {problem.hint}") from None
    except JournalError:
        raise
    except OSError as error:
        raise JournalError(f"{path.parent} cannot be used: {error.strerror}; give another folder with --data") from None
