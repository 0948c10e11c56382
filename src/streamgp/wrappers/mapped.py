"""Mapped models: the model within sees the same rows otherwise, their inputs, their targets, or both."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streamgp.contract import freerun
from streamgp.contract.analysis import Analysis
from streamgp.contract.conditions import in_other_units
from streamgp.contract.joint import JointPrediction
from streamgp.contract.lanes import ADVANCE
from streamgp.contract.prediction import Prediction, move
from streamgp.settings import FloatArray, Maybe
from streamgp.wrappers.wrapper import Wrapper


class Affine(NamedTuple):
    """Targets are offset + factor times those within; both broadcast to (n, p)."""

    offset: Any
    factor: Any


class Mapped(Wrapper):
    """A stream model around another one that sees rows mapped.

    A subclass says how rows look within (``_inputs``), how targets come back (``_affine``) and what it has to remember
    of the rows it took (``_note``). Predictions, joint predictions and free runs follow.
    """

    def _inputs(self, X: FloatArray) -> FloatArray:
        """Rows as the model within sees them, if each came next."""
        return X

    def _affine(self, X: FloatArray) -> Affine | None:
        """How the targets of rows come back; None: as they are."""
        return None

    def _note(self, x: FloatArray) -> None:
        """Remember what later rows need of the last that was taken, (d,)."""

    # Targets and predictions, there and back.

    def _targets(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Targets as the model within sees them."""
        affine = self._affine(X)
        return Y if affine is None else np.ascontiguousarray((Y - affine.offset) / affine.factor)

    def _back(self, X: FloatArray, columns: FloatArray) -> None:
        """Let columns of predictions of the model within be in the units of the targets."""
        affine = self._affine(X)
        if affine is not None:
            move(columns, self._within._columns, affine.offset, affine.factor)

    def _conditions_within(self, X: FloatArray, conditions: Maybe) -> Maybe:
        """The conditions of rows as the model within takes them."""
        if conditions is None or (affine := self._affine(X)) is None:
            return conditions
        return in_other_units(conditions, np.atleast_1d(affine.factor), self._shared)

    # Rows.

    def _pass(self, ops: np.ndarray, X: FloatArray, Y: Maybe, conditions: Maybe, kept: Maybe) -> FloatArray:
        targets = None if Y is None else self._targets(X, Y)
        given = conditions if conditions is None else self._conditions_within(X[ops[:, 0]], conditions)
        columns = self._within._pass(ops, self._inputs(X), targets, given, kept)
        self._back(X, columns)
        advanced = ops[ops[:, 1] & ADVANCE != 0, 0]
        if len(advanced):
            self._note(X[advanced[-1]])
        return columns

    def _by_inputs(self, gradient: FloatArray) -> Maybe:
        """Derivatives by the inputs within, (n, p, width), as derivatives by those of the rows; None: unknown."""
        return None

    def _offset_gradient(self) -> FloatArray | float:
        """The derivative of the offset of targets by the inputs."""
        return 0.0

    def _analysis(self) -> Analysis:
        return MappedAnalysis(self)


class MappedAnalysis(Analysis):
    """What the model within says, in the units of the rows and of the targets."""

    def derived(self, X: FloatArray, conditions: Maybe = None) -> Prediction:
        model = self.model
        within = self.within.derived(model._inputs(X), conditions)
        mean, variance = (model._by_inputs(each) for each in (within.mean_gradient, within.variance_gradient))
        if mean is None or variance is None:
            return super().derived(X, conditions)
        affine = model._affine(X)
        if affine is not None:
            factor = np.broadcast_to(affine.factor, within.mean.shape)[:, :, None]
            mean, variance = factor * mean + model._offset_gradient(), factor**2 * variance
            within = within._moved(affine.offset, affine.factor)
        return within._with(mean_gradient=mean, variance_gradient=variance)

    def uncertain(self, X: FloatArray, P: FloatArray, conditions: Maybe = None) -> Prediction:
        model, within = self.model, self.model._inputs(X)
        map_of_inputs = model._by_inputs(np.eye(within.shape[1])[None])
        if map_of_inputs is None or np.any(model._offset_gradient()):
            return super().uncertain(X, P, conditions)
        A = map_of_inputs[0]  # what is seen within is linear in the inputs
        predicted, affine = self.within.uncertain(within, A @ P @ A.T, conditions), model._affine(X)
        return predicted if affine is None else predicted._moved(affine.offset, affine.factor)

    def joint(self, X: FloatArray, conditions: Maybe = None) -> JointPrediction:
        model = self.model
        joint, affine = self.within.joint(model._inputs(X), conditions), model._affine(X)
        return (
            joint
            if affine is None
            else joint.mapped(affine.offset, affine.factor, np.asarray(affine.factor**2 * joint.noise))
        )

    def trajectories(self, count: int, steps: int) -> freerun.Trajectories:
        return MappedTrajectories(self.model, self.within.trajectories(count, steps))


class MappedTrajectories(freerun.Mapped):
    """Trajectories of the model within, in the units of the targets."""

    _rows: FloatArray  # those predicted last

    def __init__(self, model: Mapped, within: freerun.Trajectories) -> None:
        super().__init__(within)
        self._model = model

    def _map(self, X: FloatArray, step: freerun.Step) -> tuple[Any, Any, FloatArray]:
        self._rows = X
        offset, factor = self._model._affine(X) or Affine(0.0, 1.0)
        return offset, factor, np.asarray(factor**2 * step.noise)

    def _inputs(self, X: FloatArray) -> FloatArray:
        return self._model._inputs(np.ascontiguousarray(X))

    def _targets(self, Y: FloatArray) -> FloatArray:
        return self._model._targets(self._rows, np.ascontiguousarray(Y))
