"""MQTT: topics of a broker become streams of a server, and predictions go back to topics; each message counts once.

A message is acknowledged when the server has answered; until then the broker keeps it and brings it again. What is sent
is noted first, in a file: a client that was stopped sends it again under the same idempotency key, and knows the
messages that the broker brings again because it did not see the acknowledgement.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import math
import os
import queue
import secrets
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

try:
    from paho.mqtt.client import Client, MQTTMessage, topic_matches_sub
    from paho.mqtt.enums import CallbackAPIVersion
except ImportError as error:
    raise ImportError('streamgp mqtt needs paho-mqtt: pip install "streamgp[mqtt]"') from error

from streamgp.serve.naming import of_topic
from streamgp.serve.sending import Sender, SendError
from streamgp.tables.places import locked
from streamgp.tables.source import RowsError

PASSWORD = "STREAMGP_MQTT_PASSWORD"  # the variable that holds it
PORTS = {"mqtt": 1883, "mqtts": 8883}
MOST_WAITING = 10_000  # messages without an acknowledgement, which the broker would not keep
TOGETHER = 500  # messages of a round
REQUESTS = 8  # at the same time
KEEP_ALIVE = 30  # seconds
LONGEST_PAUSE = 60  # seconds between two attempts to connect
KNOWN = 20_000  # newest messages that are known again; a broker waits for the acknowledgements of fewer
WAKE = 0.2  # seconds after which the client looks whether it is to stop
VALUE, TIME = "value", "time"  # the columns of a message that is a number
NO_STREAM = 404
REFUSED = frozenset({400, 409, 413, 422})  # statuses of rows that cannot be learned, now or later
RESULTS = ("learned", "refused", "retained", "dropped")

Row = dict[str, float | int | str | bool | None]
ROWS = msgspec.json.Decoder(list[Row])
BATCH = msgspec.json.Decoder(list[list[Row]])

TABLES = """
CREATE TABLE IF NOT EXISTS about (client TEXT, broker TEXT, server TEXT);
CREATE TABLE IF NOT EXISTS topics (topic TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS batches (id INTEGER PRIMARY KEY AUTOINCREMENT, topic TEXT, messages BLOB);
CREATE TABLE IF NOT EXISTS received (id INTEGER PRIMARY KEY AUTOINCREMENT, mid INTEGER UNIQUE, digest BLOB);
"""


class Bridging(NamedTuple):
    """What is bridged."""

    broker: str  # mqtt://HOST:PORT, or mqtts:// with TLS; a user may stand before the host
    topics: tuple[str, ...]  # filters such as "plant/+/power"; each topic that fits is a stream
    settings: dict[str, Any]  # with which a stream is created that is not there
    prefix: str = "streamgp"  # begins the topics that are published; "": nothing is

    def checked(self) -> Bridging:
        """Itself, or an error that says which option is wrong."""
        parts = urlsplit(self.broker if "://" in self.broker else f"mqtt://{self.broker}")
        try:
            parts.port  # noqa: B018 - it raises where it is no number
        except ValueError:
            parts = parts._replace(scheme="")
        if parts.scheme not in PORTS or not parts.hostname or parts.path.strip("/"):
            raise ValueError(f"--broker takes an address such as mqtt://127.0.0.1:1883; got {self.broker!r}")
        for topic in self.topics:
            if not is_filter(topic):
                raise ValueError(f"--topic takes a filter such as 'plant/+/power' or 'plant/#'; got {topic!r}")
        if set(self.prefix) & set("+#\0"):
            raise ValueError(f"--prefix takes the beginning of topics, without + and #; got {self.prefix!r}")
        return self._replace(broker=parts.geturl(), prefix=self.prefix.strip("/"))


def is_filter(topic: str) -> bool:
    """Whether a text is a filter of topics: + stands for one level, # for all that follow."""
    levels = topic.split("/")
    wild = all(level in ("+", "#") or not set(level) & set("+#") for level in levels)
    return bool(topic) and wild and "#" not in levels[:-1] and "\0" not in topic and not topic.startswith("$")


class Message(NamedTuple):
    """A message of the broker, and the number of the connection on which it came."""

    connection: int
    found: MQTTMessage

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(self.found.topic.encode() + b"\0" + self.found.payload).digest()


class Batch(NamedTuple):
    """Rows of messages of one topic that are sent together, under one number for ever."""

    id: int
    topic: str
    messages: list[list[Row]]

    @property
    def rows(self) -> list[Row]:
        return [row for message in self.messages for row in message]


class Notes:
    """What a client that is started again must know, in a file of SQLite.

    A broker numbers its messages to a client from 1 to 65,535 and then from 1 again; before a number is used anew, the
    message that had it is no longer among those that are known.

    Args:
        path: of the file.
        broker: whose messages they are.
        server: that learns them.
    """

    def __init__(self, path: Path, broker: str, server: str) -> None:
        try:
            self._file = sqlite3.connect(path)
            self._file.executescript(f"PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; {TABLES}")
            found = self._file.execute("SELECT client, broker, server FROM about").fetchone()
        except sqlite3.Error as problem:
            raise RowsError(
                f"{path} cannot hold the notes of a client ({problem}); give `state` another name"
            ) from None
        if found is None:
            found = (f"streamgp-{secrets.token_hex(6)}", broker, server)
            with self._file:
                self._file.execute("INSERT INTO about VALUES (?, ?, ?)", found)
        self.client: str = found[0]
        if found[1:] != (broker, server):
            self.close()
            raise RowsError(f"{path} is of {found[1]} and {found[2]}; give `state` another name")

    def close(self) -> None:
        self._file.close()

    def topics(self, now: Sequence[str]) -> list[str]:
        """Note the topics; returns those that are no longer among them."""
        with self._file:
            before = [topic for (topic,) in self._file.execute("SELECT topic FROM topics")]
            self._file.execute("DELETE FROM topics")
            self._file.executemany("INSERT INTO topics VALUES (?)", {(topic,) for topic in now})
        return sorted(set(before) - set(now))

    def knows(self, message: Message) -> bool:
        """Whether a message that comes again was noted when it came before."""
        found = self._file.execute("SELECT digest FROM received WHERE mid = ?", (message.found.mid,)).fetchone()
        return bool(found == (message.digest,))

    def forget(self) -> None:
        """The broker has begun to count anew."""
        with self._file:
            self._file.execute("DELETE FROM received")

    def add(self, by_topic: dict[str, list[list[Row]]], received: Iterable[Message]) -> list[Batch]:
        """Note what is about to be sent, and the messages that it is of."""
        with self._file:
            known = ((message.found.mid, message.digest) for message in received)
            self._file.executemany("INSERT OR REPLACE INTO received (mid, digest) VALUES (?, ?)", known)
            self._file.execute("DELETE FROM received WHERE id <= (SELECT MAX(id) FROM received) - ?", (KNOWN,))
            return [self._added(topic, messages) for topic, messages in by_topic.items()]

    def _added(self, topic: str, messages: list[list[Row]]) -> Batch:
        insert = "INSERT INTO batches (topic, messages) VALUES (?, ?)"
        number = self._file.execute(insert, (topic, msgspec.json.encode(messages))).lastrowid
        return Batch(number or 0, topic, messages)

    def split(self, batch: Batch) -> list[Batch]:
        """A batch for each of its messages in its place."""
        with self._file:
            self._file.execute("DELETE FROM batches WHERE id = ?", (batch.id,))
            return [self._added(batch.topic, [message]) for message in batch.messages]

    def done(self, batch: Batch) -> None:
        """The server has answered."""
        with self._file:
            self._file.execute("DELETE FROM batches WHERE id = ?", (batch.id,))

    def batches(self) -> list[Batch]:
        """Those that may not have been answered, in the order in which they were noted."""
        found = self._file.execute("SELECT id, topic, messages FROM batches ORDER BY id").fetchall()
        return [Batch(number, topic, BATCH.decode(messages)) for number, topic, messages in found]


class Bridge:
    """Between a broker and a server.

    Args:
        bridging: what is bridged.
        sender: asks the server.
        state: the file that notes how far it is.
        stop: when set, the bridge ends after the present round.
        say: told how it goes.
    """

    def __init__(
        self, bridging: Bridging, sender: Sender, state: Path, stop: threading.Event, say: Callable[[str], None]
    ) -> None:
        self._bridging, self._sender, self._state = bridging.checked(), sender, state
        self._stop, self._say = stop, say
        self.counts: Counter[str] = Counter(dict.fromkeys(RESULTS, 0))
        self._waiting: queue.SimpleQueue[Message | None] = queue.SimpleQueue()  # None: the broker counts anew
        self._connection, self._anew = 0, False
        self._connected, self._refusal, self._is_missed = threading.Event(), "", False
        self._lock = threading.Lock()  # of the number of the connection

    def run(self) -> Counter[str]:
        """Take messages until the bridge is to stop; returns how many there were of each kind."""
        bridging = self._bridging
        with locked({"state": self._state}):
            self._notes = Notes(self._state, bridging.broker, self._sender.to)
            with contextlib.closing(self._notes), ThreadPoolExecutor(REQUESTS) as pool:
                self._client = self._made(self._notes.client)
                self._deliver(self._notes.batches())
                self._dropped = self._notes.topics(bridging.topics)
                self._client.loop_start()
                try:
                    while not self._stop.is_set() and not self._refusal:
                        self._round(list(self._taken()), pool)
                finally:
                    self._close()
        if self._refusal:
            raise RowsError(f"{bridging.broker} refuses the connection: {self._refusal}")
        return self.counts

    def _made(self, name: str) -> Client:
        client = Client(CallbackAPIVersion.VERSION2, name, clean_session=False, manual_ack=True)
        parts = urlsplit(self._bridging.broker)
        if parts.username:
            client.username_pw_set(unquote(parts.username), os.environ.get(PASSWORD))
        if parts.scheme == "mqtts":
            client.tls_set()
        if self._bridging.prefix:
            client.will_set(f"{self._bridging.prefix}/status", "offline", qos=1, retain=True)
        client.reconnect_delay_set(1, LONGEST_PAUSE)
        client.on_connect, client.on_disconnect, client.on_message = self._came, self._went, self._message
        client.on_connect_fail = self._missed
        client.connect_async(parts.hostname or "", parts.port or PORTS[parts.scheme], KEEP_ALIVE)
        return client

    def _close(self) -> None:
        """Say goodbye; the broker keeps what is not acknowledged."""
        if self._bridging.prefix and self._connected.is_set():
            with contextlib.suppress(RuntimeError, ValueError):
                said = self._client.publish(f"{self._bridging.prefix}/status", "offline", qos=1, retain=True)
                said.wait_for_publish(2)
        self._client.disconnect()
        self._client.loop_stop()

    # The network's thread.

    def _came(self, client: Client, _: Any, flags: Any, reason: Any, __: Any) -> None:
        if reason.is_failure:
            if not self._connection:  # it has never been connected; later the broker may not be ready yet
                self._refusal = str(reason)
            return
        if not flags.session_present:
            self._waiting.put(None)
        if self._dropped:
            client.unsubscribe(self._dropped)
        client.subscribe([(topic, 1) for topic in self._bridging.topics])
        self._publish("status", b"online", retain=True)
        self._connected.set()
        self._is_missed = False
        self._say(f"connected to {self._bridging.broker}")

    def _went(self, _: Client, __: Any, ___: Any, reason: Any, ____: Any) -> None:
        with self._lock:
            self._connection += 1
        self._connected.clear()
        if not self._stop.is_set() and not self._refusal:
            self._say(f"the broker is away ({reason}); trying again")

    def _missed(self, _: Client, __: Any) -> None:
        if not self._is_missed:
            self._say(f"nobody answers at {self._bridging.broker}; trying again")
        self._is_missed = True

    def _message(self, _: Client, __: Any, found: MQTTMessage) -> None:
        if not found.qos and self._waiting.qsize() >= MOST_WAITING:
            self.counts["dropped"] += 1
            return
        self._waiting.put(Message(self._connection, found))

    # The thread of the client.

    def _taken(self) -> Iterator[Message]:
        """The messages of a round, which ends where the broker begins to count anew."""
        if self._anew:
            self._notes.forget()
            self._anew = False
        with contextlib.suppress(queue.Empty):
            for i in range(TOGETHER):
                message = self._waiting.get(timeout=WAKE) if i == 0 else self._waiting.get_nowait()
                if message is None:
                    self._anew = True
                    return
                yield message

    def _round(self, taken: Sequence[Message], pool: ThreadPoolExecutor) -> None:
        """Send what was not sent before; then acknowledge all, in the order in which it came."""
        by_topic: dict[str, list[list[Row]]] = {}
        new: dict[int, Message] = {}
        for message in taken:
            found = message.found
            if not self._is_wanted(found) or self._is_known(message, new):
                continue
            try:
                rows = rows_of(bytes(found.payload))
            except ValueError as problem:
                self._refused(found.topic, "invalid_body", str(problem))
                continue
            by_topic.setdefault(found.topic, []).append(rows)
            if found.qos:
                new[found.mid] = message
        if by_topic:
            self._deliver(self._notes.add(by_topic, new.values()), pool.map)
        for message in taken:
            with self._lock:  # the broker brings again what came on an earlier connection
                if message.connection == self._connection:
                    self._client.ack(message.found.mid, message.found.qos)

    def _is_wanted(self, found: MQTTMessage) -> bool:
        if found.retain:  # it was sent before, and is sent again after every connection
            self.counts["retained"] += 1
            return False
        own = self._bridging.prefix and found.topic.startswith(f"{self._bridging.prefix}/")
        return not own and any(topic_matches_sub(topic, found.topic) for topic in self._bridging.topics)

    def _is_known(self, message: Message, new: dict[int, Message]) -> bool:
        if not message.found.dup:
            return False
        before = new.get(message.found.mid)
        return self._notes.knows(message) if before is None else before.digest == message.digest

    def _deliver(self, batches: Iterable[Batch], each: Callable[..., Iterable[Any]] = map) -> None:
        """Send batches; one that is refused, message by message."""
        for batch, answer in zip(batches, each(self._asked, batches), strict=True):
            if isinstance(answer, SendError) and len(batch.messages) > 1:
                self._deliver(self._notes.split(batch))
                continue
            if isinstance(answer, SendError):
                self._refused(batch.topic, answer.code, str(answer))
            else:
                self._learned(batch, answer)
            self._notes.done(batch)

    def _asked(self, batch: Batch) -> dict[str, Any] | SendError:
        """The answer, or why the rows cannot be learned."""
        path, rows = f"/v1/streams/{of_topic(batch.topic)}", msgspec.json.encode(batch.rows)
        ask = partial(self._sender.ask, "POST", f"{path}/rows", rows, f"{self._notes.client}-{batch.id}")
        try:
            try:
                return ask()
            except SendError as problem:
                if problem.status != NO_STREAM:
                    raise
            self._sender.ask("PUT", path, msgspec.json.encode(self._bridging.settings))
            return ask()
        except SendError as problem:
            if problem.status not in REFUSED:
                raise
            return problem

    def _learned(self, batch: Batch, answer: dict[str, Any]) -> None:
        """Publish the newest prediction, and alarms."""
        self.counts["learned"] += len(batch.messages)
        stream, settings = of_topic(batch.topic), self._bridging.settings
        observed = batch.messages[-1][-1].get(settings["target"])
        newest = {"topic": batch.topic, "observed": observed, **answer["rows"][-1]}
        self._publish(f"{stream}/state", msgspec.json.encode(newest), retain=True)
        if self._bridging.prefix and settings["settings"].get("alarms"):
            past = self._sender.ask("GET", f"/v1/streams/{stream}/history?rows=1&points=2")
            for event in past["drift"]:
                if event["kind"] == "alarm" and event["row"] > answer["seen"] - len(batch.rows):
                    alarm = {"event": "alarm", "stream": stream, "row": event["row"], "text": event["event"]}
                    self._publish(f"{stream}/alarm", msgspec.json.encode(alarm))

    def _refused(self, topic: str, code: str, message: str) -> None:
        self.counts["refused"] += 1
        self._say(f"a message of {topic} is not learned: {message}")
        error = {"topic": topic, "code": code, "message": message}
        self._publish(f"{of_topic(topic)}/error", msgspec.json.encode(error))

    def _publish(self, topic: str, payload: bytes, retain: bool = False) -> None:
        if self._bridging.prefix:
            with contextlib.suppress(ValueError):  # too much waits for a broker that is away; the server has it
                self._client.publish(f"{self._bridging.prefix}/{topic}", payload, qos=1, retain=retain)


def rows_of(payload: bytes) -> list[Row]:
    """The rows of a message: a JSON object or a list of them, or a number, which is a row of a value and the time.

    Example:
        >>> rows_of(b'{"power": 351.5}')
        [{'power': 351.5}]
    """
    with contextlib.suppress(ValueError):
        value = float(payload.decode())
        if math.isfinite(value):
            return [{TIME: dt.datetime.fromtimestamp(time.time(), dt.UTC).isoformat(), VALUE: value}]
    listed = payload if payload.lstrip()[:1] == b"[" else b"[" + payload + b"]"
    try:
        rows = ROWS.decode(listed)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise ValueError(
            f'it is neither a number nor rows as JSON, such as {{"value": 351.5}}: {payload[:40]!r} ({problem})'
        ) from None
    if not rows:
        raise ValueError("it has no rows")
    return rows
