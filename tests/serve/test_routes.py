"""The interface: what each route answers, and that a refused request changes nothing."""

from __future__ import annotations

import asyncio
import json
import re

import numpy as np
import pytest

from streamgp.job.pipeline import Pipeline
from streamgp.serve.app import application
from streamgp.serve.hosted import Hosted
from streamgp.tables.formats import Chunk
from streamgp.tables.recognizing import recognize
from tests.serve.running import JSON, QUICK, created, in_process, rows


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with in_process(tmp_path_factory.mktemp("data")) as client:
        yield client


def error(answer, status):
    assert answer.status_code == status, answer.text
    found = answer.json()
    assert set(found) == {"error"}
    assert set(found["error"]) == {"code", "message", "hint"}
    return found["error"]


METRICS = "drift_total", "scored_rows_total", "squared_errors_total", "rmse_previous_value"


def in_library(table, batch, **settings):
    """The same rows through the pipeline of ``streamgp run``."""
    chunk = Chunk({name: [row[name] for row in table] for name in table[0]}, range(1, len(table) + 1))
    pipeline = Pipeline(recognize(chunk, "y"), QUICK["model"], QUICK["settings"] | {"level": 0.9}, **settings)
    encoded = pipeline.encoder.encode(chunk)
    for at in range(0, len(table), batch):
        predicted = pipeline.take(pipeline.encoder.fill(encoded.part(at, min(at + batch, len(table)))), ahead=True)
        yield from zip(*(c.tolist() for c in (predicted.row, predicted.mean, predicted.lower)), strict=True)


def test_a_stream_is_created_once_and_refused_with_other_settings(client):
    first = client.put("/v1/streams/once", json=QUICK)
    assert first.status_code == 201
    assert first.json()["state"] == "new"
    assert client.put("/v1/streams/once", json=QUICK).status_code == 200
    assert error(client.put("/v1/streams/once", json=QUICK | {"lags": 3}), 409)["code"] == "exists"
    assert "once" in [stream["name"] for stream in client.get("/v1/streams").json()["streams"]]
    assert client.delete("/v1/streams/once").status_code == 204
    assert error(client.get("/v1/streams/once"), 404)["code"] == "no_such_stream"
    assert client.put("/v1/streams/once", json=QUICK | {"lags": 3}).status_code == 201


def test_settings_have_defaults(client):
    client.put("/v1/streams/defaults", json={"target": "y"})
    assert client.get("/v1/streams/defaults").json()["settings"] == {
        "target": "y",
        "inputs": None,
        "lags": None,
        "horizon": 0,
        "model": "auto",
        "settings": {},
        "level": 0.9,
        "schema": None,
    }


@pytest.mark.parametrize(
    ("lags", "horizon"), [(0, 0), (2, 4), *(pytest.param(*case, marks=pytest.mark.more) for case in [(2, 0), (3, 1)])]
)
def test_rows_are_answered_as_the_library_predicts_them_however_they_are_cut(client, lags, horizon):
    path = created(client, f"like{lags}{horizon}", lags=lags, horizon=horizon)
    table = rows(150)
    answered = []
    for at in range(60):
        answered += client.post(f"{path}/rows", json=table[at : at + 1]).json()["rows"]
    last = client.post(f"{path}/rows", json=table[60:]).json()
    answered += last["rows"]
    assert last["seen"] == 150
    expected = list(in_library(table, 50, lags=lags, horizon=horizon))
    for found, (row, mean, lower) in zip(answered, expected, strict=True):
        assert found["row"] == row
        if np.isfinite(mean):
            assert (found["mean"], found["lower"]) == (mean, lower if np.isfinite(lower) else None)
        else:
            assert found["mean"] is found["lower"] is found["std"] is None


