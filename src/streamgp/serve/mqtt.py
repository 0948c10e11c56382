"""MQTT: topics of a broker become streams; predictions, intervals and alarms go back to topics.

A stream is that of the service, with its journal, page and metrics. A message is acknowledged when its rows are on
disk. The session at the broker outlives the connection: with QoS 1 or 2 the broker keeps what comes while the server is
away, and brings again what was not acknowledged.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
import math
import os
import queue
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

try:
    from paho.mqtt.client import Client, MQTTMessage, topic_matches_sub
    from paho.mqtt.enums import CallbackAPIVersion
except ImportError as error:
    raise ImportError('streamgp serve --mqtt needs paho-mqtt: pip install "streamgp[mqtt]"') from error

from streamgp.serve.learner import Op
from streamgp.serve.messages import SETTINGS, RefusedError, Row, RowsAnswer, StreamSettings, encode
from streamgp.serve.naming import of_topic
from streamgp.serve.rows import ROWS, checked, decoded
from streamgp.serve.service import Service
from streamgp.version import __version__

LOG = logging.getLogger("streamgp.serve")
PASSWORD = "STREAMGP_MQTT_PASSWORD"  # the variable that holds it
PORTS = {"mqtt": 1883, "mqtts": 8883}
MOST_WAITING = 10_000  # messages
TOGETHER = 500  # messages whose rows are learned and journaled together
KEEP_ALIVE = 30  # seconds
LONGEST_PAUSE = 60  # seconds between two attempts to connect
PAUSE = 0.5  # seconds before rows that could not be written are tried again
VALUE, TIME = "value", "time"  # the columns of a message that is a number
RESULTS = ("learned", "refused", "retained", "dropped")
ANSWER = msgspec.json.Decoder(RowsAnswer)


class Bridging(NamedTuple):
    """What is bridged.

    Args:
        broker: mqtt://HOST:PORT, or mqtts:// with TLS; a user may stand before the host.
        topics: filters such as "plant/+/power"; each topic that fits is a stream.
        prefix: begins all topics that are published.
        target: the column that new streams predict.
        alarms: the setting of new streams, such as "1/week"; "": none.
        qos: of subscriptions and of what is published: 0, 1 or 2.
        discovery: begins the topics at which Home Assistant looks for sensors; "": nothing is published there.
        client: by which the broker knows the server again.
    """

    broker: str
    topics: tuple[str, ...]
    prefix: str = "streamgp"
    target: str = VALUE
    alarms: str = ""
    qos: int = 1
    discovery: str = "homeassistant"
    client: str = "streamgp"

    def checked(self) -> Bridging:
        """Itself, or an error that says which option is wrong."""
        parts = urlsplit(self.broker if "://" in self.broker else f"mqtt://{self.broker}")
        try:
            parts.port  # noqa: B018 - it raises where it is no number
        except ValueError:
            parts = parts._replace(scheme="")
        if parts.scheme not in PORTS or not parts.hostname or parts.path.strip("/"):
            raise ValueError(f"--mqtt takes a broker such as mqtt://127.0.0.1:1883; got {self.broker!r}")
        if not self.topics:
            raise ValueError("--mqtt needs at least one --mqtt-topic, such as 'plant/+/power'")
        for topic in self.topics:
            if not is_filter(topic):
                raise ValueError(f"--mqtt-topic takes a filter such as 'plant/+/power' or 'plant/#'; got {topic!r}")
        for option, text in (("--mqtt-prefix", self.prefix), ("--mqtt-discovery", self.discovery or "none")):
            if not text.strip("/") or set(text) & set("+#\0"):
                raise ValueError(f"{option} takes the beginning of topics, without + and #; got {text!r}")
        return self._replace(broker=parts.geturl())


def is_filter(topic: str) -> bool:
    """Whether a text is a filter of topics: + stands for one level, # for all that follow."""
    levels = topic.split("/")
    wild = all(level in ("+", "#") or not set(level) & set("+#") for level in levels)
    return bool(topic) and wild and "#" not in levels[:-1] and "\0" not in topic and not topic.startswith("$")


class Message(NamedTuple):
    """A message of a stream: what it was, and its rows."""

    topic: str
    stream: str
    rows: list[Row]
    mid: int
    qos: int


