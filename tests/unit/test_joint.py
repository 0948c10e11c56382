"""Joint predictions: their covariance against batch formulas, their draws, and what wrappers do to both."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.stats import norm

import streamgp as sg
from tests import oracles
from tests.contract.models import EXAMPLES, D

rng = np.random.default_rng(41)
X, Y = rng.uniform(-2, 2, (25, 2)), rng.standard_normal((25, 2))
NEW = rng.uniform(-2, 2, (6, 2))
KERNEL = oracles.squared_exponential(1.3, 0.7)
SE = sg.SquaredExponential(1.3, variance=0.7)
DRAWS = 20000


def exact_joint(A, Y, B, noise):
    """The batch GP's joint posterior of the function at the rows of B."""
    K, k = KERNEL(A, A) + noise * np.eye(len(A)), KERNEL(A, B)
    return k.T @ np.linalg.solve(K, Y), KERNEL(B, B) - k.T @ np.linalg.solve(K, k)


def sparse_joint(points, A, Y, B, noise, residual):
    """FITC (residual 1) or DTC (0) in dense matrices of all rows, with the exact covariance between test rows."""
    Kuu, Kuf, Kus = (KERNEL(points, rows) for rows in (points, A, B))
    Qff, Qsf = Kuf.T @ np.linalg.solve(Kuu, Kuf), Kus.T @ np.linalg.solve(Kuu, Kuf)
    Lambda = residual * np.diag(oracles.diagonal(KERNEL, A) - np.diag(Qff)) + noise * np.eye(len(A))
    gain = np.linalg.solve(Qff + Lambda, Qsf.T).T
    return gain @ Y, KERNEL(B, B) - gain @ Qsf.T


def linear_joint(Phi, Y, New, noise):
    """The posterior of a linear model with weights of prior N(0, I)."""
    A = np.eye(Phi.shape[1]) + Phi.T @ Phi / noise
    return New @ np.linalg.solve(A, Phi.T @ Y / noise), New @ np.linalg.solve(A, New.T)


def fourier(frequencies, A):
    angles = A @ frequencies.T
    return np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(len(frequencies))


def learned(model, targets=Y):
    model.learn_many(X, targets)
    return model


def assert_is(joint, mean, covariance):
    np.testing.assert_allclose(joint.mean, mean, atol=1e-8)
    np.testing.assert_allclose(joint.covariance, np.broadcast_to(covariance, joint.covariance.shape), atol=1e-8)


def assert_drawn_from(joint, draws):
    """Means and covariances of draws lie within five standard errors of the joint prediction's, output by output."""
    outputs = draws.reshape(*draws.shape[:2], -1).transpose(2, 0, 1)
    covariances = np.atleast_3d(joint.covariance.T).T
    for drawn, mean, C in zip(outputs, joint.mean.reshape(len(joint), -1).T, covariances, strict=True):
        v = np.diag(C)
        np.testing.assert_array_less(np.abs(drawn.mean(0) - mean), 5 * np.sqrt(v / len(drawn)) + 1e-12)
        # Of Gaussian draws the covariance of i and j has the variance (v_i v_j + C_ij^2) / n.
        error = 5 * np.sqrt((np.outer(v, v) + C**2) / len(drawn)) + 1e-12
        np.testing.assert_array_less(np.abs(np.atleast_2d(np.cov(drawn.T)) - C), error)


# Covariances


@pytest.mark.parametrize("targets", [Y[:, 0], Y], ids=["scalar", "vector"])
def test_with_room_for_every_row_it_is_the_batch_gp(targets):
    mean, covariance = exact_joint(X, targets, NEW, 0.05)
    for model in (
        sg.SOGP(SE, capacity=25, novelty=0, noise=0.05),
        sg.KRLST(SE, capacity=25, forgetting=1.0, noise=0.05, jitter=0.0),
        sg.KRLS(SE, capacity=25, novelty=0, noise=0.05),
        sg.SWKRLS(SE, capacity=25, noise=0.05),
        sg.FBKRLS(SE, capacity=25, noise=0.05),
        sg.RecursiveGP(X, kernel=SE, noise=0.05),
    ):
        joint = learned(model, targets).predict_joint(NEW)
        assert joint.covariance.shape == (*targets.shape[1:], 6, 6)
        assert_is(joint, mean, covariance)
        np.testing.assert_array_equal(joint.noise, np.full_like(mean, 0.05))


