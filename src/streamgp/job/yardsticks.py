"""Yardsticks: simple predictions that any model of a run should beat, made beside it of the same rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from streamgp.auto.candidates import least_squares
from streamgp.contract.model import Shape, StreamModel
from streamgp.contract.prediction import CalibratedPrediction, Prediction, Values
from streamgp.job.scores import START_UP
from streamgp.recipes.naive import InputValue, SeasonalValue
from streamgp.settings import FloatArray
from streamgp.wrappers.delayed import Ahead
from streamgp.wrappers.lagged import Lagged
from streamgp.wrappers.mapped import Mapped
from streamgp.wrappers.standardize import Standardize
from streamgp.wrappers.wrapper import Composite

FORGETTING = 0.999  # of least squares: about the last thousand rows count
LINE_FROM = 20  # rows that least squares learns before it counts
MOST_INPUTS = 200  # beyond this least squares takes longer than many a model
PREVIOUS, LINE = "previous value", "least squares"
Some = TypeVar("Some", bound=Prediction)


def yardsticks(own: int, lags: int, horizon: int, seasons: Sequence[int]) -> dict[str, StreamModel]:
    """The previous value, least squares on the inputs of the model, and the values of a day and of a week ago, by name.

    Args:
        own: columns of the rows.
        lags: past targets that least squares sees.
        horizon: rows ahead.
        seasons: rows of a day and of a week, where they are known.
    """
    models: dict[str, StreamModel] = {PREVIOUS: Lagged(InputValue(own), lags=1)}
    if own + lags <= MOST_INPUTS:
        line = Practiced(Standardize(least_squares(FORGETTING), warmup=START_UP, screen=False))
        models[LINE] = WholeLags(line, lags=lags) if lags else line
    if horizon:
        models = {name: Ahead(model, horizon=horizon) for name, model in models.items()}
    backs = sorted({-(-max(horizon, 1) // period) * period for period in seasons})  # whole seasons, known by then
    return models | {f"value {back} rows ago": SeasonAgo(back) for back in backs}


class SeasonAgo(SeasonalValue):
    """The target of one season ago, also where rows have no columns."""

    _without_inputs = True


class WholeLags(Lagged):
    """Leaves out first rows with lags from before the first target."""

    @property
    def _needed(self) -> int:
        return self._lags


class Practiced(Mapped):
    """Predicts nothing, NaN, before the model within has learned some rows."""

    def __init__(self, model: StreamModel) -> None:
        self._wrap(model)

    def _arrays(self) -> dict[str, np.ndarray]:
        return {}

    def _advance(
        self, X: FloatArray, Y: FloatArray | None, report: bool, conditions: FloatArray | None = None
    ) -> Prediction | None:
        seen = self.rows_seen + np.arange(len(X))
        prediction = self._within._advance(X, Y, report, conditions)
        return None if prediction is None else only_where(seen >= LINE_FROM, prediction)

    def _back(self, X: FloatArray, prediction: Prediction) -> Prediction:
        return only_where(np.full(len(X), self.rows_seen >= LINE_FROM), prediction)


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredPrediction(Prediction[Values]):
    """What a model and the yardsticks beside it predict.

    Args:
        mean: of the model.
        variance: of the model.
        noise: of the model.
        own: the prediction of the model.
        yardsticks: the mean of each yardstick.
    """

    own: CalibratedPrediction
    yardsticks: tuple[Any, ...]

    @classmethod
    def of(cls, own: Any, yardsticks: Sequence[Any]) -> MeasuredPrediction:
        """Both together."""
        if not isinstance(own, CalibratedPrediction):
            raise TypeError(f"the model of a run predicts calibrated intervals; got {type(own).__name__}")
        return cls(own.mean, own.variance, own.noise, own, tuple(yardsticks))

    def _each(self, change: Callable[..., Any], *others: Any) -> MeasuredPrediction:
        own = self.own._each(change, *(other.own for other in others))
        means = zip(*(one.yardsticks for one in (self, *others)), strict=True)
        return MeasuredPrediction.of(own, [change(*parts) for parts in means])


class Measured(Composite):
    """The model of a run and its yardsticks: all see the same rows, predict them and learn them at the same time.

    Args:
        models: the model, then the yardsticks, the previous value first.
    """

    _setting = "models"

    def __init__(self, models: Sequence[StreamModel]) -> None:
        self._hold(list(models), "stream models")

    def _prepare(self, shape: Shape) -> None:
        super()._prepare(shape)
        for model in self._models:
            model._prepare(shape)

    def _arrays(self) -> dict[str, np.ndarray]:
        return {}

    def _children(self) -> dict[str, StreamModel]:
        return {f"model.{k}": model for k, model in enumerate(self._models)}

    def _screened(self, Y: FloatArray) -> FloatArray:
        return self._models[0]._screened(Y)

    def _may_fail(self) -> bool:
        return self._models[0]._may_fail()  # what yardsticks learn anew takes milliseconds, and Ctrl-C can wait

    def _advance(
        self, X: FloatArray, Y: FloatArray | None, report: bool, conditions: FloatArray | None = None
    ) -> Prediction | None:
        predictions = [model._advance(X, Y, report, None if k else conditions) for k, model in enumerate(self._models)]
        return self._together(predictions) if report else None

    def _together(self, predictions: Sequence[Any]) -> Prediction:
        own, *others = predictions
        return MeasuredPrediction.of(own, [one.mean for one in others])

    def _predict(self, X: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        return self._together([model._predict(X, None if k else conditions) for k, model in enumerate(self._models)])

    def _empty(self) -> Prediction:
        return self._empty_like(self._together([model._empty() for model in self._models]))

    def _issued_width(self, p: int) -> int:
        return sum(model._issued_width(p) for model in self._models)

    def _issue(self, X: FloatArray, conditions: FloatArray | None = None) -> tuple[Prediction, FloatArray]:
        each = (model._issue(X, None if k else conditions) for k, model in enumerate(self._models))
        predictions, issued = zip(*each, strict=True)
        return self._together(predictions), np.hstack(issued)

    def _resolve(self, X: FloatArray, Y: FloatArray, issued: FloatArray, conditions: FloatArray | None) -> None:
        ends = np.cumsum([model._issued_width(Y.shape[1]) for model in self._models])
        for k, (model, part) in enumerate(zip(self._models, np.split(issued, ends[:-1], axis=1), strict=True)):
            model._resolve(X, Y, np.ascontiguousarray(part), None if k else conditions)


def only_where(known: np.ndarray, prediction: Some) -> Some:
    """A prediction, NaN in the rows of which nothing is known, (n,)."""
    if known.all():
        return prediction
    found: Any = prediction._each(lambda part: np.where(known.reshape(-1, *(1,) * (np.ndim(part) - 1)), part, np.nan))
    return found  # type: ignore[no-any-return]
