"""Functions compiled by Numba: in a checkout, and where no wheel brings their machine code.

Numba checks only the file a function stands in before it trusts its cache, not the files of the functions it calls.
Here every compiled function is stamped with a digest of all sources its module imports that define one, so that an
edit or an upgrade of any of them recompiles what depends on it, and a copied or unpacked tree keeps its cache.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from functools import cache, reduce
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numba
from numba import extending
from numba import types as numba_types
from numba.core import cgutils
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher
from numba.core.typing.templates import AttributeTemplate

from streamgp.compiled import compile_once
from streamgp.compiled.kinds import INTEGERS, Kind
from streamgp.compiled.sources import digest

building: Any = cgutils
extend: Any = extending
types: Any = numba_types
njit: Any = numba.njit  # whose type does not know all of its options
F = TypeVar("F", bound=Callable[..., object])

# Full fastmath assumes that there are no NaNs, and then isnan() sees nothing; these flags keep NaN and inf intact.
FASTMATH = {"reassoc", "contract", "arcp"}
for_python = True  # whether entries get a way in for Python; the code of a wheel has another


@cache
def type_of(kind: Kind) -> Any:
    """What Numba calls a kind."""
    item = numba.from_dtype(kind.record) if kind.record is not None else getattr(types, kind.item)
    if kind.item == "model":
        return ModelType(item)
    if kind.together > 1:
        return types.UniTuple(item, kind.together)
    if not kind.axes:
        return item
    return types.Array(item, kind.axes, "C" if kind.contiguous else "A", readonly=kind.read)


def compiled(function: F) -> F:
    return _compiled(function, called=False, kept=False)


def _compiled(function: F, *, called: bool, kept: bool) -> F:
    dispatcher = njit(
        function,
        cache=kept,
        nogil=True,
        fastmath=FASTMATH,
        error_model="numpy",
        no_cpython_wrapper=not (called and for_python),
        no_cfunc_wrapper=True,
    )
    if kept:  # other functions become a part of those that are kept
        dispatcher._cache._cache_file._source_stamp = digest(function.__module__)
    if not called:
        dispatcher.__class__ = _Inner
    return dispatcher  # type: ignore[no-any-return]


class _Inner(CPUDispatcher):
    """A function without a way in for Python: in place of a crash it says so."""

    def __call__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(f"{self.py_func.__qualname__} is for compiled code; Python can call uncompiled() of it")


def _borrowed(_: Any, array: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = context.make_array(signature.return_type)(context, builder, args[0])
        view.meminfo = view.meminfo.type(None)
        view.parent = view.parent.type(None)
        return view._getvalue()

    return array(array), codegen


borrowed: Any = extend.intrinsic(_borrowed)


@cache
def address_of(function: Any) -> Any:
    found = function.overloads[function.types]
    return found.library.get_pointer_to_function(found.fndesc.llvm_func_name)


def caller(returns: Kind, kinds: Sequence[Kind]) -> Any:
    result, arguments = type_of(returns), tuple(map(type_of, kinds))

    def call(_: Any, address: Any, *found: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            given = [builder.extract_value(values[1], i) for i in range(len(arguments))]
            return _call(context, builder, values[0], result, arguments, signature.args[1].types, given)

        return result(address, types.Tuple(found)), codegen

    return extend.intrinsic(call)


def _call(context: Any, builder: Any, address: Any, returns: Any, arguments: Any, found: Any, given: Any) -> Any:
    """Call the function at an address with what was given, of the types that were found."""
    given = [context.cast(builder, *each) for each in zip(given, found, arguments, strict=True)]
    pointer = builder.inttoptr(address, context.call_conv.get_function_type(returns, arguments).as_pointer())
    status, result = context.call_conv.call_function(builder, pointer, returns, arguments, given)
    with building.if_unlikely(builder, status.is_error):
        context.call_conv.return_status_propagate(builder, status)
    return result


def apart(returns: Kind, *kinds: Kind) -> Callable[[F], F]:
    result, arguments = type_of(returns), tuple(map(type_of, kinds))

    def decorated(function: F) -> F:
        made: Any = _declared(function, kinds, called=False)
        name = function.__name__

        def call(_: Any, model: Any, *found: Any) -> Any:
            at = model.record.offset("plan") + model.record.typeof("plan").offset(name)

            def codegen(context: Any, builder: Any, _: Any, values: Any) -> Any:
                record = building.create_struct_proxy(model)(context, builder, value=values[0]).record
                start = builder.bitcast(record, building.voidptr_t)
                place = building.pointer_add(builder, start, at, building.intp_t.as_pointer())
                given = [values[0], *(builder.extract_value(values[1], i) for i in range(len(found)))]
                return _call(context, builder, builder.load(place), result, arguments, (model, *found), given)

            return result(model, types.Tuple(found)), codegen

        called: Any = extend.intrinsic(call)
        called.entry = made
        return called  # type: ignore[no-any-return]

    return decorated


def places(*functions: Any) -> dict[str, int]:
    entries = {function.entry.py_func.__name__: function.entry for function in functions}
    compile_now(*entries.values())
    return {name: address_of(one) for name, one in entries.items()}


def entry(*kinds: Kind) -> Callable[[F], F]:
    return lambda function: _declared(function, kinds, called=True)


def _declared(function: F, kinds: tuple[Kind, ...], called: bool) -> F:
    dispatcher: Any = _compiled(function, called=called, kept=True)
    dispatcher.types, dispatcher.loaded, dispatcher.entry = tuple(map(type_of, kinds)), False, dispatcher
    dispatcher.kinds = kinds
    return dispatcher  # type: ignore[no-any-return]


def compile_now(*entries: Any) -> None:
    """Load functions declared by entry() or apart().

    What the cache on disk does not have is compiled by a process of its own and then loaded. In the process that
    compiles, Numba links functions differently than in one that loads them, and the two may differ in the last bit.
    """
    entries = tuple(function.entry for function in entries if not function.entry.loaded)
    if not entries:  # Ctrl-C in Numba's lock, which is Python code, leaves it held: other threads would wait for good
        return
    fill_cache(*entries)
    with global_compiler_lock:  # another thread may load the same
        for function in entries:
            if function.types not in function.overloads:
                function.compile(function.types)
                function.disable_compile()  # arrays of other layouts are converted, where they can be
            function.loaded = True


def fill_cache(*entries: Any) -> None:
    """Compile what the cache on disk does not have."""
    if needed := [one.entry for one in entries if not is_filled(one)]:
        compile_once.fill(needed)


def is_filled(*entries: Any) -> bool:
    """Whether the cache on disk has all of these functions."""
    return all(compile_once.is_cached(function.entry) for function in entries)


class ModelType(types.Type):  # type: ignore[misc]
    """A model in compiled code: pointers to its record and to its buffer.

    Args:
        record: the type of the record, from which all else follows.
    """

    def __init__(self, record: Any) -> None:
        self.record = record
        # Numba counts the types of a process, and names of functions in its cache have to be the same in all.
        super().__init__(f"Model{hashlib.sha256(record.name.encode()).hexdigest()[:15]}")

    def array(self, name: str) -> Any:
        """The type of an array, also of the whole ``buffer``; None where a model has none of this name."""
        at = self.record.typeof("at")
        if name == "buffer":
            return types.float64[::1]
        if name not in at.fields:
            return None
        start, *axes = at.typeof(name).fields
        return types.Array(types.int64 if start == INTEGERS else types.float64, len(axes), "C")


@extend.register_model(ModelType)
class _Pointers(extend.models.StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, [("record", kind.record), ("buffer", types.CPointer(types.float64))])


@extend.infer_getattr
class _Attributes(AttributeTemplate):
    key = ModelType

    def generic_resolve(self, kind: Any, name: str) -> Any:  # type: ignore[override]
        return kind.array(name) or kind.record.typeof(name)


@extend.lower_getattr_generic(ModelType)  # type: ignore[untyped-decorator]
def _attribute(context: Any, builder: Any, kind: Any, value: Any, name: str) -> Any:
    """Compile ``m.name``: a record within the record, or an array in the buffer, which nobody owns."""
    model = building.create_struct_proxy(kind)(context, builder, value=value)
    start = builder.bitcast(model.record, building.voidptr_t)
    array = kind.array(name)
    if array is None:
        part = kind.record.typeof(name)
        place = building.pointer_add(builder, start, kind.record.offset(name), context.get_data_type(part).as_pointer())
        return context.unpack_value(builder, part, place)
    at = kind.record.typeof("at")
    last = list(at.fields)[-1] if name == "buffer" else name
    span = building.pointer_add(
        builder, start, kind.record.offset("at") + at.offset(last), building.intp_t.as_pointer()
    )
    first, *shape = (builder.load(building.gep_inbounds(builder, span, i)) for i in range(len(at.typeof(last).fields)))
    width = context.get_constant(types.intp, 8)
    if name == "buffer":
        first, shape = context.get_constant(types.intp, 0), [builder.add(first, reduce(builder.mul, shape))]
    strides = [width]
    for size in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], size))
    data = builder.bitcast(builder.gep(model.buffer, [first]), context.get_data_type(array.dtype).as_pointer())
    view = context.make_array(array)(context, builder)
    context.populate_array(view, data=data, shape=shape, strides=strides, itemsize=width, meminfo=None, parent=None)
    return view._getvalue()


def _opened(_: Any, records: Any, buffers: Any, i: Any) -> Any:  # noqa: ARG001  typed by intrinsic
    kind = ModelType(records.dtype)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        model = building.create_struct_proxy(kind)(context, builder)
        for name, source, at in (("record", args[0], 0), ("buffer", args[1], 1)):
            array = signature.args[at]
            found = context.make_array(array)(context, builder, source)
            indices = [args[2], *(context.get_constant(types.intp, 0),) * (array.ndim - 1)]
            place = building.get_item_pointer(context, builder, array, found, indices)
            setattr(model, name, builder.bitcast(place, getattr(model, name).type))
        return model._getvalue()

    return kind(records, buffers, types.intp), codegen


# Model i of those whose records (n,) and buffers (n, k) these are (arrays.py).
opened: Any = extend.intrinsic(_opened)


def described(entries: Sequence[Any]) -> str:
    """What is in use, for people: where code is kept, and how much of it is there."""
    ready, place = sum(map(is_filled, entries)), Path(entries[0].entry.stats.cache_path)
    writable = next((os.access(folder, os.W_OK) for folder in (place, *place.parents) if folder.exists()), False)
    config: Any = numba.config
    where = config.CACHE_DIR or Path(__file__).parents[1]
    hint = "" if ready == len(entries) else "; streamgp compile adds the others"
    return (
        f"compiled by Numba {numba.__version__}, in {where}, {'writable' if writable else 'NOT writable'}, "
        f"{ready} of {len(entries)} functions{hint}"
    )