@pytest.mark.parametrize(("absorb", "residual"), [("fitc", 1.0), ("dtc", 0.0)])
def test_absorbed_rows_count_as_in_fitc_or_dtc(absorb, residual):
    """The first rows are the basis; all later ones are absorbed."""
    points = rng.uniform(-2, 2, (7, 2))
    model = sg.OnlineGP(sg.Basis(SE), noise=0.05, budget=sg.Budget(50, novelty=1e-9, absorb=absorb))
    model.learn_many(points, np.zeros((7, 2)))
    model._numbers.plan["novelty"] = np.inf
    learned(model)
    np.testing.assert_array_equal(model.basis, points)
    rows, targets = np.vstack([points, X]), np.vstack([np.zeros((7, 2)), Y])
    assert_is(model.predict_joint(NEW), *sparse_joint(points, rows, targets, NEW, 0.05, residual))


@pytest.mark.parametrize("form", ["covariance", "cholesky"])
def test_features_are_the_linear_model_of_their_weights(form):
    frequencies = rng.standard_normal((10, 2))
    for model, features in (
        (sg.ISSGPR(frequencies=frequencies, noise=0.05, form=form), lambda A: fourier(frequencies, A)),
        (
            sg.OnlineGP(sg.Linear(delta=0.5), noise=0.05, form=form),
            lambda A: np.column_stack([A, np.ones(len(A))]) / np.sqrt(0.5),
        ),
    ):
        joint = learned(model).predict_joint(NEW)
        assert_is(joint, *linear_joint(features(X), Y, features(NEW), 0.05))


def test_every_row_has_the_same_past():
    model = learned(sg.SOGP(SE, capacity=25, novelty=0, noise=0.05, depth=3))
    past = np.hstack([np.tile(X[-2:].ravel(), (len(NEW), 1)), NEW])
    assert_is(model.predict_joint(NEW), *exact_joint(oracles.windows(X, 3), Y, past, 0.05))


def test_before_any_data_it_is_the_prior():
    joint = sg.SOGP(SE).predict_joint(NEW)
    assert_is(joint, np.zeros(6), KERNEL(NEW, NEW))
    assert_drawn_from(joint, joint.sample(DRAWS))
    frequencies = rng.standard_normal((10, 2))
    Phi = fourier(frequencies, NEW)
    for form in ("covariance", "cholesky"):
        assert_is(sg.ISSGPR(frequencies=frequencies, form=form).predict_joint(NEW), np.zeros(6), Phi @ Phi.T)


def test_an_estimated_power_scales_the_covariance():
    settings = {"capacity": 25, "forgetting": 1.0, "noise": 0.05}
    plain = learned(sg.KRLST(SE, **settings)).predict_joint(NEW)
    powered = learned(sg.KRLST(SE, **settings, estimate_power=True))
    joint, power = powered.predict_joint(NEW), powered._state.power[0] / powered._state.power[1]
    np.testing.assert_allclose(joint.covariance, power * plain.covariance, rtol=1e-8)
    np.testing.assert_allclose(joint.noise, power * plain.noise, rtol=1e-12)


# What needs the joint


def test_a_maximum_over_rows_has_the_law_found_by_quadrature():
    rows = np.array([[0.1, 0.2], [0.5, -0.1]])
    joint = learned(sg.SOGP(SE, capacity=25, novelty=0, noise=0.5), Y[:, 0]).predict_joint(rows)
    (m1, m2), C = exact_joint(X, Y[:, 0], rows, 0.5)
    assert C[0, 1] / np.sqrt(C[0, 0] * C[1, 1]) > 0.5  # rows on their own would give another law
    maxima = joint.sample(DRAWS).max(1)
    slope, left = C[0, 1] / C[0, 0], np.sqrt(C[1, 1] - C[0, 1] ** 2 / C[0, 0])
    for level in (0.1, 0.5, 0.9):
        c = np.quantile(maxima, level)
        f = np.linspace(m1 - 10 * np.sqrt(C[0, 0]), c, 20001)  # f1 up to c, and f2 given f1 below c
        density = norm.pdf(f, m1, np.sqrt(C[0, 0])) * norm.cdf(c, m2 + slope * (f - m1), left)
        assert abs(np.trapezoid(density, f) - level) < 5 * np.sqrt(level * (1 - level) / DRAWS)
    # The mean of the larger of two Gaussians [Clark 1961].
    theta = np.sqrt(C[0, 0] + C[1, 1] - 2 * C[0, 1])
    a = (m1 - m2) / theta
    expected = m1 * norm.cdf(a) + m2 * norm.cdf(-a) + theta * norm.pdf(a)
    assert abs(maxima.mean() - expected) < 5 * maxima.std() / np.sqrt(DRAWS)