class Bridge:
    """Between a broker and the streams of a service, in threads of its own.

    Args:
        service: that has the streams.
        bridging: what is bridged.
    """

    def __init__(self, service: Service, bridging: Bridging) -> None:
        self._service, self._bridging = service, bridging.checked()
        self.counts: Counter[str] = Counter(dict.fromkeys(RESULTS, 0))
        self.connected = False
        self._told: set[str] = set()  # streams that Home Assistant knows
        # What is published here begins so.
        self._own = tuple(f"{start}/" for start in (self._topic(), self._bridging.discovery) if start)
        self._waiting: queue.Queue[Message | None] = queue.Queue(MOST_WAITING)
        self._closing = threading.Event()
        parts = urlsplit(self._bridging.broker)
        client = Client(CallbackAPIVersion.VERSION2, self._bridging.client, clean_session=False, manual_ack=True)
        if parts.username:
            client.username_pw_set(unquote(parts.username), os.environ.get(PASSWORD))
        if parts.scheme == "mqtts":
            client.tls_set()
        client.will_set(self._topic("status"), "offline", qos=1, retain=True)
        client.reconnect_delay_set(1, LONGEST_PAUSE)
        client.on_connect, client.on_disconnect, client.on_message = self._came, self._went, self._message
        client.on_subscribe = self._subscribed
        client.connect_async(parts.hostname or "", parts.port or PORTS[parts.scheme], KEEP_ALIVE)
        self._client = client
        self._thread = threading.Thread(target=self._work, name="mqtt", daemon=True)
        self._thread.start()
        client.loop_start()

    def close(self) -> None:
        """Say goodbye; what was not learned is not acknowledged, so that the broker brings it again."""
        self._closing.set()
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(None)
        self._thread.join(30)
        if self.connected:
            with contextlib.suppress(RuntimeError, ValueError):
                self._client.publish(self._topic("status"), "offline", qos=1, retain=True).wait_for_publish(2)
        self._client.disconnect()
        self._client.loop_stop()

    def _topic(self, *levels: str) -> str:
        return "/".join([self._bridging.prefix.strip("/"), *levels])

    # The network's thread.

    def _came(self, client: Client, _: Any, __: Any, reason: Any, ___: Any) -> None:
        if reason.is_failure:
            LOG.warning("the MQTT broker refuses the connection: %s", reason)
            return
        own = [(self._topic("+", "settings"), 1)]
        client.subscribe(own + [(topic, self._bridging.qos) for topic in self._bridging.topics])
        client.publish(self._topic("status"), "online", qos=1, retain=True)
        self._told.clear()

    def _subscribed(self, *_: Any) -> None:
        """What is sent from now on comes here."""
        self.connected = True

    def _went(self, _: Client, __: Any, ___: Any, reason: Any, ____: Any) -> None:
        self.connected = False
        with self._waiting.mutex:  # what was not acknowledged comes again
            waiting = self._waiting.queue
            kept = [message for message in waiting if message is None or not message.qos]
            waiting.clear()
            waiting.extend(kept)
        if not self._closing.is_set():
            LOG.warning("the MQTT broker is away (%s); trying again", reason)

    def _message(self, client: Client, _: Any, message: MQTTMessage) -> None:
        """Hand over a message; what is no row is acknowledged at once."""
        topic = message.topic
        if topic_matches_sub(self._topic("+", "settings"), topic):
            self._settings(topic, bytes(message.payload))
        elif topic.startswith(self._own):
            pass  # a filter such as # brings it back
        elif message.retain:  # it was sent before, and is sent again after every connection
            self.counts["retained"] += 1
        else:
            try:
                rows = rows_of(bytes(message.payload), self._service.limits.body)
            except RefusedError as problem:
                self._refused(topic, of_topic(topic), problem)
            else:
                try:
                    self._waiting.put_nowait(Message(topic, of_topic(topic), rows, message.mid, message.qos))
                    return
                except queue.Full:  # of QoS 0; others wait at the broker until those before them are acknowledged
                    self.counts["dropped"] += 1
        client.ack(message.mid, message.qos)

    def _settings(self, topic: str, payload: bytes) -> None:
        """Create a stream as a retained message says; an existing one stays as it is."""
        name = topic.split("/")[-2]
        if not payload:  # how a retained message is taken back
            return
        try:
            self._service.create(name, decoded(payload, SETTINGS))
        except RefusedError as problem:
            self._refused(topic, name, problem)

    # The thread that learns.

    def _work(self) -> None:
        while not self._closing.is_set():
            if (first := self._waiting.get()) is None:
                return
            taken = [first, *self._more()]
            by_stream: dict[str, list[Message]] = {}
            for message in taken:
                by_stream.setdefault(message.stream, []).append(message)
            try:
                self._learn(by_stream)
            except Exception:  # of whatever kind; the next messages are learned
                LOG.exception("mqtt")

    def _more(self) -> Iterator[Message]:
        for _ in range(min(TOGETHER - 1, self._waiting.qsize())):
            try:
                message = self._waiting.get_nowait()
            except queue.Empty:
                return
            if message is None:
                return
            yield message

    def _learn(self, by_stream: dict[str, list[Message]]) -> None:
        """Learn messages, those of several streams at the same time."""
        asked = []
        for name, messages in by_stream.items():
            with contextlib.suppress(RefusedError):  # told one by one, below
                asked.append((messages, self._ask(name, messages)))
                continue
            asked.append((messages, None))
        for messages, future in asked:
            try:
                if future is not None:
                    self._answered(messages, ANSWER.decode(future.result()))
                    continue
            except RefusedError:
                pass
            for message in messages:
                self._singly(message)

    def _ask(self, name: str, messages: Sequence[Message]) -> Any:
        stream = self._service.streams.get(name)
        if stream is None or stream.gone:
            stream, _ = self._service.create(name, self._new_settings())
        return stream.ask(Op("rows", rows=[row for message in messages for row in message.rows]))

    def _new_settings(self) -> StreamSettings:
        alarms = self._bridging.alarms
        return StreamSettings(self._bridging.target, settings={"alarms": alarms} if alarms else {})

    def _singly(self, message: Message) -> None:
        """Learn one message: as often as it takes where the disk is full or the queue is, or tell why it cannot be."""
        while not self._closing.is_set():
            try:
                self._answered([message], ANSWER.decode(self._ask(message.stream, [message]).result()))
                return
            except RefusedError as problem:
                if problem.status < 500 and problem.status != 429:
                    self._refused(message.topic, message.stream, problem)
                    self._client.ack(message.mid, message.qos)
                    return
            self._closing.wait(PAUSE)

    def _answered(self, messages: Sequence[Message], answer: RowsAnswer) -> None:
        """Publish the newest prediction; acknowledge what is on disk."""
        self.counts["learned"] += len(messages)
        last = messages[-1]
        stream = self._service.streams.get(last.stream)
        if stream is not None and answer.rows:
            self._discover(last)
            row, predicted = last.rows[-1], answer.rows[-1]
            observed = row.get(stream.settings.target)
            state = {
                "topic": last.topic,
                "observed": observed if isinstance(observed, int | float) else None,
                **msgspec.structs.asdict(predicted),
            }
            self._publish(self._topic(last.stream, "state"), encode(state), retain=True)
        for message in messages:
            self._client.ack(message.mid, message.qos)

    def alarmed(self, stream: str, row: int, text: str) -> None:
        """From any thread: publish an alarm."""
        event = {"event": "alarm", "stream": stream, "row": row, "text": text}
        self._publish(self._topic(stream, "alarm"), encode(event))

    def _refused(self, topic: str, stream: str, problem: RefusedError) -> None:
        self.counts["refused"] += 1
        error = {"topic": topic, "code": problem.code, "message": problem.message, "hint": problem.hint}
        self._publish(self._topic(stream, "error"), encode(error))

    def _publish(self, topic: str, payload: bytes, retain: bool = False) -> None:
        with contextlib.suppress(ValueError):  # too much waits for a broker that is away; the page and journal have it
            self._client.publish(topic, payload, qos=self._bridging.qos, retain=retain)

    def _discover(self, message: Message) -> None:
        """Tell Home Assistant of a stream, once a connection."""
        if not self._bridging.discovery or message.stream in self._told:
            return
        self._told.add(message.stream)
        for topic, payload in discovered(self._bridging, message.stream, message.topic):
            self._publish(topic, encode(payload), retain=True)


