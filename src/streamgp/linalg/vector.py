"""Vectors, of which the first n entries count."""

from __future__ import annotations

from numpy.typing import NDArray

from streamgp.compiled import compiled

Array = NDArray


@compiled
def dot(a: Array, b: Array, n: int) -> float:
    total = 0.0
    for i in range(n):
        total += a[i] * b[i]
    return total


@compiled
def copy(source: Array, n: int, target: Array) -> None:
    for i in range(n):
        target[i] = source[i]


@compiled
def fill(target: Array, n: int, value: float) -> None:
    for i in range(n):
        target[i] = value
