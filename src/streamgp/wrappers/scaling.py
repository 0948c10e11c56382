"""Rows in other units: shifted and scaled, and back."""

from __future__ import annotations

from numpy.typing import NDArray

from streamgp.compiled import CUBE, INDICES, MATRIX, NUMBER, VECTOR, WHOLES, compiled, entry
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


@entry(*LANES, MATRIX, MATRIX, MATRIX, MATRIX, MATRIX, CUBE)
def from_standard(
    models: Array,
    starts: Array,
    mean: Array,
    variance: Array,
    noise: Array,
    shift: Array,
    scale: Array,
    out: Array,
) -> None:
    """Means, variances and noises into out[0], out[1] and out[2]; one column of variances stands for all."""
    several = variance.shape[1] > 1
    for k in range(models.size):
        i = models[k]
        for t in range(first_of(starts, k), end_of(starts, k, mean.shape[0])):
            for j in range(mean.shape[1]):
                out[0, t, j] = shift[i, j] + scale[i, j] * mean[t, j]
                out[1, t, j] = scale[i, j] * scale[i, j] * variance[t, j if several else 0]
                out[2, t, j] = scale[i, j] * scale[i, j] * noise[t, j if several else 0]


@entry(VECTOR, NUMBER, INDICES, MATRIX, INDICES, MATRIX, MATRIX, VECTOR, MATRIX)
def to_seats(
    row: Array,
    y: float,
    columns: Array,
    input_units: Array,
    origins: Array,
    target_units: Array,
    inputs: Array,
    origin: Array,
    targets: Array,
) -> None:
    """What each member of a committee sees of one row, and the target that it learns, in its own units.

    Args:
        row: (width,) the numbers that members may see.
        y: the target, NaN where there is none.
        columns: (k,) which of them the members see, one member after the other.
        input_units: (2, k) shifts and scales.
        origins: (members,) at which of them the target of a member is 0.
        target_units: (2, members) shifts and scales.
        inputs: (k, 1) receives the inputs.
        origin: (members,) receives the numbers at which targets are 0.
        targets: (members, 1) receives the targets.
    """
    for i in range(columns.size):
        inputs[i, 0] = standard(row[columns[i]], input_units[0, i], input_units[1, i])
    for k in range(origins.size):
        origin[k] = row[origins[k]]
        targets[k, 0] = standard(y - origin[k], target_units[0, k], target_units[1, k])


@entry(VECTOR, WHOLES, MATRIX, VECTOR, INDICES, MATRIX)
def from_seats(told: Array, at: Array, units: Array, origin: Array, places: Array, out: Array) -> None:
    """What members predict of one row, in the units of the target.

    Args:
        told: (3 * members,) what they predict in their own units.
        at: (3, members) where the mean, the variance and the noise of each are.
        units: (2, members) shifts and scales.
        origin: (members,) at which their targets are 0.
        places: (members,) of the members in the committee.
        out: (3, size of the committee) receives means, variances and noises.
    """
    for k in range(places.size):
        shift, scale = units[0, k], units[1, k]
        out[0, places[k]] = shift + scale * told[at[0, k]]
        out[1, places[k]] = scale * scale * told[at[1, k]]
        out[2, places[k]] = scale * scale * told[at[2, k]]
    for k in range(places.size):  # rounded apart, as for many rows
        out[0, places[k]] += origin[k]
