"""Rows of a fleet that wait for their targets, and whose each is."""

from __future__ import annotations

import numpy as np

from streamgp.contract import waiting
from streamgp.contract.snapshot import require
from streamgp.settings import FloatArray


class Waiting:
    """Keeps rows of many models, each under a ticket, until their targets come.

    Tickets count the rows issued by the whole fleet.

    Args:
        places: how many rows can wait.
        width: numbers kept of each.
        size: how many models there are.
    """

    def __init__(self, places: int, width: int, size: int) -> None:
        self._waiting = waiting.Waiting(places, width)
        self._next = np.zeros(1, dtype=np.int64)  # ticket
        self._expired = np.zeros(1, dtype=np.int64)
        self._models = np.zeros(places, dtype=np.int64)  # whose row is in each place
        self._size = size

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def expired(self) -> int:
        return int(self._expired[0])

    def count_on(self, before: Waiting) -> None:
        """Go on with the tickets of one in which no row waits any more."""
        self._next[:], self._expired[:] = before._next, before._expired

    def put(self, models: np.ndarray, rows: FloatArray) -> np.ndarray:
        """Let rows wait, one of each model; return their tickets."""
        tickets: np.ndarray = self._next[0] + np.arange(len(models))
        self._next += len(models)
        places, expired = self._waiting.issue(tickets, rows)
        self._expired += expired
        self._models[places] = models[len(models) - len(places) :]
        return tickets

    def find(self, tickets: np.ndarray) -> np.ndarray:
        """The places of tickets; one that no row waits under is refused."""
        return self._waiting.find(tickets, int(self._next[0]))

    def under(self, tickets: np.ndarray) -> np.ndarray:
        """The models whose rows wait under tickets; -1: no row does."""
        places = self._waiting.search(tickets)
        return np.where(places < 0, -1, self._models[places])

    def models_of(self, places: np.ndarray) -> np.ndarray:
        found: np.ndarray = self._models[places]
        return found

    def kept(self, places: np.ndarray) -> FloatArray:
        """The rows in these places."""
        found: FloatArray = self._waiting.rows[places]
        return found

    def take(self, places: np.ndarray) -> None:
        """Rows have been learned, one of each model: their places are free."""
        self._free(places)

    def _free(self, places: np.ndarray) -> None:
        self._waiting.resolve(places)
        self._models[places] = 0

    def add(self, count: int) -> None:
        """Models have been added."""
        self._size += count

    def keep(self, which: np.ndarray) -> None:
        """Only these models are left: rows of the others no longer wait."""
        ids = np.full(self._size, -1)
        ids[which] = np.arange(len(which))
        used = self._waiting.tickets >= 0
        gone = used & (ids[self._models] < 0)
        self._models[used] = ids[self._models[used]]
        self._free(np.flatnonzero(gone))
        self._size = len(which)

    def arrays(self) -> dict[str, np.ndarray]:
        """The state by name."""
        return {
            "waiting.next": self._next,
            "waiting.expired": self._expired,
            "waiting.tickets": self._waiting.tickets,
            "waiting.models": self._models,
            "waiting.rows": self._waiting.rows,
        }

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        """Take over what arrays() returned, also on another device: every device keeps the inputs first, and recipes
        that more than one runs need nothing else."""
        for name, array in self.arrays().items():
            if name == "waiting.rows":
                common = min(array.shape[1], saved[name].shape[1])
                array[:, :common] = saved[name][:, :common]
            else:
                array[...] = saved[name]

    def check_restored(self) -> None:
        """Refuse a state that no rows lead to."""
        require("waiting.expired", self._expired, at_least=0, at_most=max(int(self._next[0]), 0))
        require("waiting.models", self._models, at_least=0, at_most=max(self._size - 1, 0))
        self._waiting.check_restored(int(self._next[0]))
