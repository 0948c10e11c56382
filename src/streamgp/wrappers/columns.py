"""Views: the same rows seen otherwise by the model within, some of their columns only, or the target as a change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamgp.contract.joint import JointPrediction
from streamgp.contract.model import Relevance, Shape, StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.settings import FloatArray, whole
from streamgp.wrappers.wrapper import Wrapper


class Columns(Wrapper):
    """A model of some columns of the inputs.

    Args:
        model: the stream model, which has learnt nothing.
        columns: the columns that it sees, from 0, in its order.

    Example:
        >>> import streamgp as sg
        >>> model = sg.Columns(sg.KRLST(), columns=[1])
        >>> model.learn_one([5.0, 1.0], 2.0)
        >>> model.basis.tolist()
        [[1.0]]
    """

    _x: FloatArray  # the last row, (d,)

    def __init__(self, model: StreamModel, *, columns: Sequence[int]) -> None:
        self._wrap(model)
        self._columns = [whole("columns", column, at_least=0) for column in columns]
        if not self._columns:
            raise ValueError("columns is an empty list; name at least one column, the first one 0")

    def _start(self, d: int, p: int) -> None:
        if max(self._columns) >= d:
            raise ValueError(f"columns has {max(self._columns)}, but there are {d} columns, the first one 0")
        if self._d is None:
            self._within = self._within.clone()
            self._x = np.zeros(d)
        self._within._prepare(Shape(len(self._columns), p, scalar=False, certain=True))

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"x": self._x}

    def _advance(
        self, X: FloatArray, Y: FloatArray | None, report: bool, conditions: FloatArray | None = None
    ) -> Prediction | None:
        prediction = self._within._advance(self._seen(X), Y, report, conditions)
        self._x[:] = X[-1]
        return prediction

    def _screened(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        return self._within._screened(self._seen(X), Y)

    def _predict(self, X: FloatArray) -> Prediction:
        self._refuse_unfit(X)
        return self._within._predict(self._seen(X))

    def _joint(self, X: FloatArray) -> JointPrediction:
        return self._within._joint(self._seen(X))

    def _seen(self, X: FloatArray) -> FloatArray:
        return np.ascontiguousarray(X[:, self._columns])

    def _memory_arrays(self) -> list[FloatArray]:
        return [self._x, *super()._memory_arrays()]

    def _remember(self, X: FloatArray) -> None:
        self._within._remember(self._seen(X))
        self._x[:] = X[-1]

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        return self._x, self._within._last_row()[1]

    def relevance(self) -> Relevance:
        inner = self._within.relevance()
        inputs = np.zeros(self._d or 0)
        inputs[self._columns] = inner.inputs
        return Relevance(inputs, inner.memory)


class Differenced(Wrapper):
    """A model of the change since the value in an input column, such as the last target.

    The model within learns y - x[column]; to its mean x[column] is added. A prior mean of 0 then says that nothing
    changes, which suits slow signals.

    Args:
        model: the stream model, which has learnt nothing.
        column: the input column from which the change counts, from 0; all outputs change from the same value.

    Example:
        >>> import streamgp as sg
        >>> model = sg.Differenced(sg.KRLST(), column=0)
        >>> model.learn_one([20.0], 20.5)
        >>> round(model.predict_one([30.0]).mean, 2)
        30.0
    """

    def __init__(self, model: StreamModel, *, column: int = 0) -> None:
        self._wrap(model)
        self._refuse_classes_and_counts("takes the difference of numbers")
        self._column = whole("column", column, at_least=0)

    def _start(self, d: int, p: int) -> None:
        if self._column >= d:
            raise ValueError(f"column is {self._column}, but there are {d} columns, the first one 0")
        super()._start(d, p)

    def _arrays(self) -> dict[str, np.ndarray]:
        return {}

    def _base(self, X: FloatArray) -> FloatArray:
        return X[:, self._column : self._column + 1]

    def _advance(
        self, X: FloatArray, Y: FloatArray | None, report: bool, conditions: FloatArray | None = None
    ) -> Prediction | None:
        prediction = self._within._advance(X, None if Y is None else Y - self._base(X), report, conditions)
        return None if prediction is None else self._restored(X, prediction)

    def _screened(self, X: FloatArray, Y: FloatArray) -> FloatArray:
        return np.where(np.isnan(self._within._screened(X, Y - self._base(X))), np.nan, Y)

    def _predict(self, X: FloatArray) -> Prediction:
        return self._restored(X, self._within._predict(X))

    def _joint(self, X: FloatArray) -> JointPrediction:
        change = self._within._joint(X)
        return change.mapped(self._base(X), 1.0, change.noise)

    def _restored(self, X: FloatArray, change: Prediction) -> Prediction:
        return change._moved(self._base(X), 1.0)

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        x, y = self._within._last_row()
        return x, y + x[self._column]
