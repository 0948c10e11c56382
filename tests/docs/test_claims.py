"""Claims of the pages that no other test shows: mostly when not to use a model."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from tests import oracles


@pytest.mark.more
def test_too_few_frequencies_for_the_range_give_error_bars_that_are_far_too_small():
    rng = np.random.default_rng(0)
    grid = np.linspace(-10, 10, 400)[:, None]
    K = oracles.squared_exponential(0.3)(grid, grid) + 1e-8 * np.eye(400)
    f = np.linalg.cholesky(K) @ rng.normal(size=400)
    x = rng.uniform(-10, 10, 4000)
    y = np.interp(x, grid[:, 0], f) + 0.1 * rng.normal(size=4000)
    held = {}
    for features in (20, 400):
        low, high = sg.ISSGPR(features, lengthscale=0.3, noise=0.01).track(x, y).interval(0.95)
        held[features] = np.mean(((low <= y) & (y <= high))[2000:])
    assert held[20] < 0.5
    assert held[400] > 0.85


@pytest.mark.parametrize("d", [2, 10])
def test_orthogonal_frequencies_approximate_the_kernel_better(d):
    X = np.random.default_rng(0).uniform(-1, 1, (60, d))
    scale = 0.5 * np.sqrt(d)
    K = oracles.squared_exponential(scale)(X, X)
    errors = []
    for orthogonal in (False, True):
        for seed in range(20):
            Phi = oracles.fourier(
                sg.Fourier(100, lengthscale=scale, seed=seed, orthogonal=orthogonal).frequencies(d, 1)
            )(X)
            errors.append(np.sqrt(np.mean((Phi @ Phi.T - K) ** 2)))
    assert np.mean(errors[20:]) < 0.9 * np.mean(errors[:20])


def test_fbkrls_keeps_old_rows_after_a_change_and_krlst_follows_it():
    rng = np.random.default_rng(0)
    x = rng.uniform(-3, 3, 3000)
    truth = np.where(np.arange(3000) < 1500, 1.0, -1.0) * np.sin(x)
    y = truth + 0.1 * rng.normal(size=3000)
    kernel = sg.SquaredExponential(1.0)
    fixed, tracker = sg.FBKRLS(kernel, capacity=50), sg.KRLST(kernel, capacity=50, forgetting=0.99)
    errors = [np.sqrt(np.mean((model.track(x, y).mean - truth)[-300:] ** 2)) for model in (fixed, tracker)]
    assert sum(b in x[:1500] for b in fixed.basis[:, 0]) > 10
    assert errors[0] > 0.3
    assert errors[1] < 0.1


@pytest.mark.parametrize("mode", ["back-to-prior", "injection"])
def test_elsewhere_injection_forgets_the_certainty_and_back_to_prior_the_mean_too(mode):
    model = sg.KRLST(sg.SquaredExponential(1.0), capacity=20, forgetting=0.99, mode=mode, noise=0.01)
    x = np.linspace(-3, 3, 60)
    model.learn_many(np.tile(x, 5), np.tile(np.sin(x), 5))
    before = model.predict_one(1.5)
    model.learn_many(np.full(3000, -2.5), np.full(3000, np.sin(-2.5)))
    after = model.predict_one(1.5)
    assert before.mean == pytest.approx(np.sin(1.5), abs=0.1)
    assert before.variance < 0.2
    assert after.variance > 0.5
    assert (abs(after.mean) < 1e-3) == (mode == "back-to-prior")


def test_the_point_that_leaves_may_be_the_new_one():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (200, 2))
    model = sg.SOGP(sg.SquaredExponential(0.5), capacity=10)
    evicted = []
    for x, y in zip(X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=200), strict=True):
        model.learn_one(x, y)
        evicted.append(model.last_change.evicted)
    assert max(evicted) == 10
    assert 0 <= min(e for e in evicted if e >= 0) < 10


def test_a_window_that_has_passed_leaves_swkrls_with_the_prior():
    x = np.linspace(0, 20, 500)
    model = sg.SWKRLS(sg.SquaredExponential(1.0), capacity=50)
    model.learn_many(x, np.sin(x))
    assert model.predict_one(0.0).variance == pytest.approx(1.0)
    assert model.predict_one(0.0).mean == pytest.approx(0.0, abs=1e-12)
