"""The equalities promised in the design, against formulas that share no code with the library."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from tests import inside, oracles

NOISE, N = 0.05, 300
WIDTHS = pytest.mark.parametrize(("d", "p"), [(1, 3), (2, 1), (5, 3)])


def stream(d, p, n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, d))
    weights = rng.normal(size=(d, p))
    Y = np.sin(X @ weights) + 0.1 * rng.normal(size=(n, p))
    return X, (Y[:, 0] if p == 1 else Y), rng.uniform(-3, 3, (40, d))


def rough_kernel(d):
    """A kernel under which the covariance of 300 points has a condition below 1e6, and its definition."""
    scale = {1: 0.3, 2: np.array([0.4, 0.7]), 5: np.linspace(1.0, 2.0, 5)}[d]
    return sg.Matern(0.5, lengthscale=scale), oracles.matern(0.5, scale)


def assert_predicts(model, Xs, mean, variance, tolerance=1e-8):
    p = model.predict_many(Xs)
    np.testing.assert_allclose(p.mean, mean, atol=tolerance)
    expected = variance if np.ndim(p.variance) == 1 else np.repeat(variance[:, None], p.variance.shape[1], axis=1)
    np.testing.assert_allclose(p.variance, expected, atol=tolerance)


@pytest.mark.parametrize("outputs", ["shared", "separate"])
@WIDTHS
def test_sogp_and_krlst_with_room_for_every_point_equal_the_exact_gp(d, p, outputs):
    X, Y, Xs = stream(d, p)
    scale = np.sqrt(d) * 0.5
    kernel, oracle = sg.SquaredExponential(scale, variance=1.3), oracles.squared_exponential(scale, 1.3)
    sogp = sg.SOGP(kernel, capacity=N, novelty=0, noise=NOISE, outputs=outputs)
    sogp.learn_many(X, Y)
    # Where rows lie so close that not all can be points, what the others do not explain of them counts as noise.
    tolerance = 1e-8 if sogp.size == N else 1e-7
    assert_predicts(sogp, Xs, *oracles.exact_gp(oracle, X, Y, Xs, NOISE), tolerance)
    krlst = sg.KRLST(kernel, capacity=N, forgetting=1.0, noise=NOISE, outputs=outputs)
    krlst.learn_many(X, Y)
    assert krlst.size == N
    assert_predicts(krlst, Xs, *oracles.exact_gp(oracle, X, Y, Xs, NOISE, jitter=1e-6))


@pytest.mark.parametrize("form", ["covariance", "cholesky"])
@WIDTHS
def test_recursive_gp_on_the_data_equals_the_exact_gp(d, p, form):
    X, Y, Xs = stream(d, p)
    kernel, oracle = rough_kernel(d)
    assert np.linalg.cond(oracle(X, X)) < 1e6
    model = sg.OnlineGP(sg.Basis(kernel, points=X), noise=NOISE, form=form)
    model.learn_many(X, Y)
    assert_predicts(model, Xs, *oracles.exact_gp(oracle, X, Y, Xs, NOISE))


@pytest.mark.parametrize("form", ["covariance", "cholesky"])
def test_recursive_gp_on_badly_conditioned_data_equals_the_exact_gp_with_the_same_jitter(form):
    X, Y, Xs = stream(1, 1)
    model = sg.OnlineGP(sg.Basis(sg.SquaredExponential(1.0), jitter=1e-6, points=X), noise=NOISE, form=form)
    model.learn_many(X, Y)
    assert_predicts(model, Xs, *oracles.exact_gp(oracles.squared_exponential(1.0), X, Y, Xs, NOISE, jitter=1e-6))


@pytest.mark.parametrize("form", ["covariance", "cholesky"])
@WIDTHS
def test_recursive_gp_one_by_one_equals_fitc(d, p, form):
    X, Y, Xs = stream(d, p)
    points = np.random.default_rng(9).uniform(-3, 3, (15, d))
    scale = np.sqrt(d) * 0.5
    model = sg.OnlineGP(sg.Basis(sg.SquaredExponential(scale), points=points), noise=NOISE, form=form)
    model.learn_many(X, Y)
    assert_predicts(model, Xs, *oracles.fitc(oracles.squared_exponential(scale), points, X, Y, Xs, NOISE))


@pytest.mark.parametrize("form", ["covariance", "cholesky"])
@WIDTHS
def test_issgpr_equals_batch_ssgpr(d, p, form):
    X, Y, Xs = stream(d, p)
    frequencies = np.random.default_rng(9).normal(size=(40, d))
    model = sg.ISSGPR(frequencies=frequencies, variance=1.7, noise=NOISE, form=form)
    model.learn_many(X, Y)
    assert_predicts(model, Xs, *oracles.ssgpr(oracles.fourier(frequencies, 1.7), X, Y, Xs, NOISE))


@pytest.mark.parametrize("depth", [1, 4])
def test_the_window_and_the_recursive_kernel_equal_the_batch_gp_on_windows(depth):
    X, Y, _ = stream(2, 1, n=120)
    kernel = sg.RecursiveSquaredExponential([0.8, 1.1], temporal_lengthscale=1.2, variance=1.5)
    model = sg.OnlineGP(sg.Basis(kernel), memory=sg.Window(depth), noise=NOISE, budget=sg.Budget(120, novelty=0))
    p = model.track(X, Y)
    W = oracles.windows(X, depth)
    oracle = oracles.recursive_kernel(depth, np.array([0.8, 1.1]), 1.2, 1.5)
    for t in (1, 60, 119):
        mean, variance = oracles.exact_gp(oracle, W[:t], Y[:t], W[t : t + 1], NOISE)
        assert p.mean[t] == pytest.approx(mean[0], abs=1e-8)
        assert p.variance[t] == pytest.approx(variance[0], abs=1e-8)


@pytest.mark.parametrize(("absorb", "oracle"), [("fitc", oracles.fitc), ("dtc", oracles.dtc)])
def test_absorbed_rows_give_fitc_or_dtc_on_the_basis(absorb, oracle):
    X, Y, Xs = stream(2, 1)
    points, scale = X[:25], 1.5
    model = sg.SOGP(sg.SquaredExponential(scale), capacity=25, novelty=0, noise=NOISE, absorb=absorb)
    model.learn_many(points, Y[:25])
    inside.absorb_from_now_on(model)
    model.learn_many(X[25:], Y[25:])
    np.testing.assert_array_equal(model.basis, points)
    assert_predicts(model, Xs, *oracle(oracles.squared_exponential(scale), points, X, Y, Xs, NOISE))


def krlst_by_hand(X, y, Xs, kernel, capacity, factor, mode, noise, jitter):
    """[vanvaerenbergh2016] Eqs. (3)-(5) in (mu, Sigma, Q), Q inverted anew at every row."""
    basis, mu, Sigma, evicted = np.empty((0, X.shape[1])), np.zeros(0), np.zeros((0, 0)), []

    def Kmat(B):
        return kernel(B, B) + jitter * np.eye(len(B))

    for x, target in zip(X, y, strict=True):
        if len(basis):
            if mode == "back-to-prior":
                mu, Sigma = np.sqrt(factor) * mu, factor * Sigma + (1 - factor) * Kmat(basis)
            else:
                Sigma = Sigma / factor
        k = kernel(basis, x[None])[:, 0] if len(basis) else np.zeros(0)
        ktt = kernel(x[None], x[None])[0, 0] + jitter
        q = np.linalg.solve(Kmat(basis), k) if len(basis) else k
        h = Sigma @ q
        sf2 = ktt - k @ q + q @ h
        e = target - q @ mu
        basis = np.vstack([basis, x])
        column = np.append(h, sf2)
        mu = np.append(mu, q @ mu) + e / (sf2 + noise) * column
        Sigma = np.block([[Sigma, h[:, None]], [h[None], np.array([[sf2]])]]) - np.outer(column, column) / (sf2 + noise)
        evicted.append(-1)
        if len(basis) > capacity:
            Q = np.linalg.inv(Kmat(basis))
            r = int(np.argmin(np.abs(Q @ mu) / np.diag(Q)))
            keep = np.delete(np.arange(len(basis)), r)
            basis, mu, Sigma = basis[keep], mu[keep], Sigma[np.ix_(keep, keep)]
            evicted[-1] = r
    Js = np.linalg.solve(Kmat(basis), kernel(basis, Xs)).T
    variance = oracles.diagonal(kernel, Xs) + jitter + np.einsum("ij,jk,ik->i", Js, Sigma - Kmat(basis), Js)
    return Js @ mu, variance, evicted, basis


@pytest.mark.parametrize("mode", ["back-to-prior", "injection"])
def test_krlst_forgetting_and_pruning_equals_the_equations(mode):
    X, Y, Xs = stream(2, 1)
    model = sg.KRLST(sg.SquaredExponential(1.0), capacity=20, forgetting=0.99, mode=mode, noise=NOISE, jitter=1e-4)
    evicted = []
    for x, y in zip(X, Y, strict=True):
        model.learn_one(x, y)
        evicted.append(model.last_change.evicted)
    mean, variance, expected, basis = krlst_by_hand(
        X, Y, Xs, oracles.squared_exponential(1.0), 20, 0.99, mode, NOISE, 1e-4
    )
    assert evicted == expected
    np.testing.assert_array_equal(model.basis, basis)
    assert_predicts(model, Xs, mean, np.minimum(variance, 1.0 + 1e-4))


def sogp_by_hand(X, y, Xs, kernel, capacity, novelty, noise, absorb, evict, removal):
    """[soh2014] Eqs. (15)-(28) with Q inverted anew at every row."""
    B, a, C, evicted = np.empty((0, X.shape[1])), np.zeros(0), np.zeros((0, 0)), []
    for x, target in zip(X, y, strict=True):
        k = kernel(B, x[None])[:, 0] if len(B) else np.zeros(0)
        kxx = kernel(x[None], x[None])[0, 0]
        Q = np.linalg.inv(kernel(B, B)) if len(B) else np.zeros((0, 0))
        e_hat = Q @ k
        gamma = kxx - k @ e_hat
        s2 = kxx + k @ C @ k + noise
        r, w = -1.0 / s2, (target - k @ a) / s2
        evicted.append(-1)
        if gamma >= novelty * kxx:
            s = np.append(C @ k, 1.0)
            a, B = np.append(a, 0.0) + w * s, np.vstack([B, x])
            C = np.pad(C, ((0, 1), (0, 1))) + r * np.outer(s, s)
        else:
            if absorb == "dtc":
                eta = 1.0 / (1.0 + gamma * r)
                r, w = r * eta, w * eta
            s = C @ k + e_hat
            a, C = a + w * s, C + r * np.outer(s, s)
        if len(B) > capacity:
            Q = np.linalg.inv(kernel(B, B))
            denominator = np.diag(Q) + (0 if evict == "error" else np.diag(C))
            j = int(np.argmin((a**2 if evict == "kl" else np.abs(a)) / denominator))
            keep = np.delete(np.arange(len(B)), j)
            q, c, qs, cs, a_s = Q[keep, j], C[keep, j], Q[j, j], C[j, j], a[j]
            if removal == "marginal":
                a = a[keep] - a_s * q / qs
                C = C[np.ix_(keep, keep)] + cs * np.outer(q, q) / qs**2 - (np.outer(q, c) + np.outer(c, q)) / qs
            else:
                a = a[keep] - a_s * (q + c) / (qs + cs)
                C = C[np.ix_(keep, keep)] + np.outer(q, q) / qs - np.outer(q + c, q + c) / (qs + cs)
            B, evicted[-1] = B[keep], j
    k = kernel(B, Xs)
    return k.T @ a, oracles.diagonal(kernel, Xs) + np.einsum("ij,ik,kj->j", k, C, k), evicted


@pytest.mark.parametrize("absorb", ["fitc", "dtc"])
@pytest.mark.parametrize("evict", ["paper", "kl", "error"])
@pytest.mark.parametrize("removal", ["marginal", "kl"])
def test_sogp_equals_the_equations_in_every_variant(absorb, evict, removal):
    X, Y, Xs = stream(2, 1)
    model = sg.SOGP(
        sg.SquaredExponential(1.0), capacity=20, novelty=0.05, noise=NOISE, absorb=absorb, evict=evict, removal=removal
    )
    evicted = []
    for x, y in zip(X, Y, strict=True):
        model.learn_one(x, y)
        evicted.append(model.last_change.evicted)
    mean, variance, expected = sogp_by_hand(
        X, Y, Xs, oracles.squared_exponential(1.0), 20, 0.05, NOISE, absorb, evict, removal
    )
    assert evicted == expected
    assert max(evicted) > 0
    assert_predicts(model, Xs, mean, np.clip(variance, 0.0, 1.0))


def test_the_oldest_point_leaves_where_it_is_to():
    X, Y, _ = stream(2, 1, n=60)
    model = sg.SOGP(sg.SquaredExponential(0.5), capacity=10, novelty=0, evict="oldest")
    model.learn_many(X, Y)
    np.testing.assert_array_equal(model.basis, X[-10:])


@pytest.mark.parametrize("form", ["covariance", "cholesky"])
def test_injection_with_linear_features_is_recursive_least_squares(form):
    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(300, 4)), rng.normal(size=300)
    delta, forget = 0.1, 0.98
    model = sg.OnlineGP(sg.Linear(delta=delta, constant=False), noise=1.0, forgetting=sg.Injection(forget), form=form)
    p = model.track(X, Y)
    # [soh2014] Eq. (6)
    P, w, means = np.eye(4) / delta, np.zeros(4), []
    for x, y in zip(X, Y, strict=True):
        means.append(x @ w)
        g = P @ x / (forget + x @ P @ x)
        P = P / forget - np.outer(g, x) @ P / forget
        w = w + (y - x @ w) * g
    np.testing.assert_allclose(p.mean, means, atol=1e-8)
    assert model.health.capped_directions == 0


@pytest.mark.parametrize("features", ["fourier", "points", "linear"])
@pytest.mark.parametrize("forgetting", [None, sg.Injection(0.99)])
def test_the_two_forms_of_the_posterior_are_equal(features, forgetting):
    X, Y, Xs = stream(2, 2)
    parts = {
        "fourier": sg.Fourier(30, lengthscale=0.8),
        "points": sg.Basis(sg.SquaredExponential(1.0), points=X[:20]),
        "linear": sg.Linear(delta=0.5),
    }[features]
    for outputs in ("shared", "separate"):
        pair = [
            sg.OnlineGP(parts, noise=NOISE, forgetting=forgetting, form=form, outputs=outputs)
            for form in ("covariance", "cholesky")
        ]
        tracks = [model.track(X, Y) for model in pair]
        np.testing.assert_allclose(tracks[0].mean, tracks[1].mean, atol=1e-8)
        np.testing.assert_allclose(tracks[0].variance, tracks[1].variance, atol=1e-8)
        a, b = (model.predict_many(Xs) for model in pair)
        np.testing.assert_allclose(a.mean, b.mean, atol=1e-8)
        np.testing.assert_allclose(a.variance, b.variance, atol=1e-8)


def test_separate_outputs_equal_one_model_for_each_with_its_own_noise_and_gaps():
    X, Y, Xs = stream(2, 3)
    Y[::7, 0] = np.nan
    Y[3::5, 2] = np.nan
    noise = [0.01, 0.05, 0.2]
    together = sg.SOGP(sg.SquaredExponential(1.0), capacity=N, novelty=0, noise=noise, outputs="separate")
    together.learn_many(X, Y)
    p = together.predict_many(Xs)
    for j in range(3):
        seen = ~np.isnan(Y[:, j])
        mean, variance = oracles.exact_gp(oracles.squared_exponential(1.0), X[seen], Y[seen, j], Xs, noise[j])
        np.testing.assert_allclose(p.mean[:, j], mean, atol=1e-7)  # not all of these rows are points
        np.testing.assert_allclose(p.variance[:, j], variance, atol=1e-8)
    np.testing.assert_array_equal(p.noise[0], noise)


def test_recursive_gp_equals_the_dense_kalman_filter_over_the_basis_values():
    X, Y, Xs = stream(2, 1)
    points = np.random.default_rng(9).uniform(-3, 3, (12, 2))
    kernel = oracles.squared_exponential(1.2)
    model = sg.RecursiveGP(points, kernel=sg.SquaredExponential(1.2), noise=NOISE)
    model.learn_many(X, Y)
    K = kernel(points, points)
    J = np.linalg.solve(K, kernel(points, X)).T
    residuals = 1.0 - np.einsum("ij,ji->i", J, kernel(points, X))
    mu, Sigma = oracles.dense_kalman(np.zeros(12), K, J, residuals, Y, NOISE)
    Js = np.linalg.solve(K, kernel(points, Xs)).T
    variance = 1.0 + np.einsum("ij,jk,ik->i", Js, Sigma - K, Js)
    assert_predicts(model, Xs, Js @ mu, variance)
