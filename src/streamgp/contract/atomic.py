"""Atomic calls: if a call raises, whatever the reason, the model and all models within it are as they were.

A call of many rows keeps a copy of the state, and goes back to it. For one row that would cost more than to learn it:
what can be wrong with a row is checked before anything changes, and Ctrl-C waits until the row is done. Nor is there
a copy where the caller throws the model away if a call raises.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from signal import SIGINT
from threading import get_ident, local, main_thread
from types import FrameType
from typing import Any, Protocol

import numpy as np

from streamgp.arrays import Numbers
from streamgp.contract.waiting import Waiting

# What signal.signal and signal.getsignal call: these turn handlers into enumerations, in ten times the time.
_signal: Any = importlib.import_module("_signal")


class Family(Protocol):
    """A model, as far as it is needed here."""

    def _family(self) -> Iterator[Any]:
        """This model and all within it."""


class _Caller(local):
    """What the calls of a thread can rely on."""

    discards: bool = False


_caller = _Caller()


class discarded_on_error:  # noqa: N801  used like a function
    """Say that the models which this thread calls in a block are thrown away if one of the calls raises."""

    def __enter__(self) -> None:
        self._before, _caller.discards = _caller.discards, True

    def __exit__(self, *_: object) -> None:
        _caller.discards = self._before


class undone_on_error:  # noqa: N801
    """Undo what a block changed of a model if it raises, unless the caller throws the model away then."""

    def __init__(self, model: Family) -> None:
        self._undo = None if _caller.discards else undo_of(model)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is not None and self._undo is not None:
            with uninterrupted():
                self._undo()


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


def undo_of(model: Family) -> Callable[[], None]:
    """What brings a model, and all within it, back to its present state."""
    before = [(one, dict(vars(one))) for one in model._family()]
    found: dict[int, np.ndarray] = {}
    for one, _ in before:
        _collect(one._changing(), found)
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
        elif isinstance(value, Numbers):
            records, buffers = value.records.view(np.uint8), value.buffers  # field by field a record takes far longer
            found[id(records)], found[id(buffers)] = records, buffers
        elif isinstance(value, Waiting):
            found |= {id(array): array for array in value.arrays().values()}
        elif isinstance(value, tuple | list):
            _collect(value, found)
