"""Rows in other units: shifted and scaled, and back."""

from __future__ import annotations

from numpy.typing import NDArray

from streamgp.compiled import MATRIX, compiled, entry
from streamgp.contract.lanes import LANES, end_of, first_of

Array = NDArray

# Farther than this is as far as any; its square is still a number.
FAR = 1e150


@compiled
def standard(value: float, shift: float, scale: float) -> float:
    z = (value - shift) / scale
    if z > FAR:
        z = FAR
    elif z < -FAR:
        z = -FAR
    return z


@entry(*LANES, MATRIX, MATRIX, MATRIX, MATRIX)
def to_standard(models: Array, starts: Array, values: Array, shift: Array, scale: Array, out: Array) -> None:
    """out = (values - shift) / scale, row by row, with the shift and scale of the row's model; NaN stays."""
    for k in range(models.size):
        i = models[k]
        for t in range(first_of(starts, k), end_of(starts, k, values.shape[0])):
            for j in range(values.shape[1]):
                out[t, j] = standard(values[t, j], shift[i, j], scale[i, j])


@compiled
def from_standard(models: Array, starts: Array, shift: Array, scale: Array, out: Array) -> None:
    """Means, variances and noises of predictions, (3, n, p), back from standard units."""
    for k in range(models.size):
        i = models[k]
        for t in range(first_of(starts, k), end_of(starts, k, out.shape[1])):
            for j in range(out.shape[2]):
                out[0, t, j] = shift[i, j] + scale[i, j] * out[0, t, j]
                out[1, t, j] = scale[i, j] * scale[i, j] * out[1, t, j]
                out[2, t, j] = scale[i, j] * scale[i, j] * out[2, t, j]
