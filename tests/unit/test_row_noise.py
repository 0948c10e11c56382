"""A row with a noise of its own: equal to the batch formulas with that diagonal."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from tests import oracles

rng = np.random.default_rng(3)
N = 40
X = rng.uniform(-3, 3, (N, 2))
Y = np.sin(X[:, 0]) + X[:, 1] ** 2 / 5
NOISE = 10.0 ** rng.uniform(-4, 0, N)
Z = rng.uniform(-3, 3, (7, 2))
SE, KERNEL = oracles.squared_exponential(1.0), sg.SquaredExponential(1.0)


def assert_equals(prediction, mean, variance, rtol=1e-8):
    np.testing.assert_allclose(prediction.mean, mean, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(prediction.variance, variance, rtol=rtol, atol=rtol)


ROOM_FOR_ALL = {
    "SOGP": lambda: sg.SOGP(KERNEL, novelty=0),
    "SOGP oldest": lambda: sg.SOGP(KERNEL, novelty=0, evict="oldest"),
    "KRLST": lambda: sg.KRLST(KERNEL, forgetting=1.0, jitter=0.0),
    "KRLS": lambda: sg.KRLS(KERNEL, novelty=0, noise=0.3),
    "SWKRLS": lambda: sg.SWKRLS(KERNEL),
    "FBKRLS": lambda: sg.FBKRLS(KERNEL),
    "LocalGP": lambda: sg.LocalGP(KERNEL, experts=1),
}


@pytest.mark.parametrize("build", ROOM_FOR_ALL.values(), ids=ROOM_FOR_ALL)
def test_with_room_for_all_rows_it_equals_the_batch_gp_with_that_diagonal(build):
    model = build()
    model.learn_many(X, Y, noise=NOISE)
    assert_equals(model.predict_many(Z), *oracles.exact_gp(SE, X, Y, Z, NOISE))


def test_separate_outputs_each_have_their_noise():
    noise, T = 10.0 ** rng.uniform(-3, 0, (N, 2)), np.stack([Y, np.cos(X[:, 1])], axis=1)
    T[5, 0] = np.nan
    noise[5, 0] = np.nan  # of a missing target nothing has to be known
    for build in (ROOM_FOR_ALL["SOGP"], ROOM_FOR_ALL["KRLST"]):
        model = build().set_params(outputs="separate")
        model.learn_many(X, T, noise=noise)
        p = model.predict_many(Z)
        for j in range(2):
            seen = ~np.isnan(T[:, j])
            mean, variance = oracles.exact_gp(SE, X[seen], T[seen, j], Z, noise[seen, j])
            np.testing.assert_allclose(p.mean[:, j], mean, atol=1e-8)
            np.testing.assert_allclose(p.variance[:, j], variance, atol=1e-8)


@pytest.mark.parametrize("absorb", ["fitc", "dtc"])
def test_absorbed_rows_count_by_their_noise(absorb):
    m = 10
    model = sg.OnlineGP(sg.Basis(KERNEL), budget=sg.Budget(m, novelty=0.0, absorb=absorb, evict="never"))
    model.learn_many(X, Y, noise=NOISE)
    oracle = oracles.fitc if absorb == "fitc" else oracles.dtc
    assert_equals(model.predict_many(Z), *oracle(SE, X[:m], X, Y, Z, NOISE))


@pytest.mark.parametrize("outputs", ["shared", "separate"])
def test_recursive_gp_equals_fitc_with_that_diagonal(outputs):
    points = sg.grid([-3, -3], [3, 3], [4, 4])
    model = sg.RecursiveGP(points, kernel=KERNEL, outputs=outputs, mean=lambda X: X[:, 0])
    model.learn_many(X, Y + X[:, 0], noise=NOISE)
    mean, variance = oracles.fitc(SE, points, X, Y, Z, NOISE)
    assert_equals(model.predict_many(Z), mean + Z[:, 0], variance)


@pytest.mark.parametrize("outputs", ["shared", "separate"])
@pytest.mark.parametrize("form", ["covariance", "cholesky"])
def test_issgpr_equals_weighted_least_squares(form, outputs):
    frequencies = rng.normal(size=(15, 2))
    model = sg.ISSGPR(15, frequencies=frequencies, noise=0.2, form=form, outputs=outputs)
    model.learn_many(X, Y, noise=NOISE)
    Phi, Phis = (oracles.fourier(frequencies)(A) for A in (X, Z))
    A = Phi.T @ (Phi / NOISE[:, None]) + np.eye(30)
    variance = np.einsum("ij,ji->i", Phis, np.linalg.solve(A, Phis.T))
    assert_equals(model.predict_many(Z), Phis @ np.linalg.solve(A, Phi.T @ (Y / NOISE)), variance)


@pytest.mark.parametrize("form", ["covariance", "cholesky"])
def test_a_linear_readout_equals_weighted_least_squares(form):
    model = sg.OnlineGP(sg.Linear(0.5, constant=True), noise=0.2, form=form)
    model.learn_many(X, Y, noise=NOISE)
    Phi, Phis = (np.column_stack([A, np.ones(len(A))]) for A in (X, Z))
    A = Phi.T @ (Phi / NOISE[:, None]) + 0.5 * np.eye(3)
    variance = np.einsum("ij,ji->i", Phis, np.linalg.solve(A, Phis.T))
    assert_equals(model.predict_many(Z), Phis @ np.linalg.solve(A, Phi.T @ (Y / NOISE)), variance)


def test_a_row_that_leaves_takes_its_noise_with_it():
    model = sg.SWKRLS(KERNEL, capacity=12)
    model.learn_many(X, Y, noise=NOISE)
    assert_equals(model.predict_many(Z), *oracles.exact_gp(SE, X[-12:], Y[-12:], Z, NOISE[-12:]))
    model = sg.FBKRLS(KERNEL, capacity=12)
    model.learn_many(X, Y, noise=NOISE)
    kept = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in model.basis]
    assert_equals(model.predict_many(Z), *oracles.exact_gp(SE, X[kept], Y[kept], Z, NOISE[kept]))


# Wrappers.


def test_standardize_takes_the_noise_in_the_units_of_the_target():
    scale = 100.0
    for warmup in (2, 25, 100):
        model = sg.Standardize(sg.SOGP(KERNEL, novelty=0), warmup=warmup)
        model.learn_many(X, 7.0 + scale * Y, noise=scale**2 * NOISE)
        s = model.scaling
        U, V = ((A - s.input_shift) / s.input_scale for A in (X, Z))
        mean, variance = oracles.exact_gp(
            SE, U, (7.0 + scale * Y - s.target_shift) / s.target_scale, V, scale**2 * NOISE / s.target_scale**2
        )
        p = model.predict_many(Z)
        np.testing.assert_allclose((p.mean - s.target_shift) / s.target_scale, mean, atol=1e-8)
        np.testing.assert_allclose(p.variance / s.target_scale**2, variance, atol=1e-8)


def test_a_committee_gives_the_noise_to_the_members_that_can_take_it():
    members = [
        sg.SOGP(capacity=10),
        sg.filters.QKLMS(),
        sg.SOGP(capacity=10, adapt=sg.SNGD(interval=5)),
        sg.SeasonalValue(),
    ]
    model = sg.Committee(members)
    model.learn_many(X, Y, noise=NOISE)
    members[0].learn_many(X, Y, noise=NOISE)
    for member in members[1:]:
        member.learn_many(X, Y)
    for within, alone in zip(model.members, members, strict=True):
        np.testing.assert_array_equal(within.predict_many(Z).mean.ravel(), alone.predict_many(Z).mean)
    with pytest.raises(ValueError, match="QKLMS cannot weigh a row by its noise"):
        sg.Committee([sg.filters.QKLMS(), sg.SeasonalValue()]).learn_one(X[0], 1.0, noise=0.1)


# Bad input.


@pytest.mark.parametrize("noise", [0.0, -1.0, np.nan, np.inf])
def test_a_noise_that_is_not_above_0_and_finite_is_refused(noise):
    model = sg.Standardize(sg.KRLST(capacity=10), warmup=5)
    model.learn_many(X, Y)
    before = model.to_bytes()
    with pytest.raises(ValueError, match="noise must be finite and above 0: it is the variance"):
        model.learn_one(X[0], 1.0, noise=noise)
    with pytest.raises(ValueError, match="noise must be finite and above 0 in row 2"):
        model.track(X[:3], Y[:3], noise=[1.0, 1.0, noise])
    assert model.to_bytes() == before


def test_the_shape_of_the_noise_is_checked():
    model, T = sg.SOGP(), np.stack([Y, Y], axis=1)
    with pytest.raises(ValueError, match=r"noise must be a variance for each row: one, \(40,\) or \(40, 1\)"):
        model.learn_many(X, Y, noise=NOISE[:7])
    with pytest.raises(ValueError, match="noise must be a variance for each row: one or 1; got shape"):
        model.learn_one(X[0], 1.0, noise=[0.1, 0.2])
    with pytest.raises(TypeError, match="noise must be numbers; got text"):
        model.learn_one(X[0], 1.0, noise="large")
    with pytest.raises(ValueError, match=r'but the outputs share one covariance; give one value, or use.*"separate"'):
        model.learn_many(X, T, noise=np.ones((N, 2)))
    assert model.rows_seen == 0


def test_recursive_gp_learns_a_batch_with_its_noises():
    points = sg.grid([-3, -3], [3, 3], [3, 3])
    model = sg.RecursiveGP(points, kernel=KERNEL, batch=N)
    model.learn_many(X, Y, noise=NOISE)
    # At the basis points themselves one batch of all rows is the exact Gaussian process.
    assert_equals(model.predict_many(points), *oracles.exact_gp(SE, X, Y, points, NOISE))


def test_standardize_keeps_the_noise_of_the_warm_up_in_a_snapshot():
    whole, half = (sg.Standardize(sg.KRLST(capacity=20), warmup=30) for _ in range(2))
    whole.learn_many(X, Y, noise=NOISE)
    half.learn_many(X[:20], Y[:20], noise=NOISE[:20])
    half = sg.from_bytes(half.to_bytes())
    half.learn_many(X[20:], Y[20:], noise=NOISE[20:])
    assert half.to_bytes() == whole.to_bytes()


def test_separate_targets_are_standardized_with_their_noises():
    T = np.stack([Y, 50.0 * Y], axis=1)
    model = sg.Standardize(sg.SOGP(KERNEL, novelty=0, outputs="separate"), warmup=N)
    model.learn_many(X, T, noise=np.stack([NOISE, 2500.0 * NOISE], axis=1))
    p = model.predict_many(Z)
    np.testing.assert_allclose(p.mean[:, 1], 50.0 * p.mean[:, 0], atol=1e-8)
    np.testing.assert_allclose(p.variance[:, 1], 2500.0 * p.variance[:, 0], rtol=1e-8)


def test_a_late_target_is_learned_with_its_noise():
    late, plain = sg.Delayed(sg.Calibrated(sg.KRLST(capacity=10))), sg.Calibrated(sg.KRLST(capacity=10))
    for x, y, noise in zip(X, Y, NOISE, strict=True):
        late.resolve(late.issue(x).ticket, y, noise=noise)
        plain.learn_one(x, y, noise=noise)
    np.testing.assert_array_equal(late.predict_many(Z).mean, plain.predict_many(Z).mean)
