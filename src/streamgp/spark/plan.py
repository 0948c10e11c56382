"""Plan: what a query does, the same on every worker and after every restart."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, fields
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


@dataclass(frozen=True)
class Plan:
    """What a query does.

    Args:
        model: the recipe of every key.
        key: name of the column with the keys.
        target: name of the column with the targets.
        inputs: names of the columns with the inputs.
        time: name of the column with the times.
        shards: how many groups the keys are in.
        ticks: units of the time column in a second; None: times are numbers without a unit.
        whole: whether times are whole numbers.
        idle: seconds after which a key that has no rows expires; None: never.
        pending: rows of a shard that can wait for their targets.
        ticket: name of the column with the tickets of late targets; None: there is none.
        key_type: of the keys, "string" or "bigint".
    """

    model: StreamModel
    key: str
    target: str
    inputs: tuple[str, ...]
    time: str
    shards: int
    ticks: float | None = None
    whole: bool = False
    idle: float | None = None
    pending: int = 0
    ticket: str | None = None
    key_type: str = "string"
    fingerprint: str = field(init=False)
    recipe: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fingerprint", self._fingerprint())
        object.__setattr__(self, "recipe", self.model.to_bytes())

    def _fingerprint(self) -> str:
        """Equal for plans that can go on with each other's state."""
        header, arrays = described(self.model)
        columns = (
            self.key,
            self.target,
            self.inputs,
            self.time,
            self.shards,
            self.ticks,
            self.whole,
            self.pending,
            self.key_type,
        )
        digest = hashlib.sha256(json.dumps([header, columns], sort_keys=True).encode())
        for name in sorted(arrays):
            digest.update(name.encode() + arrays[name].tobytes())
        return digest.hexdigest()

    def described(self) -> tuple[dict[str, Any], np.ndarray]:
        """Everything but the model, and the model as bytes."""
        settings = {one.name: getattr(self, one.name) for one in fields(self) if one.init and one.name != "model"}
        return settings, np.frombuffer(self.recipe, dtype=np.uint8)

    @classmethod
    def of(cls, settings: dict[str, Any], recipe: np.ndarray) -> Plan:
        """The plan that was described."""
        return cls(from_bytes(recipe.tobytes()), **settings | {"inputs": tuple(settings["inputs"])})

    @property
    def per_second(self) -> float:
        """Units of the time column in a second; times without a unit are taken as seconds."""
        return self.ticks or 1.0

    def fleet(self, size: int) -> Fleet:
        """Models that have learned nothing. Spark runs several shards at once, so each gets one thread."""
        return Fleet(self.model, size=size, threads=1, pending=self.pending)

    def refuse_other(self, fingerprint: str, words: str) -> None:
        """Refuse the state of another plan."""
        if fingerprint != self.fingerprint:
            raise ValueError(f"this state was learned by {words}; the query now has {self.words}. {MIGRATION}")

    @property
    def words(self) -> str:
        """The plan, for messages."""
        return (
            f"{self.model!r} with key={self.key!r}, target={self.target!r}, inputs={list(self.inputs)!r}, "
            f"time={self.time!r}, shards={self.shards}, pending={self.pending}"
        )
