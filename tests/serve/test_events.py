"""Events: live, resumed, and never waited for."""

from __future__ import annotations

import asyncio
import json
import threading

import numpy as np
import pytest

from streamgp.serve import events
from streamgp.serve.events import Hub
from tests.serve.running import created, in_process, rows


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with in_process(tmp_path_factory.mktemp("data")) as client:
        yield client


class Listening(threading.Thread):
    """Collects events until it has so many rows."""

    def __init__(self, client, path, wanted, last=None):
        super().__init__(daemon=True)
        self.client, self.path, self.wanted, self.last = client, path, wanted, last
        self.events, self.ready = [], threading.Event()
        self.start()
        assert self.ready.wait(20)

    def rows(self):
        return [row for kind, data, _ in self.events if kind == "rows" for row in data["rows"]]

    def run(self):
        headers = {} if self.last is None else {"Last-Event-ID": str(self.last)}
        with self.client.stream("GET", f"{self.path}/events", headers=headers) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            kind = data = number = None
            for line in answer.iter_lines():
                self.ready.set()
                name, _, value = line.partition(": ")
                if name == "event":
                    kind = value
                elif name == "data":
                    data = json.loads(value)
                elif name == "id":
                    number = int(value)
                elif not line and kind:
                    self.events.append((kind, data, number))
                    kind = data = number = None
                    if len(self.rows()) >= self.wanted:
                        return


def test_rows_and_drift_are_sent_as_they_come(client):
    path = created(client, "live")
    listening = Listening(client, path, 60)
    for at in range(0, 60, 3):
        client.post(f"{path}/rows", json=rows(3, at))
    listening.join(20)
    assert [row["row"] for row in listening.rows()] == list(range(1, 61))
    assert listening.rows()[5].keys() == {"row", "observed", "mean", "lower", "upper"}
    assert "model" in [kind for kind, _, _ in listening.events]


def test_an_abnormal_row_is_an_event_a_change_and_a_count(client):
    settings = {"capacity": 8, "tune": False, "warmup": 30, "alarms": 1e-3}
    path = created(client, "strange", model="KRLST", settings=settings)
    noise = np.random.default_rng(0).normal(size=301)
    noisy = [row | {"y": row["y"] + e} for row, e in zip(rows(301), noise, strict=True)]
    client.post(f"{path}/rows", json=noisy[:300])
    listening = Listening(client, path, 2)
    client.post(f"{path}/rows", json=[noisy[300] | {"y": 60.0}])
    client.post(f"{path}/rows", json=rows(1, 301))
    listening.join(20)
    [event] = [data for kind, data, _ in listening.events if kind == "alarm"]
    assert event["row"] == 301
    assert event["text"].startswith("alarm, one row: 60 observed, ")
    detail = client.get(path).json()
    assert {"row": 301, "event": event["text"], "kind": "alarm"} in detail["drift"]
    assert (
        f'streamgp_alarms_total{{stream="strange"}} {detail["health"]["alarms"]}'
        in client.get("/metrics?streams=*").text
    )


def test_a_listener_that_comes_back_gets_what_it_missed_and_nothing_twice(client):
    path = created(client, "resumed")
    listening = Listening(client, path, 10)
    for at in range(0, 10, 5):
        client.post(f"{path}/rows", json=rows(5, at))
    listening.join(20)
    last = max(number for _, _, number in listening.events if number is not None)
    client.post(f"{path}/rows", json=rows(20, 10))
    back = Listening(client, path, 30, last)
    client.post(f"{path}/rows", json=rows(10, 30))
    back.join(20)
    assert [row["row"] for row in back.rows()] == list(range(11, 41))


def test_a_listener_that_comes_back_to_a_stream_that_was_made_anew_gets_its_rows(client):
    path = created(client, "anew")
    client.post(f"{path}/rows", json=rows(1))
    listening = Listening(client, path, 3, last=1000)
    client.post(f"{path}/rows", json=rows(3, 1))
    listening.join(20)
    assert [row["row"] for row in listening.rows()] == [2, 3, 4]


def test_a_large_batch_comes_in_several_events_of_which_the_last_has_the_id(client):
    path = created(client, "large")
    listening = Listening(client, path, 600)
    client.post(f"{path}/rows", json=rows(600))
    listening.join(20)
    blocks = [(len(data["rows"]), number) for kind, data, number in listening.events if kind == "rows"]
    assert [size for size, _ in blocks] == [250, 250, 100]
    assert blocks[0][1] is blocks[1][1] is None


def test_a_slow_listener_reads_at_once_what_came_meanwhile_and_nobody_waits():
    async def followed():
        hub, records, asked, health = Hub(), [], [], ["fine"]

        def read(after):
            asked.append(after)
            return [(seq, data) for seq, data in records if seq > after]

        following = hub.follow(0, read, lambda: health[0])
        assert (await anext(following)).startswith(b"retry: ")
        for seq in range(1, 301):
            records.append((seq, b"%d" % seq))
            hub.tell()
        assert [await anext(following) for _ in records] == [data for _, data in records]
        health[0] = "bad"
        hub.tell()
        assert await anext(following) == b'event: health\ndata: "bad"\n\n'
        assert asked == [0]
        hub.close()
        assert [data async for data in following] == []
        assert not hub.listeners

    asyncio.run(followed())


def test_asking_for_the_headers_of_events_ends_and_takes_no_place(client):
    path = created(client, "asked")
    for _ in range(2):  # on the same connection
        answer = client.head(f"{path}/events")
        assert (answer.status_code, answer.content) == (200, b"")
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert not client.service.streams["asked"].hub.listeners
    assert client.head(f"{path}/events/none").status_code == 404


def test_listeners_are_limited_and_a_removed_stream_ends_theirs(client, monkeypatch):
    path = created(client, "few")
    monkeypatch.setattr(events, "MOST_LISTENERS", 1)
    listening = Listening(client, path, 1)
    refused = client.get(f"{path}/events")
    assert refused.status_code == 429
    assert refused.headers["retry-after"]
    client.delete(path)
    listening.join(20)
    assert not listening.is_alive()
