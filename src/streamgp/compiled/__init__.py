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

# What stands before a function: of one that compiled functions call; of one that Python calls, with the kinds of its
# arguments; and, with the kind of the result first, of one that compiled functions call by its address, so that it
# makes none of them larger. The last is for large functions that several loops call, and that many models never need.
# Its first argument is a model (arrays.py); the field of its name in the plan has the address, which places() loads.
compiled: Callable[[F], F] = way.compiled
entry: Callable[..., Callable[[F], F]] = way.entry
apart: Callable[..., Callable[[F], F]] = way.apart

# What compiled functions use: a function that calls another one by its address, its first argument, by the kinds of
# the result and of the arguments after it, so that is not compiled twice; and the same array without an owner. Compiled
# code counts references to whatever a view belongs to, atomically, each time a field of the state is read; between the
# first line and the last of a call from Python the caller keeps them alive.
caller: Callable[[Kind, Sequence[Kind]], Any] = way.caller
borrowed: Any = way.borrowed

# What Python does with entries: where the code of one is, once it is loaded (uncompiled, the function itself); where
# those declared by apart() are, by name; load them, so that no compilation falls inside a stream; compile what is
# missing, and load nothing; whether that has nothing to do.
address_of: Callable[[Any], Any] = way.address_of
places: Callable[..., dict[str, int]] = way.places
compile_now: Callable[..., None] = way.compile_now
fill_cache: Callable[..., None] = way.fill_cache
is_filled: Callable[..., bool] = way.is_filled


def uncompiled(function: F) -> F:
    """The function as it is written."""
    return getattr(function, "py_func", function)
