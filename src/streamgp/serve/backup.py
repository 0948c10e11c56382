"""Backup: a copy of a data folder as it is at one moment, while the server may be running."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from streamgp.serve.journal import APPLICATION, NAME, JournalError

PRIVATE = 0o600  # the mode of the copy, as that of the data


def back_up(folder: str | Path, to: str | Path) -> Path:
    """Copy the data of a server; the copy can be served or restored.

    Args:
        folder: of the server's data.
        to: the folder for the copy; made if it is not there. An earlier copy is replaced when the new one is complete.

    Returns:
        The copy.
    """
    path, to = Path(folder) / NAME, Path(to)
    if not path.exists():
        raise JournalError(f"{folder} holds no data of streamgp serve; give the folder with --data")
    if to.resolve() == path.parent.resolve():
        raise JournalError(f"{to} is the data folder itself; give another folder with --to")
    copied, part = to / NAME, to / f"{NAME}.part"
    try:
        to.mkdir(mode=0o700, parents=True, exist_ok=True)
        part.unlink(missing_ok=True)
        os.close(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, PRIVATE))
        with (
            contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=10)) as source,
            contextlib.closing(sqlite3.connect(part)) as copy,
        ):
            if source.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
                raise JournalError(f"{path} is not a file of streamgp serve; give another folder with --data")
            source.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
            if (problem := copy.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
                raise JournalError(f"{path} is damaged ({problem}); keep the last backup")
        os.replace(part, copied)
    except (sqlite3.Error, OSError) as error:
        with contextlib.suppress(OSError):
            part.unlink()
        if isinstance(error, JournalError):
            raise
        raise JournalError(f"{folder} could not be copied to {to}: {error}") from None
    return copied
