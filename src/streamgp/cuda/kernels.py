"""Kernels made of the loops of the cores: one thread of a GPU runs the operations of a model.

Nothing is written twice. The text of a loop, and of all that it calls, is compiled for the other target, where a model
is a column: first its counters, then its buffer, each number beside those of the other models, so that threads that run
side by side read side by side. Record and plan are the same for all.
"""

from __future__ import annotations

import hashlib
import importlib
import math
from functools import cache, reduce
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from streamgp import arrays, compiled
from streamgp.compiled import uncompiled
from streamgp.compiled.kinds import INTEGERS
from streamgp.contract import checks
from streamgp.contract.lanes import SCREEN
from streamgp.cuda.ptx import FAST, cached_kernel, cuda, intrinsic
from streamgp.process.adapt import sngd
from streamgp.wrappers.conformal import calibrate
from streamgp.wrappers.outliers import screen
from streamgp.wrappers.scaling import from_standard, to_standard

extend: Any = importlib.import_module("numba.cuda.extending")
types: Any = importlib.import_module("numba.cuda.types")
building: Any = importlib.import_module("numba.cuda.cgutils")
templates: Any = importlib.import_module("numba.cuda.typing.templates")
libdevice: Any = importlib.import_module("numba.cuda.libdevice")
NUMBER = 8  # bytes
REFUSED, STOPPED = range(2)  # flags of a call: rows cannot be taken; a loop has stopped
CONSTANTS = {"SCREEN": SCREEN, "REFUSED": REFUSED, "STOPPED": STOPPED}  # that kernels know
OWN = "streamgp"  # the package whose functions are compiled


class ColumnType(types.Type):  # type: ignore[misc]
    """A model on a GPU: the record of all, where its own first number is, and how far its numbers lie apart."""

    def __init__(self, record: Any) -> None:
        self.record, self.counters = record, list(record.typeof("counters").fields)
        super().__init__(f"Column{hashlib.sha256(record.name.encode()).hexdigest()[:15]}")

    def array(self, name: str) -> Any:
        """The type of an array, also of the whole ``buffer``; None: there is none of this name."""
        at = self.record.typeof("at")
        if name == "buffer":
            return types.Array(types.float64, 1, "A")
        if name not in at.fields:
            return None
        start, *axes = at.typeof(name).fields
        return types.Array(types.int64 if start == INTEGERS else types.float64, len(axes), "A")


class CountersType(types.Type):  # type: ignore[misc]
    """The counters of a column."""

    def __init__(self, column: ColumnType) -> None:
        self.names = column.counters
        super().__init__(f"Counters{column.name}")


@extend.register_model(ColumnType)
class _Column(extend.models.StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: ColumnType) -> None:
        numbers = types.CPointer(types.float64)
        super().__init__(manager, kind, [("record", kind.record), ("numbers", numbers), ("apart", types.intp)])


@extend.register_model(CountersType)
class _Counters(extend.models.StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: CountersType) -> None:
        super().__init__(manager, kind, [("numbers", types.CPointer(types.int64)), ("apart", types.intp)])


@extend.infer_getattr
class _OfColumn(templates.AttributeTemplate):  # type: ignore[misc]
    key = ColumnType

    def generic_resolve(self, kind: ColumnType, name: str) -> Any:
        return kind.array(name) or (CountersType(kind) if name == "counters" else kind.record.typeof(name))


@extend.infer_getattr
class _OfCounters(templates.AttributeTemplate):  # type: ignore[misc]
    key = CountersType

    def generic_resolve(self, kind: CountersType, name: str) -> Any:
        return types.int64 if name in kind.names else None


@extend.lower_getattr_generic(ColumnType)  # type: ignore[untyped-decorator]
def _attribute(context: Any, builder: Any, kind: ColumnType, value: Any, name: str) -> Any:
    """Compile ``m.name``: the counters, a record within the record, or an array, whose numbers lie apart."""
    model = building.create_struct_proxy(kind)(context, builder, value=value)
    if name == "counters":
        counters = building.create_struct_proxy(CountersType(kind))(context, builder)
        counters.numbers = builder.bitcast(model.numbers, counters.numbers.type)
        counters.apart = model.apart
        return counters._getvalue()
    start, array = builder.bitcast(model.record, building.voidptr_t), kind.array(name)
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
    width, counted = (context.get_constant(types.intp, number) for number in (NUMBER, len(kind.counters)))
    if name == "buffer":
        first, shape = context.get_constant(types.intp, 0), [builder.add(first, reduce(builder.mul, shape))]
    strides = [builder.mul(model.apart, width)]
    for size in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], size))
    place = builder.gep(model.numbers, [builder.mul(builder.add(first, counted), model.apart)])
    data = builder.bitcast(place, context.get_data_type(array.dtype).as_pointer())
    view = context.make_array(array)(context, builder)
    context.populate_array(view, data=data, shape=shape, strides=strides, itemsize=width, meminfo=None, parent=None)
    return view._getvalue()


