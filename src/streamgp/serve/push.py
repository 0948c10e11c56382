"""Push: rows of a file to a stream of a server, each exactly once, also if either of them is stopped in between.

Before a batch is sent, a small file beside the source notes which lines it has. A push that is started again sends the
same lines under the same idempotency key: if the server had them already, it answers as before and learns nothing.
"""

from __future__ import annotations

import json
import math
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamgp.contract import snapshot
from streamgp.serve.sending import Sender, SendError
from streamgp.tables.formats import BadRow, Chunk, Reader, read_rows
from streamgp.tables.places import locked
from streamgp.tables.source import OtherSourceError, Position

BATCH = 100  # rows of a request


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
        state, sender = self._state_file(), Sender(self.to, self.token, self.patience, self.stop, self.say)
        with closing(sender), locked({"state": state}):
            if self.settings is not None:
                sender.ask("PUT", f"/v1/streams/{self.stream}", _encoded(self.settings))
            done, pending = self._noted(state)
            try:
                reader = read_rows(self.source, follow=self.follow, stop=self.stop, after=done)
                with closing(reader):
                    return self._send(sender, reader, state, pending)
            except OtherSourceError as error:
                raise SendError(f"{error}. To send all rows of this one, delete {state}") from None

    def _send(self, sender: Sender, reader: Reader, state: Path | None, pending: int) -> int:
        sent = last = 0
        for rows, lines in self._batches(reader, pending):
            if lines[0] <= last:  # a new file has taken the place of the one that was followed
                self._id = secrets.token_hex(8)
            last = lines[-1]
            self._note(state, reader, lines[0] - 1, last)
            key = f"push-{self._id}-{lines[0]}-{last}"
            try:
                answer = sender.ask("POST", f"/v1/streams/{self.stream}/rows", _encoded(rows), key)
            except SendError as problem:
                where = f"{reader.unit} {lines[0]} to {last}: " if problem.status else ""
                raise SendError(f"{where}{problem}", problem.status) from None
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
                raise SendError(
                    f"{reader.unit} {bad.line} {bad.reason}. The rows before it are sent; fix it, or skip such rows "
                    "with `on_error=skip`"
                )
        if rows:
            yield rows, lines

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
            raise SendError(f"{state} is damaged; delete it to send all rows again") from None
        if (noted.get("to"), noted.get("stream")) != (self.to, self.stream):
            raise SendError(f"{state} is of a push to another stream; give `state` another name")
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


def _encoded(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
