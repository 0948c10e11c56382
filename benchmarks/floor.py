"""The floor: what BLAS takes for the symmetric products and rank-one updates that a row cannot do without.

Called in two ways. From Python, by scipy.linalg.blas, a call costs about 1.5 microseconds before BLAS does anything;
from a compiled loop, through the addresses of the very same functions, it costs next to nothing.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import numba
import numpy as np
from numba.extending import get_cython_function_address
from scipy.linalg.blas import dsymv, dsyr

from timing import Work

STEP = -1e-12  # of the rank-one update: the matrix stays the same for all the rows of a benchmark


def operands(m: int) -> tuple[np.ndarray, ...]:
    """Two matrices in Fortran order, a vector to multiply, and two products."""
    rng = np.random.default_rng(m)
    Q, C = (np.asfortranarray(rng.normal(size=(m, m))) for _ in range(2))
    return Q, C, rng.normal(size=m), np.zeros(m), np.zeros(m)


def from_python(m: int, products: int) -> Work:
    """One or two dsymv and a dsyr for each row, called from Python."""
    Q, C, x, g, h = operands(m)

    def run(rows: int) -> None:
        for _ in range(rows):
            if products == 2:
                dsymv(1.0, Q, x, beta=0.0, y=h, lower=1, overwrite_y=1)
            dsymv(1.0, C, x, beta=0.0, y=g, lower=1, overwrite_y=1)
            dsyr(STEP, g, lower=1, a=C, overwrite_a=1)

    return lambda rows: lambda: run(rows)


def from_compiled(m: int, products: int) -> Work:
    """The same, called from a compiled loop."""
    Q, C, x, g, h = operands(m)
    sizes, numbers, lower = np.array([m, 1], np.int32), np.array([1.0, 0.0, STEP]), np.array([ord("L")], np.uint8)
    loop = compiled_loop()
    loop(0, products, Q, C, x, g, h, sizes, numbers, lower)
    return lambda rows: lambda: loop(rows, products, Q, C, x, g, h, sizes, numbers, lower)


def blas(name: str, arguments: int) -> Callable[..., None]:
    """The function of SciPy's BLAS of that name, for compiled code."""
    address = get_cython_function_address("scipy.linalg.cython_blas", name)
    function: Callable[..., None] = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments)(address)
    return function


@cache
def compiled_loop() -> Callable[..., None]:
    symv, syr = blas("dsymv", 10), blas("dsyr", 7)

    @numba.njit
    def loop(rows, products, Q, C, x, g, h, sizes, numbers, lower):  # type: ignore[no-untyped-def]
        u, n, step = lower.ctypes, sizes.ctypes, sizes[1:].ctypes
        one, zero, weight = numbers.ctypes, numbers[1:].ctypes, numbers[2:].ctypes
        for _ in range(rows):
            if products == 2:
                symv(u, n, one, Q.ctypes, n, x.ctypes, step, zero, h.ctypes, step)
            symv(u, n, one, C.ctypes, n, x.ctypes, step, zero, g.ctypes, step)
            syr(u, n, weight, g.ctypes, step, C.ctypes, n)

    return loop  # type: ignore[no-any-return]
