"""Fill Numba's cache with compiled entries, in two processes at once, for compile_now().

Each process runs ``main()`` with every second of the names, ``module:function``, as arguments.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from numba.core import codegen, types

from streamgp.compiled.sources import environment

code: Any = codegen
PROCESSES = 2  # each takes half a gigabyte
MAIN = "from streamgp.compiled import compile_once; compile_once.main()"


def fill(entries: Sequence[Any]) -> None:
    """Compile entries into the cache on disk, and say so; what no process can compile is left to the caller."""
    began, names = time.monotonic(), [name_of(one) for one in entries]
    _say("streamgp: compiling, once after an installation ...")
    with contextlib.suppress(OSError), contextlib.ExitStack() as ended:
        running = [ended.enter_context(_started(part)) for i in range(PROCESSES) if (part := names[i::PROCESSES])]
        for process in running:
            ended.callback(process.terminate)  # when this one is interrupted
        for process in running:
            process.wait()
    _say(f"streamgp: compiled in {time.monotonic() - began:.0f} s")


def _started(names: Sequence[str]) -> subprocess.Popen[bytes]:
    none = subprocess.DEVNULL
    return subprocess.Popen([sys.executable, "-c", MAIN, *names], env=environment(), stdin=none, stdout=none)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    prepare()
    for name in sys.argv[1:]:
        module, _, function = name.partition(":")
        entry = getattr(importlib.import_module(module), function).entry
        entry.compile(entry.types)


def name_of(function: Any) -> str:
    """The name by which processes know an entry."""
    return f"{function.py_func.__module__}:{function.py_func.__name__}"


def is_cached(function: Any) -> bool:
    """Whether an entry is loaded, or the cache on disk has it."""
    if function.loaded or function.types in function.overloads:
        return True
    cache = function._cache
    return cache._index_key(function.types, function.targetctx.codegen()) in cache._cache_file._load_index()


class Library(code.JITCodeLibrary):  # type: ignore[misc]
    """Code that is optimized and becomes machine code when it is kept: by then its callees are part of it."""

    def _optimize_final_module(self) -> None:
        """Optimize nothing: what another function calls would be optimized once for each that calls it, and in it."""

    def _finalize_final_module(self) -> None:
        if self._object_caching_enabled and self._compiled:  # it comes from the cache
            super()._finalize_final_module()
        self._finalized = True

    def serialize_using_object_code(self) -> Any:
        super()._optimize_final_module()
        # What it calls is its own. Else functions of one name in two of them, compiled in two processes, which number
        # functions alike, would be one function for a third process that loads both.
        for function in self._final_module.functions:
            if function.linkage == code.ll.Linkage.linkonce_odr:
                function.linkage = code.ll.Linkage.internal
        super()._finalize_final_module()
        return super().serialize_using_object_code()


def prepare() -> None:
    """Let this process compile for the cache, and do nothing else with what it has compiled.

    Functions have the names that they get in every other process, too.
    """
    for owner, name, value in (
        (types.Record, "mangling_args", property(_content)),
        (code.JITCPUCodegen, "_library_class", Library),
        (code.JITCPUCodegen, "set_env", lambda *_: None),
    ):
        setattr(owner, name, value)


def _content(record: Any) -> tuple[str, tuple[int]]:
    """What a record is called in the names of functions that take it: a digest of its fields.

    Numba takes the number of the type, counted in each process anew. Two entries, compiled in two processes, could then
    have a function of one name for different layouts, and a third process, which loads both, would run the first twice.
    """
    return "Record", (int(hashlib.sha256(record.name.encode()).hexdigest()[:15], 16),)
