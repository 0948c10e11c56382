"""Numbers that arithmetic can hardly resolve: a mean is right to 1e-6, or health has counted a row before it is not.

References are worked out in 130 digits, from the textbook formulas of ridge regression and of the exact process.
"""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import cos, exp, matrix, mp, mpf, sin, sqrt

import streamgp as sg

ROWS = 45
CLOSE = 1e-6


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(130):
        yield


def solved(A, b):
    """The solution of a positive system, by elimination."""
    A, b, n = A.copy(), list(b), len(b)
    for i in range(n):
        for k in range(i + 1, n):
            factor = A[k, i] / A[i, i]
            for j in range(i, n):
                A[k, j] -= factor * A[i, j]
            b[k] -= factor * b[i]
    for i in range(n - 1, -1, -1):
        b[i] = (b[i] - sum(A[i, j] * b[j] for j in range(i + 1, n))) / A[i, i]
    return b


def ridge_means(features, y, ridge, weights=None):
    """What ridge regression on the rows so far says of each next row."""
    n = len(features[0])
    A, b, means = ridge * mp.eye(n), [mpf(0)] * n, []
    for phi, target, weight in zip(features, y, [1] * len(y) if weights is None else weights, strict=True):
        means.append(float(sum(p * w for p, w in zip(phi, solved(A, b), strict=True))))
        for i in range(n):
            b[i] += weight * phi[i] * mpf(target)
            for j in range(n):
                A[i, j] += weight * phi[i] * phi[j]
    return np.array(means)


def assert_close_or_counted(model, X, y, expected, **conditions):
    """Row by row; then the model survives a snapshot."""
    scale, close = np.abs(y).max(), True
    for t, (x, target, mean) in enumerate(zip(X, y, expected, strict=True)):
        found = model.predict_one(x).mean
        assert np.isfinite(found)
        close = abs(found - mean) <= CLOSE * max(scale, abs(mean))
        assert close or model.health.repairs > 0, f"{model!r} is {abs(found - mean) / scale:.1e} off at row {t}"
        model.learn_one(x, target, **{name: values[t] for name, values in conditions.items()})
    assert sg.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()
    return close


# Linear features.


def linear_streams(size):
    rng = np.random.default_rng(3)
    z, ramp = rng.normal(size=(ROWS, 2)), np.arange(ROWS)
    still = np.where(ramp[:, None] < ROWS - 5, z[:1], z)
    return {
        "independent": size * z,
        "offset and ramp": np.column_stack([size + ramp, z[:, 1]]),
        "two ramps": np.column_stack([size + ramp, size + 0.3 * ramp + z[:, 1]]),
        "growing": np.column_stack([np.logspace(0, np.log10(size), ROWS) * np.sign(z[:, 0]), z[:, 1]]),
        "still, then not": size * still,
        "offset, still, then not": size + still,
    }


@pytest.mark.parametrize("size", [1.0, 1e3, 1e6, 1e9])
def test_linear_models_are_right_for_inputs_of_any_size_or_say_that_they_are_not(size):
    rng, noise = np.random.default_rng(4), 0.01
    y = rng.normal(size=ROWS)
    for name, X in linear_streams(size).items():
        expected = ridge_means([[mpf(v) for v in (*x, 1.0)] for x in X.tolist()], y.tolist(), mpf(noise))
        usual = sg.OnlineGP(sg.Linear(), noise=noise)
        assert_close_or_counted(usual, X, y, expected)
        assert usual.health.skipped_rows == 0
        if name in ("independent", "offset and ramp", "growing"):  # what one is likely to meet
            assert usual.health.unresolved_rows <= 1
        assert_close_or_counted(sg.OnlineGP(sg.Linear(), noise=noise, form="covariance"), X, y, expected)


