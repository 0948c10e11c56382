"""Timed: a model over time within models that see times as a column."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamgp.contract import freerun, passing
from streamgp.contract.conditions import NOISE, TIME
from streamgp.contract.joint import JointPrediction
from streamgp.contract.model import Relevance, Row, Shape, StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.settings import FloatArray, whole
from streamgp.wrappers.mapped import Mapped


class Timed(Mapped):
    """A model with a kernel over time, which takes the times of rows from one of their columns.

    A target of a row before the last one learned comes too late for a filter: it is not learned.

    Args:
        model: the stream model, which has learned nothing.
        column: of the times, the first one 0.
        columns: those that are its inputs; there may be none.
    """

    def __init__(self, model: StreamModel, *, column: int, columns: Sequence[int] = ()) -> None:
        self._wrap(model)
        self._column = whole("column", column, at_least=0)
        self._columns = [whole("columns", one, at_least=0) for one in columns]

    @property
    def _needs_time(self) -> bool:  # type: ignore[override]
        return False  # a column has it

    # The state.

    def _start(self, d: int, p: int) -> None:
        if self._d is None:
            self._within = self._within.clone()
        self._one = Row.empty()
        self._within._prepare(Shape(len(self._columns), p, scalar=False, certain=True))

    def _arrays(self) -> dict[str, np.ndarray]:
        return {}

    # Rows.

    def _inputs(self, X: FloatArray, Y: FloatArray | None = None) -> FloatArray:
        return X.take(self._columns, axis=1)

    def _at(self, X: FloatArray, conditions: FloatArray | None) -> FloatArray:
        """Conditions of rows with their times."""
        timed = np.full((len(X), NOISE + 1), np.nan) if conditions is None else conditions.copy()
        timed[:, TIME] = X[:, self._column]
        return timed

    def _advance(
        self, X: FloatArray, Y: FloatArray | None, report: bool, conditions: FloatArray | None = None
    ) -> Prediction | None:
        at = self._at(X, conditions)
        moment = self._within._moment()
        latest = np.maximum.accumulate(at[:, TIME] if moment is None else np.fmax(at[:, TIME], moment.learned))
        late = at[:, TIME] < latest
        if late.any():
            at[:, TIME] = latest
            Y = None if Y is None else np.where(late[:, None], np.nan, Y)
        return self._within._advance(self._inputs(X), Y, report, at)

    def _predict(self, X: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        passing.refuse_unfit(self, X)
        return self._within._predict(self._inputs(X), self._at(X, conditions))

    def _quick(self) -> bool:
        return self._p == 1

    def _derived(self, X: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        return super(Mapped, self)._derived(X, conditions)

    def _uncertain(self, X: FloatArray, P: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        return super(Mapped, self)._uncertain(X, P, conditions)

    def _issue(self, X: FloatArray, conditions: FloatArray | None = None) -> tuple[Prediction, FloatArray]:
        return self._within._issue(self._inputs(X), self._at(X, conditions))

    def _resolve(self, X: FloatArray, Y: FloatArray, issued: FloatArray, conditions: FloatArray | None) -> None:
        moment = self._within._moment()
        if moment is None or not X[0, self._column] < moment.learned:
            self._within._resolve(self._inputs(X), Y, issued, self._at(X, conditions))

    def _refuse_past(self, time: FloatArray, *, many: bool, follow: bool) -> None:
        """Nothing to refuse: a column says what the time is."""

    def _moment(self) -> None:
        """Nothing stands outside: a column says what the time is."""

    def _note_time(self, time: float) -> None:
        """Nothing to note."""

    def _joint(self, X: FloatArray, conditions: FloatArray | None = None) -> JointPrediction:
        return self._within._joint(self._inputs(X), self._at(X, conditions))

    def _refuses_free_run(self) -> str:
        return ""

    def _trajectories(self, count: int, steps: int) -> freerun.Trajectories:
        return _Futures(self)

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        return np.zeros(self._d or 0), self._within._last_row()[1]

    def relevance(self) -> Relevance:
        inputs = np.zeros(self._d or 0)
        inputs[self._column] = 1.0
        return Relevance(inputs, 1.0)


class _Futures(freerun.Trajectories):
    """Futures that nothing is fed back to: what they expect depends on the time only."""

    def __init__(self, model: Timed) -> None:
        self._model = model

    def predict(self, X: FloatArray) -> freerun.Step:
        p = self._model._predict(np.ascontiguousarray(X))
        noise = np.broadcast_to(p.noise, p.mean.shape)
        variance = np.broadcast_to(p.variance, p.mean.shape)
        return freerun.Step(p.mean, variance, noise, p.mean, variance)

    def record(self, values: FloatArray, targets: FloatArray) -> None:
        """Nothing is fed back."""
