from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from streamgp.contract.lanes import ONE, TRACK
from streamgp.contract.saved import Shape

NO_INPUTS = np.empty((400, 0))


def series(n=400, seed=0):
    return np.sin(0.5 * np.arange(n)) + 0.2 * np.random.default_rng(seed).standard_normal(n)


def lagged():
    return sg.Lagged(sg.SOGP(capacity=10), lags=3)


class Alone:
    """A calibrated model that is told what the one within predicts."""

    def __init__(self, level):
        self.model = sg.Calibrated(sg.RunningMean(), level=level)
        self.model._prepare(Shape(1, 1, scalar=False, certain=True))

    def row(self, y, mean, std):
        columns = np.zeros((self.model._own + 3, 1, 1))
        columns[-3:, 0, 0] = mean, std**2, 0.0
        self.model._calibrate(ONE[TRACK], np.array([[y]]), np.empty((0, 0)), columns)
        return columns[3, 0, 0], columns[4, 0, 0]


def test_every_step_is_calibrated_as_rows_of_its_own():
    y, inner = series(402), lagged()
    y[200] = np.nan
    model = sg.CalibratedForecasts(inner, steps=3, level=0.8)
    plain, settings = [Alone(level=0.8) for _ in range(3)], {"trajectories": 5, "seed": 1}
    inside, judged = np.zeros(3), np.zeros(3)
    for start in range(0, 399, 3):
        for one in (inner, model):
            one.learn_many(NO_INPUTS[:3], y[start : start + 3])
        raw, p = inner.forecast(3, **settings), model.issue_forecast(3, **settings)
        for k, target in enumerate(y[start + 3 : start + 6]):
            low, high = plain[k].row(target, raw.mean[k], raw.std[k])
            np.testing.assert_allclose([p.mean[k], p.lower[k], p.upper[k]], [raw.mean[k], low, high], rtol=1e-8)
            inside[k] += low <= target <= high
            judged[k] += not np.isnan(target)
    model.learn_many(NO_INPUTS[:3], y[399:])
    np.testing.assert_array_equal(model.judged, judged)
    np.testing.assert_allclose(model.forecast_coverage, inside / judged)


def test_targets_in_one_call_or_one_by_one_judge_forecasts_alike():
    y = series()
    models = [sg.CalibratedForecasts(lagged(), steps=5) for _ in range(2)]
    for start in range(0, 400, 20):
        for one in models:
            one.issue_forecast(4, trajectories=4) if start else None
            one.issue_forecast(8, trajectories=4) if start else None  # takes the place of the first
        models[0].learn_many(NO_INPUTS[:20], y[start : start + 20])
        for target in y[start : start + 20]:
            models[1].learn_one(NO_INPUTS[0], target)
    assert models[0].to_bytes() == models[1].to_bytes()
    assert models[0].judged.tolist() == [19.0] * 5
    restored = sg.from_bytes(models[0].to_bytes())
    before = restored.to_bytes()
    p, q = restored.forecast(8, trajectories=4), models[0].issue_forecast(8, trajectories=4)
    assert restored.to_bytes() == before
    for name in ("mean", "lower", "upper"):
        np.testing.assert_array_equal(getattr(p, name), getattr(q, name))
    assert np.all(p.lower[5:] < p.upper[5:])  # beyond the steps that have trackers of their own


def test_intervals_cover_at_every_step_where_those_of_the_model_do_not():
    y = series(3000, seed=2)
    model = sg.CalibratedForecasts(sg.Lagged(sg.SOGP(capacity=10, noise=1e-3), lags=3), steps=6)
    inside, raw = [], []
    for start in range(0, 2994, 6):
        model.learn_many(np.empty((6, 0)), y[start : start + 6])
        p, target = model.issue_forecast(6, trajectories=4), y[start + 6 : start + 12]
        low, high = p.raw.interval(0.9)
        if len(target) == 6:
            inside.append((p.lower <= target) & (target <= p.upper))
            raw.append((low <= target) & (target <= high))
    assert np.mean(raw[100:], axis=0).max() < 0.8
    np.testing.assert_allclose(np.mean(inside[100:], axis=0), 0.9, atol=0.03)
    np.testing.assert_allclose(model.forecast_coverage, 0.9, atol=0.03)


