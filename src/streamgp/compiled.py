"""How functions are compiled: one decorator, one on-disk cache that is never stale.

Numba checks only the file a function stands in before it trusts its cache, not the files of the functions it calls.
Here every compiled function is stamped with a digest of all sources that define one instead, so that an edit or an
upgrade anywhere in the compiled core recompiles what depends on it, and a copied or unpacked tree keeps its cache.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numba
from numba import config

F = TypeVar("F", bound=Callable[..., object])

# Full fastmath assumes that there are no NaNs, and then isnan() sees nothing; these flags keep NaN and inf intact.
FASTMATH = {"reassoc", "contract", "arcp"}


def _digest_of_compiled_sources() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        source = path.read_bytes()
        if b"@compiled" in source:
            digest.update(source)
    return digest.hexdigest()


_DIGEST = _digest_of_compiled_sources()


def compiled(function: F) -> F:
    """Compile a function of arrays and numbers with Numba when it is first needed; release the GIL while it runs."""
    dispatcher = numba.njit(function, cache=True, nogil=True, fastmath=FASTMATH, error_model="numpy")
    if not config.DISABLE_JIT:  # type: ignore[attr-defined]
        dispatcher._cache._cache_file._source_stamp = _DIGEST
    return dispatcher  # type: ignore[no-any-return]


INTEGERS, VECTOR, MATRIX = numba.int64[::1], numba.float64[::1], numba.float64[:, ::1]
CUBE = numba.float64[:, :, ::1]


def compile_now(function: Callable[..., object], *arguments: object) -> None:
    """Compile for these argument types (or load from disk), so that no compilation falls inside a stream."""
    if not config.DISABLE_JIT:  # type: ignore[attr-defined]
        function.compile(arguments)  # type: ignore[attr-defined]
