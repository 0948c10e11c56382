"""The inputs of the row before as further inputs."""

from __future__ import annotations

import numpy as np

import streamgp as sg
from streamgp.auto.candidates import least_squares
from streamgp.auto.preceded import Preceded


def plant(n=300, seed=0):
    """What comes out depends on this row and the one before."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, X[:, 0] - 2.0 * np.r_[X[0, 0], X[:-1, 0]]


def test_the_row_before_is_seen_as_in_a_table_that_has_it():
    X, y = plant()
    before = np.vstack([X[:1, :1], X[:-1, :1]])
    wide = least_squares(1.0).track(np.hstack([X, before]), y)
    for cuts in ((300,), (1, 7, 300)):
        model, parts = Preceded(least_squares(1.0), columns=1, sees=2), []
        for start, stop in zip((0, *cuts), cuts, strict=False):
            parts.append(model.track(X[start:stop], y[start:stop]).mean)
        np.testing.assert_allclose(np.concatenate(parts), wide.mean, atol=1e-12)
    again = sg.from_bytes(model.to_bytes())
    assert again.predict_one([0.5, 0.0]).mean == model.predict_one([0.5, 0.0]).mean
    assert abs(model.predict_one([0.5, 0.0]).mean - (0.5 - 2.0 * X[-1, 0])) < 0.01
    model.reset_memory()
    assert abs(model.predict_one([0.5, 0.0]).mean + 0.5) < 0.01  # the row itself stands for the one before


def test_a_free_run_remembers_the_rows_that_it_is_given():
    X, y = plant()
    model = sg.Lagged(Preceded(least_squares(1.0), columns=1, sees=3), lags=1)
    model.learn_many(X, y)
    future = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 0.0]])
    expected = future[:, 0] - 2.0 * np.r_[X[-1, 0], future[:-1, 0]]
    np.testing.assert_allclose(model.forecast(3, inputs=future).mean, expected, atol=0.3)


def test_auto_follows_a_plant_whose_last_input_still_counts():
    X, y = plant(200)
    model = sg.Auto(warmup=100, tune=False, candidates={"capacity": 10, "features": 10})
    error = model.track(X, y).mean - y
    assert np.sqrt(np.mean(error[100:] ** 2)) < 0.05
    assert max(model.weights, key=model.weights.__getitem__).endswith("(lags, row before)")
