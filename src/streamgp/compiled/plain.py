"""Functions as they are written, for debuggers and coverage: what Numba would do with them is left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from streamgp.compiled.kinds import Kind

F = TypeVar("F", bound=Callable[..., object])

opened: Any = None  # arrays.py has its own


def compiled(function: F) -> F:
    return function


def borrowed(array: Any) -> Any:
    return array


def entry(*kinds: Kind) -> Callable[[F], F]:
    def decorated(function: Any) -> Any:
        function.kinds, function.entry = kinds, function
        return function

    return decorated


def apart(returns: Kind, *kinds: Kind) -> Callable[[F], F]:  # noqa: ARG001
    return entry(*kinds)


def caller(returns: Kind, kinds: Sequence[Kind]) -> Any:  # noqa: ARG001
    return lambda function, *given: function(*given)


def address_of(function: Any) -> Any:
    return function


def places(*functions: Any) -> dict[str, int]:  # noqa: ARG001
    return {}


def compile_now(*entries: Any) -> None:
    pass


fill_cache = compile_now


def is_filled(*entries: Any) -> bool:  # noqa: ARG001
    return True


def described(entries: Sequence[Any] = ()) -> str:  # noqa: ARG001
    """What is in use, for people."""
    return "none: NUMBA_DISABLE_JIT is set, nothing is compiled and everything is slow"
