"""The prior mean: every recipe learns what is above it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import streamgp as sg
from streamgp.contract.lanes import ADVANCE, ONE, TELL

RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, (60, 2))
Y = 40.0 + 3.0 * X[:, 0] + np.sin(2.0 * X[:, 1]) + 0.1 * RNG.normal(size=60)
NEXT = RNG.uniform(-2.0, 2.0, (5, 2))
RECIPES: dict[str, Any] = {
    "SOGP": lambda mean: sg.SOGP(capacity=20, mean=mean),
    "OESGP": lambda mean: sg.OESGP(units=10, capacity=20, mean=mean),
    "OIESGP": lambda mean: sg.OIESGP(depth=3, capacity=20, mean=mean),
    "RLSESN": lambda mean: sg.RLSESN(units=10, mean=mean),
    "KRLS": lambda mean: sg.KRLS(capacity=20, mean=mean),
    "KRLST": lambda mean: sg.KRLST(capacity=20, mean=mean),
    "SWKRLS": lambda mean: sg.SWKRLS(capacity=20, mean=mean),
    "FBKRLS": lambda mean: sg.FBKRLS(capacity=20, mean=mean),
    "RecursiveGP": lambda mean: sg.RecursiveGP(sg.grid([-2, -2], [2, 2], [4, 4]), mean=mean),
    "ISSGPR": lambda mean: sg.ISSGPR(20, mean=mean),
    "IRFRR": lambda mean: sg.IRFRR(20, mean=mean),
    "OnlineGP": lambda mean: sg.OnlineGP(sg.Basis(sg.Matern(1.5)), mean=mean),
    "KRLST over time": lambda mean: sg.KRLST(capacity=20, time=sg.Matern(0.5, lengthscale=5.0), mean=mean),
}


def plane(rows: np.ndarray) -> np.ndarray:
    return 39.0 + 2.5 * rows[:, 0]


@pytest.mark.parametrize("name", RECIPES)
def test_a_process_learns_what_is_above_its_mean(name: str) -> None:
    """The mean plus the same recipe without one, on what the mean leaves."""
    build = RECIPES[name]
    for mean, prior in ((40.0, lambda rows: np.full(len(rows), 40.0)), (plane, plane)):
        model, bare = build(mean), build(None)
        assert model.predict_one(X[0]).mean == prior(X[:1])[0], "before any data it is the prior"
        tracked, expected = model.track(X, Y), bare.track(X, Y - prior(X))
        np.testing.assert_allclose(tracked.mean, prior(X) + expected.mean, atol=1e-12)
        np.testing.assert_allclose(tracked.variance, expected.variance, atol=1e-12)
        after, base = model.predict_many(NEXT), bare.predict_many(NEXT)
        np.testing.assert_allclose(after.mean, prior(NEXT) + base.mean, atol=1e-12)
        np.testing.assert_allclose(after.std, base.std, atol=1e-12)
        if not model.has_variance:
            continue
        joint, apart = model.predict_joint(NEXT), bare.predict_joint(NEXT)
        np.testing.assert_allclose(joint.mean, prior(NEXT) + apart.mean, atol=1e-12)
        np.testing.assert_allclose(joint.covariance, apart.covariance, atol=1e-12)


def test_a_free_run_feeds_targets_with_their_mean() -> None:
    """The lagged target is a column: what is fed back is the target, mean included, also the last one that was seen."""
    y = 40.0 + np.sin(0.3 * np.arange(120.0))
    model = sg.SOGP(lengthscale=1.0, noise=1e-4, capacity=50, mean=40.0)
    shifted = sg.SOGP(sg.SquaredExponential(1.0), noise=1e-4, capacity=50)
    model.learn_many(y[:-1], y[1:])
    shifted.learn_many(y[:-1], y[1:] - 40.0)  # its lags are as they are, its targets above the mean
    assert model._last_row()[1] == pytest.approx(y[-1:], abs=1e-12)
    first = model.forecast(3, feedback=[0], trajectories=1).mean[0]
    assert first == pytest.approx(40.0 + shifted.predict_one(y[-1]).mean, abs=1e-9)
    model._pass(ONE[ADVANCE | TELL], y[-1:, None], np.array([[41.5]]), None, None)
    assert model._last_row()[1] == pytest.approx([41.5], abs=1e-12)


def test_a_snapshot_names_a_function_and_asks_for_it() -> None:
    model = sg.SOGP(capacity=20, mean=plane)
    model.learn_many(X, Y)
    with pytest.raises(sg.SnapshotError, match=r"needs mean=\.\.\., a function that is not saved"):
        sg.from_bytes(model.to_bytes())
    again = sg.from_bytes(model.to_bytes(), mean=plane)
    np.testing.assert_array_equal(again.predict_many(NEXT).mean, model.predict_many(NEXT).mean)


@pytest.mark.parametrize(
    ("build", "error", "match"),
    [
        (lambda: sg.SOGP(mean="linear"), TypeError, "mean must be a number, a function of"),
        (lambda: sg.SOGP(mean=[1.0, 2.0]), TypeError, "mean must be a number, a function of"),
        (lambda: sg.SOGP(mean=np.nan), ValueError, "mean must be"),
        (lambda: sg.SOGP(mean=1.0, likelihood=sg.Probit()), ValueError, "mean is taken from the targets"),
        (lambda: sg.OESGP(units=5, feedback=1.0, mean=1.0), ValueError, "use feedback=None"),
        (lambda: sg.SOGP(mean=lambda rows: rows).predict_one([1.0, 2.0]), ValueError, "one finite number for each"),
    ],
)
def test_what_is_no_mean_is_refused(build: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        build()


def test_the_exact_process_has_the_same_mean() -> None:
    both = lambda rows: np.column_stack([plane(rows), -plane(rows)])  # noqa: E731
    for mean, targets in ((plane, Y), (both, np.column_stack([Y, Y]))):
        exact = sg.batch.FullGP(sg.SquaredExponential(1.0), noise=0.01, mean=mean).fit(X, targets)
        bare = sg.batch.FullGP(sg.SquaredExponential(1.0), noise=0.01).fit(X, targets - mean(X))
        np.testing.assert_allclose(exact.predict(NEXT).mean, mean(NEXT) + bare.predict(NEXT).mean, atol=1e-12)
        assert exact.log_marginal_likelihood() == pytest.approx(bare.log_marginal_likelihood(), abs=1e-9)
