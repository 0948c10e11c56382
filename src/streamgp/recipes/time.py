"""TimeGP: an exact Gaussian process over time, one row at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from streamgp.contract.joint import JointPrediction
from streamgp.contract.model import Ability
from streamgp.contract.prediction import Prediction
from streamgp.kernels import Kernel
from streamgp.kernels.temporal import COORDINATES, TimeKernel, hyperparameters
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
        if not isinstance(time, Kernel):
            raise TypeError(
                f"time must be a kernel such as Matern(1.5, lengthscale='3h') + Periodic('1d'); got {time!r}"
            )
        if positive_vector("noise", noise).size != 1:
            raise ValueError(f"noise must be one variance, which all outputs share; got {noise!r}")
        self._compose(Linear(constant=False), None, noise, form="covariance", time=time)

    def _start(self, d: int, p: int) -> None:
        if d:
            raise ValueError(f"TimeGP has no inputs, only times: x is (); got {d} columns")
        super()._start(d, p)

    def predict_one(self, x: Any = (), *, time: Any = None, derivatives: bool = False) -> Prediction:
        """Predict the target at a time that is not before the last learned one; the model does not change.

        Args:
            x: ``()``: there are no inputs.
            time: a number, datetime or datetime64; None: a usual spacing after the last row.
            derivatives: False; there are no inputs.
        """
        return super().predict_one(x, time=time, derivatives=derivatives)

    def predict_many(self, X: Any = None, *, time: Any = None, derivatives: bool = False) -> Prediction[FloatArray]:
        """Predict times, each as if it came next.

        Args:
            X: rows without columns, (n, 0), or None where times are given.
            time: (n,) times; None: a usual spacing after the last row.
            derivatives: False; there are no inputs.
        """
        return super().predict_many(_rows(X, time), time=time, derivatives=derivatives)

    def predict_joint(self, X: Any = None, *, time: Any = None) -> JointPrediction:
        """Predict times together, with the covariance of the function between them.

        Args:
            X: rows without columns, or None where times are given.
            time: (n,) times; None: all of them a usual spacing after the last row.
        """
        return super().predict_joint(_rows(X, time), time=time)

    def _told(self, columns: Sequence[Any]) -> Prediction:
        told: Any = super()._told(columns)
        if len(columns) > 3:
            del told.components["inputs"]
        return told  # type: ignore[no-any-return]

    def _derived(self, X: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        raise ValueError("TimeGP has no derivatives by its inputs: it has none, only times")

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
        return {"noise": float(self._noise[0])} | hyperparameters(self._settings["time"])


def _rows(X: Any, time: Any) -> Any:
    """Rows without columns, as many as there are times."""
    return np.empty((np.atleast_1d([] if time is None else time).shape[0], 0)) if X is None else X
