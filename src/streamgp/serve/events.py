"""Events: what happens to a stream, sent to whoever listens; those who do not keep up are dropped, not waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from streamgp.serve.messages import encode
from streamgp.serve.ops import Note
from streamgp.settings import FloatArray

MOST_WAITING = 256  # events that a listener may be behind
MOST_LISTENERS = 64  # of a stream
ROWS_AN_EVENT = 250
NAMES = ("observed", "mean", "lower", "upper")
RESUMED = 2000  # records that a listener who comes back gets at most
HEARTBEAT = 15.0  # seconds


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


class Listener:
    """One who listens, and the events that wait for it.

    Args:
        loop: in which it waits.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.queue: asyncio.Queue[tuple[int, bytes] | None] = asyncio.Queue(MOST_WAITING)
        self.dropped = False

    def put(self, event: tuple[int, bytes] | None) -> None:
        """Called in its loop: hand it an event, or drop it if it is too far behind; None: the end."""
        if self.dropped:
            return
        try:
            self.queue.put_nowait(event)
        except asyncio.QueueFull:
            self.dropped = True
            while not self.queue.empty():
                self.queue.get_nowait()
            self.queue.put_nowait(None)

    async def frames(self, after: int) -> AsyncIterator[bytes]:
        """Events whose number is larger, as they come; a comment now and then keeps the connection open."""
        while not self.dropped:
            try:
                event = await asyncio.wait_for(self.queue.get(), HEARTBEAT)
            except TimeoutError:
                yield b": still here\n\n"
                continue
            if event is None:
                return
            seq, data = event
            if seq > after:
                yield data


class Hub:
    """All who listen to a stream."""

    def __init__(self) -> None:
        self.listeners: list[Listener] = []
        self.dropped = 0

    def publish(self, seq: int, data: bytes) -> None:
        """From any thread: hand the events of a record to all."""
        self._all((seq, data))

    def close(self) -> None:
        """From any thread: the stream is gone, or the server stops."""
        self._all(None)

    def _all(self, event: tuple[int, bytes] | None) -> None:
        for listener in list(self.listeners):
            if listener.dropped:
                self.leave(listener)
                self.dropped += 1
            elif not listener.loop.is_closed():
                listener.loop.call_soon_threadsafe(listener.put, event)

    def join(self, listener: Listener) -> None:
        self.listeners.append(listener)

    def leave(self, listener: Listener) -> None:
        if listener in self.listeners:
            self.listeners.remove(listener)
