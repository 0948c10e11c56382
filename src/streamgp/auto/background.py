"""Background: work that one thread of the process does while rows are answered.

When a job is done decides nothing: its result is taken after a fixed row, and who takes it waits for it, or does the
work if the thread has not come to it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")

# Jobs that may wait for the thread. More of them come from many models at once, which keep all cores busy themselves.
MOST_JOBS = 10


class _Thread:
    """The thread of a process, and what it has to do."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.pool = ThreadPoolExecutor(1, thread_name_prefix="streamgp")
        self.unfinished: set[Future[Any]] = set()

    def submit(self, work: Callable[[], Result]) -> Future[Result]:
        future = self.pool.submit(copy_context().run, work)
        self.unfinished.add(future)
        future.add_done_callback(self.unfinished.discard)
        return future


_threads: list[_Thread] = []


def _thread() -> _Thread:
    """That of this process: threads do not survive a fork."""
    if not _threads or _threads[-1].process != os.getpid():
        _threads[:] = [_Thread()]
    return _threads[-1]


class Job(Generic[Result]):
    """Work that has been handed to the thread."""

    def __init__(self, work: Callable[[], Result]) -> None:
        thread = _thread()
        self._work, self._process, self._future = work, thread.process, thread.submit(work)

    def result(self) -> Result:
        """What the work returns; what it raises is raised here."""
        if self._process == os.getpid() and not self._future.cancel():
            return self._future.result()
        return self._work()


def has_room(jobs: int) -> bool:
    """Whether the thread may have this many more jobs."""
    return len(_thread().unfinished) + jobs <= MOST_JOBS
