"""Wrapper: a stream model around another one; what it does not change it passes on."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from streamgp.contract.model import Change, Health, Relevance, StreamModel, revived
from streamgp.contract.prediction import Prediction
from streamgp.settings import FloatArray


class Wrapper(StreamModel):
    """A stream model that hands its rows to a model within.

    The model that is handed over has learnt nothing and stays as it is: the one within is a clone, so that whoever
    holds the other may change its settings.
    """

    _pristine: StreamModel  # the settings of the model within
    _within: StreamModel

    def _wrap(self, model: StreamModel) -> None:
        if not isinstance(model, StreamModel):
            raise TypeError(f"model must be a stream model such as KRLST() or ISSGPR(); got {model!r}")
        if model.rows_seen:
            raise ValueError(
                f"model must have learnt nothing, because {type(self).__name__} follows it from the first row on; got "
                f"one that has seen {model.rows_seen} rows. Hand over model.clone()."
            )
        self._settings["model"] = self._pristine = model.clone()
        self._within = self._pristine
        self.has_variance = model.has_variance
        self._shared, self._largest = model._shared, model._largest

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        return super().get_params(deep) | {"model": self._pristine.clone()}

    # Constructing clones the model that is handed over: no need to clone it before.

    def clone(self) -> Self:
        return type(self)(**super().get_params())

    def copy(self) -> Self:
        twin: Self = revived(type(self), super().get_params(), *self._knowledge())
        return twin

    clone.__doc__, copy.__doc__ = StreamModel.clone.__doc__, StreamModel.copy.__doc__

    # The state.

    def _start(self, d: int, p: int) -> None:
        if self._d is None:
            self._within = self._pristine.clone()
        begin(self._within, d, p)

    def _arrays(self) -> dict[str, np.ndarray]:
        return {f"inner.{name}": array for name, array in self._within._arrays().items()}

    def _check_restored(self) -> None:
        self._within._check_restored()

    def reset_memory(self) -> None:
        if self._d is not None:
            self._within.reset_memory()

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        return self._within._last_row()

    def _recall(self, y: FloatArray) -> None:
        self._within._recall(y)

    def _units(self) -> int:
        return self._within._units()

    def forget(self, factor: float) -> None:
        self._within.forget(factor)

    forget.__doc__ = StreamModel.forget.__doc__

    @property
    def _cannot_forget_because(self) -> str:
        return self._within._cannot_forget_because

    def _rows_until_settled(self) -> int:
        return self._within._rows_until_settled()

    # What can be read.

    @property
    def inner(self) -> StreamModel:
        """A copy of the model within, to read what only models of its kind have."""
        return self._within.copy()

    @property
    def rows_seen(self) -> int:
        return self._within.rows_seen

    @property
    def size(self) -> int:
        return self._within.size

    @property
    def basis(self) -> FloatArray:
        return self._within.basis

    @property
    def hyperparameters(self) -> dict[str, float | FloatArray]:
        return self._within.hyperparameters

    def relevance(self) -> Relevance:
        return self._within.relevance()

    @property
    def health(self) -> Health:
        return self._within.health

    @property
    def last_change(self) -> Change:
        return self._within.last_change


def begin(model: StreamModel, d: int, p: int) -> None:
    """Allocate a model for inputs and targets that someone else has checked."""
    model._start(d, p)
    model._d, model._p, model._scalar, model._certain = d, p, False, True


def joined(predictions: list[Prediction]) -> Prediction:
    """Predictions of rows that follow each other, as one."""
    if len(predictions) == 1:
        return predictions[0]
    return Prediction(
        *(np.concatenate([getattr(p, name) for p in predictions]) for name in ("mean", "variance", "noise"))
    )
