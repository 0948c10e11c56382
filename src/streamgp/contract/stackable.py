"""Stackable models: one object can stand for many, and one row goes through without detours."""

from __future__ import annotations

from threading import get_ident
from typing import Any, NamedTuple, Self

import numpy as np

from streamgp.arrays import Numbers
from streamgp.contract import inputs
from streamgp.contract.atomic import uninterrupted
from streamgp.contract.frames import row_by_name
from streamgp.contract.lanes import ALONE, Lanes
from streamgp.contract.model import StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.contract.turns import refuse
from streamgp.settings import FloatArray

MEMORY = {"window", "units", "last_target"}  # arrays of what is remembered of the last rows


class Row(NamedTuple):
    """Room for the prediction of one row, and views of it, (1, 1) each but for the columns."""

    out: FloatArray  # (3, 1, 1)
    columns: FloatArray  # (3, 1)
    mean: FloatArray
    variance: FloatArray
    noise: FloatArray

    @classmethod
    def empty(cls) -> Row:
        out = np.empty((3, 1, 1))
        return cls(out, out[:, 0], *out)


class Quick(StreamModel):
    """A stream model through which one row with one output, the usual case, goes in arrays that are there already."""

    _one: Row  # where the last row that went through quickly was predicted

    def _row(self, X: FloatArray, Y: FloatArray | None) -> Row:
        """Predict a row, (1, d), as _predict() does; with a target, (1, 1), learn it, too, as _advance() does."""
        told: Any = self._predict(X) if Y is None else self._advance(X, Y, True)
        self._one.out[:, 0, 0] = told.mean[0, 0], told.variance[0, 0], told.noise[0, 0]
        return self._one

    def _take_row(self, X: FloatArray, Y: FloatArray | None) -> None:
        """Take a row as it comes from outside, as _row() does, unless it is refused."""
        self._refuse_unfit(X, Y)
        if Y is None:
            self._row(X, None)
        else:
            with uninterrupted():
                self._row(X, self._screened(Y))

    def _told(self) -> Prediction:
        """What _row() predicted last."""
        return Prediction(*self._one.out.ravel().tolist())

    def predict_one(self, x: Any, *, time: Any = None, derivatives: bool = False) -> Prediction:
        if derivatives or (time is not None and self._sees_time) or not (self._shape.scalar and self._quick()):
            return super().predict_one(x, time=time, derivatives=derivatives)
        me, owner = get_ident(), self._owner
        if owner and owner != me:
            refuse(self)
        self._owner = me
        try:
            self._take_row(inputs.row(row_by_name(x, self._names) if type(x) is dict else x, self._shape.d), None)
            return self._told()
        finally:
            self._owner = owner

    predict_one.__doc__ = StreamModel.predict_one.__doc__

    def learn_one(self, x: Any, y: Any, *, noise: Any = None, time: Any = None) -> None:
        known = self._shape.scalar and self._shape.certain and noise is None and time is None
        if self._one_step or not (known and self._quick()):
            super().learn_one(x, y, noise=noise, time=time)
            return
        me, owner = get_ident(), self._owner
        if owner and owner != me:
            refuse(self)
        self._owner = me
        try:
            X = inputs.row(row_by_name(x, self._names) if type(x) is dict else x, self._shape.d)
            self._take_row(X, inputs.target(y, 1, True)[0])
        finally:
            self._owner = owner

    learn_one.__doc__ = StreamModel.learn_one.__doc__


class Stackable(Quick):
    """A stream model whose numbers have a leading axis for models, so that it can stand for many.

    What a stream model has to provide is done for the models and rows of ``_lanes``. All that users call or read is of
    the first model.
    """

    _lanes = ALONE
    _numbers: Numbers  # of models that hold no other arrays
    _may_overflow: tuple[str, ...] = ()  # arrays that hold NaN or inf after a stream beyond all scales, or before any

    def _stack(self) -> list[np.ndarray]:
        """All arrays of numbers, work space included, without those of the model within: (models, ...) each."""
        return [self._numbers.records, self._numbers.buffers]

    def _restack(self, arrays: list[np.ndarray]) -> None:
        """Go on with other arrays, for any number of models."""
        self._numbers.records, self._numbers.buffers = arrays

    def _stacked_arrays(self) -> dict[str, np.ndarray]:
        """The state by name, as _arrays() has it, with the leading axis for models."""
        return self._numbers.stacked()

    def _on(self, lanes: Lanes) -> Self:
        """The same model for rows of these lanes: it shares all numbers, and lasts for one call."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        twin._lanes = lanes
        return twin

    def _take_row(self, X: FloatArray, Y: FloatArray | None) -> None:
        if Y is None:  # it is refused where it is predicted
            self._row(X, None)
        else:
            super()._take_row(X, Y)

    def _begin_again(self, models: np.ndarray, fresh: StreamModel) -> None:
        """Let models be as a single one of the same kind and shape, which has learned nothing."""
        assert isinstance(fresh, Stackable)
        for many, one in zip(self._stack(), fresh._stack(), strict=True):
            many[models] = one[0]

    def _reset_memories(self) -> None:
        """Forget what is remembered of the last rows of the models of the lanes."""
        for one in self._family():
            named = one._stacked_arrays() if isinstance(one, Stackable) else {}
            for name in MEMORY & named.keys():
                named[name][self._lanes.models] = 0.0


def stack_of(model: StreamModel) -> list[np.ndarray]:
    """All arrays of numbers of a model and of the models within, (models, ...) each."""
    return [array for one in model._family() if isinstance(one, Stackable) for array in one._stack()]


def take(model: StreamModel, i: int, single: StreamModel) -> None:
    """Write the numbers of model i of many into a single one of the same kind and shape."""
    for many, one in zip(stack_of(model), stack_of(single), strict=True):
        one[0] = many[i]


def put(model: StreamModel, i: int, single: StreamModel) -> None:
    """Write the numbers of a single model into model i of many of the same kind and shape."""
    for many, one in zip(stack_of(model), stack_of(single), strict=True):
        many[i] = one[0]