def test_ndjson_and_csv_bodies_are_rows_too(client):
    table, answers = rows(60), []
    for name, kind, body in (
        ("json", "application/json", json.dumps(table)),
        ("ndjson", "application/x-ndjson", "\n".join(map(json.dumps, table))),
        ("csv", "text/csv; charset=utf-8", "x,y\n" + "".join(f"{row['x']!r},{row['y']!r}\n" for row in table)),
    ):
        path = created(client, f"body-{name}")
        answers.append(client.post(f"{path}/rows", content=body, headers={"Content-Type": kind}).json())
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize(
    ("kind", "body", "status", "match"),
    [
        ("application/json", "[{", 400, "not JSON"),
        ("application/json", " ", 400, "the body is empty"),
        ("application/json", '[{"x": NaN, "y": 1}]', 400, "null stands for NaN"),
        ("application/json", "[]", 422, "no rows"),
        ("application/json", "{}", 422, "rows are a list"),
        ("application/json", "[1]", 422, "does not fit"),
        ("text/csv", "x,y", 422, "no rows"),
        ("application/json", '[{"x": [1]}]', 422, "does not fit"),
        ("application/json", '[{"x": 1e999, "y": 1}]', 422, "out of range|infinite"),
        ("application/json", '[{"x": "word", "y": 1}]', 422, "which holds numbers"),
        ("application/json", '[{"z": 1}]', 422, "none of the stream's columns"),
        ("application/json", '[{"x": 1, "y": 2}, {"x": "word", "y": 1}]', 422, "row 2"),
        ("application/x-ndjson", '{"x": 1}\nnonsense\n', 400, "not JSON"),
        ("application/x-ndjson", '{"x": {"a": 1}}\n', 422, "does not fit"),
        ("application/x-ndjson", '{"x": "\\ud800"}\n', 400, "not JSON"),
        ("text/csv", "x,y\n1,2,3\n", 422, "expected 2"),
        ("text/csv", "", 422, "empty"),
        ("text/plain", "x", 415, "Content-Type"),
        ("", "x", 415, "there is none"),
        ("application/json", json.dumps([{f"c{i}": 1 for i in range(1001)}]), 422, "length <= 1000"),
        ("application/json", json.dumps([{"x": 1}] * 10_001), 413, "10001 rows"),
        ("application/json", json.dumps([{"x": "a" * 1001}]), 422, "length <= 1000"),
    ],
)
def test_a_bad_body_gets_a_sentence_and_changes_nothing(client, kind, body, status, match):
    path = created(client, "bad")
    if not client.get(path).json()["rows"]:
        client.post(f"{path}/rows", json=rows(60))
    before = client.get(f"{path}/snapshot").content
    answer = client.post(f"{path}/rows", content=body, headers={"Content-Type": kind} if kind else {})
    said = error(answer, status)
    assert re.search(match, f"{said['message']}; {said['hint']}")
    assert client.get(f"{path}/snapshot").content == before


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({}, "target"),
        ({"target": "y", "nonsense": 1}, "nonsense"),
        ({"target": "y", "level": 1.5}, "level"),
        ({"target": "y", "model": "SOPG"}, "Did you mean 'SOGP'"),
        ({"target": "y", "settings": {"capacit": 3}}, "capacity"),
        ({"target": "y", "model": "KRLST", "settings": {"capacity": -3}}, "capacity"),
        ({"target": "y", "settings": {"level": 0.5}}, "twice"),
        ({"target": "y", "settings": {"pending": 10**6}}, "at most"),
        ({"target": "y", "inputs": ["y"]}, "cannot be an input"),
        ({"target": "y", "lags": -1}, "lags"),
        ({"target": "y", "horizon": 10**7}, "horizon"),
    ],
)
def test_bad_settings_are_refused_before_the_first_row(client, settings, match):
    found = error(client.put("/v1/streams/wrong", json=settings), 422)
    assert match in found["message"]
    assert client.get("/v1/streams/wrong").status_code == 404


@pytest.mark.parametrize("name", ["a b", ".hidden", "x" * 65, "%00", "n\u00e4me"])
def test_names_are_checked(client, name):
    assert error(client.put(f"/v1/streams/{name}", json=QUICK), 422)["code"] == "bad_name"


def test_paths_and_methods_that_do_not_exist_are_refused_in_the_same_shape(client):
    assert error(client.get("/v1/other"), 404)["code"] == "not_found"
    assert error(client.get("/page/../../etc/passwd"), 404)
    assert error(client.get("/page/service.py"), 404)
    answer = client.post("/v1/streams")
    assert error(answer, 405)["code"] == "method_not_allowed"
    assert "GET" in answer.headers["allow"]
    assert "GET" in answer.json()["error"]["hint"]