# Draws


def test_draws_on_few_weights_are_functions_of_these_weights():
    """500 rows, but 6 weights: every draw is phi'w, to rounding, with w of the posterior's law."""
    frequencies = rng.standard_normal((3, 2))
    rows = rng.uniform(-2, 2, (500, 2))
    Phi = fourier(frequencies, rows)
    for form in ("covariance", "cholesky"):
        joint = learned(sg.ISSGPR(frequencies=frequencies, noise=0.05, form=form), Y[:, 0]).predict_joint(rows)
        draws = joint.sample(2000)
        w = np.linalg.lstsq(Phi, draws.T)[0]
        np.testing.assert_allclose(Phi @ w, draws.T, atol=1e-12)
        mean, covariance = linear_joint(fourier(frequencies, X), Y[:, 0], np.eye(6), 0.05)
        assert_drawn_from(sg.JointPrediction(mean, covariance, np.zeros(6)), w.T)


@pytest.mark.parametrize("capacity", [10, 100])
def test_draws_at_smooth_and_repeated_rows_are_smooth_functions(capacity):
    """A covariance of 500 rows of which a dozen directions have any variance."""
    line = np.linspace(-3, 3, 250)
    model = sg.SOGP(sg.SquaredExponential(2.0), capacity=capacity, noise=0.01)
    model.learn_many(X[:, 0], Y[:, 0])
    joint = model.predict_joint(np.concatenate([line, line]))
    assert np.linalg.matrix_rank(joint.covariance, tol=1e-12) < 30
    draws = joint.sample(500)
    assert np.all(np.isfinite(draws))
    np.testing.assert_allclose(draws[:, :250], draws[:, 250:], atol=1e-6)
    assert np.abs(np.diff(draws[:, :250], n=3)).max() < 1e-4  # h^3 f''' with h = 0.024; white noise would have 20 sigma
    assert_drawn_from(joint, draws)


def test_draws_repeat_with_their_seed_and_what_is_wrong_gets_a_sentence():
    joint = learned(sg.SOGP(SE, noise=0.05), Y[:, 0]).predict_joint(NEW)
    np.testing.assert_array_equal(joint.sample(4, seed=2), joint.sample(4, seed=2))
    assert not np.array_equal(joint.sample(4, seed=2), joint.sample(4, seed=3))
    with pytest.raises(ValueError, match="n must be"):
        joint.sample(0)
    with pytest.raises(ValueError, match="seed must be"):
        joint.sample(1, seed=-1)


def test_a_joint_prediction_stays_when_the_model_learns_on():
    for model in (sg.SOGP(SE, noise=0.05), sg.ISSGPR(features=5)):
        joint = learned(model).predict_joint(NEW)
        assert len(joint) == 6
        before = joint.mean.copy(), joint.covariance.copy(), joint.sample(3)
        model.learn_many(X + 0.3, Y)
        for got, expected in zip((joint.mean, joint.covariance, joint.sample(3)), before, strict=True):
            np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(joint)).sample(3), before[2])


# Models without one, and bad rows


@pytest.mark.parametrize("name", ["QKLMS", "LocalGP", "LWPR", "IRFRR", "RunningMean"])
def test_models_without_a_joint_posterior_say_so(name):
    for model in (EXAMPLES[name](), sg.Standardize(EXAMPLES[name]()), sg.Calibrated(EXAMPLES[name]())):
        with pytest.raises(ValueError, match=f"{name} has no joint posterior over several rows; models that can are"):
            model.predict_joint(np.zeros((2, D)))


def test_bad_rows_get_a_sentence_and_change_nothing():
    for started in (False, True):
        model = sg.Standardize(sg.SOGP(SE))
        if started:
            learned(model)
        before = model.to_bytes()
        with pytest.raises(ValueError, match="X has no rows: there is nothing to predict together"):
            model.predict_joint(np.empty((0, 2)))
        with pytest.raises(ValueError, match="X has NaN or inf in row 1"):
            model.predict_joint([[0.0, 1.0], [np.nan, 0.0]])
        with pytest.raises(ValueError, match="beyond 1e\\+150 in row 0"):
            sg.SOGP(SE).predict_joint([[1e200, 0.0]])
        assert model.to_bytes() == before
    with pytest.raises(ValueError, match="X must have 2 columns"):
        model.predict_joint(np.zeros((3, 4)))


