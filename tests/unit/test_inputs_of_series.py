"""Inputs beside a kernel over time: the evidence and the forecasts are those of one batch Gaussian process."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from streamgp.tuning.inputs import InputFeatures
from streamgp.tuning.time import Inputs, Series, TimeEvidence

KERNEL = sg.Matern(1.5, lengthscale=6.0, variance=2.0) + sg.Matern(0.5, lengthscale=2.0, variance=0.5)


def rows(n=60, seed=0):
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.uniform(0.2, 2.0, n))
    X = rng.standard_normal((n, 1))
    return times, X, np.sin(0.3 * times) + 2.0 * np.abs(X[:, 0]) + 0.1 * rng.standard_normal(n)


def batch_covariance(times, F, noise):
    return F @ F.T + KERNEL(times[:, None]) + noise * np.eye(len(times))


@pytest.mark.parametrize("spacing", ["regular", "irregular"])
def test_the_evidence_and_its_gradient_are_those_of_the_batch_process(spacing):
    times, X, y = rows()
    times = np.arange(float(len(times))) if spacing == "regular" else times
    features = InputFeatures(X, 12.0)
    F, _ = features(X, times, None)
    count = features.groups[-1] + 1
    variances = np.linspace(0.05, 0.4, count)
    series = Series(times, y[:, None], len(y))
    evidence = TimeEvidence(KERNEL, 0.3, series, Inputs(F, features.groups, variances))
    K = batch_covariance(times, F * np.sqrt(variances)[features.groups], 0.3)
    expected = -0.5 * (y @ np.linalg.solve(K, y) + np.linalg.slogdet(K)[1] + len(y) * np.log(2 * np.pi))
    value, gradient = evidence(evidence.start)
    assert value == pytest.approx(expected, rel=1e-9)
    for i in range(len(gradient)):
        by = np.zeros(len(gradient))
        by[i] = 1e-5
        slope = (evidence(evidence.start + by)[0] - evidence(evidence.start - by)[0]) / 2e-5
        assert gradient[i] == pytest.approx(slope, rel=1e-5, abs=1e-5), evidence.names[i]


def test_a_forecast_with_inputs_is_that_of_the_batch_process():
    times, X, y = rows()
    learned = slice(0, 50)
    forecaster = sg.Forecaster(y[learned], times[learned], X[learned], seasons=[], log=False, trend=False)
    ahead = forecaster.forecast(times[50:], X[50:])
    chosen, features = forecaster.chosen, InputFeatures(X[learned], None)
    F = features(X, times, None)[0] * np.sqrt(chosen.variances)[features.groups]
    K = F @ F.T + chosen.kernel(times[:, None])
    gain = np.linalg.solve(K[learned, learned] + chosen.noise * np.eye(50), K[learned, 50:]).T
    np.testing.assert_allclose(ahead.median, chosen.center + gain @ (y[learned] - chosen.center), rtol=1e-7)
    variance = np.diag(K[50:, 50:] - gain @ K[learned, 50:])
    np.testing.assert_allclose(ahead.within.variance, variance, rtol=1e-6)
    assert next(iter(ahead.components)) == "inputs"


def test_the_mean_of_the_last_season_goes_on_from_row_to_row():
    times, X, _ = rows()
    features = InputFeatures(X, 12.0)
    whole, _ = features(X, times, None)
    first, recent = features(X[:20], times[:20], None)
    then, _ = features(X[20:], times[20:], recent)
    np.testing.assert_allclose(np.vstack([first, then]), whole, rtol=1e-12)


def test_many_inputs_have_fewer_features_each():
    rng = np.random.default_rng(0)
    for d, width in ((1, 70), (2, 140), (5, 70), (40, 80)):
        X = rng.standard_normal((30, d))
        features = InputFeatures(X, 12.0)
        assert features(X, np.arange(30.0), None)[0].shape == (30, width)
        assert len(features.groups) == width
    with pytest.raises(ValueError, match="X has 71 columns; a forecast takes at most 70"):
        InputFeatures(np.ones((3, 71)), 12.0)


def test_inputs_explain_what_time_cannot():
    rng = np.random.default_rng(3)
    hours = np.arange(24.0 * 20)
    warmth = np.repeat(rng.normal(10.0, 5.0, 20), 24)  # as it likes, every day
    load = 100 + 5 * np.sin(2 * np.pi * hours / 24) + 1.5 * np.maximum(12 - warmth, 0) + rng.normal(0, 0.3, len(hours))
    past, ahead = slice(0, 24 * 19), slice(24 * 19, None)
    settings = {"seasons": [24.0], "log": False, "trend": False}
    knows = sg.Forecaster(load[past], hours[past], warmth[past], **settings)
    days = load.reshape(20, 24).mean(axis=1)
    assert np.abs(knows.forecast(hours[ahead], warmth[ahead]).median - load[ahead]).mean() < 0.2 * np.std(days)
    stays = knows.forecast(24).median
    np.testing.assert_array_equal(stays, knows.forecast(hours[ahead], np.full((24, 1), warmth[past][-1])).median)
    knows.learn([50.0], hours[past][-1:], [40.0])  # repeats a time that was learned
    assert knows.repeated == 1
    np.testing.assert_array_equal(knows.forecast(24).median, stays)


def test_inputs_that_do_not_fit_are_refused():
    times, X, y = rows()
    settings = {"seasons": [], "log": False, "trend": False}
    gap = X.copy()
    gap[7] = np.nan
    plain, beside = sg.Forecaster(y, times, **settings), sg.Forecaster(y, times, X, **settings)
    for call, message in (
        (lambda: sg.Forecaster(y, times, X[:-1], **settings), "X has 59 rows, but there are 60 times"),
        (lambda: sg.Forecaster(y, times, gap, **settings), "X has NaN or inf in row 7"),
        (lambda: plain.forecast([100.0], [[1.0]]), "this Forecaster has no inputs"),
        (lambda: beside.learn([1.0], [100.0]), "X is missing; this Forecaster has 1 inputs"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
