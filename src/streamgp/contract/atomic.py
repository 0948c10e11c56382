"""Atomic calls: a call that raises leaves a model, and all models within it, as they were."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from streamgp.arrays import Numbers

if TYPE_CHECKING:
    from streamgp.contract.model import StreamModel


_NOTHING = contextlib.nullcontext()


def undone_on_error(model: StreamModel, steps: int = 2) -> contextlib.AbstractContextManager[None]:
    """Undo what a block changed if it raises. One step is not worth a copy: once checked, nothing can stop it."""
    return _NOTHING if steps == 1 else _undone(model)


@contextlib.contextmanager
def _undone(model: StreamModel) -> Iterator[None]:
    held = [(one, dict(vars(one))) for one in model._family()]
    numbers = [(array, array.copy()) for _, attributes in held for array in _arrays(attributes.values())]
    try:
        yield
    except BaseException:
        for one, attributes in held:
            vars(one).clear()
            vars(one).update(attributes)
        for array, before in numbers:
            array[...] = before
        raise


def _arrays(values: Any) -> Iterator[np.ndarray]:
    """The arrays among the attributes of a model, work space included: it belongs to the state."""
    for value in values:
        if isinstance(value, np.ndarray):
            yield value
        elif isinstance(value, Numbers):
            yield from (value.record, value.buffer)
        elif isinstance(value, tuple | list):
            yield from _arrays(value)
