"""Snapshots: a stream moves between service, command line and notebook, and goes on bit for bit."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

import streamgp as sg
from streamgp.job import Job
from streamgp.process.memory import Reservoir
from streamgp.serve import cost
from tests.serve.running import created, in_process, rows

SETTINGS = {"warmup": 20, "tune": False, "capacity": 10}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with in_process(tmp_path_factory.mktemp("data")) as client:
        yield client


def table(path, some):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, some[0])
        writer.writeheader()
        writer.writerows(some)
    return path


def test_a_run_of_the_command_line_goes_on_in_the_service_and_back(client, tmp_path):
    first, then, last = (table(tmp_path / f"{i}.csv", rows(80, 80 * i)) for i in range(3))
    whole = table(tmp_path / "whole.csv", rows(240))
    Job(first, "y", model="KRLST", settings=SETTINGS, lags=2, save=tmp_path / "one.sgp").run()
    saved = (tmp_path / "one.sgp").read_bytes()
    answer = client.put("/v1/streams/moved/snapshot", content=saved)
    assert answer.status_code == 201
    assert answer.json()["rows"] == 80
    assert client.get("/v1/streams/moved/snapshot").content == saved
    sent = client.post("/v1/streams/moved/rows", content=then.read_bytes(), headers={"Content-Type": "text/csv"})
    assert sent.json()["seen"] == 160
    (tmp_path / "two.sgp").write_bytes(client.get("/v1/streams/moved/snapshot").content)
    Job(last, load=tmp_path / "two.sgp", save=tmp_path / "three.sgp", out=tmp_path / "moved.csv").run()
    Job(whole, "y", model="KRLST", settings=SETTINGS, lags=2, out=tmp_path / "stayed.csv").run()
    moved, stayed = ((tmp_path / name).read_text().splitlines() for name in ("moved.csv", "stayed.csv"))
    assert moved[1:] == stayed[161:]


def test_a_run_with_settings_of_numpy_goes_on_in_the_service(client, tmp_path):
    kernel = sg.SquaredExponential(np.linspace(1.0, 2.0, 10))
    first, whole = table(tmp_path / "a.csv", rows(60)), table(tmp_path / "whole.csv", rows(70))
    settings = SETTINGS | {"kernel": kernel}
    Job(first, "y", ["x"], model="KRLST", settings=settings, lags=9, save=tmp_path / "a.sgp").run()
    answer = client.put("/v1/streams/numpy/snapshot", content=(tmp_path / "a.sgp").read_bytes())
    assert answer.status_code == 201, answer.text
    sent = client.post("/v1/streams/numpy/rows", json=rows(10, 60))
    Job(whole, "y", ["x"], model="KRLST", settings=settings, lags=9, out=tmp_path / "whole.ndjson").run()
    expected = [json.loads(line)["mean"] for line in (tmp_path / "whole.ndjson").read_text().splitlines()]
    assert [row["mean"] for row in sent.json()["rows"]] == expected[60:]
    assert client.post("/v1/streams/numpy/predict", json=[{"x": 1.0}]).status_code == 200
    assert client.get("/v1/streams/numpy").json()["settings"]["settings"]["kernel"] == str(kernel)


def test_a_snapshot_replaces_a_stream_and_its_tickets_and_history(client):
    path, other = created(client, "from"), created(client, "to")
    client.post(f"{path}/rows", json=rows(60))
    client.post(f"{other}/rows", json=rows(90))
    ticket = client.post(f"{other}/predict", json=[{"x": 1.0}]).json()["rows"][0]["ticket"]
    answer = client.put(f"{other}/snapshot", content=client.get(f"{path}/snapshot").content)
    assert (answer.status_code, answer.json()["rows"]) == (200, 60)
    assert client.post(f"{other}/targets", json=[{"ticket": ticket, "value": 1}]).json()["targets"] == [
        {"ticket": ticket, "status": "unknown"}
    ]
    client.post(f"{other}/rows", json=rows(5))
    assert client.get(f"{other}/history").json()["row"] == [61, 62, 63, 64, 65]


@pytest.mark.parametrize("data", [b"", b"nonsense", b"x" * 5000])
def test_a_file_that_is_no_snapshot_is_refused(client, data):
    answer = client.put("/v1/streams/none/snapshot", content=data)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "bad_snapshot")
    assert client.get("/v1/streams/none").status_code == 404


def test_a_damaged_snapshot_is_refused_and_a_stream_without_rows_has_none(client):
    path = created(client, "source")
    assert client.get(f"{path}/snapshot").json()["error"]["code"] == "no_rows_yet"
    client.post(f"{path}/rows", json=rows(60))
    data = bytearray(client.get(f"{path}/snapshot").content)
    data[-100] ^= 1
    assert "damaged" in client.put(f"{path}/snapshot", content=bytes(data)).json()["error"]["message"]
    assert client.get(path).json()["rows"] == 60


def test_a_run_with_a_ticket_column_goes_on_with_it(client, tmp_path):
    some = [{"id": f"r{i}", "x": row["x"], "y": row["y"]} for i, row in enumerate(rows(60))]
    file = table(tmp_path / "tickets.csv", some)
    Job(file, "y", model="KRLST", settings=SETTINGS, ticket="id", save=tmp_path / "t.sgp").run()
    client.put("/v1/streams/ticketed/snapshot", content=(tmp_path / "t.sgp").read_bytes())
    path = "/v1/streams/ticketed/rows"
    assert len(client.post(path, json=[{"id": "new", "x": 3.0, "y": None}]).json()["rows"]) == 1
    assert client.post(path, json=[{"id": "new", "y": 0.9}]).json()["rows"] == []
    assert client.get("/v1/streams/ticketed").json()["scores"]["rows"] == 59  # the first two rows have no scale


def test_a_snapshot_may_be_longer_than_other_bodies(tmp_path):
    with in_process(tmp_path, body=20_000) as client:
        path = created(client, settings={"tune": False, "capacity": 60})
        client.post(f"{path}/rows", json=rows(60))
        data = client.get(f"{path}/snapshot").content
        assert len(data) > 20_000
        assert client.put("/v1/streams/copy/snapshot", content=data).status_code == 201
        assert client.get("/v1/streams/copy/snapshot").content == data
        assert client.put("/v1/streams/copy", content=data).status_code == 413


def test_a_snapshot_longer_than_any_stream_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(cost, "MEMORY", 1000)
    with in_process(tmp_path, body=2000) as client:
        answer = client.put("/v1/streams/s/snapshot", content=bytes(3001))
        assert (answer.status_code, answer.json()["error"]["hint"]) == (413, "no stream of this server can be so large")


@pytest.mark.parametrize(("limit", "most"), [("UNITS", 20), ("MEMORY", 5000)])
def test_a_snapshot_of_a_model_that_is_too_large_is_refused_before_it_is_built(tmp_path, monkeypatch, limit, most):
    settings = {"units": 30, "tune": False, "warmup": 20}
    with in_process(tmp_path) as client:
        path = created(client, model="SGDESN", settings=settings)
        client.post(f"{path}/rows", json=rows(30))
        data = client.get(f"{path}/snapshot").content
        monkeypatch.setattr(cost, limit, most)
        monkeypatch.setattr(Reservoir, "drawn_radius", None)
        answer = client.put("/v1/streams/copy/snapshot", content=data)
        assert answer.status_code == 422
        assert "a server allows" in answer.json()["error"]["message"]
        assert client.get("/v1/streams/copy").status_code == 404
