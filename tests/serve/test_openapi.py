"""The OpenAPI document: it describes what is there, and requests made from it never break the server."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings

from streamgp.serve.app import ROUTES
from streamgp.serve.routes import document
from tests.serve.killing import FLEET
from tests.serve.malformed import requests, send
from tests.serve.running import QUICK, created, in_process, rows

DOCUMENT = document()


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with in_process(tmp_path_factory.mktemp("data"), streams=50) as client:
        yield client


def test_the_document_is_served_and_whole(client):
    found = client.get("/openapi.json").json()
    assert found == msgspec.json.decode(msgspec.json.encode(DOCUMENT))
    text = client.get("/openapi.json").text
    for name in msgspec.json.decode(text)["components"]["schemas"]:
        assert f"#/components/schemas/{name}" in text
    operations = [operation for methods in found["paths"].values() for operation in methods.values()]
    assert len({operation["operationId"] for operation in operations}) == len(operations) == len(ROUTES)


def test_answers_are_as_described(client):
    path = created(client, "typed")
    client.post(f"{path}/rows", json=rows(40))
    client.put("/v1/fleets/typed-f", json=FLEET)
    client.post("/v1/fleets/typed-f/rows", json=[{"id": "s3", "x": 1.0, "y": 2.0}] * 5)
    bodies = {
        "post_rows": {"json": [row | {"id": "s3"} for row in rows(2)]},
        "post_predict": {"json": [{"id": "s3", "x": 1.0}]},
        "post_targets": {"json": [{"ticket": "t", "value": 1.0}]},
    }
    for route in ROUTES:
        if isinstance(route.gives, str) or route.gives is None:
            continue
        if route.endpoint.__name__ == "put_snapshot":
            body = {"content": client.get(f"{path}/snapshot").content}
        elif route.endpoint.__name__ == "put_stream":
            body = {"json": FLEET if "fleets" in route.path else QUICK}
        else:
            body = bodies.get(route.endpoint.__name__, {})
        url = route.path.format(name="typed-f" if "fleets" in route.path else "typed")
        answer = client.request(route.method, url, params={"id": "s3"}, **body)
        assert answer.status_code in route.statuses, answer.text
        msgspec.json.decode(answer.content, type=route.gives)


@settings(max_examples=60)
@given(request=requests(DOCUMENT))
def test_no_request_breaks_the_server(client, request):
    client.put("/v1/streams/s", json=QUICK)  # if it is not there
    client.put("/v1/fleets/t", json=FLEET)
    send(client, request)


def test_the_server_is_well_after_that(client):
    path = created(client, "after")
    assert client.post(f"{path}/rows", json=rows(5)).json()["seen"] == 5
    assert client.get("/healthz").json()["status"] == "ok"
