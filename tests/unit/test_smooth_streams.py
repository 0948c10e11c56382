"""Ordinary smooth streams on which version 0.1 exploded, each kept as a test."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg

N = 30_000
T = np.arange(N)


def assert_sane(p, y, rmse):
    assert np.all(np.isfinite(p.mean))
    assert np.abs(p.mean).max() < 20 * np.abs(y).max()
    assert p.variance.min() >= 0
    assert np.sqrt(np.mean((p.mean - y)[1000:] ** 2)) < rmse


def test_adaptation_survives_a_smooth_path_in_the_plane():
    X = 3 * np.column_stack([np.sin(T / 30), np.sin(T / 47)])
    y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=N)
    model = sg.SOGP(sg.SquaredExponential(1.0), noise=0.01, adapt=sg.SNGD())
    p = model.track(X, y)
    assert_sane(p, y, 0.105)
    assert model.health.repairs == 0


@pytest.mark.parametrize("novelty", [1e-3, 1e-5, 1e-6, 1e-7, 1e-9, 0.0])
@pytest.mark.parametrize("noise", [1e-2, 1e-4])
def test_small_novelty_survives_a_sine(novelty, noise):
    x = 3 * np.sin(T / 30)
    y = np.sin(x) + np.sqrt(noise) * np.random.default_rng(0).normal(size=N)
    model = sg.SOGP(sg.SquaredExponential(1.0), novelty=novelty, noise=noise)
    p = model.track(x, y)
    assert_sane(p, y, 1.05 * np.sqrt(noise))
    assert model.health.repairs == 0


@pytest.mark.parametrize("build", [sg.SOGP, sg.KRLS, sg.KRLST, lambda kernel: sg.KRLS(kernel, noise=0.0)])
@pytest.mark.parametrize("kernel", [sg.LinearKernel(), sg.SquaredExponential(1.0) * sg.LinearKernel()])
def test_a_row_where_the_kernel_vanishes_teaches_nothing_and_breaks_nothing(build, kernel):
    model = build(kernel)
    model.learn_one([0.0, 0.0], 1.0)
    assert model.predict_one([0.0, 0.0]).mean == 0.0
    assert model.size == 0
    model.learn_one([1.0, 0.0], 1.0)
    assert model.predict_one([1.0, 0.0]).mean == pytest.approx(1.0, abs=0.02)


def test_adaptation_of_a_sum_survives_inputs_that_grow_fivefold():
    rng = np.random.default_rng(0)
    x = rng.normal(size=20_000) * np.where(np.arange(20_000) < 5000, 1.0, 5.0)
    y = x / 2 + np.sin(x) + 0.1 * rng.normal(size=20_000)
    p = sg.SOGP(sg.SquaredExponential(1.0) + sg.LinearKernel(), noise=0.01, adapt=sg.SNGD()).track(x, y)
    assert_sane(p, y, 0.15)


@pytest.mark.parametrize("build", [sg.SOGP, sg.KRLST, sg.ISSGPR, sg.filters.KLMS])
@pytest.mark.parametrize(
    ("x", "y", "message"), [(1.0, 1e308, "y has a number beyond"), (-1e300, 1.0, "x has a number")]
)
def test_numbers_whose_squares_overflow_are_refused_and_change_nothing(build, x, y, message):
    model = build()
    model.learn_one(0.5, 1.0)
    before = model.to_bytes()
    with pytest.raises(ValueError, match=f"{message}.*Standardize"):
        model.learn_one(x, y)
    assert model.to_bytes() == before


def test_the_same_data_in_other_units_give_the_same_numbers():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (2000, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=2000)
    p = sg.KRLST(sg.SquaredExponential(1.0), noise=0.01, capacity=30).track(X, y)
    q = sg.KRLST(sg.SquaredExponential(1e9, variance=1e6), noise=1e4, capacity=30).track(1e9 * X, 1e3 * y)
    np.testing.assert_allclose(q.mean / 1e3, p.mean, atol=1e-9)
    np.testing.assert_allclose(q.variance / 1e6, p.variance, atol=1e-9)
