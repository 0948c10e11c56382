"""Fill the cache with compiled entries, in a few processes, for compile_now().

Each process is ``python -m streamgp.compile_once``: it reads names, ``module:function``, compiles them one after the
other and writes each name when it is done. An empty line ends it. With names as arguments it is a process that nobody
waits for, which lets others compile these.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from numba import config
from numba.core import types

from streamgp import filelocks

# Each takes half a gigabyte while it compiles; containers report more cores than they may use.
MOST_PROCESSES = 4
POLL = 0.5  # seconds between two looks whether another process has finished
BACKGROUND = 19  # how much nicer than others a process is that nobody waits for
_started: list[subprocess.Popen[bytes]] = []  # processes that nobody waits for
_waited: list[bool] = []  # whether this process has said that it waits


def fill(names: Sequence[str], there: Callable[[str], bool], waits: bool = True) -> None:
    """Compile entries into the cache on disk, and say so; what no process can compile is left to the caller.

    Each name is claimed by one process, which has a file of that name locked: what another one compiles is waited for.

    Args:
        names: ``module:function``, in the order in which they are begun.
        there: whether the cache on disk has an entry.
        waits: whether to wait for what others compile.
    """
    left = list(names)
    while left := [name for name in left if not there(name)]:
        with contextlib.ExitStack() as opened:
            claims = {name: claim for name in left if (claim := _claim(name)) is not None}
            for claim in claims.values():
                opened.enter_context(claim)
            if missing := {name: claim for name, claim in claims.items() if not there(name)}:  # by now
                _compile(missing)
        left = [name for name in left if name not in claims]
        if not (left and waits):
            return
        if not _waited:
            _waited.append(True)
            _say("streamgp: waiting for another process that compiles ...")
        time.sleep(POLL)


def _claim(name: str) -> contextlib.ExitStack | None:
    """Claim an entry until what is returned is closed; None: another process, or thread, has done so."""
    claim = contextlib.ExitStack()
    with contextlib.suppress(OSError):  # where nothing can be written, nothing is shared
        file = claim.enter_context(_opened(f"{name.replace(':', '.')}.lock"))
        if not filelocks.lock(file):
            claim.close()
            return None
    return claim


def _opened(name: str) -> BinaryIO:
    """A file that processes which compile share."""
    folder = Path(config.CACHE_DIR or Path(__file__).parent / "__pycache__") / "compiling"  # type: ignore[attr-defined]
    folder.mkdir(parents=True, exist_ok=True)
    return open(folder / name, "ab")


def fill_behind(names: Sequence[str]) -> None:
    """Let a process of low priority, which nobody waits for, compile entries into the cache on disk.

    Args:
        names: ``module:function``, in the order in which they are begun.
    """
    command, none = [sys.executable, "-m", "streamgp.compile_once", *names], subprocess.DEVNULL
    # Ctrl-C is not for it. Linux weighs sessions alike, whatever the priorities within them, so it stays in this one.
    apart: dict[str, Any] = {"process_group": 0}
    if sys.platform == "win32":
        apart = {"creationflags": subprocess.BELOW_NORMAL_PRIORITY_CLASS | subprocess.CREATE_NEW_PROCESS_GROUP}
    with contextlib.suppress(OSError):
        _started.append(subprocess.Popen(command, env=environment(), stdin=none, stdout=none, stderr=none, **apart))


def _compile(claims: Mapping[str, contextlib.ExitStack]) -> None:
    """Compile entries that this process has claimed, each until it is done, and say so."""
    began, console = time.monotonic(), sys.__stderr__
    shown = console is not None and sys.stderr is console and console.isatty()  # and no bar of a run is there
    _say("streamgp: compiling, once after an installation ...", end="" if shown else "\n")
    done = 0

    def told(name: str) -> None:
        nonlocal done
        done += 1
        claims[name].close()
        if shown:
            seconds = time.monotonic() - began
            _say(f"\rstreamgp: compiling, once after an installation: {done} of {len(claims)}, {seconds:.0f} s", end="")

    _divide(list(claims), told)
    _say(f"{chr(10) if shown else ''}streamgp: compiled in {time.monotonic() - began:.0f} s")


def tell_behind() -> None:
    """Say that there is such a process."""
    _say("streamgp: what later rows need is being compiled in the background")


def _say(text: str, end: str = "\n") -> None:
    print(text, end=end, file=sys.stderr, flush=True)


def environment() -> dict[str, str]:
    """For a process of the same Python, which finds the same modules."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def _divide(names: Sequence[str], told: Callable[[str], None]) -> None:
    """Let a few processes take the names as they come to them."""
    left: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in names:
        left.put(name)
    counting = threading.Lock()

    def feed(process: subprocess.Popen[str]) -> None:
        asks, answers = process.stdin, process.stdout
        if asks is None or answers is None:
            return
        with contextlib.suppress(queue.Empty, OSError):  # no name is left, or the process has ended
            while True:
                name = left.get_nowait()
                asks.write(f"{name}\n")
                asks.flush()
                if not answers.readline():
                    break
                with counting:
                    told(name)
        with contextlib.suppress(OSError):
            asks.write("\n")
            asks.flush()
        process.wait()

    with contextlib.suppress(OSError), contextlib.ExitStack() as started:
        for _ in range(min(len(names), _cores(), MOST_PROCESSES)):
            # Its input ends with this process, and it with its input.
            command = [sys.executable, "-m", "streamgp.compile_once"]
            pipe = subprocess.PIPE
            process = started.enter_context(
                subprocess.Popen(command, env=environment(), stdin=pipe, stdout=pipe, text=True)
            )
            feeder = threading.Thread(target=feed, args=(process,), daemon=True)
            feeder.start()
            started.callback(feeder.join)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def compile_entries(names: Sequence[str]) -> None:
    """Compile entries in this process."""
    setattr(types.Record, "mangling_args", property(_content))  # noqa: B010, its type is not that of a property
    for name in names:
        found = _found(name)
        found.compile(found.types)


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


def _content(record: Any) -> tuple[str, tuple[int]]:
    """What a record is called in the names of functions that take it: a digest of its fields.

    Numba takes the number of the type, counted in each process anew. Two entries, compiled in two processes, could then
    have a function of one name for different layouts, and a third process, which loads both, would run the first twice.
    """
    return "Record", (int(hashlib.sha256(record.name.encode()).hexdigest()[:15], 16),)


def _read(asked: queue.SimpleQueue[str]) -> None:
    """Take names; end when whoever started this process has ended: nobody waits for it then."""
    for line in sys.stdin:
        asked.put(line.strip())
    os._exit(1)


def work() -> None:
    """Compile what is asked for."""
    asked: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(asked,), daemon=True).start()
    while name := asked.get():
        compile_entries([name])
        print(name, flush=True)


def compile_behind(names: Sequence[str]) -> None:
    """Let others compile, with low priority, what nobody else does."""
    if hasattr(os, "nice"):
        os.nice(BACKGROUND)
    found = {name: _found(name) for name in names}
    fill(names, lambda name: is_cached(found[name]), waits=False)


if __name__ == "__main__":
    if sys.argv[1:]:
        compile_behind(sys.argv[1:])
    else:
        work()
