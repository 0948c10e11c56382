"""Free running: a model fed with its own predictions. Nothing is learned on the way.

The caller says which input columns are lagged targets. With p outputs, column number c of that list holds output c % p
of c // p + 1 rows ago.
"""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

import numpy as np

from streamgp.contract import inputs, passing
from streamgp.contract.lanes import ADVANCE, ONE, TELL
from streamgp.contract.prediction import Prediction
from streamgp.contract.within import family
from streamgp.settings import FloatArray, whole

Model = Any  # a StreamModel, which stands above

# Numbers that trajectories may hold at once (400 MB); more of them run one group after the other.
ROOM = 5e7


class Step(NamedTuple):
    """What trajectories expect at their next row; all (trajectories, p)."""

    mean: FloatArray  # of the function, given what the trajectory has drawn of it so far
    variance: FloatArray
    noise: FloatArray  # variance of the observation noise
    free_mean: FloatArray  # of the function, whatever was drawn
    free_variance: FloatArray


class Trajectories(abc.ABC):
    """Several futures of a model, side by side."""

    @abc.abstractmethod
    def predict(self, X: FloatArray) -> Step:
        """Advance each trajectory's memory by its row of X."""

    @abc.abstractmethod
    def record(self, values: FloatArray, targets: FloatArray) -> None:
        """Take what was drawn at that row: values of the function, and targets, which have the noise on top."""


class Mapped(Trajectories):
    """Trajectories whose values are offset + factor times those of the trajectories within."""

    _offset: FloatArray
    _factor: FloatArray

    def __init__(self, within: Trajectories) -> None:
        self._within = within

    @abc.abstractmethod
    def _map(self, X: FloatArray, step: Step) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Offset and factor of the values, and the noise."""

    def _inputs(self, X: FloatArray) -> FloatArray:
        """Rows as they are seen within."""
        return X

    def _targets(self, Y: FloatArray) -> FloatArray:
        """Targets as they are seen within."""
        return Y

    def predict(self, X: FloatArray) -> Step:
        step = self._within.predict(self._inputs(X))
        offset, factor, noise = self._map(X, step)
        self._offset, self._factor = offset, factor
        mean, free_mean = offset + factor * step.mean, offset + factor * step.free_mean
        return Step(mean, factor**2 * step.variance, noise, free_mean, factor**2 * step.free_variance)

    def record(self, values: FloatArray, targets: FloatArray) -> None:
        self._within.record((values - self._offset) / self._factor, self._targets(targets))


class Independent(Trajectories):
    """Trajectories of a model without a joint posterior: the function is drawn anew at every step."""

    _rows: FloatArray  # those that come next

    def __init__(self, model: Model, count: int) -> None:
        self._models = [model.copy() for _ in range(count)]

    def predict(self, X: FloatArray) -> Step:
        self._rows = X
        parts = [passing.predicted(model, x[None])[:3, 0] for model, x in zip(self._models, X, strict=True)]
        mean, variance, noise = np.stack(parts, axis=1)
        return Step(mean, variance, noise, mean, variance)

    def record(self, values: FloatArray, targets: FloatArray) -> None:
        for model, x, y in zip(self._models, self._rows, np.ascontiguousarray(targets), strict=True):
            model._pass(ONE[ADVANCE | TELL], x[None], y[None], None, None)


def simulate(model: Model, U: Any, feedback: Any, trajectories: int, seed: int) -> Prediction:
    """Predict the rows of U, with the lagged targets replaced by its own predictions; see StreamModel.simulate."""
    if why := model._cannot("simulate"):
        raise ValueError(why)
    rows = inputs.rows(U, model._d)
    if not len(rows):
        raise ValueError("U has no rows: there is nothing to simulate")
    p = model._p or 1
    columns = _columns(model, feedback, rows.shape[1], p)
    passing.refuse_unfit(model, rows, many=True)
    count = whole("trajectories", trajectories) if model.has_variance else 1
    rng = np.random.default_rng(whole("seed", seed, at_least=0))
    started = passing.started_for(model, rows)
    group = max(1, int(ROOM // (len(rows) * (len(rows) * p + started.size + rows.size))))
    parts = []
    for first in range(0, count, group):
        several = min(group, count - first)
        futures = Independent(started, 1) if count == 1 else started._analysis().trajectories(several, len(rows))
        X = np.repeat(rows[None], several, axis=0)
        parts.append(run(futures, X, columns, p, rng if count > 1 else None))
    means, variances, noises = (np.concatenate(part) for part in zip(*parts, strict=True))
    # The law of total variance over the trajectories.
    mean, variance, noise = means.mean(0), variances.mean(0) + means.var(0), noises.mean(0)
    if model._shape.scalar:
        return Prediction(mean[:, 0], variance[:, 0], noise[:, 0])
    return Prediction(mean, variance, noise)


def run(
    trajectories: Trajectories, X: FloatArray, columns: list[int], p: int, rng: np.random.Generator | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Let trajectories (count, steps, d) go; without a generator they follow the mean."""
    means, variances, noises, targets = (np.empty((*X.shape[:2], p)) for _ in range(4))
    for t in range(X.shape[1]):
        for c, column in enumerate(columns):
            lag, output = c // p + 1, c % p
            if t >= lag:
                X[:, t, column] = targets[:, t - lag, output]
        step = trajectories.predict(np.ascontiguousarray(X[:, t]))
        means[:, t], variances[:, t], noises[:, t] = step.mean, step.variance, step.noise
        values, targets[:, t] = step.mean, step.mean
        if rng is not None:  # what comes back is an observation: function and noise
            values = step.mean + _spread(step.variance) * rng.standard_normal(step.mean.shape)
            targets[:, t] = values + _spread(step.noise) * rng.standard_normal(step.mean.shape)
        trajectories.record(values, targets[:, t])
    return means, variances, noises


