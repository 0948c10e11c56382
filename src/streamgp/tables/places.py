"""The files of a run: all different ones, and what it writes is written by no other run at the same time."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from streamgp.contract import filelocks
from streamgp.tables.writing import WriteError, writing

Place = str | Path | int | None  # an int: an open file's descriptor
READ = ("schema", "prior", "load")  # settings that name what is read and never written


def refuse_same(places: Mapping[str, Place]) -> None:
    """Refuse two settings that name one file, also through links; a run may be saved where it was loaded from."""
    seen: dict[object, str] = {}
    for setting, place in places.items():
        if place is None:
            continue
        first = seen.setdefault(_identity(place), setting)
        if first != setting and (first, setting) != ("load", "save"):
            shown = "" if isinstance(place, int) else f", {place}"
            why = "which cannot be both" if setting in READ else "which the run would overwrite"
            raise ValueError(
                f"`{first}` and `{setting}` are the same file{shown}, {why}; give `{setting}` another name"
            )


def _identity(place: str | Path | int) -> object:
    try:
        found = os.stat(place)
    except OSError:
        return object() if isinstance(place, int) else os.path.realpath(place)
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else object()


@contextlib.contextmanager
def locked(places: Mapping[str, str | Path | None]) -> Iterator[None]:
    """Hold the files that settings name and that are written; refuse one that another run holds."""
    with contextlib.ExitStack() as locks:
        for setting, place in places.items():
            if place is not None and str(place) != "-":
                locks.enter_context(_lock(setting, Path(os.path.realpath(place)), str(place)))
        yield


@contextlib.contextmanager
def _lock(setting: str, path: Path, name: str) -> Iterator[None]:
    # A file beside it is locked, because a save replaces the file itself. The system drops the lock of a dead run.
    lock = path.with_name(f".{path.name}.lock")
    while True:
        with writing(name, f"; give `{setting}` another place"):
            file = open(lock, "ab")  # noqa: SIM115
        if not filelocks.lock(file):
            file.close()
            raise WriteError(
                f"{name} is being written by another run; wait for it to end, or give `{setting}` another name"
            )
        if _identity(lock) == _identity(file.fileno()):
            break
        file.close()  # its last holder has just removed it
    try:
        yield
    finally:
        with contextlib.suppress(PermissionError):  # Windows removes no open file, so that another run may have it now
            if os.name != "posix":
                file.close()
            lock.unlink(missing_ok=True)
        file.close()
