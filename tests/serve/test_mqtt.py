"""MQTT against a real broker on loopback: topics become streams; predictions, alarms and errors come back."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import threading
import time
from collections import Counter
from datetime import datetime
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("paho.mqtt.client", reason="needs paho-mqtt")

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from streamgp.serve import mqtt
from streamgp.serve.messages import RefusedError
from streamgp.serve.mqtt import Bridge, Bridging, rows_of
from streamgp.serve.service import Limits
from streamgp.serve.workers import serve
from tests.serve.running import QUICK, in_process
from tests.serve.test_webhook import until

MOSQUITTO = shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin")
needs_broker = pytest.mark.skipif(not MOSQUITTO, reason="needs mosquitto")


class Broker:
    """A broker on loopback that can be stopped and started again."""

    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._file = folder / "mosquitto.conf"
        lines = (f"listener {self.port} 127.0.0.1", "allow_anonymous true", "persistence true", "user root")
        self._file.write_text("\n".join([*lines, f"persistence_location {folder}/", ""]))
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
        self.client = Client(CallbackAPIVersion.VERSION2)
        self.client.on_connect = lambda client, *_: client.subscribe([("streamgp/#", 1), ("homeassistant/#", 1)])
        self.client.on_subscribe = lambda *_: self._subscribed.set()
        self.client.on_message = lambda _, __, message: self.got.append((message.topic, message.payload))
        self.client.reconnect_delay_set(1, 1)
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        assert self._subscribed.wait(20)

    def send(self, topic, payload, retain=False):
        self.client.publish(topic, payload, qos=1, retain=retain).wait_for_publish(20)

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


@contextlib.contextmanager
def bridged(folder, broker, **options):
    with in_process(folder) as client:
        bridge = Bridge(client.service, Bridging(broker.url, ("plant/+/power", "room/#"), **options))
        client.service.add(bridge)
        until(lambda: bridge.connected)
        yield client, bridge


@needs_broker
def test_topics_become_streams_and_predictions_come_back(tmp_path, broker, plant):
    plant.send("room/kitchen/old", "7", retain=True)
    plant.send("streamgp/room.kitchen/settings", json.dumps(QUICK), retain=True)
    with bridged(tmp_path / "data", broker) as (client, bridge):
        until(lambda: [one["name"] for one in client.get("/v1/streams").json()["streams"]] == ["room.kitchen"])
        for i in range(12):
            plant.send("plant/north/power", f"{10 + i % 3}.5")
            plant.send("room/kitchen", json.dumps({"x": i % 3, "y": i % 3 + 1.0}))
        until(lambda: bridge.counts["learned"] == 24)
        assert bridge.counts["retained"] == 1  # sent before, so that it would be learned again at every connection
        found = {one["name"]: (one["target"], one["rows"]) for one in client.get("/v1/streams").json()["streams"]}
        assert found == {"plant.north.power": ("value", 12), "room.kitchen": ("y", 12)}
        until(lambda: plant.last("streamgp/plant.north.power/state").get("row") == 12)
        state = plant.last("streamgp/plant.north.power/state")
        assert state["observed"] == 12.5
        assert state["topic"] == "plant/north/power"
        assert state["lower"] <= state["mean"] <= state["upper"]
        history = client.get("/v1/streams/plant.north.power/history").json()
        assert (state["mean"], state["lower"], state["upper"]) == tuple(
            history[name][-1] for name in ("mean", "lower", "upper")
        )
        config = plant.last("homeassistant/sensor/streamgp_plant_north_power/mean/config")
        assert config["state_topic"] == "streamgp/plant.north.power/state"
        assert config["value_template"] == "{{ value_json.mean }}"
        alarm = plant.last("homeassistant/binary_sensor/streamgp_plant_north_power/alarm/config")
        assert alarm["device"] == config["device"]
        assert alarm["unique_id"] != config["unique_id"]
        metrics = client.get("/metrics").text
        assert 'streamgp_mqtt_messages_total{result="learned"} 24\n' in metrics
        assert "streamgp_mqtt_connected 1\n" in metrics
    until(lambda: [payload for topic, payload in plant.got if topic == "streamgp/status"][-1:] == [b"offline"])


@needs_broker
def test_what_comes_while_the_server_or_the_broker_is_away_is_learned(tmp_path, broker, plant):
    with bridged(tmp_path / "data", broker):
        plant.send("plant/north/power", "1")
    for i in range(5):  # the broker keeps them
        plant.send("plant/north/power", f"{i}")
    with bridged(tmp_path / "data", broker) as (client, bridge):
        until(lambda: bridge.counts["learned"] == 5)
        assert client.get("/v1/streams/plant.north.power").json()["rows"] == 6
        broker.close()
        until(lambda: not bridge.connected)
        broker.start()
        until(lambda: bridge.connected and plant.client.is_connected(), 40)
        plant.send("plant/north/power", "3")
        # What the broker had not seen acknowledged when it was closed comes again: at least once.
        until(lambda: plant.last("streamgp/plant.north.power/state").get("observed") == 3.0)
        assert client.get("/v1/streams/plant.north.power").json()["rows"] >= 7


@needs_broker
def test_an_alarm_is_published_and_a_message_that_is_no_row_is_told(tmp_path, broker, plant):
    settings = QUICK | {"settings": {"capacity": 8, "tune": False, "warmup": 30, "alarms": 1e-3}}
    noise = np.random.default_rng(0).normal(size=300)
    with bridged(tmp_path / "data", broker) as (client, bridge):
        plant.send("streamgp/room.a/settings", json.dumps(settings), retain=True)
        until(lambda: client.get("/v1/streams/room.a").status_code == 200)
        plant.send("room/a", json.dumps([{"x": float(i % 11), "y": i % 11 + e} for i, e in enumerate(noise)]))
        plant.send("room/a", json.dumps({"x": 1.0, "y": 60.0}))
        until(lambda: plant.last("streamgp/room.a/alarm").get("row") == 301)
        assert plant.last("streamgp/room.a/alarm")["text"].startswith("alarm, one row: 60 observed")
        for payload, message in (
            (b"hello", "the message is neither a number nor JSON: b'hello'"),
            (b"nan", "the message is neither a number nor JSON: b'nan'"),
            (b"[]", "the message has no rows"),
            (b'{"x": {"y": 1}}', "the body does not fit: "),
            (b'{"x": "text", "y": 1}', "row 1 "),
        ):
            plant.send("room/a", payload)
            until(lambda message=message: plant.last("streamgp/room.a/error").get("message", "").startswith(message))
        assert bridge.counts["refused"] == 5
        assert client.get("/v1/streams/room.a").json()["rows"] == 301


class NoBroker:
    """A client that reaches nobody: its callbacks are called by hand."""

    def __init__(self, *_, **__):
        self.acknowledged = []

    def __getattr__(self, _):
        return lambda *_, **__: None

    def ack(self, mid, _):
        self.acknowledged.append(mid)


@pytest.fixture
def learned(monkeypatch):
    """Makes a bridge without a broker, and lists the topics of what it learns once it may."""
    may, began, topics, bridges = threading.Event(), threading.Event(), [], []

    def learn(_, by_stream):
        began.set()
        assert may.wait(30)
        topics.extend(message.topic for messages in by_stream.values() for message in messages)

    monkeypatch.setattr(mqtt, "Client", NoBroker)
    monkeypatch.setattr(Bridge, "_learn", learn)

    def made(**options):
        bridges.append(Bridge(SimpleNamespace(limits=Limits()), Bridging("mqtt://none", ("#",), **options)))
        return bridges[-1]

    yield SimpleNamespace(bridge=made, may=may, began=began, topics=topics)
    may.set()
    for bridge in bridges:
        bridge.close()


def bring(bridge, topics, qos=1):
    for mid, topic in enumerate(topics):
        message = SimpleNamespace(topic=topic, payload=b"1", mid=mid, qos=qos, retain=False)
        bridge._message(bridge._client, None, message)


def test_without_discovery_topics_that_begin_with_a_slash_are_learned(learned):
    learned.may.set()
    bring(learned.bridge(discovery=""), ["/plant/power", "homeassistant/a", "streamgp/a/state"])
    until(lambda: len(learned.topics) >= 2)
    bring(learned.bridge(), ["/plant/power", "homeassistant/a", "streamgp/a/state"])
    until(lambda: len(learned.topics) >= 3)
    assert sorted(learned.topics) == ["/plant/power", "/plant/power", "homeassistant/a"]


def test_what_waits_when_the_connection_is_lost_and_comes_again_is_learned_once(learned):
    bridge = learned.bridge()
    bring(bridge, ["in work"])
    assert learned.began.wait(30)
    waiting = [f"a/{i}" for i in range(2000)]
    for i, topic in enumerate(waiting):
        bring(bridge, [topic])
        if i % 2:
            bring(bridge, [f"once/{i}"], qos=0)  # the broker does not bring these again
    bridge._went(None, None, None, "lost", None)
    bring(bridge, waiting)
    learned.may.set()
    until(lambda: bridge._waiting.empty() and "a/1999" in learned.topics)
    assert Counter(learned.topics) == Counter(["in work", *waiting, *(f"once/{i}" for i in range(1, 2000, 2))])


def test_a_number_is_a_row_of_a_value_and_the_time():
    (row,) = rows_of(b" 351.5\n", 100)
    assert row["value"] == 351.5
    assert abs(time.time() - datetime.fromisoformat(row["time"]).timestamp()) < 60
    assert rows_of(b'{"a": 1}', 100) == [{"a": 1}]
    with pytest.raises(RefusedError, match="the message has 101 bytes; the limit is 100"):
        rows_of(b"1" * 101, 100)


def test_options_that_make_no_sense_are_refused(tmp_path):
    topics = ("a/+",)
    for bridging, message in (
        (Bridging("http://a", topics), "--mqtt takes a broker such as mqtt://127.0.0.1:1883; got 'http://a'"),
        (Bridging("mqtt://a:b", topics), "--mqtt takes a broker such as"),
        (Bridging("mqtt://a", ()), "--mqtt needs at least one --mqtt-topic"),
        (Bridging("a", ("a/#/b",)), "--mqtt-topic takes a filter such as 'plant/\\+/power' or 'plant/#'; got 'a/#/b'"),
        (Bridging("a", ("a+",)), "--mqtt-topic takes a filter"),
        (Bridging("a", topics, prefix="a/#"), "--mqtt-prefix takes the beginning of topics, without \\+ and #"),
    ):
        with pytest.raises(ValueError, match=message):
            bridging.checked()
    assert Bridging("a", topics).checked().broker == "mqtt://a"
    with pytest.raises(ValueError, match="--mqtt needs one process"):
        serve(2, tmp_path, "127.0.0.1", 0, None, (), print, mqtt=Bridging("a", topics))
