"""The filters against loops written from the papers' equations with lists and NumPy, and what they promise besides."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from streamgp.filters import KLMS, KNLMS, NORMA, QKLMS, SGDESN, BetaKLMS

LENGTHSCALE, VARIANCE = 0.8, 1.3
SE = sg.SquaredExponential(LENGTHSCALE, variance=VARIANCE)


def se(a, b):
    return VARIANCE * np.exp(-0.5 * np.sum((np.asarray(a) - np.asarray(b)) ** 2) / LENGTHSCALE**2)


class Slow:
    """An expansion as two Python lists, oldest term first; a subclass says what learning does to them."""

    def __init__(self, k=se, capacity=500, depth=1, **settings):
        self.k, self.capacity, self.depth = k, capacity, depth
        self.basis, self.alpha, self.past = [], [], []
        for name, value in settings.items():
            setattr(self, name, value)

    def window(self, x):
        lags = [np.zeros(len(x))] * self.depth + self.past + [np.asarray(x)]
        return np.concatenate(lags[-self.depth :])

    def vector(self, z):
        return np.array([self.k(b, z) for b in self.basis])

    def mean(self, z, p):
        return sum((a * k for a, k in zip(self.alpha, self.vector(z), strict=True)), np.zeros(p))

    def step_through(self, X, Y):
        """The predictions, and (absorbed, admitted, evicted) of every row."""
        means, changes = [], []
        for x, y in zip(X, Y, strict=True):
            z = self.window(x)
            means.append(self.mean(z, len(y)))
            self.past.append(np.asarray(x))
            if np.isnan(y).any():
                changes.append((False, False, ()))
                continue
            before = len(self.basis)
            admitted = self.learn(z, y)
            evicted = len(self.basis) > self.capacity
            if evicted:
                del self.basis[0], self.alpha[0]
            assert len(self.basis) == before + admitted - evicted
            changes.append((not admitted, admitted, (0,) if evicted else ()))
        return np.array(means), changes


class SlowKLMS(Slow):
    def learn(self, z, y):
        e = y - self.mean(z, len(y))
        self.basis.append(z)
        self.alpha.append(self.step * e)
        return True


class SlowQKLMS(Slow):
    def learn(self, z, y):
        e = y - self.mean(z, len(y))
        distances = [np.linalg.norm(b - z) for b in self.basis]
        if distances and min(distances) <= self.quantization:
            i = int(np.argmin(distances))
            self.alpha[i] = self.alpha[i] + self.step * e
            return False
        self.basis.append(z)
        self.alpha.append(self.step * e)
        return True


class SlowKNLMS(Slow):
    def learn(self, z, y):
        e = y - self.mean(z, len(y))
        coherences = [abs(self.k(b, z)) / np.sqrt(self.k(b, b) * self.k(z, z)) for b in self.basis]
        admitted = max(coherences, default=0.0) < self.coherence
        if admitted:
            self.basis.append(z)
            self.alpha.append(np.zeros(len(y)))
        h = self.vector(z)
        self.alpha = [
            a + self.step * e * hi / (self.regularization + h @ h) for a, hi in zip(self.alpha, h, strict=True)
        ]
        return admitted


class SlowBetaKLMS(Slow):
    def variance(self, z):
        return self.k(z, z) + self.beta * np.sum(self.vector(z) ** 2)

    def learn(self, z, y):
        gain = (y - self.mean(z, len(y))) / (self.noise + self.variance(z))
        self.alpha = [a + gain * self.beta * k for a, k in zip(self.alpha, self.vector(z), strict=True)]
        self.basis.append(z)
        self.alpha.append(gain)
        return True


class SlowNORMA(Slow):
    def learn(self, z, y):
        self.alpha = [(1 - self.step * self.regularization) * a for a in self.alpha]
        e = y - self.mean(z, len(y))
        self.basis.append(z)
        self.alpha.append(self.step * e)
        return True


FAMILY = {
    "klms": (KLMS, SlowKLMS, {"step": 0.4}),
    "qklms": (QKLMS, SlowQKLMS, {"step": 0.4, "quantization": 0.5}),
    "knlms": (KNLMS, SlowKNLMS, {"step": 0.6, "coherence": 0.8, "regularization": 0.05}),
    "beta-klms": (BetaKLMS, SlowBetaKLMS, {"beta": 0.3, "noise": 0.2}),
    "norma": (NORMA, SlowNORMA, {"step": 0.4, "regularization": 0.1}),
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
    kind, _, settings = FAMILY[name]
    return kind(kernel=SE, **(settings | more))


def models():
    """One of each, with a memory."""
    filters = {name: built(name, capacity=12, depth=2) for name in FAMILY}
    return filters | {"sgd-esn": SGDESN(units=15, step=0.02, retention=0.3, feedback=0.5, seed=3)}


every_filter = pytest.mark.parametrize("name", [*FAMILY, "sgd-esn"])


# The equations.


@expansions
@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("capacity", [7, 500])
@pytest.mark.parametrize("p", [1, 3])
def test_kernel_filter_equals_the_loop_of_its_equations(name, depth, capacity, p):
    X, Y = stream(p=p)
    _, slow_kind, settings = FAMILY[name]
    slow = slow_kind(capacity=capacity, depth=depth, **settings)
    expected, changes = slow.step_through(X, Y)

    model = built(name, capacity=capacity, depth=depth)
    np.testing.assert_allclose(model.track(X, Y).mean, expected, rtol=0, atol=1e-10)
    np.testing.assert_array_equal(model.basis, slow.basis)
    assert model.size == len(slow.basis)
    grid = np.random.default_rng(1).normal(size=(20, 2))
    np.testing.assert_allclose(
        model.predict_many(grid).mean, [slow.mean(slow.window(x), p) for x in grid], rtol=0, atol=1e-10
    )

    again = built(name, capacity=capacity, depth=depth)
    seen = []
    for x, y in zip(X, Y, strict=True):
        again.learn_one(x, y)
        seen.append(tuple(again.last_change))
    assert seen == changes


@expansions
def test_kernel_filter_equals_its_equations_for_sums_products_and_recursive_kernels(name):
    def recursive(a, b):
        kappa = 1.0
        for u, v in zip(a.reshape(3, 2), b.reshape(3, 2), strict=True):
            kappa = np.exp(-0.5 * np.sum((u - v) ** 2) / 0.9**2) * np.exp((kappa - 1) / 1.5**2)
        return 0.8 * kappa

    def k(a, b):
        return recursive(a, b) + 0.2 * se(a, b) * (a @ b)

    kernel = sg.RecursiveSquaredExponential(0.9, temporal_lengthscale=1.5, variance=0.8) + 0.2 * (
        SE * sg.LinearKernel()
    )
    X, Y = stream(n=80)
    kind, slow_kind, settings = FAMILY[name]
    settings = settings | {"capacity": 30, "depth": 3}
    slow = slow_kind(k=k, **settings)
    expected, _ = slow.step_through(X, Y)
    model = kind(kernel=kernel, **settings)
    np.testing.assert_allclose(model.track(X, Y).mean, expected, rtol=0, atol=1e-10)
    np.testing.assert_array_equal(model.basis, slow.basis)


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
    slow = SlowBetaKLMS(beta=0.3, noise=0.2, capacity=15, depth=2)
    slow.step_through(X, Y)
    model = BetaKLMS(SE, beta=0.3, noise=0.2, capacity=15, depth=2)
    model.learn_many(X, Y)
    before = model.to_bytes()
    for x in X[:10]:
        assert model.implied_variance(x) == pytest.approx(slow.variance(slow.window(x)), abs=1e-12)
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


@every_filter
def test_unused_places_are_zero(name):
    X, Y = stream(missing=False)
    model = models()[name]
    model.learn_one(X[0], Y[0])
    arrays, size = model._arrays(), model.size
    assert not arrays["alpha"][size:].any()
    assert not arrays["basis"][size:].any()


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
