"""Push: rows of a file to a stream of a server, each exactly once, also if either of them is stopped in between.

Before a batch is sent, a small file beside the source notes which lines it has. A push that is started again sends the
same lines under the same idempotency key: if the server had them already, it answers as before and learns nothing.
"""

from __future__ import annotations

import json
import math
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from streamgp.contract import snapshot
from streamgp.tables.formats import BadRow, Chunk, Reader, read_rows
from streamgp.tables.places import locked
from streamgp.tables.source import OtherSourceError, Position, RowsError

BATCH = 100  # rows of a request
LATER = frozenset({408, 429, 500, 502, 503, 504, 507})  # answers after which the same request may succeed
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 15.0  # seconds between two attempts


class PushError(RowsError):
    """Rows that the server refuses, or a server that does not answer."""


@dataclass
class Push:
    """Send the rows of a source to a stream.

    Args:
        source: a CSV, NDJSON or Parquet file, or "-" for standard input.
        to: the address of the server.
        stream: the name of the stream.
        settings: with which the stream is created if it is not there; None: it is there.
        token: for a server that needs one.
        follow: wait for more rows at the end of the file.
        batch: rows of a request.
        patience: seconds that the server may be away.
        on_error: "stop" at a row that cannot be read, or "skip" it.
        state: where to note how far it is; None: beside the source.
        stop: when set, the push ends after the present batch.
        say: told how it goes.
    """

    source: str
    to: str
    stream: str
    settings: dict[str, Any] | None = None
    token: str = ""
    follow: bool = False
    batch: int = BATCH
    patience: float = 300.0
    on_error: str = "stop"
    state: Path | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    say: Callable[[str], None] = lambda _: None

    skipped: int = field(default=0, init=False)  # rows that could not be read
    # Begins the keys of this file's batches.
    _id: str = field(default_factory=lambda: secrets.token_hex(8), init=False)

    def run(self) -> int:
        """Send all rows; returns how many."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        state = self._state_file()
        with httpx.Client(base_url=self.to, headers=headers, timeout=120) as http, locked({"state": state}):
            if self.settings is not None:
                self._ask(http, "PUT", f"/v1/streams/{self.stream}", self.settings, {})
            done, pending = self._noted(state)
            try:
                reader = read_rows(self.source, follow=self.follow, stop=self.stop, after=done)
                with closing(reader):
                    return self._send(http, reader, state, pending)
            except OtherSourceError as error:
                raise PushError(f"{error}. To send all rows of this one, delete {state}") from None

    def _send(self, http: httpx.Client, reader: Reader, state: Path | None, pending: int) -> int:
        sent = last = 0
        for rows, lines in self._batches(reader, pending):
            if lines[0] <= last:  # a new file has taken the place of the one that was followed
                self._id = secrets.token_hex(8)
            last = lines[-1]
            self._note(state, reader, lines[0] - 1, last)
            key = f"push-{self._id}-{lines[0]}-{last}"
            answer = self._ask(
                http, "POST", f"/v1/streams/{self.stream}/rows", rows, {"Idempotency-Key": key}, reader.unit, lines
            )
            self._note(state, reader, last, 0)
            sent += len(rows)
            self.say(f"{sent:,} rows sent; {self.stream} has {answer['seen']:,}")
        return sent

    def _batches(self, reader: Reader, pending: int) -> Iterator[tuple[list[dict[str, Any]], list[int]]]:
        """Rows and their lines. The first batch ends where one was noted, so that it is the same again."""
        rows: list[dict[str, Any]] = []
        lines: list[int] = []
        for chunk in reader.chunks():
            if self.stop.is_set():
                break
            if chunk.bad and self.on_error == "stop":
                chunk, bad = _before(chunk, chunk.bad[0]), chunk.bad[0]
            else:
                bad = None
            self.skipped += len(chunk.bad)
            for row, line in zip(_rows(chunk), chunk.lines, strict=True):
                if pending and line > pending and rows:
                    yield rows, lines
                    rows, lines, pending = [], [], 0
                rows.append(row)
                lines.append(line)
                if (len(rows) >= self.batch and not pending) or line == pending:
                    yield rows, lines
                    rows, lines, pending = [], [], 0
            if rows and (reader.live or bad) and not pending:
                yield rows, lines
                rows, lines = [], []
            if bad is not None:
                raise PushError(
                    f"{reader.unit} {bad.line} {bad.reason}. The rows before it are sent; fix it, or skip such rows "
                    "with `on_error=skip`"
                )
        if rows:
            yield rows, lines

    def _ask(
        self,
        http: httpx.Client,
        method: str,
        path: str,
        body: Any,
        headers: dict[str, str],
        unit: str = "",
        lines: Sequence[int] = (),
    ) -> dict[str, Any]:
        """Ask until there is an answer."""
        pause, end = FIRST_PAUSE, time.monotonic() + self.patience
        while True:
            try:
                answer = http.request(method, path, json=body, headers=headers)
                if answer.status_code < 300:
                    found: dict[str, Any] = answer.json()
                    return found
                trouble = _sentence(answer)
                if answer.status_code not in LATER:
                    where = f"{unit} {lines[0]} to {lines[-1]}: " if lines else ""
                    raise PushError(f"{where}{trouble}")
                pause = max(pause, float(answer.headers.get("retry-after", 0)))
            except (httpx.TransportError, json.JSONDecodeError) as error:
                trouble = f"{self.to} does not answer ({error})"
            if time.monotonic() + pause > end or self.stop.is_set():
                raise PushError(f"{trouble}. Run the same command again: it goes on where it stopped")
            self.say(f"{trouble}; trying again")
            self.stop.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    # How far it is.

    def _state_file(self) -> Path | None:
        if self.state is not None or self.source == "-":
            return self.state
        source = Path(self.source)
        return source.with_name(f".{source.name}.{self.stream}.push")

    def _note(self, state: Path | None, reader: Reader, lines: int, pending: int) -> None:
        if state is not None:
            noted = {
                "to": self.to,
                "stream": self.stream,
                "id": self._id,
                "position": list(reader.position(lines)),
                "pending": pending,
            }
            snapshot.write(state, json.dumps(noted).encode())

    def _noted(self, state: Path | None) -> tuple[Position | None, int]:
        """Where an earlier push to the same stream stopped, and the last line of the batch that it may have sent."""
        if state is None or not state.exists():
            return None, 0
        try:
            noted = json.loads(state.read_text(encoding="utf-8"))
            found, pending, self._id = Position(*noted["position"]), int(noted["pending"]), str(noted["id"])
        except (ValueError, TypeError, KeyError):
            raise PushError(f"{state} is damaged; delete it to send all rows again") from None
        if (noted.get("to"), noted.get("stream")) != (self.to, self.stream):
            raise PushError(f"{state} is of a push to another stream; give `state` another name")
        if found.lines:
            self.say(f"going on after line {found.lines}")
        return found, pending


def _rows(chunk: Chunk) -> Iterator[dict[str, Any]]:
    for values in zip(*chunk.columns.values(), strict=True):
        yield {name: _as_json(value) for name, value in zip(chunk.columns, values, strict=True)}


def _as_json(value: Any) -> Any:
    """A value as JSON can have it: NaN is missing; infinity goes as text, by which the server refuses the row."""
    if isinstance(value, float) and math.isnan(value):
        return None
    plain = value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))
    return value if plain else str(value)


def _before(chunk: Chunk, bad: BadRow) -> Chunk:
    """The rows before a bad one."""
    count = sum(line < bad.line for line in chunk.lines)
    return Chunk({name: values[:count] for name, values in chunk.columns.items()}, chunk.lines[:count])


def _sentence(answer: httpx.Response) -> str:
    try:
        error = answer.json()["error"]
        return f"{error['message']}; {error['hint']}".rstrip("; ")
    except (ValueError, KeyError, TypeError):
        return f"the server answered with status {answer.status_code}"
