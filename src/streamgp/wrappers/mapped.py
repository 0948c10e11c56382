"""Mapped models: the model within sees the same rows otherwise, their inputs, their targets, or both."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streamgp.contract import freerun, passing
from streamgp.contract.conditions import in_other_units
from streamgp.contract.joint import JointPrediction
from streamgp.contract.prediction import Prediction
from streamgp.settings import FloatArray
from streamgp.wrappers.wrapper import Wrapper


class Affine(NamedTuple):
    """Targets are offset + factor times those within; both broadcast to (n, p)."""

    offset: Any
    factor: Any


class Picked(NamedTuple):
    """What a model sees of a row, where that is a choice of its columns.

    Args:
        columns: (inputs,) numbers of columns; -1, -2... are what the wrapper remembers, in its order.
        origin: the column from whose value the target counts; -1: from 0.
    """

    columns: np.ndarray
    origin: int = -1


class Mapped(Wrapper):
    """A stream model around another one that sees rows mapped.

    A subclass says how rows look within (``_inputs``), how targets come back (``_affine``) and what it has to remember
    of the rows it took (``_note``). Predictions, late targets, joint predictions and free runs follow.
    """

    _notes_late = False  # whether rows whose targets come late are remembered when they are learned, too

    def _inputs(self, X: FloatArray, Y: FloatArray | None = None) -> FloatArray:
        """Rows as the model within sees them; with targets they follow each other, without each would come next."""
        return X

    def _affine(self, X: FloatArray) -> Affine | None:
        """How the targets of rows come back; None: as they are."""
        return None

    def _note(self, X: FloatArray, Y: FloatArray | None) -> None:
        """Remember what later rows need of these, which were taken."""

    def _picked(self, seen: Picked) -> Picked | None:
        """What the model within sees of a row of which this one sees so much; None: no choice of columns."""
        return None

    def _remembered(self, X: FloatArray) -> FloatArray:
        """What is remembered for the row that comes next, (1, d)."""
        return X[0, :0]

    def _remembered_of(self, X: FloatArray) -> FloatArray:
        """The same for each of rows that follow each other, (n, d)."""
        return X[:, :0]

    # Targets and predictions, there and back.

    def _targets(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        """Targets as the model within sees them."""
        affine = self._affine(X)
        return Y if affine is None else np.ascontiguousarray((Y - affine.offset) / affine.factor)

    def _back(self, X: FloatArray, prediction: Prediction) -> Prediction:
        """A prediction of the model within, in the units of the targets."""
        affine = self._affine(X)
        return prediction if affine is None else prediction._moved(affine.offset, affine.factor)

    def _conditions_within(self, X: FloatArray, conditions: FloatArray | None) -> FloatArray | None:
        if conditions is None or (affine := self._affine(X)) is None:
            return conditions
        return in_other_units(conditions, np.atleast_1d(affine.factor), self._shared)

    # Rows.

    def _advance(
        self, X: FloatArray, Y: FloatArray | None, report: bool, conditions: FloatArray | None = None
    ) -> Prediction | None:
        within = self._inputs(X, np.full((len(X), self._p or 1), np.nan) if Y is None else Y)
        targets = None if Y is None else self._targets(X, Y)
        prediction = self._within._advance(within, targets, report, self._conditions_within(X, conditions))
        self._note(X, Y)
        return None if prediction is None else self._back(X, prediction)

    def _predict(self, X: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        passing.refuse_unfit(self, X)
        return self._back(X, self._within._predict(self._inputs(X), conditions))

    def _derived(self, X: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        within = self._within._derived(self._inputs(X), conditions)
        mean, variance = (self._by_inputs(each) for each in (within.mean_gradient, within.variance_gradient))
        if mean is None or variance is None:
            return super()._derived(X, conditions)
        affine = self._affine(X)
        if affine is not None:
            factor = np.broadcast_to(affine.factor, within.mean.shape)[:, :, None]
            mean, variance = factor * mean + self._offset_gradient(), factor**2 * variance
        return self._back(X, within)._with_gradients(mean, variance)

    def _uncertain(self, X: FloatArray, P: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        within = self._inputs(X)
        map_of_inputs = self._by_inputs(np.eye(within.shape[1])[None])
        if map_of_inputs is None or np.any(self._offset_gradient()):
            return super()._uncertain(X, P, conditions)
        A = map_of_inputs[0]  # what is seen within is linear in the inputs
        return self._back(X, self._within._uncertain(within, A @ P @ A.T, conditions))

    def _by_inputs(self, gradient: FloatArray) -> FloatArray | None:
        """Derivatives by the inputs within, (n, p, width), as derivatives by those of the rows; None: unknown."""
        return None

    def _offset_gradient(self) -> FloatArray | float:
        """The derivative of the offset of targets by the inputs."""
        return 0.0

    def _issued_width(self, p: int) -> int:
        return self._within._issued_width(p)

    def _issue(self, X: FloatArray, conditions: FloatArray | None = None) -> tuple[Prediction, FloatArray]:
        prediction, issued = self._within._issue(self._inputs(X), conditions)
        return self._back(X, prediction), issued

    def _resolve(self, X: FloatArray, Y: FloatArray, issued: FloatArray, conditions: FloatArray | None) -> None:
        converted = self._conditions_within(X, conditions)
        self._within._resolve(self._inputs(X), self._targets(X, Y), issued, converted)
        if self._notes_late:
            self._note(X, Y)

    def _in_turn(self, learned: FloatArray, Y: FloatArray, X: FloatArray, issued: FloatArray) -> Prediction:
        if not self._may_take_turns():
            return super()._in_turn(learned, Y, X, issued)
        given = self._inputs(learned), self._targets(learned, Y), self._inputs(X)
        return self._back(X, self._within._in_turn(*given, issued))

    def _memory_in_turn(self, X: FloatArray, Y: FloatArray, issued: FloatArray) -> FloatArray | None:
        if not self._may_take_turns():
            return None
        return self._within._memory_in_turn(self._inputs(X), self._targets(X, Y), issued)

    def _remember(self, X: FloatArray) -> None:
        self._within._remember(self._inputs(X))

    def _joint(self, X: FloatArray, conditions: FloatArray | None = None) -> JointPrediction:
        joint, affine = self._within._joint(self._inputs(X), conditions), self._affine(X)
        return (
            joint
            if affine is None
            else joint.mapped(affine.offset, affine.factor, np.asarray(affine.factor**2 * joint.noise))
        )

    def _trajectories(self, count: int, steps: int) -> freerun.Trajectories:
        return MappedTrajectories(self, self._within._trajectories(count, steps))


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