def test_a_target_must_be_named_at_first_and_may_be_null(client):
    path = created(client, "unlabeled")
    assert "no row has the target 'y'" in error(client.post(f"{path}/rows", json=[{"x": 1}]), 422)["message"]
    answer = client.post(f"{path}/rows", json=[{"x": 1, "y": None}, {"x": 2, "y": None}])
    assert answer.json()["seen"] == 2
    client.post(f"{path}/rows", json=rows(5))
    assert client.get(path).json()["scores"]["rows"] >= 3  # the first have no scale


def test_columns_are_recognized_on_the_first_rows_together_not_on_the_first_alone(client):
    path = created(client, "kinds")
    for i in range(60):
        row = {"state": "on" if i % 3 else "off", "n": i, "x": i % 5, "y": (i % 5) + 2.0 * (i % 3 > 0)}
        assert client.post(f"{path}/rows", json=[row]).status_code == 200
    detail = client.get(path).json()
    assert detail["inputs"] == ["state=on", "x"]
    assert "ignored: n (row counter)" in detail["columns"]


def test_history_keeps_spikes_and_says_how_good_predictions_were(client):
    path = created(client, "history", settings=QUICK["settings"] | {"screen": False})
    table = rows(3000)
    table[1234]["y"] = 100.0
    client.post(f"{path}/rows", json=table)
    found = client.get(f"{path}/history", params={"rows": 2000, "points": 100}).json()
    assert len(found["row"]) <= 100
    assert found["row"] == sorted(found["row"])
    assert min(found["row"]) > 1000
    assert 100.0 in found["observed"]
    assert sum(part["rows"] for part in found["scores"]) == 2000
    everything = client.get(f"{path}/history", params={"rows": 3000, "points": 5000}).json()
    assert everything["observed"] == [row["y"] for row in table]
    for query in ({"rows": 0}, {"points": 1}, {"rows": "many"}, {"points": 10**9}):
        assert error(client.get(f"{path}/history", params=query), 422)["code"] == "bad_parameter"


def test_metrics_are_in_the_format_of_prometheus(client):
    path = created(client, "measured")
    client.post(f"{path}/rows", json=rows(30))
    client.get(path)
    text = client.get("/metrics?streams=measured").text
    assert 'streamgp_rows{stream="measured"} 30.0\n' in text
    assert 'streamgp_requests_total{method="POST",route="/v1/streams/{name}/rows",status="200"}' in text
    for line in text.splitlines():
        if not line.startswith("#"):
            float(line.rpartition(" ")[2])


def test_metrics_are_totals_unless_streams_are_asked_for(tmp_path):
    with in_process(tmp_path) as client:
        scored = 0
        for name, number in (("one", 30), ("two", 40)):
            client.post(f"{created(client, name)}/rows", json=rows(number))
            scored += client.get(f"/v1/streams/{name}").json()["scores"]["rows"]
        totals = client.get("/metrics").text
        for line in ("rows 70.0", f"scored_rows_total {scored:.1f}", 'streams{state="ready"} 2.0'):
            assert f"streamgp_{line}\n" in totals
        assert "stream=" not in totals
        assert "streamgp_rmse" not in totals
        for asked, named in (("one", {"one"}), ("one,two", {"one", "two"}), ("*", {"one", "two"})):
            text = client.get("/metrics", params={"streams": asked}).text
            assert set(re.findall(r'stream="(\w+)"', text)) == named
            assert 'streamgp_rows{stream="one"} 30.0\n' in text
            assert "streamgp_rows 70.0" not in text
        assert error(client.get("/metrics?streams=three"), 404)["code"] == "no_such_stream"


def test_a_server_is_ready_when_everything_is_compiled(client):
    assert client.get("/readyz").json()["status"] == "ok"
    client.service.compiling = True
    try:
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()["status"]) == (503, "compiling")
        answer = client.get("/healthz")  # it is alive: nobody should start it anew
        assert (answer.status_code, answer.json()["status"]) == (200, "compiling")
    finally:
        client.service.compiling = False


def test_a_server_that_compiles_refuses_rows_and_says_when_to_come_back(client):
    path = created(client, "early")
    client.service.cold = True
    try:
        for answer in (client.post(f"{path}/rows", json=rows(3)), client.put(path, json={"target": "y"})):
            said = error(answer, 503)
            assert said["code"] == "compiling"
            assert said["message"] == "the server compiles its models, once after an installation"
            assert "/readyz" in said["hint"]
            assert answer.headers["Retry-After"] == "5"
        assert client.get("/v1/streams").status_code == 200
    finally:
        client.service.cold = False
    assert client.post(f"{path}/rows", json=rows(3)).status_code == 200


