"""Fill the cache with compiled entries, in a few processes, for compile_now().

Each process is ``python -m streamgp.compile_once``: it reads names, ``module:function``, compiles them one after the
other and writes each name when it is done. An empty line ends it.
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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from numba.core import types

from streamgp import filelocks

# Each takes half a gigabyte while it compiles; containers report more cores than they may use.
MOST_PROCESSES = 4
POLL = 0.5  # seconds between two looks whether another process has finished


def fill(names: Sequence[str]) -> None:
    """Compile entries into the cache on disk, and say so; what no process can compile is left to the caller.

    Args:
        names: ``module:function``, in the order in which they are begun.
    """
    began, console = time.monotonic(), sys.__stderr__
    shown = console is not None and sys.stderr is console and console.isatty()  # and no bar of a run is there
    _say("streamgp: compiling, once after an installation ...", end="" if shown else "\n")

    def told(done: int) -> None:
        if shown:
            seconds = time.monotonic() - began
            _say(f"\rstreamgp: compiling, once after an installation: {done} of {len(names)}, {seconds:.0f} s", end="")

    _divide(names, told)
    _say(f"{chr(10) if shown else ''}streamgp: compiled in {time.monotonic() - began:.0f} s")


def _say(text: str, end: str = "\n") -> None:
    print(text, end=end, file=sys.stderr, flush=True)


def _divide(names: Sequence[str], told: Callable[[int], None]) -> None:
    """Let a few processes take the names as they come to them."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    left: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in names:
        left.put(name)
    done, counting = 0, threading.Lock()

    def feed(process: subprocess.Popen[str]) -> None:
        nonlocal done
        asks, answers = process.stdin, process.stdout
        if asks is None or answers is None:
            return
        with contextlib.suppress(queue.Empty, OSError):  # no name is left, or the process has ended
            while True:
                asks.write(f"{left.get_nowait()}\n")
                asks.flush()
                if not answers.readline():
                    break
                with counting:
                    done += 1
                    told(done)
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
                subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)
            )
            feeder = threading.Thread(target=feed, args=(process,), daemon=True)
            feeder.start()
            started.callback(feeder.join)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Let one process at a time compile into a folder: the others find there what they wait for."""
    with contextlib.ExitStack() as opened:
        with contextlib.suppress(OSError):  # where nothing can be written, nothing is shared
            folder.mkdir(parents=True, exist_ok=True)
            file = opened.enter_context(open(folder / "compiling.lock", "ab"))
            waits = False
            while not filelocks.lock(file):
                if not waits:
                    _say("streamgp: waiting for another process that compiles ...")
                waits = True
                time.sleep(POLL)
        yield


def compile_entries(names: Sequence[str]) -> None:
    """Compile entries in this process."""
    setattr(types.Record, "mangling_args", property(_content))  # noqa: B010, its type is not that of a property
    for name in names:
        module, _, function = name.partition(":")
        found: Any = getattr(importlib.import_module(module), function)
        found.compile(found.types)


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


if __name__ == "__main__":
    work()
