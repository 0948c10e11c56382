"""Quick rows: the request that comes most often, a few rows as JSON, goes past what the others need.

It is answered as every other one: who may ask is checked, requests are counted, errors have the same shape.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streamgp.serve.access import Access
from streamgp.serve.connections import DIRECT, Direct
from streamgp.serve.handlers import BODY_SECONDS, LARGE, digest_of, key_of, too_slow
from streamgp.serve.learner import Op
from streamgp.serve.messages import RefusedError
from streamgp.serve.metrics import Requests
from streamgp.serve.rows import JSON, read_rows
from streamgp.serve.service import Service
from streamgp.serve.siblings import HEADER

LOG = logging.getLogger("streamgp.serve")
BEFORE, AFTER = "/v1/streams/", "/rows"
ROUTE = f"{BEFORE}{{name}}{AFTER}"
# Headers with which a request takes the usual way: a page of another site asks, the client waits to be told to send
# its body, another worker asks.
UNUSUAL = frozenset({"origin", "expect", HEADER.lower()})


class QuickRows:
    """An application before another one, which gets all other requests.

    Args:
        app: the other one.
        service: that does the work.
        access: who may do what.
        requests: counts them.
        security: headers of every answer.
        refused: the answer to a request that is refused.
    """

    def __init__(
        self,
        app: ASGIApp,
        service: Service,
        access: Access,
        requests: Requests,
        security: Mapping[str, str],
        refused: Callable[[RefusedError], Response],
    ) -> None:
        self._app, self._service, self._access, self._requests = app, service, access, requests
        self._security, self._refused = security, refused
        self._most = min(LARGE, service.limits.body)  # bytes of a body; a longer one takes the usual way
        fixed = {"content-type": JSON, **security}
        self._headers = [(name.encode(), value.encode()) for name, value in fixed.items()]
        self._head = b"".join(b"%s: %s\r\n" % header for header in self._headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = "" if self._service.cold else _stream_of(scope)
        headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]} if name else {}
        if headers.get("content-type") != JSON or not UNUSUAL.isdisjoint(headers):
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        direct: Direct | None = (scope.get("extensions") or {}).get(DIRECT)
        body = None if direct is None else direct.body
        if body is None:
            try:
                async with asyncio.timeout(BODY_SECONDS):
                    message = await receive()
            except TimeoutError:
                await self._refuse(too_slow(BODY_SECONDS), began, scope, receive, send)
                return
            receive = _again(message, receive)
            if message["type"] == "http.request" and not message.get("more_body"):
                body = message.get("body", b"")
        if body is None or len(body) > self._most:
            await self._app(scope, receive, send)
            return
        try:
            client = scope.get("client")
            self._access.check("write", headers, client[0] if client else "")
            stream, key = self._service.stream(name), key_of(headers)
            digest = digest_of("rows", "json", body) if key else b""
            answer = await stream.awaited(Op("rows", read_rows(body, "json")), key, digest)
        except RefusedError as problem:
            await self._refuse(problem, began, scope, receive, send)
        except Exception as error:
            LOG.error("POST %s", scope["path"], exc_info=error)
            unexpected = RefusedError(500, "internal", "something unexpected went wrong", "see the server's log")
            await self._refuse(unexpected, began, scope, receive, send)
        else:
            self._requests.add("POST", ROUTE, 200, time.perf_counter() - began)
            if direct is not None and direct.answer(self._head, answer):
                return
            length = (b"content-length", str(len(answer)).encode())
            await send({"type": "http.response.start", "status": 200, "headers": [length, *self._headers]})
            await send({"type": "http.response.body", "body": answer})

    async def _refuse(self, problem: RefusedError, began: float, scope: Scope, receive: Receive, send: Send) -> None:
        response = self._refused(problem)
        response.headers.update(self._security)
        self._requests.add("POST", ROUTE, response.status_code, time.perf_counter() - began)
        await response(scope, receive, send)


def _stream_of(scope: Scope) -> str:
    """The stream that a request posts rows to; "": it does something else, or says more of it in a query."""
    if scope["type"] != "http" or scope["method"] != "POST" or scope["query_string"]:
        return ""
    path: str = scope["path"]
    if not (path.startswith(BEFORE) and path.endswith(AFTER)):
        return ""
    name = path[len(BEFORE) : -len(AFTER)]
    return "" if "/" in name else name


def _again(first: Any, receive: Receive) -> Receive:
    """What is received from the start, where the first part has been received already."""
    waiting: list[Message] = [first]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again
