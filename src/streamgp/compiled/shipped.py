"""The machine code of a wheel: one shared library, made from the same functions that Numba compiles in a checkout.

It is used if it was made from these very sources, and if what it reads of NumPy's arrays is what NumPy says.
"""

from __future__ import annotations

import ctypes
import json
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np

from streamgp.compiled import plain
from streamgp.compiled.kinds import Kind
from streamgp.compiled.sources import digest

FOLDER = Path(__file__).parents[1] / "core"
TABLE = "core.json"
F = TypeVar("F", bound=Callable[..., object])
NO_CODE = (
    "streamgp has no machine code for this platform, or it is of other sources, and there is no Numba to compile it: "
    'pip install "streamgp[jit]"'
)


class Entry:
    """A function of the library."""

    loaded = True

    def __init__(self, function: Any, kinds: tuple[Kind, ...], library: Library) -> None:
        self.py_func, self.kinds, self.entry, self._library = function, kinds, self, library
        self.__name__, self.__doc__, self.__module__ = function.__name__, function.__doc__, function.__module__
        self._at, self._call = library.found[name_of(function)], library.call
        self.address = library.address(self._at)

    def __call__(self, *given: Any) -> Any:
        return self._call(self._at, given)


class Library:
    """Stands for jit.py where a wheel has brought machine code.

    Args:
        path: of the library.
        names: of its entries.
    """

    call: Any  # an entry with a tuple of arguments
    address: Any  # of an entry's own code
    _entry: Any
    _read: Any
    _begin: Any

    opened = None
    compiled = staticmethod(plain.compiled)
    borrowed, caller = staticmethod(plain.borrowed), staticmethod(plain.caller)
    compile_now, fill_cache, is_filled = map(staticmethod, (plain.compile_now, plain.fill_cache, plain.is_filled))

    def __init__(self, path: Path, names: list[str]) -> None:
        self.path, code = path, ctypes.PyDLL(str(path))
        place, thing, number = ctypes.c_void_p, ctypes.py_object, ctypes.c_int64
        takes: dict[str, Any] = {"entry": [number], "address": [place], "call": [place, thing], "read": [thing]}
        gives: dict[str, Any] = {"entry": place, "address": place, "call": thing, "read": thing, "begin": None}
        for name, arguments in (takes | {"begin": [number, *[thing] * 4]}).items():
            function = code[f"streamgp_{name}"]
            function.restype, function.argtypes = gives[name], arguments
            setattr(self, name if name in ("call", "address") else f"_{name}", function)
        kinds = [np.dtype(kind) for kind in (np.float64, np.int64, np.bool_)]
        self._begin(object.__basicsize__, np.ndarray, *kinds)
        self.found = {name: self._entry(i) for i, name in enumerate(names)}

    def reads_arrays(self) -> bool:
        """Whether arrays are laid out as the library takes them to be."""
        array = np.zeros((3, 5))[:, 1:4]
        array.flags.writeable = True
        try:
            return bool(self._read(array) == (array.ctypes.data, *array.shape, *array.strides))
        except TypeError:
            return False

    def entry(self, *kinds: Kind) -> Callable[[F], F]:
        return lambda function: Entry(function, kinds, self)  # type: ignore[return-value]

    def apart(self, returns: Kind, *kinds: Kind) -> Callable[[F], F]:
        return self.entry(*kinds)

    def address_of(self, function: Any) -> Any:
        return function.address

    def places(self, *functions: Any) -> dict[str, int]:
        return {function.__name__: function.address for function in functions}

    def described(self, entries: Sequence[Any] = ()) -> str:
        return f"machine code of the wheel for {platform.machine()} ({self.path.stem})"


class Missing:
    """Stands for jit.py where there is neither machine code nor Numba: functions are declared, and none runs."""

    def __getattr__(self, name: str) -> Any:
        return self.refuse if name in ("address_of", "places", "compile_now", "fill_cache") else getattr(plain, name)

    def refuse(self, *_: Any) -> NoReturn:
        raise ImportError(NO_CODE)

    def is_filled(self, *_: Any) -> bool:
        return False

    def described(self, entries: Sequence[Any] = ()) -> str:
        return NO_CODE


def name_of(function: Any) -> str:
    """The name of an entry in the table."""
    return f"{function.__module__}:{function.__name__}"


def library() -> Library | None:
    """The library for this processor; None: there is none, or it is of other sources, or cannot be used here."""
    try:
        table = json.loads((FOLDER / TABLE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if table["digest"] != digest():
        return None
    for name in processors(table["processors"]):
        try:
            found = Library(FOLDER / f"{name}.so", table["entries"])
        except (OSError, AttributeError):
            continue
        if found.reads_arrays():
            return found
    return None


def processors(built: list[str]) -> list[str]:
    """Of the processors that code was built for those that this one can stand for, the best first."""
    return [name for name in built if name != "x86-64-v3" or _has_avx2()]


def _has_avx2() -> bool:
    """Whether this is an x86-64-v3: Haswell, Zen, or newer."""
    needed = {"avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"}
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # another system, or a container that hides it
        return False
    flags = next((line for line in lines if line.startswith("flags")), "").split()
    return needed <= set(flags) and bool({"lzcnt", "abm"} & set(flags))
