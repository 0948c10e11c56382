"""The server: a service behind uvicorn, from start to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import uvicorn

from streamgp.job.ahead import compile_for_commands, is_compiled
from streamgp.serve.access import Access, is_loopback
from streamgp.serve.app import application
from streamgp.serve.learner import Learner
from streamgp.serve.messages import StreamSettings
from streamgp.serve.ops import Op
from streamgp.serve.service import Limits, Service

SWITCH = 0.0005  # seconds that a stream at work may keep others waiting for the interpreter
BASE = re.compile(r"/([A-Za-z0-9._~-]+/)*")
GRACE = 3  # seconds that connections get to end
CONNECTIONS = 500  # half of the files that most systems let a process have; more are answered with 503


class _Server(uvicorn.Server):
    """Tells its address, and ends event streams before it stops."""

    def __init__(self, config: uvicorn.Config, service: Service, ready: Callable[[str], None]) -> None:
        super().__init__(config)
        self._service, self._ready = service, ready

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at the signals that ask for it; uvicorn would raise them again, before the streams are saved."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list | None = None) -> None:
        await super().startup(sockets)
        self.loop = asyncio.get_running_loop()
        self._service.open()
        if self.started and self.servers:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")

    async def shutdown(self, sockets: list | None = None) -> None:
        for stream in list(self._service.streams.values()):
            stream.hub.close()
        await asyncio.sleep(0)
        await super().shutdown(sockets)
        await self._service.finish()


def serve(
    folder: str | Path,
    host: str = "127.0.0.1",
    port: int = 8650,
    limits: Limits | None = None,
    origins: tuple[str, ...] = (),
    ready: Callable[[str], None] = lambda _: None,
    webhook: str = "",
    base: str = "/",
) -> None:
    """Serve the streams of a folder until the process is told to stop.

    Args:
        folder: where the data are.
        host: the address to listen on; any but loopback needs a token.
        port: 0: any that is free.
        limits: what is allowed.
        origins: web sites that may read answers.
        ready: told the address when it listens.
        webhook: the address that alarms are posted to; "": none.
        base: the path below which a proxy shows it.
    """
    if not BASE.fullmatch(base):
        raise ValueError(f"--base-url takes the path below which a proxy shows the server, such as /gp/; got {base!r}")
    service = Service(folder, limits, webhook=webhook)
    try:
        with listening_on(host, port) as listening:
            if is_public(listening) and not Access(service.journal).tokens():
                raise ValueError(
                    f"{listening.getsockname()[0]} can be reached from other machines, and {folder} has no token; make "
                    f"one first: streamgp token create --data {folder} --scope admin"
                )
            sys.setswitchinterval(SWITCH)
            service.compiling, service.cold = True, not is_compiled()
            threading.Thread(target=_warm_up, args=(service,), name="warm-up", daemon=True).start()
            server_of(service, listening, origins, ready, base).run([listening])
    finally:
        if not service.close():  # a stream is still at work on a request, which nobody will be answered
            os._exit(0)


def listening_on(host: str, port: int) -> socket.socket:
    """A socket of this address."""
    try:
        # With the protocol that it names, asyncio sends answers at once; otherwise each would wait 40 ms for more.
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        try:
            if sys.platform == "win32":  # where the other option lets two servers have one port
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
            else:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
        except OSError:
            listening.close()
            raise
        return listening
    except OSError as error:
        raise OSError(
            f"cannot listen on port {port} of {host}: {error.strerror}; stop what listens there, or give another --port"
        ) from None


def is_public(listening: socket.socket) -> bool:
    """Whether other machines can reach a socket."""
    return not is_loopback(listening.getsockname()[0])


def server_of(
    service: Service, listening: socket.socket, origins: tuple[str, ...], ready: Callable[[str], None], base: str = "/"
) -> uvicorn.Server:
    """A server that runs until its ``should_exit`` is set, or a signal comes; see ``serve`` for the arguments."""
    config = uvicorn.Config(
        application(service, origins, is_public(listening), base),
        limit_concurrency=CONNECTIONS,
        ws="none",
        proxy_headers=False,  # whoever asks is who is connected, whatever a header says
        log_level=logging.WARNING,
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=GRACE,
        timeout_keep_alive=30,
        h11_max_incomplete_event_size=65536,
    )
    return _Server(config, service, ready)


def _warm_up(service: Service) -> None:
    """Compile, or load, what the first rows ask for; until then the server is not ready."""
    try:
        compile_for_commands()
        service.cold = False
        learner = Learner(StreamSettings("y", settings={"tune": False}), "")
        learner.apply(Op("rows", rows=[{"x": float(i % 7), "y": float(i % 5)} for i in range(120)]))
    finally:
        service.compiling = service.cold = False