def _counter(context: Any, builder: Any, kind: CountersType, value: Any, name: str) -> Any:
    """The place of a counter."""
    counters = building.create_struct_proxy(kind)(context, builder, value=value)
    number = context.get_constant(types.intp, kind.names.index(name))
    return builder.gep(counters.numbers, [builder.mul(number, counters.apart)])


@extend.lower_getattr_generic(CountersType)  # type: ignore[untyped-decorator]
def _read_counter(context: Any, builder: Any, kind: CountersType, value: Any, name: str) -> Any:
    return builder.load(_counter(context, builder, kind, value, name))


@extend.lower_setattr_generic(CountersType)  # type: ignore[untyped-decorator]
def _write_counter(context: Any, builder: Any, signature: Any, values: Any, name: str) -> None:
    kind, given = signature.args
    number = context.cast(builder, values[1], given, types.int64)
    builder.store(number, _counter(context, builder, kind, values[0], name))


def _named(name: str, function: Any) -> Any:
    """An intrinsic with a name of its own: else it would be another one in every process, and so would its kernels."""
    made = intrinsic(function)
    if hasattr(made, "_set_uuid"):
        made._set_uuid(f"{__name__}.{name}")
    return made


def _opened(_: Any, records: Any, columns: Any, i: Any) -> Any:  # noqa: ARG001  typed by intrinsic
    kind = ColumnType(records.dtype)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        model = building.create_struct_proxy(kind)(context, builder)
        record, numbers = (context.make_array(signature.args[at])(context, builder, args[at]) for at in range(2))
        model.record = builder.bitcast(record.data, model.record.type)
        model.numbers = builder.bitcast(builder.gep(numbers.data, [args[2]]), model.numbers.type)
        model.apart = builder.extract_value(numbers.shape, 1)
        return model._getvalue()

    return kind(records, columns, types.intp), codegen


def _device(function: Any) -> Any:
    return cuda.jit(device=True, fastmath=FAST)(function)


@_device
def _as_it_is(array: Any) -> Any:
    return array


@_device
def _fine(X: Any, Y: Any, shared: Any, largest: Any) -> Any:  # noqa: ARG001  rows are checked before they come
    return checks.FINE, -1


@_device
def _not_adapting(m: Any) -> Any:  # noqa: ARG001
    return False


@_device
def _fmax(a: Any, b: Any) -> Any:
    return libdevice.fmax(a, b)


@_device
def _nextafter(x: Any, towards: Any) -> Any:
    return libdevice.nextafter(x, towards)


@_device
def _argmax(values: Any) -> Any:
    best = 0
    for i in range(values.size):
        if values[i] > values[best]:
            best = i
    return best


class _Counterparts(ModuleType):
    """A module as kernels know it: its names are looked up when they are used."""

    def __init__(self, of: Any, **known: Any) -> None:
        super().__init__(of.__name__)
        vars(self).update(known, _of=of)

    def __getattr__(self, name: str) -> Any:
        found = _counterpart(getattr(vars(self)["_of"], name))
        setattr(self, name, found)
        return found


# What stands for the functions of the cores where their own text says nothing to a GPU.
_OTHERS: dict[Any, Any] = {
    arrays.opened: _named("opened", _opened),
    compiled.borrowed: _as_it_is,
    checks.check: _fine,
    sngd.before_learning: _not_adapting,
    sngd.after_learning: _not_adapting,
}
_NUMPY = _Counterparts(
    np,
    abs=math.fabs,
    fmax=_fmax,
    nextafter=_nextafter,
    argmax=_argmax,
    **{name: getattr(math, name) for name in ("exp", "log", "sqrt", "sin", "cos", "tanh", "expm1", "log1p", "hypot")},
    **{name: getattr(math, name) for name in ("isnan", "isinf", "isfinite", "copysign", "inf", "nan", "pi")},
)


def _counterpart(value: Any) -> Any:
    """What a kernel has in place of something that a function of the cores knows."""
    if value is np:
        return _NUMPY
    if isinstance(value, ModuleType) and value.__name__.startswith(OWN):
        return _module(value)
    if not callable(value) or isinstance(value, type):
        return value
    if value in _OTHERS:
        return _OTHERS[value]
    text = _text(value)
    return _on_device(text) if isinstance(text, FunctionType) and text.__module__.startswith(OWN) else value


