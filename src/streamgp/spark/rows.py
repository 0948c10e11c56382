"""Rows of a shard: as they come, as they are learned, and what is predicted of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streamgp.contract import snapshot
from streamgp.settings import FloatArray

NO_TICKET = -1
NO_TIME = int(np.iinfo(np.int64).min)  # where times are whole numbers; NaN where they are floats


class Batch(NamedTuple):
    """Rows as they come, in any order.

    Args:
        keys: (n,) texts or whole numbers; None: missing.
        time: (n,) whole numbers or floats, in which rows of a key are ordered.
        X: (n, d); NaN where missing.
        Y: (n,); NaN where missing.
        tickets: (n,) under which a row was issued whose target this is; -1: a row to predict. None: all are.
    """

    keys: list[Any]
    time: np.ndarray
    X: FloatArray
    Y: FloatArray
    tickets: np.ndarray | None = None


_ARRAYS = "ids", "time", "X", "Y", "tickets"


class Entry(NamedTuple):
    """Rows that have been checked, by model and then by time: what a shard learns, and learns again from a log.

    Args:
        ids: (n,) of the models, ascending.
        time: (n,).
        X: (n, d).
        Y: (n,); NaN where missing.
        tickets: (n,) as in Batch.
        new: keys of the models that have to be added first.
        late: rows that came too late and were dropped.
        refused: rows that no model takes.
    """

    ids: np.ndarray
    time: np.ndarray
    X: FloatArray
    Y: FloatArray
    tickets: np.ndarray
    new: list[Any]
    late: int
    refused: int

    def to_bytes(self) -> bytes:
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        return snapshot.packed({"new": self.new, "late": self.late, "refused": self.refused}, arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> Entry:
        header, arrays = snapshot.unpacked(bytes(data))
        ids, time, X, Y, tickets = (arrays[name].copy() for name in _ARRAYS)
        return cls(ids, time, X, Y, tickets, header["new"], header["late"], header["refused"])


class Predictions(NamedTuple):
    """What is predicted of rows, before each is learned; arrays (n,).

    Args:
        key: of the row.
        time: of the row.
        mean: NaN where the row was refused, and so is all that follows but observed.
        lower: bound of the interval.
        upper: bound of the interval.
        std: of the target.
        observed: the target; NaN where missing.
        row: the number of the row among those of its key, from 1; 0: refused.
        ticket: under which the row waits for its target, or -1.
    """

    key: list[Any]
    time: np.ndarray
    mean: FloatArray
    lower: FloatArray
    upper: FloatArray
    std: FloatArray
    observed: FloatArray
    row: np.ndarray
    ticket: np.ndarray

    @classmethod
    def none(cls, keys: list[Any], time: np.ndarray, observed: FloatArray, row: np.ndarray) -> Predictions:
        """Rows without a prediction."""
        nan = np.full(len(keys), np.nan)
        return cls(keys, time, nan, nan, nan, nan, observed, row, np.full(len(keys), NO_TICKET))
