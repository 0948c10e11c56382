"""Siblings: the workers of a server, which hand connections to each other and ask each other about their streams.

All workers accept connections of the same address. One that gets a request for another's stream hands over the whole
connection, with what it has read of it; the client notices nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import queue
import re
import socket
import threading
import urllib.parse
from collections import deque
from collections.abc import Callable, Mapping

from streamgp.serve.sharing import Share, owner

OF_A_STREAM = re.compile(rb"[A-Z]+ (?:http://[^/ ]*)?/v1/streams/([^/? ]+)")
HEADER = "x-streamgp-sibling"  # of requests that workers send to each other
LENGTH = 8  # bytes before what has been read of a connection


class Siblings:
    """The other workers, as one of them knows them.

    Args:
        share: of this worker.
        channels: to each of the others.
        secret: that only workers know.
    """

    def __init__(self, share: Share, channels: Mapping[int, socket.socket], secret: str) -> None:
        self._share, self._channels, self._secret = share, dict(channels), secret
        self._leaving: queue.SimpleQueue[tuple[int, int, bytes] | None] = queue.SimpleQueue()
        self._coming: dict[int, tuple[bytearray, deque[int]]] = {k: (bytearray(), deque()) for k in channels}
        self._thread = threading.Thread(target=self._send, name="siblings", daemon=True)
        self._thread.start()

    def sends(self, headers: Mapping[str, str]) -> bool:
        """Whether a request comes from one of the others."""
        return hmac.compare_digest(headers.get(HEADER, "").encode(), self._secret.encode())

    def elsewhere(self, line: bytes) -> int | None:
        """The other worker that a request is for, by its first line; None: it can be answered here."""
        if not (found := OF_A_STREAM.match(line)):
            return None
        return self.worker_of(urllib.parse.unquote(found[1].decode("latin-1")))

    def hand_over(self, worker: int, descriptor: int, data: bytes) -> None:
        """Give a connection away, with what has been read of it."""
        self._leaving.put((worker, descriptor, data))

    def _send(self) -> None:
        while (leaving := self._leaving.get()) is not None:
            worker, descriptor, data = leaving
            with contextlib.suppress(OSError):  # a worker that is no more: the client sees its connection end
                channel = self._channels[worker]
                socket.send_fds(channel, [len(data).to_bytes(LENGTH, "big")], [descriptor])
                channel.sendall(data)
            os.close(descriptor)

    def open(self, loop: asyncio.AbstractEventLoop, accept: Callable[[socket.socket, bytes], None]) -> None:
        """In the loop: take over connections from now on."""
        for worker, channel in self._channels.items():
            loop.add_reader(channel.fileno(), self._receive, loop, worker, accept)

    def _receive(
        self, loop: asyncio.AbstractEventLoop, worker: int, accept: Callable[[socket.socket, bytes], None]
    ) -> None:
        channel, (data, descriptors) = self._channels[worker], self._coming[worker]
        try:
            read, found, _, _ = socket.recv_fds(channel, 1 << 18, 64, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            read, found = b"", []
        if not read:
            loop.remove_reader(channel.fileno())
            return
        data += read
        descriptors.extend(found)
        while len(data) >= LENGTH and len(data) >= LENGTH + (length := int.from_bytes(data[:LENGTH], "big")):
            accept(socket.socket(fileno=descriptors.popleft()), bytes(data[LENGTH : LENGTH + length]))
            del data[: LENGTH + length]

    def close(self) -> None:
        """Hand over what is leaving; take nothing more."""
        self._leaving.put(None)
        self._thread.join()

    async def ask(self, path: str) -> list[bytes]:
        """What all others answer to a GET."""
        return list(await asyncio.gather(*(self._answer(worker, path) for worker in self._channels)))

    async def _answer(self, worker: int, path: str) -> bytes:
        return (await self._request(worker, f"GET {path} HTTP/1.1", b""))[1]

    async def post(self, worker: int, path: str, body: bytes) -> tuple[int, bytes]:
        """The status and the body of what another answers to a POST."""
        return await self._request(worker, f"POST {path} HTTP/1.1\r\nContent-Length: {len(body)}", body)

    async def _request(self, worker: int, first: str, body: bytes) -> tuple[int, bytes]:
        ours, theirs = socket.socketpair()
        self.hand_over(worker, theirs.detach(), b"")
        reader, writer = await asyncio.open_connection(sock=ours)
        try:
            head = f"{first}\r\nHost: localhost\r\n{HEADER}: {self._secret}\r\nConnection: close\r\n\r\n"
            writer.write(head.encode() + body)
            got, _, answer = (await reader.read()).partition(b"\r\n\r\n")
            return int(got.split(maxsplit=2)[1]) if got else 503, answer
        finally:
            writer.close()

    def worker_of(self, stream: str) -> int | None:
        """The other worker that has a stream; None: it is this one."""
        worker = owner(stream, self._share.workers)
        return None if worker == self._share.number else worker
