"""Locks on open files, on any system: a file belongs to one process until that closes it or ends."""

from __future__ import annotations

import errno
import sys
from typing import BinaryIO

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

# How systems say that another process holds the lock; any other error is of a disk that knows no locks.
HELD = (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)


def lock(file: BinaryIO) -> bool:
    """Lock a file while it is open; False: another process has done so."""
    try:
        _try(file.fileno())
    except OSError as error:
        return error.errno not in HELD
    return True


def _try(descriptor: int) -> None:
    if sys.platform == "win32":
        # Windows locks bytes, from the place where the file is: the first one, or that behind the end.
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
