"""Line protocol over HTTP: series become streams, the same lines are learned once, and predictions go out as lines."""

from __future__ import annotations

import gzip

import pytest

from streamgp.serve import lines
from streamgp.serve.access import create_token
from streamgp.serve.line_protocol import points
from streamgp.serve.messages import NAME
from streamgp.serve.naming import of_series, of_topic
from tests.serve.running import created, in_process

START = 1_700_000_000
INFLUX = {"Content-Type": "text/plain; format=influx"}


def text(n, series="power,plant=north", start=0, field="value"):
    return "".join(f"{series} {field}={i % 7} {START + 60 * i}\n" for i in range(start, start + n))


@pytest.fixture
def client(tmp_path):
    with in_process(tmp_path) as client:
        yield client


def test_each_series_is_a_stream_and_the_same_lines_are_learned_once(client):
    both = text(30) + "# a comment\n" + text(20, "power,plant=south", field="kw")
    for _ in range(2):  # a client that got no answer sends them again
        answer = client.post("/api/v2/write?bucket=b&org=o&precision=s", content=both)
        assert (answer.status_code, answer.content) == (204, b"")
    found = {one["name"]: (one["target"], one["rows"]) for one in client.get("/v1/streams").json()["streams"]}
    assert found == {"power.plant-north": ("value", 30), "power.plant-south": ("kw", 20)}
    columns = client.get("/v1/streams/power.plant-north").json()["columns"]
    assert any(sentence.startswith("time") for sentence in columns), columns


def test_a_body_may_be_gzip_as_telegraf_sends_it_and_its_token_is_known(tmp_path):
    token = create_token(tmp_path, "write")
    with in_process(tmp_path) as client:
        body = gzip.compress(text(5).encode())
        for headers, status in (({"Authorization": f"Token {token}"}, 204), ({"Authorization": "Token none"}, 401)):
            headers |= {"Content-Encoding": "gzip", "Content-Type": "text/plain; charset=utf-8"}
            assert client.post("/api/v2/write?precision=s", content=body, headers=headers).status_code == status


def test_rows_of_a_stream_may_come_as_lines_whose_tags_are_columns(client):
    path = created(client, settings={"tune": False, "capacity": 10, "warmup": 20})
    body = "".join(f"any,state={'on' if i % 2 else 'off'} x={i % 5},y={i % 3}i {START + i}\n" for i in range(60))
    answer = client.post(f"{path}/rows?precision=s", content=body, headers=INFLUX)
    assert answer.json()["seen"] == 60
    assert set(client.get(path).json()["inputs"]) >= {"x"}
    assert any("state" in sentence for sentence in client.get(path).json()["columns"])


def test_predictions_go_out_with_the_times_of_their_rows(client):
    path = created(client, target="value")
    client.post(f"{path}/rows?precision=s", content=text(40), headers=INFLUX)
    history = client.get(f"{path}/history?rows=10").json()
    out = client.get(f"{path}/lines?rows=10")
    assert out.headers["content-type"] == "text/plain; charset=utf-8"
    found = list(points(out.text))
    assert [point.measurement for point in found] == ["streamgp_prediction"] * 10
    assert [point.tags for point in found] == [{"stream": "s"}] * 10
    assert [point.time for point in found] == [10**9 * (START + 60 * i) for i in range(30, 40)]
    for name in ("observed", "mean", "lower", "upper"):
        assert [point.fields[name] for point in found] == history[name]


def test_an_alarm_goes_out_at_the_time_of_its_row():
    from streamgp.serve.messages import DriftEvent
    from streamgp.serve.ops import NO_POINTS

    events = [DriftEvent(2, 'alarm, "one row"', "alarm"), DriftEvent(2, "drift"), DriftEvent(9, "gone", "alarm")]
    (point,) = points(lines.out("s", [(2, START + 0.25)], NO_POINTS, events))
    assert point.time == 10**9 * START + 250_000_000
    assert point.fields == {"row": 2, "text": 'alarm, "one row"'}


def test_a_stream_without_times_has_no_lines(client):
    path = created(client)
    client.post(f"{path}/rows", json=[{"x": 1.0, "y": 2.0}] * 3)
    answer = client.get(f"{path}/lines")
    assert answer.status_code == 409
    assert "rows of s have no times" in answer.json()["error"]["message"]


