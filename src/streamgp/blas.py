"""BLAS on one thread, for matrices so small that several threads would only wait for each other."""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any


class _Inside:
    """Who is inside a block of one_thread().

    Args:
        blas: what sets the threads of BLAS.
    """

    def __init__(self, blas: Any) -> None:
        self._blas, self._lock, self._count = blas, threading.Lock(), 0
        self._first: Any = None

    def enter(self) -> Any:
        with self._lock:
            limit = self._blas.limit(limits=1, user_api="blas")
            self._first = limit if self._count == 0 else self._first
            self._count += 1
        return limit

    def leave(self, limit: Any) -> None:
        """Restore what was found.

        By its version, BLAS counts threads for each thread that calls it, or for the whole process; then only what the
        first one found is the number from before.
        """
        with self._lock:
            limit.restore_original_limits()
            self._count -= 1
            if self._count == 0 and self._first is not None and self._first is not limit:
                self._first.restore_original_limits()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Let BLAS use one thread until the block ends; where threadpoolctl is missing, do nothing."""
    inside = _inside()
    if inside is None:
        yield
        return
    limit = inside.enter()
    try:
        yield
    finally:
        inside.leave(limit)


@cache
def _inside() -> _Inside | None:
    """Of the BLAS of NumPy and of SciPy, which must be loaded to be found."""
    if not find_spec("threadpoolctl"):
        return None
    importlib.import_module("scipy.linalg")
    return _Inside(importlib.import_module("threadpoolctl").ThreadpoolController())
