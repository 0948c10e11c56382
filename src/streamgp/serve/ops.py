"""Ops: the requests that change what is learned, as the journal keeps them, what they lead to, and their tickets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from streamgp.contract import waiting
from streamgp.serve.messages import Row, Target, TargetResult, Tickets
from streamgp.settings import FloatArray

POINT = 5  # numbers of a row in the history: its number, target (NaN: none), mean, lower, upper
NO_POINTS = np.empty((0, POINT))


class Op(Struct, omit_defaults=True):
    """A request that changes the state."""

    kind: str  # "rows", "predict" or "targets"
    rows: list[Row] = []  # of the first two
    targets: list[Target] = []  # of the last

    @property
    def size(self) -> int:
        """Rows or targets."""
        return len(self.rows) + len(self.targets)

    @property
    def tickets(self) -> int:
        """How many it gives."""
        return len(self.rows) if self.kind == "predict" else 0


class Note(Struct):
    """Something that happened, for whoever listens: kind "drift", "alarm" or "model"."""

    kind: str
    row: int
    text: str


class Outcome(Struct):
    """What an op led to."""

    answer: Any  # to the client
    points: Any = NO_POINTS  # (n, POINT) rows whose predictions are now complete
    notes: list[Note] = []  # what happened


Waits = dict[str, tuple[Target, FloatArray]]  # targets with the rows that wait for them, by ticket


class Issued(waiting.Tickets[FloatArray]):
    """The rows of a stream, or of a fleet, that wait for their targets.

    Args:
        tag: begins the tickets, so that those of another stream of the same name are unknown.
        pending: rows that can wait.
        issued: tickets that were given before.
    """

    def __init__(self, tag: str, pending: int, issued: int = 0) -> None:
        super().__init__(pending)
        self.tag, self.issued = tag, issued

    def new(self, row: FloatArray) -> str:
        """The ticket under which a row waits from now on."""
        self.issued += 1
        ticket = f"{self.tag}-{self.issued}"
        self.issue(ticket, row)
        return ticket

    def look(self, targets: Sequence[Target]) -> tuple[list[TargetResult], Waits]:
        """What becomes of targets, and those that are to be learned; nothing changes yet."""
        results, waits = list[TargetResult](), Waits()
        for target in targets:
            row, closed = self.rows.get(target.ticket), self.closed.get(target.ticket)
            status = "unknown" if closed is None else "known" if closed else "expired"
            if target.ticket in waits:
                status = "known"
            elif row is not None:
                waits[target.ticket], status = (target, row), "learned"
            results.append(TargetResult(target.ticket, status))
        return results, waits

    def told(self) -> Tickets:
        """For people."""
        return Tickets(len(self), self.expired)

    def header(self) -> dict[str, Any]:
        """What a snapshot has beside the rows."""
        closed = list(self.closed.items())
        return {"tickets": list(self.rows), "closed": closed, "issued": self.issued, "expired": self.expired}

    def restore(self, header: dict[str, Any], rows: FloatArray) -> None:
        """Go on from a snapshot."""
        self.rows, self.closed = dict(zip(header["tickets"], rows.copy(), strict=True)), dict(header["closed"])
        self.issued, self.expired = header["issued"], header["expired"]


# Made here, in one thread: msgspec crashes where several threads are the first to decode a type at the same time.
OPS = msgspec.msgpack.Decoder(list[Op])
YOUNG = msgspec.msgpack.Decoder(list[Op] | None)