def _text(function: Any) -> Any:
    return uncompiled(getattr(function, "entry", function))


@cache
def _module(of: Any) -> _Counterparts:
    return _Counterparts(of)


_made: dict[FunctionType, Any] = {}


def _on_device(text: FunctionType) -> Any:
    """A function of the cores, compiled for a GPU with all that it calls."""
    if text not in _made:
        known = dict(text.__globals__)
        function = FunctionType(text.__code__, known, text.__name__, text.__defaults__, text.__closure__)
        _made[text] = _device(function)
        for name in set(text.__code__.co_names) & known.keys():  # among them names of attributes, which do no harm
            known[name] = _counterpart(known[name])
    return _made[text]


@cache
def kernel(loop: Any) -> Any:
    """The kernel of a loop (process/loop.py).

    It takes the record of all and the columns of the models, and what the loop takes; then the statuses of the models,
    and whether rows were refused, so that nothing is done, and whether a status is not 0.
    """
    of = _text(loop)
    return _kernel(_run_model, f"{of.__module__}.{of.__name__}", run=loop)


@cache
def looking() -> Any:
    """The kernel that checks rows, as models do that take them from outside."""
    return _kernel(_look, "looking", check=checks.check)


@cache
def entering() -> Any:
    """The kernel that does what wrappers/single.py does before the loop."""
    return _kernel(_enter, "entering", screen=screen, to_standard=to_standard)


@cache
def leaving() -> Any:
    """The kernel that does what wrappers/single.py does after the loop."""
    return _kernel(_leave, "leaving", from_standard=from_standard, calibrate=calibrate)


def _kernel(text: Any, name: str, **known: Any) -> Any:
    """A kernel with a name of its own, and no closure: by its contents numba-cuda would name its file."""
    calls = {called: _on_device(_text(of)) for called, of in known.items()}
    made = FunctionType(text.__code__, {"cuda": cuda, **CONSTANTS} | calls, name.replace(".", "_"))
    made.__qualname__ = made.__name__
    return cached_kernel()(made)


run: Any = None  # the loop
check: Any = None  # of contract/checks.py


def _run_model(
    record: Any,
    columns: Any,
    models: Any,
    starts: Any,
    ops: Any,
    X: Any,
    Y: Any,
    conditions: Any,
    kept: Any,
    out: Any,
    status: Any,
    flags: Any,
) -> None:
    k = cuda.grid(1)
    if k < models.size and flags[REFUSED] == 0:
        own = models[k : k + 1], starts[k : k + 2]
        found = run(record, columns, own[0], own[1], ops, X, Y, conditions, kept, out, 0, 0)
        status[k] = found[0]
        if found[0] != 0:
            flags[STOPPED] = 1


def _look(X: Any, Y: Any, shared: Any, largest: Any, flags: Any) -> None:
    t = cuda.grid(1)
    if t < X.shape[0]:
        found = check(X[t : t + 1], Y[t : t + 1], shared, largest)
        if found[0] != 0:
            flags[REFUSED] = 1


def _enter(
    models: Any,
    starts: Any,
    ops: Any,
    X: Any,
    Y: Any,
    shared: Any,
    screens: Any,
    input_shift: Any,
    input_scale: Any,
    target_shift: Any,
    target_scale: Any,
    x: Any,
    y: Any,
    flags: Any,
) -> None:
    k = cuda.grid(1)
    if k < models.size and flags[REFUSED] == 0:
        own = models[k : k + 1], starts[k : k + 2]
        if screens.shape[0] > 0 and Y.shape[0] > 0 and ops.shape[0] > 0 and ops[0, 1] & SCREEN:
            screen(own[0], own[1], screens, Y, shared, False)
        to_standard(own[0], own[1], X, input_shift, input_scale, x)
        if Y.shape[0] > 0:
            to_standard(own[0], own[1], Y, target_shift, target_scale, y)


def _leave(
    models: Any,
    starts: Any,
    ops: Any,
    Y: Any,
    kept: Any,
    target_shift: Any,
    target_scale: Any,
    calibrated: Any,
    calibrations: Any,
    wider: Any,
    out: Any,
    flags: Any,
) -> None:
    k = cuda.grid(1)
    if k < models.size and flags[REFUSED] == 0:
        own = models[k : k + 1], starts[k : k + 2]
        from_standard(own[0], own[1], target_shift, target_scale, out[out.shape[0] - 3 :])
        if calibrated.shape[0] > 0:
            calibrate(calibrated, calibrations, own[0], own[1], ops, Y, kept, wider, out)
