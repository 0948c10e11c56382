"""Remote: a process that holds models for this one, one object for each.

It reads requests, each the name of a method of Holder with arguments, answers one after the other, and ends when
its input does, at the latest with the process that started it. It is started as a command, not by multiprocessing,
which would run a user's script again in every process.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import traceback
import weakref
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, NoReturn

from streamgp.compiled.sources import environment
from streamgp.contract.saved import Shape
from streamgp.fleet.holder import Failure, Holder, Request

SECONDS_TO_END = 10.0


class Remotes:
    """Processes that hold models."""

    def __init__(self, count: int) -> None:
        processes: list[subprocess.Popen[bytes]] = []
        self.end = weakref.finalize(self, _end, processes, os.getpid())
        try:
            processes.extend(_started() for _ in range(count))
        except BaseException:
            self.end()
            raise
        self._all = processes
        self._pool = ThreadPoolExecutor(count)
        self._process = os.getpid()

    def __len__(self) -> int:
        return len(self._all)

    def ask(self, shape: Shape, requests: Mapping[int, Request]) -> list[Any]:
        """What processes answer, all at the same time.

        If some fail, the error for the first of the models is raised when all have ended. Python tells the main thread
        of Ctrl-C, and no other: what is said to a process, and what it says, is never cut in two.
        """
        if self._process != os.getpid():
            raise RuntimeError(
                "the models of this fleet are held by processes that serve another process, from which this one was "
                "forked; load the fleet from a file here, or build it with threads=1"
            )
        # One thread says all of it, as models serve one at a time; what cannot be sent says so before anything is.
        told = {k: pickle.dumps((shape, *request), pickle.HIGHEST_PROTOCOL) for k, request in requests.items()}
        started = [self._pool.submit(_asked, self._all[k], message) for k, message in told.items()]
        try:
            found = [one.result() for one in started]
        finally:
            wait(started)
        failures = [one for one in found if isinstance(one, Failure)]
        if failures:
            raise min(failures, key=lambda one: one.model).error
        return found


def _started() -> subprocess.Popen[bytes]:
    # Ctrl-C is not for it: a call is done, or undone, as a whole.
    apart: dict[str, Any] = {"process_group": 0}
    if sys.platform == "win32":
        apart = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    # Classes of this module have the same name on both sides, which they would not if it were the main one there.
    command, pipe = [sys.executable, "-c", "from streamgp.fleet.remote import main; main()"], subprocess.PIPE
    return subprocess.Popen(command, env=environment(), stdin=pipe, stdout=pipe, **apart)


def _asked(process: Any, message: bytes) -> Any:
    """What a process answers."""
    with contextlib.suppress(OSError, ValueError, EOFError):  # it has ended, or its pipe is closed
        process.stdin.write(message)
        process.stdin.flush()
        return pickle.load(process.stdout)
    raise RuntimeError(
        "a process that held models of this fleet has ended, and they are lost; perhaps there was too little memory. "
        "Load the fleet from its last snapshot; with threads=1 all models stay in this process"
    )


def _end(processes: list[subprocess.Popen[bytes]], owner: int) -> None:
    """End processes that this one has started, and wait for that."""
    if owner != os.getpid():
        return
    for process in processes:
        with contextlib.suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
    for process in processes:
        try:
            process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


# In the process.


def _read(asked: queue.SimpleQueue[Request]) -> NoReturn:
    """Take requests; end when whoever started this process has ended or wants no more, whatever is being done."""
    try:
        while True:
            asked.put(pickle.load(sys.stdin.buffer))
    except EOFError:
        os._exit(0)
    except BaseException:  # such as a class that this process does not find
        traceback.print_exc()
        os._exit(1)


def main() -> None:
    """Answer requests."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what models print is no answer
    asked: queue.SimpleQueue[Request] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(asked,), daemon=True).start()
    holder = Holder()
    while True:
        answers.write(holder.reply(asked.get()))
        answers.flush()
