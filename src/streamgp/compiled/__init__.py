"""Compiled functions: what stands before them, and who compiles them.

A wheel brings their machine code (shipped.py). In a checkout, and where no wheel has it, Numba compiles them when they
are first needed (jit.py). With NUMBA_DISABLE_JIT they run as they are written (plain.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable
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

# What stands before a function: one that compiled functions call, ...
compiled: Any = way.compiled
# ... one with a single caller, of which it becomes a part, ...
inlined: Any = way.inlined
# ... one that Python calls, with the kinds of its arguments, ...
entry: Any = way.entry
# ... the same without fusing or reordering anything, for chaotic maps, ...
as_written: Any = way.as_written
# ... or one that is compiled on its own, and called by its address, which the field of its name in the plan has: its
# kinds are those of the result, of a model and of the other arguments. It is for large functions that several loops
# call, and that many models never need. Who makes the plan has loaded it (``places``).
apart: Any = way.apart

# A function that calls another one by its address, for a kind of result and the kinds of its arguments.
caller: Any = way.caller
# The same array without an owner, of which compiled code would count references, again and again.
borrowed: Any = way.borrowed
# Where the code of an entry is; and by name where those declared by apart() are, for a plan.
address_of: Any = way.address_of
places: Any = way.places
# Load entries, so that no compilation falls inside a stream; compile what the cache on disk does not have, and load
# nothing; whether it has all of them.
compile_now: Any = way.compile_now
fill_cache: Any = way.fill_cache
is_filled: Any = way.is_filled


def uncompiled(function: F) -> F:
    """The function as it is written."""
    return getattr(function, "py_func", function)
