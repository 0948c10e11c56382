"""TimeGP against a batch Gaussian process over the same times, and the promises of the contract."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest
from scipy import special

import streamgp as sg

rng = np.random.default_rng(0)
NOISE = 0.05


# The oracle: dense kernels by their textbook formulas, and one Cholesky factor. It shares nothing with the library.


def matern(order, lengthscale, variance=1.0):
    def k(s, t):
        r = np.abs(s[:, None] - t[None]) / lengthscale
        a = np.sqrt(2 * order) * r
        shape = {0.5: 1.0, 1.5: 1 + a, 2.5: 1 + a + a**2 / 3}[order]
        return variance * shape * np.exp(-a)

    return k


def periodic(period, lengthscale=1.0, variance=1.0, share=0.999):
    z = lengthscale**-2.0
    weights = [special.ive(0, z)]
    while sum(weights) < share:
        weights.append(2 * special.ive(len(weights), z))

    def k(s, t):
        angle = 2 * np.pi * (s[:, None] - t[None]) / period
        return variance * sum(w * np.cos(j * angle) for j, w in enumerate(weights))

    return k


def trend(span, variance=1.0, first=0.0):
    def k(s, t):
        s, t = s[:, None] - first, t[None] - first
        low, between = np.minimum(s, t), np.abs(s - t)
        wiener = 3 * variance / span**3 * (low**3 / 3 + low**2 * between / 2)
        return 100 * variance * (1 + s * t / span**2) + wiener

    return k


def added(*kernels):
    return lambda s, t: sum(k(s, t) for k in kernels)


def multiplied(*kernels):
    return lambda s, t: np.prod([k(s, t) for k in kernels], axis=0)


def batch(k, times, y, new, noise=NOISE):
    """Mean and covariance of the function at new times."""
    noise = np.broadcast_to(noise, y.shape)
    L = np.linalg.cholesky(k(times, times) + np.diag(noise))
    A = np.linalg.solve(L, k(times, new))
    return A.T @ np.linalg.solve(L, y), k(new, new) - A.T @ A


IRREGULAR = np.cumsum(rng.exponential(0.3, size=120))
SPACINGS = {
    "irregular": IRREGULAR,
    "regular": np.arange(150) * 0.25,
    "repeated": np.repeat(IRREGULAR[:40], 3),
    "a long gap": np.concatenate([IRREGULAR[:60], 300 + IRREGULAR[:60]]),
    "a very long gap": np.concatenate([IRREGULAR[:60], 1e5 + IRREGULAR[:60]]),
    "tiny and huge steps": np.cumsum(10.0 ** rng.uniform(-9, 2, size=80)),
}
KERNELS = {
    "Matern 1/2": (sg.Matern(0.5, lengthscale=2.0), lambda t0: matern(0.5, 2.0)),
    "Matern 3/2": (sg.Matern(1.5, lengthscale=2.0, variance=3.0), lambda t0: matern(1.5, 2.0, 3.0)),
    "Matern 5/2": (sg.Matern(2.5, lengthscale=0.7), lambda t0: matern(2.5, 0.7)),
    "constant": (sg.Constant(2.0), lambda t0: lambda s, t: np.full((len(s), len(t)), 2.0)),
    "periodic": (sg.Periodic(3.0, lengthscale=0.8, variance=2.0), lambda t0: periodic(3.0, 0.8, 2.0)),
    "trend": (sg.Trend(20.0, variance=4.0), lambda t0: trend(20.0, 4.0, t0)),
    "quasi-periodic": (
        sg.Matern(0.5, lengthscale=30.0) * sg.Periodic(3.0),
        lambda t0: multiplied(matern(0.5, 30.0), periodic(3.0)),
    ),
    "two rough ones": (
        sg.Matern(0.5, lengthscale=2.0) * sg.Matern(0.5, lengthscale=3.0),
        lambda t0: multiplied(matern(0.5, 2.0), matern(0.5, 3.0)),
    ),
    "scaled": (2.5 * sg.Matern(1.5, lengthscale=2.0), lambda t0: matern(1.5, 2.0, 2.5)),
    "sum": (
        sg.Trend(50.0) + sg.Matern(1.5, lengthscale=5.0) + sg.Matern(0.5, lengthscale=30.0) * sg.Periodic(3.0),
        lambda t0: added(trend(50.0, 1.0, t0), matern(1.5, 5.0), multiplied(matern(0.5, 30.0), periodic(3.0))),
    ),
}


@pytest.mark.parametrize("spacing", SPACINGS)
@pytest.mark.parametrize("name", KERNELS)
def test_the_posterior_is_that_of_the_batch_process(name, spacing):
    if spacing == "a very long gap" and name in ("trend", "sum"):
        pytest.skip("a trend strays so far that the batch form has no digits left")
    times = SPACINGS[spacing]
    kernel, oracle = KERNELS[name][0], KERNELS[name][1](times[0])
    y = np.sin(times % 50) + 0.2 * np.random.default_rng(1).standard_normal(len(times))
    model = sg.TimeGP(kernel, noise=NOISE)
    model.learn_many(np.empty((len(times), 0)), y, time=times)
    new = times[-1] + np.array([0.0, 0.1, 1.0, 7.0, 100.0])
    mean, covariance = batch(oracle, times, y, new)
    joint = model.predict_joint(time=new)
    scale = 1.0 if "trend" not in name and name != "sum" else 100.0  # what a wide prior lets the batch form lose
    np.testing.assert_allclose(joint.mean, mean, atol=1e-8 * scale)
    np.testing.assert_allclose(joint.covariance, covariance, rtol=1e-8, atol=1e-8 * scale)
    p = model.predict_many(time=new)
    np.testing.assert_allclose(p.mean, joint.mean, atol=1e-12)
    np.testing.assert_allclose(p.variance, np.diag(joint.covariance), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(sum(part.mean for part in p.components.values()), p.mean, atol=1e-9)


def test_two_seasons_multiply_to_side_bands():
    times = np.sort(rng.uniform(0, 60, size=100))
    y = np.cos(times)
    model = sg.TimeGP(sg.Periodic(2.0, lengthscale=2.0) * sg.Periodic(7.0, lengthscale=2.0), noise=NOISE)
    model.learn_many(np.empty((100, 0)), y, time=times)
    k = multiplied(periodic(2.0, 2.0, share=1 - 1e-12), periodic(7.0, 2.0, share=1 - 1e-12))
    mean, _ = batch(k, times, y, np.array([61.0]))
    assert abs(model.predict_one(time=61.0).mean - mean[0]) < 0.02  # a thousandth of the variance is left out
    assert list(model.predict_one(time=61.0).components) == ["2 x 7"]


@pytest.mark.parametrize("name", ["Matern 3/2", "quasi-periodic", "sum"])
def test_long_regular_rows_have_the_gain_of_the_batch_process(name):
    kernel, oracle = KERNELS[name][0], KERNELS[name][1](0.0)
    times = np.arange(700) * 0.5
    y = np.sin(times) + 0.1 * np.random.default_rng(2).standard_normal(700)
    model = sg.TimeGP(kernel, noise=0.3)
    p = model.track(np.empty((700, 0)), y, time=times)
    rows = [5, 100, 400, 699]
    for row in rows:
        mean, covariance = batch(oracle, times[:row], y[:row], times[row : row + 1], 0.3)
        np.testing.assert_allclose(p.mean[row], mean[0], atol=1e-7)
        np.testing.assert_allclose(p.variance[row], covariance[0, 0], rtol=1e-6)
    late = times[-1] + np.array([0.25, 40.0])  # at other distances
    mean, covariance = batch(oracle, times, y, late, 0.3)
    np.testing.assert_allclose(model.predict_many(time=late).mean, mean, atol=1e-7)
    np.testing.assert_allclose(model.predict_many(time=late).variance, np.diag(covariance), rtol=1e-6)


def test_noise_may_differ_from_row_to_row():
    noise = rng.uniform(0.01, 1.0, size=len(IRREGULAR))
    y = np.cos(IRREGULAR)
    model = sg.TimeGP(sg.Matern(2.5, lengthscale=2.0), noise=NOISE)
    model.learn_many(np.empty((len(y), 0)), y, time=IRREGULAR, noise=noise)
    mean, _ = batch(matern(2.5, 2.0), IRREGULAR, y, IRREGULAR[-1:] + 1.0, noise)
    np.testing.assert_allclose(model.forecast(IRREGULAR[-1:] + 1.0).mean, mean, atol=1e-9)


def ahead_in_extended_precision(K, noise, y):
    """Mean and variance of the function at every row given the rows before it, by a Cholesky factor in long doubles."""
    n = len(y)
    C, L, e, mean = (
        K + noise * np.eye(n, dtype=np.longdouble),
        np.zeros_like(K),
        np.zeros_like(K[0]),
        np.zeros_like(K[0]),
    )
    for i in range(n):
        column = C[i:, i] - L[i:, :i] @ L[i, :i]
        L[i:, i] = column / np.sqrt(column[0])
        mean[i] = L[i, :i] @ e[:i]
        e[i] = (y[i] - mean[i]) / L[i, i]
    return mean, np.diag(L) ** 2 - noise


def shortened(times, longest):
    """Times in extended precision, with no gap above the longest; the first is 0."""
    gaps = np.diff(times.astype(np.longdouble))
    return np.concatenate([np.zeros(1, np.longdouble), np.cumsum(np.minimum(gaps, np.longdouble(longest)))])


@pytest.mark.parametrize("days", [30, 365, 3650])
@pytest.mark.parametrize("span", [600.0, 3600.0, 86400.0])
@pytest.mark.parametrize("noise", [1e-4])
def test_after_a_long_gap_a_trend_starts_anywhere(noise, span, days):
    times = 60.0 * np.arange(120)
    times[60:] += 86400.0 * days
    y = 20.0 + np.sqrt(noise) * np.random.default_rng(0).normal(size=120)
    model = sg.TimeGP(sg.Trend(span), noise=noise)
    p = model.track(np.empty((120, 0)), y, time=times)
    # The slope, white noise of variance 3 a span integrated, is as uncertain as at the start after 100 / 3 spans.
    shorter = shortened(times, np.longdouble(100) / 3 * span)
    mean, variance = ahead_in_extended_precision(trend(np.longdouble(span))(shorter, shorter), noise, y)
    np.testing.assert_allclose(p.mean, mean.astype(float), rtol=0, atol=1e-8)
    np.testing.assert_allclose(p.variance, variance.astype(float), rtol=1e-7, atol=1e-7 * noise)
    assert p.variance[60] > p.variance[0] or days * 86400 < 34 * span
    assert model.health.capped_directions == (days * 86400 > 34 * span)
    assert sg.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()


def test_a_clock_that_starts_in_1970_does_no_harm_to_a_sum_with_trends():
    times = np.r_[np.arange(50.0), 1.7e9 + np.arange(50.0), 3.4e9 + np.arange(50.0)]
    y = 50.0 + np.random.default_rng(1).normal(size=150)
    kernel = sg.Constant(2719.0) + sg.Trend(5.0) + sg.Trend(0.01, variance=4.0)
    model = sg.TimeGP(kernel, noise=1.0)
    p = model.track(np.empty((150, 0)), y, time=times)
    wide = np.full((150, 150), np.longdouble(2719.0))
    for span, variance in ((5.0, 1.0), (0.01, 4.0)):
        shorter = shortened(times, np.longdouble(100) / 3 * np.longdouble(span))
        wide += trend(np.longdouble(span), variance)(shorter, shorter)
    mean, _ = ahead_in_extended_precision(wide, 1.0, y)
    np.testing.assert_allclose(p.mean, mean.astype(float), rtol=0, atol=1e-6 * 50)
    assert model.health.capped_directions == 2 + 149  # of the short trend every row is a new beginning


def test_a_forecast_over_a_trend_levels_off_where_it_says_no_more():
    model = sg.TimeGP(sg.Trend(1.0), noise=0.01)
    model.learn_many(np.empty((50, 0)), 0.3 * np.arange(50), time=0.1 * np.arange(50))
    p = model.forecast([4.9 + 33.0, 4.9 + 100 / 3, 4.9 + 40.0, 4.9 + 1e9])
    assert p.variance[0] < p.variance[1] == p.variance[2] == p.variance[3]
    assert p.mean[0] < p.mean[1] == p.mean[2] == p.mean[3]
    joint = model.predict_joint(time=[4.9 + 33.0, 4.9 + 100 / 3, 4.9 + 1e9])
    np.testing.assert_allclose(np.diag(joint.covariance), p.variance[[0, 1, 3]], rtol=1e-12)


@pytest.mark.parametrize(
    ("kernel", "noise"),
    [
        (sg.Constant(400.0) + sg.Periodic(24.0, variance=10.0), 1e-9),
        (sg.Constant(1.0) + sg.Periodic(24.0), 1e-12),
        (sg.Trend(700.0, variance=700.0) + sg.Trend(600.0, variance=1000.0), 1e-3),
    ],
)
def test_rows_with_less_noise_than_rounding_leaves_are_counted(kernel, noise):
    model = sg.TimeGP(kernel, noise=noise)
    p = model.track(np.empty((200, 0)), 20.0 + np.sin(np.arange(200.0)), time=np.arange(200.0))
    assert 0 < model.health.unresolved_rows <= model.health.repairs
    assert np.isfinite(p.mean).all()
    assert (p.variance >= 0).all()
    sg.from_bytes(model.to_bytes())


def drawn(seed, n=40):
    """A random kernel with its prior over random times, in extended precision, a noise and targets."""
    draw = np.random.default_rng(seed)
    gaps = np.where(draw.random(n) < 0.05, 10 ** draw.uniform(1, 6, n), draw.choice([0.0, 1.0, 1.0, 2.5], n))
    times, kernel, K = np.cumsum(gaps), None, np.zeros((n, n), np.longdouble)
    for kind in draw.integers(4, size=draw.integers(1, 4)):
        variance, length, period = 10 ** draw.uniform(-2, 4), 10 ** draw.uniform(0, 3), draw.choice([24.0, 7.0, 3.3])
        term, prior, at = [
            (sg.Constant(variance), lambda s, t, v=variance: np.full((n, n), v), times),
            (sg.Matern(1.5, lengthscale=length, variance=variance), matern(1.5, length, variance), times),
            (sg.Periodic(period, variance=variance), periodic(period, 1.0, variance), times),
            (sg.Trend(length, variance=variance), trend(length, variance), shortened(times, 100 / 3 * length)),
        ][kind]
        kernel, K = term if kernel is None else kernel + term, K + prior(*2 * [at.astype(np.longdouble)])
    noise = max(10 ** draw.uniform(-16, 0) * float(K[0, 0]), 1e-12)
    return kernel, K, noise, times, 10 * draw.normal() + np.sin(times) + np.sqrt(noise) * draw.normal(size=n)


def test_no_mean_is_off_silently():
    counted = 0
    for seed in range(20):
        kernel, K, noise, times, y = drawn(seed)
        model = sg.TimeGP(kernel, noise=noise)
        p = model.track(np.empty((len(y), 0)), y, time=times)
        assert np.isfinite(p.mean).all(), seed
        assert (p.variance >= 0).all(), seed
        sg.from_bytes(model.to_bytes())
        counted += model.health.repairs > 0
        if not model.health.repairs:
            mean, _ = ahead_in_extended_precision(K, noise, y)
            np.testing.assert_allclose(
                p.mean, mean.astype(float), rtol=0, atol=1e-6 * np.abs(y).max(), err_msg=str(seed)
            )
    assert 5 < counted < 15


def test_rows_with_enough_noise_are_not_counted_and_gaps_are():
    model = sg.TimeGP(sg.Trend(3.0) + sg.Matern(1.5, lengthscale=4.0), noise=0.1)
    model.learn_many(np.empty((700, 0)), np.sin(np.arange(700.0)), time=np.arange(700.0))
    assert model.health == sg.TimeGP(sg.Trend()).health
    model.learn_many(np.empty((40, 0)), np.zeros(40), time=700.0 + 1000.0 * np.arange(40))
    assert model.health.capped_directions == 40 - 1  # the first row after 699 is not late
    assert model.health.repairs == 0


def test_a_negative_variance_is_skipped_counted_and_mended():
    model = sg.TimeGP(sg.Matern(0.5, lengthscale=10.0), noise=0.01)
    model.learn_many(np.empty((20, 0)), np.ones(20), time=np.arange(20.0))
    model._numbers.state.covariance[:] = -0.5
    assert model.predict_one(time=19.0).variance == 0.0
    for t in range(19, 40):
        model.learn_one((), 1.0, time=float(t))
    assert model.health.skipped_rows == 1
    assert model.predict_one(time=40.0).mean == pytest.approx(1.0, abs=0.1)
    assert model.predict_one(time=40.0).variance > 0
    sg.from_bytes(model.to_bytes())


HOUR = 3600.0
JUMPS = {  # where rows are not an hour apart
    "an hour apart": np.zeros(40),
    "one pause of ten years": np.r_[np.zeros(39), 87600.0],
    "a wrong first time": np.r_[0.0, 54 * 8766.0, np.zeros(38)],
}


@pytest.mark.parametrize("jump", JUMPS)
@pytest.mark.parametrize("build", [
    lambda: sg.TimeGP(sg.Matern(0.5, lengthscale="3h")),
    lambda: sg.KRLST(capacity=5, time=sg.Matern(0.5, lengthscale="3h")),
])  # fmt: skip
def test_a_row_without_a_time_comes_a_usual_spacing_after_the_last(build, jump):
    times = 1.7e9 + HOUR * np.cumsum(np.r_[1.0, np.ones(39) + JUMPS[jump][1:]])
    model, X = build(), np.zeros((40, 0 if isinstance(build(), sg.TimeGP) else 1))
    model.learn_many(X, np.sin(np.arange(40.0)), time=times)
    row = X[0]
    later = times[-1] + HOUR
    assert model.predict_one(row).mean == model.predict_one(row, time=later).mean == model.forecast(1).mean[0]
    np.testing.assert_array_equal(model.forecast(3).mean, model.forecast(times[-1] + HOUR * np.arange(1.0, 4.0)).mean)
    given, not_given = model.copy(), model.copy()
    for t in range(1, 30):
        given.learn_one(row, 0.5, time=times[-1] + HOUR * t)
        not_given.learn_one(row, np.nan if t % 3 else 0.5)
    assert not_given._moment.seen == given._moment.seen == times[-1] + 29 * HOUR
    assert not_given._moment.spacing == HOUR


def test_lengths_of_time_have_units_and_names():
    model = sg.TimeGP(
        sg.Trend("90d") + sg.Periodic("1d") * sg.Periodic(dt.timedelta(weeks=1)) + sg.Matern(0.5, lengthscale="3h")
    )
    start = dt.datetime(2026, 1, 1)
    for hour in range(100):
        model.learn_one((), np.sin(hour / 24), time=start + dt.timedelta(hours=hour))
    p = model.predict_one(time=start + dt.timedelta(hours=101))
    assert list(p.components) == ["trend", "day x week", "level"]
    assert model.hyperparameters["right.lengthscale"] == 10800.0
    assert isinstance(p, sg.TimePrediction)
    assert p.components["level"].variance > 0


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: sg.TimeGP(sg.SquaredExponential(1.0)), "no finite state.*nearest that can is Matern"),
        (lambda: sg.TimeGP(sg.RationalQuadratic()), "no finite state"),
        (lambda: sg.TimeGP(sg.Matern(1.5) * sg.Periodic(2.0)), "products are of Matern"),
        (lambda: sg.TimeGP(sg.Trend() * sg.Trend()), "products are of Matern"),
        (lambda: sg.TimeGP(sg.Matern(1.5, lengthscale=[1.0, 2.0])), "one lengthscale"),
        (lambda: sg.TimeGP(sg.Matern(1.5), noise=0.0), "noise must be"),
        (lambda: sg.TimeGP(sg.Matern(1.5)).learn_one((), 1e300), "a number beyond"),
        (lambda: sg.TimeGP(sg.Trend("3 moons")), "length of time"),
        (lambda: sg.KRLST(sg.Trend()).learn_one(1.0, 2.0), "Trend is a kernel over time"),
    ],
)
def test_what_cannot_be_a_kernel_over_time_is_refused(call, reason):
    with pytest.raises(ValueError, match=reason):
        call()


@pytest.mark.parametrize(
    ("call", "error", "reason"),
    [
        (lambda model: model.forget(0.9), ValueError, "forgets by its kernel: give it a shorter lengthscale"),
        (lambda model: model.simulate(np.empty((3, 0))), ValueError, "feeds nothing back: use forecast"),
        (lambda model: model.predict_one(derivatives=True), ValueError, "no derivatives by its inputs"),
        (
            lambda model: sg.TimeGP(sg.Matern(1.5), noise=[0.1, 0.2]),
            ValueError,
            "one variance, which all outputs share",
        ),
        (lambda model: sg.TimeGP(None), TypeError, "time must be, for example, Matern"),
        (lambda model: model.clone().learn_one([1.0], 1.0), ValueError, "TimeGP has no inputs"),
    ],
)
def test_what_a_process_without_inputs_cannot_do_is_refused_with_a_way_out(call, error, reason):
    model = sg.TimeGP(sg.Matern(1.5))
    model.learn_many(np.empty((3, 0)), [1.0, 2.0, 3.0], time=[1.0, 2.0, 5.0])
    with pytest.raises(error, match=reason):
        call(model)


def test_wrappers_and_fleets_take_a_model_without_inputs():
    kernel = sg.Matern(1.5, lengthscale=5.0) + sg.Periodic(24.0)
    y = 1000 + 50 * np.sin(2 * np.pi * np.arange(300.0) / 24)
    model = sg.Calibrated(sg.Standardize(sg.TimeGP(kernel)))
    p = model.track(np.empty((300, 0)), y, time=np.arange(300.0))
    assert np.abs(p.mean - y)[200:].max() < 5.0
    fleet = sg.Fleet(sg.TimeGP(kernel), size=2)
    Y = np.random.default_rng(4).normal(size=(6, 2))
    q = fleet.track(np.empty((6, 2, 0)), Y, time=np.arange(6.0))
    for i in range(2):
        alone = sg.TimeGP(kernel).track(np.empty((6, 0)), Y[:, i], time=np.arange(6.0))
        np.testing.assert_array_equal(q.mean[:, i], alone.mean)
