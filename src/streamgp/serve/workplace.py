"""Workplace: where streams do their work: short work in the server's loop, long work in threads."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

LOG = logging.getLogger("streamgp.serve")
GATHERED = 2  # rounds of the loop before work that is due


class Workplace:
    """The server's loop while there is one, and threads.

    Args:
        threads: streams that do long work at the same time.
        ended: called in the loop after all short work that was due.
    """

    def __init__(self, threads: int, ended: Callable[[], None]) -> None:
        self._ended = ended
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix="stream")
        # Where what takes long to build is built, so that other streams need not wait for a thread.
        self.builder = ThreadPoolExecutor(1, thread_name_prefix="builder")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0  # of the loop
        self._due: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()

    def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """In a loop: from now on short work is done in it."""
        self._loop, self._thread = loop, threading.get_ident()

    def close(self) -> None:
        """In the loop: do what is due; from now on all work is done in threads."""
        with self._lock:
            self._loop = None
        self._do()

    def soon(self, work: Callable[[], None]) -> bool:
        """From any thread: have something short done in the loop; whether there is one."""
        with self._lock:
            if self._loop is None:
                return False
            self._due.append(work)
            if len(self._due) == 1:
                own = threading.get_ident() == self._thread  # then nobody has to be woken
                (self._loop.call_soon if own else self._loop.call_soon_threadsafe)(self._gather, GATHERED)
        return True

    def _gather(self, rounds: int) -> None:
        """Let the loop first hand over what clients have sent meanwhile, so that it is done together."""
        if rounds and self._loop is not None:
            self._loop.call_soon(self._gather, rounds - 1)
        else:
            self._do()

    def _do(self) -> None:
        with self._lock:
            due = list(self._due)
            self._due.clear()
        for work in (*due, self._ended):
            try:
                work()
            except Exception:  # of one stream; the others go on
                LOG.exception("unexpected")

    def shut_down(self, wait: bool) -> None:
        """End the threads; what has not begun is dropped."""
        for pool in (self.builder, self.pool):
            pool.shutdown(wait=wait, cancel_futures=True)
