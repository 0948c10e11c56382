"""Fill the cache with compiled entries: ``python -m streamgp.compile_once module:name ...``, called by compile_now().

Numba optimizes a function together with all that it calls, and does so for every caller on the way up. Here a callee is
only linked, and each entry is optimized once, as a whole program: half the time of a cold start. Callees are left
without machine code, so nothing may run in this process; it compiles, writes the cache and ends.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
from typing import Any

from numba.core import types
from numba.core.caching import FunctionCache
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen


def compile_entries(names: list[str]) -> None:
    entries = [_named(name) for name in names]
    setattr(types.Record, "mangling_args", property(_content))  # noqa: B010, its type is not that of a property
    _finish_only({function.py_func.__qualname__ for function in entries})
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


def _finish_only(entries: set[str]) -> None:
    """Make Numba optimize, emit and save these functions alone."""
    optimize: Any
    emit: Any
    set_environment: Any
    save: Any
    optimize, emit = JITCodeLibrary._optimize_final_module, JITCodeLibrary._finalize_final_module
    set_environment, save = JITCPUCodegen.set_env, FunctionCache.save_overload

    def optimize_entries(library: Any) -> None:
        if library.name in entries:
            optimize(library)

    def emit_entries(library: Any) -> None:
        if library.name in entries:
            emit(library)
        else:
            library._finalize_dynamic_globals()
            library._finalized = True

    def set_emitted(codegen: Any, name: str, environment: Any) -> None:
        if codegen._engine.get_global_value_address(name):
            set_environment(codegen, name, environment)

    def save_entries(cache: Any, signature: Any, result: Any) -> None:
        if result.library.name in entries:
            save(cache, signature, result)

    for owner, name, function in (
        (JITCodeLibrary, "_optimize_functions", _leave),
        (JITCodeLibrary, "_optimize_final_module", optimize_entries),
        (JITCodeLibrary, "_finalize_final_module", emit_entries),
        (JITCPUCodegen, "set_env", set_emitted),
        (FunctionCache, "save_overload", save_entries),
    ):
        setattr(owner, name, function)


def _leave(library: Any, module: Any) -> None:
    module.data_layout = library._codegen._data_layout


if __name__ == "__main__":
    compile_entries(sys.argv[1:])
