"""Turns: a model serves one thread at a time, and refuses a second one in place of giving it wrong numbers.

A model that is being called holds the identity of the calling thread in ``_owner``; snapshots and copies do not have
it. Python changes threads at calls and loops only, so that there is no change between looking at it and taking it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any, NoReturn, TypeVar

from streamgp.contract.atomic import uninterrupted

Returned = TypeVar("Returned")


def refuse(model: Any) -> NoReturn:
    raise RuntimeError(
        f"this {type(model).__name__} is in use by another thread, and a model serves one call at a time. Give each "
        "thread its own model.copy() before they start, or hold a lock around every call."
    )


@contextmanager
def turn(model: Any) -> Iterator[None]:
    """A call of the model, for as long as the block lasts."""
    me, owner = get_ident(), model._owner
    if owner and owner != me:
        refuse(model)
    model._owner = me
    try:
        yield
    finally:
        model._owner = owner


def in_turn(method: Callable[..., Returned], whole: bool = False) -> Callable[..., Returned]:
    """A method that one thread at a time may call; the same thread may call others from within.

    Ctrl-C waits for the end of a method that is done as a whole.
    """

    @functools.wraps(method)
    def called(self: Any, *args: Any, **kwargs: Any) -> Returned:
        me, owner = get_ident(), self._owner
        if owner and owner != me:
            refuse(self)
        self._owner = me
        try:
            if not whole:
                return method(self, *args, **kwargs)
            with uninterrupted():
                return method(self, *args, **kwargs)
        finally:
            self._owner = owner

    return called


def guard(kind: type[Any], free: set[str], whole: frozenset[str] = frozenset()) -> None:
    """Let all public methods and properties of a class take turns but those that are free; some are done as a whole."""
    for name, member in list(vars(kind).items()):
        if (name.startswith("_") and name != "__reduce__") or name in free:
            continue
        if inspect.isfunction(member):
            setattr(kind, name, in_turn(member, name in whole))
        elif isinstance(member, property) and member.fget is not None:
            setattr(kind, name, property(in_turn(member.fget)))
