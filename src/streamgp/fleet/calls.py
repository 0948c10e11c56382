"""Loops over models: each calls the compiled function of the single model, by its address, for one model at a time.

The single model's machine code is not compiled a second time in here, where it could be optimized in another way; so
every model of a fleet computes what it would alone, bit for bit. The loops release the GIL.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import config, types
from numba.core import cgutils as _cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from streamgp import compiled
from streamgp.arrays import placed
from streamgp.compiled import BOOLEAN, CUBE, MATRIX, VECTOR, WHOLE, F, entry
from streamgp.contract.checks import FINE, MOVE_IS_DUE
from streamgp.process import state, stream
from streamgp.wrappers import conformal

Array = NDArray
llvm: Any = _cgutils  # without types
Address = Any  # of compiled code, a number; the function itself where nothing is compiled

STATUS = types.UniTuple(types.int64, 2)  # type: ignore[no-untyped-call]
INDICES = numba.int64[::1]

# These loops use no other compiled source than the functions they call by address, and nothing else uses them: a change
# of this file alone concerns its own cache alone.
_STAMP = hashlib.sha256(compiled._DIGEST.encode() + Path(__file__).read_bytes()).hexdigest()


def address_of(function: Any) -> Address:
    """Where the machine code of a function declared by entry() lies, once compile_now() has loaded it."""
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return function
    loaded = function.overloads[function.types]
    return loaded.library.get_pointer_to_function(loaded.fndesc.llvm_func_name)


def _calling(arguments: tuple[Any, ...], result: Any) -> Any:
    """A function of an address and a tuple of arguments that calls what is there: compiled for these types."""
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return lambda function, values: function(*values)

    def typed(_: Any, address: Any, values: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            given = llvm.unpack_tuple(builder, args[1])
            found = zip(given, signature.args[1].types, arguments, strict=True)
            passed = [context.cast(builder, value, kind, wanted) for value, kind, wanted in found]
            convention = context.call_conv
            kind = convention.get_function_type(result, arguments)
            function = builder.inttoptr(args[0], kind.as_pointer())
            status, returned = convention.call_function(builder, function, result, arguments, passed)
            with llvm.if_unlikely(builder, status.is_error):
                convention.return_status_propagate(builder, status)
            return returned

        return result(address, values), codegen

    return intrinsic(typed)


_run = _calling(stream.ARGUMENTS, STATUS)
_finish = _calling((state.LAYOUT.type, VECTOR), types.none)
_scale = _calling((MATRIX, VECTOR, VECTOR, MATRIX), types.none)
_rescale = _calling((MATRIX, MATRIX, MATRIX, VECTOR, VECTOR, CUBE), types.none)
_screen = _calling((MATRIX, MATRIX, BOOLEAN), types.none)
_calibrate = _calling((conformal.LAYOUT.type, VECTOR, MATRIX, MATRIX, MATRIX, MATRIX, BOOLEAN, CUBE), types.none)

# Model models[k] has the rows starts[k] to starts[k + 1] of the arrays that follow.
_ROWS = INDICES, INDICES


def _loop(*arguments: Any) -> Callable[[F], F]:
    """Declare an entry whose cache depends on this file, too."""

    def decorated(function: F) -> F:
        dispatcher: Any = entry(*arguments)(function)
        if not config.DISABLE_JIT:  # type: ignore[attr-defined]
            dispatcher._cache._cache_file._source_stamp = _STAMP
        return dispatcher  # type: ignore[no-any-return]

    return decorated


@_loop(WHOLE, WHOLE, state.LAYOUT.type, MATRIX, *_ROWS, MATRIX, MATRIX, MATRIX, MATRIX, BOOLEAN)
def run_models(
    run: Address,
    finish: Address,
    records: Array,
    buffers: Array,
    models: Array,
    starts: Array,
    X: Array,
    Y: Array,
    conditions: Array,
    out: Array,
    advance: bool,
) -> tuple[int, int, int]:
    """Run stream.run_... for models, and sngd.finish_interval where hyperparameters move.

    No rows of Y or of conditions: none; no columns of out: no predictions. Returns the status, model and row of the
    first rows that were refused.
    """
    longest = 0
    for k in range(models.size):
        longest = max(longest, starts[k + 1] - starts[k])
    parts, tracking = out.shape[0], out.shape[1] > 0
    room = np.empty(parts * longest)
    for k in range(models.size):
        i, first, last = models[k], starts[k], starts[k + 1]
        record, f, x = records[i : i + 1], buffers[i], X[first:last]
        y = Y[first:last] if Y.shape[0] > 0 else Y
        said = conditions[first:last] if conditions.shape[0] > 0 else conditions
        predicted = placed(room, 0, parts, last - first if tracking else 0)
        status, at = _run(run, (record, f, x, y, said, predicted, 0, advance))
        while status == MOVE_IS_DUE:
            _finish(finish, (record, f))
            status, at = _run(run, (record, f, x, y, said, predicted, at + 1, advance))
        if status != FINE:
            return status, i, at
        if tracking:
            for j in range(parts):
                for t in range(last - first):
                    out[j, first + t] = predicted[j, t]
    return FINE, -1, -1


@_loop(WHOLE, *_ROWS, MATRIX, MATRIX, MATRIX, MATRIX)
def scale_models(
    to_standard: Address, models: Array, starts: Array, values: Array, shift: Array, scale: Array, out: Array
) -> None:
    """Run scaling.to_standard for models, each with its row of shift and scale."""
    for k in range(models.size):
        i, first, last = models[k], starts[k], starts[k + 1]
        _scale(to_standard, (values[first:last], shift[i], scale[i], out[first:last]))


@_loop(WHOLE, *_ROWS, MATRIX, MATRIX, MATRIX, MATRIX, MATRIX, CUBE)
def rescale_models(
    from_standard: Address,
    models: Array,
    starts: Array,
    mean: Array,
    variance: Array,
    noise: Array,
    shift: Array,
    scale: Array,
    out: Array,
) -> None:
    """Run scaling.from_standard for models, each with its row of shift and scale."""
    for k in range(models.size):
        i, first, last = models[k], starts[k], starts[k + 1]
        found = np.empty((3, last - first, mean.shape[1]))
        _rescale(from_standard, (mean[first:last], variance[first:last], noise[first:last], shift[i], scale[i], found))
        _spread(found, first, out)


@_loop(WHOLE, CUBE, *_ROWS, MATRIX, BOOLEAN)
def screen_models(screen: Address, states: Array, models: Array, starts: Array, Y: Array, together: bool) -> None:
    """Run outliers.screen for models, each with its own state."""
    for k in range(models.size):
        _screen(screen, (states[models[k]], Y[starts[k] : starts[k + 1]], together))


@_loop(WHOLE, conformal.LAYOUT.type, MATRIX, *_ROWS, MATRIX, MATRIX, MATRIX, MATRIX, BOOLEAN, CUBE)
def calibrate_models(
    calibrate: Address,
    records: Array,
    buffers: Array,
    models: Array,
    starts: Array,
    mean: Array,
    variance: Array,
    noise: Array,
    Y: Array,
    issued: bool,
    out: Array,
) -> None:
    """Run conformal.calibrate for models; bounds that were issued earlier are read from out."""
    for k in range(models.size):
        i, first, last = models[k], starts[k], starts[k + 1]
        found = out[:, first:last].copy()
        parts = mean[first:last], variance[first:last], noise[first:last]
        _calibrate(calibrate, (records[i : i + 1], buffers[i], *parts, Y[first:last], issued, found))
        _spread(found, first, out)


@numba.njit(inline="always")
def _spread(found: Array, first: int, out: Array) -> None:
    """Put what was found for the rows of one model among those of all."""
    for part in range(found.shape[0]):
        for t in range(found.shape[1]):
            for j in range(found.shape[2]):
                out[part, first + t, j] = found[part, t, j]
