"""Processor: one shard in Spark's state.

The state of a shard is its last whole value, the rows it has learned since (the log), and a small head. Most batches
append to the log only; when it has grown long, the whole is written again and the log is cleared. A worker keeps the
shards that it has seen last. It goes on with its own if the head carries the token that the worker wrote, and otherwise
reads the whole and learns the log again, which gives the same numbers bit for bit.

Processor has the methods of pyspark's StatefulProcessor and does not import it, so that it loads without pyspark.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator
from operator import itemgetter
from typing import Any, NamedTuple

import pandas as pd

from streamgp.spark.frames import batch_of, frame_of
from streamgp.spark.plan import Plan
from streamgp.spark.rows import Entry
from streamgp.spark.shard import Shard, joined

HEAD, WHOLE, LOG = "head", "whole", "log"
WHOLE_SCHEMA = "state binary"
LOG_SCHEMA = "number bigint, entry binary"

# Rows in the log for each key before the whole is written again. With 16, a row costs a sixteenth of the writing of its
# key's state, and a worker that has to read a shard learns 8 rows of each key again on average.
LOGGED_PER_KEY = 16


class Head(NamedTuple):
    """What is known of a shard without reading it."""

    token: bytes
    shards: int
    keys: int
    rows: int
    late: int
    refused: int
    unmatched: int
    logged: int
    timer: int | None


HEAD_SCHEMA = ", ".join(f"{name} {'binary' if name == 'token' else 'bigint'}" for name in Head._fields)

# The shards that this process has seen last, by plan and number, with the token of the state that each equals.
_cached: OrderedDict[tuple[str, int], tuple[bytes, Shard]] = OrderedDict()


class Processor:
    """Keeps the shards of a query in its state.

    Args:
        plan: of the query.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def init(self, handle: Any) -> None:
        self._handle = handle
        self._head = handle.getValueState(HEAD, HEAD_SCHEMA)
        self._whole = handle.getValueState(WHOLE, WHOLE_SCHEMA)
        self._log = handle.getListState(LOG, LOG_SCHEMA)

    def handleInputRows(  # noqa: N802
        self, key: tuple[int], rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        batch = batch_of(self._plan, pd.concat(list(rows), ignore_index=True))
        shard, head = self._open(key[0])
        entry, refused = shard.arrange(batch)
        predictions = joined(shard.learn(entry), refused)
        self._keep(key[0], shard, head, entry, self._timer(shard, head, timerValues))
        if predictions.key:
            yield frame_of(self._plan, predictions)

    def handleExpiredTimer(  # noqa: N802
        self, key: tuple[int], timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[pd.DataFrame]:
        shard, head = self._open(key[0])
        now = int(timerValues.getCurrentWatermarkInMs() * self._plan.per_second / 1000)
        expired = shard.expire(now - self._idle())
        self._keep(key[0], shard, head, None, self._timer(shard, None, timerValues))
        if expired[1]:
            yield frame_of(self._plan, *expired)

    def handleInitialState(self, key: tuple[int], initialState: pd.DataFrame, timerValues: Any) -> None:  # noqa: N802
        shard = Shard.from_bytes(initialState["state"].iloc[0], self._plan)
        self._keep(key[0], shard, None, None, self._timer(shard, None, timerValues))

    def close(self) -> None:
        """Nothing is open between batches."""

    # The state.

    def _open(self, number: int) -> tuple[Shard, Head | None]:
        """The shard as the state has it. It leaves the cache: if this batch fails, what it became is lost with it."""
        token, cached = _cached.pop((self._plan.fingerprint, number), (b"", None))
        found = self._head.get()
        if found is None:
            return Shard(self._plan), None
        head = Head(*found)
        if cached is not None and token == bytes(head.token):
            return cached, head
        return opened(self._whole.get()[0], self._log.get() if head.logged else (), self._plan), head

    def _keep(self, number: int, shard: Shard, head: Head | None, entry: Entry | None, timer: int | None) -> None:
        """Write what has changed: an entry, or everything."""
        logged = 0 if head is None else head.logged
        if head is None or entry is None or logged + len(entry.ids) > LOGGED_PER_KEY * len(shard):
            self._whole.update((shard.to_bytes(),))
            if logged:
                self._log.clear()
            logged = 0
        else:
            # Rows never become fewer while there is a log, and logged grows with every entry, late targets included.
            self._log.appendValue((head.rows + logged, entry.to_bytes()))
            logged += max(len(entry.ids), 1)
        plan, token = self._plan, os.urandom(16)
        counts = len(shard), shard.rows, shard.late, shard.refused, shard.unmatched
        self._head.update((token, plan.shards, *counts, logged, timer))
        _cached[plan.fingerprint, number] = token, shard
        while len(_cached) > max(1, 2 * plan.shards // (os.cpu_count() or 1)):
            _cached.popitem(last=False)

    # Idle keys.

    def _timer(self, shard: Shard, head: Head | None, timers: Any) -> int | None:
        """When the next key can expire, in milliseconds; a timer that has been set stays."""
        if self._plan.idle is None:
            return None
        if head is not None and head.timer is not None:
            return head.timer
        earliest = shard.earliest()
        if earliest is None:
            return None
        due = int((earliest + self._idle()) / self._plan.per_second * 1000)
        due = 1 + max(due, int(timers.getCurrentWatermarkInMs()))
        self._handle.registerTimer(due)
        return due

    def _idle(self) -> int:
        return int((self._plan.idle or 0.0) * self._plan.per_second)


def opened(whole: bytes, log: Any, plan: Plan | None = None) -> Shard:
    """A shard of its whole value and the numbered entries since, in any order; plan: as in Shard.from_bytes()."""
    shard = Shard.from_bytes(whole, plan)
    for _, entry in sorted(log, key=itemgetter(0)):
        shard.learn(Entry.from_bytes(entry))
    return shard
