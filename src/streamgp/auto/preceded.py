"""Preceded: the inputs of the row before as further inputs."""

from __future__ import annotations

import math

import numpy as np

from streamgp.contract import freerun
from streamgp.contract.model import Shape, StreamModel
from streamgp.contract.snapshot import require
from streamgp.settings import FloatArray, whole
from streamgp.wrappers.mapped import Mapped, MappedTrajectories, Picked


class Preceded(Mapped):
    """A model that sees the inputs of the row before, too: what a plant answers depends on more than the present.

    Before the first row it repeats that one. With late targets the row before is the last one that was learned. After a
    row with a broken reading it sleeps: it does not learn the next one, and a committee does not ask it.

    Args:
        model: the stream model, which has learned nothing; its inputs are those of the row, then those before it.
        columns: how many inputs, the first ones, are seen again.
        sees: how many inputs of the row, the first ones, are seen at all.
    """

    _notes_late = True
    _x: FloatArray  # (d,) the last row; NaN before the first
    _broken: FloatArray  # (1,) 1 if the last row had a broken reading, otherwise 0

    def __init__(self, model: StreamModel, *, columns: int, sees: int) -> None:
        self._wrap(model)
        self._columns, self._sees = whole("columns", columns), whole("sees", sees)

    # The state.

    def _start(self, d: int, p: int) -> None:
        if self._d is None:
            self._within = self._within.clone()
            self._x, self._broken = np.full(d, np.nan), np.zeros(1)
        self._within._prepare(Shape(self._sees + self._columns, p, scalar=False, certain=True))

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"x": self._x, "broken": self._broken}

    def _check_restored(self) -> None:
        require("x", self._x[~np.isnan(self._x)])
        require("broken", self._broken, at_least=0, at_most=1)
        super()._check_restored()

    # Rows.

    def _inputs(self, X: FloatArray, Y: FloatArray | None = None) -> FloatArray:
        before = np.repeat(self._remembered(X)[None], len(X), axis=0) if Y is None else self._remembered_of(X)
        return np.hstack([X[:, : self._sees], before])

    def _picked(self, seen: Picked) -> Picked:
        return seen._replace(columns=np.append(seen.columns[: self._sees], -1 - np.arange(self._columns)))

    def _remembered(self, X: FloatArray) -> FloatArray:
        return (X[0] if math.isnan(self._x.item(0)) else self._x)[: self._columns]

    def _remembered_of(self, X: FloatArray) -> FloatArray:
        return np.vstack([self._remembered(X), X[:-1, : self._columns]])

    def _note(self, X: FloatArray, Y: FloatArray | None) -> None:
        self._x[:], self._broken[0] = X[-1], 0.0

    def _targets(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Targets as they are; after a broken reading nothing is learned from the first."""
        return np.vstack([np.full_like(Y[:1], np.nan), Y[1:]]) if self._broken[0] else Y

    def note_broken(self) -> None:
        """What stands for the last row is not what came: the next one is neither predicted nor learned."""
        self._broken[0] = 1.0

    @property
    def _sleeps(self) -> bool:  # type: ignore[override]
        return bool(self._broken[0])

    def _memory_arrays(self) -> list[FloatArray]:
        return [self._x, self._broken, *super()._memory_arrays()]

    def _remember(self, X: FloatArray) -> None:
        super()._remember(X)
        self._note(X, None)

    def reset_memory(self) -> None:
        """Begin a new sequence: there is no row before."""
        if self._d is not None:
            self._x[:], self._broken[0] = np.nan, 0.0
        super().reset_memory()

    def _trajectories(self, count: int, steps: int) -> freerun.Trajectories:
        return _Preceded(self, self._within._trajectories(count, steps))

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        return self._x, self._within._last_row()[1]


class _Preceded(MappedTrajectories):
    """Trajectories in which the row before is the one of the step before."""

    def __init__(self, model: Preceded, within: freerun.Trajectories) -> None:
        super().__init__(model, within)
        self._columns, self._sees, self._before = model._columns, model._sees, model._x[None, : model._columns]

    def _inputs(self, X: FloatArray) -> FloatArray:
        own = X[:, : self._columns]
        before = np.broadcast_to(self._before, own.shape)
        self._before = own.copy()
        return np.hstack([X[:, : self._sees], np.where(np.isnan(before), own, before)])
