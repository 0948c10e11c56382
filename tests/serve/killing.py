"""Servers that are killed at random moments under load, and what their clients must see.

A process that has loaded everything forks the servers, so that a start takes a moment instead of seconds. Every other
server takes snapshots all the time; the others replay their journals.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx

from tests.serve.running import QUICK

ZYGOTE = """
import os, sys
from streamgp.serve import hosted, server
from streamgp.serve.learner import Learner
from streamgp.serve.ops import Op
from streamgp.serve.messages import StreamSettings
learner = Learner(StreamSettings("y", model="KRLST", settings={"tune": False, "warmup": 20}), "")
learner.apply(Op("rows", rows=[{"x": float(i % 7), "y": float(i % 5)} for i in range(60)]))
server._warm_up = lambda service: None
print("ready", flush=True)
for line in sys.stdin:
    folder, port = line.split()
    child = os.fork()
    if not child:
        os.close(0)
        if os.getpid() % 2:  # snapshots every few requests, so that servers are killed between and within them
            hosted.REPLAY, hosted.SNAPSHOT_SHARE = 0.02, 0.0
        try:
            server.serve(folder, port=int(port))
            os._exit(0)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
    print(child, flush=True)
    os.waitpid(child, 0)
    print("ended", flush=True)
"""


class Killable:
    """A server on a fixed port that is killed and started again.

    Args:
        folder: of its data.
    """

    def __init__(self, folder):
        self.folder, self.port = folder, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._zygote = subprocess.Popen(
            [sys.executable, "-c", ZYGOTE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._zygote.stdout.readline() == "ready\n"
        self.pid = 0
        self.start()

    def start(self):
        self._zygote.stdin.write(f"{self.folder} {self.port}\n")
        self._zygote.stdin.flush()
        self.pid = int(self._zygote.stdout.readline())

    def kill(self, number=signal.SIGKILL):
        os.kill(self.pid, number)
        assert self._zygote.stdout.readline() == "ended\n"
        self.pid = 0

    def close(self):
        if self.pid:
            self.kill(signal.SIGTERM)
        self._zygote.stdin.close()
        self._zygote.wait(timeout=30)
        self._zygote.stdout.close()


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


FLEET = {"target": "y", "inputs": ["x"], "lags": 1, "size": 30, "settings": {"capacity": 5, "pending": 50}}


def path_of(stream):
    """Streams whose names begin with an f are fleets."""
    return f"/v1/{'fleets' if stream.startswith('f') else 'streams'}/{stream}"


def script(stream, requests, seed):
    """What a client asks of its stream, one after the other: rows, predictions, targets of any earlier ticket."""
    rng = random.Random(seed)
    if stream.startswith("f"):  # which predicts nothing for an id before its first target
        yield "rows", [{"id": f"s{i}", "x": 0.5, "y": float(i)} for i in range(20)], f"{stream}-first"
    waiting, predicted = [], 0
    for number in range(requests):
        kind = rng.choices(["rows", "predict", "targets"], [6, 2, 3 if waiting else 0])[0]
        if kind == "targets":
            some = [waiting.pop(rng.randrange(len(waiting))) for _ in range(min(len(waiting), rng.randint(1, 4)))]
            body = [{"ticket": ticket, "value": rng.gauss(0, 1)} for ticket in some]
        else:
            n = rng.choice([1, 1, 1, 2, 10, 40])
            body = [{"x": rng.gauss(0, 1), "z": rng.choice(["a", "b"])} for _ in range(n)]
            if stream.startswith("f"):
                body = [{"id": f"s{rng.randrange(20)}", "x": row["x"]} for row in body]
            if kind == "rows":
                body = [row | {"y": row["x"] ** 2 + rng.gauss(0, 0.1) if rng.random() < 0.9 else None} for row in body]
            else:
                waiting += range(predicted, predicted + n)
                predicted += n
        yield kind, body, f"{stream}-{number}"


class Client:
    """Does a script, and repeats every request until it is answered.

    Args:
        url: of the server.
        stream: its name.
        script: what to ask.
        end: when to give up, by the monotonic clock.
    """

    def __init__(self, url, stream, script, end):
        self.answers, self.repeats, self.failure = [], 0, None
        self._stream, self._script, self._end, self._tickets = stream, list(script), end, []
        self._http = httpx.Client(base_url=url, timeout=30)
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        try:
            path = path_of(self._stream)
            self._ask("PUT", path, FLEET if self._stream.startswith("f") else QUICK | {"lags": 1}, None)
            for kind, body, key in self._script:
                if kind == "targets":
                    body = [{**target, "ticket": self._tickets[target["ticket"]]} for target in body]
                answer = self._ask("POST", f"{path}/{kind}", body, key)
                self._tickets += [row["ticket"] for row in answer["rows"]] if kind == "predict" else []
                self.answers.append(json.dumps(untagged(answer)))
        except BaseException as error:
            self.failure = error
        finally:
            self._http.close()

    def _ask(self, method, path, body, key):
        while True:
            assert time.monotonic() < self._end, "no answer in time"
            with contextlib.suppress(httpx.TransportError):
                answer = self._http.request(method, path, json=body, headers={"Idempotency-Key": key} if key else {})
                if answer.status_code < 300:
                    return answer.json()
                assert answer.status_code in (429, 503, 507), answer.text
            self.repeats += 1
            time.sleep(0.02)


def untagged(answer):
    """An answer without the random beginning of its tickets."""
    for row in answer.get("rows", []) + answer.get("targets", []):
        if "ticket" in row:
            row["ticket"] = row["ticket"].partition("-")[2]
    return answer


def final(url, streams):
    """What is left of the streams in the end: snapshot, rows and history."""
    with httpx.Client(base_url=url, timeout=60) as http:
        found = {}
        for stream in streams:
            path = path_of(stream)
            snapshot = http.get(f"{path}/snapshot").content  # its turn comes after all that was asked before
            history = http.get(f"{path}/history", params={"rows": 100_000, "points": 5000, "id": "s3"}).json()
            found[stream] = {
                "snapshot": snapshot,
                "rows": http.get(path).json()["rows"],
                "history": history["row"],
                "means": history["mean"],
            }
        return found


def run(server, scripts, kills, seed, within, disturb=None):
    """Let clients do their scripts while the server is killed so many times; their answers, and what is left.

    Args:
        server: that is killed.
        scripts: by stream.
        kills: how often.
        seed: of the moments.
        within: seconds for everything.
        disturb: called instead of a kill; None: kill -9 and start again.
    """
    rng, end = random.Random(seed), time.monotonic() + within
    clients = {stream: Client(server.url, stream, script, end) for stream, script in scripts.items()}
    done = 0
    while done < kills and any(client.thread.is_alive() for client in clients.values()):
        time.sleep(rng.uniform(0.0, 0.5))
        if disturb is None:
            server.kill()
            server.start()
        else:
            disturb()
        done += 1
    for client in clients.values():
        client.thread.join(max(0.0, end - time.monotonic()) + 1.0)
        if client.failure is not None:
            raise client.failure
    answers = {stream: client.answers for stream, client in clients.items()}
    return answers, final(server.url, scripts), done, sum(client.repeats for client in clients.values())


def check(found, expected, scripts):
    """Every answered row is there once, and all answers and states are those of a server that was never disturbed."""
    answers, left = found
    for stream, script in scripts.items():
        assert answers[stream] == expected[0][stream], stream
        assert left[stream] == expected[1][stream], stream
        assert left[stream]["history"] == sorted(set(left[stream]["history"])), stream
        assert len(answers[stream]) == len(script)
