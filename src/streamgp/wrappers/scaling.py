"""Rows in other units: shifted and scaled, and back."""

from __future__ import annotations

from numpy.typing import NDArray

from streamgp.compiled import CUBE, MATRIX, VECTOR, entry

Array = NDArray

# Farther than this is as far as any; its square is still a number.
FAR = 1e150


@entry(MATRIX, VECTOR, VECTOR, MATRIX)
def to_standard(values: Array, shift: Array, scale: Array, out: Array) -> None:
    """out = (values - shift) / scale, row by row; NaN stays."""
    for t in range(values.shape[0]):
        for j in range(values.shape[1]):
            z = (values[t, j] - shift[j]) / scale[j]
            if z > FAR:
                z = FAR
            elif z < -FAR:
                z = -FAR
            out[t, j] = z


@entry(MATRIX, MATRIX, MATRIX, VECTOR, VECTOR, CUBE)
def from_standard(mean: Array, variance: Array, noise: Array, shift: Array, scale: Array, out: Array) -> None:
    """Means, variances and noises into out[0], out[1] and out[2]; one column of variances stands for all."""
    several = variance.shape[1] > 1
    for t in range(mean.shape[0]):
        for j in range(mean.shape[1]):
            out[0, t, j] = shift[j] + scale[j] * mean[t, j]
            out[1, t, j] = scale[j] * scale[j] * variance[t, j if several else 0]
            out[2, t, j] = scale[j] * scale[j] * noise[t, j if several else 0]