def test_changes_and_squared_errors_are_counted(client):
    path = created(client, "counted")
    client.post(f"{path}/rows", json=rows(40))
    scores = client.get(path).json()["scores"]
    client.service.stream("counted").noticed["drift"] += 2
    found = dict(line.rpartition(" ")[::2] for line in client.get("/metrics?streams=*").text.splitlines())
    values = {name: float(found[f'streamgp_{name}{{stream="counted"}}']) for name in METRICS}
    assert values["drift_total"] == 2
    assert values["scored_rows_total"] == scores["rows"]
    assert values["squared_errors_total"] == pytest.approx(scores["rows"] * scores["rmse"] ** 2)
    assert values["rmse_previous_value"] == pytest.approx(scores["rmse_previous_value"])


def test_healthz_and_the_page_need_nothing(client):
    assert client.get("/healthz").json()["status"] == "ok"
    page = client.get("/")
    assert page.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
    assert "unsafe" not in page.headers["content-security-policy"]
    assert "<script>" not in page.text
    assert "style=" not in page.text
    assert "http://" not in page.text.replace("http://127.0.0.1", "").replace("http://www.w3.org", "")


def test_no_other_site_may_read_unless_asked_for(client):
    foreign = {"Origin": "https://elsewhere.example"}
    assert error(client.get("/v1/streams", headers=foreign), 403)["code"] == "foreign_site"
    assert error(client.get("/v1/streams", headers={"Host": "elsewhere.example"}), 403)
    assert "access-control-allow-origin" not in client.get("/v1/streams").headers


def test_numbers_beyond_measure_are_refused_or_taken_but_never_break_a_stream(client):
    path = created(client, "huge")
    client.post(f"{path}/rows", json=rows(60))
    for value in (1e308, -1e308, 1e200, 1e-320, 2**63, 10**400):
        body = json.dumps([{"x": value, "y": value}])
        assert client.post(f"{path}/rows", content=body, headers=JSON).status_code in (200, 400, 422)
    answer = client.post(f"{path}/rows", json=rows(5))
    assert answer.status_code == 200
    assert len(answer.json()["rows"]) == 5


def test_a_misspelled_column_is_refused_with_the_nearest_name_and_a_new_one_is_left_out(tmp_path):
    with in_process(tmp_path) as client:
        path = created(client, target="power")
        table = [{"temperature": float(i % 9), "power": float(i % 7)} for i in range(60)]
        client.post(f"{path}/rows", json=table)
        answer = client.post(f"{path}/rows", json=[{"temperatur": 1.0, "power": 3.0}])
        assert answer.status_code == 422
        assert "row 1 has 'temperatur', which is no column of the stream. Did you mean 'temperature'?" in answer.text
        assert client.post(f"{path}/rows", json=[table[0] | {"remark": "new"}]).json()["seen"] == 61


def test_a_repeated_key_is_known_whatever_its_content_type_says_beside_the_kind(client):
    path, key = created(client, "keys"), {"Idempotency-Key": "k"}
    first = client.post(f"{path}/rows", json=rows(3), headers=key)
    body = first.request.content
    other = {"Content-Type": "application/json; charset=utf-8"} | key
    assert client.post(f"{path}/rows", content=body, headers=other).content == first.content
    assert client.get(path).json()["rows"] == 3
    refused = client.post(f"{path}/rows", json=rows(1), headers={"Idempotency-Key": "k" * 300})
    assert refused.json()["error"]["code"] == "bad_key"


def test_an_unexpected_error_is_answered_once(client, monkeypatch):
    path = created(client, "unexpected")

    def fails(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(Hosted, "ask", fails)
    body, sent = json.dumps(rows(1)).encode(), []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    async def asked():
        scope = {"type": "http", "method": "POST", "path": f"{path}/rows", "query_string": b"", "client": ("::1", 1)}
        headers = [(b"content-type", b"application/json"), (b"host", b"localhost")]
        await application(client.service)(scope | {"headers": headers}, receive, send)

    asyncio.run(asked())
    assert [(one["type"], one.get("status")) for one in sent] == [
        ("http.response.start", 500),
        ("http.response.body", None),
    ]
    assert json.loads(sent[1]["body"])["error"]["code"] == "internal"
