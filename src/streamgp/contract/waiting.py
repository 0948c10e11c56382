"""Rows that wait for their targets: under whole numbers in arrays, or under text in a dictionary."""

from __future__ import annotations

from typing import Generic, TypeVar

import numpy as np

from streamgp.contract.snapshot import SnapshotError
from streamgp.settings import FloatArray, whole

Row = TypeVar("Row")  # what is kept of a row: its numbers, or its ticket in a model


class Waiting:
    """Keeps rows of numbers, each under a ticket, until their targets arrive in whatever order.

    Tickets are whole numbers that grow from row to row. Memory is allocated once and never grows: when all places are
    taken, the oldest row expires.
    """

    def __init__(self, places: int, width: int) -> None:
        self.places = whole("places", places)
        self.rows = np.zeros((places, width))  # in each place
        self.tickets = np.full(places, -1)  # of these rows; -1: the place is free

    def __contains__(self, ticket: int) -> bool:
        return ticket >= 0 and bool((self.tickets == ticket).any())

    def __len__(self) -> int:
        return int(np.count_nonzero(self.tickets >= 0))

    def __getitem__(self, ticket: int) -> FloatArray:
        """The row that waits under a ticket."""
        row: FloatArray = self.rows[self.place(ticket)].copy()
        return row

    def issue(self, tickets: np.ndarray, rows: FloatArray) -> tuple[np.ndarray, int]:
        """Let rows, (n, width), wait in free places, then in those of the oldest rows, which expire.

        Tickets, (n,), ascend, above those of all rows that wait. Returns the places of the last of these rows, as many
        as there is room for, and how many rows expired.
        """
        newest, n = int(self.tickets.max()), min(len(tickets), self.places)
        if tickets[0] <= newest:  # a free place has -1: refuses what is below 0, too
            raise ValueError(f"tickets must grow from 0 on; got {tickets[0]} after {newest}")
        places = np.array([self.tickets.argmin()]) if n == 1 else np.argsort(self.tickets, kind="stable")[:n]
        expired = len(tickets) - n + int(np.count_nonzero(self.tickets[places] >= 0))
        self.tickets[places], self.rows[places] = tickets[-n:], rows[-n:]
        return places, expired

    def place(self, ticket: int) -> int:
        """The place of a ticket; one that no row waits under is refused."""
        place = int((self.tickets == ticket).argmax())
        if ticket < 0 or self.tickets[place] != ticket:
            raise KeyError(
                f"no row waits under ticket {ticket}: it is resolved, or expired when {self.places} newer ones waited"
            )
        return place

    def search(self, tickets: np.ndarray) -> np.ndarray:
        """The places of tickets, (n,); -1: no row waits under it."""
        order = np.argsort(self.tickets, kind="stable")
        places = order[np.searchsorted(self.tickets, tickets, sorter=order) % self.places]
        return np.where((tickets >= 0) & (self.tickets[places] == tickets), places, -1)

    def find(self, tickets: np.ndarray, issued: int) -> np.ndarray:
        """The places of tickets, (n,), the next one of which is ``issued``; one that no row waits under is refused."""
        for ticket in tickets[(tickets < 0) | (tickets >= issued)][:1]:
            raise KeyError(f"ticket {ticket} has not been issued; the next one will be {issued}")
        places = self.search(tickets)
        for ticket in tickets[places < 0][:1]:
            self.place(ticket)
        if len(np.unique(tickets)) < len(tickets):
            raise ValueError("tickets has one of them twice; each row has one target")
        return places

    def resolve(self, places: np.ndarray | int) -> None:
        """Free the places of rows that wait no longer."""
        self.rows[places], self.tickets[places] = 0.0, -1

    def arrays(self) -> dict[str, np.ndarray]:
        """The state by name."""
        return {"waiting": self.rows, "tickets": self.tickets}

    @property
    def stack(self) -> list[np.ndarray]:
        """All that rows change."""
        return [self.rows, self.tickets]

    def check_restored(self, issued: int) -> None:
        """Refuse tickets that no rows can have, the next one of which is ``issued``."""
        used = self.tickets[self.tickets != -1]
        if np.any((used < 0) | (used >= issued)) or len(np.unique(used)) < len(used):
            raise SnapshotError(
                f"the snapshot's tickets must be different whole numbers below {issued}; they are {self.tickets}"
            )


class Tickets(Generic[Row]):
    """Rows that wait under tickets that are text, at most so many; one more, and the oldest expires.

    The tickets of rows that wait are known, and as many of the rows that were resolved or expired last.
    """

    def __init__(self, pending: int) -> None:
        self._pending = pending
        self.rows: dict[str, Row] = {}  # that wait, oldest first
        self.closed: dict[str, bool] = {}  # whether rows that wait no longer were resolved
        self.resolved = self.expired = self.ignored = 0

    def __contains__(self, ticket: str) -> bool:
        return ticket in self.rows or ticket in self.closed

    def __len__(self) -> int:
        return len(self.rows)

    def issue(self, ticket: str, row: Row) -> None:
        """Let a row wait for its target."""
        if len(self.rows) >= self._pending:
            self.expired += 1
            oldest = next(iter(self.rows))
            del self.rows[oldest]
            self.close(oldest, resolved=False)
        self.rows[ticket] = row

    def resolve(self, ticket: str) -> Row | None:
        """The row whose target has come; None where no row waits under the ticket."""
        row = self.rows.pop(ticket, None)
        if row is not None:
            self.resolved += 1
            self.close(ticket)
        return row

    def close(self, ticket: str, resolved: bool = True) -> None:
        """Know a ticket again whose row does not wait."""
        self.closed[ticket] = resolved
        if len(self.closed) > self._pending:
            del self.closed[next(iter(self.closed))]