def test_what_cannot_be_learned_is_refused_by_its_line_and_nothing_is_created(client):
    for body, query, status, message in (
        ("ok value=1 1\nm a=", "", 422, "line 2 is not line protocol: 'm a='"),
        ("m a=1,b=2 1", "", 422, "there is no stream 'm', and its lines do not tell what to predict: a, b; create it"),
        ('m a="text" 1', "", 422, "there is no stream 'm'"),
        ("", "", 422, "the body has no lines"),
        ("m time=1 1", "", 422, "line 1 has 'time' twice"),
        ("m a=1 1", "?precision=h", 422, "precision must be ns, us, ms or s; got 'h'"),
        ("m a=1 9223372036854775807", "", 204, ""),
    ):
        answer = client.post(f"/api/v2/write{query}", content=body)
        assert answer.status_code == status, answer.text
        if message:
            assert answer.json()["message"].startswith(message)
            assert answer.json()["error"]["message"] in answer.json()["message"]
            assert client.get("/v1/streams").json()["streams"] == []


def test_bodies_that_are_not_as_they_say_are_refused(client):
    for body, encoding, status, message in (
        (b"m a=1", "br", 415, "the body is encoded as 'br'"),
        (b"m a=1", "gzip", 400, "the body is not gzip"),
        (gzip.compress(b"m a=1")[:-9], "gzip", 400, "the body ends in the middle of its gzip data"),
        (gzip.compress(bytes(9 << 20)), "gzip", 413, "the body is longer than 8388608 bytes"),
        (b"m a=\xff", "", 400, "the body is not UTF-8"),
    ):
        answer = client.post("/api/v2/write", content=body, headers={"Content-Encoding": encoding})
        assert (answer.status_code, answer.json()["message"][: len(message)]) == (status, message)
    answer = client.post(f"{created(client)}/rows", content="a x=1\nb x=2", headers=INFLUX)
    assert "the lines are of 2 measurements: a, b" in answer.json()["error"]["message"]


def test_a_bad_row_of_one_series_leaves_the_others_learned(client):
    client.post("/api/v2/write?precision=s", content=text(60, "a") + text(60, "b"))
    answer = client.post("/api/v2/write?precision=s", content='a value="off" 1\n' + text(1, "b", 60))
    assert answer.status_code == 422
    rows = {one["name"]: one["rows"] for one in client.get("/v1/streams").json()["streams"]}
    assert rows == {"a": 60, "b": 61}


def test_new_series_become_streams_all_together_or_not_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "MOST_NEW", 3)
    with in_process(tmp_path, streams=4) as client:

        def write(*names):
            answer = client.post("/api/v2/write?precision=s", content="".join(text(2, name) for name in names))
            streams = client.get("/v1/streams").json()["streams"]
            return answer, {one["name"]: one["rows"] for one in streams}

        answer, streams = write("a", "b", "c", "d")
        assert (answer.status_code, answer.json()["code"], streams) == (413, "too_many_series", {})
        assert "the lines are of 4 new series; at most 3 become streams in one request" in answer.json()["message"]
        answer, streams = write("a", "b")
        assert (answer.status_code, streams) == (204, {"a": 2, "b": 2})
        body = text(1, "a", 2) + "".join(text(2, name) for name in ("c", "d", "e"))
        answer = client.post("/api/v2/write?precision=s", content=body)
        assert (answer.status_code, answer.json()["code"]) == (409, "too_many_streams")
        assert "this server allows 4 streams: it has 2, and the request asks for 3 more" in answer.json()["message"]
        answer, streams = write("c", "d")  # there is room for others still
        assert (answer.status_code, streams) == (204, {"a": 3, "b": 2, "c": 2, "d": 2})


def test_names_are_names_and_differ():
    series = [
        ("power", {}), ("power", {"a": "b"}), ("power", {"a": "b", "c": "d"}), ("power.a-b", {}),
        ("power", {"a-b": "c"}),
        ("power", {"a": "b-c"}), ("power", {"a_b": "c"}), ("power", {"a": "b.c"}), ("power", {"a": "b c"}), ("é", {}),
        ("_x", {}), ("x_x", {}), ("power", {"a": "b" * 200}), ("power", {"a": "b" * 201}), (" ", {}),
    ]  # fmt: skip
    names = [of_series(*one) for one in series] + [of_topic(one) for one in ("a/b", "a.b", "/a/b", "a//b", "a/b/", "+")]
    assert len(set(names)) == len(names)
    import re

    assert all(re.fullmatch(NAME, name) for name in names)
