"""The inputs of the row before as further inputs."""

from __future__ import annotations

import numpy as np
from streamgp.auto.preceded import Preceded

import streamgp as sg
from streamgp.auto.candidates import least_squares


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


def test_after_a_broken_reading_nobody_asks_for_the_row_before():
    X, y = plant(200)
    broken = X.copy()
    broken[150, 0] = 1e4
    fast = sg.Auto(warmup=100, tune=False, candidates={"capacity": 10, "features": 10})
    at_once, one_by_one = fast.clone(), fast.clone()
    p = at_once.track(broken, y)
    for t in range(150):
        one_by_one.learn_one(X[t], y[t])
    np.testing.assert_allclose(one_by_one.predict_one(broken[150]).mean, p.mean[150], rtol=1e-8)
    one_by_one.learn_one(broken[150], y[150])

    def with_another_row_before():
        other = one_by_one.copy()
        for member in other._outputs[0].experts.committee._models:
            if isinstance(member, Preceded):
                member._x[:] = 3.0
        return other

    assert one_by_one.health.fill_values == 1
    same = with_another_row_before().predict_one(X[151]).mean
    np.testing.assert_allclose(one_by_one.predict_one(X[151]).mean, same, rtol=1e-8)
    np.testing.assert_allclose(one_by_one.predict_one(X[151]).mean, p.mean[151], rtol=1e-8)
    one_by_one.learn_one(X[151], y[151])
    np.testing.assert_allclose(one_by_one.predict_one(X[152]).mean, p.mean[152], rtol=1e-8)
    assert abs(one_by_one.predict_one(X[152]).mean - with_another_row_before().predict_one(X[152]).mean) > 1.0
    assert abs(p.mean[152] - y[152]) < 0.05
