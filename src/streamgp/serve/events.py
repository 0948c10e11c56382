"""Events: what happens to a stream, read from the journal by whoever listens, at their own pace."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from streamgp.serve.messages import encode
from streamgp.serve.ops import Note
from streamgp.settings import FloatArray

MOST_LISTENERS = 64  # of a stream
ROWS_AN_EVENT = 250
NAMES = ("observed", "mean", "lower", "upper")
RESUMED = 2000  # records that a listener who is behind gets at most
HEARTBEAT = 15.0  # seconds

Records = list[tuple[int, bytes]]  # numbers of records, and their events


def frames(seq: int, points: FloatArray, notes: Sequence[Note]) -> bytes:
    """The events of one record, of which the last has its number as id."""
    rows = [{"row": int(row), **dict(zip(NAMES, values, strict=True))} for row, *values in points.tolist()]
    parts: list[tuple[str, Any]] = [
        ("rows", {"rows": rows[at : at + ROWS_AN_EVENT]}) for at in range(0, len(rows), ROWS_AN_EVENT)
    ]
    parts += [(note.kind, {"row": note.row, "text": note.text}) for note in notes]
    sent = b"".join(frame(kind, data) for kind, data in parts)
    return sent[:-1] + b"id: %d\n\n" % seq if sent else b""


def frame(kind: str, data: Any) -> bytes:
    """One event without an id."""
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), encode(data))


class Hub:
    """All who listen to a stream. They are told that there is something, and read it themselves."""

    def __init__(self) -> None:
        self.listeners: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._is_open = True

    def tell(self) -> None:
        """From any thread: there is something new."""
        for listener, loop in list(self.listeners.items()):
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(listener.set)

    def close(self) -> None:
        """From any thread: the stream is gone, or the server stops."""
        self._is_open = False
        self.tell()

    async def follow(
        self, after: int, read: Callable[[int], Records], health: Callable[[], Any]
    ) -> AsyncIterator[bytes]:
        """Events as they come; a comment now and then keeps the connection open.

        Args:
            after: the number of the last record that is known.
            read: in a thread, the records after one.
            health: what is told when it has changed.
        """
        new, known = asyncio.Event(), health()
        self.listeners[new] = asyncio.get_running_loop()
        try:
            yield b"retry: 2000\n\n"
            while self._is_open:
                new.clear()  # before reading, so that nothing falls between
                for seq, data in await asyncio.to_thread(read, after):
                    yield data
                    after = seq
                if (now := health()) != known:
                    known = now
                    yield frame("health", known)
                try:
                    await asyncio.wait_for(new.wait(), HEARTBEAT)
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            del self.listeners[new]
