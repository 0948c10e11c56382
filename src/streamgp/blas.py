"""BLAS on one thread, for matrices so small that several threads would only wait for each other."""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any

_counting = threading.Lock()
_limits: list[Any] = []  # one for each thread of Python that is inside; the number of threads is the process's


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Let BLAS use one thread until the last block of this kind ends; where threadpoolctl is missing, do nothing."""
    blas = _blas()
    if blas is None:
        yield
        return
    with _counting:
        _limits.append(None if _limits else blas.limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _counting:
            limit = _limits[0] if len(_limits) == 1 else None
            _limits.pop()
            if limit is not None:
                limit.restore_original_limits()


@cache
def _blas() -> Any:
    """What sets the threads of the BLAS of NumPy and of SciPy, which must be loaded to be found."""
    if not find_spec("threadpoolctl"):
        return None
    importlib.import_module("scipy.linalg")
    return importlib.import_module("threadpoolctl").ThreadpoolController()
