"""Sending: requests to a server, each repeated until there is an answer; with a key a repeated one changes nothing."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx

from streamgp.tables.source import RowsError

LATER = frozenset({408, 429, 500, 502, 503, 504, 507})  # answers after which the same request may succeed
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 15.0  # seconds between two attempts


class SendError(RowsError):
    """A request that the server refuses, or a server that does not answer.

    Args:
        message: for people.
        status: of HTTP; 0: there is no answer.
        code: of a refusal, for programs.
    """

    def __init__(self, message: str, status: int = 0, code: str = "") -> None:
        super().__init__(message)
        self.status, self.code = status, code


class Sender:
    """Ask a server, from any thread.

    Args:
        to: its address.
        token: for a server that needs one.
        patience: seconds that the server may be away.
        stop: when set, nothing is tried again.
        say: told what is tried again.
    """

    def __init__(self, to: str, token: str, patience: float, stop: threading.Event, say: Callable[[str], None]) -> None:
        self.to, self._patience, self._stop, self._say = to, patience, stop, say
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(base_url=to, headers=headers, timeout=120)

    def close(self) -> None:
        """End the connections."""
        self._http.close()

    def ask(self, method: str, path: str, body: bytes | None = None, key: str = "") -> dict[str, Any]:
        """Ask until there is an answer.

        Args:
            method: of HTTP.
            path: of the request.
            body: JSON.
            key: by which the server knows a repeated request again; "": none.
        """
        headers = ({"Content-Type": "application/json"} if body else {}) | ({"Idempotency-Key": key} if key else {})
        pause, end = FIRST_PAUSE, time.monotonic() + self._patience
        while True:
            try:
                answer = self._http.request(method, path, content=body, headers=headers)
                if answer.status_code < 300:
                    found: dict[str, Any] = answer.json()
                    return found
                problem = _problem(answer)
                if answer.status_code not in LATER:
                    raise problem
                trouble, pause = str(problem), max(pause, float(answer.headers.get("retry-after", 0)))
            except (httpx.TransportError, json.JSONDecodeError) as error:
                trouble = f"{self.to} does not answer ({error})"
            if time.monotonic() + pause > end or self._stop.is_set():
                raise SendError(f"{trouble}. Run the same command again: it goes on where it stopped")
            self._say(f"{trouble}; trying again")
            self._stop.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


def _problem(answer: httpx.Response) -> SendError:
    status = answer.status_code
    try:
        error = answer.json()["error"]
        return SendError(f"{error['message']}; {error['hint']}".rstrip("; "), status, error["code"])
    except (ValueError, KeyError, TypeError):
        return SendError(f"the server answered with status {status}", status)
