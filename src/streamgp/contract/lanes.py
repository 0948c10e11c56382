"""Lanes: one model can stand for many of its kind, each with numbers of its own in the same arrays.

Compiled functions take the arrays of all models and say which rows are whose: models[k] owns the rows starts[k] to
starts[k + 1]. A single model is the first of one, and owns all rows.
"""

from __future__ import annotations

import abc
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streamgp.compiled import INDICES, inlined
from streamgp.contract.model import StreamModel

Array = NDArray

# The types of Lanes in compiled code.
LANES = INDICES, INDICES


class Lanes(NamedTuple):
    """Which rows of a call belong to which models.

    Args:
        models: (k,) different numbers of models.
        starts: (k + 1,): the rows of models[j] are starts[j] to starts[j + 1]; empty: one model owns all.
    """

    models: Array
    starts: Array


ALONE = Lanes(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64))


@inlined
def first_of(starts: Array, k: int) -> int:
    """The first row of models[k]."""
    return starts[k] if starts.size > 0 else 0


@inlined
def end_of(starts: Array, k: int, rows: int) -> int:
    """The row after the last of models[k]."""
    return starts[k + 1] if starts.size > 0 else rows


class Stackable(StreamModel):
    """A stream model whose numbers have a leading axis for models, so that it can stand for many.

    What a stream model has to provide is done for the models and rows of ``_lanes``. All that users call or read is of
    the first model.
    """

    _lanes = ALONE

    @abc.abstractmethod
    def _stack(self) -> list[np.ndarray]:
        """All arrays of numbers, work space included, without those of the model within: (models, ...) each."""

    @abc.abstractmethod
    def _restack(self, arrays: list[np.ndarray]) -> None:
        """Go on with other arrays, for any number of models."""

    @abc.abstractmethod
    def _stacked_arrays(self) -> dict[str, np.ndarray]:
        """The state by name, as _arrays() has it, with the leading axis for models."""

    def _on(self, lanes: Lanes) -> Self:
        """The same model for rows of these lanes: it shares all numbers, and lasts for one call."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        twin._lanes = lanes
        return twin


def stack_of(model: StreamModel) -> list[np.ndarray]:
    """All arrays of numbers of a model and of the models within, (models, ...) each."""
    return [array for one in model._family() if isinstance(one, Stackable) for array in one._stack()]


def take(model: StreamModel, i: int, single: StreamModel) -> None:
    """Write the numbers of model i of many into a single one of the same kind and shape."""
    for many, one in zip(stack_of(model), stack_of(single), strict=True):
        one[0] = many[i]


def put(model: StreamModel, i: int, single: StreamModel) -> None:
    """Write the numbers of a single model into model i of many of the same kind and shape."""
    for many, one in zip(stack_of(model), stack_of(single), strict=True):
        many[i] = one[0]
