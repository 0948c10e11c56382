"""The evidence of a kernel over time and its gradient, and what tune() makes of them."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from streamgp.tuning.time import Series, TimeEvidence
from tests.unit.test_timegp import added, matern, multiplied, periodic, trend

rng = np.random.default_rng(1)
TIMES = {
    "regular": 0.7 * np.arange(60),
    "irregular": np.cumsum(rng.exponential(0.7, size=60)),
    "repeated": np.repeat(np.cumsum(rng.exponential(0.7, size=30)), 2),
}
KERNELS = {
    "level and seasons": (
        sg.Matern(1.5, lengthscale=5.0)
        + sg.Matern(0.5, lengthscale=2.0, variance=0.3)
        + sg.Periodic(6.0, lengthscale=1.2) * sg.Matern(0.5, lengthscale=30.0)
        + sg.Matern(2.5, lengthscale=9.0, variance=0.5),
        lambda t0: added(
            matern(1.5, 5.0),
            matern(0.5, 2.0, 0.3),
            multiplied(periodic(6.0, 1.2), matern(0.5, 30.0)),
            matern(2.5, 9.0, 0.5),
        ),
    ),
    "trend": (
        sg.Trend(20.0, variance=2.0) + sg.Periodic(5.0, variance=0.4),
        lambda t0: added(trend(20.0, 2.0, t0), periodic(5.0, variance=0.4)),
    ),
    "two trends, a constant": (
        sg.Trend(20.0) + 0.5 * (sg.Trend(8.0, variance=0.1) + sg.Constant(3.0)),
        lambda t0: added(trend(20.0, 1.0, t0), trend(8.0, 0.05, t0), lambda s, t: np.full((len(s), len(t)), 1.5)),
    ),
    "side bands": (
        sg.Periodic(6.0) * sg.Periodic(15.0) * sg.Matern(0.5, lengthscale=40.0),
        None,  # the bands that are left out are the kernel's own affair
    ),
}


def evidence(name, spacing, outputs=1):
    kernel, dense = KERNELS[name]
    times = TIMES[spacing]
    Y = np.random.default_rng(2).standard_normal((len(times), outputs)).cumsum(axis=0)
    return TimeEvidence(kernel, 0.2, Series(times, Y, 1000)), dense, times, Y


@pytest.mark.parametrize("spacing", TIMES)
@pytest.mark.parametrize("name", [name for name, (_, dense) in KERNELS.items() if dense])
def test_the_evidence_is_that_of_the_batch_process(name, spacing):
    found, dense, times, Y = evidence(name, spacing, outputs=2)
    K = dense(times[0])(times, times) + 0.2 * np.eye(len(times))
    fits = np.sum(Y * np.linalg.solve(K, Y))
    wanted = -0.5 * fits - np.linalg.slogdet(K)[1] - len(times) * np.log(2 * np.pi)
    assert found(found.start)[0] == pytest.approx(wanted, rel=1e-8)


@pytest.mark.parametrize("spacing", ["regular", "irregular"])
@pytest.mark.parametrize("name", KERNELS)
def test_the_gradient_is_that_of_finite_differences(name, spacing):
    found, _, _, _ = evidence(name, spacing, outputs=2)
    at = found.start + 0.1 * np.random.default_rng(3).standard_normal(len(found.start))
    _, gradient = found(at)
    for i in range(len(at)):
        step = np.zeros(len(at))
        step[i] = 1e-3
        values = [found(at + k * step)[0] for k in (-2, -1, 1, 2)]
        slope = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / 12e-3
        assert gradient[i] == pytest.approx(slope, rel=1e-6, abs=1e-6 * np.abs(gradient).max()), found.names[i]


def test_a_gap_that_is_too_long_for_a_trend_is_so_in_the_evidence():
    times = np.r_[np.arange(20.0), 1e6 + np.arange(20.0)]
    y = np.random.default_rng(2).standard_normal(40).cumsum()
    found = TimeEvidence(sg.Trend(3.0, variance=2.0), 0.2, Series(times, y[:, None], 1000))
    shorter = np.where(times < 1e6, times, 119.0 + (times - 1e6))  # a gap of 100, 33 spans of 3
    K = trend(3.0, 2.0)(shorter, shorter) + 0.2 * np.eye(40)
    wanted = -0.5 * (y @ np.linalg.solve(K, y) + np.linalg.slogdet(K)[1] + 40 * np.log(2 * np.pi))
    value, gradient = found(found.start)
    assert value == pytest.approx(wanted, rel=1e-8)
    for i in range(3):
        step = 2e-3 * np.eye(3)[i]  # wide: so many orders lie between the coordinates that values have ten digits
        values = [found(found.start + k * step)[0] for k in (-2, -1, 1, 2)]
        slope = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / 24e-3
        assert gradient[i] == pytest.approx(slope, rel=1e-5, abs=1e-5), found.names[i]


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("noise", [1.0, 1e-6])
def test_the_quick_way_of_regular_rows_is_the_filter_itself_with_the_gradient_of_the_slow_one(name, noise):
    found, _, times, Y = evidence(name, "regular")
    value, gradient = found(np.append(found.start[:-1], np.log(noise)))
    filtered = sg.TimeGP(KERNELS[name][0], noise=noise).track(np.empty((len(times), 0)), Y[:, 0], time=times)
    assert value == pytest.approx(filtered.log_density(Y[:, 0]).sum(), rel=1e-8)
    found.series.is_regular = False
    _, wanted = found(np.append(found.start[:-1], np.log(noise)))
    np.testing.assert_allclose(gradient, wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max())


def test_missing_rows_are_left_out_and_only_the_last_rows_count():
    times = np.arange(8.0)
    Y = np.array([[9.0], [9.0], [1.0], [np.nan], [2.0], [3.0], [np.nan], [4.0]])
    series = Series(times, Y, 4)
    np.testing.assert_array_equal(series.Y[:, 0], [1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(series.gaps, [0.0, 2.0, 1.0, 2.0])
    assert not series.is_regular


def test_only_one_variance_of_a_product_is_tuned_and_no_period():
    kernel = sg.Periodic(6.0) * sg.Matern(0.5) + 2.0 * (sg.Matern(1.5) + sg.Matern(2.5))
    found = TimeEvidence(kernel, 0.1, Series(np.arange(5.0), np.ones((5, 1)), 9))
    variances = [name for name in found.names if name.endswith("variance")]
    assert variances == ["left.left.variance", "right.left.variance", "right.right.left.variance"]
    assert not any("period" in name for name in found.names)


def test_tune_finds_the_hyperparameters_of_a_drawn_series():
    t = np.arange(600.0)
    k = added(matern(0.5, 8.0), multiplied(periodic(12.0, 1.0, 4.0), matern(0.5, 300.0)))
    draws = np.random.default_rng(5)
    y = np.linalg.cholesky(k(t, t) + 1e-9 * np.eye(600)) @ draws.standard_normal(600)
    y += 0.7 * draws.standard_normal(600)
    seasonal = sg.Periodic(12.0, lengthscale=0.7) * sg.Matern(0.5, lengthscale=100.0)
    model = sg.TimeGP(sg.Matern(0.5, lengthscale=2.0) + seasonal, noise=1.0)
    tuned = sg.tune(model, None, y, time=t)
    found = tuned.hyperparameters
    assert tuned.rows_seen == 0
    assert found["noise"] == pytest.approx(0.49, rel=0.4)
    assert found["left.lengthscale"] == pytest.approx(8.0, rel=0.5)
    assert found["right.left.period"] == 12.0
    assert sg.tune(model, None, y).hyperparameters == found  # rows without times are one apart


def test_what_cannot_be_tuned_over_time_is_refused():
    model, y = sg.TimeGP(sg.Matern(1.5)), np.ones(5)
    for call, message in (
        (lambda: sg.tune(model, np.ones((5, 1)), y), "TimeGP has no inputs, only times: X is None"),
        (lambda: sg.tune(model, None, y, time=[0.0, 2.0, 1.0, 3.0, 4.0]), "goes backwards in row 2"),
        (lambda: sg.tune(model, None, y * np.nan), "every row of Y misses a target"),
        (lambda: sg.tune(sg.SOGP(), np.ones((5, 1)), y, time=np.arange(5.0)), "SOGP has no kernel over time"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
