"""Lanes: what the rows of a fleet are written over, so that one source serves a block of GPU threads and plain Python.

A target has a number of lanes that do the same work on different numbers. It says which lane runs, waits until all
have come to the same line, and adds up or compares what they hold. With one lane all of that is trivial, and the tests
run the source without a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Function = Callable[..., Any]

WARP = 32
WIDE = 16  # bytes that a lane can read at once
NONE = 1 << 20  # no index


class Lanes(NamedTuple):
    """A target."""

    lanes: int  # how many there are
    number: type  # of numbers
    index: type  # of indices; on a GPU unsigned, so that none is taken to count from the end
    jit: Callable[[Function], Function]  # how a function is compiled that others call
    lane: Function  # () -> which lane this is
    sync: Function  # wait for the others
    total: Function  # (f, a, b, c) -> their sums over all lanes
    any: Function  # (flag) -> whether it is set in any lane; waits for the others
    # (f, value, index) -> the index of the lowest value of all lanes, the first of equals; NONE where all are inf
    lowest: Function
    # (f, a, b, n) -> the product of the n numbers from a on and those from b on; in single precision all are multiples
    # of wide reads
    dot: Function


def one_lane(number: type = np.float64) -> Lanes:
    """Plain Python."""
    return Lanes(
        1,
        number,
        int,
        lambda function: function,
        lambda: 0,
        lambda: None,
        lambda _, a, b, c: (a, b, c),
        bool,
        lambda _, value, index: index if value < math.inf else NONE,
        lambda f, a, b, n: np.dot(f[a : a + n], f[b : b + n]),
    )


def gpu_lanes(count: int, number: type, at: int) -> Lanes:
    """The threads of a block: whole warps, which meet in three numbers each from ``at`` on in the array f."""
    from streamgp.cuda.ptx import FAST, cuda, read_four

    warps, everyone, infinite, U = count // WARP, 0xFFFFFFFF, number(math.inf), np.uint64
    none, begin, warp, four, three, two, one, zero = map(U, (NONE, at, WARP, 4, 3, 2, 1, 0))

    def device(function: Function) -> Function:
        compiled: Function = cuda.jit(device=True, fastmath=FAST)(function)
        return compiled

    @device
    def lane() -> Any:
        return U(cuda.threadIdx.x)

    @device
    def sync() -> None:
        cuda.syncthreads()

    @device
    def any_lane(flag: Any) -> Any:
        return cuda.syncthreads_or(np.int32(flag)) != 0

    @device
    def total(f: Any, a: Any, b: Any, c: Any) -> Any:
        step = WARP // 2
        while step > 0:
            a += cuda.shfl_xor_sync(everyone, a, step)
            b += cuda.shfl_xor_sync(everyone, b, step)
            c += cuda.shfl_xor_sync(everyone, c, step)
            step //= 2
        if warps > 1:
            me, w = lane(), begin
            if me % warp == zero:
                mine = begin + three * (me // warp)
                f[mine], f[mine + one], f[mine + two] = a, b, c
            cuda.syncthreads()
            a, b, c = f[begin], f[begin + one], f[begin + two]
            for _ in range(1, warps):
                w += three
                a, b, c = a + f[w], b + f[w + one], c + f[w + two]
        cuda.syncthreads()
        return a, b, c

    @device
    def lowest(f: Any, value: Any, index: Any) -> Any:
        where = number(index)  # small enough to be exact
        step = WARP // 2
        while step > 0:
            other, there = cuda.shfl_xor_sync(everyone, value, step), cuda.shfl_xor_sync(everyone, where, step)
            if other < value or (other == value and there < where):
                value, where = other, there
            step //= 2
        if warps > 1:
            me, w = lane(), begin
            if me % warp == zero:
                mine = begin + three * (me // warp)
                f[mine], f[mine + one] = value, where
            cuda.syncthreads()
            value, where = f[begin], f[begin + one]
            for _ in range(1, warps):
                w += three
                other, there = f[w], f[w + one]
                if other < value or (other == value and there < where):
                    value, where = other, there
        cuda.syncthreads()
        return U(where) if value < infinite else none

    if number is np.float32:

        @device
        def dot(f: Any, a: Any, b: Any, n: Any) -> Any:
            total = number(0)
            for j in range(zero, n, four):
                x, y = read_four(f, a + j), read_four(f, b + j)
                total += x[0] * y[0] + x[1] * y[1] + (x[2] * y[2] + x[3] * y[3])
            return total

    else:

        @device
        def dot(f: Any, a: Any, b: Any, n: Any) -> Any:
            total = number(0)
            for j in range(n):
                total += f[a + j] * f[b + j]
            return total

    return Lanes(count, number, U, device, lane, sync, total, any_lane, lowest, dot)
