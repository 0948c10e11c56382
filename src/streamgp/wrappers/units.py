"""The units of rows and targets: what is subtracted from each column, and what the difference is divided by."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamgp.contract.lanes import ALONE
from streamgp.settings import FloatArray
from streamgp.wrappers import scaling

AT_ONCE = 1 << 18  # numbers
SHARED_UNITS = (
    "in standard units a row's noise is another one for each of its targets, but the outputs share one covariance; use "
    'a model with outputs="separate"'
)


class Scaling(NamedTuple):
    """What is subtracted from inputs and targets, and what the difference is divided by."""

    input_shift: FloatArray
    input_scale: FloatArray
    target_shift: FloatArray
    target_scale: FloatArray


def units_of(rows: FloatArray, targets: FloatArray) -> Scaling:
    """The units of warm-ups with these rows, (..., n, d), and targets, (..., n, p); 1 where there is no spread."""
    found = []
    for values in (rows, targets):
        shift, scale = center_and_spread(np.moveaxis(values, -2, -1))
        found += [shift, np.where(scale > 0.0, np.minimum(scale, scaling.FAR), 1.0)]  # its square is still a number
    return Scaling(*found)


def standard(values: FloatArray, shift: FloatArray, scale: FloatArray) -> FloatArray:
    """Values, (n, k), in these units, (k,)."""
    result = np.empty_like(values)
    scaling.to_standard(*ALONE, values, shift[None], scale[None], result)
    return result


def center_and_spread(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation along the last axis of what is not missing; 0: a spread that is within rounding."""
    if len(values) > 1 and values.size > AT_ONCE:  # what is in a processor's cache takes a third of the time
        parts = np.array_split(values, min(len(values), values.size // AT_ONCE + 1))
        shifts, spreads = zip(*map(center_and_spread, parts), strict=True)
        return np.concatenate(shifts), np.concatenate(spreads)
    values = np.ascontiguousarray(values)  # so that sums do not depend on what else is summed
    known = ~np.isnan(values)
    count, clean = known.sum(axis=-1), np.where(known, values, 0.0)
    if values.shape[-1] == 0:
        return np.zeros(count.shape), np.zeros(count.shape)
    largest = np.abs(clean).max(axis=-1)
    largest = np.where(largest > 0.0, largest, 1.0)
    relative = clean / largest[..., None]  # so that squares neither overflow nor vanish
    mean = relative.sum(axis=-1) / np.maximum(count, 1)
    around = np.where(known, relative - mean[..., None], 0.0)
    spread = largest * np.sqrt((around * around).sum(axis=-1) / np.maximum(count - 1, 1))
    first = np.take_along_axis(clean, known.argmax(axis=-1)[..., None], axis=-1)[..., 0]
    range_ = np.where(known, relative, -np.inf).max(axis=-1) - np.where(known, relative, np.inf).min(axis=-1)
    alike = range_ <= count * np.finfo(np.float64).eps
    return np.where(alike, first, largest * mean), np.where(alike, 0.0, spread)
