"""LocalGP against dense Gaussian processes on the points its experts hold."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from streamgp.local import LocalGP

LENGTHSCALE, VARIANCE, NOISE = 0.8, 1.5, 0.05


def kernel():
    return sg.SquaredExponential(LENGTHSCALE, variance=VARIANCE)


def k(A, B):
    return VARIANCE * np.exp(-0.5 * np.sum((A[:, None] - B[None]) ** 2, axis=-1) / LENGTHSCALE**2)


def dense_gp(X, Y, Xt):
    """Mean and latent variance of the exact GP, by an inverse."""
    Q = np.linalg.inv(k(X, X) + NOISE * np.eye(len(X)))
    return k(Xt, X) @ Q @ Y, VARIANCE - np.einsum("ti,ij,tj->t", k(Xt, X), Q, k(Xt, X))


def rows(n, d=2, seed=0, span=2.0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-span, span, (n, d))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, -1] + 0.1 * rng.standard_normal(n)


def targets_of(model, X, Y):
    """The targets of the points each expert holds, found by their inputs."""
    return [np.array([Y[np.flatnonzero((point == X).all(axis=1))[0]] for point in points]) for points in model.points]


def mixture(model, X, Y, Xt, neighbors=None):
    """The stated rule, expert by expert, row by row."""
    centres = np.array([points.mean(axis=0) for points in model.points])
    w = np.exp(-0.5 * np.sum((Xt[:, None] - centres) ** 2, axis=-1) / LENGTHSCALE**2)
    if neighbors is not None:
        for row in w:
            row[np.argsort(row)[:-neighbors]] = 0.0
    w /= w.sum(axis=1, keepdims=True)
    parts = [dense_gp(p, y, Xt) for p, y in zip(model.points, targets_of(model, X, Y), strict=True)]
    m, v = np.array([p[0] for p in parts]).T, np.array([p[1] for p in parts]).T
    mean = np.sum(w * m, axis=1)
    return mean, np.sum(w * (v + m**2), axis=1) - mean**2


def test_one_expert_with_room_equals_the_exact_gp():
    X, Y = rows(60)
    Xt = rows(40, seed=1, span=3.0)[0]
    model = LocalGP(kernel(), noise=NOISE, experts=1, capacity=60)
    model.learn_many(X, Y)
    p = model.predict_many(Xt)
    mean, variance = dense_gp(X, Y, Xt)
    np.testing.assert_allclose(p.mean, mean, atol=1e-8)
    np.testing.assert_allclose(p.variance, variance, atol=1e-8)
    np.testing.assert_array_equal(p.noise, NOISE)


@pytest.mark.parametrize("neighbors", [None, 1, 2, 50])
def test_predictions_are_the_mixture_of_the_experts(neighbors):
    X, Y = rows(150)
    Xt = rows(30, seed=1)[0]
    model = LocalGP(kernel(), noise=NOISE, experts=8, capacity=15, threshold=0.4, neighbors=neighbors)
    model.learn_many(X, Y)
    assert model.size > 3
    p = model.predict_many(Xt)
    mean, variance = mixture(model, X, Y, Xt, None if neighbors == 50 else neighbors)
    np.testing.assert_allclose(p.mean, mean, atol=1e-8)
    np.testing.assert_allclose(p.variance, variance, atol=1e-8)


def test_a_row_goes_to_the_most_similar_expert_or_begins_one():
    X, Y = rows(200)
    model = LocalGP(kernel(), noise=NOISE, experts=6, capacity=30, threshold=0.5)
    for x, y in zip(X, Y, strict=True):
        before = [len(points) for points in model.points]
        similarity = (
            np.exp(-0.5 * np.sum((model.basis - x) ** 2, axis=1) / LENGTHSCALE**2) if model.size else np.zeros(0)
        )
        if similarity.max(initial=0.0) < 0.5 and model.size < 6:
            before.append(1)
        elif before[int(np.argmax(similarity))] < 30:
            before[int(np.argmax(similarity))] += 1
        model.learn_one(x, y)
        assert [len(points) for points in model.points] == before
        np.testing.assert_allclose(model.basis, [points.mean(axis=0) for points in model.points], atol=1e-12)


def test_a_full_expert_drops_the_point_that_the_others_predict_best():
    X, Y = rows(60, span=1.0)
    model = LocalGP(kernel(), noise=NOISE, experts=1, capacity=10)
    held = np.empty((0, 2))
    dropped_new = 0
    for x, y in zip(X, Y, strict=True):
        held = np.vstack([held, x])
        model.learn_one(x, y)
        if len(held) > 10:
            rest = [np.delete(held, i, axis=0) for i in range(11)]
            variance = [dense_gp(r, np.zeros(10), held[i : i + 1])[1][0] for i, r in enumerate(rest)]
            out = int(np.argmin(variance))
            assert model.last_change == (False, True, (out,))
            held = np.delete(held, out, axis=0)
            dropped_new += out == 10
        np.testing.assert_array_equal(model.points[0], held)
    assert 0 < dropped_new < 50


def test_dropping_the_oldest_is_a_sliding_window():
    X, Y = rows(40)
    model = LocalGP(kernel(), noise=NOISE, experts=1, capacity=12, drop="oldest")
    model.learn_many(X, Y)
    p = model.predict_many(X)
    mean, variance = dense_gp(X[-12:], Y[-12:], X)
    np.testing.assert_allclose(p.mean, mean, atol=1e-8)
    np.testing.assert_allclose(p.variance, variance, atol=1e-8)


def test_memory_is_bounded_and_the_factors_stay_exact_over_many_replacements():
    rng = np.random.default_rng(0)
    walk = np.cumsum(0.1 * rng.standard_normal((6000, 2)), axis=0)
    walk = 3.0 * np.sin(walk)
    model = LocalGP(kernel(), noise=1e-4, experts=5, capacity=20)
    model.learn_one(walk[0], 0.0)
    length = len(model.to_bytes())
    model.learn_many(walk, np.sin(walk[:, 0]))
    assert len(model.to_bytes()) == length
    assert model.size == 5
    arrays = model._arrays()
    for e, points in enumerate(model.points):
        n = len(points)
        A = k(points, points) + 1e-4 * np.eye(n)
        R = arrays["factors"][e, :n, :n]
        np.testing.assert_allclose(R.T @ R, A, atol=1e-10)
        np.testing.assert_allclose(arrays["inverse_diagonals"][e, :n], np.diag(np.linalg.inv(A)), rtol=1e-5)
        assert not arrays["points"][e, n:].any()
        assert not arrays["factors"][e, n:].any()
    assert model.health.repairs == 0


@pytest.mark.parametrize("x", [20.0, 30.0, 30.95, 31.0, 50.0])
def test_far_away_the_mixture_fades_into_the_prior(x):
    model = LocalGP(kernel(), noise=NOISE, experts=2)
    model.learn_many([-1.0, 1.0], [3.0, 5.0])
    p = model.predict_one(x)
    assert p.mean == pytest.approx(0.0, abs=1e-12)
    assert p.variance == pytest.approx(VARIANCE, rel=1e-12)


def test_a_pivot_that_arithmetic_cannot_resolve_is_floored_and_counted():
    model = LocalGP(noise=1e-20, experts=1, capacity=3)
    model.learn_many([0.0, 0.0, 0.0, 1.0, 0.0], np.ones(5))
    assert model.health.floored_pivots > 0
    p = model.predict_many([0.0, 0.5, 1.0])
    assert np.all(np.isfinite(p.mean))
    assert np.all(p.variance >= 0)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"kernel": 1.0}, TypeError, "kernel must be a kernel such as"),
        ({"noise": 0.0}, ValueError, "noise must be a finite number above 0"),
        ({"experts": 0}, ValueError, "experts must be a whole number of at least 1"),
        ({"capacity": 0}, ValueError, "capacity must be a whole number of at least 1"),
        ({"threshold": 1.5}, ValueError, "threshold must be a finite number at least 0 and at most 1"),
        ({"neighbors": 0}, ValueError, "neighbors must be a whole number of at least 1"),
        ({"drop": "newest"}, ValueError, "drop must be one of 'redundant', 'oldest'"),
        ({"treshold": 0.5}, TypeError, "Did you mean 'threshold'"),
    ],
)
def test_bad_settings_are_refused_with_a_sentence(settings, error, message):
    with pytest.raises(error, match=message):
        LocalGP(**settings)
