"""A LinearMean: its weights are learned in the same posterior, as the batch process with one more kernel says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import streamgp as sg

RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, (40, 2))
Y = 3.0 + 2.0 * X[:, 0] - X[:, 1] + np.sin(2.0 * X[:, 1]) + 0.1 * RNG.normal(size=40)
NEXT = RNG.uniform(-2.0, 2.0, (5, 2))
NOISE, P, START = 0.01, np.array([9.0, 4.0, 1.0]), np.array([1.0, 0.0, 0.5])
POINTS = RNG.uniform(-2.0, 2.0, (7, 2))
INPUTS = sg.LinearMean(start=START, variance=P)


def swing(rows: np.ndarray) -> np.ndarray:
    return np.column_stack([np.cos(rows[:, 0]), rows[:, 0] * rows[:, 1]])


def swing_slopes(rows: np.ndarray) -> np.ndarray:
    zero = np.zeros(len(rows))
    first = np.column_stack([-np.sin(rows[:, 0]), zero])
    return np.stack([first, np.column_stack([rows[:, 1], rows[:, 0]])], axis=1)


SWING = sg.LinearMean(swing, names=["gravity", "coupling"], variance=[2.0, 0.5], start=[1.0, -1.0])
MEANS = {"inputs": (INPUTS, lambda rows: np.column_stack([np.ones(len(rows)), rows])), "a function": (SWING, swing)}


def se(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return 0.7 * np.exp(-0.5 * np.sum((A[:, None] - B[None]) ** 2, axis=2))


def fitc(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """What a basis on given points makes of the kernel: Q(A, B), and the whole kernel where a row meets itself."""
    Q = se(A, POINTS) @ np.linalg.solve(se(POINTS, POINTS), se(POINTS, B))
    return Q + np.where((A[:, None] == B[None]).all(axis=2), se(A, B) - Q, 0.0)


def fading(A: np.ndarray, B: np.ndarray, factor: float = 0.98) -> np.ndarray:
    """KRLS-T is the process whose kernel decays with the rows between; a prediction stands at the last row."""
    ages = [np.arange(len(one)) if len(one) == len(X) else np.full(len(one), len(X) - 1) for one in (A, B)]
    return se(A, B) * factor ** (0.5 * np.abs(ages[0][:, None] - ages[1][None]))


def spectrum(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    difference = (A[:, None] - B[None]) @ FREQUENCIES.T
    return 0.7 * np.cos(difference).mean(axis=2)


FREQUENCIES = RNG.normal(size=(6, 2))
SETTINGS: dict[str, Any] = {"noise": NOISE, "variance": 0.7}
EXACT: dict[str, Any] = SETTINGS | {"capacity": 50, "lengthscale": 1.0}
MODELS: dict[str, Any] = {
    "KRLST": (lambda **mean: sg.KRLST(forgetting=1.0, jitter=0.0, **EXACT, **mean), se),
    "KRLST that forgets": (lambda **mean: sg.KRLST(forgetting=0.98, jitter=0.0, **EXACT, **mean), fading),
    "SOGP": (lambda **mean: sg.SOGP(novelty=0.0, **EXACT, **mean), se),
    "RecursiveGP": (lambda **mean: sg.RecursiveGP(POINTS, lengthscale=1.0, **SETTINGS, **mean), fitc),
    "ISSGPR": (lambda **mean: sg.ISSGPR(6, frequencies=FREQUENCIES, **SETTINGS, **mean), spectrum),
    "OnlineGP": (
        lambda **mean: sg.OnlineGP(
            sg.Basis(sg.SquaredExponential(1.0, variance=0.7)), budget=sg.Budget(50, novelty=0.0), noise=NOISE, **mean
        ),
        se,
    ),
}  # fmt: skip


def exact(kernel: Any, mean: sg.LinearMean, h: Any, Z: np.ndarray) -> tuple[np.ndarray, ...]:
    """Mean and covariance of the function at Z, and of the weights: the batch process with k(x, x') + h(x)'P h(x')."""
    k = h(X).shape[1]
    prior, start = np.broadcast_to(mean.get_params()["variance"], k), np.broadcast_to(mean.get_params()["start"], k)
    K = kernel(X, X) + h(X) * prior @ h(X).T + NOISE * np.eye(len(X))
    cross, weights = kernel(Z, X) + h(Z) * prior @ h(X).T, (h(X) * prior).T
    above = np.linalg.solve(K, Y - h(X) @ start)
    covariance = kernel(Z, Z) + h(Z) * prior @ h(Z).T - cross @ np.linalg.solve(K, cross.T)
    found = np.diag(prior) - weights @ np.linalg.solve(K, weights.T)
    return h(Z) @ start + cross @ above, covariance, start + weights @ above, found


@pytest.mark.parametrize("of", MEANS)
@pytest.mark.parametrize("name", MODELS)
def test_function_and_weights_are_those_of_the_batch_process(name: str, of: str) -> None:
    (build, kernel), (mean, h) = MODELS[name], MEANS[of]
    model = build(mean=mean)
    tracked = model.track(X, Y)
    loop = build(mean=mean)
    for t in range(5):
        assert loop.predict_one(X[t]).mean == pytest.approx(tracked.mean[t], abs=1e-9)
        loop.learn_one(X[t], Y[t])
    expected, covariance, weights, spread = exact(kernel, mean, h, NEXT)
    p = model.predict_many(NEXT)
    np.testing.assert_allclose(p.mean, expected, atol=1e-8)
    np.testing.assert_allclose(p.variance, np.diag(covariance), atol=1e-8)
    np.testing.assert_allclose(model.mean_weights.mean, weights, atol=1e-8)
    np.testing.assert_allclose(model.mean_weights.covariance, spread, atol=1e-8)
    np.testing.assert_allclose(p.components["mean"].mean, h(NEXT) @ weights, atol=1e-8)
    np.testing.assert_allclose(p.components["mean"].mean + p.components["inputs"].mean, p.mean, atol=1e-10)
    np.testing.assert_allclose(p.components["mean"].variance, np.diag(h(NEXT) @ spread @ h(NEXT).T), atol=1e-8)
    joint = model.predict_joint(NEXT)
    np.testing.assert_allclose(joint.mean, expected, atol=1e-8)
    if kernel in (se, spectrum):  # between new rows, given points leave what they cannot express as it is
        np.testing.assert_allclose(joint.covariance, covariance, atol=1e-8)


@pytest.mark.parametrize("mean", [INPUTS, SWING, SWING.replaced(gradient=swing_slopes), swing])
@pytest.mark.parametrize(
    "build",
    [
        lambda mean: sg.KRLST(capacity=20, mean=mean),
        lambda mean: sg.KRLST(capacity=20, depth=2, outputs="separate", mean=mean),
        lambda mean: sg.ISSGPR(8, mean=mean),
        lambda mean: sg.OESGP(units=6, capacity=9, mean=mean),
        lambda mean: sg.Standardize(sg.KRLST(capacity=20, estimate_power=True, mean=mean), warmup=10),
    ],
)
def test_derivatives_go_through_the_mean(build: Any, mean: Any) -> None:
    targets = np.column_stack([Y, X[:, 0] ** 2])
    model, step = build(mean if mean is not swing else lambda rows: swing(rows)), 1e-5
    model.learn_many(X, targets)
    p = model.predict_many(NEXT, derivatives=True)
    for j, e in enumerate(step * np.eye(2)):
        above, below = model.predict_many(NEXT + e), model.predict_many(NEXT - e)
        for part in ("mean", "variance"):
            expected = (getattr(above, part) - getattr(below, part)) / (2.0 * step)
            found = getattr(p, f"{part}_gradient")[..., j]
            np.testing.assert_allclose(found, expected, atol=1e-6 * max(1.0, np.abs(expected).max()))


def test_weights_of_several_outputs_are_those_of_each() -> None:
    targets = np.column_stack([Y, X[:, 0] ** 2 - X[:, 1]])
    for outputs in ("shared", "separate"):
        model = sg.SOGP(capacity=50, mean=INPUTS, outputs=outputs)
        model.learn_many(X, targets)
        for o in range(2):
            one = sg.SOGP(capacity=50, mean=INPUTS)
            one.learn_many(X, targets[:, o])
            np.testing.assert_allclose(model.mean_weights.mean[:, o], one.mean_weights.mean, atol=1e-10)
            np.testing.assert_allclose(model.mean_weights.std[:, o], one.mean_weights.std, atol=1e-10)
    model = sg.SOGP(capacity=50, mean=INPUTS.replaced(start=[[1.0, 2.0], [0.0, 3.0], [0.5, 4.0]]))
    model.learn_many(X, np.column_stack([Y, Y]))
    one = sg.SOGP(capacity=50, mean=INPUTS.replaced(start=[2.0, 3.0, 4.0]))
    one.learn_many(X, Y)
    np.testing.assert_allclose(model.mean_weights.mean[:, 1], one.mean_weights.mean, atol=1e-10)
    np.testing.assert_allclose(model.predict_many(NEXT).mean[:, 1], one.predict_many(NEXT).mean, atol=1e-10)
    with pytest.raises(ValueError, match="weights of 2 outputs, but there are 1"):
        sg.SOGP(mean=INPUTS.replaced(start=[[1.0, 2.0]])).learn_one(X[0], 1.0)


def test_beside_a_kernel_over_time_it_is_the_sum_of_both() -> None:
    times = np.cumsum(RNG.uniform(0.1, 2.0, len(X)))
    time = sg.Matern(0.5, lengthscale=3.0, variance=0.5)
    model = sg.SOGP(capacity=50, novelty=0.0, lengthscale=1.0, variance=0.7, noise=NOISE, mean=INPUTS, time=time)
    model.learn_many(X, Y, time=times)

    def kernel(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        at = [times if len(one) == len(X) else np.full(len(one), times[-1] + 1.5) for one in (A, B)]
        return se(A, B) + 0.5 * np.exp(-np.abs(at[0][:, None] - at[1][None]) / 3.0)

    expected, covariance, weights, _ = exact(kernel, *MEANS["inputs"], NEXT)
    p = model.predict_many(NEXT, time=np.full(5, times[-1] + 1.5))
    np.testing.assert_allclose(p.mean, expected, atol=1e-8)
    np.testing.assert_allclose(p.variance, np.diag(covariance), atol=1e-8)
    np.testing.assert_allclose(model.mean_weights.mean, weights, atol=1e-8)
    assert list(p.components) == ["inputs", "level", "mean"]
    joint = model.predict_joint(NEXT, time=np.full(5, times[-1] + 1.5))
    np.testing.assert_allclose(joint.covariance, covariance, atol=1e-8)


def test_forgetting_leaves_the_weights_alone() -> None:
    model = sg.KRLST(capacity=50, forgetting=0.9, mean=INPUTS)
    model.learn_many(X, Y)
    before, far = model.mean_weights, np.array([50.0, -50.0])
    model.forget(1e-9)
    np.testing.assert_array_equal(model.mean_weights.mean, before.mean)
    np.testing.assert_array_equal(model.mean_weights.covariance, before.covariance)
    assert model.predict_one(far).mean == pytest.approx(np.array([1.0, *far]) @ before.mean)
    model = sg.KRLST(capacity=50, half_life=5.0, mean=INPUTS)
    model.learn_many(X, Y, time=np.arange(40.0))
    assert model.mean_weights.std.max() < 1.0


def test_it_is_saved_copied_and_cloned_and_a_function_is_asked_for() -> None:
    for mean, parts in ((INPUTS, {}), (SWING, {"mean__features": swing})):
        model = sg.KRLST(capacity=10, mean=mean)
        model.learn_many(X, Y)
        for again in (model.copy(), sg.from_bytes(model.to_bytes(), **parts)):
            np.testing.assert_array_equal(again.predict_many(NEXT).mean, model.predict_many(NEXT).mean)
            again.learn_one(X[0], 1.0)
        assert again.to_bytes() != model.to_bytes()
        model.learn_one(X[0], 1.0)
        assert again.to_bytes() == model.to_bytes()
        assert again.get_params()["mean"] == mean
    with pytest.raises(sg.SnapshotError, match=r"needs mean__features=\.\.\., a function that is not saved"):
        sg.from_bytes(model.to_bytes())


def test_in_standardize_it_is_in_its_units_and_a_far_prediction_is_on_the_line() -> None:
    rows = np.random.default_rng(1).uniform(0.0, 1e9, (200, 1))
    model = sg.Standardize(sg.SOGP(mean=sg.LinearMean(variance=10.0), variance=0.1))
    model.learn_many(rows, 1e5 - 3.0 * rows[:, 0])
    assert model.predict_one([3e9]).mean == pytest.approx(1e5 - 9e9, rel=2e-3)
    assert model.health.unresolved_rows == 0


def test_a_row_is_predicted_anew_where_the_memory_cannot_tell_it_from_the_last() -> None:
    """Units that are saturated see the same of different rows; the mean does not."""
    reservoir = sg.Reservoir(3, augment=False, input_scale=1.0)
    build = lambda: sg.OnlineGP(sg.Basis(sg.SquaredExponential(1.0)), memory=reservoir, mean=sg.LinearMean())  # noqa: E731
    model, other = build(), build()
    for one in (model, other):
        one.learn_one([1e6], 1.0)
    model.predict_one([2e6])
    for one in (model, other):
        one.reset_memory()
        one.learn_one([3e6], 2.0)
    assert model.to_bytes() == other.to_bytes()


@pytest.mark.parametrize(
    ("build", "error", "match"),
    [
        (lambda: sg.LinearMean("x"), TypeError, "features must be a list of columns, a function"),
        (lambda: sg.LinearMean([1.5]), TypeError, "features must be a whole number"),
        (lambda: sg.LinearMean([0, 0]), ValueError, "features must be different columns"),
        (lambda: sg.LinearMean(swing), ValueError, "names= says how many weights"),
        (lambda: sg.LinearMean(names="mass"), TypeError, "names must be a list of names"),
        (lambda: sg.LinearMean(names=["m", "m"]), ValueError, "names must be different"),
        (lambda: sg.LinearMean(variance=0.0), ValueError, "variance must be a positive number"),
        (lambda: sg.LinearMean(start=np.nan), ValueError, "start must be a finite number"),
        (lambda: sg.LinearMean(gradient=swing), ValueError, "gradient is of features that are a function"),
        (lambda: sg.LinearMean(swing, names=["m", "k"], gradient=1), TypeError, "gradient must be a function"),
        (lambda: sg.LinearMean(swing, names=["m", "k"], start=[1, 2, 3]), ValueError, "start of the mean has 3 values"),
        (
            lambda: sg.SOGP(mean=sg.LinearMean([5])).predict_one([1.0]),
            ValueError,
            "column 5, but the rows have 1 inputs",
        ),
        (
            lambda: sg.SOGP(mean=sg.LinearMean(names=["m"])).predict_one([1.0]),
            ValueError,
            "1 names, but there are 2 wei",
        ),
        (lambda: sg.SOGP(mean=sg.LinearMean(variance=[1, 1])).predict_one([1, 1]), ValueError, "give 1 or 3"),
        (
            lambda: sg.SOGP(mean=sg.LinearMean(swing, names=["m"])).predict_one([1.0, 1.0]),
            ValueError,
            "must return 1 numbers for each of the 1 rows",
        ),
        (
            lambda: sg.SOGP(mean=sg.LinearMean(lambda rows: rows / 0.0, names=["m"])).predict_one([1.0]),
            ValueError,
            "features of the mean must return finite numbers",
        ),
        (
            lambda: sg.SOGP(mean=SWING.replaced(gradient=swing)).predict_one([1.0, 1.0], derivatives=True),
            ValueError,
            "gradient of the mean must return finite numbers of shape",
        ),
        (lambda: sg.SWKRLS(mean=INPUTS), ValueError, 'removal="discard" keeps rows .* with mean=LinearMean'),
        (lambda: sg.KRLS(noise=0.0, mean=INPUTS), ValueError, "noise=0 is least squares"),
        (lambda: sg.RecursiveGP(POINTS, batch=4, mean=INPUTS), ValueError, "use batch=1 with mean=LinearMean"),
        (lambda: sg.RLSESN(units=5, forgetting=0.99, mean=INPUTS), ValueError, "with mean=LinearMean"),
        (lambda: sg.OnlineGP(sg.Linear(), form="cholesky", mean=INPUTS), ValueError, 'use form="covariance" with mean'),
        (lambda: sg.SOGP(adapt=sg.SNGD(on_move="rebuild"), mean=INPUTS), ValueError, 'use on_move="rebase" with mean'),
        (lambda: sg.SOGP(mean=INPUTS, likelihood=sg.Probit()), ValueError, "mean is taken from the targets"),
        (lambda: sg.batch.FullGP(mean=INPUTS), ValueError, "has weights that a stream model learns"),
        (lambda: sg.tune(sg.SOGP(mean=INPUTS), X, Y), TypeError, "without the weights of a LinearMean"),
        (lambda: sg.SOGP().mean_weights, ValueError, "no weights in its mean"),
        (lambda: sg.SOGP(mean=INPUTS).mean_weights, ValueError, "once the first row has come"),
        (
            lambda: sg.RecursiveGP(POINTS, mean=INPUTS).start_from(np.zeros(7), np.eye(7)),
            ValueError,
            "shares the posterior with the basis points",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_what_is_no_linear_mean_is_refused(build: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        build()


def test_c_code_refuses_it_by_name() -> None:
    from streamgp.export import c

    model = sg.KRLST(mean=INPUTS)
    model.learn_many(X, Y)
    with pytest.raises(ValueError, match=r"C code is not written for mean=LinearMean\(\.\.\.\)"):
        c.header(model, "arm")


def test_before_any_data_it_is_the_prior() -> None:
    p = sg.SOGP(mean=INPUTS).predict_one([1.0, 2.0])
    assert p.mean == pytest.approx(1.0 + 2.0 * 0.5)
    assert p.variance == pytest.approx(1.0 + 9.0 + 4.0 + 4.0)


def test_hyperparameters_adapt_beside_the_weights() -> None:
    model = sg.SOGP(capacity=20, mean=INPUTS, adapt=sg.SNGD(interval=10, rest=5))
    rows = np.random.default_rng(3).uniform(-2.0, 2.0, (300, 2))
    model.learn_many(rows, 3.0 + 2.0 * rows[:, 0] + np.sin(2.0 * rows[:, 1]))
    assert np.isfinite(model.predict_many(NEXT).mean).all()
    assert model.mean_weights.mean[1] == pytest.approx(2.0, abs=0.1)
