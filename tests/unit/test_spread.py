"""Spread: intervals of forecasts are as wide as past errors tell, by steps ahead."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri

import streamgp as sg
from streamgp.tuning.spread import GAUSSIAN, MEMORY, Spread

STEPS = np.arange(1.0, 4.0)


def test_without_past_forecasts_it_is_the_gaussian():
    for part in (0.01, 0.5, 0.9, 0.999):
        np.testing.assert_allclose(Spread(3).size(STEPS, part), ndtri(0.5 + part / 2), rtol=1e-9)


def test_it_is_the_mixture_of_gaussian_and_errors():
    spread, rng = Spread(3), np.random.default_rng(0)
    errors = 2.0 * rng.standard_normal((30, 3))
    for z in errors:
        spread.add(STEPS, z)
    size = np.array([0.5, 1.0, 3.0])
    below = (np.abs(errors) <= size).sum(axis=0)
    gaussian = [0.38292492254802624, 0.6826894921370859, 0.9973002039367398]
    np.testing.assert_allclose(spread.part(STEPS, size), (GAUSSIAN * np.array(gaussian) + below) / (GAUSSIAN + 30))
    for part in (0.3, 0.9):
        at = spread.size(STEPS, part)
        assert np.all(spread.part(STEPS, at) >= part)
        assert np.all(spread.part(STEPS, at * (1 - 1e-9)) <= part)


def test_each_step_has_its_own_width_and_old_errors_are_forgotten():
    spread = Spread(3)
    for _ in range(MEMORY):
        spread.add(STEPS, np.array([100.0, 100.0, np.nan]))
    for _ in range(MEMORY):
        spread.add(STEPS, np.array([1.0, 5.0, np.nan]))
    near, far, unknown = spread.size(STEPS, 0.9)
    assert near < 1.01
    assert far == pytest.approx(5.0)
    assert unknown == pytest.approx(ndtri(0.95))
    assert spread.size(np.array([8.0]), 0.9) == pytest.approx(unknown)


def test_past_forecasts_widen_intervals_that_were_too_narrow():
    rng = np.random.default_rng(0)
    y = np.cumsum(rng.standard_t(2.0, 400))
    forecaster = sg.Forecaster(y[:300], seasons=[], log=False, trend=False)
    forecaster.chosen = forecaster.chosen._replace(noise=1e-3 * forecaster.chosen.noise)
    forecaster = forecaster.fresh()
    forecaster.learn(y[:300], np.arange(300.0))
    before = forecaster.forecast(5)
    parts = forecaster.calibrate(y[:300], steps=5)
    assert parts.shape == (40, 5)
    assert np.nanmin(parts) >= 0
    assert np.nanmax(parts) <= 1
    after = forecaster.forecast(5)
    np.testing.assert_array_equal(after.median, before.median)
    expected = [forecaster.spread.size(np.array([k]), 0.98)[0] for k in range(1, 6)]
    width = np.subtract(*after.interval(0.98)[::-1]) / 2
    np.testing.assert_allclose(width / np.sqrt(after.within.variance + after.within.noise), expected, rtol=1e-9)
    forecaster.judge(after, np.full(5, 1e6))
    assert np.all(np.subtract(*forecaster.forecast(5).interval(0.999)[::-1]) > 1e6)
