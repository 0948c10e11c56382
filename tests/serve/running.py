"""A server for tests: in a thread of this process, or one of its own that can be killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time

import httpx

from streamgp.serve import handlers
from streamgp.serve.server import listening_on, server_of
from streamgp.serve.service import Limits, Service

handlers.PATIENCE = 60.0  # what tests read is never what was there before, however slow the machine is
QUICK = {"target": "y", "model": "KRLST", "settings": {"warmup": 20, "tune": False, "capacity": 10}}
JSON = {"Content-Type": "application/json"}


@contextlib.contextmanager
def in_process(folder, origins=(), host="127.0.0.1", webhook="", base="/", **limits):
    """A client of a server in this process."""
    service = Service(folder, Limits(**{"threads": 4} | limits), webhook=webhook)
    urls = []
    listening = listening_on(host, 0)
    server = server_of(service, listening, origins, urls.append, base)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        while not urls:
            time.sleep(0.005)
        with httpx.Client(base_url=urls[0], timeout=60) as client:
            client.service, client.server = service, server
            yield client
    finally:
        server.should_exit = True
        thread.join(timeout=60)
        service.close()
        listening.close()


def asked(client, ask):
    """Call something in the server's loop that gives a future; the one here gets its result."""

    async def done():
        return await ask()

    return asyncio.run_coroutine_threadsafe(done(), client.server.loop)


def in_turn(client, stream, call):
    """What a call in the turn of a stream returns."""
    return asked(client, lambda: stream.call(call)).result(60)


class Server:
    """A server of its own, on loopback, at any free port."""

    def __init__(self, folder, *options, wait=60.0):
        command = [sys.executable, "-m", "streamgp", "serve", "--data", str(folder), "--port", "0", *options]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self.lines: list[str] = []
        self.url = ""
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        end = time.monotonic() + wait
        while not self.url and self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        if not self.url:
            self.stop()
            raise RuntimeError(f"the server did not start: {self.lines}")
        self.client = httpx.Client(base_url=self.url, timeout=60)

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line)
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                self.url = found[0]

    def kill(self):
        """At once, as a power cut would."""
        os.kill(self.process.pid, signal.SIGKILL)
        self._end()

    def stop(self):
        """As an operator would."""
        if self.process.poll() is None:
            self.process.terminate()
        self._end()

    def _end(self):
        self.process.wait(timeout=60)
        self._reading.join(timeout=10)
        self.process.stderr.close()
        if hasattr(self, "client"):
            self.client.close()


def created(client, name="s", **settings):
    answer = client.put(f"/v1/streams/{name}", json=QUICK | settings)
    assert answer.status_code in (200, 201), answer.text
    return f"/v1/streams/{name}"


def rows(n, start=0, target="y"):
    """A little table: x goes round, the target follows it."""
    return [{"x": float((7 * i) % 11), target: float(((7 * i) % 11) ** 2 / 10)} for i in range(start, start + n)]


def settled(client, name="s", wait=30.0):
    """The detail of a stream that is no longer loading."""
    end = time.monotonic() + wait
    while (found := client.get(f"/v1/streams/{name}").json())["state"] == "loading" and time.monotonic() < end:
        time.sleep(0.02)
    return found