def test_forgetting_keeps_what_is_known_of_large_inputs():
    # Directions that stand above the prior are cut back to it, whatever the others are like.
    rng, size, factor = np.random.default_rng(0), 1e8, 0.9
    X = np.column_stack([size * rng.normal(size=60), np.zeros(60)])
    y = X[:, 0] / size + 0.1 * rng.normal(size=60)
    model = sg.OnlineGP(sg.Linear(constant=False), noise=0.01, forgetting=sg.Injection(factor))
    model.learn_many(X, y)
    weights = factor ** np.arange(60)[::-1]
    slope = np.sum(weights * X[:, 0] * y) / np.sum(weights * X[:, 0] ** 2)
    p = model.predict_many([[size, 0.0], [0.0, 1.0]])
    np.testing.assert_allclose(p.mean, [slope * size, 0.0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(p.variance[1], 1.0, rtol=1e-12)
    assert model.health.capped_directions > 0
    assert model.health.repairs == 0


# Fourier features.


@pytest.mark.parametrize("stream", ["spread", "repeated"])
@pytest.mark.parametrize("noise", [1e-4, 1e-9, 1e-14, 1e-99])
def test_fourier_features_with_next_to_no_noise_are_right_or_say_that_they_are_not(noise, stream):
    rng = np.random.default_rng(0)
    omega = rng.normal(size=(3, 1))
    X = rng.uniform(-2, 2, (ROWS, 1))
    if stream == "repeated":
        X[:-5] = rng.choice(X[:3], ROWS - 5)
    y = rng.normal(size=ROWS)
    amplitude = sqrt(mpf(1) / 3)
    angles = [[mpf(w) * mpf(x) for w in omega[:, 0].tolist()] for x in X[:, 0].tolist()]
    features = [[amplitude * f(a) for f in (cos, sin) for a in row] for row in angles]
    expected = ridge_means(features, y.tolist(), mpf(noise))
    for form in ("cholesky", "covariance"):
        assert_close_or_counted(sg.ISSGPR(3, frequencies=omega, noise=noise, form=form), X, y, expected)


# Rows that are kept.


@pytest.mark.parametrize("build", [sg.SWKRLS, sg.FBKRLS])
@pytest.mark.parametrize("noise", [1e-2, 1e-8, 1e-14, 1e-99])
def test_kept_rows_whose_targets_conflict_are_right_or_counted(build, noise):
    rng = np.random.default_rng(1)
    X = rng.choice(rng.uniform(-2, 2, 4), ROWS)
    y = np.sin(X) + 0.1 * rng.normal(size=ROWS)
    model = build(sg.SquaredExponential(1.0), capacity=7, noise=noise)
    scale = np.abs(y).max()
    for x, target in zip(X.tolist(), y.tolist(), strict=True):
        B, targets = model.basis[:, 0].tolist() if model.size else [], []
        if B:
            targets = [mpf(v) for v in model._state.targets[: len(B), 0].tolist()]
            K = matrix([[exp(-((mpf(a) - mpf(b)) ** 2) / 2) + (noise if i == j else 0) for j, b in enumerate(B)]
                        for i, a in enumerate(B)])  # fmt: skip
            alpha = solved(K, targets)
            mean = float(sum(exp(-((mpf(x) - mpf(b)) ** 2) / 2) * w for b, w in zip(B, alpha, strict=True)))
            found = model.predict_one(x).mean
            assert abs(found - mean) <= CLOSE * scale or model.health.unresolved_rows > 0
        model.learn_one(x, target)
    assert (model.health.repairs > 0) == (noise < 1e-7)
    assert sg.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()


# Basis points that are given.


@pytest.mark.parametrize("apart", [0.0, 3e-8, 1e-6])
def test_given_points_that_arithmetic_cannot_tell_apart_are_refused_by_name(apart):
    points = [[-1.0], [0.0], [1.0], [apart]]
    with pytest.raises(ValueError, match=r"above all points 1 and 3, \[0.0\] and .* jitter=1e-08"):
        sg.RecursiveGP(points, kernel=sg.SquaredExponential(1.0)).learn_one(0.3, 1.0)
    model = sg.RecursiveGP(points, kernel=sg.SquaredExponential(1.0), jitter=1e-8)
    model.learn_one(0.3, 1.0)
    assert model.size == 4


def test_points_inserted_too_close_are_refused_and_change_nothing():
    model = sg.RecursiveGP([[-1.0], [0.0], [1.0]], kernel=sg.SquaredExponential(1.0))
    model.learn_one(0.3, 1.0)
    before = model.to_bytes()
    with pytest.raises(ValueError, match=r"above all points 2 and 3, \[1.0\] and \[1.0000001\]"):
        model.insert([[1.0000001]])
    assert model.to_bytes() == before


def test_a_given_point_where_the_kernel_vanishes_is_refused():
    with pytest.raises(ValueError, match=r"the kernel has no variance at the basis point \[0.0\]; leave it out"):
        sg.RecursiveGP([[0.0], [1.0]], kernel=sg.LinearKernel()).learn_one(0.3, 1.0)


# Noises that are as good as 0.


@pytest.mark.parametrize(
    "build", [sg.SOGP, sg.ISSGPR, sg.IRFRR, sg.SWKRLS, sg.RLSESN, lambda noise: sg.RecursiveGP([[0.0]], noise=noise)]
)
def test_a_noise_too_small_to_divide_by_is_refused(build):
    with pytest.raises(ValueError, match="noise must be .*at least 1e-100.*5e-324"):
        build(noise=5e-324)
    build(noise=1e-100)


def test_a_row_with_a_noise_too_small_to_divide_by_is_refused_and_changes_nothing():
    for model in (sg.ISSGPR(5), sg.IRFRR(5), sg.SOGP(), sg.SWKRLS()):
        model.learn_one(0.5, 1.0)
        before = model.to_bytes()
        with pytest.raises(ValueError, match="at least 1e-100, below which .*nothing was learned"):
            model.learn_one(0.7, 1.0, noise=5e-324)
        with pytest.raises(ValueError, match="in row 1: .* at least 1e-100, below"):
            model.learn_many([0.7, 0.8], [1.0, 2.0], noise=[0.1, 1e-320])
        assert model.to_bytes() == before


@pytest.mark.parametrize("form", ["cholesky", "covariance"])
def test_a_row_whose_noise_vanishes_in_standard_units_is_skipped_and_counted(form):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-2, 2, (60, 1)), 1e120 * rng.normal(size=60)
    model = sg.Standardize(sg.ISSGPR(5, form=form), warmup=10)
    model.learn_many(X, y)
    model.learn_one([0.3], 1e120, noise=1e-100)  # 1e-340 of the squared scale
    assert model.health.repairs > 0
    assert np.isfinite(model.predict_one([0.3]).mean)
    assert sg.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()


# Forgetting.


def test_forgetting_once_counts_the_directions_it_cuts_back_which_are_no_repairs():
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-2, 2, (40, 1)), rng.normal(size=40)
    injecting = sg.Injection(1.0)
    for model in (
        sg.ISSGPR(5),
        sg.OnlineGP(sg.Fourier(5), forgetting=injecting, form="covariance"),
        sg.OnlineGP(sg.Basis(), forgetting=injecting, outputs="separate"),
    ):
        model.learn_many(X, y)
        model.forget(1e-6)
        assert model.health.capped_directions == model.size
        assert model.health.repairs == 0
    fading = sg.KRLST()
    fading.learn_many(X, y)
    fading.forget(1e-6)
    assert fading.health.capped_directions == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize(
    "build",
    [
        lambda: sg.KRLST(capacity=5, mode="injection", forgetting=0.8),
        lambda: sg.OnlineGP(sg.Fourier(4), forgetting=sg.Injection(0.8), form="covariance"),
        lambda: sg.OnlineGP(sg.Linear(), forgetting=sg.Injection(0.8)),
        lambda: sg.OnlineGP(sg.Linear(), forgetting=sg.Injection(half_life=1.0)),
    ],
)
def test_a_posterior_that_is_no_number_raises_nothing_in_the_middle_of_a_row(build, bad):
    rng = np.random.default_rng(0)
    X, y, times = rng.uniform(-2, 2, (30, 2)), rng.normal(size=30), 3.0 * np.arange(30.0)
    model = build()
    model.learn_many(X[:10], y[:10], time=times[:10])
    model._state.covariance[0, 0, 0] = bad
    model.learn_many(X[10:], y[10:], time=times[10:])
    model.forget(0.5)
    assert model.rows_seen == 30
    assert model._factored or model.health.skipped_rows == 20