# Wrappers


def gp(noise=0.05):
    return sg.SOGP(SE, capacity=30, novelty=0, noise=noise)


def test_standardize_hands_over_standard_rows_and_scales_back():
    targets = 100.0 + 30.0 * Y
    model = learned(sg.Standardize(gp(), warmup=25), 100.0 + 30.0 * Y)
    shift, scale = X.mean(0), X.std(0, ddof=1)
    center, spread = targets.mean(0), targets.std(0, ddof=1)
    mean, covariance = exact_joint((X - shift) / scale, (targets - center) / spread, (NEW - shift) / scale, 0.05)
    joint = model.predict_joint(NEW)
    np.testing.assert_allclose(joint.mean, center + spread * mean, atol=1e-6)
    np.testing.assert_allclose(joint.covariance, spread[:, None, None] ** 2 * covariance, atol=1e-6)
    np.testing.assert_allclose(joint.noise, np.broadcast_to(0.05 * spread**2, (6, 2)), rtol=1e-12)
    assert_drawn_from(joint, joint.sample(DRAWS))


def test_columns_differenced_and_a_prior_mean_pass_the_covariance_on():
    mean, covariance = exact_joint(X[:, :1], Y, NEW[:, :1], 0.05)
    assert_is(learned(sg.Columns(gp(), columns=[0])).predict_joint(NEW), mean, covariance)
    mean, covariance = exact_joint(X, Y - X[:, 1:], NEW, 0.05)
    joint = learned(sg.Differenced(gp(), column=1)).predict_joint(NEW)
    assert_is(joint, mean + NEW[:, 1:], covariance)
    above = learned(sg.RecursiveGP(X, kernel=SE, noise=0.05, mean=lambda rows: rows[:, 1])).predict_joint(NEW)
    assert_is(above, mean + NEW[:, 1:], covariance)
    assert_drawn_from(above, above.sample(DRAWS))


def test_calibrated_stretches_every_row_and_keeps_the_correlations():
    model = sg.Calibrated(sg.Standardize(sg.ISSGPR(features=10, noise=0.01)))
    model.learn_many(np.tile(X, (6, 1)), np.tile(Y, (6, 1)))
    joint, inner, many = (ask(NEW) for ask in (model.predict_joint, model.inner.predict_joint, model.predict_many))
    np.testing.assert_allclose(joint.mean, inner.mean, rtol=1e-12)
    np.testing.assert_allclose(joint.marginal.std, many.std, rtol=1e-10)
    assert np.all(joint.marginal.variance > 1.1 * inner.marginal.variance)
    for own, other in zip(joint.covariance, inner.covariance, strict=True):
        deviations = np.sqrt(np.diag(own)), np.sqrt(np.diag(other))
        np.testing.assert_allclose(
            own / np.outer(*deviations[:1] * 2), other / np.outer(*deviations[1:] * 2), atol=1e-9
        )
    assert_drawn_from(joint, joint.sample(DRAWS))


def test_encoded_models_put_outputs_side_by_side():
    encoder = sg.TrainedEncoder(
        "feedforward", inputs=2, depth=1, units=4, weights=rng.standard_normal(4 * 3), activation="relu"
    )
    shift, scale = [1.0, 2.0], [2.0, 0.5]
    model = sg.Encoded(encoder, model=[gp(), sg.ISSGPR(features=5)], target_shift=shift, target_scale=scale)
    joint = learned(model).predict_joint(NEW)
    rows = np.array([encoder.embed(x[None]) for x in NEW])
    for j, inner in enumerate(model.inner):
        part = inner.predict_joint(rows)
        np.testing.assert_allclose(joint.mean[:, j], shift[j] + scale[j] * part.mean[:, 0], rtol=1e-12)
        np.testing.assert_allclose(joint.covariance[j], scale[j] ** 2 * part.covariance[0], rtol=1e-12)
        np.testing.assert_allclose(joint.noise[:, j], scale[j] ** 2 * part.noise[:, 0], rtol=1e-12)
    assert_drawn_from(joint, joint.sample(DRAWS))


def committee(rule="recent"):
    model = sg.Committee([gp(), sg.OnlineGP(sg.Linear()), sg.RunningMean()], rule=rule)
    learned(model, Y[:, 0])
    model._errors[:, 0], model._errors[:, 1] = [[1.0, 1.01, 1.02]], 10.0  # so that all members have some weight
    return model


