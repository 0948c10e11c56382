"""Trajectories follow one draw of the function: joint posteriors, and free running on them."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from streamgp.contract.lanes import ADVANCE, ONE, TELL
from streamgp.contract.model import Shape
from streamgp.process.function import Function
from tests import oracles
from tests.contract.models import EXAMPLES, D

rng = np.random.default_rng(31)
X, Y = rng.uniform(-2, 2, (25, 2)), rng.standard_normal((25, 2))
NEW = rng.uniform(-2, 2, (6, 2))
KERNEL = oracles.squared_exponential(1.3, 0.7)
SE = sg.SquaredExponential(1.3, variance=0.7)


def exact_joint(kernel, A, Y, B, noise):
    """The batch GP's joint posterior of the function at the rows of B."""
    K = kernel(A, A) + noise * np.eye(len(A))
    k = kernel(A, B)
    return k.T @ np.linalg.solve(K, Y), kernel(B, B) - k.T @ np.linalg.solve(K, k)


def fourier(model, A):
    angles = A @ model._state.frequencies.T
    return np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(len(model._state.frequencies))


def learned(model, targets=Y):
    model.learn_many(X, targets)
    return model


PROCESSES = {
    name: build for name, build in EXAMPLES.items() if isinstance(build(), sg.OnlineGP) and build().has_variance
}


@pytest.mark.parametrize("build", PROCESSES.values(), ids=PROCESSES)
def test_every_process_agrees_with_its_own_predictions_row_by_row(build):
    model, own = build(), np.random.default_rng(32)
    model.learn_many(own.uniform(-2, 2, (40, D)), own.standard_normal((40, 2)))
    rows = own.uniform(-2, 2, (5, D))
    expected = model.predict_many(rows)
    # The first step of trajectories is the prediction itself, and its variance that of the joint posterior.
    step = model._analysis().trajectories(5, 1).predict(rows)
    parts = expected.mean, expected.variance, expected.noise, expected.mean, expected.variance
    for got, part in zip(step, parts, strict=True):
        np.testing.assert_allclose(got, part, rtol=1e-8, atol=1e-8)


def map_of(futures, rows):
    """A with f = mean + A e, from as many trajectories as steps, each with one e that is 1; (p, steps, steps)."""
    n = len(rows)
    values = []
    for t, x in enumerate(rows):
        step = futures.predict(np.repeat(x[None], n, axis=0))
        f = step.mean + np.sqrt(step.variance) * (np.arange(n) == t)[:, None]
        futures.record(f, f)
        values.append(f - step.free_mean)
    return np.array(values).transpose(2, 0, 1)


def test_values_drawn_step_by_step_have_the_batch_posteriors_joint_covariance():
    rows = np.vstack([NEW, NEW[:1] + 1e-3])
    for separate in ({}, {"outputs": "separate", "noise": [0.05, 0.2]}):
        settings = {"capacity": 25, "novelty": 0, "noise": 0.05} | separate
        model = learned(sg.SOGP(SE, **settings))
        A = map_of(model._analysis().trajectories(7, 7), rows)
        for j, noise in enumerate(np.broadcast_to(settings["noise"], 2)):
            _, covariance = exact_joint(KERNEL, X, Y, rows, noise)
            np.testing.assert_allclose(A[j] @ A[j].T, covariance, atol=1e-8)


def test_values_drawn_on_a_small_basis_include_the_residual_between_rows():
    model = learned(sg.SOGP(SE, capacity=5, noise=0.05))
    basis, S = model.basis, np.tril(model._state.covariance[0, :5, :5])
    S = S + np.tril(S, -1).T
    Phi = np.linalg.solve(np.linalg.cholesky(KERNEL(basis, basis)), KERNEL(basis, NEW)).T
    expected = Phi @ S @ Phi.T + KERNEL(NEW, NEW) - Phi @ Phi.T
    A = map_of(model._analysis().trajectories(6, 6), NEW)
    np.testing.assert_allclose(A[0] @ A[0].T, expected, atol=1e-8)
    np.testing.assert_allclose(Function(model).joint(NEW).covariance[0], expected, atol=1e-8)


