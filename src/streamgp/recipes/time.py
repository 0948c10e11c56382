"""TimeGP: an exact Gaussian process over time, one row at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from streamgp.contract.model import Ability
from streamgp.contract.prediction import Prediction
from streamgp.kernels import Kernel
from streamgp.kernels.temporal import COORDINATES, TimeKernel
from streamgp.process.features import Linear
from streamgp.process.likelihood import DEFAULT_NOISE
from streamgp.process.onlinegp import OnlineGP
from streamgp.settings import FloatArray, Setting, positive_vector
from streamgp.vocabulary import Noise

ObservationNoise = Annotated[Noise, Setting("variance of the observation noise")]


class TimeGP(OnlineGP):
    """A Gaussian process over time, y = g1(t) + g2(t) + ... + noise: exact, for any spacing of the rows.

    There are no inputs: x is ``()``. A row without a time comes as long after the last as rows usually are apart (the
    median of the last 20 gaps; 1 while there is none). The posterior is that of a batch Gaussian process over the times
    of all rows, at a cost that does not grow: O(q^2) a row for q coordinates (Matern of order 1/2, 3/2, 5/2: 1, 2, 3; a
    harmonic of Periodic 2, Trend 2). A missing target costs O(q).

    Example:
        >>> import numpy as np
        >>> import streamgp as sg
        >>> hours = np.arange(24.0 * 28)
        >>> load = 50 + 10 * np.sin(2 * np.pi * hours / 24) + 0.02 * hours
        >>> model = sg.TimeGP(sg.Trend(1000.0, variance=100.0) + sg.Periodic(24.0, variance=100.0), noise=0.1)
        >>> model.learn_many(np.empty((len(hours), 0)), load, time=hours)
        >>> p = model.forecast([24 * 28 + 6.0, 24 * 28 + 18.0])
        >>> p.mean.round(), list(p.components)
        (array([74., 54.]), ['trend', '24'])
    """

    _without_inputs = True

    def __init__(self, time: TimeKernel, *, noise: ObservationNoise = DEFAULT_NOISE) -> None:
        if positive_vector("noise", noise).size != 1:
            raise ValueError(f"noise must be one variance, which all outputs share; got {noise!r}")
        super().__init__(Linear(constant=False), noise=noise, form="covariance", time=time)

    def _start(self, d: int, p: int) -> None:
        if d:
            raise ValueError(f"TimeGP has no inputs, only times: x is (); got {d} columns")
        super()._start(d, p)

    def _told(self, columns: Sequence[Any]) -> Prediction:
        told: Any = super()._told(columns)
        if len(columns) > 3:
            del told.components["inputs"]
        return told  # type: ignore[no-any-return]

    def _cannot(self, what: Ability, p: int = 1) -> str:
        if what == "forget":
            return "TimeGP forgets by its kernel: give it a shorter lengthscale or span"
        return "TimeGP feeds nothing back: use forecast(times)" if what == "simulate" else super()._cannot(what, p)

    @property
    def size(self) -> int:
        """How many coordinates the posterior has."""
        return sum(COORDINATES[block.kind] for term in self._terms for block in term.blocks)

    @property
    def hyperparameters(self) -> dict[str, float | FloatArray]:
        kernel: Kernel = self._settings["time"]
        return {"noise": float(self._noise[0])} | kernel.hyperparameters(kernel.values(1), 1)
