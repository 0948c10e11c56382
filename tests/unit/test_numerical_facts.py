"""Ways in which plain recursions break on ordinary streams, and ours do not."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from tests import inside, oracles


def random_walk(n, d=2, step=0.02, seed=0):
    """A smooth walk, reflected into a box: neighbors in time are near-duplicates."""
    X = np.cumsum(step * np.random.default_rng(seed).normal(size=(n, d)), axis=0)
    return 2.0 * np.abs((X + 1.0) % 4.0 - 2.0) - 2.0


def inverse_error(model):
    """|QK - I|, with Q from the factor the model carries."""
    R = inside.factor(model)
    return np.abs(np.linalg.solve(R, np.linalg.solve(R.T, inside.prior(model))) - np.eye(model.size)).max()


def test_the_inverse_does_not_drift_on_a_smooth_random_walk():
    X = random_walk(20_000)
    y = np.sin(3 * X[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=len(X))
    model = sg.SOGP(sg.SquaredExponential(1.0), capacity=40, novelty=1e-6, noise=0.01)
    model.learn_many(X, y)
    assert model.size == 40
    assert inverse_error(model) < 1e-6
    assert model.health.repairs == 0


@pytest.mark.parametrize("novelty", [0.0, 1e-3])
def test_exact_duplicates_and_near_duplicates_are_an_ordinary_stream(novelty):
    rng = np.random.default_rng(0)
    X = rng.choice(rng.uniform(-2, 2, (15, 2)), size=2000) + 1e-9 * rng.normal(size=(2000, 2)) * (
        rng.random((2000, 1)) < 0.5
    )
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=2000)
    model = sg.SOGP(sg.SquaredExponential(1.0), capacity=30, novelty=novelty, noise=0.01)
    p = model.track(X, y)
    assert np.all(np.isfinite(p.mean))
    assert np.all(p.variance >= 0)
    assert np.sqrt(np.mean((p.mean - np.sin(X[:, 0]))[500:] ** 2)) < 0.05
    assert model.size <= 15
    assert model.health.repairs == 0


def test_injected_uncertainty_does_not_wind_up_on_a_constant_regressor():
    n, factor = 20_000, 0.999
    x = np.array([0.3, -0.7])
    frequencies = np.random.default_rng(0).normal(size=(10, 2))
    phi = oracles.fourier(frequencies)(x[None])[0]
    P = np.eye(20)
    for _ in range(n):  # the plain recursion
        P = P / factor
        h = P @ phi
        P = P - np.outer(h, h) / (phi @ h + 0.01)
    assert np.abs(P).max() > 1e6
    for form in ("covariance", "cholesky"):
        model = sg.OnlineGP(sg.Fourier(frequencies=frequencies), noise=0.01, forgetting=sg.Injection(factor), form=form)
        p = model.track(np.tile(x, (n, 1)), np.ones(n))
        assert model.health.capped_directions > 0
        assert np.all(p.variance >= 0)
        elsewhere = model.predict_many(np.random.default_rng(1).normal(size=(200, 2)))
        assert np.all(elsewhere.variance <= 1.0)
        assert np.all(elsewhere.variance >= 0.0)
        assert p.mean[-1] == pytest.approx(1.0, abs=1e-6)


def test_covariance_stays_positive_on_a_badly_conditioned_fixed_basis():
    points = np.linspace(-3, 3, 40)[:, None]  # condition of K about 1e16 without jitter
    model = sg.RecursiveGP(points, kernel=sg.SquaredExponential(1.0), noise=0.01, jitter=1e-8)
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (200_000, 1))
    model.learn_many(X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=len(X)))
    assert np.linalg.eigvalsh(inside.covariance(model)).min() > 0
    Xs = np.linspace(-3, 3, 101)[:, None]
    p = model.predict_many(Xs)
    assert np.sqrt(np.mean((p.mean - np.sin(Xs[:, 0])) ** 2)) < 2e-3
    assert np.all(p.variance > 0)
    assert model.health.repairs == 0


def test_a_row_whose_gain_is_not_between_0_and_1_is_counted_and_not_learned():
    model = sg.SOGP(sg.SquaredExponential(1.0), capacity=10, novelty=1e-2, noise=0.01)
    x = np.linspace(0.0, 5.0, 50)
    model.learn_many(x, np.sin(x))
    n = model.size
    model._state.covariance[0, :n, :n] = -np.eye(n)
    before = model._state.mu.copy()
    model.learn_one(2.0, 100.0)
    np.testing.assert_array_equal(model._state.mu, before)
    assert model.health.skipped_rows == 1
    assert not model.last_change.absorbed
    assert not model.last_change.admitted
    assert model.predict_one(2.0).variance >= 0


@pytest.mark.parametrize("mode", ["back-to-prior", "injection"])
def test_a_dictionary_under_forgetting_stays_sound_on_a_constant_regressor(mode):
    model = sg.KRLST(sg.SquaredExponential(1.0), capacity=10, forgetting=0.999, mode=mode, noise=0.01)
    rng = np.random.default_rng(0)
    model.learn_many(rng.uniform(-2, 2, (50, 2)), rng.normal(size=50))
    p = model.track(np.tile([0.3, -0.7], (20_000, 1)), np.ones(20_000))
    assert np.all(np.isfinite(p.mean))
    assert np.all(p.variance >= 0)
    assert p.mean[-1] == pytest.approx(1.0, abs=1e-2)
    everywhere = model.predict_many(rng.uniform(-3, 3, (200, 2))).variance
    assert np.all((everywhere >= 0) & (everywhere <= 1.0 + 1e-6))
    assert (model.health.capped_directions > 0) == (mode == "injection")


@pytest.mark.parametrize("build", [sg.SOGP, sg.KRLST, sg.ISSGPR])
def test_missing_targets_are_seen_inside_the_compiled_loop(build):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 2)), rng.normal(size=400)
    y[::3] = np.nan
    with_gaps, without = build(), build()
    with_gaps.learn_many(X, y)
    without.learn_many(X[~np.isnan(y)], y[~np.isnan(y)])
    p, q = with_gaps.predict_many(X[:20]), without.predict_many(X[:20])
    np.testing.assert_array_equal(p.mean, q.mean)
    np.testing.assert_array_equal(p.variance, q.variance)
    assert with_gaps.rows_seen == 400
    assert without.rows_seen == 266


def test_a_long_stream_with_many_close_points_needs_no_repair():
    # Held as alpha and C this model is full of NaN after 20 000 rows.
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (25_000, 1))
    truth = 10 * np.sin(2 * X[:, 0])
    Y = truth + 0.1 * rng.standard_normal(len(X))
    model = sg.SOGP(sg.SquaredExponential(1.0, variance=100.0), capacity=40, novelty=1e-6, noise=0.01)
    p = model.track(X, Y)
    assert model.health.repairs == 0
    assert np.linalg.eigvalsh(inside.covariance(model)).min() > 0
    assert np.sqrt(np.mean((p.mean - truth)[20_000:] ** 2)) < 0.004
