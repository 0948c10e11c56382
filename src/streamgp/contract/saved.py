"""Saved: what can be copied, written to a file and read back, to go on where it stood."""

from __future__ import annotations

import abc
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from streamgp.arrays import Triangles
from streamgp.contract import frames, snapshot, within
from streamgp.contract.turns import guard
from streamgp.settings import Configured


class Shape(NamedTuple):
    """What the rows of a stream are like."""

    d: int | None = None  # columns of the inputs; None before the first row
    p: int | None = None  # outputs
    scalar: bool = True  # targets are numbers, not lists of numbers
    certain: bool = False  # a target has been seen, so that p and scalar are known
    ahead: int = 1  # rows after which the target of a row comes; 1: before the next row

    @property
    def outputs(self) -> int | None:
        """How many numbers a target must have; None: any."""
        return self.p if self.certain else None

    def covers(self, certain: bool) -> bool:
        """Whether rows, with a target if certain, tell nothing new."""
        return self.certain or (self.d is not None and not certain)


class Saved(Configured, abc.ABC):
    """Base of models and fleets: settings, the shape of the rows, and numbers in arrays with names."""

    _owner: int = 0  # the thread that is calling; 0: none
    _stacks = False  # whether one can stand for many (contract/stackable.py)
    _names: frames.Names | None = None  # of inputs and targets that came in a data frame

    _shape = Shape()

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """How many parts there are."""

    @abc.abstractmethod
    def _prepare(self, shape: Shape) -> None:
        """Allocate for rows of this shape."""

    @abc.abstractmethod
    def _arrays(self) -> dict[str, np.ndarray]:
        """The state by name, without that of the models within, as arrays that can be written to."""

    def _children(self) -> dict[str, Any]:
        """The models within, by their names in a snapshot."""
        return {}

    def _structure(self) -> dict[str, Any]:
        """What a snapshot says beside settings and arrays, by name, as settings are."""
        return {}

    def _rebuild(self, structure: dict[str, Any]) -> None:
        """Take over what _structure() returned, before arrays are restored."""

    def _check_restored(self) -> None:
        """Refuse a restored state that no stream leads to, beside numbers outside their limits."""

    def _restore(self, saved: dict[str, np.ndarray]) -> None:
        """Take over a saved state; it must have the arrays of this one, or triangles of them as files have them."""
        arrays = within.all_arrays(self)
        whole = {name: array for name, array in arrays.items() if isinstance(array, Triangles) and name in saved}
        saved = saved | {name: array.whole(saved[name]) for name, array in whole.items()}
        refuse_unlike(saved, arrays)
        for name, array in arrays.items():
            array[...] = saved[name]

    def copy(self) -> Self:
        """Return an independent twin in the same state."""
        twin: Self = restored(type(self), self._settings, *self._knowledge())
        return twin

    # The state has views into few arrays, which the standard library, copying attribute by attribute, would cut apart.

    def __deepcopy__(self, memo: Any) -> Self:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return restored, (type(self), self._settings, *self._knowledge())

    def _knowledge(self) -> tuple[Shape, dict[str, np.ndarray], dict[str, Any]]:
        """What makes a model of the same settings the same model; a copy and a snapshot have it."""
        known = self._shape.d is not None
        return self._shape, within.all_arrays(self) if known else {}, within.structure_of(self) if known else {}

    def __sklearn_clone__(self) -> Self:
        return self.clone()

    def clone(self) -> Self:
        """Return one with the same settings that has learned nothing."""
        return type(self)(**self._settings)

    def save(self, path: str | Path) -> None:
        """Write everything to one file; ``sg.load`` reads it and goes on as if it had never stopped."""
        snapshot.write(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the snapshot as bytes: a pure function of the state."""
        return snapshot.packed(*snapshot.contents(self))


guard(Saved, {"clone", "size"})


def restored(
    kind: type[Any],
    settings: dict[str, Any],
    shape: Shape,
    arrays: dict[str, np.ndarray],
    structure: dict[str, Any] | None = None,
) -> Any:
    """A model of these settings in this state."""
    model = kind(**settings)
    if shape.d is not None:
        model._prepare(shape)
        within.rebuild(model, structure or {})
        model._restore(arrays)
    return model


def refuse_unlike(saved: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    """Refuse saved arrays that are not like those that are wanted."""
    if saved.keys() != wanted.keys():
        raise snapshot.SnapshotError(f"the snapshot's arrays are {sorted(saved)}, the model's are {sorted(wanted)}")
    for name, array in wanted.items():
        tensor = saved[name]
        if tensor.shape != array.shape or tensor.dtype != array.dtype:
            raise snapshot.SnapshotError(
                f"the array {name} has shape {tensor.shape} ({tensor.dtype}), "
                f"the model needs {array.shape} ({array.dtype})"
            )
