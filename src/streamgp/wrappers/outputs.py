"""One model for each output, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from streamgp.contract.analysis import Analysis
from streamgp.contract.conditions import NOISE
from streamgp.contract.freerun import Step, Trajectories
from streamgp.contract.joint import JointMixture, JointPrediction
from streamgp.contract.model import StreamModel
from streamgp.contract.prediction import NUMBERS, Prediction
from streamgp.settings import FloatArray, Maybe
from streamgp.wrappers.wrapper import Composite


class EachOutput(Composite):
    """Stream models that see the same rows, each with an output of its own.

    Whoever hands over rows has checked them: refused by one of the models, a row would have been learned by others.

    Args:
        models: one for each output, which have learned nothing.
    """

    _setting = "models"

    def __init__(self, models: Sequence[StreamModel]) -> None:
        self._hold(models, "a list of stream models")
        self._shared = False

    def _children(self) -> dict[str, StreamModel]:
        return {str(j): model for j, model in enumerate(self._models)}

    def _start(self, d: int, p: int) -> None:
        # Before p is known there is one output.
        self._models = [*self._models, *(model.clone() for model in self._settings["models"][len(self._models) :])][:p]
        super()._start(d, 1)

    def _pass(self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe, kept: Maybe) -> FloatArray:
        predictions, start = [], 0
        for j, model in enumerate(self._models):
            own = None if Y is None else np.ascontiguousarray(Y[:, j : j + 1])
            given = conditions
            if conditions is not None:
                given = np.hstack([conditions[:, :NOISE], conditions[:, NOISE:][:, j : j + 1]])
            stop = start + model._kept_width
            predictions.append(model._pass(ops, X, own, given, None if kept is None else kept[:, start:stop]))
            start = stop
        fewest = min(len(self._columns), *map(len, predictions))
        return np.concatenate([one[:fewest] for one in predictions], axis=2)

    @property
    def _kept_width(self) -> int:  # type: ignore[override]
        return sum(model._kept_width for model in self._models)

    @property
    def _columns(self) -> tuple[str, ...]:  # type: ignore[override]
        first = self._models[0]._columns
        return first if all(model._columns == first for model in self._models) else NUMBERS

    def _told(self, columns: Sequence[Any]) -> Prediction:
        return self._models[0]._told(columns) if len(self._columns) > len(NUMBERS) else Prediction(*columns[:3])

    def _analysis(self) -> Analysis:
        return _EachAnalysis(self)

    # What can be read.

    @property
    def size(self) -> int:
        return sum(model.size for model in self._models)

    @property
    def basis(self) -> FloatArray:
        """The basis points of all models."""
        return np.vstack([model.basis for model in self._models])

    @property
    def hyperparameters(self) -> dict[str, float | FloatArray]:
        """The present hyperparameters; those of output j are called name_j."""
        return {f"{name}_{j}": v for j, model in enumerate(self._models) for name, v in model.hyperparameters.items()}


class _EachAnalysis(Analysis):
    """Each output is that of its own model: a mixture in which that has all the weight."""

    def joint(self, X: FloatArray, conditions: Maybe = None) -> JointPrediction:
        parts = [model._analysis().joint(X, conditions) for model in self.model._models]
        p = len(parts)
        return JointMixture.of([part.mapped(np.zeros(p), np.ones(p), part.noise) for part in parts], np.eye(p))

    def trajectories(self, count: int, steps: int) -> Trajectories:
        return _EachTrajectories([model._analysis().trajectories(count, steps) for model in self.model._models])


class _EachTrajectories(Trajectories):
    """Trajectories of each model, with its output."""

    def __init__(self, parts: list[Trajectories]) -> None:
        self._parts = parts

    def predict(self, X: FloatArray) -> Step:
        steps = [part.predict(X) for part in self._parts]
        return Step(*(np.hstack(parts) for parts in zip(*steps, strict=True)))

    def record(self, values: FloatArray, targets: FloatArray) -> None:
        for j, part in enumerate(self._parts):
            part.record(values[:, j : j + 1], targets[:, j : j + 1])
