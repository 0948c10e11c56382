"""Sharing: which worker has which stream, by its name, and moving the data when there are more or fewer workers."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from streamgp.serve.journal import NAME, TABLES, Journal, JournalError
from streamgp.tables.places import locked
from streamgp.tables.writing import WriteError

NUMBERED = re.compile(r"streamgp-([1-9]\d*)\.sqlite")


class Share(NamedTuple):
    """The streams of one worker.

    Args:
        number: of the worker, from 0.
        workers: in all.
    """

    number: int = 0
    workers: int = 1

    def has(self, stream: str) -> bool:
        """Whether a stream belongs to it."""
        return owner(stream, self.workers) == self.number

    @property
    def file(self) -> str:
        """Of its data."""
        return file_of(self.number)


def owner(stream: str, workers: int) -> int:
    """The worker that has a stream."""
    return zlib.crc32(stream.encode()) % workers


def file_of(worker: int) -> str:
    return f"streamgp-{worker}.sqlite" if worker else NAME


def redistribute(folder: Path, workers: int) -> None:
    """Move every stream of a folder to the file of its worker; what was stopped halfway is finished.

    Args:
        folder: of the data.
        workers: that will share them.
    """
    found = [NAME] if (folder / NAME).exists() else []
    found += sorted(path.name for path in folder.glob("streamgp-*.sqlite") if NUMBERED.fullmatch(path.name))
    if found in ([], [NAME]) and workers == 1:
        return
    with contextlib.ExitStack() as opened:
        for name in dict.fromkeys([*found, *map(file_of, range(workers))]):
            opened.enter_context(owned(folder, name))
        for name in dict.fromkeys([NAME, *found, *map(file_of, range(workers))]):
            Journal(folder, name=name).close()  # all tables are there, and of this version
        for name in found:
            _move(folder, name, workers)
            if name not in map(file_of, range(workers)):
                for beside in ("", "-wal", "-shm"):
                    (folder / f"{name}{beside}").unlink(missing_ok=True)


def _move(folder: Path, name: str, workers: int) -> None:
    """Move the streams of a file that belong to another one."""
    db = sqlite3.connect(folder / name, isolation_level=None)
    try:
        db.execute("PRAGMA synchronous=FULL")
        for stream, title in db.execute("SELECT id, name FROM streams").fetchall():
            if (target := file_of(owner(title, workers))) != name:
                db.execute("ATTACH ? AS other", (str(folder / target),))
                db.execute("PRAGMA other.synchronous=FULL")
                if not db.execute("SELECT 1 FROM other.streams WHERE name=?", (title,)).fetchall():
                    _copy(db, stream)
                db.execute("DETACH other")
                db.execute("BEGIN IMMEDIATE")
                for table in TABLES:
                    db.execute(f"DELETE FROM {table} WHERE stream=?", (stream,))
                db.execute("DELETE FROM streams WHERE id=?", (stream,))
                db.execute("COMMIT")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        db.close()


def _copy(db: sqlite3.Connection, stream: int) -> None:
    """Copy a stream to the attached file, as a whole."""
    db.execute("BEGIN IMMEDIATE")
    known = "name, tag, settings, seq"
    db.execute(f"INSERT INTO other.streams ({known}) SELECT {known} FROM main.streams WHERE id=?", (stream,))
    (number,) = db.execute("SELECT last_insert_rowid()").fetchone()
    for table in TABLES:
        columns = [row[1] for row in db.execute(f"PRAGMA other.table_info({table})") if row[1] != "stream"]
        names = ", ".join(columns)
        db.execute(
            f"INSERT INTO other.{table} (stream, {names}) SELECT ?, {names} FROM main.{table} WHERE stream=?",
            (number, stream),
        )
    db.execute("COMMIT")


@contextlib.contextmanager
def owned(folder: Path, name: str = NAME) -> Iterator[None]:
    """Let a file of a folder belong to this process alone."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked({"data": folder / name}):
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
