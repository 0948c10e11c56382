"""The kernels of wrappers: one thread of a GPU runs the rows of a model."""

from __future__ import annotations

import importlib
import math
from functools import cache
from typing import Any

from numba.core import types

from streamgp.cuda.ptx import FAST, cached_kernel, cuda, intrinsic
from streamgp.cuda.record import PREDICTED
from streamgp.fleet.wrapping import AroundShape, Functions, Model, Spans, Standard, Thread, build, gpu_numpy

THREADS = 64  # of a block
FLOAT = 8  # bytes
libdevice: Any = importlib.import_module("numba.cuda.libdevice")


@cache
def model(at: Spans) -> Any:
    """See Thread.model: views of a buffer, which nobody owns."""

    @intrinsic
    def opened(_: Any, records: Any, buffers: Any, i: Any) -> Any:
        arrays = [types.Array(types.float64, len(span) - 1, "C") for span in at]
        kind = types.NamedTuple([*records.types[0].types, *arrays], Model)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            def number(value: int) -> Any:
                return context.get_constant(types.intp, value)

            record = builder.extract_value(args[0], 0)
            parts = [builder.extract_value(record, part) for part in range(2)]
            source = context.make_array(signature.args[1])(context, builder, args[1])
            offset = builder.mul(args[2], builder.extract_value(source.shape, 1))
            for array, (start, *shape) in zip(arrays, at, strict=True):
                view = context.make_array(array)(context, builder)
                context.populate_array(
                    view,
                    data=builder.gep(source.data, [builder.add(offset, number(start))]),
                    shape=[number(size) for size in shape],
                    strides=[number(FLOAT * math.prod(shape[axis + 1 :])) for axis in range(len(shape))],
                    itemsize=number(FLOAT),
                    meminfo=None,
                    parent=None,
                )
                parts.append(view._getvalue())
            return context.make_tuple(builder, kind, parts)

        return kind(records, buffers, types.intp), codegen

    if hasattr(opened, "_set_uuid"):  # otherwise it would be another one in every process, and so would its kernels
        opened._set_uuid(f"streamgp.fleet.gpu_wrapping.model{at}")
    return opened


def device(function: Any) -> Any:
    return cuda.jit(device=True, fastmath=FAST)(function)


@device
def argmax(values: Any) -> Any:
    best = 0
    for i in range(values.size):
        if values[i] > values[best]:
            best = i
    return best


@device
def nextafter(x: Any, towards: Any) -> Any:
    return libdevice.nextafter(x, towards)


@cache
def functions(shape: AroundShape) -> Functions:
    return build(Thread(device, gpu_numpy(argmax=argmax, nextafter=nextafter), model), shape)


@device
def rows_of(starts: Any, k: Any, step: Any) -> Any:
    """The first row of the k-th model, how far its rows are apart, and how many there are."""
    count = starts[k + 1] - starts[k]
    return (k, step, count) if step > 0 else (starts[k] - starts[0], 1, count)


@cache
def entering(shape: AroundShape) -> Any:
    """The kernel that brings rows into the units of the models."""
    enter = functions(shape).enter

    def run(
        input_shift: Any,
        input_scale: Any,
        target_shift: Any,
        target_scale: Any,
        rows: Any,
        targets: Any,
        conditions: Any,
        begins: Any,
        kept: Any,
        screen: Any,
        scaled: Any,
        models: Any,
        starts: Any,
        X: Any,
        Y: Any,
        given: Any,
        own: Any,
        nobody: Any,
        found: Any,
        step: Any,
        mode: Any,
        conditioned: Any,
        warmup: Any,
        bound: Any,
        into: Any,
        wanted: Any,
        known: Any,
    ) -> None:
        k = cuda.grid(1)
        if k >= models.size or found[0] != 0:
            return
        s = Standard(
            input_shift,
            input_scale,
            target_shift,
            target_scale,
            rows,
            targets,
            conditions,
            begins,
            kept,
            screen,
            scaled,
        )
        first, apart, count = rows_of(starts, k, step)
        learned = mode != PREDICTED
        enter(
            s,
            models[k],
            k,
            first,
            apart,
            count,
            X,
            Y,
            given,
            own,
            nobody,
            conditioned != 0,
            learned,
            warmup,
            bound,
            into,
            wanted,
            known,
        )

    return cached_kernel()(run)


@cache
def leaving(shape: AroundShape) -> Any:
    """The kernel that brings predictions into the units of the targets, and calibrates them."""
    _, leave, _, calibrate = functions(shape)
    calibrated = shape.parts > 0

    def run(
        target_shift: Any,
        target_scale: Any,
        models: Any,
        starts: Any,
        out: Any,
        own: Any,
        known: Any,
        plan: Any,
        counters: Any,
        buffers: Any,
        Y: Any,
        found: Any,
        step: Any,
        told: Any,
    ) -> None:
        k = cuda.grid(1)
        if k >= models.size or found[0] != 0:
            return
        i = models[k]
        first, apart, count = rows_of(starts, k, step)
        leave(target_shift, target_scale, i, k, first, apart, count, out, own, known, told)
        if calibrated:
            calibrate(plan, counters, buffers, i, first, apart, count, Y, told)

    return cached_kernel()(run)


@cache
def renewing(shape: AroundShape) -> Any:
    """The kernel that takes units anew."""
    renew = functions(shape).renew

    def run(
        input_shift: Any,
        input_scale: Any,
        target_shift: Any,
        target_scale: Any,
        rows: Any,
        targets: Any,
        conditions: Any,
        begins: Any,
        kept: Any,
        screen: Any,
        scaled: Any,
        models: Any,
        starts: Any,
        states: Any,
        nobody: Any,
        own: Any,
        warmup: Any,
        bound: Any,
        into: Any,
        wanted: Any,
        given: Any,
    ) -> None:
        k = cuda.grid(1)
        if k >= models.size:
            return
        s = Standard(
            input_shift,
            input_scale,
            target_shift,
            target_scale,
            rows,
            targets,
            conditions,
            begins,
            kept,
            screen,
            scaled,
        )
        renew(s, models[k], k, starts[k], states, nobody, own, warmup, bound, into, wanted, given)

    return cached_kernel()(run)


def _find_beyond(X: Any, Y: Any, learned: Any, largest: Any, found: Any) -> None:
    """Set found[0] where an input is no number within the largest, or a target is beyond it or alone missing."""
    first, step = cuda.grid(1), cuda.gridsize(1)
    for i in range(first, X.shape[0], step):
        fine = True
        for j in range(Y.shape[1]):
            alone = (Y[i, j] == Y[i, j]) != (Y[i, 0] == Y[i, 0])  # outputs that share a covariance come together
            fine = fine and (learned == 0 or not (abs(Y[i, j]) > largest or alone))
        for j in range(X.shape[1]):
            fine = fine and abs(X[i, j]) <= largest
        if not fine:
            found[0] = 1


find_beyond = cached_kernel(fastmath=False)(_find_beyond)
