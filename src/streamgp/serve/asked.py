"""What waits in the queue of a stream: requests and calls, and who gets the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import get_ident
from typing import Any, Generic, TypeVar

from msgspec import Struct

from streamgp.serve.learner import Op, Outcome

T = TypeVar("T")


class Awaited(Generic[T]):
    """An answer that is awaited in the loop which runs at present, and may come from any thread.

    Most answers come from the loop itself. They need no lock, and nobody has to be woken.
    """

    __slots__ = ("_future", "_loop", "_thread")

    def __init__(self) -> None:
        self._loop, self._thread = asyncio.get_running_loop(), get_ident()
        self._future: asyncio.Future[T] = self._loop.create_future()

    def __await__(self) -> Any:
        return self._future.__await__()

    def running(self) -> bool:
        return False

    def set_running_or_notify_cancel(self) -> bool:
        return not self._future.cancelled()

    def done(self) -> bool:
        return self._future.done()

    def set_result(self, result: T) -> None:
        self._settle(self._future.set_result, result)

    def set_exception(self, exception: BaseException | None) -> None:
        self._settle(self._future.set_exception, exception)

    def _settle(self, settle: Callable[[Any], None], value: Any) -> None:
        if get_ident() == self._thread:
            self._settle_here(settle, value)
        elif not self._loop.is_closed():  # otherwise nobody waits any more
            self._loop.call_soon_threadsafe(self._settle_here, settle, value)

    def _settle_here(self, settle: Callable[[Any], None], value: Any) -> None:
        if not self._future.done():  # a client that has gone away waits for nothing
            settle(value)


class Asked(Struct):
    """A request in the queue.

    Args:
        future: gets the answer, as bytes.
        op: what to do.
        key: by which a repeated request is known again.
        digest: of the request.
    """

    future: Any
    op: Op
    key: str = ""
    digest: bytes = b""


class Call(Struct):
    """Something else in the queue.

    Args:
        future: gets what it returns.
        call: what to do.
        blind: whether it does not matter what the stream has learned, so that it works if that cannot be loaded.
    """

    future: Any
    call: Callable[[], Any]
    blind: bool = False


class Done(Struct):
    """A request that was done.

    Args:
        asked: the request.
        seq: its number.
        outcome: what it led to.
        answer: to the client.
    """

    asked: Asked
    seq: int
    outcome: Outcome
    answer: bytes
