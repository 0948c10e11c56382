"""Numba's compiler for GPUs, and instructions that have no name in it: copies in the background and wide reads."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types

from streamgp.compiled.sources import digest

vars(np).setdefault("row_stack", np.vstack)  # numba-cuda 0.30 looks for a name that NumPy 2.5 no longer has
cuda: Any = importlib.import_module("numba.cuda")
driver: Any = None  # the functions of the CUDA driver, which raise where they fail
RELAXED: Any = None
MOST_SHARED: Any = None
if find_spec("numba_cuda") is not None:  # otherwise this is Numba's own compiler, which only shows the source
    importlib.import_module("numba.cuda.core.config").CUDA_LOW_OCCUPANCY_WARNINGS = 0  # type: ignore[attr-defined]
    _module: Any = importlib.import_module("numba.cuda.cudadrv.driver")
    driver, RELAXED = _module.driver, _module.binding.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    MOST_SHARED = _module.binding.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
intrinsic: Any = importlib.import_module("numba.cuda.extending").intrinsic
ADDRESS = ir.IntType(64)

# As on the cores: NaN and inf stay what they are. A dict, whose order is the same in every process: kernels are found
# on disk by what they are made of.
FAST = dict.fromkeys(("reassoc", "contract", "arcp"), True)
SOURCES = sorted(path for folder in ("cuda", "fleet") for path in (Path(__file__).parents[1] / folder).glob("*.py"))
DIGEST = hashlib.sha256(b"".join([*(path.read_bytes() for path in SOURCES), digest().encode()])).hexdigest()


def cached_kernel(*, fastmath: Any = FAST, **options: Any) -> Callable[[Callable[..., None]], Any]:
    """Compile a kernel when it is first launched; it stays on disk until a source of kernels changes."""

    def decorated(function: Callable[..., None]) -> Any:
        dispatcher = cuda.jit(fastmath=fastmath, cache=True, **options)(function)
        dispatcher._cache._cache_file._source_stamp = DIGEST
        return dispatcher

    return decorated


def _address(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    view = context.make_array(kind)(context, builder, array)
    return builder.ptrtoint(builder.gep(view.data, [at]), ADDRESS)


@intrinsic
def fetch(_: Any, shared: Any, at: Any, source: Any, begin: Any) -> Any:
    """Start to copy 16 bytes from global into shared memory."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to = _address(context, builder, signature.args[0], args[0], args[1])
        of = _address(context, builder, signature.args[2], args[2], args[3])
        text = (
            "{ .reg .u64 a, b; cvta.to.shared.u64 a, $0; cvta.to.global.u64 b, $1; "
            "cp.async.cg.shared.global [a], [b], 16; }"
        )
        builder.asm(ir.FunctionType(ir.VoidType(), [ADDRESS, ADDRESS]), text, "l,l,~{memory}", [to, of], True)
        return context.get_dummy_value()

    return types.void(shared, types.uint64, source, types.uint64), codegen


@intrinsic
def fetched(_: Any) -> Any:
    """Wait for what this thread has started to copy."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.asm(ir.FunctionType(ir.VoidType(), []), "cp.async.wait_all;", "~{memory}", [], True)
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def put_back(_: Any, shared: Any, at: Any, target: Any, begin: Any) -> Any:
    """Copy 16 bytes from shared into global memory."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        of = _address(context, builder, signature.args[0], args[0], args[1])
        to = _address(context, builder, signature.args[2], args[2], args[3])
        text = (
            "{ .reg .u64 a, b; .reg .b32 x, y, z, w; cvta.to.shared.u64 a, $0; cvta.to.global.u64 b, $1; "
            "ld.shared.v4.b32 {x, y, z, w}, [a]; st.global.v4.b32 [b], {x, y, z, w}; }"
        )
        builder.asm(ir.FunctionType(ir.VoidType(), [ADDRESS, ADDRESS]), text, "l,l,~{memory}", [of, to], True)
        return context.get_dummy_value()

    return types.void(shared, types.uint64, target, types.uint64), codegen


@intrinsic
def read_four(_: Any, shared: Any, at: Any) -> Any:
    """Read four single floats of shared memory at once."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        of = _address(context, builder, signature.args[0], args[0], args[1])
        kind = ir.FunctionType(ir.LiteralStructType([ir.FloatType()] * 4), [ADDRESS])
        text = "{ .reg .u64 a; cvta.to.shared.u64 a, $4; ld.shared.v4.f32 {$0, $1, $2, $3}, [a]; }"
        found = builder.asm(kind, text, "=f,=f,=f,=f,l,~{memory}", [of], True)
        numbers = [builder.extract_value(found, i) for i in range(4)]
        return context.make_tuple(builder, signature.return_type, numbers)

    return types.UniTuple(types.float32, 4)(shared, types.uint64), codegen


if hasattr(read_four, "_set_uuid"):  # otherwise it would be another one in every process, and so would its kernels
    read_four._set_uuid("streamgp.cuda.ptx.read_four")


def ask_for_shared(compiled: Any, arguments: Any, size: int) -> None:
    """Let blocks of a kernel have more shared memory than they get unasked."""
    function = compiled.compile(tuple(map(compiled.typeof_pyval, arguments)))._codelibrary.get_cufunc()
    driver.cuKernelSetAttribute(MOST_SHARED, size, function.handle, function.device.id)
