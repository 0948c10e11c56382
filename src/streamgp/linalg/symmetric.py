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
def rotate(A: Array, r: int, n: int, c: Array, s: Array, carried: Array) -> None:
    """A = U A U' for the plane rotations U of triangular.delete(): coordinate r becomes the last one.

    c[i], s[i] merge coordinate i into the carried one, for i = r + 1 ... n - 1.
    """
    # From the right, row by row. A rotation waits for the one before it, so four rows go side by side.
    i = r + 1
    while i + 4 <= n:
        r0, r1, r2, r3 = A[i], A[i + 1], A[i + 2], A[i + 3]
        t0, t1, t2, t3 = r0[r], r1[r], r2[r], r3[r]
        for k in range(r + 1, i):
            ck, sk = c[k], s[k]
            x0, x1, x2, x3 = r0[k], r1[k], r2[k], r3[k]
            r0[k - 1] = ck * x0 + sk * t0
            r1[k - 1] = ck * x1 + sk * t1
            r2[k - 1] = ck * x2 + sk * t2
            r3[k - 1] = ck * x3 + sk * t3
            t0 = ck * t0 - sk * x0
            t1 = ck * t1 - sk * x1
            t2 = ck * t2 - sk * x2
            t3 = ck * t3 - sk * x3
        r0[i - 1] = t0
        _rotate_row(r1, c, s, t1, i, i + 1)
        _rotate_row(r2, c, s, t2, i, i + 2)
        _rotate_row(r3, c, s, t3, i, i + 3)
        i += 4
    while i < n:
        _rotate_row(A[i], c, s, A[i, r], r + 1, i)
        i += 1
    # From the left: row i and the carried one give row i - 1 and the next carried one.
    for j in range(r):
        carried[j] = A[r, j]
    corner = A[r, r]
    for i in range(r + 1, n):
        source, target, ci, si = A[i], A[i - 1], c[i], s[i]
        for j in range(i - 1):
            x = source[j]
            t = carried[j]
            target[j] = ci * x + si * t
            carried[j] = ci * t - si * x
        y, z = source[i - 1], source[i]
        target[i - 1] = ci * ci * z + 2.0 * ci * si * y + si * si * corner
        carried[i - 1] = (ci * ci - si * si) * y + ci * si * (corner - z)
        corner = ci * ci * corner - 2.0 * ci * si * y + si * si * z
    last = A[n - 1]
    for j in range(n - 1):
        last[j] = carried[j]
    last[n - 1] = corner


@compiled
def _rotate_row(row: Array, c: Array, s: Array, t: float, first: int, end: int) -> None:
    for k in range(first, end):
        x = row[k]
        row[k - 1] = c[k] * x + s[k] * t
        t = c[k] * t - s[k] * x
    row[end - 1] = t