def test_a_committee_is_a_mixture_of_which_one_member_holds_for_all_rows():
    model = committee()
    first, second = (member.predict_joint(NEW) for member in model.members[:2])
    constant, w = model.members[2].predict_many(NEW).mean, model.weights
    assert w.min() > 0.3
    joint = model.predict_joint(NEW)
    means = np.array([first.mean, second.mean, constant])[..., 0]
    expected = w @ means
    apart = means - expected
    covariance = w[0] * first.covariance[0] + w[1] * second.covariance[0] + apart.T @ (w[:, None] * apart)
    assert_is(joint, expected, covariance)
    np.testing.assert_allclose(joint.marginal.std, model.predict_many(NEW).std, rtol=1e-10)
    draws = joint.sample(DRAWS)
    share = np.mean(np.abs(draws - constant[:, 0]).max(1) < 1e-12)  # those that follow the member without a variance
    assert abs(share - w[2]) < 5 * np.sqrt(w[2] * (1 - w[2]) / DRAWS)
    np.testing.assert_array_less(np.abs(draws.mean(0) - expected), 5 * np.sqrt(np.diag(covariance) / DRAWS))
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.1 * np.diag(covariance).max())
    wrapped = sg.Calibrated(sg.Standardize(sg.Committee([gp(), sg.OnlineGP(sg.Linear())])))
    joint = learned(wrapped, Y[:, 0]).predict_joint(NEW)
    np.testing.assert_allclose(joint.sample(DRAWS).std(0), np.sqrt(np.diag(joint.covariance)), rtol=0.1)


def test_committees_that_are_no_one_mixture_say_so():
    with pytest.raises(ValueError, match='rule="stacked" speaks through regressions on its members'):
        committee("stacked").predict_joint(NEW)
    with pytest.raises(ValueError, match="QKLMS has no joint|Committee has no joint posterior over several rows"):
        sg.Committee([sg.filters.QKLMS()]).predict_joint(NEW)
    undecided = sg.Committee([gp(), sg.Columns(gp(), columns=[0]), sg.Columns(gp(), columns=[1])], rule="ml-poly")
    learned(undecided)
    undecided._regrets[:] = 0.0  # the median speaks, another member at every row
    with pytest.raises(ValueError, match="are no one mixture for all of these rows"):
        undecided.predict_joint(NEW)


def test_kept_rows_are_the_batch_gp_of_these_rows():
    joint = learned(sg.SWKRLS(SE, capacity=10, noise=0.05)).predict_joint(NEW)
    assert_is(joint, *exact_joint(X[-10:], Y[-10:], NEW, 0.05))


def test_given_basis_points_are_fitc():
    points = rng.uniform(-2, 2, (7, 2))
    joint = learned(sg.RecursiveGP(points, kernel=SE, noise=0.05)).predict_joint(NEW)
    assert_is(joint, *sparse_joint(points, X, Y, NEW, 0.05, 1.0))


def test_separate_outputs_have_covariances_of_their_own():
    model = sg.SOGP(SE, capacity=25, novelty=0, noise=[0.05, 0.2], outputs="separate")
    joint = learned(model).predict_joint(NEW)
    for j, noise in enumerate((0.05, 0.2)):
        mean, covariance = exact_joint(X, Y[:, j], NEW, noise)
        np.testing.assert_allclose(joint.mean[:, j], mean, atol=1e-8)
        np.testing.assert_allclose(joint.covariance[j], covariance, atol=1e-8)
        np.testing.assert_array_equal(joint.noise[:, j], noise)
    assert_drawn_from(joint, joint.sample(DRAWS))


def test_draws_follow_the_joint_law_with_and_without_a_residual():
    for model in (
        sg.SOGP(SE, capacity=5, noise=0.05),
        sg.ISSGPR(features=10, noise=0.05),
        sg.ISSGPR(features=10, noise=0.05, form="covariance", outputs="separate"),
        sg.RLSESN(units=6),
        sg.SWKRLS(SE, capacity=5),
    ):
        joint = learned(model).predict_joint(NEW)
        draws = joint.sample(DRAWS, seed=1)
        assert draws.shape == (DRAWS, 6, 2)
        assert_drawn_from(joint, draws)
        between = np.mean((draws[..., 0] - joint.mean[:, 0]) * (draws[..., 1] - joint.mean[:, 1]), axis=0)
        v = joint.marginal.variance
        np.testing.assert_array_less(np.abs(between), 5 * np.sqrt(v[:, 0] * v[:, 1] / DRAWS))  # outputs are independent
