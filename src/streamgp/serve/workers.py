"""Workers: processes that share the streams of a folder by their names, each with a journal of its own."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from streamgp.serve import server
from streamgp.serve.server import close, listening_on, refuse_open, run
from streamgp.serve.service import Limits, Service
from streamgp.serve.sharing import Share, redistribute
from streamgp.serve.siblings import Siblings

PATIENCE = 60.0  # seconds that workers get to stop


class _StoppedError(Exception):
    """A signal asks to stop."""


def serve(
    workers: int,
    folder: str | Path,
    host: str,
    port: int,
    limits: Limits | None,
    origins: tuple[str, ...],
    ready: Callable[[str], None],
    webhook: str = "",
) -> None:
    """Serve with this many processes, which share the streams by their names, until this one is told to stop.

    Args:
        workers: how many there are.
        folder: as of server.serve, and so the others.
        host: the address to listen on.
        port: 0: any that is free.
        limits: what is allowed.
        origins: web sites that may read answers.
        ready: told the address when all listen.
        webhook: the address that alarms are posted to; "": none.
    """
    if workers == 1:
        server.serve(folder, host, port, limits, origins, ready, webhook)
        return
    if not hasattr(socket, "send_fds"):
        raise ValueError("this system cannot hand connections from one worker to another; leave --workers out")
    redistribute(Path(folder), workers)
    channels: list[dict[int, socket.socket]] = [{} for _ in range(workers)]
    for one, other in itertools.combinations(range(workers), 2):
        channels[one][other], channels[other][one] = socket.socketpair()
    secret, context = secrets.token_hex(32), multiprocessing.get_context("spawn")
    started: list[tuple[BaseProcess, Connection]] = []
    with listening_on(host, port) as listening, _signals():
        try:
            for number, own in enumerate(channels):
                ours, theirs = context.Pipe()
                share = Share(number, workers)
                process = context.Process(
                    target=_work, args=(share, folder, limits, origins, listening, own, secret, theirs, webhook)
                )
                process.start()
                theirs.close()
                started.append((process, ours))
            for channel in itertools.chain.from_iterable(own.values() for own in channels):
                channel.close()
            urls = [_first_message(process, pipe) for process, pipe in started]
            ready(urls[0])
            wait([process.sentinel for process, _ in started])
            raise OSError(
                "a worker ended unexpectedly, and the others were stopped; see the log, start the server again"
            )
        except _StoppedError:
            pass
        finally:
            for worker, _ in started:
                worker.terminate()
            for worker, _ in started:
                worker.join(PATIENCE)


def _first_message(process: BaseProcess, pipe: Connection) -> str:
    """The address that a worker listens on."""
    try:
        kind, text = pipe.recv()
    except EOFError:
        process.join()
        raise OSError(f"a worker ended before it listened, with exit code {process.exitcode}; see the log") from None
    if kind == "problem":
        raise OSError(text)
    return str(text)


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """Raise an exception at the signals that ask to stop."""

    def stop(*_: object) -> None:
        raise _StoppedError

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _work(
    share: Share,
    folder: str | Path,
    limits: Limits | None,
    origins: tuple[str, ...],
    listening: socket.socket,
    channels: dict[int, socket.socket],
    secret: str,
    pipe: Connection,
    webhook: str,
) -> None:
    """One worker, in its own process."""
    try:
        service = Service(folder, limits, share, webhook)
        refuse_open(service, listening)
    except (OSError, ValueError) as error:
        pipe.send(("problem", str(error)))
        return

    def stop_with_parent() -> None:
        with contextlib.suppress(EOFError, OSError):
            pipe.recv()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop_with_parent, name="parent", daemon=True).start()
    try:
        siblings = Siblings(share, channels, secret)
        run(service, listening, origins, lambda url: pipe.send(("url", url)), siblings)
    finally:
        close(service)
