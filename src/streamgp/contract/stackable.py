"""Models that can stand for many of their kind: their numbers have a leading axis for models.

What a stream model has to provide is done for the models and rows of its lanes. All that users call or read is of the
first model.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from streamgp.contract.lanes import Lanes
from streamgp.contract.within import family

MEMORY = {"window", "units", "last_target"}  # arrays of what is remembered of the last rows
Model = TypeVar("Model", bound=Any)  # a stream model


def stands_for_many(model: Any) -> bool:
    """Whether a model, and those within, can."""
    return all(one._stacks for one in family(model))


def on(model: Model, lanes: Lanes) -> Model:
    """The same model for rows of these lanes: it shares all numbers, and lasts for one call."""
    twin: Model = object.__new__(type(model))
    vars(twin).update(vars(model) | {"_lanes": lanes})
    if "_models" in vars(model):
        twin._models = [on(within, lanes) for within in model._models]
    return twin


def reset_memories(model: Any) -> None:
    """Forget what is remembered of the last rows of the models of the lanes."""
    for one in family(model):
        named = one._numbers.stacked()
        for name in MEMORY & named.keys():
            named[name][model._lanes.models] = 0.0


def stack_of(model: Any) -> list[np.ndarray]:
    """All arrays of numbers of a model and of the models within, (models, ...) each."""
    return [array for one in family(model) for array in one._numbers.stack]


def take(model: Any, i: int, single: Any) -> None:
    """Write the numbers of model i of many into a single one of the same kind and shape."""
    for many, one in zip(stack_of(model), stack_of(single), strict=True):
        one[0] = many[i]


def put(model: Any, i: int | np.ndarray, single: Any) -> None:
    """Write the numbers of a single model into model i of many of the same kind and shape, or into several."""
    for many, one in zip(stack_of(model), stack_of(single), strict=True):
        many[i] = one[0]
