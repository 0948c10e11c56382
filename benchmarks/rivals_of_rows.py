"""One row ahead by other packages: LightGBM, fitted anew after some rows, and River's regressors."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

import streamgp as sg
from streamgp.wrappers.lagged import bridged, lag_columns

REFITTED = 1000  # LightGBM is fitted anew after so many rows
SEED = 0


class Rows(Protocol):
    """Inputs (n, d) and targets (n,); NaN where a target is missing."""

    X: np.ndarray
    y: np.ndarray


class Said(NamedTuple):
    """What a contestant predicted of every row before it saw the target; NaN where it predicted nothing."""

    mean: np.ndarray
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None
    about: dict[str, Any] = {}  # noqa: RUF012 (never changed)


def past(data: Rows, lags: int) -> tuple[np.ndarray, int]:
    """The last targets of every row, newest first, and the first row that has one."""
    y = np.concatenate([np.full(lags, np.nan), data.y])[:, None]
    return lag_columns(bridged(y), lags, len(data.y)), int(np.flatnonzero(~np.isnan(data.y))[0]) + 1


def rival_rows(data: Rows, lags: int, change: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, targets, and what is added to a prediction: the previous value where the change is predicted."""
    lagged, first = past(data, max(lags, 1))
    lagged[:first] = np.nan
    previous = lagged[:, 0] if change else np.zeros(len(data.y))
    return np.column_stack([data.X, lagged[:, :lags]]), data.y - previous, previous


def naive(data: Rows, model: sg.StreamModel) -> Said:
    return Said(model.track(data.X, data.y).mean)


def lightgbm(data: Rows, lags: int, change: bool, every: int = REFITTED) -> Said:
    """Fitted anew to all rows so far after every so many; before, the previous value."""
    from lightgbm import LGBMRegressor

    X, y, previous = rival_rows(data, lags, change)
    mean = sg.SeasonalValue(1).track(np.zeros((len(y), 1)), data.y).mean
    for start in range(every, len(y), every):
        block, known = slice(start, start + every), ~np.isnan(y[:start])
        model = LGBMRegressor(random_state=SEED, n_jobs=1, verbose=-1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mean[block] = model.fit(X[:start][known], y[:start][known]).predict(X[block]) + previous[block]
    return Said(mean)


def river(data: Rows, lags: int, name: str, change: bool) -> Said:
    """With River's defaults, inputs in standard units."""
    from river import ensemble, forest, linear_model, neighbors, preprocessing

    models = {
        "River linear": linear_model.LinearRegression,
        "River ARF": partial(forest.ARFRegressor, seed=SEED),
        "River SRP": partial(ensemble.SRPRegressor, seed=SEED),
        "River KNN": neighbors.KNNRegressor,
    }
    X, y, previous = rival_rows(data, lags, change)
    model = preprocessing.StandardScaler() | models[name]()
    mean = np.full(len(y), np.nan)
    for t, (values, target) in enumerate(zip(np.nan_to_num(X).tolist(), y.tolist(), strict=True)):
        x = dict(enumerate(values))
        mean[t] = model.predict_one(x)
        if not np.isnan(target):
            model.learn_one(x, target)
    return Said(mean + previous)
