"""Batch models against dense formulas that share no code with them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import streamgp as sg
from streamgp.batch import FITC, SSGPR, FullGP
from streamgp.batch.evidence import Evidence
from streamgp.process.memory import remembered

RNG = np.random.default_rng(0)
X, X_NEW = RNG.uniform(-2.0, 2.0, (25, 2)), RNG.uniform(-2.0, 2.0, (7, 2))
Y = np.column_stack([np.sin(X[:, 0]) + X[:, 1] ** 2, np.cos(X[:, 1])]) + 0.2 * RNG.standard_normal((25, 2))
POINTS = RNG.uniform(-2.0, 2.0, (6, 2))
WINDOWS, WINDOWS_NEW = RNG.standard_normal((15, 3, 2)), RNG.standard_normal((4, 3, 2))
LENGTHSCALE, VARIANCE, NOISE = [0.8, 1.7], 1.4, 0.09


def se(A, B, lengthscale=LENGTHSCALE, variance=VARIANCE):
    return np.array(
        [[variance * np.exp(-0.5 * sum(((a - b) / lengthscale) ** 2)) for b in B] for a in A],
    )


def recursive_se(A, B, lengthscale, temporal, variance):
    K = np.empty((len(A), len(B)))
    for i, a in enumerate(A):
        for j, b in enumerate(B):
            kappa = 1.0
            for u, v in zip(a, b, strict=True):
                kappa = np.exp(-0.5 * np.sum(((u - v) / lengthscale) ** 2)) * np.exp((kappa - 1.0) / temporal**2)
            K[i, j] = variance * kappa
    return K


def log_evidence(S, targets):
    return sum(multivariate_normal(np.zeros(len(S)), S).logpdf(y) for y in targets.T)


def condition(S, cross, prior, targets):
    """Mean and covariance of what has that cross covariance with targets of covariance S."""
    inverse = np.linalg.inv(S)
    return cross @ inverse @ targets, prior - cross @ inverse @ cross.T


def assert_predicts(model, rows, mean, variance, tolerance=1e-8):
    p = model.predict(rows)
    np.testing.assert_allclose(p.mean, mean, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(p.variance, np.broadcast_to(np.reshape(variance, (-1, 1)), p.mean.shape), atol=tolerance)


def kernel():
    return sg.SquaredExponential(LENGTHSCALE, variance=VARIANCE)


# Each against its definition.


@pytest.mark.parametrize("jitter", [0.0, 0.03])
def test_full_gp_equals_the_textbook_formula(jitter):
    model = FullGP(kernel(), noise=NOISE, jitter=jitter).fit(X, Y)
    S = se(X, X) + (NOISE + VARIANCE * jitter) * np.eye(25)
    mean, covariance = condition(S, se(X_NEW, X), se(X_NEW, X_NEW) + VARIANCE * jitter * np.eye(7), Y)
    assert_predicts(model, X_NEW, mean, np.diag(covariance))
    assert model.log_marginal_likelihood() == pytest.approx(log_evidence(S, Y), abs=1e-8)
    np.testing.assert_array_equal(model.predict(X_NEW).noise, np.full((7, 2), model.hyperparameters["noise"]))
    assert model.hyperparameters["noise"] == pytest.approx(NOISE, rel=1e-14)


def test_full_gp_takes_windows():
    model = FullGP(sg.RecursiveSquaredExponential([0.8, 1.7], temporal_lengthscale=1.3, variance=1.4), noise=NOISE).fit(
        WINDOWS, Y[:15]
    )
    k = lambda A, B: recursive_se(A, B, [0.8, 1.7], 1.3, 1.4)  # noqa: E731
    S = k(WINDOWS, WINDOWS) + NOISE * np.eye(15)
    mean, covariance = condition(S, k(WINDOWS_NEW, WINDOWS), k(WINDOWS_NEW, WINDOWS_NEW), Y[:15])
    assert_predicts(model, WINDOWS_NEW, mean, np.diag(covariance))
    assert model.log_marginal_likelihood() == pytest.approx(log_evidence(S, Y[:15]), abs=1e-8)


def test_fitc_equals_its_dense_formula():
    model = FITC(kernel(), noise=NOISE, points=POINTS, jitter=1e-3).fit(X, Y)
    inverse = np.linalg.inv(se(POINTS, POINTS) + 1e-3 * VARIANCE * np.eye(6))
    q = lambda A, B: se(A, POINTS) @ inverse @ se(POINTS, B)  # noqa: E731
    S = q(X, X) + np.diag(1.001 * VARIANCE - np.diag(q(X, X))) + NOISE * np.eye(25)
    mean, covariance = condition(S, q(X_NEW, X), 1.001 * VARIANCE * np.eye(7), Y)
    assert_predicts(model, X_NEW, mean, np.diag(covariance))
    assert model.log_marginal_likelihood() == pytest.approx(log_evidence(S, Y), abs=1e-8)
    np.testing.assert_array_equal(model.points, POINTS)


def spectrum(A, B, frequencies, variance):
    """The kernel of the features: a mean of cosines."""
    return np.array([[variance * np.mean(np.cos(frequencies @ (a - b))) for b in B] for a in A])


def test_ssgpr_equals_the_process_with_the_kernel_of_its_features():
    model = SSGPR(features=9, lengthscale=LENGTHSCALE, variance=VARIANCE, noise=NOISE, seed=5).fit(X, Y)
    frequencies = np.random.default_rng(5).standard_normal((9, 2)) / LENGTHSCALE
    np.testing.assert_allclose(model.frequencies, frequencies, rtol=1e-14)
    k = lambda A, B: spectrum(A, B, frequencies, VARIANCE)  # noqa: E731
    S = k(X, X) + NOISE * np.eye(25)
    mean, covariance = condition(S, k(X_NEW, X), k(X_NEW, X_NEW), Y)
    assert_predicts(model, X_NEW, mean, np.diag(covariance))
    assert model.log_marginal_likelihood() == pytest.approx(log_evidence(S, Y), abs=1e-8)


def test_erratum_the_printed_marginal_likelihood_of_ssgpr_counts_half_the_features():
    # [gijsberts2013] 3.2 prints D/2 ln noise; with 2D features it must be 2D/2 ln noise.
    D, m, y = 4, 25, Y[:, 0]
    frequencies = RNG.standard_normal((D, 2))
    Phi = np.sqrt(VARIANCE / D) * np.hstack([np.cos(X @ frequencies.T), np.sin(X @ frequencies.T)])
    A = Phi.T @ Phi + NOISE * np.eye(2 * D)
    b = Phi.T @ y
    fixed = (y @ y - b @ np.linalg.solve(A, b)) / (2 * NOISE) + 0.5 * np.linalg.slogdet(A)[1]
    fixed += m / 2 * np.log(2 * np.pi * NOISE)
    dense = log_evidence(spectrum(X, X, frequencies, VARIANCE) + NOISE * np.eye(m), y[:, None])
    assert -(fixed - D / 2 * np.log(NOISE)) - dense == pytest.approx(-D / 2 * np.log(NOISE), abs=1e-8)
    assert -(fixed - 2 * D / 2 * np.log(NOISE)) == pytest.approx(dense, abs=1e-8)
    model = SSGPR(variance=VARIANCE, noise=NOISE, frequencies=frequencies).fit(X, y)
    assert model.log_marginal_likelihood() == pytest.approx(dense, abs=1e-8)


# Gradients.


KERNELS = [
    sg.SquaredExponential([0.8, 1.7], variance=1.4),
    sg.SquaredExponential(),
    sg.Matern(0.5, lengthscale=1.3),
    sg.Matern(1.5, lengthscale=[1.0, 2.0]),
    sg.Matern(2.5, lengthscale=0.9, variance=0.6),
    sg.RationalQuadratic(0.7, lengthscale=1.2),
    sg.Periodic(2.3, lengthscale=[0.8, 1.4], variance=0.6),
    sg.LinearKernel(0.4) + sg.Constant(0.3),
    sg.SquaredExponential(0.8) * sg.LinearKernel(0.3) + sg.Matern(1.5) * (0.2 + sg.Periodic(1.7)),
    sg.RecursiveSquaredExponential([0.7, 1.1], temporal_lengthscale=1.2, variance=1.4),
    sg.SquaredExponential([0.8, 1.7], factors=[[0.5], [-0.9]]),
    sg.Matern(1.5, factors=2) + sg.RecursiveSquaredExponential(1.3, factors=[[-0.2, 0.5], [0.7, 0.1]]),
    sg.RecursiveSquaredExponential(1.0, temporal_lengthscale=1.3) * sg.SquaredExponential(3.0) + sg.Matern(2.5),
]


def assert_gradient(objective, at, tolerance=2e-7):
    """Central differences of the value against the gradient, relative to its largest entry."""
    _, gradient = objective(at)
    differences = np.empty_like(at)
    for i in range(at.size):
        step = np.zeros_like(at)
        step[i] = 1e-5
        differences[i] = (objective(at + step)[0] - objective(at - step)[0]) / 2e-5
    np.testing.assert_allclose(gradient, differences, rtol=0.0, atol=tolerance * max(1.0, np.max(np.abs(gradient))))


def assert_gradients(build, depth, outputs):
    """At the start, and away from it; the model is given four rows as points."""
    rng = np.random.default_rng(depth)
    model = build(rng.standard_normal((4, 2 * depth)))
    X = rng.standard_normal((11, 2) if depth == 1 else (11, depth, 2))
    objective = model.objective(X, rng.standard_normal((11, outputs)))
    assert_gradient(objective, objective.start)
    assert_gradient(objective, objective.start + 0.2 * rng.standard_normal(objective.start.size))


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize(
    "build",
    [
        lambda k, _: FullGP(k, noise=0.2, jitter=1e-3),
        lambda k, U: FITC(k, noise=0.2, points=U, jitter=1e-3),
    ],
    ids=["full", "fitc"],
)
def test_gradient_of_the_log_marginal_likelihood_by_differences(build, kernel, depth):
    assert_gradients(lambda points: build(kernel, points), depth, outputs=2)


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("tune_frequencies", [False, True])
@pytest.mark.parametrize("lengthscale", [None, 0.8, [0.8, 1.7]])
@pytest.mark.parametrize("outputs", [1, 3])
def test_gradient_of_ssgpr_by_differences(lengthscale, tune_frequencies, depth, outputs):
    settings = {"lengthscale": lengthscale, "noise": 0.2, "tune_frequencies": tune_frequencies}
    assert_gradients(lambda _: SSGPR(features=4, **settings), depth, outputs)


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_a_kernel_takes_new_values_by_vector(kernel, depth):
    before = kernel.program(2 * depth, depth)
    values = before.parameters * np.linspace(1.1, 1.9, before.parameters.size)
    changed = kernel.with_values(values, 2 * depth, depth)
    assert type(changed) is type(kernel)
    np.testing.assert_array_equal(changed.program(2 * depth, depth).parameters, values)
    np.testing.assert_array_equal(changed.program(2 * depth, depth).operations, before.operations)


def test_weights_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"weights must have shape \(25, 7\).*got \(7, 25\)"):
        kernel().weighted_gradient(np.ones((7, 25)), X, X_NEW)
    with pytest.raises(ValueError, match=r"weights must have shape \(25,\)"):
        kernel().weighted_diagonal_gradient(np.ones(3), X)


# One interface.


MODELS = [FullGP(), FITC(points=8), SSGPR(features=10)]


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_shapes_follow_the_targets(model):
    model = type(model)(**model.get_params())
    assert model.fit(X, Y[:, 0]) is model
    assert model.predict(X_NEW).mean.shape == model.predict(X_NEW).variance.shape == (7,)
    assert model.predict(np.empty((0, 2))).mean.shape == (0,)
    p = model.fit(X, Y).predict(X_NEW)
    assert p.mean.shape == p.variance.shape == p.noise.shape == (7, 2)
    np.testing.assert_array_equal(p.variance[:, 0], p.variance[:, 1])
    assert model.fit(X[:, 0], Y[:, 0]).predict([0.5, 1.0]).mean.shape == (2,)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_fitting_again_starts_from_the_settings_and_changes_none(model):
    model = type(model)(**model.get_params())
    before = repr(model)
    evidence = Evidence(restarts=1, iterations=10)
    first = model.fit(X, Y, evidence).log_marginal_likelihood()
    tuned = model.hyperparameters
    assert model.maximum.value == first
    assert repr(model) == before
    assert model.fit(X, Y, evidence).log_marginal_likelihood() == first
    assert repr(model.hyperparameters) == repr(tuned)
    model.fit(X, Y)
    assert model.maximum is None
    assert model.log_marginal_likelihood() < first


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_call_that_raises_leaves_the_model_as_it_was(model):
    model = type(model)(**model.get_params())
    for ask in (lambda: model.predict(X_NEW), model.log_marginal_likelihood):
        with pytest.raises(ValueError, match=f"this {type(model).__name__} has learned nothing yet"):
            ask()
    assert model.hyperparameters == {"noise": 0.01}
    before = model.fit(X, Y).predict(X_NEW).mean
    for call, error, message in (
        (lambda: model.fit(X[:5], [0.0, 1.0, 2.0, np.nan, 1.0]), ValueError, "Y has NaN or inf in row 3"),
        (lambda: model.fit([[np.inf, 1.0]], [0.0]), ValueError, "X has NaN or inf in row 0"),
        (lambda: model.fit(np.empty((0, 2)), np.empty(0)), ValueError, "X has no rows"),
        (lambda: model.fit(X, Y[:3]), ValueError, "one target for each of the 25 rows"),
        (lambda: model.fit(X, Y, evidence=True), TypeError, r"evidence must be, for example, Evidence\(restarts=2\)"),
        (lambda: model.predict(X[:, :1]), ValueError, r"X must have shape \(n, 2\), as in fit; got \(25, 1\)"),
    ):
        with pytest.raises(error, match=message):
            call()
    np.testing.assert_array_equal(model.predict(X_NEW).mean, before)


def test_points_and_frequencies_can_be_read_before_and_after_fit():
    assert FITC(points=5).points.shape == (0, 0)
    np.testing.assert_array_equal(FITC(points=POINTS).points, POINTS)
    drawn = FITC(points=5, seed=3).fit(X, Y).points
    assert all(any(np.array_equal(u, x) for x in X) for u in drawn)
    assert FITC(points=5).fit(WINDOWS, Y[:15]).points.shape == (5, 6)
    assert SSGPR().frequencies.shape == (0, 0)
    np.testing.assert_array_equal(SSGPR(frequencies=POINTS).frequencies, POINTS)
    np.testing.assert_allclose(SSGPR(frequencies=POINTS).fit(X, Y).frequencies, POINTS, rtol=1e-14)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: FullGP(kernel="se"), TypeError, "kernel must be a kernel such as"),
        (lambda: FullGP(noise=0.0), ValueError, "noise must be a finite number above 0"),
        (lambda: FullGP(jitter=-1.0), ValueError, "jitter must be a finite number at least 0"),
        (lambda: FullGP(nois=0.1), TypeError, "Did you mean 'noise'"),
        (lambda: FITC(points=0), ValueError, "points must be a whole number of at least 1"),
        (lambda: FITC(points=[1.0, 2.0]), ValueError, r"points must have shape \(m, d\)"),
        (lambda: FITC(points=100).fit(X, Y), ValueError, "points=100 are to be drawn from the rows.*there are 25"),
        (lambda: FITC(points=POINTS[:, :1]).fit(X, Y), ValueError, "points have 1 columns, but the inputs have 2"),
        (lambda: SSGPR(frequencies=POINTS[:, :1]).fit(X, Y), ValueError, "frequencies have 1 columns"),
        (lambda: SSGPR(lengthscale=[1.0, 1.0, 1.0]).fit(X, Y), ValueError, "lengthscale has 3 values"),
        (
            lambda: FITC(kernel(), points=np.zeros((2, 2)), jitter=0.0).fit(X, Y),
            ValueError,
            "not positive definite.*Raise the noise or the jitter",
        ),
    ],
)
def test_bad_settings_and_data_are_refused(build, error, message):
    with pytest.raises(error, match=message):
        build()


def test_oesgp_with_room_is_the_exact_gp_on_reservoir_states():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(60, 2)), rng.normal(size=60)
    reservoir = sg.Reservoir(8, seed=3)
    states = remembered(reservoir, X, np.zeros((60, 1)))
    exact = FullGP(lengthscale=2.0, noise=0.05).fit(states[:50], Y[:50])
    oesgp = sg.OESGP(reservoir, lengthscale=2.0, noise=0.05, capacity=60, novelty=0)
    oesgp.learn_many(X[:50], Y[:50])
    p, q = exact.predict(states[50:]), oesgp.track(X[50:])
    np.testing.assert_allclose(p.mean, q.mean, atol=1e-8)
    np.testing.assert_allclose(p.variance, q.variance, atol=1e-8)
    oesgp.reset_memory()
    again = remembered(reservoir, X[50:], np.zeros((10, 1)))
    np.testing.assert_allclose(exact.predict(again).mean, oesgp.track(X[50:]).mean, atol=1e-8)


def test_full_gp_takes_any_kernel_expression():
    k = 0.5 * sg.LinearKernel(2.0) + kernel() * sg.Constant(3.0)
    model = FullGP(k, noise=NOISE).fit(X, Y)
    S = X @ X.T + 3.0 * se(X, X) + NOISE * np.eye(25)
    assert model.log_marginal_likelihood() == pytest.approx(log_evidence(S, Y), abs=1e-8)
    assert sorted(model.hyperparameters) == [
        "left.left.variance",
        "left.right.variance",
        "noise",
        "right.left.lengthscale",
        "right.left.variance",
        "right.right.variance",
    ]


def test_fitc_equals_recursive_gp_one_by_one():
    batch = FITC(kernel(), noise=NOISE, points=POINTS, jitter=0.0).fit(X, Y)
    stream = sg.RecursiveGP(POINTS, kernel=kernel(), noise=NOISE)
    stream.learn_many(X, Y)
    expected, got = batch.predict(X_NEW), stream.predict_many(X_NEW)
    np.testing.assert_allclose(got.mean, expected.mean, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(got.variance, expected.variance, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("depth", "lengthscale"), [(1, None), (1, LENGTHSCALE), (3, None), (3, LENGTHSCALE)])
def test_ssgpr_equals_issgpr_with_the_same_settings(depth, lengthscale):
    settings = {"features": 8, "lengthscale": lengthscale, "variance": VARIANCE, "noise": NOISE, "seed": 1}
    stream = sg.ISSGPR(**settings, depth=depth)
    stream.learn_many(X, Y)
    past = np.vstack([np.zeros((depth - 1, 2)), X])
    windows = np.stack([past[i : i + depth] for i in range(25)])
    new = np.stack([np.vstack([X[len(X) - depth + 1 :], x]) for x in X_NEW])
    shape = (-1, 2) if depth == 1 else (-1, depth, 2)
    batch = SSGPR(**settings).fit(windows.reshape(shape), Y)
    expected, got = batch.predict(new.reshape(shape)), stream.predict_many(X_NEW)
    np.testing.assert_allclose(got.mean, expected.mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(got.variance, expected.variance, rtol=1e-8, atol=1e-8)


def gradient_of(kernel, A, B):
    """d k(A, B) / d log(hyperparameter), by a loading itself: (hyperparameters, n, m)."""
    one = np.ones((1, 1))
    pairs = [[kernel.weighted_gradient(one, a[None], b[None]) for b in B] for a in A]
    return np.moveaxis(np.array(pairs), 2, 0)


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_weighted_gradients_of_kernels_equal_sums_over_all_pairs(kernel, depth):
    rng = np.random.default_rng(3)
    inner = (2,) if depth == 1 else (depth, 2)
    A, B = rng.standard_normal((5, *inner)), rng.standard_normal((4, *inner))
    W, S, w = rng.standard_normal((5, 4)), rng.standard_normal((5, 5)), rng.standard_normal(5)
    S = S + S.T
    np.testing.assert_allclose(
        kernel.weighted_gradient(W, A, B), np.einsum("ij,hij->h", W, gradient_of(kernel, A, B)), atol=1e-12
    )
    G = gradient_of(kernel, A, A)
    np.testing.assert_allclose(kernel.weighted_gradient(S, A), np.einsum("ij,hij->h", S, G), atol=1e-12)
    np.testing.assert_allclose(kernel.weighted_diagonal_gradient(w, A), np.einsum("i,hii->h", w, G), atol=1e-12)
