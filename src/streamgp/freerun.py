"""Free running: a model fed with its own predictions. Nothing is learnt on the way.

The caller says which input columns are lagged targets. With p outputs, column number c of that list holds output c % p
of c // p + 1 rows ago.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from streamgp import inputs
from streamgp.prediction import Prediction
from streamgp.settings import FloatArray, whole

if TYPE_CHECKING:
    from streamgp.model import StreamModel


def simulate(model: StreamModel, U: Any, feedback: Any, trajectories: int, seed: int) -> Prediction:
    """Predict the rows of U, with the lagged targets replaced by what the model said; see StreamModel.simulate."""
    rows = inputs.rows(U, model._d)
    if not len(rows):
        raise ValueError("U has no rows: there is nothing to simulate")
    columns = _columns(feedback, rows.shape[1], model._p or 1)
    p = model._p or 1
    count = whole("trajectories", trajectories) if model.has_variance else 1
    rng = np.random.default_rng(whole("seed", seed, at_least=0))
    means, variances, noises = (np.empty((count, len(rows), p)) for _ in range(3))
    for s in range(count):
        runner = model.copy()
        said = np.empty((len(rows), p))
        for t, row in enumerate(rows):
            x = row.copy()
            for c, column in enumerate(columns):
                lag, output = c // p + 1, c % p
                if t >= lag:
                    x[column] = said[t - lag, output]
            prediction = runner.predict_one(x)
            means[s, t], variances[s, t], noises[s, t] = prediction.mean, prediction.variance, prediction.noise
            said[t] = means[s, t]
            if count > 1:  # what comes back is an observation: function and noise
                spread = np.sqrt(variances[s, t] + noises[s, t])
                # Where a model claims nothing (an infinite variance) its mean is all there is to go on with.
                said[t] += np.where(np.isfinite(spread), spread, 0.0) * rng.standard_normal(p)
            runner.observe_one(x)
            runner._recall(said[t])
    # The law of total variance over the trajectories.
    mean, variance, noise = means.mean(0), variances.mean(0) + means.var(0), noises.mean(0)
    if model._scalar:
        return Prediction(mean[:, 0], variance[:, 0], noise[:, 0])
    return Prediction(mean, variance, noise)


def next_rows(model: StreamModel, steps: int, feedback: Any, future: Any) -> FloatArray:
    """The rows after the last one seen, as far as they are known: simulate() fills in the rest."""
    whole("steps", steps)
    if model._d is None or not model._certain:
        raise ValueError(
            "forecast goes on from the last row and target: learn some rows first, or use simulate(U, ...)"
        )
    d, p = model._d, model._p or 1
    columns = _columns(feedback, d, p)
    others = [column for column in range(d) if column not in columns]
    rows = np.zeros((steps, d))
    if others:
        if future is None:
            raise ValueError(
                f"columns {others} are not lagged targets: give their future values as inputs=, an array "
                f"({steps}, {len(others)})"
            )
        values = inputs.rows(future, len(others))
        if len(values) != steps:
            raise ValueError(f"inputs must have {steps} rows, one for each step; got {len(values)}")
        rows[:, others] = values
    last_x, last_y = model._last_row()
    past = [last_y] + [last_x[columns[lag * p : (lag + 1) * p]] for lag in range(len(columns) // p)]
    for t in range(min(steps, len(columns) // p)):
        for c, column in enumerate(columns):
            lag, output = c // p + 1, c % p
            if t < lag:  # before the first predicted row
                rows[t, column] = past[lag - t - 1][output]
    return rows


def _columns(feedback: Any, d: int, p: int) -> list[int]:
    columns = [feedback] if isinstance(feedback, int | np.integer) else list(feedback)
    if not columns or len(columns) % p or len(set(columns)) != len(columns):
        raise ValueError(
            f"feedback must list different input columns, {p} for each lag, newest lag first; got {feedback!r}"
        )
    for column in columns:
        if isinstance(column, bool) or not isinstance(column, int | np.integer) or not 0 <= column < d:
            raise ValueError(f"feedback must list input columns from 0 to {d - 1}; got {column!r}")
    return [int(column) for column in columns]
