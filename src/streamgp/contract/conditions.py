"""Conditions: what is known of a row besides its input and its target.

They travel with the rows as one array, (n, 3) or (n, 2 + p): the time, the weight, and the variance of the noise of the
observation, one for all outputs or one for each. NaN: not given. Where none is given for any row there is no array.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streamgp.settings import FloatArray, whole

TIME, WEIGHT, NOISE = range(3)


class Moment(NamedTuple):
    """Where a model with a kernel over time stands."""

    seen: float  # time of the last row; NaN: there was none
    spacing: float  # how far apart rows usually are (contract/spacing.py); 0: not known
    learned: float  # time of the last row learned; NaN: there was none

    def next(self, steps: Any) -> FloatArray:
        """The times of the next rows, as far apart as rows usually are; 1 while that is not known."""
        steps = whole("steps", steps)
        return (0.0 if np.isnan(self.seen) else self.seen) + (self.spacing or 1.0) * np.arange(1.0, steps + 1)

    @property
    def one_later(self) -> float:
        """The time of a row that comes without one; the first row of all comes at 0."""
        return 0.0 if np.isnan(self.seen) else float(self.next(1)[0])


def refuse_past(times: FloatArray, now: float, *, many: bool, follow: bool) -> None:
    """Refuse times that are missing or before now (NaN: no time yet), or, of rows that follow, before each other."""
    before = np.concatenate([[now], times[:-1]]) if follow else np.full(len(times), now)
    for at in np.flatnonzero(~np.isfinite(times) | (times < before)):
        where = f" in row {at}" if many else ""
        if not np.isfinite(times[at]):
            raise ValueError(f"time is missing or not finite{where}; nothing was learned. Give the row its time")
        raise ValueError(
            f"time goes backwards{where}: {times[at]:.15g} after {before[at]:.15g}; the past cannot be predicted or "
            "learned by a filter. Sort the rows by time"
        )


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
