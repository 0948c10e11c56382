"""Atomic calls: if a call raises, whatever the reason, the model and all models within it are as they were.

A call of many rows keeps a copy of the state, and goes back to it. For one row that would cost more than to learn it:
what can be wrong with a row is checked before anything changes, and Ctrl-C waits until the row is done. Nor is there
a copy where the caller throws the model away if a call raises.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from signal import SIGINT
from threading import get_ident, main_thread
from types import FrameType
from typing import Any

import numpy as np

from streamgp.contract.within import family

# What signal.signal and signal.getsignal call: these turn handlers into enumerations, in ten times the time.
_signal: Any = importlib.import_module("_signal")


_discards = ContextVar("discards", default=False)  # whether the caller throws models away that raise


@contextmanager
def discarded_on_error() -> Iterator[None]:
    """Say that the models which are called in a block are thrown away if one of the calls raises."""
    before = _discards.set(True)
    try:
        yield
    finally:
        _discards.reset(before)


@contextmanager
def undone_on_error(model: Any) -> Iterator[None]:
    """Undo what a block changed of a model if it raises, unless the caller throws the model away then."""
    undo = None if _discards.get() else undo_of(model)
    try:
        yield
    except BaseException:
        if undo is not None:
            with uninterrupted():
                undo()
        raise


class uninterrupted:  # noqa: N801
    """Let Ctrl-C wait until a block of a few steps is done; it is raised then.

    Python runs handlers of signals between any two steps of the main thread, and in no other.
    """

    _before: Callable[[int, FrameType | None], object] | None = None
    _came: tuple[int, FrameType | None] | None = None

    def __enter__(self) -> None:
        if get_ident() == main_thread().ident and callable(before := _signal.getsignal(SIGINT)):
            _signal.signal(SIGINT, self._hold)
            self._before = before

    def _hold(self, number: int, frame: FrameType | None) -> None:
        self._came = number, frame

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            _signal.signal(SIGINT, self._before)
            if self._came is not None:
                self._before(*self._came)


def undo_of(model: Any) -> Callable[[], None]:
    """What brings a model, and all within it, back to its present state."""
    before = [(one, dict(vars(one))) for one in family(model)]
    found: dict[int, np.ndarray] = {}
    for _, attributes in before:
        _collect(attributes.values(), found)
    arrays = [(array, array.copy()) for array in found.values()]

    def undo() -> None:
        for one, attributes in before:
            vars(one).clear()
            vars(one).update(attributes)
        for array, numbers in arrays:
            array[...] = numbers

    return undo


# Kinds of attributes that hold no arrays, and are most of them: which it is need not be asked one by one.
PLAIN = frozenset({bool, int, float, str, type(None), dict, np.float64})


def _collect(values: Iterable[Any], found: dict[int, np.ndarray]) -> None:
    """Add the arrays among the attributes of a model, work space included: it belongs to the state.

    A view of an array that is there already adds nothing.
    """
    for value in values:
        if type(value) in PLAIN:
            continue
        if isinstance(value, np.ndarray):
            if value.size and id(value.base) not in found:
                found[id(value)] = value
        elif isinstance(value, tuple | list):
            _collect(value, found)
        elif hasattr(type(value), "stack"):
            for array in value.stack:  # field by field a record takes far longer
                found[id(array)] = array.view(np.uint8) if array.dtype.names else array
        elif "_numbers" in getattr(value, "__dict__", ()):  # a model that is not among those within
            _collect([value._numbers], found)
