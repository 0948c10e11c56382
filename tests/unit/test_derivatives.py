"""Derivatives of predictions by their inputs, against differences of predictions."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg

STEP = 1e-5
KERNELS = {
    "squared exponential": sg.SquaredExponential([1.0, 2.0], variance=2.0),
    "factors": sg.SquaredExponential(1.5, factors=[[0.5], [-0.3]]),
    "Matern 1/2": sg.Matern(0.5),
    "Matern 3/2": sg.Matern(1.5),
    "Matern 5/2": sg.Matern(2.5),
    "rational quadratic": sg.RationalQuadratic(0.7),
    "periodic": sg.Periodic(3.0),
    "linear": sg.LinearKernel(0.5) + sg.Constant(0.3),
    "a sum": sg.SquaredExponential(0.8) + sg.LinearKernel() + sg.Matern(1.5),
    "a product": sg.SquaredExponential(2.0) * (sg.LinearKernel() + sg.Periodic(2.0)) * sg.Matern(2.5),
}
POINTS = np.random.default_rng(5).uniform(-2, 2, (7, 2))
MODELS = {
    "KRLST": lambda: sg.KRLST(capacity=9, jitter=1e-3),
    "KRLS": lambda: sg.KRLS(capacity=9, noise=0.0),
    "SOGP of two outputs": lambda: sg.SOGP(capacity=9, outputs="separate"),
    "RecursiveGP": lambda: sg.RecursiveGP(POINTS),
    "ISSGPR": lambda: sg.ISSGPR(features=8),
    "ISSGPR of two outputs": lambda: sg.ISSGPR(features=8),
    "linear": lambda: sg.OnlineGP(sg.Linear()),
    "linear in the information form": lambda: sg.OnlineGP(sg.Linear(), form="cholesky"),
    "OIESGP": lambda: sg.OIESGP(depth=3, capacity=9),
    "OESGP": lambda: sg.OESGP(units=6, capacity=9, retention=0.3, feedback=0.2),
    "power": lambda: sg.KRLST(capacity=9, estimate_power=True),
    "Standardize": lambda: sg.Standardize(sg.KRLST(capacity=9), warmup=10),
    "Lagged": lambda: sg.Lagged(sg.Standardize(sg.KRLST(capacity=9), warmup=10), lags=2),
    "Columns": lambda: sg.Columns(sg.KRLST(capacity=9), columns=[1]),
    "Differenced": lambda: sg.Differenced(sg.KRLST(capacity=9), column=1),
    "Calibrated": lambda: sg.Calibrated(sg.Standardize(sg.KRLST(capacity=9), warmup=10), warmup=5),
}


def learned(model, outputs=1):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (30, 2))
    Y = np.column_stack([np.sin(X[:, 0]) * X[:, 1], X[:, 0] ** 2])[:, :outputs] + 0.05 * rng.standard_normal(
        (30, outputs)
    )
    model.learn_many(X, Y[:, 0] if outputs == 1 else Y)
    return model


def differences(predict, Z, part):
    """Central differences of a part of predictions, (n, d) or (n, p, d)."""
    steps = STEP * np.eye(Z.shape[1])
    columns = [(getattr(predict(Z + step), part) - getattr(predict(Z - step), part)) / (2 * STEP) for step in steps]
    return np.stack(columns, axis=-1)


def check(model, **conditions):
    Z = np.random.default_rng(1).uniform(-2, 2, (4, 2))
    p = model.predict_many(Z, derivatives=True, **conditions)
    plain = model.predict_many(Z, **conditions)
    for part in ("mean", "variance"):
        np.testing.assert_allclose(getattr(p, part), getattr(plain, part), rtol=1e-12, atol=1e-12)
        expected = differences(lambda X: model.predict_many(X, **conditions), Z, part)
        found = getattr(p, f"{part}_gradient")
        np.testing.assert_allclose(found, expected, atol=1e-6 * max(1.0, np.abs(expected).max()))
        assert np.abs(expected).max() > 1e-4
    one = {name: value[0] for name, value in conditions.items()}
    np.testing.assert_array_equal(model.predict_one(Z[0], derivatives=True, **one).mean_gradient, p.mean_gradient[0])
    return p


@pytest.mark.parametrize("name", KERNELS)
def test_gradients_of_every_kernel_are_those_of_differences(name):
    check(learned(sg.SOGP(KERNELS[name], capacity=12)))


@pytest.mark.parametrize("name", [name for name in MODELS if name != "KRLS"])
def test_gradients_of_every_model_are_those_of_differences(name):
    check(learned(MODELS[name](), 2 if "two outputs" in name else 1))


def test_least_squares_has_the_gradient_of_its_mean():
    model = learned(MODELS["KRLS"]())
    Z = np.random.default_rng(1).uniform(-2, 2, (4, 2))
    found = model.predict_many(Z, derivatives=True).mean_gradient
    np.testing.assert_allclose(found, differences(model.predict_many, Z, "mean"), atol=1e-5 * np.abs(found).max())


def test_gradients_are_taken_at_the_time_of_the_row():
    rng = np.random.default_rng(0)
    model = sg.KRLST(capacity=9, time=sg.Matern(1.5, lengthscale=3.0))
    model.learn_many(rng.uniform(-2, 2, (30, 2)), rng.standard_normal(30), time=np.arange(30.0))
    p = check(model, time=np.array([29.0, 30.5, 40.0, 33.0]))
    assert "inputs" in p.components


def test_before_any_data_the_gradients_are_those_of_the_prior():
    p = sg.SOGP(sg.LinearKernel(2.0)).predict_one([1.0, 3.0], derivatives=True)
    np.testing.assert_array_equal(p.mean_gradient, [0.0, 0.0])
    np.testing.assert_allclose(p.variance_gradient, [4.0, 12.0])


def test_at_a_kink_the_gradient_is_the_mean_of_both_sides():
    model = sg.SOGP(sg.Matern(0.5, lengthscale=1.0), noise=0.1)
    model.learn_one(0.0, 1.0)
    assert model.predict_one(0.0, derivatives=True).mean_gradient.tolist() == [0.0]


def test_asking_for_derivatives_changes_nothing():
    model, other = learned(MODELS["KRLST"]()), learned(MODELS["KRLST"]())
    before = model.to_bytes()
    model.predict_one([0.1, 0.2])
    model.predict_one([0.5, 0.2], derivatives=True)
    assert model.to_bytes() == before
    for one in (model, other):
        one.learn_one([0.1, 0.2], 1.0)
    assert model.to_bytes() == other.to_bytes()
    assert model.predict_one([0.1, 0.2]).mean_gradient is None


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (sg.filters.QKLMS(), "QKLMS has no derivatives by its inputs; models that can are built on OnlineGP"),
        (sg.TimeGP(sg.Matern(1.5)), "TimeGP has no derivatives by its inputs"),
        (sg.Committee([sg.KRLST(), sg.SOGP()]), "Committee has no derivatives by its inputs"),
        (sg.SOGP(likelihood=sg.StudentT(), outputs="separate"), "derivatives are those of a Gaussian prediction"),
    ],
)  # fmt: skip
def test_models_without_derivatives_say_so(model, reason):
    x = () if isinstance(model, sg.TimeGP) else [1.0]
    with pytest.raises(ValueError, match=reason):
        model.predict_one(x, derivatives=True)
    with pytest.raises(ValueError, match=reason):
        model.predict_many(np.empty((1, len(x))), derivatives=True)
    if len(x):
        with pytest.raises(ValueError, match="NaN or inf"):
            sg.KRLST().predict_one([np.nan], derivatives=True)
