"""Fill the cache with compiled entries, in processes of their own, for compile_now().

Each runs ``main()`` with names, ``module:function``, as arguments. It compiles what the cache does not have, one
function after the other, except what another process is at: that one has the function's file locked.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numba import config
from numba.core import types

from streamgp import filelocks
from streamgp.compiled.sources import environment

# Each takes half a gigabyte while it compiles; containers report more cores than they may use.
MOST_PROCESSES = 4
POLL = 0.2  # seconds between two looks at what others do
BACKGROUND = 19  # how much nicer than others a process is that nobody waits for
BEHIND = "--behind"
MAIN = "from streamgp.compiled import compile_once; compile_once.main()"
_started: list[subprocess.Popen[bytes]] = []  # processes that nobody waits for


def fill(entries: Sequence[Any]) -> None:
    """Compile entries into the cache on disk, and say so; what no process can compile is left to the caller."""
    began, console, names = time.monotonic(), sys.__stderr__, [name_of(one) for one in entries]
    shown = console is not None and sys.stderr is console and console.isatty()  # and no bar of a run is there
    _say("streamgp: compiling, once after an installation ...", end="" if shown else "\n")
    with contextlib.suppress(OSError), contextlib.ExitStack() as ended:
        processes = [ended.enter_context(_start(names)) for _ in range(min(len(names), _cores(), MOST_PROCESSES))]
        for process in processes:
            ended.callback(process.terminate)  # when this one is interrupted
        while any(process.poll() is None for process in processes):
            time.sleep(POLL)
            if shown:
                done, seconds = sum(map(is_cached, entries)), time.monotonic() - began
                _say(f"\rstreamgp: compiling, once after an installation: {done} of {len(names)}, {seconds:.0f} s", "")
    _say(f"{chr(10) if shown else ''}streamgp: compiled in {time.monotonic() - began:.0f} s")


def fill_behind(entries: Sequence[Any]) -> None:
    """Let a process of low priority, which nobody waits for, compile entries into the cache on disk."""
    # Ctrl-C is not for it. Linux weighs sessions alike, whatever the priorities within them, so it stays in this one.
    apart: dict[str, Any] = {"process_group": 0}
    if sys.platform == "win32":
        apart = {"creationflags": subprocess.BELOW_NORMAL_PRIORITY_CLASS | subprocess.CREATE_NEW_PROCESS_GROUP}
    with contextlib.suppress(OSError):
        _started.append(_start([BEHIND, *map(name_of, entries)], stderr=subprocess.DEVNULL, **apart))
    _say("streamgp: what later rows need is being compiled in the background")


def _start(arguments: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    command, none = [sys.executable, "-c", MAIN, *arguments], subprocess.DEVNULL
    return subprocess.Popen(command, env=environment(), stdin=none, stdout=none, **options)


def _say(text: str, end: str = "\n") -> None:
    print(text, end=end, file=sys.stderr, flush=True)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def compile_entries(names: Sequence[str], waits: bool = True) -> None:
    """Compile entries in this process, unless the cache has them.

    Args:
        names: ``module:function``, in the order in which they are begun.
        waits: whether to wait in the end for what others compile, and do it if they have not.
    """
    name_by_content()
    left = [_found(name) for name in names]
    while left := [one for one in left if not is_cached(one)]:
        begun = 0
        for one in left:
            with contextlib.ExitStack() as claim:
                if _claimed(one, claim) and not is_cached(one):
                    one.compile(one.types)
                    begun += 1
        if not begun:
            if not waits:
                return
            time.sleep(POLL)


def _claimed(function: Any, claim: contextlib.ExitStack) -> bool:
    """Claim an entry until the stack is closed; False: another process has done so."""
    with contextlib.suppress(OSError):  # where nothing can be written, nothing is shared
        folder = Path(config.CACHE_DIR or Path(__file__).parents[1] / "__pycache__") / "compiling"  # type: ignore[attr-defined]
        folder.mkdir(parents=True, exist_ok=True)
        return filelocks.lock(claim.enter_context(open(folder / f"{name_of(function).replace(':', '.')}.lock", "ab")))
    return True


def _found(name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function).entry


def name_of(function: Any) -> str:
    """The name by which processes know an entry."""
    return f"{function.py_func.__module__}:{function.py_func.__name__}"


def is_cached(function: Any) -> bool:
    """Whether an entry is loaded, or the cache on disk has it."""
    if function.loaded or function.types in function.overloads:
        return True
    cache = function._cache
    return cache._index_key(function.types, function.targetctx.codegen()) in cache._cache_file._load_index()


def name_by_content() -> None:
    """Let the functions that this process compiles have the names that they get in every other one, too."""
    setattr(types.Record, "mangling_args", property(_content))  # noqa: B010, its type is not that of a property


def _content(record: Any) -> tuple[str, tuple[int]]:
    """What a record is called in the names of functions that take it: a digest of its fields.

    Numba takes the number of the type, counted in each process anew. Two entries, compiled in two processes, could then
    have a function of one name for different layouts, and a third process, which loads both, would run the first twice.
    """
    return "Record", (int(hashlib.sha256(record.name.encode()).hexdigest()[:15], 16),)


def main() -> None:
    if sys.argv[1] == BEHIND:
        if hasattr(os, "nice"):
            os.nice(BACKGROUND)
        compile_entries(sys.argv[2:], waits=False)
    else:
        compile_entries(sys.argv[1:])
