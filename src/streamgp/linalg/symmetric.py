"""Symmetric matrices of which only the lower triangle is stored, read and written.

Rows are taken four at a time where that halves the traffic to memory.
"""

from __future__ import annotations

from numpy.typing import NDArray

from streamgp.compiled import compiled

Array = NDArray


@compiled
def multiply(A: Array, x: Array, n: int, y: Array) -> None:
    """y = A x for the leading n rows."""
    i = 0
    while i + 4 <= n:
        a0 = a1 = a2 = a3 = 0.0
        x0, x1, x2, x3 = x[i], x[i + 1], x[i + 2], x[i + 3]
        r0, r1, r2, r3 = A[i], A[i + 1], A[i + 2], A[i + 3]
        for j in range(i):
            xj = x[j]
            a0 += r0[j] * xj
            a1 += r1[j] * xj
            a2 += r2[j] * xj
            a3 += r3[j] * xj
            y[j] += r0[j] * x0 + r1[j] * x1 + r2[j] * x2 + r3[j] * x3
        y[i] = a0 + r0[i] * x0 + r1[i] * x1 + r2[i] * x2 + r3[i] * x3
        y[i + 1] = a1 + r1[i] * x0 + r1[i + 1] * x1 + r2[i + 1] * x2 + r3[i + 1] * x3
        y[i + 2] = a2 + r2[i] * x0 + r2[i + 1] * x1 + r2[i + 2] * x2 + r3[i + 2] * x3
        y[i + 3] = a3 + r3[i] * x0 + r3[i + 1] * x1 + r3[i + 2] * x2 + r3[i + 3] * x3
        i += 4
    while i < n:
        xi = x[i]
        row = A[i]
        a0 = row[i] * xi
        for j in range(i):
            a0 += row[j] * x[j]
            y[j] += row[j] * xi
        y[i] = a0
        i += 1


@compiled
def scale_and_subtract(A: Array, scale: float, h: Array, weight: float, n: int) -> None:
    """A = scale A - weight h h' in one pass, from the last row up: multiply() has just been there."""
    if scale == 1.0:
        for i in range(n - 1, -1, -1):
            row = A[i]
            t = weight * h[i]
            for j in range(i + 1):
                row[j] -= t * h[j]
    else:
        for i in range(n - 1, -1, -1):
            row = A[i]
            t = weight * h[i]
            for j in range(i + 1):
                row[j] = scale * row[j] - t * h[j]


@compiled
def add_outer(A: Array, weight: float, h: Array, n: int) -> None:
    """A += weight h h'."""
    scale_and_subtract(A, 1.0, h, -weight, n)


@compiled
def read_column(A: Array, r: int, n: int, c: Array) -> None:
    """c = A[:, r]."""
    for j in range(r + 1):
        c[j] = A[r, j]
    for i in range(r + 1, n):
        c[i] = A[i, r]


@compiled
def update_and_drop(A: Array, scale: float, h: Array, weight: float, a: Array, b: Array, r: int, n: int) -> None:
    """A = scale A - weight h h' - a b' - b a' without row and column r, in one pass; the freed row is zero."""
    for i in range(n):
        if i == r:
            continue
        source = A[i]
        target = A[i if i < r else i - 1]
        hi, ai, bi = weight * h[i], a[i], b[i]
        below = min(i + 1, r)
        for j in range(below):
            target[j] = scale * source[j] - hi * h[j] - ai * b[j] - bi * a[j]
        if i > r:
            tail_source, tail_target = source[r + 1 : i + 1], target[r:i]
            tail_h, tail_a, tail_b = h[r + 1 : i + 1], a[r + 1 : i + 1], b[r + 1 : i + 1]
            for j in range(tail_target.size):
                tail_target[j] = scale * tail_source[j] - hi * tail_h[j] - ai * tail_b[j] - bi * tail_a[j]
    for j in range(n):
        A[n - 1, j] = 0.0


@compiled
def drop(A: Array, r: int, n: int) -> None:
    """Take out row and column r; the rest moves up; the freed row is zero."""
    for i in range(r + 1, n):
        for j in range(r):
            A[i - 1, j] = A[i, j]
        for j in range(r + 1, i + 1):
            A[i - 1, j - 1] = A[i, j]
    for j in range(n):
        A[n - 1, j] = 0.0
