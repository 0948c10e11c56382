"""Composites: stream models made of others. What such a model does not do itself, the models within do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamgp.contract.analysis import Analysis
from streamgp.contract.conditions import Moment
from streamgp.contract.model import Change, Relevance, Shape, StreamModel
from streamgp.contract.prediction import Prediction
from streamgp.settings import FloatArray


class Composite(StreamModel):
    """A stream model made of others.

    The models that are handed over have learned nothing and stay as they are: those within are clones, so that whoever
    holds the others may change their settings.
    """

    _setting = "model"  # what the models are called among the settings
    _models: list[StreamModel]  # the models within

    def _hold(self, given: Any, wanted: str) -> None:
        """Take the models of a setting, one or a list of them."""
        several = isinstance(given, list | tuple)
        models = list(given) if several else [given]
        for model in models:
            if not isinstance(model, StreamModel):
                raise TypeError(f"{self._setting} must be {wanted}; got {model!r}")
            if model.rows_seen:
                raise ValueError(
                    f"{self._setting} must have learned nothing, because {type(self).__name__} needs every row from "
                    f"the first one on; got one that has seen {model.rows_seen} rows. Hand over model.clone()."
                )
        if not models:
            raise ValueError(f"{self._setting} is an empty list; give at least one stream model")
        self._models = [model.clone() for model in models]
        self._settings[self._setting] = list(self._models) if several else self._models[0]
        self.has_variance = all(model.has_variance for model in models)
        self._note_times()
        self._shared = any(model._shared for model in models)
        self._largest = min(model._largest for model in models)
        self._without_inputs = all(model._without_inputs for model in models)
        self._feeds_itself = any(model._feeds_itself for model in models)
        self._outputs = next((model._outputs for model in models if model._outputs is not None), None)
        self._observes = next((model._observes for model in models if model._observes != "numbers"), "numbers")
        self._refuse_targets = next(filter(None, (model._refuse_targets for model in models)), None)

    def _note_times(self) -> None:
        self._needs_time = any(model._needs_time for model in self._models)
        self._sees_time = any(model._sees_time for model in self._models)

    def _refuse_classes_and_counts(self, why: str) -> None:
        """Refuse models whose targets are no numbers on the scale of a function."""
        if self._observes != "numbers":
            raise ValueError(f"{type(self).__name__} {why}; it cannot be used around a model of {self._observes}")

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        params, given = super().get_params(deep), self._settings[self._setting]
        fresh = [model.clone() for model in given] if isinstance(given, list) else given.clone()
        return params | {self._setting: fresh}

    def _start(self, d: int, p: int) -> None:
        if self._d is None:
            self._models = self._fresh()
        for model in self._models:
            model._prepare(self._shape_within(d, p))

    def _shape_within(self, d: int, p: int) -> Shape:
        """The shape of rows as models within see them."""
        return Shape(d, p, scalar=False, certain=True, ahead=self._ahead)

    def _fresh(self) -> list[StreamModel]:
        """The models within as they start; those of the settings stay as they are."""
        return [model.clone() for model in self._models]

    def _last_row(self) -> tuple[FloatArray, FloatArray]:
        return self._models[0]._last_row()

    # What can be read.

    def _shown(self) -> StreamModel:
        """The model within whose basis, size, hyperparameters... can be read."""
        return self._models[0]

    @property
    def _units(self) -> int:  # type: ignore[override]
        return self._shown()._units

    @property
    def _may_fail(self) -> bool:  # type: ignore[override]
        return any(model._may_fail for model in self._models)

    @property
    def _moment(self) -> Moment | None:  # type: ignore[override]
        return next((model._moment for model in self._models if model._moment is not None), None)

    @property
    def rows_seen(self) -> int:
        return self._models[0].rows_seen

    @property
    def size(self) -> int:
        return self._shown().size

    @property
    def basis(self) -> FloatArray:
        return self._shown().basis

    @property
    def hyperparameters(self) -> dict[str, float | FloatArray]:
        return self._shown().hyperparameters

    def relevance(self) -> Relevance:
        return self._shown().relevance()

    @property
    def last_change(self) -> Change:
        return self._shown().last_change


class Wrapper(Composite):
    """A stream model around another one."""

    def _wrap(self, model: StreamModel) -> None:
        self._hold(model, "a stream model such as KRLST() or ISSGPR()")

    def _children(self) -> dict[str, StreamModel]:
        return {"inner": self._within}

    def _screened(self, Y: FloatArray) -> FloatArray:
        return self._within._screened(Y)

    @property
    def _pristine(self) -> StreamModel:
        """The model of the settings, which has learned nothing."""
        model: StreamModel = self._settings["model"]
        return model

    @property
    def _within(self) -> StreamModel:
        return self._models[0]

    @_within.setter
    def _within(self, model: StreamModel) -> None:
        self._models = [model]

    @property
    def _columns(self) -> tuple[str, ...]:  # type: ignore[override]
        return self._within._columns

    def _told(self, columns: Sequence[Any]) -> Prediction:
        return self._models[0]._told(columns)

    @property
    def _kept_width(self) -> int:  # type: ignore[override]
        return self._within._kept_width

    def _analysis(self) -> Analysis:
        return self._within._analysis()

    @property
    def inner(self) -> StreamModel:
        """A copy of the model within, to read what only models of its kind have."""
        return self._within.copy()
