"""Atomic calls: a call that raises leaves a model, and all models within it, as they were."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from streamgp.arrays import Numbers

if TYPE_CHECKING:
    from streamgp.contract.model import StreamModel


_NOTHING = contextlib.nullcontext()
_PROTECTED: set[int] = set()  # models that a call around the present one would restore


def undone_on_error(model: StreamModel, steps: int = 2) -> contextlib.AbstractContextManager[None]:
    """Undo what a block changed if it raises. One step is not worth a copy: once checked, nothing can stop it."""
    return _NOTHING if steps == 1 or id(model) in _PROTECTED else _undone(model)


@contextlib.contextmanager
def _undone(model: StreamModel) -> Iterator[None]:
    undo = undo_of(model)
    family = {id(one) for one in model._family()} - _PROTECTED
    _PROTECTED.update(family)
    try:
        yield
    except BaseException:
        undo()
        raise
    finally:
        _PROTECTED.difference_update(family)


def undo_of(model: StreamModel) -> Callable[[], None]:
    """What brings a model, and all within it, back to its present state."""
    held = [(one, dict(vars(one))) for one in model._family()]
    numbers = [(array, array.copy()) for _, attributes in held for array in _arrays(attributes.values())]

    def undo() -> None:
        for one, attributes in held:
            vars(one).clear()
            vars(one).update(attributes)
        for array, before in numbers:
            array[...] = before

    return undo


def _arrays(values: Any) -> Iterator[np.ndarray]:
    """The arrays among the attributes of a model, work space included: it belongs to the state."""
    for value in values:
        if isinstance(value, np.ndarray):
            yield value
        elif isinstance(value, Numbers):
            yield from (value.record, value.buffer)
        elif isinstance(value, tuple | list):
            yield from _arrays(value)