def test_several_outputs_new_sequences_and_models_without_a_variance():
    rng = np.random.default_rng(3)
    Y = rng.standard_normal((120, 2))
    X = np.vstack([np.zeros((1, 2)), Y[:-1]])
    for inner in (sg.SOGP(capacity=8), sg.filters.QKLMS(capacity=8)):
        model = sg.CalibratedForecasts(inner, steps=3)
        assert model.judged.tolist() == [0.0] * 3
        assert np.isnan(model.forecast_coverage).all()
        for t in range(100):
            model.learn_one(X[t], Y[t])
            p = model.issue_forecast(3, feedback=[0, 1], trajectories=3)
        assert p.lower.shape == (3, 2)
        assert np.all(p.lower < p.upper)
        judged = model.judged
        model.reset_memory()
        model.learn_many(X[100:], Y[100:])
        np.testing.assert_array_equal(model.judged, judged)


def test_what_cannot_be_forecast_gets_a_sentence():
    model = sg.CalibratedForecasts(lagged(), steps=3)
    with pytest.raises(ValueError, match="forecast goes on from the last row and target: learn some rows first"):
        model.issue_forecast(3)
    with pytest.raises(ValueError, match="steps must be a whole number"):
        sg.CalibratedForecasts(lagged(), steps=0)
    with pytest.raises(ValueError, match="level must be"):
        sg.CalibratedForecasts(lagged(), level=1.0)
    with pytest.raises(ValueError, match="CalibratedForecasts learns the errors of numbers"):
        sg.CalibratedForecasts(sg.SOGP(likelihood=sg.Poisson()))
    model.learn_many(NO_INPUTS[:9], series()[:9])
    before = model.to_bytes()
    with pytest.raises(ValueError, match="steps must be"):
        model.issue_forecast(0)
    assert model.to_bytes() == before


def test_with_a_kernel_over_time_steps_are_judged_by_the_times_of_rows():
    kernel = sg.Matern(1.5, lengthscale=5.0)
    rng = np.random.default_rng(5)
    gaps = rng.choice([1.0, 1.0, 3.0], 200)  # rows that are missing
    times, models = np.cumsum(gaps), [sg.CalibratedForecasts(sg.TimeGP(kernel, noise=0.1), steps=4) for _ in range(2)]
    y = rng.standard_normal(200)
    judged = np.zeros(4)
    for t in range(199):
        models[0].learn_one((), y[t], time=times[t])
        models[0].issue_forecast(times[t] + np.arange(1.0, 5.0))
        ahead = times[t] + np.arange(1.0, 5.0)
        judged += np.isin(ahead, times[t + 1 :])
    models[0].learn_one((), y[-1], time=times[-1])
    assert models[0].judged.tolist() == judged.tolist()
    # The same rows with those that are missing, without a target.
    at = 0.0
    for t, target in zip(times, y, strict=True):
        while at + 1.0 < t:
            at += 1.0
            models[1].learn_one((), np.nan, time=at)
        at = t
        models[1].learn_one((), target, time=t)
        if t < times[-1]:
            models[1].issue_forecast(t + np.arange(1.0, 5.0))
    np.testing.assert_array_equal(models[1].judged, judged)
    a, b = (one.forecast(times[-1] + np.arange(1.0, 5.0)) for one in models)
    np.testing.assert_allclose(a.lower, b.lower, rtol=1e-8)
    np.testing.assert_allclose(a.upper, b.upper, rtol=1e-8)
    assert sg.from_bytes(models[0].to_bytes()).to_bytes() == models[0].to_bytes()


def test_derivatives_and_joint_predictions_are_those_of_the_model_within():
    rng = np.random.default_rng(6)
    X, y = rng.standard_normal((30, 2)), rng.standard_normal(30)
    inner = sg.SOGP(capacity=10)
    model = sg.CalibratedForecasts(inner, steps=3)
    for one in (inner, model):
        one.learn_many(X, y)
    for name in ("mean", "mean_gradient", "variance_gradient"):
        p, q = (getattr(one.predict_many(X, derivatives=True), name) for one in (inner, model))
        np.testing.assert_array_equal(p, q)
    np.testing.assert_array_equal(inner.predict_joint(X).covariance, model.predict_joint(X).covariance)
