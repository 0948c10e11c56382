"""Waiting: rows that wait for their targets."""

from __future__ import annotations

import numpy as np

from streamgp.contract.snapshot import SnapshotError
from streamgp.settings import FloatArray, whole


class Waiting:
    """Holds rows of numbers, each under a ticket, until their targets arrive in whatever order.

    Tickets are whole numbers that grow from row to row. Memory is allocated once and never grows: when all places are
    taken, the oldest row loses its own.

    Args:
        places: how many rows can wait.
        width: numbers in a row, such as its inputs and what was predicted.

    Example:
        >>> import numpy as np
        >>> waiting = Waiting(places=2, width=1)
        >>> [waiting.put(ticket, np.array([10.0 * ticket])) for ticket in range(3)]
        [-1, -1, 0]
        >>> [ticket in waiting for ticket in range(3)]
        [False, True, True]
        >>> waiting.take(2), len(waiting), waiting.rows()
        (array([20.]), 1, array([[10.]]))
    """

    def __init__(self, places: int, width: int) -> None:
        self.places = whole("places", places)
        self._rows = np.zeros((places, width))
        self._tickets = np.full(places, -1)  # -1: a free place

    def __contains__(self, ticket: int) -> bool:
        return ticket >= 0 and bool(self._tickets[self._near(ticket)] == ticket)

    def __len__(self) -> int:
        return int(np.count_nonzero(self._tickets >= 0))

    def __getitem__(self, ticket: int) -> FloatArray:
        """The row that waits under a ticket, which goes on waiting."""
        at = self._near(ticket)
        if ticket < 0 or self._tickets[at] != ticket:
            raise KeyError(f"no row waits under ticket {ticket}: it was taken, or lost its place to a newer one")
        row: FloatArray = self._rows[at].copy()
        return row

    def put(self, ticket: int, row: FloatArray) -> int:
        """Let a row wait under a ticket; return the ticket that lost its place to it, or -1."""
        newest = int(self._tickets.max())
        if ticket <= newest:  # a free place has -1: refuses what is below 0, too
            raise ValueError(f"tickets must grow from 0 on; got {ticket} after {newest}")
        at = int(self._tickets.argmin())  # a free place, or that of the oldest
        lost = int(self._tickets[at])
        self._rows[at], self._tickets[at] = row, ticket
        return lost

    def take(self, ticket: int) -> FloatArray:
        """The row that waited under a ticket; its place is free again."""
        row, at = self[ticket], self._near(ticket)
        self._rows[at], self._tickets[at] = 0.0, -1
        return row

    def _near(self, ticket: int) -> int:
        """The place of a ticket, or any place if it has none."""
        return int((self._tickets == ticket).argmax())

    def rows(self) -> FloatArray:
        """The rows that wait, oldest first."""
        order = np.argsort(self._tickets)
        return self._rows[order[len(order) - len(self) :]]

    def arrays(self) -> dict[str, np.ndarray]:
        """The state by name."""
        return {"waiting": self._rows, "tickets": self._tickets}

    def check_restored(self) -> None:
        """Refuse tickets that no two rows can have."""
        held = self._tickets[self._tickets != -1]
        if np.any(held < 0) or len(np.unique(held)) < len(held):
            raise SnapshotError(f"the snapshot's tickets must be different whole numbers; they are {self._tickets}")
