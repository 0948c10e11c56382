"""Analysis: what a model says of its function beside predictions of single rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.contract import freerun, passing
from streamgp.contract.joint import JointPrediction
from streamgp.contract.prediction import Prediction
from streamgp.settings import FloatArray, Maybe

MODELS_THAT_CAN = "models that can are built on OnlineGP, such as SOGP, KRLST and ISSGPR, also within wrappers"


class Analysis:
    """Of a model that has nothing but predictions. Rows, (n, d), are of those that would each come next.

    Args:
        model: the stream model, which has seen a row.
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    @property
    def within(self) -> Analysis:
        """Of the model within a wrapper."""
        found: Analysis = self.model._within._analysis()
        return found

    def joint(self, X: FloatArray, conditions: Maybe = None) -> JointPrediction:
        """Predict rows together."""
        raise ValueError(
            f"{type(self.model).__name__} has no joint posterior over several rows; {MODELS_THAT_CAN}. For one row at "
            "a time use predict_many"
        )

    def derived(self, X: FloatArray, conditions: Maybe = None) -> Prediction:
        """Predict rows, with the derivatives by their inputs, (n, p, d)."""
        raise ValueError(f"{type(self.model).__name__} has no derivatives by its inputs; {MODELS_THAT_CAN}")

    def uncertain(self, X: FloatArray, P: FloatArray, conditions: Maybe = None) -> Prediction:
        """Predict one row, (1, d), whose input has the covariance P, by sigma points of the same covariance."""
        d = X.shape[1]
        center = max(3 - d, 0)  # so that fourth moments along an axis are right, too, but no weight is negative
        eigenvalues, V = np.linalg.eigh(P)
        steps = (np.sqrt(np.maximum(eigenvalues, 0.0) * (d + center)) * V).T
        rows = np.ascontiguousarray(np.concatenate([X, X + steps, X - steps]))
        weights = np.array([center, *[0.5] * (2 * d)])[:, None] / (d + center)
        conditions = None if conditions is None else np.repeat(conditions, len(rows), axis=0)
        means, variances, noises = passing.predicted(self.model, rows, conditions)[:3]
        mean = (weights * means).sum(axis=0)
        variance = (weights * (variances + (means - mean) ** 2)).sum(axis=0)
        return Prediction(mean[None], variance[None], (weights * noises).sum(axis=0)[None])

    def trajectories(self, count: int, steps: int) -> freerun.Trajectories:
        """Futures of rows to come; with a joint posterior each follows one draw of the function."""
        return freerun.Independent(self.model, count)
