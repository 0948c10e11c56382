"""Limits: what is too much is refused at once, and one stream does not hold up another."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from streamgp.serve import hosted, routes, service
from streamgp.serve.learner import Learner
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
    monkeypatch.setattr(routes, "PATIENCE", 0.1)
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


def test_settings_that_would_take_all_memory_are_refused(tmp_path):
    with in_process(tmp_path) as client:
        answer = client.put("/v1/streams/s", json=QUICK | {"settings": {"capacity": "100000"}})
        assert "at most 2000 on a server" in answer.json()["error"]["message"]


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
        while not client.service.streams["slow"]._working and time.monotonic() < end:
            time.sleep(0.01)
        assert not client.service.close()
        slow.set()
        assert post.result().status_code == 503
    with in_process(tmp_path) as client:
        assert settled(client, "other")["rows"] == 5
        assert settled(client, "slow")["rows"] == 0
