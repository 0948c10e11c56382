"""Logarithm: a model of the logarithm of the target."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamgp.contract import freerun
from streamgp.contract.conditions import without_noise
from streamgp.contract.joint import JointPrediction
from streamgp.contract.prediction import Prediction
from streamgp.contract.model import StreamModel
from streamgp.settings import FloatArray, number, whole
from streamgp.wrappers.mapped import Mapped


class Logarithm(Mapped):
    """A model that learns the logarithms of targets, and sees those of some columns.

    Its prediction has the mean and the variances of the log-normal distribution; where they are too large to be
    numbers, it predicts NaN.

    Args:
        model: the stream model, which has learned nothing.
        columns: those that are in the units of the target, such as past targets.
        least: targets and values below it, such as 0, count as this one.
    """

    def __init__(self, model: StreamModel, *, columns: Sequence[int] = (), least: float = 1.0) -> None:
        self._wrap(model)
        self._refuse_classes_and_counts("takes the logarithm of numbers")
        self._columns = [whole("columns", column, at_least=0) for column in columns]
        self._least = number("least", least, above=0)

    def _arrays(self) -> dict[str, np.ndarray]:
        return {}

    def _inputs(self, X: FloatArray, Y: FloatArray | None = None) -> FloatArray:
        seen = X.copy()
        seen[:, self._columns] = np.log(np.maximum(X[:, self._columns], self._least))
        return seen

    def _targets(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        return np.log(np.maximum(Y, self._least))

    def _back(self, X: FloatArray, prediction: Prediction) -> Prediction:
        m, v, s = prediction.mean, prediction.variance, prediction.noise
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.exp(m + 0.5 * (v + s))
            # Of exp(f) times the mean of exp(noise), and what the noise adds to that.
            variance = np.expm1(v) * mean**2
            noise = np.exp(v) * np.expm1(s) * mean**2
            fine = np.isfinite(variance + noise)
        return Prediction(*(np.where(fine, part, np.nan) for part in (mean, variance, noise)))

    def _conditions_within(self, X: FloatArray, conditions: FloatArray | None) -> FloatArray | None:
        return without_noise(conditions)

    def _refuses_noise(self, p: int) -> str:
        return "Logarithm cannot weigh a row by the noise of its target: it learns logarithms"

    def _derived(self, X: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        return super(Mapped, self)._derived(X, conditions)

    def _uncertain(self, X: FloatArray, P: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        return super(Mapped, self)._uncertain(X, P, conditions)

    def _joint(self, X: FloatArray, conditions: FloatArray | None = None) -> JointPrediction:
        return super(Mapped, self)._joint(X, conditions)

    def _trajectories(self, count: int, steps: int) -> freerun.Trajectories:
        return freerun.Independent(self, count)

    def _recall(self, y: FloatArray) -> None:
        super()._recall(np.log(np.maximum(y, self._least)))

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        x, y = self._within._last_row()
        x = x.copy()
        x[self._columns] = np.exp(x[self._columns])
        return x, np.exp(y)