def test_trajectories_advance_a_window_of_their_own():
    model = learned(sg.SOGP(SE, capacity=25, novelty=0, noise=0.05, depth=3))
    windows = oracles.windows(np.vstack([X, NEW]), 3)
    _, covariance = exact_joint(KERNEL, windows[:25], Y, windows[25:], 0.05)
    A = map_of(model._analysis().trajectories(6, 6), NEW)
    np.testing.assert_allclose(A[0] @ A[0].T, covariance, atol=1e-8)


def test_trajectories_feed_a_reservoir_with_their_own_targets():
    model = sg.OnlineGP(sg.Basis(SE), memory=sg.Reservoir(5, feedback=0.5), budget=sg.Budget(30, novelty=0))
    learned(model)
    futures, twins = model._analysis().trajectories(3, 4), [model.copy() for _ in range(3)]
    said = np.random.default_rng(33).standard_normal((4, 3, 2))
    for t in range(4):
        rows = NEW[t : t + 3]
        step = futures.predict(rows)
        for s, twin in enumerate(twins):
            np.testing.assert_allclose(step.free_mean[s], twin.predict_one(rows[s]).mean, atol=1e-9)
            twin._pass(ONE[ADVANCE | TELL], rows[s : s + 1].copy(), said[t, s][None].copy(), None, None)
        futures.record(step.mean, said[t])


@pytest.mark.parametrize("wrap", [sg.Standardize, sg.DriftAware, sg.Calibrated])
def test_wrappers_keep_the_correlations_of_the_draws_within(wrap):
    targets = 100.0 + 30.0 * Y
    model = wrap(sg.SOGP(SE, capacity=30, novelty=0, noise=0.05))
    model.learn_many(np.tile(X, (6, 1)), np.tile(targets, (6, 1)))
    within = model._within._analysis().trajectories(6, 6)
    inside = NEW if wrap is not sg.Standardize else (NEW - model.scaling.input_shift) / model.scaling.input_scale
    A, B = map_of(model._analysis().trajectories(6, 6), NEW)[0], map_of(within, inside)[0]
    own, inner = A @ A.T, B @ B.T
    deviations = model.predict_many(NEW).variance[:, 0] ** 0.5
    np.testing.assert_allclose(np.diag(own), deviations**2, rtol=1e-6)
    scales = np.sqrt(np.diag(own)) / np.sqrt(np.diag(inner))
    np.testing.assert_allclose(own, scales[:, None] * inner * scales, rtol=1e-6, atol=1e-6)


def test_a_committees_trajectories_are_shared_by_weight():
    model = sg.Committee([sg.SOGP(SE, noise=0.05), sg.OnlineGP(sg.Linear())])
    learned(model)
    model._errors[:, 0] = 1.0
    futures = model._analysis().trajectories(10, 2)
    step = futures.predict(np.repeat(NEW[:1], 10, axis=0))
    first, second = (one.predict_one(NEW[0]).mean for one in model.members)
    np.testing.assert_allclose(step.mean, np.repeat([first, second], 5, axis=0), atol=1e-12)


@pytest.mark.parametrize("steps", [1, 10])
def test_a_forecast_of_an_uncertain_slope_has_the_moments_of_its_powers(steps):
    """y_t = w y_(t-1) with w ~ N(m, s2): after k steps w^k, whose moments are those of a Gaussian."""
    model = sg.OnlineGP(sg.Linear(constant=False), noise=1e-6, form="covariance")
    model._prepare(Shape(1, 1, certain=True))
    model._state.mu[:], model._state.covariance[:], model._state.last_target[:] = 0.95, 0.01, 1.0
    w = 0.95 + 0.1 * np.polynomial.hermite_e.hermegauss(30)[0]
    weight = np.polynomial.hermite_e.hermegauss(30)[1] / np.sqrt(2 * np.pi)
    mean = weight @ w**steps
    variance = weight @ w ** (2 * steps) - mean**2
    p = model.forecast(steps, feedback=[0], trajectories=4000)
    # Errors of 4000 draws; drawn anew at every step the variance would be 0.04 after ten steps, not 0.5.
    np.testing.assert_allclose(p.mean[-1], mean, atol=4 * np.sqrt(variance / 4000))
    np.testing.assert_allclose(p.variance[-1], variance, rtol=0.25)
