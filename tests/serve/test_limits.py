"""Limits: what is too much is refused at once, and one stream does not hold up another."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest

from streamgp import Calibrated, DriftAware, Standardize
from streamgp.auto import forest
from streamgp.contract.within import all_arrays
from streamgp.job.named import model_names, value_of
from streamgp.process.memory import Reservoir
from streamgp.serve import cost, handlers, hosted, service
from streamgp.serve.described import check_settings, new_pipeline
from streamgp.serve.learner import Learner
from streamgp.serve.messages import RefusedError, StreamSettings
from streamgp.serve.ops import Op
from streamgp.tables.columns import Column, Schema
from tests.serve.running import JSON, QUICK, created, in_process, rows, settled


@pytest.fixture
def slow(monkeypatch):
    """Rows of the streams called slow wait for the event."""
    go, apply = threading.Event(), Learner.apply

    def waiting(self, op):
        if self.settings.target == "slow":
            assert go.wait(30)
        return apply(self, op)

    monkeypatch.setattr(Learner, "apply", waiting)
    yield go
    go.set()


def test_a_full_queue_is_answered_with_429_and_others_go_on(tmp_path, slow, monkeypatch):
    monkeypatch.setattr(hosted, "MOST_WAITING", 3)
    monkeypatch.setattr(handlers, "PATIENCE", 0.1)
    with in_process(tmp_path) as client, ThreadPoolExecutor(16) as many:
        path, other = created(client, "slow", target="slow"), created(client, "other")
        posts = [many.submit(client.post, f"{path}/rows", json=rows(1, target="slow")) for _ in range(16)]
        end = time.monotonic() + 20
        while sum(post.done() for post in posts) < 10 and time.monotonic() < end:
            time.sleep(0.01)
        refused = [post.result() for post in posts if post.done()]
        assert {answer.status_code for answer in refused} == {429}
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
        assert client.post(f"{other}/rows", json=rows(5)).status_code == 200
        assert client.get(path).status_code == 200  # what was there last
        assert client.get("/v1/streams").status_code == 200
        slow.set()
        answers = [post.result() for post in posts]
        done = [answer for answer in answers if answer.status_code == 200]
        assert {answer.status_code for answer in answers} == {200, 429}
        assert client.get(path).json()["rows"] == len(done)


def test_bodies_are_limited_by_what_they_say_and_by_what_they_are(tmp_path):
    with in_process(tmp_path, body=2000) as client:
        path = created(client)
        told = client.post(f"{path}/rows", json=rows(200))
        untold = client.post(f"{path}/rows", content=(b" " * 100 for _ in range(100)), headers=JSON)
        for answer in (told, untold):
            assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_long")
        assert client.post(f"{path}/rows", json=rows(3)).status_code == 200


def test_streams_are_limited(tmp_path):
    with in_process(tmp_path, streams=2) as client:
        created(client, "a")
        created(client, "b")
        refused = client.put("/v1/streams/c", json=QUICK)
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "too_many_streams")
        client.delete("/v1/streams/a")
        created(client, "c")


@pytest.mark.parametrize(
    ("model", "settings", "why"),
    [
        ("KRLST", {"capacity": "100000"}, "it takes 298 GiB of memory; a server allows 1 GiB"),
        ("KRLST", {"capacity": 10**15}, "GiB of memory"),
        ("OnlineGP", {"features": "Fourier(100000)"}, "it takes 596 GiB of memory"),
        ("OnlineGP", {"features": "Basis()", "budget": "Budget(50000)"}, "GiB of memory"),
        ("OnlineGP", {"features": "Basis()", "budget": "Budget()", "budget__capacity": 50000}, "GiB of memory"),
        ("OnlineGP", {"features": "Basis()", "memory": "Window(1000000000)"}, "GiB of memory"),
        ("LWPR", {"depth": 100_000}, "GiB of memory"),
        ("LocalGP", {"capacity": 100_000}, "GiB of memory"),
        ("auto", {"capacity": 4000}, "GiB of memory"),
        ("OESGP", {"units": 3000}, "its reservoir has 3000 units; a server allows 1000"),
        ("OESGP", {"reservoir": "Reservoir(3000)"}, "its reservoir has 3000 units"),
        ("OESGP", {"reservoir": "Reservoir(10)", "reservoir__units": 3000}, "its reservoir has 3000 units"),
        ("RLSESN", {"reservoir": "Reservoir(3000)"}, "its reservoir has 3000 units"),
        ("SGDESN", {"units": 3000}, "its reservoir has 3000 units"),
        ("SOGP", {"capacity": 2500, "adapt": "SNGD()"}, "adapt works on 2501 basis points or weights"),
        ("SOGP", {"kernel": "+".join(["Constant()"] * 90), "depth": 1000}, "the terms of its kernel"),
        ("KLMS", {"kernel": "+".join(["Constant()"] * 90), "capacity": 30_000, "depth": 100}, "multiplications"),
    ],
)
def test_a_model_that_would_be_too_large_is_refused_whichever_part_makes_it_so(monkeypatch, model, settings, why):
    monkeypatch.setattr(np.linalg, "eigvals", None)  # nothing is built
    with pytest.raises(RefusedError, match=re.escape(why)) as refused:
        check_settings(StreamSettings("y", model=model, settings=settings | {"tune": False}))
    assert (refused.value.status, refused.value.code) == (422, "too_large")
    assert refused.value.hint.startswith("use ")


@pytest.mark.parametrize("model", ["auto", *model_names()])
def test_every_model_is_allowed_with_its_own_settings(model):
    needs = {
        "OnlineGP": {"features": "Fourier()"},
        "RecursiveGP": {"basis": "[[0.0], [1.0]]"},
        "Encoded": {
            "encoder": "TrainedEncoder('rnn', inputs=1, depth=2, units=1, weights=[1.0, 0.5, 0.0, 0.0])",
            "model": "KRLST()",
        },
    }
    check_settings(StreamSettings("y", model=model, settings=needs.get(model, {})))


@pytest.mark.parametrize("model", ["KRLST()", "KLMS()", "LocalGP()", "LWPR()", "ISSGPR(20)", "RLSESN(units=20)"])
def test_the_cost_of_a_model_is_what_it_allocates_and_measuring_allocates_nothing(monkeypatch, model):
    whole = Calibrated(DriftAware(Standardize(value_of(model), warmup=50))) if model == "KRLST()" else value_of(model)
    zeros = np.zeros
    with monkeypatch.context() as patch:
        patch.setattr(np, "zeros", lambda *args, **rest: zeros(*args, **rest) if np.prod(args[0]) < 1000 else None)
        said = cost.measured(whole, 3)
    whole.learn_many(np.eye(3), np.arange(3.0))
    state = sum(array.nbytes for array in all_arrays(whole).values())
    assert 0.8 * state < said.bytes < 3 * state  # what outlives no row counts, too


def test_the_cost_of_auto_is_that_of_the_sizes_its_budget_pays_for(monkeypatch):
    monkeypatch.setattr(cost, "MEMORY", 10_000_000)
    check_settings(StreamSettings("y", settings={"budget": "50us"}))
    with pytest.raises(RefusedError, match="auto with one input is too large"):
        check_settings(StreamSettings("y"))


def test_a_stream_has_trees_or_goes_without_as_a_run_does(monkeypatch):
    schema = Schema((Column("x", "number"), Column("y", "number")), "y", ("x",))
    settings = StreamSettings("y", settings={"trees": False})
    check_settings(settings)
    assert new_pipeline(settings, schema).model.get_params()["trees"] is False
    monkeypatch.setattr(forest, "_library", lambda: "No trees, because LightGBM is not installed; nothing helps.")
    with pytest.raises(RefusedError, match="`trees`: No trees, because LightGBM is not installed"):
        check_settings(StreamSettings("y", settings={"trees": True}))


def test_rows_that_make_a_stream_too_large_are_refused_and_nothing_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(cost, "MEMORY", 4_000_000)
    with in_process(tmp_path) as client:
        path = created(client)
        wide = [{f"x{i}": float(i * k) for i in range(200)} | {"y": float(k)} for k in range(3)]
        answer = client.post(f"{path}/rows", json=wide)
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "too_large")
        assert "KRLST with 200 inputs is too large" in answer.json()["error"]["message"]
        assert client.post(f"{path}/rows", json=rows(30)).json()["seen"] == 30


def test_horizons_and_waiting_rows_count_as_memory():
    with pytest.raises(RefusedError, match="GiB of memory"):
        check_settings(StreamSettings("y", lags=999, horizon=100_000, model="KRLST"))
    with pytest.raises(RefusedError, match="pending must be a whole number of at most 100000; got 100001"):
        check_settings(StreamSettings("y", settings={"pending": 100_001}))
    with pytest.raises(RefusedError, match="warmup must be a whole number of at most 10000; got 20000"):
        check_settings(StreamSettings("y", settings={"warmup": "20000"}))
    many = StreamSettings("y", model="KRLST", settings={"pending": 100_000, "tune": False, "capacity": 5})
    wide = Op("rows", rows=[{f"x{i}": float(i) for i in range(500)} | {"y": 1.0}])
    with pytest.raises(RefusedError, match="rows that wait for their targets take .* GiB of memory; a server allows"):
        Learner(many, "").apply(wide)
    check_settings(StreamSettings("y", settings={"pending": "500"}))  # as text, which is what push sends


def test_a_stream_that_has_become_too_large_fails_alone_and_is_never_built(tmp_path, monkeypatch):
    ways = {"replayed": lambda: b"", "loaded": None}
    with in_process(tmp_path) as client:
        for name, save in ways.items():
            path = created(client, name, model="SGDESN", settings={"units": 60, "tune": False, "warmup": 20})
            client.post(f"{path}/rows", json=rows(30))
            if save is not None:
                client.service.streams[name].save = save  # as after kill -9: there is no snapshot
        client.post(f"{created(client, 'other')}/rows", json=rows(30))
    monkeypatch.setattr(cost, "UNITS", 50)
    monkeypatch.setattr(Reservoir, "drawn_radius", None)
    with in_process(tmp_path) as client:
        assert client.post("/v1/streams/other/rows", json=rows(1)).status_code == 200
        for name in ways:
            answer = client.post(f"/v1/streams/{name}/rows", json=rows(1))
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "failed")
            assert "its reservoir has 60 units; a server allows 50" in answer.json()["error"]["message"]
            assert settled(client, name)["state"] == "failed"


def test_many_clients_of_one_stream_get_every_row_number_once(tmp_path):
    with in_process(tmp_path) as client, ThreadPoolExecutor(8) as many:
        path = created(client)
        answers = list(many.map(lambda i: client.post(f"{path}/rows", json=rows(2, i)).json(), range(40)))
    assert sorted(row["row"] for answer in answers for row in answer["rows"]) == list(range(1, 81))


def test_a_server_stops_while_a_stream_is_at_work_and_keeps_what_was_answered(tmp_path, slow, monkeypatch):
    monkeypatch.setattr(service, "STOPPING", 0.2)
    with in_process(tmp_path) as client, ThreadPoolExecutor(1) as one:
        path, other = created(client, "slow", target="slow"), created(client, "other")
        client.post(f"{other}/rows", json=rows(5))
        post = one.submit(client.post, f"{path}/rows", json=rows(1, target="slow"))
        end = time.monotonic() + 20
        while client.service.streams["slow"]._task is None and time.monotonic() < end:
            time.sleep(0.01)
        client.server.should_exit = True
        with contextlib.suppress(httpx.TransportError):
            assert post.result().status_code >= 500
        while client.service._finished and time.monotonic() < end:
            time.sleep(0.01)
        assert not client.service.close()
        slow.set()
    with in_process(tmp_path) as client:
        assert settled(client, "other")["rows"] == 5
        assert settled(client, "slow")["rows"] == 0


@pytest.mark.parametrize("size", [2_000, 20_000_000])
def test_a_client_that_sends_all_before_it_listens_sees_why_its_body_is_refused(tmp_path, size):
    with in_process(tmp_path, body=1024) as client:
        created(client)
        for method, path in (("POST", "/v1/streams/s/rows"), ("PUT", "/v1/streams/s"), ("POST", "/v1/nothing")):
            url = f"{str(client.base_url).rstrip('/')}{path}"
            request = urllib.request.Request(url, bytes(size), {"Content-Type": "application/json"}, method=method)
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=30)
            assert refused.value.code == (404 if path == "/v1/nothing" else 413)
            refused.value.close()


def test_a_client_that_asks_before_it_sends_is_refused_at_once(tmp_path):
    ask = (
        b"POST /v1/streams/s/rows HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999\r\nExpect: 100-continue\r\n\r\n"
    )
    with in_process(tmp_path, body=1024) as client:
        created(client)
        with socket.create_connection((client.base_url.host, client.base_url.port), timeout=30) as one:
            one.sendall(ask)
            assert one.recv(65536).startswith(b"HTTP/1.1 413")
