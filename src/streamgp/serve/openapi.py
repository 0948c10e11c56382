"""The OpenAPI document, made from the routes and the types of their messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from streamgp.serve.handlers import LONGEST_KEY, Parameter
from streamgp.serve.messages import NAME, ErrorAnswer
from streamgp.serve.routes import Described
from streamgp.serve.rows import CSV, JSON, LINES, NDJSON
from streamgp.version import __version__

REFERENCE = "#/components/schemas/{name}"


def document(routes: Sequence[Described]) -> dict[str, Any]:
    """The document of all routes.

    Args:
        routes: in the order in which they are shown.
    """
    kinds = [kind for route in routes for kind in (route.takes, route.gives) if _is_type(kind)]
    kinds = [*{repr(kind): kind for kind in kinds}.values(), ErrorAnswer]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=REFERENCE)
    by_type = {repr(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_type)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "streamgp",
            "version": __version__,
            "description": "Streams that are predicted row by row, with calibrated intervals.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _is_type(kind: Any) -> bool:
    return kind is not None and not isinstance(kind, str)


def _operation(route: Described, by_type: dict[str, Any]) -> dict[str, Any]:
    error = {"description": "Refused", "content": {JSON: {"schema": by_type[repr(ErrorAnswer)]}}}
    answers: dict[str, Any] = {str(status): _answer(route, by_type) for status in route.statuses}
    if route.path in ("/healthz", "/readyz"):
        answers["503"] = _answer(route, by_type)
    operation: dict[str, Any] = {
        "operationId": route.endpoint.__name__,
        "summary": route.summary,
        "responses": answers | {"default": error},
        "parameters": _parameters(route),
    }
    if route.scope:
        operation["security"] = [{}, {"token": []}]
        operation["description"] = f"Needs the scope {route.scope} where the server has tokens."
    if route.takes is not None:
        operation["requestBody"] = {"required": True, "content": _body(route, by_type)}
    return operation


def _answer(route: Described, by_type: dict[str, Any]) -> dict[str, Any]:
    if route.gives is None:
        return {"description": "Done"}
    if isinstance(route.gives, str):
        return {"description": "Success", "content": {route.gives: {}}}
    return {"description": "Success", "content": {JSON: {"schema": by_type[repr(route.gives)]}}}


def _parameters(route: Described) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if "{name}" in route.path:
        found.append({"name": "name", "in": "path", "required": True, "schema": {"type": "string", "pattern": NAME}})
    for parameter in route.parameters:
        schema: dict[str, Any] = {"type": "string", "default": parameter.default}
        if isinstance(parameter, Parameter):
            schema |= {"type": "integer", "minimum": parameter.least, "maximum": parameter.most}
        described = {} if isinstance(parameter, Parameter) else {"description": parameter.meaning}
        found.append({"name": parameter.name, "in": "query", "schema": schema} | described)
    if route.keyed:
        found.append(
            {
                "name": "Idempotency-Key",
                "in": "header",
                "description": "A repeated key gets the first answer and changes nothing.",
                "schema": {"type": "string", "maxLength": LONGEST_KEY},
            }
        )
    return found


def _body(route: Described, by_type: dict[str, Any]) -> dict[str, Any]:
    if isinstance(route.takes, str):
        schema = {"type": "string"} if route.takes == LINES else {"type": "string", "format": "binary"}
        return {route.takes: {"schema": schema}}
    content: dict[str, Any] = {JSON: {"schema": by_type[repr(route.takes)]}}
    if route.rows:
        content |= {kind: {"schema": {"type": "string"}} for kind in (NDJSON, CSV, LINES)}
    return content
