"""Conditions: what is known of a row besides its input and its target.

They travel with the rows as one array, (n, 3) or (n, 2 + p): the time, the weight, and the variance of the noise of the
observation, one for all outputs or one for each. NaN: not given. Where none is given for any row there is no array.
"""

from __future__ import annotations

import numpy as np

from streamgp.settings import FloatArray

TIME, WEIGHT, NOISE = range(3)


def part(conditions: FloatArray | None, start: int, stop: int) -> FloatArray | None:
    """The conditions of some rows."""
    return None if conditions is None else conditions[start:stop]


def in_other_units(conditions: FloatArray | None, scale: FloatArray, shared: bool) -> FloatArray | None:
    """Where targets are divided by a scale for each output, (p,) or (n, p), noises are by its square."""
    if conditions is None:
        return None
    noise = conditions[:, NOISE:] / (scale[..., :1] if shared else scale) ** 2
    return np.hstack([conditions[:, :NOISE], noise])


def without_noise(conditions: FloatArray | None) -> FloatArray | None:
    """The time alone, for a model that cannot weigh rows."""
    if conditions is None:
        return None
    left = np.full_like(conditions, np.nan)
    left[:, TIME] = conditions[:, TIME]
    return left


def noise_of(conditions: FloatArray | None, own: FloatArray) -> FloatArray:
    """The noise of each row, where the model's own, over the weight of the row, is what it has if none is given."""
    if conditions is None:
        return own
    noise, weight = conditions[:, NOISE:], conditions[:, WEIGHT : WEIGHT + 1]
    return np.where(np.isnan(noise), own / np.where(np.isnan(weight), 1.0, weight), noise)
