"""Background: work that one thread of the process does while rows are answered.

When a job is done decides nothing: its result is taken after a fixed row, and who takes it waits for it, or does the
work if the thread has not come to it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import cache
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")

# Jobs that may wait for the thread. More of them come from many models at once, which keep all cores busy themselves.
MOST_JOBS = 10


@cache
def _thread(_process: int) -> tuple[ThreadPoolExecutor, set[Future[Any]]]:
    """The thread of a process, and what it has not finished; threads do not survive a fork."""
    return ThreadPoolExecutor(1, thread_name_prefix="streamgp"), set()


class Job(Generic[Result]):
    """Work that has been handed to the thread."""

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work, self._process = work, os.getpid()
        pool, unfinished = _thread(self._process)
        self._future = pool.submit(copy_context().run, work)
        unfinished.add(self._future)
        self._future.add_done_callback(unfinished.discard)

    def result(self) -> Result:
        """What the work returns; what it raises is raised here."""
        if self._process == os.getpid() and not self._future.cancel():
            return self._future.result()
        return self._work()


def has_room() -> bool:
    """Whether the thread may have one more job."""
    return len(_thread(os.getpid())[1]) < MOST_JOBS
