"""Compiled functions: what stands before them, and who compiles them.

A wheel brings their machine code (shipped.py). In a checkout, and where no wheel has it, Numba compiles them when they
are first needed (jit.py). With NUMBA_DISABLE_JIT they run as they are written (plain.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, TypeVar

from streamgp.compiled import plain, shipped
from streamgp.compiled.kinds import BOOLEAN as BOOLEAN
from streamgp.compiled.kinds import CUBE as CUBE
from streamgp.compiled.kinds import INDICES as INDICES
from streamgp.compiled.kinds import LINES as LINES
from streamgp.compiled.kinds import MATRIX as MATRIX
from streamgp.compiled.kinds import NOTHING as NOTHING
from streamgp.compiled.kinds import NUMBER as NUMBER
from streamgp.compiled.kinds import READ as READ
from streamgp.compiled.kinds import READ_ROWS as READ_ROWS
from streamgp.compiled.kinds import SWITCHES as SWITCHES
from streamgp.compiled.kinds import VECTOR as VECTOR
from streamgp.compiled.kinds import WHOLE as WHOLE
from streamgp.compiled.kinds import WHOLE_TRIPLE as WHOLE_TRIPLE
from streamgp.compiled.kinds import WHOLES as WHOLES
from streamgp.compiled.kinds import Kind
from streamgp.compiled.sources import ENTRIES as ENTRIES
from streamgp.compiled.sources import sources_with as sources_with

F = TypeVar("F", bound=Callable[..., object])

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
BY_NUMBA = "STREAMGP_JIT"  # in the environment: the wheel's machine code is left aside


def _way() -> Any:
    if INTERPRETED:
        return plain
    if not os.environ.get(BY_NUMBA) and (library := shipped.library()) is not None:
        return library
    if find_spec("numba") is None:
        return shipped.Missing()
    from streamgp.compiled import jit

    return jit


way: Any = _way()

# What stands before functions.


def compiled(function: F) -> F:
    """Of a function that compiled functions call."""
    return way.compiled(function)  # type: ignore[no-any-return]


def inlined(function: F) -> F:
    """Of one with a single caller, of which it becomes a part: alone it would be optimized twice."""
    return way.inlined(function)  # type: ignore[no-any-return]


def entry(*kinds: Kind) -> Callable[[F], F]:
    """Of one that Python calls, with the kinds of its arguments; see compile_now()."""
    return way.entry(*kinds)  # type: ignore[no-any-return]


def as_written(*kinds: Kind) -> Callable[[F], F]:
    """The same without fusing or reordering anything: a chaotic map has to take the same way on every processor."""
    return way.as_written(*kinds)  # type: ignore[no-any-return]


def apart(returns: Kind, *kinds: Kind) -> Callable[[F], F]:
    """Of one that compiled functions call by its address, and that makes none of them larger.

    It is for large functions that several loops call, and that many models never need. Its first argument is a model
    (arrays.py); the field of its name in the plan has the address, and who makes the plan has loaded it (places()).

    Args:
        returns: kind of the result.
        kinds: kinds of the arguments.
    """
    return way.apart(returns, *kinds)  # type: ignore[no-any-return]


# What compiled functions use.


def caller(returns: Kind, kinds: Sequence[Kind]) -> Any:
    """A function that calls another one by its address, its first argument: so that is not compiled twice.

    Args:
        returns: kind of the result.
        kinds: kinds of the arguments after the address.
    """
    return way.caller(returns, kinds)


# The same array without an owner. Compiled code counts references to whatever a view belongs to, atomically, each time
# a field of the state is read; between the first line and the last of a call from Python the caller keeps them alive.
borrowed: Any = way.borrowed

# What Python does with them.


def address_of(function: Any) -> Any:
    """Where the code of an entry is, once it is loaded; uncompiled, the function itself."""
    return way.address_of(function)


def places(*functions: Any) -> dict[str, int]:
    """Where functions declared by apart() are, by name, for a plan: loaded now if they were not."""
    return way.places(*functions)  # type: ignore[no-any-return]


def compile_now(*entries: Any) -> None:
    """Load entries, so that no compilation falls inside a stream."""
    way.compile_now(*entries)


def fill_cache(*entries: Any) -> None:
    """Compile what is missing, and load nothing."""
    way.fill_cache(*entries)


def is_filled(*entries: Any) -> bool:
    """Whether fill_cache() has nothing to do."""
    return way.is_filled(*entries)  # type: ignore[no-any-return]


def uncompiled(function: F) -> F:
    """The function as it is written."""
    return getattr(function, "py_func", function)
