"""The webhook: every alarm is posted, again if need be, and no stream waits for it."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
import time

import numpy as np
import pytest

from streamgp.serve import webhook
from streamgp.serve.webhook import Webhook
from tests.serve.running import created, in_process, rows


class Receiver:
    """Listens on loopback and answers with the statuses it is given, then with 200."""

    def __init__(self, *statuses):
        self.bodies, left, receiver = [], list(statuses), self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.bodies.append((self.headers["Content-Type"], json.loads(body)))
                self.send_response(left.pop(0) if left else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/alarms"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver(monkeypatch):
    monkeypatch.setattr(webhook, "PAUSE", 0.001)
    with contextlib.closing(Receiver(500, 429)) as found:
        yield found


def until(condition, wait=20.0):
    end = time.monotonic() + wait
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_an_alarm_of_a_stream_is_posted_until_it_is_taken(tmp_path, receiver):
    settings = {"capacity": 8, "tune": False, "warmup": 30, "alarms": 1e-3}
    noise = np.random.default_rng(0).normal(size=301)
    noisy = [row | {"y": row["y"] + e} for row, e in zip(rows(301), noise, strict=True)]
    with in_process(tmp_path, webhook=receiver.url) as client:
        path = created(client, "strange", settings=settings)
        client.post(f"{path}/rows", json=noisy[:300])
        before = client.get(path).json()["health"]["alarms"]
        client.post(f"{path}/rows", json=[noisy[300] | {"y": 60.0}])
        until(lambda: f'streamgp_webhook_total{{result="delivered"}} {before + 1}.0\n' in client.get("/metrics").text)
        metrics = client.get("/metrics").text
        assert 'streamgp_webhook_total{result="retried"} 2.0\n' in metrics
        assert 'streamgp_webhook_total{result="failed"} 0.0\n' in metrics
    kind, body = receiver.bodies[-1]
    assert kind == "application/json"
    assert (body["event"], body["stream"], body["row"]) == ("alarm", "strange", 301)
    assert body["text"].startswith("alarm, one row: 60 observed, ")


def test_alarms_that_nobody_takes_are_counted_and_too_many_dropped(monkeypatch):
    monkeypatch.setattr(webhook, "PAUSE", 0.001)
    monkeypatch.setattr(webhook, "MOST_WAITING", 3)
    with contextlib.closing(Receiver()) as gone:
        url = gone.url
    posting = Webhook(url)
    for row in range(50):
        posting.put("s", row, "alarm")
    posting.close()
    counts = posting.counts
    assert counts["delivered"] == 0
    assert counts["failed"] + counts["dropped"] == 50
    assert 3 <= counts["failed"] <= 50 - counts["dropped"]
    assert counts["retried"] == (webhook.ATTEMPTS - 1) * counts["failed"]


def test_what_waits_is_posted_when_the_server_stops():
    with contextlib.closing(Receiver()) as receiver:
        posting = Webhook(receiver.url)
        for row in range(20):
            posting.put("s", row, "alarm")
        posting.close()
        assert [body["row"] for _, body in receiver.bodies] == list(range(20))


def test_an_address_that_is_none_is_refused():
    for url in ("plant.example/alarms", "ftp://plant.example", "http://"):
        with pytest.raises(ValueError, match="--webhook takes an address such as http://127.0.0.1:9000/alarms; got"):
            Webhook(url)
