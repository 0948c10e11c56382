"""Connections: clients that keep the server waiting lose their connection before they can keep others out."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

from streamgp.serve.siblings import Siblings

if TYPE_CHECKING or sys.platform == "win32":
    from uvicorn.protocols.http.h11_impl import H11Protocol as Protocol
else:
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as Protocol
    except ImportError:
        from uvicorn.protocols.http.h11_impl import H11Protocol as Protocol

LONGEST_HEAD, LONGEST_LINE = 65536, 8192  # bytes of the headers of a request, and of its first line


class Waiting:
    """The connections that the server waits for, in the order in which it began to.

    Args:
        most: connections in all; a new one beyond that ends the one that has been waited for longest.
        seconds: in which the headers of a request must have come.
    """

    def __init__(self, most: int, seconds: float) -> None:
        self.most, self.seconds = min(most, _allowed()), seconds
        self._since: dict[Protocol, float] = {}

    def begin(self, connection: Protocol) -> None:
        """From now on, wait for the headers of a request."""
        self.end(connection)
        self._since[connection] = time.monotonic()

    def end(self, connection: Protocol) -> None:
        self._since.pop(connection, None)

    def close_overdue(self) -> None:
        """End the connections that have not sent headers in time."""
        late = time.monotonic() - self.seconds
        for connection, since in list(self._since.items()):
            if since > late:
                break
            if _is_idle(connection):
                connection.transport.close()
                self.end(connection)

    def make_room(self, connections: set[Any]) -> bool:
        """End the connection whose headers or body have been waited for longest, if need be; whether there is room."""
        if len(connections) < self.most:
            return True
        for connection in list(self._since):
            self.end(connection)  # one that is being answered begins to wait again afterwards
            if _is_idle(connection) or connection.cycle.more_body:
                connections.discard(connection)
                connection.transport.abort()
                return True
        return False


def connection_class(waiting: Waiting, siblings: Siblings | None = None) -> type[Protocol]:
    """The protocol of a server that waits for its clients no longer than this.

    Args:
        waiting: the connections of the server.
        siblings: workers that get the requests for their streams.
    """

    class Connection(Protocol):
        begun = b""  # what has been read of a request whose first line is not complete
        head = 0  # bytes that have come since the last request was complete, of which none is

        def connection_made(self, transport: Any) -> None:
            if not waiting.make_room(self.connections):
                self.limit_concurrency = 0  # its requests are answered with 503
            super().connection_made(transport)
            waiting.begin(self)
            if self.begun:  # by the worker that has handed it over
                data, self.begun = self.begun, b""
                self._read(data)

        def data_received(self, data: bytes) -> None:
            if siblings is None or self.head or not _is_between_requests(self):
                self._read(data)
                return
            self.begun += data
            if b"\n" in self.begun or len(self.begun) > LONGEST_LINE:
                data, self.begun = self.begun, b""
                if (worker := siblings.elsewhere(data)) is None:
                    self._read(data)
                else:
                    self.transport.pause_reading()
                    self._leave(siblings, worker, data)

        def _read(self, data: bytes) -> None:
            before = self.cycle
            super().data_received(data)
            idle = self.cycle is before and _is_idle(self)
            self.head = self.head + len(data) if idle else 0
            if self.head > LONGEST_HEAD:
                self.transport.close()

        def _leave(self, siblings: Siblings, worker: int, data: bytes) -> None:
            """Hand the connection over, when the last answer has left."""
            if self.transport.is_closing():
                return
            if self.transport.get_write_buffer_size():
                self.loop.call_later(0.005, self._leave, siblings, worker, data)
                return
            descriptor = os.dup(self.transport.get_extra_info("socket").fileno())
            siblings.hand_over(worker, descriptor, data)
            self.transport.abort()

        def on_response_complete(self) -> None:
            waiting.begin(self)
            super().on_response_complete()

        def connection_lost(self, exc: Exception | None) -> None:
            waiting.end(self)
            super().connection_lost(exc)

    return Connection


def _is_between_requests(connection: Protocol) -> bool:
    """Whether what comes next is the first line of a request."""
    return _is_idle(connection) and (connection.cycle is None or not connection.cycle.more_body)


def _is_idle(connection: Protocol) -> bool:
    """Whether there is no request that the server has to answer."""
    return connection.cycle is None or connection.cycle.response_complete


def _allowed() -> int:
    """How many connections the system lets a process have, with as many files beside them."""
    if sys.platform == "win32":
        return 1 << 20
    import resource

    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2
