"""Atomic calls: a call that raises leaves a model, and all models within it, as they were."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from streamgp.arrays import Numbers
from streamgp.contract.model import StreamModel


@contextlib.contextmanager
def undone_on_error(model: StreamModel, rows: int) -> Iterator[None]:
    """Undo what the block changed if it raises. One row is not worth a copy: once checked, nothing can stop it."""
    if rows == 1:
        yield
        return
    held = [(one, dict(vars(one))) for one in _family(model)]
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


def _family(model: StreamModel) -> Iterator[StreamModel]:
    """A model and all within it."""
    yield model
    for value in vars(model).values():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, StreamModel):
                yield from _family(one)


def _arrays(values: Any) -> Iterator[np.ndarray]:
    """The arrays among the attributes of a model, work space included: it belongs to the state."""
    for value in values:
        if isinstance(value, np.ndarray):
            yield value
        elif isinstance(value, Numbers):
            yield from (value.record, value.buffer)
        elif isinstance(value, tuple | list):
            yield from _arrays(value)
