"""Upper triangular factors R of a positive matrix A = R'R: solve, update by a row, append and delete a column.

Every step is a solve or a plane rotation, so the factor is that of a matrix within rounding of A. A column is rotated
only when an older one is deleted, hence at most n times in its life: the error does not grow with the stream.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamgp.compiled import compiled

Array = NDArray

CANCELED = 4e-15  # a few roundings


@compiled
def solve_transposed(R: Array, b: Array, n: int, x: Array) -> None:
    """x = R^-T b. x may be b."""
    for i in range(n):
        x[i] = b[i]
    solve_transposed_from(R, n - n, n, x)  # not a literal 0, for which Numba would compile it again


@compiled
def solve_transposed_from(R: Array, first: int, n: int, x: Array) -> None:
    """x = R^-T x in place, where the entries of x before the first are 0."""
    i = first
    while i + 4 <= n:
        r0, r1, r2, r3 = R[i], R[i + 1], R[i + 2], R[i + 3]
        x0 = x[i] / r0[i]
        x1 = (x[i + 1] - r0[i + 1] * x0) / r1[i + 1]
        x2 = (x[i + 2] - r0[i + 2] * x0 - r1[i + 2] * x1) / r2[i + 2]
        x3 = (x[i + 3] - r0[i + 3] * x0 - r1[i + 3] * x1 - r2[i + 3] * x2) / r3[i + 3]
        x[i], x[i + 1], x[i + 2], x[i + 3] = x0, x1, x2, x3
        s0, s1, s2, s3 = r0[i + 4 : n], r1[i + 4 : n], r2[i + 4 : n], r3[i + 4 : n]
        rest = x[i + 4 : n]
        for j in range(rest.size):
            rest[j] -= x0 * s0[j] + x1 * s1[j] + x2 * s2[j] + x3 * s3[j]
        i += 4
    while i < n:
        t = x[i] / R[i, i]
        x[i] = t
        row, rest = R[i, i + 1 : n], x[i + 1 : n]
        for j in range(rest.size):
            rest[j] -= t * row[j]
        i += 1


@compiled
def solve(R: Array, b: Array, n: int, x: Array) -> None:
    """x = R^-1 b. x may be b."""
    i = n
    while i >= 4:
        i -= 4
        a0 = a1 = a2 = a3 = 0.0
        r0, r1, r2, r3 = R[i], R[i + 1], R[i + 2], R[i + 3]
        s0, s1, s2, s3 = r0[i + 4 : n], r1[i + 4 : n], r2[i + 4 : n], r3[i + 4 : n]
        done = x[i + 4 : n]
        for j in range(done.size):
            xj = done[j]
            a0 += s0[j] * xj
            a1 += s1[j] * xj
            a2 += s2[j] * xj
            a3 += s3[j] * xj
        x3 = (b[i + 3] - a3) / r3[i + 3]
        x2 = (b[i + 2] - a2 - r2[i + 3] * x3) / r2[i + 2]
        x1 = (b[i + 1] - a1 - r1[i + 2] * x2 - r1[i + 3] * x3) / r1[i + 1]
        x0 = (b[i] - a0 - r0[i + 1] * x1 - r0[i + 2] * x2 - r0[i + 3] * x3) / r0[i]
        x[i], x[i + 1], x[i + 2], x[i + 3] = x0, x1, x2, x3
    while i > 0:
        i -= 1
        a0 = 0.0
        row, done = R[i, i + 1 : n], x[i + 1 : n]
        for j in range(done.size):
            a0 += row[j] * done[j]
        x[i] = (b[i] - a0) / R[i, i]


@compiled
def inverse_root(R: Array, r: int, n: int, z: Array) -> None:
    """z = R^-T e_r, the part of (R'R)^-1 = R^-1 R^-T that belongs to r: z'z is its diagonal entry."""
    for i in range(n):
        z[i] = 0.0
    z[r] = 1.0
    solve_transposed_from(R, r, n, z)


@compiled
def rotation(a: float, b: float) -> tuple[float, float, float]:
    """(c, s, length) of the plane rotation that takes (a, b) to (length, 0)."""
    length = np.hypot(a, b)
    if length == 0.0:
        return 1.0, 0.0, 0.0
    return a / length, b / length, length


@compiled
def rotate_in(R: Array, z: Array, keep: float, phi: Array, weight: float, y: Array, n: int, row: Array) -> None:
    """[R z] becomes the factor of keep^2 [R z]'[R z] + weight^2 [phi y]'[phi y]; y is used up, and row is scratch.

    What earlier rows leave of an entry is rounding where it is below CANCELED of it, and counts as 0: rows that repeat
    each other would else say something, by their errors, of directions in which none of them goes.
    """
    for i in range(n):
        row[i] = weight * phi[i]
    for j in range(y.size):
        y[j] *= weight
    for i in range(n):
        if np.abs(row[i]) <= CANCELED * weight * np.abs(phi[i]):
            row[i] = 0.0
        c, s, R[i, i] = rotation(keep * R[i, i], row[i])
        kept_c, kept_s, target, rest = keep * c, keep * s, R[i, i + 1 : n], row[i + 1 : n]
        for j in range(rest.size):
            t = target[j]
            target[j] = kept_c * t + s * rest[j]
            rest[j] = c * rest[j] - kept_s * t
        for j in range(y.size):
            t = z[i, j]
            z[i, j] = kept_c * t + s * y[j]
            y[j] = c * y[j] - kept_s * t


@compiled
def append(R: Array, column: Array, corner: float, n: int) -> None:
    """Border R with [column; corner]: A grows by the row R'column and the diagonal entry |column|^2 + corner^2."""
    for i in range(n):
        R[i, n] = column[i]
    R[n, n] = corner


@compiled
def delete(R: Array, r: int, n: int, column: Array, c: Array, s: Array, removed: Array) -> None:
    """Take row and column r out of A = R'R by plane rotations.

    Rotation i > r merges row i into the one that is carried down from r; c[i], s[i] are its cosine and sine. ``column``
    gets the deleted column in the new coordinates: its last entry is what the other columns cannot express.
    """
    for i in range(r):
        row = R[i, r:n]
        column[i] = row[0]
        for j in range(row.size - 1):
            row[j] = row[j + 1]
    corner = R[r, r]
    for j in range(r + 1, n):
        removed[j] = R[r, j]
    for i in range(r + 1, n):
        c[i], s[i], R[i - 1, i - 1] = rotation(R[i, i], removed[i])
        ci, si = c[i], s[i]
        column[i - 1] = si * corner
        corner *= ci
        source, target, rest = R[i, i + 1 : n], R[i - 1, i : n - 1], removed[i + 1 : n]
        for j in range(rest.size):
            t = source[j]
            target[j] = ci * t + si * rest[j]
            rest[j] = ci * rest[j] - si * t
    column[n - 1] = corner
    for j in range(n):
        R[n - 1, j] = 0.0
        R[j, n - 1] = 0.0


@compiled
def rotate(X: Array, r: int, n: int, c: Array, s: Array) -> None:
    """X = U X, column by column, for the rotations of delete(): coordinate r becomes the last one."""
    for j in range(X.shape[1]):
        t = X[r, j]
        for i in range(r + 1, n):
            x = X[i, j]
            X[i - 1, j] = c[i] * x + s[i] * t
            t = c[i] * t - s[i] * x
        X[n - 1, j] = t