def rows_of(payload: bytes, most: int) -> list[Row]:
    """The rows of a message: a JSON object or a list of them, or a number, which is a row of a value and the time.

    Args:
        payload: of the message.
        most: bytes.
    """
    if len(payload) > most:
        raise RefusedError(413, "message_too_long", f"the message has {len(payload)} bytes; the limit is {most}")
    with contextlib.suppress(ValueError):
        value = float(payload.decode())
        if math.isfinite(value):
            return [{TIME: dt.datetime.fromtimestamp(time.time(), dt.UTC).isoformat(), VALUE: value}]
    if payload.lstrip()[:1] == b"{":
        payload = b"[" + payload + b"]"
    if payload.lstrip()[:1] != b"[":
        raise RefusedError(
            422,
            "invalid_body",
            f"the message is neither a number nor JSON: {payload[:40]!r}",
            'send 351.5 or {"value": 351.5}',
        )
    rows = decoded(payload, ROWS)
    if not rows:
        raise RefusedError(422, "no_rows", "the message has no rows", 'send 351.5 or {"value": 351.5}')
    return checked(rows)


def discovered(bridging: Bridging, stream: str, topic: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Topics and messages by which Home Assistant finds the sensors of a stream."""
    prefix, node = bridging.prefix.strip("/"), f"streamgp_{stream.replace('.', '_')}"
    common = {
        "availability_topic": f"{prefix}/status",
        "device": {
            "identifiers": [f"{bridging.client}:{stream}"],
            "name": f"{topic} (streamgp)",
            "manufacturer": "streamgp",
            "sw_version": __version__,
        },
        "origin": {"name": "streamgp", "sw_version": __version__},
    }
    for name, key in (("Expected", "mean"), ("Expected at least", "lower"), ("Expected at most", "upper")):
        yield (
            f"{bridging.discovery}/sensor/{node}/{key}/config",
            common
            | {
                "name": name,
                "unique_id": f"{bridging.client}_{stream}_{key}",
                "state_topic": f"{prefix}/{stream}/state",
                "value_template": f"{{{{ value_json.{key} }}}}",
                "state_class": "measurement",
            },
        )
    yield (
        f"{bridging.discovery}/binary_sensor/{node}/alarm/config",
        common
        | {
            "name": "Alarm",
            "unique_id": f"{bridging.client}_{stream}_alarm",
            "state_topic": f"{prefix}/{stream}/alarm",
            "value_template": "ON",
            "json_attributes_topic": f"{prefix}/{stream}/alarm",
            "device_class": "problem",
            "off_delay": 300,
        },
    )
