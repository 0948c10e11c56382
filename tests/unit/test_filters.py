"""The filters against their equations in the space of weights, each other in limits, and what they promise besides."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from streamgp.filters import KLMS, KNLMS, NORMA, QKLMS, SGDESN, BetaKLMS
from tests import oracles

LENGTHSCALE, VARIANCE = 0.8, 1.3
SE = sg.SquaredExponential(LENGTHSCALE, variance=VARIANCE)


def se(a, b):
    return VARIANCE * np.exp(-0.5 * np.sum((np.asarray(a) - np.asarray(b)) ** 2) / LENGTHSCALE**2)


FAMILY = {
    "klms": (KLMS, {"step": 0.4}),
    "qklms": (QKLMS, {"step": 0.4, "quantization": 0.5}),
    "knlms": (KNLMS, {"step": 0.6, "coherence": 0.8, "regularization": 0.05}),
    "beta-klms": (BetaKLMS, {"beta": 0.3, "noise": 0.2}),
    "norma": (NORMA, {"step": 0.4, "regularization": 0.1}),
}
expansions = pytest.mark.parametrize("name", FAMILY)


def stream(n=120, d=2, p=2, seed=0, missing=True):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    Y = np.sin(X @ rng.normal(size=(d, p))) + 0.1 * rng.normal(size=(n, p))
    if missing:
        Y[::11] = np.nan
    return X, Y


def built(name, **more):
    kind, settings = FAMILY[name]
    return kind(kernel=SE, **(settings | more))


def models():
    """One of each, with a memory."""
    filters = {name: built(name, capacity=12, depth=2) for name in FAMILY}
    return filters | {"sgd-esn": SGDESN(units=15, step=0.02, retention=0.3, feedback=0.5, seed=3)}


every_filter = pytest.mark.parametrize("name", [*FAMILY, "sgd-esn"])


# The equations.


def in_weights(name, Z, Y, variance):
    """Predictions and terms where the kernel is linear: then a sum over terms is one weight matrix W, f(z) = W z."""
    settings, W, B, means = FAMILY[name][1], np.zeros((Y.shape[1], Z.shape[1])), np.empty((0, Z.shape[1])), []
    for z, y in zip(Z, Y, strict=True):
        means.append(W @ z)
        if np.isnan(y).any():
            continue
        admitted, merged = True, None
        if name == "norma":
            W = (1.0 - settings["step"] * settings["regularization"]) * W
        if name == "qklms" and len(B) and np.linalg.norm(B - z, axis=1).min() <= settings["quantization"]:
            merged = B[np.argmin(np.linalg.norm(B - z, axis=1))]
        if name == "knlms":
            cosines = np.abs(B @ z) / np.linalg.norm(B, axis=1) / np.linalg.norm(z)
            admitted = cosines.max(initial=0.0) < settings["coherence"]
        new = np.vstack([B, z]) if admitted and merged is None else B
        if name == "knlms":
            h = variance * new @ z
            along = settings["step"] * new.T @ h / (settings["regularization"] + h @ h)
        elif name == "beta-klms":
            h, beta = variance * B @ z, settings["beta"]
            along = (z + beta * B.T @ h) / (settings["noise"] + variance * z @ z + beta * h @ h)
        else:
            along = settings["step"] * (z if merged is None else merged)
        W, B = W + variance * np.outer(y - W @ z, along), new
    return np.array(means), B


@expansions
@pytest.mark.parametrize(("depth", "p"), [(1, 1), (2, 3)])
def test_kernel_filter_with_a_linear_kernel_moves_the_weights_by_its_equations(name, depth, p):
    X, Y = stream(p=p)
    means, terms = in_weights(name, oracles.windows(X, depth), Y, 0.3)
    model = FAMILY[name][0](sg.LinearKernel(0.3), depth=depth, capacity=500, **FAMILY[name][1])
    np.testing.assert_allclose(model.track(X, Y).mean, means, rtol=0, atol=1e-10)
    np.testing.assert_array_equal(model.basis, terms)
    assert len(terms) == model.size


@pytest.mark.parametrize("augment", [True, False])
@pytest.mark.parametrize("p", [1, 2])
def test_sgd_esn_equals_the_loop_of_its_equations(augment, p):
    units, d, retention, step = 9, 2, 0.4, 0.05
    rng = np.random.default_rng(5)
    W, W_i, W_b = 0.3 * rng.normal(size=(units, units)), rng.normal(size=(units, d)), rng.normal(size=(units, p))
    X, Y = stream(p=p)

    s, last, W_o, expected = np.zeros(units), np.zeros(p), 0.0, []
    for x, y in zip(X, Y, strict=True):
        s = (1 - retention) * np.tanh(W @ s + W_i @ x + W_b @ last) + retention * s  # [soh2014] (1)
        psi = np.concatenate([s, x, [1.0]] if augment else [s, [1.0]])
        W_o = W_o if np.ndim(W_o) else np.zeros((p, psi.size))
        y_hat = W_o @ psi  # (3)
        expected.append(y_hat)
        last = y_hat if np.isnan(y).any() else y  # (2)
        if not np.isnan(y).any():
            W_o = W_o + step * np.outer(y - y_hat, psi)  # (5), psi for x

    reservoir = sg.Reservoir(units, retention=retention, recurrent=W, input=W_i, feedback=W_b, augment=augment)
    model = SGDESN(reservoir=reservoir, step=step)
    np.testing.assert_allclose(model.track(X, Y).mean, expected, rtol=0, atol=1e-10)
    assert model.size == psi.size
    assert model.basis.shape[0] == 0
    model.learn_one(X[0], Y[1])
    assert tuple(model.last_change) == (True, False, ())


def test_beta_klms_with_beta_0_equals_klms_with_the_step_of_equation_16():
    X, Y = stream(n=300, p=1)
    noise = 0.3
    for capacity in (20, 500):
        beta = BetaKLMS(SE, beta=0.0, noise=noise, capacity=capacity, depth=2)
        klms = KLMS(SE, step=1 / (noise + VARIANCE), capacity=capacity, depth=2)
        np.testing.assert_allclose(beta.track(X, Y).mean, klms.track(X, Y).mean, rtol=0, atol=1e-12)


def test_knlms_with_coherence_1_moves_as_beta_klms_where_the_new_kernel_value_is_1():
    # (10) and (19) differ in k^2 against k and in epsilon against the noise: with k(x, x) = 1 they are one rule.
    X, Y = stream(p=1)
    kernel = sg.SquaredExponential(0.8)
    beta = BetaKLMS(kernel, beta=1.0, noise=0.2)
    knlms = KNLMS(kernel, step=1.0, coherence=1.0, regularization=0.2)
    np.testing.assert_allclose(beta.track(X, Y).mean, knlms.track(X, Y).mean, rtol=0, atol=1e-12)


def test_norma_without_regularization_equals_klms():
    X, Y = stream()
    norma, klms = NORMA(SE, step=0.4, regularization=0.0, capacity=30), KLMS(SE, step=0.4, capacity=30)
    np.testing.assert_array_equal(norma.track(X, Y).mean, klms.track(X, Y).mean)


def test_qklms_with_quantization_0_equals_klms_on_a_stream_without_repetitions():
    X, Y = stream()
    qklms, klms = QKLMS(SE, step=0.4, quantization=0.0, capacity=30), KLMS(SE, step=0.4, capacity=30)
    np.testing.assert_array_equal(qklms.track(X, Y).mean, klms.track(X, Y).mean)


def test_norma_predicts_with_the_coefficients_before_their_decay():
    model = NORMA(SE, step=0.5, regularization=0.4)
    model.learn_one(0.0, 2.0)
    assert model.predict_one(0.0).mean == pytest.approx(0.5 * 2.0 * VARIANCE, abs=1e-14)
    model.learn_one(100.0, 3.0)  # far away: it adds nothing here, but everything decays by 1 - 0.2
    assert model.predict_one(0.0).mean == pytest.approx(0.8 * 0.5 * 2.0 * VARIANCE, abs=1e-14)


# The dictionary.


def test_qklms_merges_at_the_quantization_distance_and_admits_beyond():
    model = QKLMS(SE, step=1.0, quantization=0.5)
    model.learn_many([0.0, 0.5, 1.5, 1.0], [1.0, 1.0, 1.0, 1.0])
    assert model.basis.tolist() == [[0.0], [1.5]]
    assert tuple(model.last_change) == (True, False, ())


@pytest.mark.parametrize("rows_before", [[], [-9.0], [-9.0, -8.0]])
def test_qklms_merges_into_the_older_of_two_that_are_equally_near(rows_before):
    # With capacity 3 the rows before turn the ring: the older of the two does not stand first in it.
    model = QKLMS(SE, step=1.0, quantization=1.0, capacity=3)
    model.learn_many([*rows_before, -7.0, 0.0, 2.0], np.zeros(len(rows_before) + 3))
    model.learn_one(1.0, 1.0)
    assert model.basis.tolist() == [[-7.0], [0.0], [2.0]]
    assert model.predict_one(0.0).mean == pytest.approx(VARIANCE, abs=1e-14)
    assert model.predict_one(-1.0).mean == pytest.approx(se([-1.0], [0.0]), abs=1e-14)


def test_knlms_admits_only_below_the_coherence_threshold():
    threshold = float(np.exp(-0.5 * 0.25 / LENGTHSCALE**2))  # of two inputs half a unit apart
    X, Y = np.array([0.0, 0.45, 0.55, 5.0]), np.ones(4)
    model = KNLMS(SE, coherence=threshold)
    model.learn_many(X, Y)
    assert model.basis[:, 0].tolist() == [0.0, 0.55, 5.0]
    same = KNLMS(SE, coherence=1.0)
    same.learn_many([1.0, 1.0, 1.0], Y[:3])  # a repetition has coherence 1, which is not below 1
    assert same.size == 1


def test_knlms_with_a_kernel_that_vanishes_at_the_input_learns_nothing_there():
    model = KNLMS(sg.LinearKernel(), regularization=0.0)
    model.learn_one(0.0, 1.0)
    assert model.size == 0
    model.learn_many([2.0, 0.0, -3.0], [2.0, 5.0, -3.0])
    assert model.basis.tolist() == [[2.0]]
    assert model.predict_one(4.0).mean == pytest.approx(3.0, abs=1e-12)  # 4 (1 - (1 - step)^2)


@expansions
def test_full_filter_drops_its_oldest_terms(name):
    X = np.arange(10.0)[:, None] * 50.0
    model = built(name, capacity=4)
    for t, x in enumerate(X):
        model.learn_one(x, 1.0)
        assert tuple(model.last_change) == (False, True, (0,) if t >= 4 else ())
        np.testing.assert_array_equal(model.basis, X[max(0, t - 3) : t + 1])
    assert [bool(m != 0) for m in model.predict_many(X).mean] == [False] * 6 + [True] * 4


def test_full_klms_diverges_on_a_smooth_stream_and_its_cousins_do_not():
    t = np.arange(3000)
    x = np.sin(0.1 * t) * np.cos(0.031 * t)
    kernel, few = sg.SquaredExponential(0.5), {"capacity": 200, "depth": 4}

    def late_error(model):
        return np.sqrt(np.mean((model.track(x[:-1], x[1:]).mean - x[1:])[-500:] ** 2))

    assert late_error(KLMS(kernel, step=0.6, **few)) > 100
    assert late_error(KLMS(kernel, step=0.6, capacity=3000, depth=4)) < 0.02
    assert late_error(QKLMS(kernel, step=0.6, quantization=0.1, **few)) < 0.02
    assert late_error(NORMA(kernel, step=0.6, regularization=0.01, **few)) < 0.1
    assert late_error(BetaKLMS(kernel, beta=0.1, noise=0.01, **few)) < 0.1


# Variance.


def test_implied_variance_is_equation_14_and_changes_nothing():
    X, Y = stream(p=2)
    model = BetaKLMS(SE, beta=0.3, noise=0.2, capacity=15, depth=2)
    model.learn_many(X, Y)
    before = model.to_bytes()
    for x in X[:10]:
        z = np.concatenate([X[-1], x])
        expected = VARIANCE + 0.3 * sum(se(b, z) ** 2 for b in model.basis)
        assert model.implied_variance(x) == pytest.approx(expected, abs=1e-12)
    assert model.to_bytes() == before
    with pytest.raises(ValueError, match="x has NaN or inf"):
        model.implied_variance([np.nan, 0.0])


def test_implied_variances_behave_as_in_figure_1_and_a_gp_does_the_opposite():
    rng = np.random.default_rng(2)
    X = rng.uniform(-3, 3, 25)
    Y = np.sin(X)
    grid = np.linspace(-3, 3, 13)
    fixed, growing = BetaKLMS(SE, beta=0.0, noise=0.1), BetaKLMS(SE, beta=1.0, noise=0.1)
    gp = sg.SOGP(SE, capacity=30, novelty=0.0, noise=0.1)
    last_growing = last_gp = np.full(13, VARIANCE)
    assert fixed.implied_variance(0.0) == growing.implied_variance(0.0) == VARIANCE
    for first, last in ((0, 3), (3, 8), (8, 25)):
        for model in (fixed, growing, gp):
            model.learn_many(X[first:last], Y[first:last])
        np.testing.assert_allclose([fixed.implied_variance(x) for x in grid], VARIANCE, rtol=1e-15)
        now = np.array([growing.implied_variance(x) for x in grid])
        latent = gp.predict_many(grid).variance
        assert np.all(now > last_growing)
        assert np.all(latent < last_gp)
        last_growing, last_gp = now, latent


@every_filter
def test_filter_has_no_variance_and_says_so(name):
    X, Y = stream(n=10, missing=False)
    model = models()[name]
    assert not model.has_variance
    first = model.predict_one(X[0])
    assert first.mean == 0.0
    for p in (first, model.track(X, Y), model.predict_one(X[0]), model.predict_many(X)):
        assert np.isnan(p.variance).all()
        assert np.isnan(p.std).all()
        assert np.shape(p.variance) == np.shape(p.noise) == np.shape(p.mean)
        expected = 0.2 if name == "beta-klms" else np.nan
        np.testing.assert_array_equal(p.noise, np.full(np.shape(p.mean), expected))


# What every stream model promises.


def test_hyperparameters_are_the_kernels_and_the_noise_of_beta_klms():
    model = BetaKLMS(SE, noise=0.2)
    assert model.hyperparameters == {"noise": 0.2}
    model.learn_one([0.0, 1.0], 1.0)
    assert model.hyperparameters == {"lengthscale": LENGTHSCALE, "variance": VARIANCE, "noise": 0.2}
    assert KLMS().hyperparameters == SGDESN(units=5).hyperparameters == {}


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (KLMS, {"step": 0.0}, "step must be a finite number above 0; got 0.0"),
        (KLMS, {"capacity": 0}, "capacity must be a whole number of at least 1; got 0"),
        (KLMS, {"depth": 0}, "depth must be a whole number of at least 1; got 0"),
        (QKLMS, {"quantization": -0.1}, "quantization must be a finite number at least 0; got -0.1"),
        (QKLMS, {"step": np.inf}, "step must be a finite number above 0; got inf"),
        (KNLMS, {"coherence": 0.0}, "coherence must be a finite number above 0 and at most 1; got 0.0"),
        (KNLMS, {"coherence": 1.1}, "coherence must be a finite number above 0 and at most 1; got 1.1"),
        (KNLMS, {"regularization": -1.0}, "regularization must be a finite number at least 0; got -1.0"),
        (BetaKLMS, {"beta": -0.5}, "beta must be a finite number at least 0; got -0.5"),
        (BetaKLMS, {"noise": 0.0}, "noise must be a finite number above 0 and at least 1e-100; got 0.0"),
        (NORMA, {"step": 0.5, "regularization": 2.0}, "step [*] regularization must be below 1"),
        (NORMA, {"regularization": -0.1}, "regularization must be a finite number at least 0; got -0.1"),
        (SGDESN, {"step": -0.1}, "step must be a finite number above 0; got -0.1"),
        (SGDESN, {"reservoir": sg.Reservoir(10), "units": 20}, "the reservoir is given twice"),
    ],
)
def test_settings_out_of_range_are_refused_by_name(kind, settings, message):
    with pytest.raises(ValueError, match=message):
        kind(**settings)
