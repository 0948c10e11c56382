"""The application: routes behind access, limits, metrics and one shape of errors."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streamgp.serve.access import Access
from streamgp.serve.handlers import SNAPSHOT, answer
from streamgp.serve.messages import Error, ErrorAnswer, RefusedError
from streamgp.serve.metrics import Metrics
from streamgp.serve.openapi import document
from streamgp.serve.routes import PAGES, ROUTES, Endpoint
from streamgp.serve.service import Service

LOG = logging.getLogger("streamgp.serve")
SOON = 5  # seconds after which a client may ask again whether everything is compiled
# What is read and thrown away of a body that is not wanted, and for how many seconds.
UNREAD, UNREAD_SECONDS = 256 << 20, 10.0
# The page gets everything from this server, and no other site may embed it or read from it.
SECURITY = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}


def application(service: Service, origins: tuple[str, ...] = (), public: bool = False, base: str = "/") -> ASGIApp:
    """The application of a service.

    Args:
        service: that does the work.
        origins: web sites that may read answers (CORS); none unless asked for.
        public: whether other machines can reach it, so that it needs a token in any case.
        base: the path below which a proxy shows it, "/gp/", whether the proxy takes that off or not.
    """
    access, metrics = Access(service.journal, public, service.slow.submit), Metrics(service)

    def guarded(endpoint: Endpoint, scope: str, path: str, longest: Longest) -> Endpoint:
        async def answered(request: Request) -> Response:
            began = time.perf_counter()
            try:
                access.check(scope, request.headers, request.client.host if request.client else "")
                longest.check(request.headers.get("content-length", ""))
                if service.cold and request.method in ("PUT", "POST"):
                    raise RefusedError(
                        503,
                        "compiling",
                        "the server compiles its models, once after an installation",
                        "send the request again in a few seconds; GET /readyz answers 200 when this is done",
                        SOON,
                    )
                response = await endpoint(Request(request.scope, longest.limited(request.receive)))
            except RefusedError as problem:
                response = refused(problem)
            metrics.add(request.method, path, response.status_code, time.perf_counter() - began)
            return response

        return answered

    body = Longest(service.limits.body, "send it in parts, or raise --max-body")
    snapshot = Longest(service.limits.snapshot, "no stream of this server can be so large")
    paths: dict[str, dict[str, Endpoint]] = {}
    for route in ROUTES:
        longest = snapshot if route.takes == SNAPSHOT else body
        endpoint = guarded(route.endpoint, route.scope, route.path, longest)
        paths.setdefault(route.path, {})[route.method] = endpoint
    paths |= {path: {"GET": guarded(endpoint, "", path, body)} for path, endpoint in PAGES}
    handlers: dict[Any, Any] = {HTTPException: _http_error, 500: _unexpected}
    app = Starlette(routes=[_route(path, methods) for path, methods in paths.items()], exception_handlers=handlers)
    app.router.redirect_slashes = False
    app.state.service, app.state.metrics = service, metrics
    app.state.openapi = document(ROUTES) | ({} if base == "/" else {"servers": [{"url": base.rstrip("/")}]})
    whole: ASGIApp = app if base == "/" else Router([Mount(base, app), Mount("/", app)])
    if origins:
        from starlette.middleware.cors import CORSMiddleware

        whole = CORSMiddleware(whole, allow_origins=origins, allow_methods=["*"], allow_headers=["*"])
    return _hardened(whole)


def _route(path: str, methods: dict[str, Endpoint]) -> Route:
    """All methods of a path as one route, so that a wrong one is answered with those that there are."""

    async def endpoint(request: Request) -> Response:
        return await methods["GET" if request.method == "HEAD" else request.method](request)

    return Route(path, endpoint, methods=list(methods))


def refused(problem: RefusedError) -> Response:
    """The answer to a request that is refused."""
    response = answer(ErrorAnswer(Error(problem.code, problem.message, problem.hint)), problem.status)
    if problem.retry_after is not None:
        response.headers["Retry-After"] = str(problem.retry_after)
    if problem.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


async def _http_error(_: Request, error: HTTPException) -> Response:
    codes = {404: "not_found", 405: "method_not_allowed"}
    allowed = (error.headers or {}).get("Allow", "")
    hints = {404: "GET /openapi.json lists what there is", 405: f"allowed here: {allowed}"}
    problem = RefusedError(
        error.status_code, codes.get(error.status_code, "refused"), str(error.detail), hints.get(error.status_code, "")
    )
    response = refused(problem)
    response.headers.update(error.headers or {})
    return response


async def _unexpected(request: Request, error: Exception) -> Response:
    LOG.error("%s %s", request.method, request.url.path, exc_info=error)
    return refused(RefusedError(500, "internal", "something unexpected went wrong", "see the server's log"))


class Longest(NamedTuple):
    """How long a body may be.

    Args:
        bytes: at most.
        hint: what to do about a longer one.
    """

    bytes: int
    hint: str

    def problem(self) -> RefusedError:
        return RefusedError(413, "body_too_long", f"the body is longer than {self.bytes} bytes", self.hint)

    def check(self, length: str) -> None:
        """Refuse a body by what its header says of its length."""
        if length.isdecimal() and (len(length) > 15 or int(length) > self.bytes):
            raise self.problem()

    def limited(self, receive: Receive) -> Receive:
        """No body is read beyond the limit, whatever its header says."""
        read = 0

        async def limited() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self.bytes:
                raise self.problem()
            return message

        return limited


def _hardened(app: ASGIApp) -> ASGIApp:
    """Security headers on every answer, and no answer before the client has sent its body: it might not listen yet."""
    extra = [(name.encode(), value.encode()) for name, value in SECURITY.items()]

    async def hardened(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        names = {name for name, _ in scope["headers"]}
        # A client that asks first whether to send its body gets the answer at once.
        coming = bool(names & {b"content-length", b"transfer-encoding"}) and b"expect" not in names

        async def counted() -> Message:
            nonlocal coming
            message = await receive()
            coming = bool(message.get("more_body"))
            return message

        async def rest() -> None:
            left = UNREAD
            while coming and left > 0:
                left -= len((await counted()).get("body", b""))

        async def secured(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *extra]
                if coming:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(rest(), UNREAD_SECONDS)
            await send(message)

        await app(scope, counted, secured)

    return hardened
