"""Views: the same rows seen otherwise by the model within, some of their columns only, or the target as a change."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from streamgp.contract.model import Relevance, StreamModel
from streamgp.settings import FloatArray, whole
from streamgp.wrappers.mapped import Affine, Mapped


class Columns(Mapped):
    """A model of some columns of the inputs.

    Args:
        model: the stream model, which has learned nothing.
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
        self._chosen = [whole("columns", column, at_least=0) for column in columns]
        if not self._chosen:
            raise ValueError("columns is an empty list; name at least one column, the first one 0")

    def _start(self, d: int, p: int) -> None:
        if max(self._chosen) >= d:
            raise ValueError(f"columns has {max(self._chosen)}, but there are {d} columns, the first one 0")
        if self._d is None:
            self._within = self._within.clone()
            self._x = np.zeros(d)
        self._within._prepare(self._shape_within(len(self._chosen), p))

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"x": self._x}

    def _inputs(self, X: FloatArray) -> FloatArray:
        return X.take(self._chosen, axis=1)

    def _by_inputs(self, gradient: FloatArray) -> FloatArray:
        return np.asarray(gradient @ np.eye(self._x.size)[self._chosen])

    def _note(self, x: FloatArray) -> None:
        self._x[:] = x

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        return self._x, self._within._last_row()[1]

    def relevance(self) -> Relevance:
        inner = self._within.relevance()
        inputs = np.zeros(self._d or 0)
        inputs[self._chosen] = inner.inputs
        return Relevance(inputs, inner.memory)


class Differenced(Mapped):
    """A model of the change since the value in an input column, such as the last target.

    The model within learns y - x[column]; to its mean x[column] is added. A prior mean of 0 then says that nothing
    changes, which suits slow signals.

    Args:
        model: the stream model, which has learned nothing.
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

    def _affine(self, X: FloatArray) -> Affine:
        return Affine(X[:, self._column : self._column + 1], 1.0)

    def _by_inputs(self, gradient: FloatArray) -> FloatArray:
        return gradient

    def _offset_gradient(self) -> FloatArray:
        return np.asarray(np.eye(self._d or 0)[self._column])

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        x, y = self._within._last_row()
        return x, y + x[self._column]