def test_a_covariance_that_lost_its_digits_learns_again():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 2))
    y = X @ [1.0, -2.0] + 0.1 * rng.normal(size=900)
    X[:400] = 1e9 + np.column_stack([np.arange(400), X[:400, 1]])
    model, factored = (sg.OnlineGP(sg.Linear(), noise=0.01, form=form) for form in ("covariance", "cholesky"))
    for one in (model, factored):
        one.learn_many(X[:400], y[:400])
    skipped = model.health.skipped_rows
    assert skipped > 0
    p, q = (one.track(X[400:], y[400:]) for one in (model, factored))
    assert np.abs(p.mean - q.mean)[100:].max() < 0.05 * np.abs(y).max()
    assert np.all(p.variance >= 0)
    assert model.health.skipped_rows == skipped
    assert sg.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()


def test_a_row_of_next_to_no_noise_counts_before_it_does_harm():
    rng = np.random.default_rng(0)
    omega, own, X, y = rng.normal(size=(3, 1)), 0.01, rng.uniform(-2, 2, (ROWS, 1)), rng.normal(size=ROWS)
    noise = np.where(np.arange(ROWS) % 4 == 3, 1e-18, own)
    amplitude = sqrt(mpf(1) / 3)
    features = [
        [amplitude * f(mpf(w) * mpf(x)) for f in (cos, sin) for w in omega[:, 0].tolist()] for x in X[:, 0].tolist()
    ]
    expected = ridge_means(features, y.tolist(), mpf(own), [mpf(own) / mpf(v) for v in noise.tolist()])
    for form in ("cholesky", "covariance"):
        model = sg.ISSGPR(3, frequencies=omega, noise=own, form=form)
        assert_close_or_counted(model, X, y, expected, noise=noise)


