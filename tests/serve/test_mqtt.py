"""MQTT with a real broker on loopback, and with a played one that breaks off anywhere: every message counts once."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from datetime import datetime
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("paho.mqtt.client", reason="needs paho-mqtt")

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from streamgp.cli.app import app
from streamgp.serve import mqtt
from streamgp.serve.mqtt import Bridge, Bridging, Notes, rows_of
from streamgp.serve.naming import of_topic
from streamgp.serve.sending import Sender, SendError
from streamgp.tables.source import RowsError
from tests.serve.running import QUICK, created, in_process
from tests.serve.test_webhook import until

MOSQUITTO = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin")
needs_broker = pytest.mark.skipif(not MOSQUITTO, reason="needs mosquitto")
OF_VALUES = QUICK | {"target": "value"}


class Broker:
    """A broker on loopback that can be stopped and started again."""

    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._file = folder / "mosquitto.conf"
        lines = (f"listener {self.port} 127.0.0.1", "allow_anonymous true", "persistence true", "user root")
        more = ("max_queued_messages 0", f"persistence_location {folder}/", "")
        self._file.write_text("\n".join([*lines, *more]))
        self.url = f"mqtt://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        command = [MOSQUITTO, "-c", str(self._file)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(self._answers)

    def _answers(self):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def close(self):
        self._process.terminate()
        self._process.wait(20)


class Plant:
    """A client that sends values and notes down what is published."""

    def __init__(self, port):
        self.got = []
        self._subscribed = threading.Event()
        self.client = Client(CallbackAPIVersion.VERSION2, "plant", clean_session=False)
        self.client.on_connect = lambda client, *_: client.subscribe("streamgp/#", 1)
        self.client.on_subscribe = lambda *_: self._subscribed.set()
        self.client.on_message = lambda _, __, message: self.got.append((message.topic, message.payload))
        self.client.reconnect_delay_set(1, 1)
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        assert self._subscribed.wait(20)

    def send(self, topic, payload, retain=False):
        self.client.publish(topic, payload, qos=1, retain=retain).wait_for_publish(40)

    def last(self, topic):
        found = [payload for at, payload in self.got if at == topic]
        return json.loads(found[-1]) if found else {}

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()


@pytest.fixture
def broker(tmp_path):
    folder = tmp_path / "broker"
    folder.mkdir()
    with contextlib.closing(Broker(folder)) as found:
        yield found


@pytest.fixture
def plant(broker):
    with contextlib.closing(Plant(broker.port)) as found:
        yield found


@pytest.fixture
def client(tmp_path):
    with in_process(tmp_path / "data") as found:
        yield found


@contextlib.contextmanager
def bridged(folder, broker, client, settings=OF_VALUES):
    """A bridge at work in a thread."""
    stop, done = threading.Event(), []
    sender = Sender(str(client.base_url).rstrip("/"), "", 30.0, stop, lambda _: None)
    bridging = Bridging(broker.url, ("plant/+/power", "room/#"), settings)
    bridge = Bridge(bridging, sender, folder / "state", stop, lambda _: None)
    thread = threading.Thread(target=lambda: done.append(bridge.run()))
    thread.start()
    try:
        until(lambda: bridge._connected.is_set() or done)
        yield bridge
    finally:
        stop.set()
        thread.join(30)
        sender.close()
    assert done


def observed(client, name):
    return client.get(f"/v1/streams/{name}/history", params={"rows": 10**6, "points": 5000}).json()["observed"]


@needs_broker
def test_topics_become_streams_and_predictions_come_back(tmp_path, broker, plant, client):
    created(client, "room.kitchen")  # which predicts y
    plant.send("room/kitchen", "7", retain=True)
    with bridged(tmp_path, broker, client) as bridge:
        for i in range(12):
            plant.send("plant/north/power", f"{10 + i % 3}.5")
            plant.send("room/kitchen", json.dumps({"x": i % 3, "y": i % 3 + 1.0}))
        until(lambda: bridge.counts["learned"] == 24)
        assert bridge.counts["retained"] == 1  # sent before, so that it would be learned again at every connection
        found = {one["name"]: (one["target"], one["rows"]) for one in client.get("/v1/streams").json()["streams"]}
        assert found == {"plant.north.power": ("value", 12), "room.kitchen": ("y", 12)}
        until(lambda: plant.last("streamgp/plant.north.power/state").get("row") == 12)
        state = plant.last("streamgp/plant.north.power/state")
        assert (state["topic"], state["observed"]) == ("plant/north/power", 12.5)
        history = client.get("/v1/streams/plant.north.power/history").json()
        assert [state[name] for name in ("mean", "lower", "upper")] == [
            history[name][-1] for name in ("mean", "lower", "upper")
        ]
    until(lambda: [payload for topic, payload in plant.got if topic == "streamgp/status"] == [b"online", b"offline"])


@needs_broker
def test_an_alarm_is_published_and_a_message_that_is_no_row_is_told(tmp_path, broker, plant, client):
    settings = OF_VALUES | {"settings": {"capacity": 8, "tune": False, "warmup": 30, "alarms": 1e-3}}
    noise = np.random.default_rng(0).normal(size=300)
    with bridged(tmp_path, broker, client, settings) as bridge:
        plant.send("room/a", json.dumps([{"x": float(i % 11), "value": i % 11 + e} for i, e in enumerate(noise)]))
        plant.send("room/a", json.dumps({"x": 1.0, "value": 60.0}))
        until(lambda: plant.last("streamgp/room.a/alarm").get("row") == 301)
        assert plant.last("streamgp/room.a/alarm")["text"].startswith("alarm, one row: 60 observed")
        for payload, message in (
            (b"hello", "it is neither a number nor rows as JSON"),
            (b'{"x": "text", "value": 1}', "row 1 "),
        ):
            plant.send("room/a", payload)
            until(lambda message=message: plant.last("streamgp/room.a/error").get("message", "").startswith(message))
        assert bridge.counts["refused"] == 2
        assert client.get("/v1/streams/room.a").json()["rows"] == 301


@pytest.mark.more
@needs_broker
def test_a_client_that_is_killed_and_a_broker_that_is_restarted_lose_and_repeat_nothing(
    tmp_path, broker, plant, client
):
    sent = {f"plant/{name}/power": [] for name in ("north", "south", "west")}
    for topic in sent:
        created(client, of_topic(topic), target="value")

    def send():
        for i in range(900):
            topic, value = f"plant/{('north', 'south', 'west')[i % 3]}/power", float(i % 4)
            sent[topic].append(value)
            plant.send(topic, json.dumps({"value": value}))

    command = [sys.executable, "-m", "streamgp", "mqtt", "--broker", broker.url, "--topic", "plant/+/power"]
    more = ["--to", str(client.base_url).rstrip("/"), "--state", str(tmp_path / "state")]

    def started():
        return subprocess.Popen([*command, *more], stderr=subprocess.DEVNULL)

    def learned():
        return sum(one["rows"] for one in client.get("/v1/streams").json()["streams"])

    bridge = started()
    try:
        until(lambda: ("streamgp/status", b"online") in plant.got, 240)
        sending = threading.Thread(target=send)
        sending.start()
        for count in (100, 250, 400, 550, 700):
            until(lambda count=count: learned() >= count, 240)
            if count in (250, 550):
                broker.close()
                broker.start()
            else:
                bridge.kill()
                bridge.wait(20)
                before = len(plant.got)
                bridge = started()
        sending.join(240)
        until(lambda: learned() >= 900, 240)
        until(lambda: ("streamgp/status", b"online") in plant.got[before:], 240)  # the one before may have sent all
        bridge.send_signal(signal.SIGTERM)
        assert bridge.wait(60) == 0
    finally:
        bridge.kill()
        bridge.wait(20)
    for topic, values in sent.items():
        assert observed(client, of_topic(topic)) == values


class Played:
    """A broker with a window of five messages, which it numbers up to twelve and then from 1 again.

    It brings again what was not acknowledged, marked as such, as MQTT wants it. It is the client's library, too.
    """

    WINDOW, NUMBERS = 5, 12

    def __init__(self, messages, seed):
        self.messages, self.sent, self.next = messages, {}, 0  # by number: which message has not been acknowledged
        self.random, self.stop, self.is_lost = random.Random(seed), None, False

    def __getattr__(self, _):
        return lambda *_, **__: None

    def client(self, *_, **__):
        self.is_connected = False
        return self

    def breaks_off(self):
        return self.random.random() < 0.04

    def loop_start(self):
        self.is_lost, self.is_connected = False, True
        there, fine = SimpleNamespace(session_present=self.next > 0), SimpleNamespace(is_failure=False)
        self.on_connect(self, None, there, fine, None)
        for mid in list(self.sent):
            self._bring(mid, True)
        self._more()

    def reconnect(self):
        if self.is_connected:
            self.on_disconnect(self, None, None, "lost", None)
            self.loop_start()

    def _more(self):
        while len(self.sent) < self.WINDOW and self.next < len(self.messages):
            mid = self.next % self.NUMBERS + 1
            self.sent[mid] = self.next
            self.next += 1
            self._bring(mid, False)
        if not self.sent:
            self.stop.set()

    def _bring(self, mid, again):
        if self.is_lost or self.breaks_off():
            self.is_lost = True
            self.stop.set()
            return
        topic, payload = self.messages[self.sent[mid]]
        found = {"mid": mid, "qos": 1, "dup": again, "retain": False, "topic": topic, "payload": payload}
        self.on_message(self, None, SimpleNamespace(**found))

    def ack(self, mid, _):
        if self.breaks_off():
            raise KeyboardInterrupt
        if not self.is_lost:
            del self.sent[mid]
            self._more()


class Learning:
    """A server that breaks off before or after it has learned."""

    to = "http://played"

    def __init__(self, broker):
        self._broker, self._known, self.learned, self._lock = broker, {}, {}, threading.Lock()

    def ask(self, method, path, body=None, key=""):
        with self._lock:
            if self._broker.breaks_off():
                raise KeyboardInterrupt
            if self._broker.breaks_off():
                self._broker.reconnect()
            answer = self._answer(method, path.split("/")[3], json.loads(body), key, body)
            if self._broker.breaks_off():
                raise KeyboardInterrupt
            return answer

    def _answer(self, method, stream, rows, key, body):
        if method == "PUT":
            self.learned.setdefault(stream, [])
            return {}
        if stream not in self.learned:
            raise SendError("there is no stream", 404)
        if key in self._known:
            assert self._known[key] == (stream, body)
        else:
            if any(row["value"] == "bad" for row in rows):
                raise SendError("a bad row", 422, "bad_row")
            self._known[key] = (stream, body)
            self.learned[stream] += [row["value"] for row in rows]
        return {"rows": [{}], "seen": 0}


@pytest.mark.parametrize("seed", range(3))
def test_whatever_breaks_off_every_message_is_learned_once_and_in_order(tmp_path, monkeypatch, seed):
    chance = random.Random(seed)
    values = [chance.choice([1, 2, "bad"] if chance.random() < 0.2 else [1, 2]) for _ in range(200)]
    messages = [(f"a/{chance.randrange(3)}", json.dumps({"value": value}).encode()) for value in values]
    broker = Played(messages, seed)
    server = Learning(broker)
    monkeypatch.setattr(mqtt, "Client", broker.client)
    monkeypatch.setattr(mqtt, "KNOWN", broker.WINDOW)
    for name in ("add", "done", "split"):
        monkeypatch.setattr(Notes, name, breaking(getattr(Notes, name), broker))
    begun = 0
    while broker.sent or broker.next < len(messages):
        begun += 1
        broker.stop = threading.Event()
        bridging = Bridging("a", ("a/+",), {"target": "value", "settings": {}}, "")
        with contextlib.suppress(KeyboardInterrupt):
            Bridge(bridging, server, tmp_path / "state", broker.stop, lambda _: None).run()
    assert begun > 20
    for topic in {topic for topic, _ in messages}:
        good = [value for (at, _), value in zip(messages, values, strict=True) if at == topic and value != "bad"]
        assert server.learned[of_topic(topic)] == good


def breaking(method, broker):
    """A method before or after which the client may end."""

    def broken(*arguments):
        if broker.breaks_off():
            raise KeyboardInterrupt
        found = method(*arguments)
        if broker.breaks_off():
            raise KeyboardInterrupt
        return found

    return broken


def test_a_number_is_a_row_of_a_value_and_the_time():
    (row,) = rows_of(b" 351.5\n")
    assert row["value"] == 351.5
    assert abs(time.time() - datetime.fromisoformat(row["time"]).timestamp()) < 60
    assert rows_of(b'[{"a": 1}, {"a": null}]') == [{"a": 1}, {"a": None}]
    for payload, message in (
        (b"nan", "it is neither a number nor rows as JSON, such as"),
        (b'{"x": {"y": 1}}', "it is neither a number nor rows as JSON, such as"),
        (b"\xff", "it is neither a number nor rows as JSON, such as"),
        (b"[]", "it has no rows"),
        (b"", "it has no rows"),
    ):
        with pytest.raises(ValueError, match=message):
            rows_of(payload)


def test_options_that_make_no_sense_are_refused():
    topics = ("a/+",)
    for bridging, message in (
        (Bridging("http://a", topics, {}), "--broker takes an address such as mqtt://127.0.0.1:1883; got 'http://a'"),
        (Bridging("mqtt://a:b", topics, {}), "--broker takes an address such as"),
        (Bridging("a", ("a/#/b",), {}), "--topic takes a filter such as 'plant/\\+/power' or 'plant/#'; got 'a/#/b'"),
        (Bridging("a", ("a+",), {}), "--topic takes a filter"),
        (Bridging("a", topics, {}, prefix="a/#"), "--prefix takes the beginning of topics, without \\+ and #"),
    ):
        with pytest.raises(ValueError, match=message):
            bridging.checked()
    assert Bridging("a", topics, {}).checked().broker == "mqtt://a"


def test_notes_of_another_broker_and_files_that_are_no_notes_are_refused(tmp_path):
    notes = Notes(tmp_path / "state", "mqtt://a", "http://b")
    assert notes.topics(["a/+", "b"]) == []
    assert notes.topics(["a/+"]) == ["b"]  # of which the broker is told
    notes.close()
    with pytest.raises(RowsError, match="is of mqtt://a and http://b; give `state` another name"):
        Notes(tmp_path / "state", "mqtt://a", "http://c")
    (tmp_path / "text").write_text("not a database, but a text that is long enough to be taken for one" * 20)
    with pytest.raises(RowsError, match="cannot hold the notes of a client .*; give `state` another name"):
        Notes(tmp_path / "text", "mqtt://a", "http://b")


def test_a_server_that_wants_a_token_ends_the_client_and_the_broker_keeps_the_messages(tmp_path, monkeypatch):
    broker = Played([("a/1", b"1")], 0)
    broker.breaks_off, broker.stop = lambda: False, threading.Event()
    monkeypatch.setattr(mqtt, "Client", broker.client)

    def ask(*_):
        raise SendError("the server needs a token", 401)

    server = SimpleNamespace(to="http://b", ask=ask)
    bridging = Bridging("a", ("a/+",), {"target": "value", "settings": {}}, "")
    with pytest.raises(SendError, match="the server needs a token"):
        Bridge(bridging, server, tmp_path / "state", broker.stop, lambda _: None).run()
    assert broker.sent == {1: 0}


def test_a_broker_that_refuses_the_client_ends_it(tmp_path, monkeypatch):
    broker = Played([], 0)
    refusal = SimpleNamespace(is_failure=True, __str__=None)
    broker.loop_start = lambda: broker.on_connect(broker, None, None, refusal, None)
    monkeypatch.setattr(mqtt, "Client", broker.client)
    server = SimpleNamespace(to="http://b")
    with pytest.raises(RowsError, match="mqtt://a refuses the connection: "):
        Bridge(Bridging("a", ("a/+",), {}, ""), server, tmp_path / "state", threading.Event(), lambda _: None).run()


def test_a_broker_that_nobody_finds_is_told_once(tmp_path, monkeypatch):
    broker, stop, said = Played([], 0), threading.Event(), []

    def miss():
        for _ in range(2):
            broker.on_connect_fail(broker, None)
        stop.set()

    broker.loop_start = miss
    monkeypatch.setattr(mqtt, "Client", broker.client)
    Bridge(Bridging("a", ("a/+",), {}, ""), SimpleNamespace(to="http://b"), tmp_path / "state", stop, said.append).run()
    assert said == ["nobody answers at mqtt://a; trying again"]


def test_the_command_says_what_is_wrong(tmp_path):
    command = ["mqtt", "--broker", "http://a", "--topic", "a/+", "--to", "http://b", "--state", str(tmp_path / "state")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 2
    assert "--broker takes an address such as mqtt://127.0.0.1:1883" in done.output
