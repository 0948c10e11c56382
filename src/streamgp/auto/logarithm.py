"""Logarithm: a model of the logarithm of the target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from streamgp.contract import freerun
from streamgp.contract.conditions import without_noise
from streamgp.contract.joint import JointPrediction
from streamgp.contract.model import Row, StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.contract.snapshot import require
from streamgp.settings import FloatArray, number, whole
from streamgp.wrappers.mapped import Mapped

FADING = 0.99  # discount per target of the errors by which the spread is known


class Logarithm(Mapped):
    """A model that learns the logarithms of targets, and sees those of some columns.

    Its prediction has the mean and the variance of the log-normal distribution around what the model within predicts.
    The variance of the logarithm is the mean square of the last errors: that of a straight line knows no noise. Where
    the moments are too large to be numbers, and before the first error, it predicts NaN.

    Args:
        model: the stream model, which has learned nothing.
        columns: those that are in the units of the target, such as past targets.
        least: targets and values below it, such as 0, count as this one.
    """

    _errors: FloatArray  # (2, p) discounted sums of squared errors of logarithms, and of 1

    def __init__(self, model: StreamModel, *, columns: Sequence[int] = (), least: float = 1.0) -> None:
        self._wrap(model)
        self._refuse_classes_and_counts("takes the logarithm of numbers")
        self._columns = [whole("columns", column, at_least=0) for column in columns]
        self._least = number("least", least, above=0)

    # The state.

    def _start(self, d: int, p: int) -> None:
        self._errors, self._one = np.zeros((2, p)), Row.empty()
        super()._start(d, p)

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"errors": self._errors}

    def _check_restored(self) -> None:
        require("errors", self._errors, at_least=0)
        super()._check_restored()

    # Rows.

    def _inputs(self, X: FloatArray, Y: FloatArray | None = None) -> FloatArray:
        seen = X.copy()
        seen[:, self._columns] = np.log(np.maximum(X[:, self._columns], self._least))
        return seen

    def _targets(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        return np.log(np.maximum(Y, self._least))

    def _back(self, X: FloatArray, prediction: Prediction) -> Prediction:
        return self._spread(prediction.mean, np.repeat(self._squares[None], len(X), axis=0))

    @property
    def _squares(self) -> FloatArray:
        """The mean square of the last errors, (p,); NaN before the first."""
        total, count = self._errors
        return np.where(count > 0, total / np.maximum(count, 1e-300), np.nan)

    def _spread(self, m: FloatArray, s: FloatArray) -> Prediction:
        """The moments of exp(m + error) for errors of variance s."""
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.exp(m + 0.5 * s)
            noise = np.expm1(s) * mean**2
            fine = np.isfinite(noise)
        return Prediction(*(np.where(fine, part, np.nan) for part in (mean, np.zeros_like(mean), noise)))

    def _note_error(self, error: FloatArray) -> None:
        """Take note of the errors of a row, (p,), NaN where none is known."""
        known = ~np.isnan(error)
        self._errors[:, known] = FADING * self._errors[:, known] + [error[known] ** 2, np.ones(known.sum())]

    def _advance(
        self, X: FloatArray, Y: FloatArray | None, report: bool, conditions: FloatArray | None = None
    ) -> Prediction | None:
        targets = None if Y is None else self._targets(X, Y)
        p: Any = self._within._advance(self._inputs(X, Y), targets, True, without_noise(conditions))
        squares = np.empty(p.mean.shape)
        for t, m in enumerate(p.mean):
            squares[t] = self._squares
            if targets is not None:
                self._note_error(targets[t] - m)
        return self._spread(p.mean, squares) if report else None

    def _quick(self) -> bool:
        return self._p == 1

    def _issue(self, X: FloatArray, conditions: FloatArray | None = None) -> tuple[Prediction, FloatArray]:
        prediction, issued = self._within._issue(self._inputs(X), without_noise(conditions))
        return self._back(X, prediction), issued

    def _resolve(self, X: FloatArray, Y: FloatArray, issued: FloatArray, conditions: FloatArray | None) -> None:
        seen, targets = self._inputs(X), self._targets(X, Y)
        # A row keeps nothing for members that may join while it waits: the error is that of a prediction made now.
        self._note_error(targets[0] - self._within._predict(seen).mean[0])
        self._within._resolve(seen, targets, issued, without_noise(conditions))

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
