"""Late targets of a run: rows that wait under the tickets that a column gives them."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.contract.snapshot import SnapshotError
from streamgp.contract.waiting import Waiting
from streamgp.settings import FloatArray, whole


class Late:
    """Rows of a table that wait for their targets.

    Tickets are text. Those of waiting rows are known, and as many of the rows that were resolved or expired last.

    Args:
        pending: how many rows can wait; one more, and the oldest expires.
        width: numbers of a row.

    Example:
        >>> import numpy as np
        >>> late = Late(pending=2, width=1)
        >>> for number, ticket in enumerate(["a", "b", "c"]):
        ...     late.wait(ticket, number, np.array([10.0 * number]))
        >>> late.take("a", 1.0), late.take("c", 2.0), late.counts()
        (None, array([20.]), {'waiting': 1, 'learned': 1, 'expired': 1, 'ignored': 1})
    """

    def __init__(self, pending: int, width: int) -> None:
        self._delay = Waiting(pending, width)
        self._waiting: dict[str, int] = {}  # the number of each row, oldest first
        self._closed: dict[str, None] = {}
        self._counts = {"learned": 0, "expired": 0, "ignored": 0}

    def __contains__(self, ticket: str) -> bool:
        return ticket in self._waiting or ticket in self._closed

    def wait(self, ticket: str, number: int, row: FloatArray) -> None:
        """Let a row wait for its target; numbers grow from row to row."""
        if self._delay.put(number, row) >= 0:
            self._counts["expired"] += 1
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            self.close(oldest)
        self._waiting[ticket] = number

    def take(self, ticket: str, y: float) -> FloatArray | None:
        """The row whose target has come; None where no row waits under the ticket, or there is no target."""
        if ticket not in self._waiting or np.isnan(y):
            self._counts["ignored"] += 1
            return None
        self._counts["learned"] += 1
        self.close(ticket)
        return self._delay.take(self._waiting.pop(ticket))

    def close(self, ticket: str) -> None:
        """Know a ticket again whose row waits no longer."""
        self._closed[ticket] = None
        if len(self._closed) > self._delay.places:
            del self._closed[next(iter(self._closed))]

    def counts(self) -> dict[str, int]:
        """Rows that wait, targets that came late and were learned, rows that expired, and late rows without effect."""
        return {"waiting": len(self._waiting)} | self._counts

    # The state.

    def arrays(self) -> dict[str, np.ndarray]:
        """The state by name."""
        return {f"late_{name}": array for name, array in self._delay.arrays().items()}

    def header(self) -> dict[str, Any]:
        """The rest of it."""
        waiting = list(self._waiting.items())  # a list, because the order counts
        return {"waiting": waiting, "closed": list(self._closed), "counts": self._counts}

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on from the header, once the arrays are in place."""
        self._delay.check_restored()
        self._waiting = {str(ticket): whole("tickets", number, at_least=0) for ticket, number in saved["waiting"]}
        self._closed = dict.fromkeys(map(str, saved["closed"]))
        self._counts = {name: whole(name, saved["counts"][name], at_least=0) for name in self._counts}
        tickets = self._delay.arrays()["tickets"]
        if list(self._waiting.values()) != sorted(tickets[tickets >= 0].tolist()):
            raise SnapshotError("the snapshot does not name all rows that wait for their targets")
