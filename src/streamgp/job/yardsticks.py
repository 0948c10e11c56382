"""Yardsticks: simple predictions that any model of a run should beat, made beside it of the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, TypeVar

import numpy as np

from streamgp.auto.candidates import least_squares
from streamgp.contract import passing
from streamgp.contract.model import Row, Shape, StreamModel
from streamgp.contract.prediction import CalibratedPrediction, Prediction, stacked
from streamgp.contract.snapshot import require
from streamgp.job.scores import START_UP
from streamgp.recipes.naive import SeasonalValue
from streamgp.settings import FloatArray, switch, whole
from streamgp.wrappers.ahead import Ahead
from streamgp.wrappers.lagged import Lagged
from streamgp.wrappers.mapped import Mapped
from streamgp.wrappers.standardize import Standardize
from streamgp.wrappers.wrapper import Composite, joined

FORGETTING = 0.999  # of least squares: about the last thousand rows count
LINE_FROM = 20  # rows that least squares learns before it counts
MOST_INPUTS = 200  # beyond this least squares takes longer than many a model
PREVIOUS, LINE = "previous value", "least squares"
# Rows of a call up to which they pass one by one, in compiled calls: in a block, each member of a committee takes them.
SHORT = 8
Some = TypeVar("Some", bound=Prediction)


def yardsticks(own: int, lags: int, horizon: int, seasons: Sequence[int]) -> dict[str, StreamModel]:
    """The previous value, least squares on the inputs of the model, and the values of a day and of a week ago, by name.

    Args:
        own: columns of the rows.
        lags: past targets that least squares sees.
        horizon: rows ahead.
        seasons: rows of a day and of a week, where they are known.
    """
    models: dict[str, StreamModel] = {PREVIOUS: PreviousValue()}
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


class PreviousValue(SeasonAgo):
    """The last target that is known, also one that no row waits for."""

    def __init__(self) -> None:
        super().__init__()

    def _note_target(self, y: FloatArray) -> None:
        self._follow(self._x[None], y[None])


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
        seen = self.rows_seen
        prediction = self._within._advance(X, Y, report, conditions)
        if prediction is None or seen >= LINE_FROM:
            return prediction
        return only_where(seen + np.arange(len(X)) >= LINE_FROM, prediction)

    def _quick(self) -> bool:
        return self.rows_seen >= LINE_FROM and self._within._quick()

    def _may_take_turns(self) -> bool:
        return self.rows_seen >= LINE_FROM and self._within._may_take_turns()

    def _row(self, X: FloatArray, Y: FloatArray | None) -> Row:
        within: Any = self._within
        self._one = within._row(X, Y)
        return self._one

    def _back(self, X: FloatArray, prediction: Prediction) -> Prediction:
        return prediction if self.rows_seen >= LINE_FROM else only_where(np.zeros(len(X), dtype=bool), prediction)


class Measured(Composite):
    """The model of a run and its yardsticks: all see the same rows, predict them and learn them at the same time.

    Where there is nothing to predict from, predictions are NaN: of the previous value before the first target, of a
    model that needs past targets, too, and of all of them in the first rows of a horizon.

    Args:
        models: the model, then the yardsticks, the previous value first.
        horizon: how many rows before its own row a prediction is made.
        needs_past: whether the model predicts from past targets.
    """

    _setting = "models"
    taken = np.empty((0, 1))  # the targets that came last, NaN in place of those that the model refused
    _known_from: np.ndarray  # (1,) the first row that a prediction with a target known was made from; -1: none was

    def __init__(self, models: Sequence[StreamModel], *, horizon: int = 0, needs_past: bool = False) -> None:
        self._hold(list(models), "stream models")
        self._horizon, self._needs_past = whole("horizon", horizon, at_least=0), switch("needs_past", needs_past)

    def _start(self, d: int, p: int) -> None:
        super()._start(d, p)
        self._known_from = np.full(1, -1)

    def _prepare(self, shape: Shape) -> None:
        super()._prepare(shape)
        self._models[0]._prepare(shape._replace(scalar=True))  # whoever asks the model itself has numbers as targets

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"known_from": self._known_from}

    def _check_restored(self) -> None:
        require("known_from", self._known_from, at_least=-1)
        super()._check_restored()

    def _children(self) -> dict[str, StreamModel]:
        return {f"model.{k}": model for k, model in enumerate(self._models)}

    def _screened(self, Y: FloatArray) -> FloatArray:
        self.taken = self._models[0]._screened(Y)
        return self.taken

    def _may_fail(self) -> bool:
        return self._models[0]._may_fail()  # what yardsticks learn anew takes milliseconds, and Ctrl-C can wait

    def _advance(
        self, X: FloatArray, Y: FloatArray | None, report: bool, conditions: FloatArray | None = None
    ) -> Prediction | None:
        seen = self.rows_seen
        model, *yardsticks = self._models
        own, means = _taken(model, X, Y, report, conditions), [_mean(one, X, Y) for one in yardsticks]
        if self._known_from[0] < 0 and Y is not None and not (missing := np.isnan(Y[:, 0])).all():
            # With a horizon a row is predicted from with its own target known.
            self._known_from[0] = seen + np.argmin(missing) + (not self._horizon)
        return self._known(own, means, seen, following=True) if report else None

    @property
    def _may_wait(self) -> bool:
        """Whether all that is predicted is known, so that yardsticks may take the next rows later than the model."""
        return not self._horizon and 0 <= self._known_from[0] <= self.rows_seen

    def _take_few(self, X: FloatArray, Y: FloatArray) -> list[Any]:
        """Let the model alone take rows; its predictions, of one row each in numbers, or of several rows in arrays."""
        return _few(self._models[0], X, Y)

    def _beside(self, told: Sequence[Any], X: FloatArray, Y: FloatArray) -> CalibratedPrediction:
        """What the model predicted of rows, from ``_take_few``, beside the yardsticks, which take these rows now."""
        return beside(_together(told), [_mean(one, X, Y) for one in self._models[1:]])

    def _known(self, own: Any, means: list[FloatArray], row: int, *, following: bool = False) -> CalibratedPrediction:
        """Predictions of this row of the stream, or of rows that follow each other from it on, as far as known."""
        made, first = row - self._horizon, int(self._known_from[0])
        if not 0 <= first <= made:
            rows = made + np.arange(len(own.mean)) if following else np.full(len(own.mean), made)
            known = (first >= 0) & (rows >= first)
            own = only_where(known if self._needs_past else rows >= 0, own)
            means[0] = np.where(known[:, None], means[0], np.nan)
        return beside(own, means)

    def _predict(self, X: FloatArray, conditions: FloatArray | None = None) -> Prediction:
        model, *yardsticks = self._models
        means = [one._predict(X).mean for one in yardsticks]
        return self._known(model._predict(X, conditions), means, self.rows_seen)

    def upcoming(self) -> CalibratedPrediction:
        """What was predicted of the next rows, as many as the horizon has; without the yardsticks, NaN."""
        ahead = next((one for one in self._models[0]._family() if isinstance(one, Ahead)), None)
        coming = self._models[0]._empty() if ahead is None else ahead.upcoming()
        missing = np.full((self._horizon - len(coming), 1), np.nan)  # before the first rows
        own = coming._each(lambda part: np.concatenate([missing, part.reshape(-1, 1)]))
        nothing = [np.full((self._horizon, 1), np.nan)] * (len(self._models) - 1)
        return self._known(own, nothing, self.rows_seen, following=True)

    def _empty(self) -> Prediction:
        means = [np.empty((0, 1))] * (len(self._models) - 1)
        return passing.empty_like(self, beside(self._models[0]._empty(), means))

    def _issued_width(self, p: int) -> int:
        return sum(model._issued_width(p) for model in self._models)

    def _issue(self, X: FloatArray, conditions: FloatArray | None = None) -> tuple[Prediction, FloatArray]:
        each = (model._issue(X, None if k else conditions) for k, model in enumerate(self._models))
        predictions, issued = zip(*each, strict=True)
        own, *others = predictions
        return self._known(own, [one.mean for one in others], self.rows_seen), np.hstack(issued)

    def _resolve(self, X: FloatArray, Y: FloatArray, issued: FloatArray, conditions: FloatArray | None) -> None:
        ends = np.cumsum([model._issued_width(Y.shape[1]) for model in self._models])
        for k, (model, part) in enumerate(zip(self._models, np.split(issued, ends[:-1], axis=1), strict=True)):
            model._resolve(X, Y, np.ascontiguousarray(part), None if k else conditions)
        if self._known_from[0] < 0 and not np.isnan(Y).all():
            self._known_from[0] = self.rows_seen


def beside(own: Any, means: Sequence[Any]) -> CalibratedPrediction:
    """What a model predicts, and the mean of each yardstick beside it."""
    if not isinstance(own, CalibratedPrediction):
        raise TypeError(f"the model of a run predicts calibrated intervals; got {type(own).__name__}")
    return own._with(yardsticks=tuple(means))


def _taken(
    model: StreamModel, X: FloatArray, Y: FloatArray | None, report: bool, conditions: FloatArray | None
) -> Prediction | None:
    """What a model predicts of rows that it takes; few of them one by one, each without detours."""
    if report and Y is not None and conditions is None and len(X) <= SHORT:
        together: Prediction = _together(_few(model, X, Y))
        return together
    return model._advance(X, Y, report, conditions)


def _few(model: Any, X: FloatArray, Y: FloatArray) -> list[Any]:
    """What a model predicts of few rows that it takes: of one row each, in numbers, as long as it can; of the rest."""
    told: list[Any] = []
    while len(X) <= SHORT and len(told) < len(X) and model._quick():
        at = slice(len(told), len(told) + 1)
        model._row(X[at], Y[at])
        told.append(model._told())
    if len(told) < len(X):
        told.append(model._advance(X[len(told) :], Y[len(told) :], True))
    return told


def _together(told: Sequence[Any]) -> Any:
    """Predictions of rows that follow each other, in numbers or in arrays, as one."""
    parts: list[Any] = []
    for single, some in groupby(told, lambda one: isinstance(one.mean, float)):
        predictions = list(some)
        parts += [stacked(predictions)] if single else predictions
    return joined(parts)


def _mean(model: Any, X: FloatArray, Y: FloatArray | None) -> FloatArray:
    """What a model predicts of rows that it takes, one of them without detours."""
    single = len(X) == 1 and Y is not None and model._quick()
    told: Any = model._row(X, Y) if single else model._advance(X, Y, True)
    mean: FloatArray = told.mean
    return mean.copy()


def only_where(known: np.ndarray, prediction: Some) -> Some:
    """A prediction, NaN in the rows of which nothing is known, (n,)."""
    if known.all():
        return prediction

    def where_known(part: np.ndarray) -> np.ndarray:
        place = known.reshape(-1, *(1,) * (part.ndim - 1))
        return np.where(place, part, np.nan) if part.dtype.kind == "f" else part

    return prediction._each(where_known)
