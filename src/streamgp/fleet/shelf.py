"""Shelf: the numbers of many models of one recipe, stacked."""

from __future__ import annotations

import numpy as np
from numba import config

from streamgp.contract.model import StreamModel

# Room for models to come, as a share of those there are: adding them one by one then copies each a few times only. It
# takes no memory before it is used.
SPARE = 0.25


def numbers_of(model: StreamModel) -> list[np.ndarray]:
    """All arrays that a model and the models within hold, work space included."""
    found: list[np.ndarray] = []
    for one in model._family():
        numbers = getattr(one, "_numbers", None)
        found += list(one._arrays().values()) if numbers is None else [numbers.record[0:1], numbers.buffer]
    return found


class Shelf:
    """Holds the numbers of models: for each array of one model, one with a row for each.

    Args:
        model: of the recipe, with its arrays allocated and nothing learned; every place begins as a copy of it.
        size: how many models there are.
    """

    def __init__(self, model: StreamModel, size: int) -> None:
        self._first = [array.copy() for array in numbers_of(model)]
        self._stacked = [_room(array, size) for array in self._first]
        self.size = 0
        self.add(size)

    @property
    def arrays(self) -> list[np.ndarray]:
        """The arrays, each (size, ...), in the order of numbers_of(); views that can be written to."""
        return [stacked[: self.size] for stacked in self._stacked]

    def take(self, i: int, model: StreamModel, skip: int = 0) -> None:
        """Write the numbers of place i into a model; skip: those of so many arrays belong to models around it."""
        for array, stacked in zip(numbers_of(model), self._stacked[skip:], strict=True):
            array[...] = stacked[i].reshape(array.shape)

    def put(self, i: int, model: StreamModel, skip: int = 0) -> None:
        """Write the numbers of a model into place i."""
        for array, stacked in zip(numbers_of(model), self._stacked[skip:], strict=True):
            stacked[i] = array.reshape(stacked.shape[1:])

    def add(self, count: int) -> None:
        """Add models at the end that have learned nothing."""
        size = self.size + count
        if size > len(self._stacked[0]):
            room = size + int(SPARE * size)
            for k, (first, old) in enumerate(zip(self._first, self._stacked, strict=True)):
                self._stacked[k] = _room(first, room)
                self._stacked[k][: self.size] = old[: self.size]
        for first, stacked in zip(self._first, self._stacked, strict=True):
            _fill(stacked[self.size : size], first)
        self.size = size

    def keep(self, which: np.ndarray) -> None:
        """Keep these models only, in this order."""
        self._stacked = [stacked[: self.size][which] for stacked in self._stacked]
        self.size = len(which)


def _room(array: np.ndarray, size: int) -> np.ndarray:
    """Zeros for so many arrays like this one; a record takes one place, not a row of one."""
    shape = () if array.dtype.names else array.shape
    stacked: np.ndarray = np.zeros((size, *shape), array.dtype)
    if array.dtype.names and config.DISABLE_JIT:  # type: ignore[attr-defined]
        stacked = stacked.view(np.recarray)
    return stacked


def _fill(places: np.ndarray, array: np.ndarray) -> None:
    """Write an array into places that hold zeros; what is zero stays untouched, and then takes no memory either."""
    if array.dtype.names:
        places[...] = array[0]
        return
    flat = array.ravel()
    (where,) = flat.view(np.int64).nonzero()  # -0.0 is not zero in every bit
    places.reshape(len(places), flat.size)[:, where] = flat[where]
