"""Routes: each handler with its scope, what it takes and what it answers; the OpenAPI document is made of them.

A handler gets what its arguments ask for by their names: the request, the stream or the fleet, its kind, the parameters
of the query, and what belongs to the server: service, metrics, document.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, TypeVar, get_type_hints

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from streamgp.serve.messages import LONGEST_KEY, NAME, ErrorAnswer, RefusedError, Row, encode
from streamgp.serve.rows import CSV, JSON, LINES, NDJSON
from streamgp.version import __version__

Handler = Callable[..., Awaitable[Any]]
T = TypeVar("T")


class Described(NamedTuple):
    """A route."""

    method: str
    path: str  # with {name} for that of a stream
    scope: str  # that a token needs; "": none
    endpoint: Handler
    summary: str
    takes: Any = None  # the type of a JSON body, a media type, or None
    gives: Any = None  # the type of the JSON answer, or a media type
    statuses: tuple[int, ...] = (200,)  # that are no errors
    query: type[msgspec.Struct] | None = None  # the type of the parameters
    keyed: bool = False  # whether it takes an Idempotency-Key

    async def answered(self, request: Request, parts: Mapping[str, Any]) -> Response:
        """Call the handler with those of its arguments that belong to the server, and those that the request tells."""
        kind, names = "fleets" if self.path.startswith(F) else "streams", self.endpoint.__annotations__
        given = {"request": request, "kind": kind, **parts}
        if "stream" in names:
            given["stream"] = parts["service"].stream(request.path_params["name"], kind)
        if self.query is not None and "query" in names:
            given["query"] = asked(request, self.query)
        found = await self.endpoint(**{name: given[name] for name in names if name != "return"})
        return found if isinstance(found, Response) else answer(found)


ROUTES: list[Described] = []
S, F = "/v1/streams/{name}", "/v1/fleets/{name}"


def route(method: str, path: str, scope: str, summary: str, **more: Any) -> Callable[[Handler], Handler]:
    """Have a handler answer a route; its annotations tell the query, and the answer if that is not given."""

    def add(handler: Handler) -> Handler:
        told = get_type_hints(handler)
        given: dict[str, Any] = {"query": told.get("query")}
        given["gives"] = None if told["return"] is Response else told["return"]
        ROUTES.append(Described(method, path, scope, handler, summary, **given | more))
        return handler

    return add


def both(method: str, rest: str, scope: str, summary: str, **more: Any) -> Callable[[Handler], Handler]:
    """Have a handler answer a route of streams and that of fleets; types that differ are given for each."""
    ways = []
    for number, path in enumerate((S, F)):
        own = {name: more[name][number] for name in ("takes", "gives") if isinstance(more.get(name), tuple)}
        ways.append(route(method, path + rest, scope, summary, **more | own))
    return lambda handler: ways[0](ways[1](handler))


def answer(message: Any, status: int = 200) -> Response:
    """A JSON answer."""
    data = message if isinstance(message, bytes) else encode(message)
    return Response(data, status, media_type=JSON)


def asked(request: Request, query: type[T]) -> T:
    """The parameters of a request."""
    try:
        return msgspec.convert(dict(request.query_params), query, strict=False)
    except msgspec.ValidationError as error:
        raise RefusedError("bad_parameter", f"the query does not fit: {error}") from None


def document() -> dict[str, Any]:
    """The OpenAPI document of all routes."""
    kinds = [kind for route in ROUTES for kind in (route.takes, route.gives) if _is_type(kind)]
    kinds = [*{repr(kind): kind for kind in kinds}.values(), ErrorAnswer]
    found, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    schemas = {repr(kind): schema for kind, schema in zip(kinds, found, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for one in ROUTES:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, schemas)
    about = "Streams that are predicted row by row, with calibrated intervals."
    tokens = {"token": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "streamgp", "version": __version__, "description": about},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": tokens},
    }


def _is_type(kind: Any) -> bool:
    return kind is not None and not isinstance(kind, str)


def _operation(one: Described, schemas: dict[str, Any]) -> dict[str, Any]:
    gives = {} if one.gives is None else {"content": _content(one.gives, schemas)}
    refused = {"description": "Refused", "content": _content(ErrorAnswer, schemas)}
    operation: dict[str, Any] = {
        "operationId": "_".join([one.method.lower(), *re.findall(r"\w+", one.path)]),
        "summary": one.summary,
        "responses": {str(status): {"description": "Done"} | gives for status in one.statuses} | {"default": refused},
        "parameters": _parameters(one),
    }
    if one.scope:
        operation["security"] = [{}, {"token": []}]
        operation["description"] = f"Needs the scope {one.scope} where the server has tokens."
    if one.takes is not None:
        others = (NDJSON, CSV, LINES) if one.takes == list[Row] else ()
        text = {kind: {"schema": {"type": "string"}} for kind in others}
        operation["requestBody"] = {"required": True, "content": _content(one.takes, schemas) | text}
    return operation


def _content(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    if _is_type(kind):
        return {JSON: {"schema": schemas[repr(kind)]}}
    return {kind: {"schema": {"type": "string"} | ({} if kind.startswith("text") else {"format": "binary"})}}


def _parameters(one: Described) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if "{name}" in one.path:
        found.append({"name": "name", "in": "path", "schema": {"type": "string", "pattern": NAME}, "required": True})
    if one.query is not None:
        schema = msgspec.json.schema_components([one.query])[1][one.query.__name__]
        found += [{"name": name, "in": "query", "schema": value} for name, value in schema["properties"].items()]
    if one.keyed:
        repeated = "A repeated key gets the first answer and changes nothing."
        key = {"type": "string", "maxLength": LONGEST_KEY, "description": repeated}
        found.append({"name": "Idempotency-Key", "in": "header", "schema": key})
    return found
