"""The published models, each against its equations or the model it must coincide with."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from tests import inside, oracles
from tests.streams import sines

rng = np.random.default_rng(4)
NOISE = 0.05


def assert_same(model, other, Xs, tolerance=1e-10):
    a, b = model.predict_many(Xs), other.predict_many(Xs)
    np.testing.assert_allclose(a.mean, b.mean, atol=tolerance)
    np.testing.assert_allclose(a.variance, b.variance, atol=tolerance)


# soh2014


def test_oesgp_is_a_sogp_on_the_reservoir_states():
    X, Y, _ = sines(120)
    reservoir = sg.Reservoir(8, spectral_radius=0.7, seed=3)
    oesgp = sg.OESGP(reservoir, lengthscale=2.0, variance=1.5, capacity=15, noise=NOISE)
    states = sg.OnlineGP(sg.Basis(), memory=reservoir, budget=sg.Budget(200, novelty=0))
    states.learn_many(X, Y)
    sogp = sg.SOGP(sg.SquaredExponential(2.0, variance=1.5), capacity=15, noise=NOISE)
    p, q = oesgp.track(X, Y), sogp.track(states.basis, Y)
    np.testing.assert_allclose(p.mean, q.mean, atol=1e-12)
    np.testing.assert_allclose(p.variance, q.variance, atol=1e-12)


def test_oesgp_describes_its_reservoir_by_settings_or_takes_one():
    X, Y, _ = sines(40)
    one = sg.OESGP(units=8, spectral_radius=0.7, seed=3)
    two = sg.OESGP(sg.Reservoir(8, spectral_radius=0.7, seed=3))
    np.testing.assert_array_equal(one.track(X, Y).mean, two.track(X, Y).mean)
    with pytest.raises(ValueError, match="the reservoir is given twice"):
        sg.OESGP(sg.Reservoir(8), units=9)
    with pytest.raises(TypeError, match="reservoir must be, for example, Reservoir"):
        sg.OESGP(reservoir=8)


def test_oiesgp_with_room_equals_the_batch_gp_on_windows():
    X, Y, _ = sines(80)
    model = sg.OIESGP(depth=5, lengthscale=1.0, temporal_lengthscale=1.3, capacity=80, novelty=0, noise=NOISE)
    p = model.track(X, Y)
    W = oracles.windows(X, 5)
    mean, variance = oracles.exact_gp(oracles.recursive_kernel(5, 1.0, 1.3), W[:79], Y[:79], W[79:], NOISE)
    assert p.mean[79] == pytest.approx(mean[0], abs=1e-8)
    assert p.variance[79] == pytest.approx(variance[0], abs=1e-8)


def test_rlsesn_equals_the_equations():
    X, Y, _ = sines(200)
    units, delta, forget, noise = 7, 0.2, 0.999, 0.03
    reservoir = sg.Reservoir(units, seed=2)
    model = sg.RLSESN(reservoir, delta=delta, forgetting=forget, noise=noise)
    p = model.track(X, Y)
    W, Win, bias, _ = reservoir.weights(2, 1)
    s, P, w = np.zeros(units), np.eye(units + 3) / delta, np.zeros(units + 3)
    for t, (x, y) in enumerate(zip(X, Y, strict=True)):
        s = np.tanh(W @ s + Win @ x + bias)
        psi = np.concatenate([s, x, [1.0]])
        assert p.mean[t] == pytest.approx(psi @ w, abs=1e-9)
        assert p.variance[t] == pytest.approx(min(noise * psi @ P @ psi, noise * psi @ psi / delta), rel=1e-8)
        assert model.health.repairs == 0
        g = P @ psi / (forget + psi @ P @ psi)
        w = w + (y - psi @ w) * g
        P = (P - np.outer(g, psi) @ P) / forget


# vanvaerenbergh2016


def krls_by_hand(X, y, kernel, novelty):
    """Engel's recursion: K^-1 anew, P = (A'A)^-1 by its definition from all rows of A."""
    D, A, targets = X[:1], np.ones((1, 1)), [y[0]]
    for x, target in zip(X[1:], y[1:], strict=True):
        k = kernel(D, x[None])[:, 0]
        a = np.linalg.solve(kernel(D, D), k)
        if 1.0 - k @ a >= novelty:
            D = np.vstack([D, x])
            A = np.pad(A, ((0, 1), (0, 1)))
            A[-1, -1] = 1.0
        else:
            A = np.vstack([A, a])
        targets.append(target)
    values = np.linalg.lstsq(A, np.array(targets), rcond=None)[0]
    return D, np.linalg.solve(kernel(D, D), values)


@pytest.mark.parametrize("novelty", [0.01, 0.2])
def test_krls_without_noise_is_least_squares_on_the_dictionary(novelty):
    X, Y, Xs = sines(300)
    model = sg.KRLS(sg.SquaredExponential(1.5), novelty=novelty, noise=0.0)
    model.learn_many(X, Y)
    kernel = oracles.squared_exponential(1.5)
    D, alpha = krls_by_hand(X, Y, kernel, novelty)
    np.testing.assert_array_equal(model.basis, D)
    p = model.predict_many(Xs)
    np.testing.assert_allclose(p.mean, kernel(Xs, D) @ alpha, atol=1e-8)
    gamma2 = 1.0 - np.einsum("ij,ji->i", kernel(Xs, D), np.linalg.solve(kernel(D, D), kernel(D, Xs)))
    np.testing.assert_allclose(p.variance, gamma2, atol=1e-8)
    assert np.all(p.noise == 0)


@pytest.mark.parametrize("absorb", ["dtc", "fitc"])
def test_krls_with_noise_folds_rows_in_as_it_is_told_and_stops_growing_when_full(absorb):
    X, Y, Xs = sines(300)
    kernel = oracles.squared_exponential(1.5)
    settings = {"novelty": 0.05, "noise": NOISE, "capacity": 12, "absorb": absorb}
    model = sg.KRLS(sg.SquaredExponential(1.5), **settings)
    model.learn_many(X, Y)
    assert model.size == 12
    batch = oracles.dtc if absorb == "dtc" else oracles.fitc
    mean, variance = batch(kernel, model.basis, X, Y, Xs, NOISE)
    # A row that came before a later point joined was folded in without it: the same basis from the start is the batch.
    again = sg.KRLS(sg.SquaredExponential(1.5), **settings)
    order = [int(np.flatnonzero((b == X).all(1))[0]) for b in model.basis]
    rest = [t for t in range(len(X)) if t not in order]
    again.learn_many(X[order + rest], Y[order + rest])
    np.testing.assert_array_equal(again.basis, model.basis)
    p = again.predict_many(Xs)
    np.testing.assert_allclose(p.mean, mean, atol=1e-8)
    np.testing.assert_allclose(p.variance, variance, atol=1e-8)


def test_a_full_krls_with_fitc_does_not_become_sure_of_what_it_cannot_express():
    """Beyond a full dictionary DTC takes every error for the noise, here 1e-6, and learns the weights as surely."""
    t = np.arange(6000)
    X = 3 * np.column_stack([np.sin(t / 29), np.sin(t / 43)])
    y = np.sin(X[:, 0]) + 0.5 * np.cos(0.7 * X[:, 1]) + 1e-3 * np.random.default_rng(0).normal(size=t.size)
    beyond = {}
    for absorb in ("dtc", "fitc"):
        model = sg.KRLS(sg.SquaredExponential(1.0), novelty=1e-6, noise=1e-6, capacity=60, absorb=absorb)
        p = model.track(X, y)
        beyond[absorb] = np.mean((np.abs(y - p.mean) > 30 * p.std)[1000:])
    assert beyond["dtc"] > 0.01
    assert beyond["fitc"] < 0.001


def test_least_squares_has_no_noise_to_which_fitc_could_add_a_residual():
    with pytest.raises(ValueError, match=r'noise=0 is least squares.*absorb="dtc".*otherwise give a noise above 0'):
        sg.KRLS(noise=0.0, absorb="fitc")


@pytest.mark.parametrize("p", [1, 2])
def test_swkrls_is_the_exact_gp_on_the_last_rows(p):
    X, Y, Xs = sines(200, p=p)
    model = sg.SWKRLS(sg.SquaredExponential(1.0), capacity=25, noise=NOISE)
    for t in range(len(X)):
        model.learn_one(X[t], Y[t])
        assert model.last_change.evicted == (0 if t >= 25 else -1)
    np.testing.assert_array_equal(model.basis, X[-25:])
    mean, variance = oracles.exact_gp(oracles.squared_exponential(1.0), X[-25:], Y[-25:], Xs, NOISE)
    prediction = model.predict_many(Xs)
    np.testing.assert_allclose(prediction.mean, mean, atol=1e-10)
    np.testing.assert_allclose(prediction.variance.reshape(30, -1)[:, 0], variance, atol=1e-10)


def test_fbkrls_is_the_exact_gp_on_rows_of_which_the_best_predicted_leaves():
    X, Y, Xs = sines(150)
    kernel = oracles.squared_exponential(1.0)
    model = sg.FBKRLS(sg.SquaredExponential(1.0), capacity=20, noise=NOISE)
    kept: list[int] = []
    for t in range(len(X)):
        model.learn_one(X[t], Y[t])
        kept.append(t)
        if len(kept) > 20:
            inverse = np.linalg.inv(kernel(X[kept], X[kept]) + NOISE * np.eye(21))
            r = int(np.argmin(np.abs(inverse @ Y[kept]) / np.diag(inverse)))
            assert model.last_change.evicted == r
            kept.pop(r)
    np.testing.assert_array_equal(model.basis, X[kept])
    mean, variance = oracles.exact_gp(kernel, X[kept], Y[kept], Xs, NOISE)
    np.testing.assert_allclose(model.predict_many(Xs).mean, mean, atol=1e-9)
    np.testing.assert_allclose(model.predict_many(Xs).variance, variance, atol=1e-9)


@pytest.mark.parametrize("forgetting", [1.0, 0.98])
def test_krlst_estimates_the_signal_power_with_the_same_forgetting(forgetting):
    X, Y, _ = sines(300)
    plain = sg.KRLST(capacity=15, forgetting=forgetting, noise=0.01)
    estimating = sg.KRLST(capacity=15, forgetting=forgetting, noise=0.01, estimate_power=True)
    p, q = plain.track(X, 3.0 * Y), estimating.track(X, 3.0 * Y)
    np.testing.assert_array_equal(p.mean, q.mean)
    # e and s as learning sees them, after forgetting: mean and variance go back to the prior by the factor.
    e = 3.0 * Y - np.sqrt(forgetting) * p.mean
    s = (1 + 1e-6) + forgetting * (p.variance - (1 + 1e-6)) + 0.01
    power = np.array([1.0])
    for t in range(1, len(X)):
        weights = forgetting ** np.arange(t)[::-1]
        power = np.append(power, np.sum(weights * e[:t] ** 2 / s[:t]) / np.sum(weights))
    np.testing.assert_allclose(q.variance, power * p.variance, rtol=1e-8)
    np.testing.assert_allclose(q.noise, power * 0.01, rtol=1e-8)


# huber2013


@pytest.mark.parametrize("outputs", ["shared", "separate"])
@pytest.mark.parametrize("batch", [1, 7, 100])
def test_recursive_gp_in_batches_equals_the_equations(batch, outputs):
    X, Y, Xs = sines(100, p=2)
    points = rng.uniform(-3, 3, (12, 2))
    k = oracles.squared_exponential(1.2)
    model = sg.RecursiveGP(points, kernel=sg.SquaredExponential(1.2), noise=NOISE, batch=batch, outputs=outputs)
    tracked = model.track(X, Y)
    K = k(points, points)
    mu, C = np.zeros((12, 2)), K.copy()
    for start in range(0, 100, batch):  # [huber2013] Eqs. (13)-(16)
        Xt, Yt = X[start : start + batch], Y[start : start + batch]
        J = np.linalg.solve(K, k(points, Xt)).T
        Cp = k(Xt, Xt) + J @ (C - K) @ J.T
        np.testing.assert_allclose(tracked.mean[start : start + batch], J @ mu, atol=1e-8)
        np.testing.assert_allclose(tracked.variance[start : start + batch, 0], np.diag(Cp), atol=1e-8)
        G = C @ J.T @ np.linalg.inv(Cp + NOISE * np.eye(len(Xt)))
        mu, C = mu + G @ (Yt - J @ mu), C - G @ J @ C
    Js = np.linalg.solve(K, k(points, Xs)).T
    p = model.predict_many(Xs)
    np.testing.assert_allclose(p.mean, Js @ mu, atol=1e-8)
    np.testing.assert_allclose(p.variance[:, 1], 1.0 + np.einsum("ij,jk,ik->i", Js, C - K, Js), atol=1e-8)


def test_rows_learned_together_share_their_residual_so_that_batches_differ_and_that_is_right():
    X, Y, _ = sines(100)
    points, kernel = sg.grid([-3, -3], [3, 3], 5), sg.SquaredExponential(1.2)
    means = []
    for batch in (1, 10, 100):
        model = sg.RecursiveGP(points, kernel=kernel, noise=NOISE, batch=batch)
        model.learn_many(X, Y)
        means.append(model.predict_many(X).mean)
    assert np.abs(means[0] - means[1]).max() > 1e-3
    assert np.abs(means[1] - means[2]).max() > 1e-3


def test_a_batch_with_missing_targets_learns_the_others_and_learn_one_is_a_batch_of_one():
    X, Y, Xs = sines(30)
    gaps = Y.copy()
    gaps[[2, 3, 11]] = np.nan
    points = sg.grid([-3, -3], [3, 3], 4)
    kernel = sg.SquaredExponential(1.5)
    one, two = (sg.RecursiveGP(points, kernel=kernel, noise=NOISE, batch=10) for _ in range(2))
    one.learn_many(X, gaps)
    for start in range(0, 30, 10):
        part = np.arange(start, start + 10)
        part = part[~np.isnan(gaps[part])]
        two.learn_many(X[part], Y[part])
    assert_same(one, two, Xs, 1e-12)
    ones, batches = (
        sg.RecursiveGP(points, kernel=kernel, noise=NOISE),
        sg.RecursiveGP(points, kernel=kernel, noise=NOISE, batch=10),
    )
    for x, y in zip(X, Y, strict=True):
        ones.learn_one(x, y)
        batches.learn_one(x, y)
    assert_same(ones, batches, Xs, 1e-10)


def test_inserted_points_change_no_prediction_at_the_old_ones_and_then_learn():
    X, Y, Xs = sines(200)
    half, new = sg.grid([-3, -3], [3, 3], 4), rng.uniform(-3, 3, (5, 2))
    kernel = sg.SquaredExponential(1.2)
    model = sg.RecursiveGP(half, kernel=kernel, noise=NOISE)
    model.learn_many(X[:100], Y[:100])
    before, old = model.predict_many(half), model.copy()
    model.insert(new)
    assert model.size == 21
    assert model.rows_seen == 100
    np.testing.assert_allclose(model.predict_many(half).mean, before.mean, atol=1e-9)
    np.testing.assert_allclose(model.predict_many(half).variance, before.variance, atol=1e-9)
    # The inference step [huber2013 3.1]: the joint of old and new values given what the old ones know.
    k = oracles.squared_exponential(1.2)
    np.testing.assert_allclose(model.predict_many(new).mean, old.predict_many(new).mean, atol=1e-9)
    np.testing.assert_allclose(model.predict_many(new).variance, old.predict_many(new).variance, atol=1e-9)
    everything = np.vstack([half, new])
    K = k(half, half)
    J = np.linalg.solve(K, k(half, X[:100])).T
    residuals = 1.0 - np.einsum("ij,ji->i", J, k(half, X[:100]))
    mu, Sigma = oracles.dense_kalman(np.zeros(16), K, J, residuals, Y[:100], NOISE)
    Jn = np.linalg.solve(K, k(half, everything)).T
    joint = k(everything, everything) + Jn @ (Sigma - K) @ Jn.T
    Kall = k(everything, everything)
    J2 = np.linalg.solve(Kall, k(everything, X[100:])).T
    residuals = 1.0 - np.einsum("ij,ji->i", J2, k(everything, X[100:]))
    mu, Sigma = oracles.dense_kalman(Jn @ mu, joint, J2, residuals, Y[100:], NOISE)
    model.learn_many(X[100:], Y[100:])
    Js = np.linalg.solve(Kall, k(everything, Xs)).T
    np.testing.assert_allclose(model.predict_many(Xs).mean, Js @ mu, atol=1e-8)
    assert sg.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()
    fresh = sg.RecursiveGP(half)
    fresh.insert(new)
    assert fresh.size == 21


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sg.RecursiveGP([[0.0], [0.0]]).learn_one(0.1, 1.0), "too close together for this kernel"),
        (lambda: sg.RecursiveGP([[0.0]]).insert([[1.0, 2.0]]), "points must have 1 columns, as the basis has; got 2"),
        (lambda: sg.RecursiveGP([[0.0]]).learn_one([1.0, 2.0], 1.0), "basis points have 1 columns, but the inputs"),
        (lambda: sg.RecursiveGP("grid"), r"basis must be an array of numbers of shape \(m, d\)"),
        (lambda: sg.RecursiveGP([[0.0]], batch=0), "batch must be a whole number of at least 1"),
        (lambda: sg.grid(1, 0, 3), "low must be below high along every input"),
        (lambda: sg.kmeans([[0.0], [0.0], [1.0]], 3), "at least 3 different rows for 3 basis points; got 2"),
        (
            lambda: sg.KRLST(mode="inject"),
            "mode must be one of 'back-to-prior', 'injection'; got 'inject'. Did you mean",
        ),
        (lambda: sg.KRLST(forgetting=1.5), "forgetting must be a finite number above 0 and at most 1; got 1.5"),
        (lambda: sg.KRLST(forgetting=0.0), "forgetting must be a finite number above 0 and at most 1"),
        (lambda: sg.SOGP(evict="papr"), "evict must be one of .* got 'papr'. Did you mean 'paper'"),
        (lambda: sg.SOGP(noise=0.0), "noise=0 is least squares on a dictionary that only grows"),
        (lambda: sg.SOGP(noise=-1.0), "noise must be a positive number"),
        (lambda: sg.SOGP(noise=[0.1, 0.2]), "noise has 2 values, but the outputs share one covariance"),
        (lambda: sg.SOGP(noise=[0.1, 0.2], outputs="separate").learn_one(1.0, [1.0, 2.0, 3.0]), "there are 3 outputs"),
        (lambda: sg.SOGP(kernel="rbf"), r"kernel must be a kernel such as SquaredExponential\(lengthscale=1.0\)"),
        (lambda: sg.SOGP(removal="discard"), "keeps the exact GP on some rows"),
        (lambda: sg.ISSGPR(form="qr"), "form must be one of 'covariance', 'cholesky'; got 'qr'"),
        (lambda: sg.ISSGPR(order=1.0), "order must be None, 0.5, 1.5 or 2.5; got 1.0"),
        (lambda: sg.ISSGPR(frequencies=np.ones((3, 2))).learn_one(1.0, 1.0), "frequencies have 2 columns, but the"),
        (lambda: sg.OnlineGP(sg.Basis(), form="cholesky"), "needs a fixed number of weights"),
        (
            lambda: sg.OnlineGP(sg.Linear(), form="cholesky", forgetting=sg.BackToPrior(0.9)),
            "cannot go back to the prior",
        ),
        (lambda: sg.OnlineGP("basis"), r"features must be, for example, Basis\(kernel\)"),
        (lambda: sg.OnlineGP(sg.Basis(), budget=100), r"budget must be, for example, Budget\(capacity=100\)"),
        (lambda: sg.SOGP().set_params(adapt__interval=5), "the setting 'adapt' is None and has no settings"),
    ],
)
def test_bad_settings_are_refused(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_grid_and_kmeans_place_the_basis():
    assert sg.grid(0, 1, 3).tolist() == [[0.0], [0.5], [1.0]]
    X = np.vstack([rng.normal(c, 0.05, (50, 2)) for c in (0.0, 5.0, 10.0)])
    centres = sg.kmeans(X, 3)
    np.testing.assert_allclose(np.sort(centres[:, 0]), [0.0, 5.0, 10.0], atol=0.1)
    np.testing.assert_array_equal(centres, sg.kmeans(X, 3))


# gijsberts2013


def test_irfrr_has_the_mean_of_issgpr_and_no_variance():
    X, Y, _ = sines(300)
    ridge, gp = sg.IRFRR(20, lengthscale=1.0, noise=NOISE), sg.ISSGPR(20, lengthscale=1.0, noise=NOISE)
    p, q = ridge.track(X, Y), gp.track(X, Y)
    np.testing.assert_array_equal(p.mean, q.mean)
    assert not ridge.has_variance
    assert np.all(np.isnan(p.std))


@pytest.mark.parametrize("orthogonal", [False, True])
@pytest.mark.parametrize("order", [None, 1.5])
def test_fourier_features_approximate_their_kernel(order, orthogonal):
    scale = np.array([0.8, 1.5])
    features = sg.Fourier(20_000, lengthscale=scale, variance=1.7, seed=1, order=order, orthogonal=orthogonal)
    X = rng.uniform(-1, 1, (20, 2))
    Phi = oracles.fourier(features.frequencies(2, 1), 1.7)(X)
    kernel = oracles.squared_exponential(scale, 1.7) if order is None else oracles.matern(order, scale, 1.7)
    np.testing.assert_allclose(Phi @ Phi.T, kernel(X, X), atol=0.05)


# What the lengthscales imply


def test_relevance_is_the_normalised_inverse_lengthscale():
    X, Y, _ = sines(30)
    model = sg.OIESGP(depth=10, lengthscale=[1.0, 4.0], temporal_lengthscale=1.2)
    with pytest.raises(ValueError, match="known once the first row has come"):
        model.relevance()
    model.learn_many(X, Y)
    inputs, memory = model.relevance()
    np.testing.assert_allclose(inputs, [0.8, 0.2])
    assert memory == pytest.approx(1 + 0.5 / np.log(1.2))
    longer = sg.OIESGP(depth=10, temporal_lengthscale=1.0)
    longer.learn_many(X, Y)
    assert longer.relevance().memory == 10.0
    np.testing.assert_allclose(longer.relevance().inputs, [0.5, 0.5])
    for build in (sg.SOGP, sg.ISSGPR, sg.OESGP):
        other = build()
        other.learn_many(X, Y)
        assert other.relevance().inputs.sum() == pytest.approx(1.0)
    by_lag = sg.SOGP(sg.SquaredExponential([1.0, 1.0, 1.0, 0.25]), depth=2)
    by_lag.learn_many(X, Y)
    np.testing.assert_allclose(by_lag.relevance().inputs, [2 / 7, 5 / 7])
    linear = sg.RLSESN(units=5)
    linear.learn_many(X, Y)
    with pytest.raises(ValueError, match="RLSESN has no lengthscales"):
        linear.relevance()


# Free running


def autoregressive(n=400, lags=2, seed=0):
    y = np.sin(0.4 * np.arange(n + lags)) + 0.01 * np.random.default_rng(seed).normal(size=n + lags)
    X = np.column_stack([y[lags - lag : n + lags - lag] for lag in range(1, lags + 1)])
    return X, y[lags:], y


def test_simulation_feeds_the_means_back_column_by_column():
    X, Y, _ = autoregressive()
    model = sg.filters.QKLMS(sg.SquaredExponential(1.0), quantization=0.05)  # no variance: one trajectory of means
    model.learn_many(X, Y)
    simulated = model.simulate(X[:20], feedback=[0, 1])
    said = []
    for t in range(20):
        x = X[t].copy()
        for lag in (1, 2):
            if t >= lag:
                x[lag - 1] = said[t - lag]
        said.append(model.predict_one(x).mean)
    np.testing.assert_array_equal(simulated.mean, said)


def test_forecast_goes_on_from_the_last_row_with_growing_honest_uncertainty():
    X, Y, _ = autoregressive(500)
    model = sg.SOGP(sg.SquaredExponential(1.0), noise=1e-4)
    model.learn_many(X[:400], Y[:400])
    forecast = model.forecast(60, feedback=[0, 1], trajectories=200)
    simulated = model.simulate(X[400:460], feedback=[0, 1], trajectories=200)
    np.testing.assert_allclose(forecast.mean, simulated.mean)  # the first rows hold what was known
    assert forecast.std[:5].mean() < forecast.std[-5:].mean()
    low, high = forecast.interval(0.95)
    assert np.mean((low <= Y[400:460]) & (Y[400:460] <= high)) > 0.8
    assert np.sqrt(np.mean((forecast.mean[:10] - Y[400:410]) ** 2)) < 0.1
    again = model.forecast(60, feedback=[0, 1], trajectories=200)
    np.testing.assert_array_equal(forecast.mean, again.mean)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.forecast(5, feedback=[0]), r"columns \[1\] are not lagged targets: give their future values"),
        (lambda m: m.forecast(5, feedback=[0], X=np.ones(4)), "X must have 5 rows, one for each step; got 4"),
        (lambda m: m.forecast(0, feedback=[0, 1]), "steps must be a whole number of at least 1"),
        (lambda m: m.forecast(5, feedback=[0, 2]), "feedback must list input columns from 0 to 1; got 2"),
        (lambda m: m.forecast(5, feedback=[0, 0]), "feedback must list different input columns"),
        (lambda m: m.forecast(5, feedback=[]), "feedback must list different input columns"),
        (lambda m: m.clone().forecast(5, feedback=[0, 1]), "learn some rows first"),
        (lambda m: m.simulate(np.empty((0, 2)), feedback=[0]), "U has no rows"),
        (lambda m: m.simulate(np.ones((3, 2)), feedback=[0], trajectories=0), "trajectories must be a whole number"),
    ],
)
def test_bad_free_runs_are_refused(call, message):
    X, Y, _ = autoregressive(50)
    model = sg.SOGP()
    model.learn_many(X, Y)
    with pytest.raises(ValueError, match=message):
        call(model)


@pytest.mark.more
def test_oiesgp_reaches_the_papers_error_on_mackey_glass():
    """NOTES: depth 20, lengthscale 5, temporal lengthscale 1.01; 80% learned, 20% predicted against the truth."""
    errors = []
    for seed in range(10):
        series = sg.data.mackey_glass(20_000, seed=seed)
        model = sg.OIESGP(20, lengthscale=5.0, temporal_lengthscale=1.01, capacity=100, novelty=1e-3, noise=0.0025)
        model.learn_many(series.X[:16_000], series.Y[:16_000])
        p = model.track(series.X[16_000:])
        errors.append(np.sqrt(np.mean((p.mean - series.truth[16_000:]) ** 2)))
    assert np.median(errors) <= 0.0245, errors


def test_sogp_fitc_krlst_reduced_and_recursive_gp_give_the_same_posterior_on_the_same_basis():
    X, Y, Xs = sines(300)
    kernel, m = sg.SquaredExponential(1.5), 20
    jitter = 1e-6
    sogp = sg.SOGP(kernel, capacity=m, novelty=0, noise=NOISE, jitter=jitter)
    krlst = sg.KRLST(kernel, capacity=m, forgetting=1.0, noise=NOISE, jitter=jitter)
    for model in (sogp, krlst):
        model.learn_many(X[:m], Y[:m])
        inside.absorb_from_now_on(model)
        model.learn_many(X[m:], Y[m:])
        np.testing.assert_array_equal(model.basis, X[:m])
    rgp = sg.RecursiveGP(X[:m], kernel=kernel, noise=NOISE, jitter=jitter)
    rgp.learn_many(X, Y)
    assert_same(sogp, krlst, Xs)
    assert_same(sogp, rgp, Xs)


def test_swkrls_does_not_drift_over_many_rows():
    X = np.cumsum(0.01 * np.random.default_rng(0).normal(size=(50_000, 2)), axis=0)
    Y = np.sin(X[:, 0])
    model = sg.SWKRLS(sg.SquaredExponential(1.0), capacity=25, noise=1e-6)
    model.learn_many(X, Y)
    mean, _ = oracles.exact_gp(oracles.squared_exponential(1.0), X[-25:], Y[-25:], X[-5:] + 0.01, 1e-6)
    np.testing.assert_allclose(model.predict_many(X[-5:] + 0.01).mean, mean, atol=1e-8)


def test_krlst_estimates_the_signal_power_under_injection_with_the_same_forgetting():
    X, Y, _ = sines(100)
    model = sg.KRLST(capacity=150, forgetting=0.9, mode="injection", estimate_power=True)
    model.learn_many(X, Y)
    before = model._state.power.copy()
    model.learn_one(X[0], Y[0])
    assert model._state.power[1, 0] == pytest.approx(0.9 * before[1, 0] + 1.0)


def test_krlst_with_forgetting_re_converges_after_the_channel_switches_and_beats_no_forgetting():
    after = {}
    for forgetting in (1.0, 0.995):
        errors = []
        for seed in range(5):
            series = sg.data.channel_switch(1500, seed=seed)
            model = sg.KRLST(sg.SquaredExponential(1.0), capacity=150, forgetting=forgetting, noise=0.01)
            p = model.track(series.X, series.Y)
            errors.append((p.mean - series.Y) ** 2)
        mse = np.mean(errors, axis=0)
        after[forgetting] = mse[-300:].mean()
        if forgetting < 1:
            assert mse[-300:].mean() < 1.5 * mse[300:500].mean()  # as good as before the switch
            assert mse[500:520].mean() > 2 * mse[300:500].mean()  # which did hurt
    assert after[0.995] < 0.7 * after[1.0]


def test_prior_mean_enters_predictions_and_is_asked_for_when_loading(tmp_path):
    X, Y, Xs = sines(60)
    points = sg.grid([-3, -3], [3, 3], 4)

    def slope(rows):
        return 2.0 * rows[:, 0] - 1.0

    with_mean = sg.RecursiveGP(points, kernel=sg.SquaredExponential(1.5), noise=NOISE, mean=slope)
    without = sg.RecursiveGP(points, kernel=sg.SquaredExponential(1.5), noise=NOISE)
    p, q = with_mean.track(X, Y), without.track(X, Y - slope(X))
    np.testing.assert_allclose(p.mean, q.mean + slope(X), atol=1e-12)
    assert with_mean.clone().predict_one(Xs[0]).mean == slope(Xs[:1])[0]
    with_mean.save(tmp_path / "model.sgp")
    with pytest.raises(sg.SnapshotError, match=r"needs mean=.*load\(path, mean=f\)"):
        sg.load(tmp_path / "model.sgp")
    loaded = sg.load(tmp_path / "model.sgp", mean=slope)
    np.testing.assert_array_equal(loaded.predict_many(Xs).mean, with_mean.predict_many(Xs).mean)
    with pytest.raises(ValueError, match="mean must return one finite number for each of the 1 rows"):
        sg.RecursiveGP(points, mean=lambda rows: np.nan * rows[:, 0]).predict_one(Xs[0])
    with pytest.raises(TypeError, match="mean must be a number, a function"):
        sg.RecursiveGP(points, mean="slope")


def test_points_inserted_after_a_move_of_hyperparameters_find_them_as_they_are():
    X, Y, Xs = sines(40)
    model = sg.RecursiveGP(
        X[:30], kernel=sg.SquaredExponential(1.0), noise=0.3, jitter=1e-6, adapt=sg.SNGD(interval=1000)
    )
    model.learn_many(X[:30], Y[:30])
    inside.move_to(model, np.array([1.4, 2.0, 0.05]))
    before, known = model.predict_many(Xs), model.hyperparameters
    model.insert([[60.0, 60.0]])
    after = model.predict_many(Xs)
    np.testing.assert_allclose(after.mean, before.mean, atol=1e-8)
    np.testing.assert_allclose(after.variance, before.variance, atol=1e-8)
    assert after.noise[0] == before.noise[0]
    assert {name: np.sum(value) for name, value in model.hyperparameters.items()} == {
        name: np.sum(value) for name, value in known.items()
    }
    model.insert(X[30:])
    model.learn_many(X[30:], Y[30:])
    mean, variance = oracles.exact_gp(oracles.squared_exponential(1.4, 2.0), X, Y, Xs, 0.05, 1e-6)
    np.testing.assert_allclose(model.predict_many(Xs).mean, mean, atol=1e-8)
    np.testing.assert_allclose(model.predict_many(Xs).variance, variance, atol=1e-8)


def test_a_point_can_be_inserted_where_a_move_has_left_the_others_close_together():
    X = np.random.default_rng(0).uniform(-3, 3, (100, 1))
    model = sg.RecursiveGP(sg.grid(-3, 3, 13), noise=0.3, adapt=sg.SNGD(interval=1000))
    model.learn_many(X, np.sin(X[:, 0]))
    inside.move_to(model, np.array([2.2, 1.0, 0.05]))
    before = model.predict_many(X)
    model.insert([[50.0]])
    np.testing.assert_allclose(model.predict_many(X).mean, before.mean, atol=1e-8)
    np.testing.assert_allclose(model.predict_many(X).variance, before.variance, atol=1e-8)
    with pytest.raises(ValueError, match=r"too close together.* above all points 6 and 14, \[0.0\] and \[0.0001\]"):
        model.insert([[1e-4]])


def test_a_point_far_away_leaves_what_adaptation_has_found():
    X = np.random.default_rng(0).uniform(-3, 3, (600, 1))
    model = sg.RecursiveGP(sg.grid(-3, 3, 9), noise=0.3, adapt=sg.SNGD(interval=20))
    model.learn_many(X, np.sin(X[:, 0]))
    twin = model.copy()
    model.insert([[50.0]])
    assert model.hyperparameters["noise"] == twin.hyperparameters["noise"] < 0.2
    np.testing.assert_allclose(model.predict_many(X[:50]).mean, twin.predict_many(X[:50]).mean, atol=1e-8)
    for name, path in twin.trace.items():
        np.testing.assert_array_equal(model.trace[name], path)
    model.learn_many(X[:100], np.sin(X[:100, 0]))
    twin.learn_many(X[:100], np.sin(X[:100, 0]))
    assert model.hyperparameters["noise"] == pytest.approx(twin.hyperparameters["noise"], rel=0.05)


def test_forecast_takes_future_values_of_other_columns_and_several_outputs():
    r = np.random.default_rng(0)
    n = 300
    u = r.uniform(-1, 1, n + 1)
    y = np.zeros((n + 1, 2))
    for t in range(n):
        y[t + 1] = [0.8 * y[t, 0] + 0.3 * u[t], 0.5 * y[t, 1] - 0.2 * y[t, 0]]
    X, Y = np.column_stack([u[:n], y[:n]]), y[1:]
    model = sg.ISSGPR(100, lengthscale=3.0, noise=1e-6)
    model.learn_many(X[:250], Y[:250])
    forecast = model.forecast(40, feedback=[1, 2], X=u[250:290], trajectories=20)
    np.testing.assert_allclose(forecast.mean, Y[250:290], atol=0.05)
