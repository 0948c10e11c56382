"""What must hold for any stream."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamgp as sg
from tests import inside, oracles


@st.composite
def streams(draw, most=40):
    """Inputs that repeat and nearly repeat, as streams do; targets of any scale."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d, p = draw(st.integers(2, most)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    X = rng.normal(size=(n, d))
    again = rng.random(n) < draw(st.sampled_from([0.0, 0.3, 0.8]))
    X[again] = X[rng.integers(n, size=again.sum())] + draw(st.sampled_from([0.0, 1e-12, 1e-6])) * rng.normal(
        size=(again.sum(), d)
    )
    return X, draw(st.sampled_from([1e-3, 1.0, 1e3])) * rng.normal(size=(n, p))


@given(streams(), st.sampled_from(["points", "fourier", "sogp"]), st.randoms(use_true_random=False))
def test_order_does_not_matter_when_nothing_is_forgotten_or_evicted(data, kind, random):
    X, Y = data
    order = list(range(len(X)))
    random.shuffle(order)
    build = {
        "points": lambda: sg.RecursiveGP(np.linspace(-2, 2, 7)[:, None] * np.ones(X.shape[1]), kernel=sg.Matern(0.5)),
        "fourier": lambda: sg.ISSGPR(10),
        "sogp": lambda: sg.SOGP(capacity=len(X), novelty=0, jitter=1e-6),
    }[kind]
    one, other = build(), build()
    one.learn_many(X, Y)
    other.learn_many(X[order], Y[order])
    scale = np.abs(Y).max()
    np.testing.assert_allclose(one.predict_many(X).mean, other.predict_many(X).mean, atol=1e-8 * scale)
    np.testing.assert_allclose(one.predict_many(X).variance, other.predict_many(X).variance, atol=1e-8)


@given(streams(), st.sampled_from([1.0, 0.9]), st.sampled_from(["back-to-prior", "injection"]))
def test_covariance_is_symmetric_and_positive_and_variances_lie_between_zero_and_the_prior(data, forgetting, mode):
    X, Y = data
    model = sg.KRLST(capacity=6, forgetting=forgetting, mode=mode)
    p = model.track(X, Y)
    assert np.all((p.variance >= 0) & (p.variance <= 1.0 + 1e-6))
    eigenvalues = np.linalg.eigvalsh(inside.covariance(model))
    assert eigenvalues.min() > 0
    assert eigenvalues.max() < (1 + 1e-9 if mode == "back-to-prior" or forgetting == 1 else 2.5)


@pytest.mark.more
@given(streams())
def test_growing_then_dropping_the_newest_point_is_absorbing_it(data):
    X, Y = data
    x, y = X[-1], Y[-1]
    grown = sg.SOGP(sg.Matern(0.5), capacity=len(X), novelty=1e-6, jitter=1e-6)
    grown.learn_many(X[:-1], Y[:-1])
    absorbed = grown.copy()
    inside.absorb_from_now_on(absorbed)
    absorbed.learn_one(x, y)
    grown.learn_one(x, y)
    if grown.last_change.admitted:
        inside.evict(grown, grown.size - 1)
    scale = np.abs(Y).max()
    np.testing.assert_allclose(grown.predict_many(X).mean, absorbed.predict_many(X).mean, atol=1e-8 * scale)
    np.testing.assert_allclose(grown.predict_many(X).variance, absorbed.predict_many(X).variance, atol=1e-8)


@given(streams(), st.sampled_from([0.0, 1e-3]))
def test_the_factor_is_that_of_the_kernel_matrix_through_growth_and_eviction(data, novelty):
    X, Y = data
    model = sg.SOGP(sg.Matern(1.5), capacity=6, novelty=novelty, jitter=1e-6)
    model.learn_many(X, Y)
    n = model.size
    R = model._state.factor[:n, :n]
    np.testing.assert_array_equal(R, np.triu(R))
    np.testing.assert_allclose(R.T @ R, inside.prior(model), atol=1e-12)
    Q = np.linalg.inv(inside.prior(model))
    np.testing.assert_allclose(model._state.inverse_diagonal[:n], np.diag(Q), rtol=1e-6)
    assert not model._state.inverse_diagonal[n:].any()


@given(streams(), st.sampled_from([1e-3, 7.0, 1e4]))
def test_scaling_the_targets_scales_the_mean_and_leaves_the_variance(data, factor):
    X, Y = data
    one, other = sg.RecursiveGP(X[:1] + np.arange(4.0)[:, None]), sg.RecursiveGP(X[:1] + np.arange(4.0)[:, None])
    p, q = one.track(X, Y), other.track(X, factor * Y)
    np.testing.assert_allclose(q.mean, factor * p.mean, rtol=1e-9, atol=1e-12 * factor * np.abs(Y).max())
    np.testing.assert_array_equal(q.variance, p.variance)


@given(streams())
def test_learning_a_row_never_raises_the_variance_anywhere(data):
    X, Y = data
    model = sg.SOGP(capacity=len(X), novelty=0, noise=0.1)
    model.learn_many(X[:-1], Y[:-1])
    before = model.predict_many(X).variance
    model.learn_one(X[-1], Y[-1])
    assert np.all(model.predict_many(X).variance <= before + 1e-10)


@given(streams(), st.integers(1, 5))
def test_windows_are_those_of_the_definition(data, depth):
    X, Y = data
    model = sg.SOGP(capacity=len(X), novelty=0, depth=depth, jitter=1e-6)  # with it even a repeated row is a point
    model.learn_many(X, Y)
    np.testing.assert_array_equal(model.basis, oracles.windows(X, depth))
