"""Waiting: rows of a fleet whose targets come late, in any order, or never."""

from __future__ import annotations

import numpy as np

from streamgp.contract.snapshot import SnapshotError, require
from streamgp.settings import FloatArray


class Waiting:
    """Holds rows, each under a ticket, until their targets come.

    Tickets count the rows issued by the whole fleet. A row keeps its place until as many newer ones have been issued as
    there are places. Memory is allocated once.

    Args:
        places: how many rows can wait.
        width: numbers held of each.
        size: how many models there are.
    """

    def __init__(self, places: int, width: int, size: int) -> None:
        self._next = np.zeros(1, dtype=np.int64)  # ticket
        self._expired = np.zeros(1, dtype=np.int64)
        self._tickets = np.full(places, -1)  # of the row in each place; -1: none
        self._models = np.zeros(places, dtype=np.int64)
        self._rows = np.zeros((places, width))
        self._newest = np.full(size, -1)  # ticket of the last row of each model if nothing came after it, or -1
        self._fresh = np.zeros(size, dtype=np.int64)  # whether the model has not changed since

    def __len__(self) -> int:
        return int(np.count_nonzero(self._tickets >= 0))

    @property
    def expired(self) -> int:
        return int(self._expired[0])

    def count_on(self, before: Waiting) -> None:
        """Go on with the tickets of one that holds no row any more."""
        self._next[:], self._expired[:] = before._next, before._expired

    def put(self, models: np.ndarray, rows: FloatArray) -> np.ndarray:
        """Let rows wait, one of each model; return their tickets."""
        tickets: np.ndarray = self._next[0] + np.arange(len(models))
        self._next += len(models)
        places = tickets % len(self._tickets)
        kept = slice(max(0, len(models) - len(self._tickets)), None)  # the others lose their places at once
        self._expired += np.count_nonzero(self._tickets[places[kept]] >= 0) + len(models) - len(places[kept])
        self._tickets[places[kept]], self._models[places[kept]] = tickets[kept], models[kept]
        self._rows[places[kept]] = rows[kept]
        self._newest[models], self._fresh[models] = tickets, 1
        return tickets

    def find(self, tickets: np.ndarray) -> np.ndarray:
        """The places of tickets; one that no row waits under is refused."""
        for ticket in tickets[(tickets < 0) | (tickets >= self._next[0])][:1]:
            raise KeyError(f"ticket {ticket} has not been issued; the next one will be {self._next[0]}")
        places = tickets % len(self._tickets)
        for ticket in tickets[self._tickets[places] != tickets][:1]:
            raise KeyError(
                f"no row waits under ticket {ticket}: it is resolved, or expired when {len(self._tickets)} newer ones "
                "were issued"
            )
        if len(np.unique(tickets)) < len(tickets):
            raise ValueError("tickets has one of them twice; each row has one target")
        return places

    def under(self, tickets: np.ndarray) -> np.ndarray:
        """The models whose rows wait under tickets; -1: no row does."""
        places = tickets % len(self._tickets)
        waits = (tickets >= 0) & (self._tickets[places] == tickets)
        return np.where(waits, self._models[places], -1)

    def models_of(self, places: np.ndarray) -> np.ndarray:
        found: np.ndarray = self._models[places]
        return found

    def held(self, places: np.ndarray) -> FloatArray:
        found: FloatArray = self._rows[places]
        return found

    def state_of(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Whether each row is the last of its model, and whether that has not changed since."""
        models = self._models[places]
        newest = self._newest[models] == self._tickets[places]
        return newest, newest & (self._fresh[models] == 1)

    def take(self, places: np.ndarray) -> None:
        """Rows have been learned, one of each model: their places are free."""
        newest, _ = self.state_of(places)
        self._newest[self._models[places[newest]]] = -1
        self._fresh[self._models[places]] = 0
        self._tickets[places], self._rows[places], self._models[places] = -1, 0.0, 0

    def passed(self, models: np.ndarray) -> None:
        """Models have learned other rows."""
        self._newest[models], self._fresh[models] = -1, 0

    def add(self, count: int) -> None:
        """Models have been added."""
        self._newest = np.append(self._newest, np.full(count, -1))
        self._fresh = np.append(self._fresh, np.zeros(count, dtype=np.int64))

    def keep(self, which: np.ndarray) -> None:
        """Only these models are left: rows of the others no longer wait."""
        places = np.full(len(self._newest), -1)
        places[which] = np.arange(len(which))
        waiting = self._tickets >= 0
        gone = waiting & (places[self._models] < 0)
        self._models[waiting] = places[self._models[waiting]]
        self._tickets[gone], self._rows[gone], self._models[gone] = -1, 0.0, 0
        self._newest, self._fresh = self._newest[which], self._fresh[which]

    def arrays(self) -> dict[str, np.ndarray]:
        """The state by name."""
        return {
            "waiting.next": self._next,
            "waiting.expired": self._expired,
            "waiting.tickets": self._tickets,
            "waiting.models": self._models,
            "waiting.rows": self._rows,
            "waiting.newest": self._newest,
            "waiting.fresh": self._fresh,
        }

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        """Take over what arrays() returned, also on another device: all devices hold the inputs first, and recipes that
        more than one runs need nothing else."""
        for name, array in self.arrays().items():
            if name == "waiting.rows":
                common = min(array.shape[1], saved[name].shape[1])
                array[:, :common] = saved[name][:, :common]
            else:
                array[...] = saved[name]

    def check_restored(self) -> None:
        """Refuse a state that no rows lead to."""
        require("waiting.expired", self._expired, at_least=0, at_most=max(int(self._next[0]), 0))
        require("waiting.newest", self._newest, at_least=-1, at_most=int(self._next[0]) - 1)
        require("waiting.models", self._models, at_least=0, at_most=max(len(self._newest) - 1, 0))
        require("waiting.fresh", self._fresh, at_least=0, at_most=1)
        held = self._tickets >= 0
        placed = self._tickets % len(self._tickets) == np.arange(len(self._tickets))
        if not np.all(np.where(held, placed & (self._tickets < self._next[0]), self._tickets == -1)):
            raise SnapshotError(f"the snapshot's tickets cannot be those of waiting rows: {self._tickets}")
