"""Delay: rows that wait for their targets."""

from __future__ import annotations

import numpy as np

from streamgp.contract.snapshot import SnapshotError
from streamgp.settings import FloatArray, whole


class Delay:
    """Holds rows of numbers, each under a ticket, until their targets arrive in whatever order.

    Tickets are whole numbers that grow by one from row to row. A row that is still waiting when ``places`` newer ones
    have arrived loses its place: memory is allocated once and never grows.

    Args:
        places: how many rows can wait.
        width: numbers in a row, such as its inputs and what was predicted.

    Example:
        >>> import numpy as np
        >>> delay = Delay(places=2, width=1)
        >>> for ticket in range(3):
        ...     delay.put(ticket, np.array([10.0 * ticket]))
        >>> [ticket in delay for ticket in range(3)]
        [False, True, True]
        >>> delay.take(2), len(delay), delay.waiting()
        (array([20.]), 1, array([[10.]]))
    """

    def __init__(self, places: int, width: int) -> None:
        self.places = whole("places", places)
        self._rows = np.zeros((places, width))
        self._tickets = np.full(places, -1)  # -1: a free place

    def __contains__(self, ticket: int) -> bool:
        return ticket >= 0 and bool(self._tickets[ticket % self.places] == ticket)

    def __len__(self) -> int:
        return int(np.count_nonzero(self._tickets >= 0))

    def put(self, ticket: int, row: FloatArray) -> None:
        """Let a row wait under a ticket."""
        at = ticket % self.places
        if self._tickets[at] >= ticket:  # a free place has -1: refuses what is below 0, too
            raise ValueError(f"tickets must grow from 0 on; got {ticket} after {self._tickets[at]}")
        self._rows[at], self._tickets[at] = row, ticket

    def take(self, ticket: int) -> FloatArray:
        """The row that waited under a ticket; its place is free again."""
        if ticket not in self:
            raise KeyError(f"no row waits under ticket {ticket}: it was taken, or {self.places} newer ones came")
        at = ticket % self.places
        row: FloatArray = self._rows[at].copy()
        self._rows[at], self._tickets[at] = 0.0, -1
        return row

    def waiting(self) -> FloatArray:
        """The rows that wait, oldest first."""
        order = np.argsort(self._tickets)
        return self._rows[order[len(order) - len(self) :]]

    def arrays(self) -> dict[str, np.ndarray]:
        """The state by name."""
        return {"waiting": self._rows, "tickets": self._tickets}

    def check_restored(self) -> None:
        """Refuse tickets that cannot lie where they do."""
        held = np.flatnonzero(self._tickets != -1)
        if np.any(self._tickets < -1) or np.any(self._tickets[held] % self.places != held):
            raise SnapshotError(f"the snapshot's tickets must each lie in their own place; they are {self._tickets}")
