"""Devices: where the models of a fleet live, and with which precision."""

from __future__ import annotations

import os
from typing import Protocol

import numpy as np

from streamgp.contract.model import Health, StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.fleet.cpu import CpuEngine
from streamgp.fleet.rows import Rows
from streamgp.settings import FloatArray

DEVICES = "cpu", "cuda"
PRECISIONS = "double", "single"


class Engine(Protocol):
    """What a device does for a fleet. Rows are checked before they come here; ids are those of models that exist."""

    @property
    def size(self) -> int: ...

    def advance(self, rows: Rows, report: bool) -> Prediction | None:
        """Predict each row if asked to, then learn it; predictions are (n, p) in the order of the rows."""

    def predict(self, rows: Rows) -> Prediction:
        """Predict rows that would each come next; nothing changes."""

    def held_width(self) -> int:
        """How many numbers are held of a row that waits for its target."""

    def issue(self, rows: Rows) -> tuple[Prediction, FloatArray]:
        """Predict at most one row of each model and advance memories; also what it takes to learn it later."""

    def resolve(self, rows: Rows, held: FloatArray, newest: np.ndarray, unchanged: np.ndarray) -> None:
        """Learn at most one row of each model as it was issued; see CpuEngine."""

    def take(self, i: int, model: StreamModel) -> None:
        """Write the numbers of model i into a single model of the same recipe and shape."""

    def put(self, i: int, model: StreamModel) -> None:
        """Write the numbers of a single model of the same recipe and shape into model i."""

    def add(self, count: int) -> None:
        """Add models at the end that have learnt nothing."""

    def keep(self, which: np.ndarray) -> None:
        """Keep these models only, in this order."""

    def arrays(self) -> dict[str, np.ndarray]:
        """The state by the names that it has in a single model, (size, ...), as arrays that can be written to."""

    def rows_seen(self) -> np.ndarray:
        """Rows of each model, (size,)."""

    def health(self) -> Health:
        """Repairs, an array (size,) of each kind."""

    def broken(self) -> np.ndarray:
        """The ids of models with numbers that arithmetic cannot go on with."""


def refuse_unfit(device: str, precision: str) -> None:
    """Refuse a device or a precision that cannot be used here."""
    if device == "cuda":
        raise ValueError('device="cuda" is not available in this installation; use device="cpu"')
    if precision == "single":
        raise ValueError(
            'precision="single" is for device="cuda": on the cores it would lose digits and gain little; use '
            'precision="double"'
        )


def engine(device: str, precision: str, model: StreamModel, size: int, threads: int | None) -> Engine:
    """The engine for models like this one, which is prepared and has learnt nothing."""
    refuse_unfit(device, precision)
    return CpuEngine(model, size, threads or cores())


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