@pytest.mark.parametrize("build", [sg.SWKRLS, sg.FBKRLS])
def test_kept_rows_of_a_kernel_of_low_rank_stay_finite_without_noise(build):
    rng = np.random.default_rng(0)
    model = build(sg.LinearKernel(), capacity=15, noise=1e-40)
    p = model.track(1e3 * rng.normal(size=(80, 2)), rng.normal(size=80))
    assert np.all(np.isfinite(p.mean))
    assert model.health.unresolved_rows > 0
    assert sg.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()


@pytest.mark.parametrize("noise", [1e-2, 1e-6])
def test_given_points_as_close_as_they_may_be_are_right(noise):
    points = [-2.0, 0.0, 2.0, 2e-5 if noise == 1e-2 else 3e-4]
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, ROWS)
    y = np.sin(x) + 0.1 * rng.normal(size=ROWS)
    k = [[exp(-((mpf(a) - mpf(b)) ** 2) / 2) for b in points] for a in (*points, *x.tolist())]
    K = matrix(k[:4])
    means, A, b = [], K.copy(), [mpf(0)] * 4  # FITC: A = K + sum k k' / (gamma2 + noise)
    for row, target in zip(k[4:], y.tolist(), strict=True):
        means.append(float(sum(p * q for p, q in zip(row, solved(A, b), strict=True))))
        s = 1 - sum(p * q for p, q in zip(row, solved(K, row), strict=True)) + mpf(noise)
        for i in range(4):
            b[i] += row[i] * mpf(target) / s
            for j in range(4):
                A[i, j] += row[i] * row[j] / s
    model = sg.RecursiveGP(np.array(points)[:, None], kernel=sg.SquaredExponential(1.0), noise=noise)
    p = model.track(x, y)
    np.testing.assert_allclose(p.mean, means, atol=CLOSE * np.abs(y).max())
    assert model.health.repairs == 0
