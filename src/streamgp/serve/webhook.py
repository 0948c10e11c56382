"""Webhook: alarms posted to an address, in a thread of their own, so that no stream waits for whoever listens there."""

from __future__ import annotations

import logging
import queue
import threading
import time
from typing import Any
from urllib.parse import urlsplit

import httpx

from streamgp.serve.messages import encode
from streamgp.serve.rows import JSON

LOG = logging.getLogger("streamgp.serve")
MOST_WAITING = 1000  # alarms
ATTEMPTS = 5  # for each alarm
PAUSE = 1.0  # seconds before the second attempt; each further one waits twice as long
SECONDS = 10.0  # that one attempt may take
ENDING = 5.0  # seconds in which alarms that wait are still posted when the server stops
RESULTS = ("delivered", "retried", "failed", "dropped")


class Webhook:
    """Posts alarms as JSON, one after the other.

    Args:
        url: where to; http or https.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"--webhook takes an address such as http://127.0.0.1:9000/alarms; got {url!r}")
        self._url = url
        self.counts = dict.fromkeys(RESULTS, 0)
        self._waiting: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._ends = float("inf")  # when the last attempt may begin
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="webhook", daemon=True)
        self._thread.start()

    def put(self, stream: str, row: int, text: str) -> None:
        """From any thread: have an alarm posted; if too many wait, it is dropped and counted."""
        if self._waiting.qsize() >= MOST_WAITING:
            self.counts["dropped"] += 1
        else:
            self._waiting.put({"event": "alarm", "stream": stream, "row": row, "text": text})

    def close(self) -> None:
        """Post what waits, unless it takes too long."""
        self._ends = time.monotonic() + ENDING
        self._closing.set()
        self._waiting.put(None)
        self._thread.join(ENDING + SECONDS)

    def _work(self) -> None:
        with httpx.Client(timeout=SECONDS, headers={"Content-Type": JSON}) as client:
            while (event := self._waiting.get()) is not None:
                self._post(client, encode(event))

    def _post(self, client: httpx.Client, body: bytes) -> None:
        problem = "the server stops"
        for attempt in range(ATTEMPTS):
            if attempt:
                self.counts["retried"] += 1
                self._closing.wait(PAUSE * 2 ** (attempt - 1))
            if time.monotonic() > self._ends:
                break
            try:
                status = client.post(self._url, content=body).status_code
                if status < 300:
                    self.counts["delivered"] += 1
                    return
                problem = f"it answers {status}"
            except httpx.HTTPError as error:
                problem = str(error) or type(error).__name__
        self.counts["failed"] += 1
        LOG.warning("an alarm was not delivered to the webhook: %s", problem)
