"""Service: all streams of a folder; creates, finds and removes them, and stops without losing anything."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from streamgp.serve import cost
from streamgp.serve.described import check_settings
from streamgp.serve.fleets import check_fleet
from streamgp.serve.hosted import Hosted, unknown
from streamgp.serve.journal import Journal, Kept, owned
from streamgp.serve.learner import Learner
from streamgp.serve.messages import NAME, FleetSettings, RefusedError, StreamSettings, encode
from streamgp.serve.webhook import Webhook

MOST_UPLOADS = 4  # snapshots that are received and loaded at the same time
STOPPING = 20.0  # seconds in which streams may finish their work and take a last snapshot


@dataclass(frozen=True)
class Limits:
    """What the service allows."""

    streams: int = 1000
    body: int = 8 << 20  # bytes of a request
    retain: int = 100_000  # newest rows of a stream that are kept for its history
    keep: int = 10_000  # newest rows of a stream that are kept as they came, to be learned again after an upgrade
    threads: int = max(8, 4 * (os.cpu_count() or 1))  # streams that work at the same time

    @property
    def snapshot(self) -> int:
        """Bytes of a snapshot: those of the largest stream, and of what describes it."""
        return cost.MEMORY + self.body


class Service:
    """The streams of a folder, which belongs to it alone.

    Args:
        folder: where the data are.
        limits: what it allows.
        webhook: the address that alarms are posted to; "": none.
    """

    def __init__(self, folder: str | Path, limits: Limits | None = None, webhook: str = "") -> None:
        self.limits = limits or Limits()
        self.folder = Path(folder)
        self._opened = contextlib.ExitStack()
        self.compiling = False  # or loading what was compiled, so that it would take long to answer
        self.cold = False  # compiling for so long that rows are refused meanwhile
        self.webhook = Webhook(webhook) if webhook else None
        if self.webhook is not None:
            self._opened.callback(self.webhook.close)
        try:
            self._opened.enter_context(owned(self.folder))
            self.journal = Journal(self.folder, retain=self.limits.retain, keep=self.limits.keep)
        except BaseException:
            self._opened.close()
            raise
        self.pool = ThreadPoolExecutor(self.limits.threads, thread_name_prefix="stream")
        self.later = ThreadPoolExecutor(1, thread_name_prefix="snapshot")
        # Forecasts and uploads may take seconds, for which no row waits.
        self.slow = ThreadPoolExecutor(1, thread_name_prefix="slow")
        self.uploads = asyncio.Semaphore(MOST_UPLOADS)
        self._lock = threading.Lock()
        self.streams: dict[str, Hosted] = {kept.name: self._hosted(kept) for kept in self.journal.streams()}
        self._finished = True  # all streams have done what was asked

    def open(self) -> None:
        """In the server's loop: load the streams."""
        for stream in self.streams.values():
            stream.load()

    def _hosted(self, kept: Kept) -> Hosted:
        return Hosted(kept, self.journal, self.pool, self.later, self._alarmed)

    def _alarmed(self, stream: str, row: int, text: str) -> None:
        if self.webhook is not None:
            self.webhook.put(stream, row, text)

    def stream(self, name: str, kind: str = "streams") -> Hosted:
        """The stream, or the fleet, of this name."""
        check_name(name)
        if (found := self._taken(name)) is None or found.kind != kind:
            raise unknown(name, kind)
        return found

    def of_kind(self, kind: str) -> list[Hosted]:
        """All streams, or all fleets, by name."""
        return [one for _, one in sorted(self.streams.items()) if one.kind == kind and not one.gone]

    def create(self, name: str, settings: StreamSettings | FleetSettings) -> tuple[Hosted, bool]:
        """The stream, or the fleet, of this name and these settings, and whether it is new."""
        check_name(name)
        if isinstance(settings, FleetSettings):
            check_fleet(settings)
        else:
            check_settings(settings)
        with self._lock:
            if (found := self._taken(name)) is not None:
                if found.settings != settings:
                    exists = f"the {found.kind.removesuffix('s')} {name!r} exists with other settings"
                    hint = "GET it to see them, DELETE it to start anew, or take another name"
                    raise RefusedError("exists", exists, hint)
                return found, False
            return self._new(name, settings, None), True

    def create_from(self, name: str, learner: Learner) -> Hosted | None:
        """A new stream that goes on from a saved run; None where the name is taken."""
        check_name(name)
        with self._lock:
            return None if self._taken(name) else self._new(name, learner.settings, learner)

    def _taken(self, name: str) -> Hosted | None:
        found = self.streams.get(name)
        return None if found is None or found.gone else found

    def full(self, more: int) -> RefusedError | None:
        """What is said where there is no room for this many more streams; None: there is."""
        there, most = len(self.streams), self.limits.streams
        if there + more <= most:
            return None
        message = f"this server allows {most} streams: it has {there}, and the request asks for {more} more"
        return RefusedError("too_many_streams", message, "delete some, or raise --max-streams")

    def _new(self, name: str, settings: StreamSettings | FleetSettings, learner: Learner | None) -> Hosted:
        if (full := self.full(1)) is not None:
            raise full
        tag = new_tag() if learner is None else learner.tag
        body, state = encode(settings), None if learner is None else learner.to_bytes()
        kind = "fleets" if isinstance(settings, FleetSettings) else "streams"
        made: list[int] = []

        def write(cursor: sqlite3.Cursor) -> None:
            values = name, tag, body, 0 if state is None else None, kind
            insert = "INSERT INTO streams (name, tag, settings, seq, dropped, kind) VALUES (?, ?, ?, 0, ?, ?)"
            cursor.execute(insert, values)
            made.extend(cursor.execute("SELECT last_insert_rowid()").fetchone())
            if state is not None:
                for part in self.journal.snapping(made[-1], 0, state):
                    part(cursor)

        self.journal.write(write)
        stream = self.streams[name] = self._hosted(Kept(made[-1], name, tag, body, 0, kind))
        return stream

    def forget(self, stream: Hosted) -> None:
        """Let go of a stream that was removed."""
        with self._lock:
            if self.streams.get(stream.name) is stream:
                del self.streams[stream.name]

    def status(self) -> str:
        """Whether the service can do its work."""
        return "ok" if self.journal.trouble is None else self.journal.trouble.message

    async def finish(self) -> None:
        """In the server's loop: finish what has been asked, and take last snapshots."""
        saving = []
        for stream in list(self.streams.values()):
            with contextlib.suppress(RefusedError):
                saving.append(stream.call(stream.save))
        if saving:
            _, left = await asyncio.wait(saving, timeout=STOPPING)
            self._finished = not left

    def close(self) -> bool:
        """After the loop: let go of the folder; whether all could be finished."""
        for pool in (self.slow, self.pool, self.later):
            pool.shutdown(wait=self._finished, cancel_futures=True)
        self.journal.close()
        self._opened.close()
        return self._finished


def check_name(name: str) -> None:
    """Refuse what is not the name of a stream."""
    if not re.fullmatch(NAME, name):
        hint = "use up to 64 letters, digits, dots, dashes and underscores; begin with a letter or digit"
        raise RefusedError("bad_name", f"{name[:80]!r} cannot be the name of a stream", hint)


def new_tag() -> str:
    """What the tickets of a new stream begin with."""
    return secrets.token_hex(4)
