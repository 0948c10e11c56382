"""Predictions at uncertain inputs, against quadrature and draws of the input."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg

P = np.array([[0.09, 0.03], [0.03, 0.16]])
AT = np.array([0.3, -0.4])
EXACT = {
    "SOGP": lambda: sg.SOGP(capacity=12, noise=0.05),
    "lengthscales and factors": lambda: sg.SOGP(
        sg.SquaredExponential([1.0, 2.0], variance=2.0, factors=[[0.4], [0.2]])
    ),
    "separate outputs, of two outputs": lambda: sg.SOGP(capacity=12, outputs="separate", noise=[0.05, 0.2]),
    "RecursiveGP": lambda: sg.RecursiveGP(np.random.default_rng(5).uniform(-2, 2, (7, 2))),
    "power": lambda: sg.KRLST(capacity=12, estimate_power=True),
    "Standardize of two outputs": lambda: sg.Standardize(sg.KRLST(capacity=12), warmup=10),
    "Columns": lambda: sg.Columns(sg.SOGP(capacity=12), columns=[1]),
    "Lagged": lambda: sg.Lagged(sg.SOGP(capacity=12), lags=2),
    "Delayed": lambda: sg.Delayed(sg.DriftAware(sg.SOGP(capacity=12))),
}


def learned(model, outputs=1):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (30, 2))
    Y = np.column_stack([np.sin(X[:, 0]) * X[:, 1], X[:, 0] ** 2]) + 0.05 * rng.standard_normal((30, 2))
    model.learn_many(X, Y[:, 0] if outputs == 1 else Y)
    return model


def mixed(predict, Z, weights):
    """Mean and variance of the function over inputs Z with weights."""
    p = predict(Z)
    w = weights.reshape(-1, *[1] * (p.mean.ndim - 1))
    mean = (w * p.mean).sum(axis=0)
    return mean, (w * (p.variance + (p.mean - mean) ** 2)).sum(axis=0)


def quadrature(n=28):
    """Nodes and weights of Gauss and Hermite for x ~ N(AT, P)."""
    x, w = np.polynomial.hermite_e.hermegauss(n)
    nodes = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1).reshape(-1, 2)
    return AT + nodes @ np.linalg.cholesky(P).T, np.outer(w, w).ravel() / (2 * np.pi)


@pytest.mark.parametrize("name", EXACT)
def test_moments_of_the_squared_exponential_are_those_of_quadrature(name):
    model = learned(EXACT[name](), 2 if "two outputs" in name else 1)
    before = model.to_bytes()
    p = model.predict_uncertain(AT, P)
    mean, variance = mixed(model.predict_many, *quadrature())
    np.testing.assert_allclose(p.mean, mean, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(p.variance, variance, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(p.noise, model.predict_one(AT).noise, rtol=1e-12)
    assert model.to_bytes() == before


def test_moments_are_taken_at_the_time_of_the_row():
    rng = np.random.default_rng(0)
    model = sg.KRLST(capacity=9, time=sg.Matern(1.5, lengthscale=3.0))
    model.learn_many(rng.uniform(-2, 2, (30, 2)), rng.standard_normal(30), time=np.arange(30.0))
    p = model.predict_uncertain(AT, P, time=31.5)
    mean, variance = mixed(lambda Z: model.predict_many(Z, time=np.full(len(Z), 31.5)), *quadrature())
    np.testing.assert_allclose([p.mean, p.variance], [mean, variance], rtol=1e-8)


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_sigma_points_are_exact_for_a_linear_function(d):
    rng = np.random.default_rng(0)
    X, root = rng.standard_normal((50, d)), rng.standard_normal((d, d))
    model = sg.OnlineGP(sg.Linear(), noise=0.01)
    model.learn_many(X, X @ np.arange(1.0, d + 1) + 2.0)
    P = root @ root.T
    p, joint = model.predict_uncertain(X[0], P), model.predict_joint(np.vstack([np.zeros(d), np.eye(d)]))
    weights = joint.mean[1:] - joint.mean[0]
    spread = joint.covariance[1:, 1:] - joint.covariance[:1, 1:] - joint.covariance[1:, :1] + joint.covariance[0, 0]
    certain = model.predict_one(X[0])
    np.testing.assert_allclose(p.mean, certain.mean, rtol=1e-10)
    np.testing.assert_allclose(
        p.variance, certain.variance + weights @ P @ weights + np.trace(spread @ P), rtol=1e-9
    )  # E[(a + w'x)^2] over both the weights and the input


def test_a_known_input_gives_the_prediction_itself_and_before_any_data_the_prior():
    for model in (learned(EXACT["SOGP"]()), learned(sg.SOGP(sg.Matern(1.5)))):
        p, certain = model.predict_uncertain(AT, np.zeros((2, 2))), model.predict_one(AT)
        np.testing.assert_allclose([p.mean, p.variance], [certain.mean, certain.variance], rtol=1e-9)
    prior = sg.SOGP(variance=2.0).predict_uncertain(0.0, 1.0)
    assert (prior.mean, prior.variance) == (0.0, 2.0)


@pytest.mark.parametrize(
    ("covariance", "reason"),
    [
        (np.eye(3), r"covariance must have shape \(2, 2\).*got \(3, 3\)"),
        ([[1.0, 0.5], [0.0, 1.0]], "must be symmetric and have no negative eigenvalue"),
        ([[1.0, 2.0], [2.0, 1.0]], "must be symmetric and have no negative eigenvalue"),
        ([[np.nan, 0.0], [0.0, 1.0]], "covariance must hold finite numbers only"),
        (1.0, r"covariance must have shape \(2, 2\)"),
    ],
)  # fmt: skip
def test_what_is_no_covariance_is_refused(covariance, reason):
    with pytest.raises(ValueError, match=reason):
        learned(EXACT["SOGP"]()).predict_uncertain(AT, covariance)


def test_classes_have_no_moments_to_add_up():
    with pytest.raises(ValueError, match="SOGP predicts classes"):
        sg.SOGP(likelihood=sg.Probit()).predict_uncertain([0.0], 1.0)


def test_moments_are_those_of_draws():
    model = learned(EXACT["SOGP"]())
    Z = np.random.default_rng(1).multivariate_normal(AT, P, 4000)
    p = model.predict_uncertain(AT, P)
    mean, variance = mixed(model.predict_many, Z, np.full(len(Z), 1 / len(Z)))
    np.testing.assert_allclose(p.mean, mean, atol=4 * np.sqrt(variance / len(Z)))
    np.testing.assert_allclose(p.variance, variance, rtol=0.1)