def _spread(variance: FloatArray) -> FloatArray:
    # Where a model claims nothing (an infinite variance) its mean is all there is to go on with.
    return np.sqrt(np.where(np.isfinite(variance), variance, 0.0))


def forecast(model: Model, steps: Any, future: Any, feedback: Any, trajectories: int, seed: int) -> Prediction:
    """Predict the rows after the last one; see StreamModel.forecast."""
    moment = model._moment
    recalls = np.size(feedback) or model._feeds_itself or any(one._recalls for one in family(model))
    if recalls or moment is None:
        return simulate(model, next_rows(model, steps, feedback, future), feedback, trajectories, seed)
    times = moment.next(steps) if isinstance(steps, int | np.integer) else steps  # none depends on another
    if future is None:
        last = np.zeros((1, 0)) if model._d is None else model._last_row()[0][None]
        future = np.repeat(last, len(np.atleast_1d(times)), axis=0)
    told: Prediction = model.predict_many(future, time=times)
    return told


def next_rows(model: Model, steps: int, feedback: Any, future: Any) -> FloatArray:
    """The rows after the last one seen, as far as they are known: simulate() fills in the rest."""
    whole("steps", steps)
    if model._d is None or not model._shape.certain:
        raise ValueError(
            "forecast goes on from the last row and target: learn some rows first, or use simulate(U, ...)"
        )
    d, p = model._d, model._p or 1
    columns = _columns(model, feedback, d, p)
    others = [column for column in range(d) if column not in columns]
    rows = np.zeros((steps, d))
    if others:
        if future is None:
            raise ValueError(
                f"columns {others} are not lagged targets: give their future values as X, an array "
                f"({steps}, {len(others)})"
            )
        values = inputs.rows(future, len(others))
        if len(values) != steps:
            raise ValueError(f"X must have {steps} rows, one for each step; got {len(values)}")
        rows[:, others] = values
    if not columns:
        return rows
    last_x, last_y = model._last_row()
    past = [last_y] + [last_x[columns[lag * p : (lag + 1) * p]] for lag in range(len(columns) // p)]
    for t in range(min(steps, len(columns) // p)):
        for c, column in enumerate(columns):
            lag, output = c // p + 1, c % p
            if t < lag:  # before the first predicted row
                rows[t, column] = past[lag - t - 1][output]
    return rows


def _columns(model: Model, feedback: Any, d: int, p: int) -> list[int]:
    columns = [feedback] if isinstance(feedback, int | np.integer) else list(feedback)
    if not columns and model._feeds_itself:
        return []
    if not columns or len(columns) % p or len(set(columns)) != len(columns):
        raise ValueError(
            f"feedback must list different input columns, {p} for each lag, newest lag first; got {feedback!r}"
        )
    for column in columns:
        if isinstance(column, bool) or not isinstance(column, int | np.integer) or not 0 <= column < d:
            raise ValueError(f"feedback must list input columns from 0 to {d - 1}; got {column!r}")
    return [int(column) for column in columns]
