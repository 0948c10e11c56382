"""Yardsticks: simple predictions that any model of a run should beat."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.auto.candidates import least_squares
from streamgp.contract import snapshot
from streamgp.contract.model import Shape, StreamModel
from streamgp.job.scores import START_UP
from streamgp.loading import model_of
from streamgp.recipes.naive import InputValue, SeasonalValue
from streamgp.settings import FloatArray
from streamgp.wrappers.delayed import Ahead
from streamgp.wrappers.lagged import Lagged
from streamgp.wrappers.standardize import Standardize

FORGETTING = 0.999  # of least squares: about the last thousand rows count
LINE_FROM = 20  # rows that least squares learns before it counts
MOST_INPUTS = 200  # beyond this least squares takes longer than many a model
PREVIOUS, LINE = "previous value", "least squares"


class WholeLags(Lagged):
    """Leaves out first rows with lags from before the first target."""

    @property
    def _needed(self) -> int:
        return self._lags


class Yardsticks:
    """The previous value, least squares on the inputs of the model, and the values of a day and of a week ago.

    The first two predict when the model predicts and learn when it learns, so that targets reach all of them at the
    same time.

    Args:
        own: columns of the rows.
        lags: past targets that least squares sees.
        horizon: rows ahead.
        pending: rows that can wait longer than that for their targets.
        seasons: rows of a day and of a week, where they are known.
    """

    def __init__(self, own: int, lags: int, horizon: int, pending: int, seasons: tuple[int, ...]) -> None:
        self._waits = max(horizon - 1, 0)  # rows learned between a prediction and its target
        self._models: dict[str, StreamModel] = {PREVIOUS: Lagged(InputValue(own), lags=1)}
        if own + lags <= MOST_INPUTS:
            line = Standardize(least_squares(FORGETTING), warmup=START_UP, screen=False)
            self._models[LINE] = WholeLags(line, lags=lags) if lags else line
        if horizon:
            self._models = {k: Ahead(m, horizon=horizon, pending=pending) for k, m in self._models.items()}
        backs = sorted({-(-max(horizon, 1) // period) * period for period in seasons})  # whole seasons, known by then
        self._seasonal: dict[str, StreamModel] = {f"value {back} rows ago": SeasonalValue(back) for back in backs}
        self.names = [*self._models, *self._seasonal]
        for model in self._models.values():
            model._prepare(Shape(own, 1, scalar=True, certain=True))

    def track(self, X: FloatArray, y: FloatArray) -> FloatArray:
        """Predict rows, (n, names), learning each before the next; NaN where there is no prediction."""
        predicted = [self._sure(name, model.track(X, y).mean, len(y)) for name, model in self._models.items()]
        return np.column_stack([*predicted, self.seasonal(y)])

    def seasonal(self, y: FloatArray) -> FloatArray:
        """The seasonal values as predictions of the next rows, (n, seasons)."""
        nothing = np.zeros((len(y), 1))
        return np.column_stack(
            [np.empty((len(y), 0)), *(model.track(nothing, y).mean for model in self._seasonal.values())]
        )

    def _sure(self, name: str, mean: FloatArray, rows: int) -> FloatArray:
        """Least squares counts from some rows on; the rows were the last ones that it learned."""
        if name == LINE:
            line = self._learner(name)
            mean[: max(LINE_FROM + self._waits - (line.rows_seen - rows), 0)] = np.nan
        return mean

    def _learner(self, name: str) -> StreamModel:
        """The model that learns, within those that map rows."""
        return list(self._models[name]._family())[-2 if name == LINE else -1]

    # Late targets.

    @property
    def issued_width(self) -> int:
        """Numbers that a waiting row keeps."""
        return sum(1 + model._issued_width(1) for model in self._models.values())

    def issue(self, X: FloatArray) -> FloatArray:
        """The predictions of one row by the first yardsticks, and what they learn its target with, (issued_width,)."""
        parts: list[FloatArray] = []
        for name, model in self._models.items():
            prediction, issued = model._issue(X)
            unsure = name == LINE and self._learner(name).rows_seen < LINE_FROM
            parts += [np.array([np.nan if unsure else prediction.mean[0, 0]]), issued[0]]
        return np.concatenate(parts)

    def remember(self, X: FloatArray) -> None:
        """Let one row wait for its target."""
        for model in self._models.values():
            model._remember(X)

    def learn(self, X: FloatArray, y: float) -> None:
        """Learn one row whose target came with it."""
        for model in self._models.values():
            model.learn_one(X[0], y)

    def predicted(self, issued: FloatArray) -> FloatArray:
        """The predictions that the first yardsticks made of waiting rows, (n, first names)."""
        widths = [1 + model._issued_width(1) for model in self._models.values()]
        return issued[:, np.cumsum([0, *widths[:-1]])]

    def resolve(self, X: FloatArray, y: float, issued: FloatArray) -> None:
        """Let them learn the target of a row that waited."""
        start = 0
        for model in self._models.values():
            width = model._issued_width(1)
            model._resolve(X, np.array([[y]]), issued[None, start + 1 : start + 1 + width], None)
            start += 1 + width

    # The state.

    def contents(self) -> dict[str, snapshot.Contents]:
        """The models by name."""
        return {name: snapshot.contents(model) for name, model in (self._models | self._seasonal).items()}

    def restore(self, headers: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
        """Go on from saved models."""
        for models in (self._models, self._seasonal):
            for name, model in models.items():
                saved = model_of(*snapshot.part(name, headers, tensors))
                if repr(saved) != repr(model) or saved._d not in (model._d, None if model._d else 1):
                    raise snapshot.SnapshotError(f"the snapshot's {name} must be {model!r}; it is {saved!r}")
                models[name] = saved
