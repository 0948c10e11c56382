"""Workers: threads that share out the models of a call."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from streamgp.fleet.rows import Rows

Result = TypeVar("Result")

# Rows for which a thread is worth its start: it costs about as much as some tens of rows of a small model.
ROWS_PER_THREAD = 100


class Workers:
    """Threads that run models at the same time, the one that calls among them."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pool: tuple[int, ThreadPoolExecutor] | None = None  # with the process that it belongs to

    def share(self, rows: Rows, work: Callable[[Rows], Result]) -> list[Result]:
        """Do the work for all rows in parts, none of which has rows of a model that another one has; in order."""
        own, *others = self.parts(rows)
        if not others:
            return [work(rows)]
        pool = self.pool()
        started = [pool.submit(work, part) for part in others]
        try:  # this thread stays busy on its core, so that the others wake on other ones
            return [work(own), *(one.result() for one in started)]
        finally:  # after an error or Ctrl-C, too: when the call ends, no model is running
            wait(started)

    def parts(self, rows: Rows) -> list[Rows]:
        """The rows in as many parts as threads are worth their start."""
        count = min(self._threads, max(1, len(rows.X) // ROWS_PER_THREAD))
        return rows.cut(count) if count > 1 else [rows]

    def pool(self) -> ThreadPoolExecutor:
        if self._pool is None or self._pool[0] != os.getpid():  # threads do not survive a fork
            self._pool = os.getpid(), ThreadPoolExecutor(self._threads - 1)
        return self._pool[1]
