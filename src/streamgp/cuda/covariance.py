"""W, the covariance of whitened weights, as lanes work on it.

With an odd number N of coordinates W lies by diagonals: diagonal k has the N entries W[i, (i + k) mod N], and k from 0
to N // 2 gives every entry once. Every lane then does the same work, on numbers that lie side by side. Vectors that W
is multiplied with stand twice in a row, so that no index has to be taken modulo N.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamgp.cuda.lanes import Function, Lanes

Array = NDArray


def numbers(n: int) -> int:
    """How many numbers W has."""
    return (n // 2 + 1) * n


def places(n: int) -> np.ndarray:
    """Where the entries of W lie, (n, n)."""
    i, j = np.indices((n, n))
    k = (j - i) % n
    return np.asarray(np.where(k <= n // 2, k * n + i, (n - k) * n + j))


def build(on: Lanes, n: int, at: int, h: int) -> tuple[Function, ...]:
    """The functions for W from ``at`` on, of n coordinates, and the vector h from ``h`` on.

    Returns:
        entry(i, j): where W[i, j] lies; write_twice(f, at, i, value): number i of a vector that stands twice;
        times(f, i, z): entry i of W z; learn(f, scale, fresh, gain): W = scale W + fresh I - gain h h';
        bend(f, i, v, p): lane i's part of W = W - v p' - p v'.
    """
    U, jit, lane, sync, zero = on.index, on.jit, on.lane, on.sync, on.number(0)
    N, HALF, EVERY, W, H, lanes, u1 = map(U, (n, n // 2, n // 2 + 1, at, h, on.lanes, 1))

    @jit
    def entry(i: Any, j: Any) -> Any:
        k = j - i if j >= i else j + N - i
        return W + (k * N + i if k <= HALF else (N - k) * N + j)

    @jit
    def write_twice(f: Array, at: Any, i: Any, value: Any) -> None:
        f[at + i] = value
        f[at + i + N] = value

    @jit
    def times(f: Array, i: Any, z: Any) -> Any:
        sum_, at, z = zero, W + i, z + i
        for k in range(EVERY):
            sum_ += f[at + k * N] * f[z + k]
        z += N
        for k in range(u1, EVERY):  # the entries to the left of the diagonal
            there = at if i >= k else at + N
            sum_ += f[there + k * (N - u1)] * f[z - k]
        return sum_

    @jit
    def learn(f: Array, scale: Any, fresh: Any, gain: Any) -> None:
        i = lane()
        while i < N:
            at, h, step = W + i, H + i, gain * f[H + i]
            f[at] += fresh / scale  # on the diagonal, before it is scaled
            for k in range(EVERY):
                f[at + k * N] = scale * f[at + k * N] - step * f[h + k]
            i += lanes
        sync()

    @jit
    def bend(f: Array, i: Any, v: Any, p: Any) -> None:
        at, v, p = W + i, v + i, p + i
        vi, pi = f[v], f[p]
        for k in range(EVERY):
            f[at + k * N] -= vi * f[p + k] + pi * f[v + k]

    return entry, write_twice, times, learn, bend
