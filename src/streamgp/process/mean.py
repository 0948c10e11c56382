"""The prior mean: what is known of the function before any row. The process learns what is above it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np

from streamgp.contract.freerun import Mapped, Step, Trajectories
from streamgp.settings import FloatArray, Setting, number

Mean = float | Callable[[FloatArray], Any]


def checked(name: str, value: Any) -> Mean | None:
    """A finite number, a function, or None."""
    if value is None or callable(value):
        return value  # type: ignore[no-any-return]
    if isinstance(value, str) or np.ndim(value) > 0:
        raise TypeError(f"{name} must be a number, a function of (n, d) rows, or None; got {value!r}")
    return number(name, value)


MeanSetting = Annotated[
    Mean | None,
    Setting(
        "prior mean of the targets: a number, or a function of (n, d) rows that returns n numbers, and then the "
        "process learns what the function misses; None: 0; a function is not saved: load(path, mean=f)",
        "unit of the target",
        checked,
    ),
]


def values(mean: Mean, X: FloatArray, p: int) -> FloatArray:
    """The prior mean of rows, (n, 1) or (n, p)."""
    if not callable(mean):
        return np.full((len(X), 1), mean)
    found = np.asarray(mean(X.copy()), dtype=np.float64)
    if found.shape not in ((len(X),), (len(X), 1), (len(X), p)) or not np.all(np.isfinite(found)):
        raise ValueError(
            f"mean must return one finite number for each of the {len(X)} rows; got an array of shape {found.shape}"
        )
    return found.reshape(len(X), -1)


class Above(Mapped):
    """Trajectories above a prior mean."""

    def __init__(self, within: Trajectories, prior: Callable[[FloatArray], FloatArray]) -> None:
        super().__init__(within)
        self._prior = prior

    def _map(self, X: FloatArray, step: Step) -> tuple[FloatArray, FloatArray, FloatArray]:
        return np.broadcast_to(self._prior(X), step.mean.shape), np.ones(1), step.noise
