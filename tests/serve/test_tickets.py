"""Late targets: tickets, in any order, once."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.job.pipeline import Pipeline
from streamgp.tables.encoding import EncodedRows
from tests.serve.running import created, in_process, rows


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with in_process(tmp_path_factory.mktemp("data")) as client:
        yield client


def predict(client, path, table):
    answer = client.post(f"{path}/predict", json=[{"x": row["x"]} for row in table])
    assert answer.status_code == 200, answer.text
    return answer.json()["rows"]


def bring(client, path, pairs):
    answer = client.post(f"{path}/targets", json=[{"ticket": ticket, "value": value} for ticket, value in pairs])
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_predicting_learns_nothing(client):
    path = created(client, "pure")
    client.post(f"{path}/rows", json=rows(60))
    before = client.get(f"{path}/snapshot").content
    first = predict(client, path, rows(3))
    assert client.get(f"{path}/snapshot").content == before
    again = predict(client, path, rows(3))
    assert [row["mean"] for row in first] == [row["mean"] for row in again]
    assert len({row["ticket"] for row in first + again}) == 6


def test_a_stream_can_live_on_late_targets_alone(client):
    path, table = created(client, "late"), rows(120)
    errors = []
    for row in table:
        (said,) = predict(client, path, [row])
        if said["mean"] is not None:
            errors.append(abs(said["mean"] - row["y"]))
        assert bring(client, path, [(said["ticket"], row["y"])])["learned"] == 1
    assert max(errors[-20:]) < 0.2 * max(errors)
    detail = client.get(path).json()
    assert detail["rows"] == 120
    assert detail["tickets"] == {"waiting": 0, "expired": 0}
    assert detail["scores"]["rows"] == len(errors) - 2  # the first two rows have no scale


def test_targets_come_in_any_order_and_count_once(client):
    path, table = created(client, "order"), rows(12)
    client.post(f"{path}/rows", json=rows(60))
    tickets = [row["ticket"] for row in predict(client, path, table)]
    pairs = [(ticket, row["y"]) for ticket, row in zip(tickets, table, strict=True)]
    found = bring(client, path, [pairs[7], pairs[2], pairs[7]])
    assert [target["status"] for target in found["targets"]] == ["learned", "learned", "known"]
    assert bring(client, path, pairs)["learned"] == 10
    assert bring(client, path, pairs)["learned"] == 0
    assert bring(client, path, [("nonsense", 1.0)])["targets"][0]["status"] == "unknown"


def test_the_oldest_ticket_expires_where_too_many_wait(client):
    path = created(client, "expiry", settings={"warmup": 20, "tune": False, "capacity": 10, "pending": 3})
    client.post(f"{path}/rows", json=rows(60))
    tickets = [row["ticket"] for row in predict(client, path, rows(5))]
    found = bring(client, path, [(ticket, 1.0) for ticket in tickets])
    assert [target["status"] for target in found["targets"]] == ["expired"] * 2 + ["learned"] * 3
    assert client.get(path).json()["tickets"] == {"waiting": 0, "expired": 2}


def test_late_targets_are_learned_as_the_library_learns_them(client):
    path, table = created(client, "same", lags=2), rows(80)
    client.post(f"{path}/rows", json=table[:60])
    snapshot = client.get(f"{path}/snapshot").content
    tickets = [row["ticket"] for row in predict(client, path, table[60:])]
    order = np.random.default_rng(0).permutation(20)
    bring(client, path, [(tickets[i], table[60 + i]["y"]) for i in order])
    pipeline = Pipeline.from_bytes(snapshot)
    X, y = np.array([[row["x"]] for row in table[60:]]), np.array([row["y"] for row in table[60:]])
    waits = pipeline.issue(EncodedRows(X, y, None, list(range(20)), []))
    for i in order:
        pipeline.resolve(waits[i : i + 1], y[i : i + 1])
    assert client.get(f"{path}/snapshot").content == pipeline.to_bytes()


def test_streams_that_cannot_wait_say_so(client):
    path = created(client, "ahead", horizon=2)
    client.post(f"{path}/rows", json=rows(30))
    answer = client.post(f"{path}/predict", json=[{"x": 1}])
    assert answer.status_code == 409
    assert "2 rows ahead" in answer.json()["error"]["message"]
    path = created(client, "memory", model="RLSESN", settings={"warmup": 20, "tune": False})
    client.post(f"{path}/rows", json=rows(30))
    assert "keeps a memory" in client.post(f"{path}/predict", json=[{"x": 1}]).json()["error"]["message"]
    path = created(client, "nothing")
    assert client.post(f"{path}/targets", json=[{"ticket": "a", "value": 1}]).status_code == 409


def test_rows_go_on_after_late_targets_have_passed_the_last_look_at_the_first_rows(tmp_path):
    with in_process(tmp_path) as client:
        path = created(client)
        client.post(f"{path}/rows", json=rows(290))
        tickets = [row["ticket"] for row in client.post(f"{path}/predict", json=[{"x": 3.0}] * 20).json()["rows"]]
        client.post(f"{path}/targets", json=[{"ticket": ticket, "value": 0.9} for ticket in tickets])
        answer = client.post(f"{path}/rows", json=rows(5, 290))
        assert answer.status_code == 200
        assert answer.json()["seen"] == 315
