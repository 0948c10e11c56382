"""Fill the cache with compiled entries: ``python -m streamgp.compile_once module:name ...``, for compile_now()."""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
import threading
from typing import Any

from numba.core import types


def compile_entries(names: list[str]) -> None:
    entries = [_named(name) for name in names]
    setattr(types.Record, "mangling_args", property(_content))  # noqa: B010, its type is not that of a property
    for function in entries:
        function.compile(function.types)


def _named(name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def _content(record: Any) -> tuple[str, tuple[int]]:
    """What a record is called in the names of functions that take it: a digest of its fields.

    Numba takes the number of the type, counted in each process anew. Two entries, compiled in two processes, could then
    have a function of one name for different layouts, and a third process, which loads both, would run the first twice.
    """
    return "Record", (int(hashlib.sha256(record.name.encode()).hexdigest()[:15], 16),)


def _end_with_input() -> None:
    """End when whoever started this process has ended: nobody waits for it then."""
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_input, daemon=True).start()
    compile_entries(sys.argv[1:])
