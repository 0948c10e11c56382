"""Plan: what a query does, the same on every worker and after every restart."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from streamgp.contract.loading import from_bytes
from streamgp.contract.model import StreamModel
from streamgp.contract.snapshot import described
from streamgp.fleet.fleet import Fleet

MIGRATION = (
    "The state of a running query belongs to its model, columns and shards. To change them, start a new query with a "
    "new checkpoint: learn the history with streamgp.spark.states(history, ...) under the new settings and pass the "
    "result as initial=, or start from nothing. To go on with this checkpoint, use the old settings."
)
TIMESTAMP, WHOLE_NUMBER, NUMBER = "timestamp", "whole number", "number"  # the clocks
MICROSECONDS = 1e6


@dataclass(frozen=True)
class Plan:
    """What a query does; see columns.planned().

    Args:
        clock: what times are: microseconds since 1970, or numbers without a unit, which are taken as seconds.
    """

    model: StreamModel
    key: str
    target: str
    inputs: tuple[str, ...]
    time: str
    shards: int
    clock: str = WHOLE_NUMBER
    idle: float | None = None
    pending: int = 0
    ticket: str | None = None

    @cached_property
    def fingerprint(self) -> str:
        """Equal for plans that can go on with each other's state."""
        header, arrays = described(self.model)
        columns = self.key, self.target, self.inputs, self.time, self.shards, self.clock, self.pending
        digest = hashlib.sha256(json.dumps([header, columns], sort_keys=True).encode())
        for name in sorted(arrays):
            digest.update(name.encode() + arrays[name].tobytes())
        return digest.hexdigest()

    def described(self) -> tuple[dict[str, Any], np.ndarray]:
        """Everything but the model, and the model as bytes."""
        return {one.name: getattr(self, one.name) for one in fields(self)[1:]}, self._recipe

    @cached_property
    def _recipe(self) -> np.ndarray:
        return np.frombuffer(self.model.to_bytes(), dtype=np.uint8)

    @classmethod
    def of(cls, settings: dict[str, Any], recipe: np.ndarray) -> Plan:
        """The plan that was described."""
        return cls(from_bytes(recipe.tobytes()), **settings | {"inputs": tuple(settings["inputs"])})

    @property
    def per_second(self) -> float:
        """Units of the time column in a second."""
        return MICROSECONDS if self.clock == TIMESTAMP else 1.0

    def fleet(self) -> Fleet:
        """No models yet. Spark runs several shards at once, so each gets one thread."""
        return Fleet(self.model, size=0, threads=1, pending=self.pending)

    def refuse_other(self, fingerprint: str, words: str) -> None:
        """Refuse the state of another plan."""
        if fingerprint != self.fingerprint:
            raise ValueError(f"this state was learned by {words}; the query now has {self}. {MIGRATION}")
