"""How functions are compiled: one decorator, one on-disk cache that is never stale.

Numba checks only the file a function stands in before it trusts its cache, not the files of the functions it calls.
Here every compiled function is stamped with a digest of all sources that define one instead, so that an edit or an
upgrade anywhere in the compiled core recompiles what depends on it, and a copied or unpacked tree keeps its cache.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar

import numba
from numba import config
from numba.core import cgutils, types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher
from numba.extending import intrinsic

from streamgp import compile_once

building: Any = cgutils
kinds: Any = types
njit: Any = numba.njit  # whose type does not know all of its options
F = TypeVar("F", bound=Callable[..., object])

# Full fastmath assumes that there are no NaNs, and then isnan() sees nothing; these flags keep NaN and inf intact.
FASTMATH = {"reassoc", "contract", "arcp"}


ENTRIES = (b"@entry", b"@apart", b"= loop.of(")  # what Python loads
MARKS = (b"@compiled", b"@inlined", *ENTRIES, b"@as_written")


def sources(*marks: bytes) -> dict[str, bytes]:
    """The sources that define functions with these decorators, by the name of the module."""
    root = Path(__file__).parent
    read = {path: path.read_bytes() for path in sorted(root.rglob("*.py"))}
    return {
        ".".join(path.relative_to(root.parent).with_suffix("").parts): source
        for path, source in read.items()
        if any(mark in source for mark in marks)
    }


def _digest_of_compiled_sources() -> str:
    digest = hashlib.sha256()
    for source in sources(*MARKS).values():
        digest.update(source)
    return digest.hexdigest()


_DIGEST = _digest_of_compiled_sources()


def compiled(function: F) -> F:
    """Compile a function that other compiled functions call; Python cannot, see entry()."""
    return _compiled(function, "never")


def inlined(function: F) -> F:
    """Compile into the caller: a function with one caller, which compiled on its own would be optimized twice."""
    return _compiled(function, "always")


def as_written(function: F) -> F:
    """Compile without fusing or reordering anything: a chaotic map has to take the same way on every processor."""
    return _compiled(function, "never", fastmath=False, called=True)


def _compiled(
    function: F, inline: Literal["never", "always"], fastmath: set[str] | bool = FASTMATH, called: bool = False
) -> F:
    dispatcher = njit(
        function,
        cache=True,
        nogil=True,
        fastmath=fastmath,
        error_model="numpy",
        inline=inline,
        no_cpython_wrapper=not called,
        no_cfunc_wrapper=True,
    )
    if not config.DISABLE_JIT:  # type: ignore[attr-defined]
        dispatcher._cache._cache_file._source_stamp = _DIGEST
        if not called:
            dispatcher.__class__ = _Inner
    return dispatcher  # type: ignore[no-any-return]


class _Inner(CPUDispatcher):
    """A function without a way in for Python: in place of a crash it says so."""

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(f"{self.py_func.__qualname__} is for compiled code; Python can call uncompiled() of it")


def uncompiled(function: F) -> F:
    """The function as it is written."""
    return getattr(function, "py_func", function)


def _borrowed(_: Any, array: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = context.make_array(signature.return_type)(context, builder, args[0])
        view.meminfo = view.meminfo.type(None)
        view.parent = view.parent.type(None)
        return view._getvalue()

    return array(array), codegen


def _itself(array: Any) -> Any:
    return array


# The same array without an owner. Compiled code counts references to whatever a view belongs to, atomically, each time
# a field of the state is read; between the first line and the last of a call from Python the caller keeps them alive.
borrowed: Any = _itself if config.DISABLE_JIT else intrinsic(_borrowed)  # type: ignore[attr-defined]


@cache
def address_of(function: Any) -> Any:
    """Where the code of a function declared by entry() is, once it is loaded; uncompiled, the function itself."""
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return function
    found = function.overloads[function.types]
    return found.library.get_pointer_to_function(found.fndesc.llvm_func_name)


def caller(returns: Any, arguments: Any) -> Any:
    """A compiled function that calls another one by its address, for these types: so that is not compiled twice.

    Args:
        returns: type of the result.
        arguments: types of those after the address.
    """
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return lambda function, *given: function(*given)

    def call(_: Any, address: Any, *found: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            given = [builder.extract_value(values[1], i) for i in range(len(arguments))]
            return _call(context, builder, values[0], returns, arguments, signature.args[1].types, given)

        return returns(address, kinds.Tuple(found)), codegen

    return intrinsic(call)


def _call(context: Any, builder: Any, address: Any, returns: Any, arguments: Any, found: Any, given: Any) -> Any:
    """Call the function at an address with what was given, of the types that were found."""
    given = [context.cast(builder, *each) for each in zip(given, found, arguments, strict=True)]
    pointer = builder.inttoptr(address, context.call_conv.get_function_type(returns, arguments).as_pointer())
    status, result = context.call_conv.call_function(builder, pointer, returns, arguments, given)
    with building.if_unlikely(builder, status.is_error):
        context.call_conv.return_status_propagate(builder, status)
    return result


def apart(returns: Any, *types: Any) -> Callable[[F], F]:
    """Compile a function on its own: other compiled functions call it by its address, and are the smaller for it.

    It is for large functions that several loops call, and that many models never need. Its first argument is a model
    (arrays.py); the field of that name in the plan has the address, and who makes the plan has loaded the function
    (``.entry``).

    Args:
        returns: type of the result.
        types: types of the arguments.
    """

    def decorated(function: F) -> F:
        made: Any = _declared(function, types, called=False)
        if config.DISABLE_JIT:  # type: ignore[attr-defined]
            return made  # type: ignore[no-any-return]
        name = function.__name__

        def call(_: Any, model: Any, *found: Any) -> Any:
            at = model.record.offset("plan") + model.record.typeof("plan").offset(name)

            def codegen(context: Any, builder: Any, _: Any, values: Any) -> Any:
                record = building.create_struct_proxy(model)(context, builder, value=values[0]).record
                start = builder.bitcast(record, building.voidptr_t)
                place = building.pointer_add(builder, start, at, building.intp_t.as_pointer())
                given = [values[0], *(builder.extract_value(values[1], i) for i in range(len(found)))]
                return _call(context, builder, builder.load(place), returns, types, (model, *found), given)

            return returns(model, kinds.Tuple(found)), codegen

        called: Any = intrinsic(call)
        called.entry = made
        return called  # type: ignore[no-any-return]

    return decorated


def places(*functions: Any) -> dict[str, int]:
    """Where the code of functions declared by apart() is, by name, for a plan: loaded now if they were not."""
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return {}
    entries = {function.entry.py_func.__name__: function.entry for function in functions}
    compile_now(*entries.values())
    return {name: address_of(one) for name, one in entries.items()}


VECTOR, MATRIX, CUBE = numba.float64[::1], numba.float64[:, ::1], numba.float64[:, :, ::1]
BOOLEAN, NUMBER, WHOLE, WHOLES = numba.boolean, numba.float64, numba.int64, numba.int64[:, ::1]
INDICES, SWITCHES = numba.int64[::1], numba.boolean[::1]
LINES = numba.float64[:, :]  # also some of the columns of an array
# Arrays that are only read, and may be of any layout.
READ, READ_ROWS = (types.Array(numba.float64, ndim, "A", readonly=True) for ndim in (1, 2))
NOTHING, WHOLE_TRIPLE = kinds.none, kinds.UniTuple(numba.int64, 3)


def entry(*types: Any) -> Callable[[F], F]:
    """Compile a function that Python calls, for these types of arguments; see compile_now()."""

    return lambda function: _declared(function, types, called=True)


def _declared(function: F, types: Any, called: bool) -> F:
    dispatcher: Any = _compiled(function, "never", called=called)
    dispatcher.types, dispatcher.loaded, dispatcher.entry = types, False, dispatcher
    return dispatcher  # type: ignore[no-any-return]


def compile_now(*entries: Any) -> None:
    """Load functions declared by entry() or apart(), so that no compilation falls inside a stream.

    What the cache on disk does not have is compiled by a process of its own and then loaded. In the process that
    compiles, Numba links functions differently than in one that loads them, and the two may differ in the last bit.
    """
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return
    entries = tuple(function.entry for function in entries if not function.entry.loaded)
    fill_cache(*entries)
    with global_compiler_lock:  # another thread may load the same
        for function in entries:
            if function.types not in function.overloads:
                function.compile(function.types)
                function.disable_compile()  # arrays of other layouts are converted, where they can be
            function.loaded = True


def fill_cache(*entries: Any, then: Sequence[Any] = ()) -> None:
    """Compile what the cache on disk does not have of functions declared by entry() or apart(), and load nothing.

    Args:
        entries: that are waited for.
        then: that a process of low priority compiles meanwhile, and nobody waits for.
    """
    needed, later = ([one.entry for one in some if not is_filled(one)] for some in (entries, then))
    if later := [one for one in later if one not in needed]:
        compile_once.fill_behind(later)
    if needed:
        compile_once.fill(needed)


def is_filled(*entries: Any) -> bool:
    """Whether the cache on disk has all of these functions."""
    disabled: bool = config.DISABLE_JIT  # type: ignore[attr-defined]
    return disabled or all(compile_once.is_cached(function.entry) for function in entries)
