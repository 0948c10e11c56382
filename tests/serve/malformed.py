"""Requests that the OpenAPI document allows, almost allows, or does not allow at all."""

from __future__ import annotations

import json
import urllib.parse

from hypothesis import strategies as st

NAMES = st.one_of(st.just("s"), st.sampled_from(["t", "..", "%2e%2e", "a/b", ""]), st.text(max_size=80))
WORDS = st.sampled_from(
    ["", "x", "y", "s", "auto", "KRLST", "SOGP", "capacity", "level", "[1,2]", "SNGD()", "nan", "1e999", "2024-01-01"]
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-(10**30), 10**30), st.floats(), st.text(max_size=20), WORDS
)
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5) | WORDS, inner, max_size=4)
)


def requests(document):
    """Method, path, query, headers and body of requests to the operations of a document."""
    operations = [
        (method.upper(), path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    schemas = document["components"]["schemas"]
    return st.sampled_from(operations).flatmap(lambda operation: _request(*operation, schemas))


def _request(method, path, operation, schemas):
    content = operation.get("requestBody", {}).get("content", {})
    kinds = [*content, "text/plain", "application/xml", "", "application/json; charset=latin-1"]
    bodies = [st.binary(max_size=200), ANYTHING.map(as_json)]
    if "application/json" in content:
        fits = fitting(content["application/json"]["schema"], schemas)
        bodies += [fits.map(as_json)] * 4
        bodies.append(st.tuples(fits.map(as_json), st.integers(0, 50)).map(lambda pair: pair[0][: -pair[1] or None]))
        bodies.append(st.lists(ANYTHING, max_size=3).map(lambda rows: b"\n".join(map(as_json, rows))))
        bodies.append(
            st.lists(st.text(max_size=10), max_size=6).map(lambda rows: "\n".join(rows).encode("utf-8", "replace"))
        )
    query = {
        parameter["name"]: st.one_of(fitting(parameter["schema"], schemas), SCALARS)
        for parameter in operation["parameters"]
        if parameter["in"] == "query"
    }
    kind = st.sampled_from([*[next(iter(content), "")] * 4, *kinds])
    return st.fixed_dictionaries(
        {
            "method": st.just(method),
            "path": NAMES.map(lambda name: path.replace("{name}", urllib.parse.quote(name, safe="%"))),
            "query": st.fixed_dictionaries({}, optional=query),
            "kind": kind,
            "key": st.one_of(st.just(""), st.text("abc", max_size=3), st.just("k" * 300)),
            "body": st.one_of(bodies) if content else st.just(b""),
        }
    )


def as_json(value):
    return json.dumps(value).encode("utf-8", "surrogatepass")


def fitting(schema, schemas):
    """Values of a JSON schema, now and then any others."""
    return st.one_of(*[_fitting(schema, schemas)] * 6, SCALARS)


def _fitting(schema, schemas):
    if "$ref" in schema:
        return _fitting(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    if "anyOf" in schema:
        return st.one_of([_fitting(one, schemas) for one in schema["anyOf"]])
    kind = schema.get("type")
    if kind == "object":
        properties = {name: fitting(one, schemas) for name, one in schema.get("properties", {}).items()}
        required = {name: properties.pop(name) for name in schema.get("required", [])}
        if required or properties:
            return st.fixed_dictionaries(required, optional=properties)
        inner = schema.get("additionalProperties", {})
        values = _fitting(inner, schemas) if isinstance(inner, dict) and inner else SCALARS
        return st.dictionaries(WORDS | st.text(max_size=10), values, max_size=5)
    if kind == "array":
        return st.lists(_fitting(schema.get("items", {}), schemas), max_size=5)
    if kind == "integer":
        return st.integers(schema.get("minimum", -(2**63)), schema.get("maximum", 2**63 - 1))
    if kind == "number":
        return st.floats(allow_nan=False, allow_infinity=False)
    if kind == "boolean":
        return st.booleans()
    if kind == "null":
        return st.none()
    return WORDS | st.text(max_size=20)


def send(client, request):
    """The status of the answer, after checks that hold for every answer; a stream of events is not read."""
    headers = {"Content-Type": request["kind"]} if request["kind"] else {}
    if request["key"]:
        headers["Idempotency-Key"] = request["key"]
    query = {name: str(value).encode("utf-8", "replace").decode() for name, value in request["query"].items()}
    built = client.build_request(
        request["method"], request["path"], params=query, headers=headers, content=request["body"]
    )
    answer = client.send(built, stream=True)
    try:
        assert answer.status_code < 500, (request, answer.read())
        if answer.status_code >= 400:
            answer.read()
            assert set(answer.json()["error"]) == {"code", "message", "hint"}, request
            assert answer.json()["error"]["message"], request
    finally:
        answer.close()
    return answer.status_code
