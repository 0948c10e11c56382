"""The application: routes behind access, limits, metrics and one shape of errors."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streamgp.serve.access import Access
from streamgp.serve.handlers import SNAPSHOT, get_page
from streamgp.serve.messages import Error, ErrorAnswer, RefusedError
from streamgp.serve.metrics import Metrics
from streamgp.serve.routes import ROUTES, Described, answer, document
from streamgp.serve.service import Service

LOG = logging.getLogger("streamgp.serve")
SOON = 5  # seconds after which a client may ask again whether everything is compiled
# What is read and thrown away of a body that is not wanted, and for how many seconds.
UNREAD, UNREAD_SECONDS = 256 << 20, 10.0
# The page gets everything from this server, and no other site may embed it or read from it.
SECURITY = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
PAGES = [Described("GET", path, "", get_page, "The page") for path in ("/", "/page/{file}")]


def application(service: Service, origins: tuple[str, ...] = (), public: bool = False, base: str = "/") -> ASGIApp:
    """The application of a service.

    Args:
        service: that does the work.
        origins: web sites that may read answers (CORS); none unless asked for.
        public: whether other machines can reach it, so that it needs a token in any case.
        base: the path below which a proxy shows it, "/gp/", whether the proxy takes that off or not.
    """
    access = Access(service.journal, public, service.slow.submit)
    told = document() | ({} if base == "/" else {"servers": [{"url": base.rstrip("/")}]})
    parts = {"service": service, "metrics": Metrics(service), "document": told}
    paths: dict[str, dict[str, Described]] = {}
    for one in [*ROUTES, *PAGES]:
        paths.setdefault(one.path, {})[one.method] = one
    paths["/{other:path}"] = {}
    routes = [Route(path, _Path(path, methods, access, parts)) for path, methods in paths.items()]
    app: ASGIApp = Router(routes, redirect_slashes=False)
    if base != "/":
        app = Router([Mount(base, app), Mount("/", app)])
    if origins:
        from starlette.middleware.cors import CORSMiddleware

        app = CORSMiddleware(app, allow_origins=origins, allow_methods=["*"], allow_headers=["*"])
    return app


class _Path:
    """What answers all requests to a path; a wrong method gets those that there are.

    Args:
        path: of the routes.
        methods: the routes by method.
        access: who may do what.
        parts: of the server, which handlers may ask for.
    """

    def __init__(self, path: str, methods: dict[str, Described], access: Access, parts: dict[str, Any]) -> None:
        self._path, self._methods, self._access, self._parts = path, methods, access, parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, body = time.perf_counter(), _Body(scope, receive)
        request = Request(scope, body.receive)
        one = self._methods.get("GET" if request.method == "HEAD" else request.method)
        try:
            response = await self._answered(one, request, body)
        except RefusedError as problem:
            response = refused(problem)
            if problem.code == "method_not_allowed":
                response.headers["Allow"] = ", ".join(self._methods)
        except Exception:
            LOG.exception("%s %s", request.method, request.url.path)
            response = refused(RefusedError("internal", "something unexpected went wrong", "see the server's log"))
        response.headers.update(SECURITY)
        if one is not None:
            self._parts["metrics"].add(request.method, self._path, response.status_code, time.perf_counter() - began)
        await body.finish()
        await response(scope, receive, send)

    async def _answered(self, one: Described | None, request: Request, body: _Body) -> Response:
        if not self._methods:
            raise RefusedError("not_found", "Not Found", "GET /openapi.json lists what there is")
        if one is None:
            raise RefusedError("method_not_allowed", "Method Not Allowed", f"allowed here: {', '.join(self._methods)}")
        self._access.check(one.scope, request.headers, request.client.host if request.client else "")
        service: Service = self._parts["service"]
        if one.takes == SNAPSHOT:
            body.limit(service.limits.snapshot, "no stream of this server can be so large")
        else:
            body.limit(service.limits.body, "send it in parts, or raise --max-body")
        if service.cold and request.method in ("PUT", "POST"):
            compiles = "the server compiles its models, once after an installation"
            hint = "send the request again in a few seconds; GET /readyz answers 200 when this is done"
            raise RefusedError("compiling", compiles, hint, SOON)
        return await one.answered(request, self._parts)


class _Body:
    """The body of a request: it is not read beyond a limit, whatever its header says, and no answer is sent before its
    end has come, because the client might not listen yet."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        headers = Headers(scope=scope)
        self._receive, self._told = receive, headers.get("content-length", "")
        # A client that asks first whether to send its body gets the answer at once.
        self._is_coming = bool(self._told or "transfer-encoding" in headers) and "expect" not in headers
        self._left = UNREAD
        self._problem: RefusedError | None = None

    def limit(self, most: int, hint: str) -> None:
        """Refuse more bytes than these."""
        self._left = most
        self._problem = RefusedError("body_too_long", f"the body is longer than {most} bytes", hint)
        if self._told.isdecimal() and (len(self._told) > 15 or int(self._told) > most):
            raise self._problem

    async def receive(self) -> Message:
        message = await self._receive()
        self._is_coming = bool(message.get("more_body"))
        self._left -= len(message.get("body", b""))
        if self._left < 0 and self._problem is not None:
            raise self._problem
        return message

    async def finish(self) -> None:
        """Read what comes still, and throw it away."""
        if self._is_coming:
            self._left, self._problem = UNREAD, None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(UNREAD_SECONDS):
                    while self._is_coming and self._left > 0:
                        await self.receive()


def refused(problem: RefusedError) -> Response:
    """The answer to a request that is refused."""
    response = answer(ErrorAnswer(Error(problem.code, problem.message, problem.hint)), problem.status)
    if problem.retry_after is not None:
        response.headers["Retry-After"] = str(problem.retry_after)
    if problem.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response
