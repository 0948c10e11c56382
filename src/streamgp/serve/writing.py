"""Writing: what a stream adds to the journal after a turn."""

from __future__ import annotations

import sqlite3
from functools import cache
from itertools import chain
from typing import Any

import msgspec

from streamgp.serve.asked import Done
from streamgp.serve.journal import trim

# The columns of the tables that rows are added to; a file of version 0.2 may have more.
COLUMNS = {
    "ops": ("stream", "seq", "body", "size", "tickets"),
    "points": ("stream", "row", "last", "seq", "data"),
    "notes": ("stream", "seq", "number", "kind", "row", "text"),
    "keys": ("stream", "key", "number", "digest", "answer"),
}
TOGETHER = 32  # rows of one statement


class Writing:
    """One transaction's part of a stream: ops, rows, notes, answers, position, and a snapshot at times.

    Args:
        stream: its id.
        done: requests.
        keys: the number of the last idempotency key before them.
        state: a snapshot of the stream after them; None: none is taken.
        retain: rows of the history.
        keep: rows of the ops that a snapshot has, too.
        seq: the number of the last request, where there is none here.
    """

    def __init__(
        self, stream: int, done: list[Done], keys: int, state: bytes | None, retain: int, keep: int, seq: int = 0
    ) -> None:
        self._stream, self._state, self._retain, self._kept = stream, state, retain, keep
        self._seq = done[-1].seq if done else seq
        pack = msgspec.msgpack.encode
        keyed = [one for one in done if one.asked.key]
        self._rows: dict[str, list[tuple[Any, ...]]] = {
            "ops": [(stream, one.seq, pack(op), op.size, op.tickets) for one in done for op in (one.asked.op,)],
            "points": [
                (stream, int(p[0, 0]), int(p[-1, 0]), one.seq, p.tobytes())
                for one in done
                if len(p := one.outcome.points)
            ],
            "notes": [
                (stream, one.seq, number, note.kind, note.row, note.text)
                for one in done
                for number, note in enumerate(one.outcome.notes)
            ],
            "keys": [
                (stream, one.asked.key, number, one.asked.digest, one.answer)
                for number, one in enumerate(keyed, keys + 1)
            ],
        }

    def __call__(self, cursor: sqlite3.Cursor) -> None:
        for table, rows in self._rows.items():
            # Several rows in one statement: after every single one the thread would wait for the interpreter again.
            for start in range(0, len(rows), TOGETHER):
                some = rows[start : start + TOGETHER]
                cursor.execute(insert(table, len(some)), list(chain.from_iterable(some)))
        cursor.execute("UPDATE streams SET seq=? WHERE id=?", (self._seq, self._stream))
        if self._state is not None:
            cursor.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?)", (self._stream, self._seq, self._state))
            trim(cursor, self._stream, self._retain, self._kept)


@cache
def insert(table: str, rows: int) -> str:
    """The statement that adds this many rows to a table."""
    columns = COLUMNS[table]
    one = f"({', '.join('?' * len(columns))})"
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([one] * rows)}"
