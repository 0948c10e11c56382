from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

import streamgp as sg
from streamgp import evaluate
from streamgp.contract import passing
from streamgp.contract.lanes import ISSUE, LEARN, ONE
from streamgp.contract.laws import ladder_levels
from streamgp.contract.model import Shape

N = 3000


def wrong_model_data(n=N, seed=0):
    """Noise that is larger than the model supposes, lopsided, and four times as large in the second half."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 2))
    size = np.where(np.arange(n) < n // 2, 0.2, 0.8)
    return X, np.sin(X[:, 0]) + size * (rng.exponential(size=n) - 1.0)


SETTINGS = {"level": 0.8, "rates": [0.02, 0.2], "memory": 50, "sharpness": 0.2, "correction": 0.05, "warmup": 20}
RELATIVE = np.array([True, True, True, False, False])  # trackers over the deviation: the raw one and two; then the unit


def taken(array):
    return np.array(array[0], copy=True)


@pytest.mark.parametrize(
    "build", [lambda: sg.SOGP(capacity=20), lambda: sg.filters.QKLMS(capacity=20)], ids=["SOGP", "QKLMS"]
)
def test_every_row_is_one_step_of_the_trackers_as_the_page_tells_it(build):
    X, y = wrong_model_data(600)
    y[100:150] = np.nan
    model, a, steps = sg.Calibrated(build(), **SETTINGS), 0.1, 0
    model.learn_many(X[:5], y[:5])
    for t in range(5, 600):
        state = model._numbers.state
        T, L, corrected, loss, streaks = (
            taken(getattr(state, name)) for name in ("trackers", "losses", "corrected", "loss", "streaks")
        )
        recent, p = float(state.recent_rows[0]), model.predict_one(X[t])
        std = p.raw.std if np.isfinite(p.raw.std) else 1.0
        usable = ~RELATIVE | np.isfinite(p.raw.std)
        units = np.where(RELATIVE, math.log(std), state.log_unit[0])
        weights = np.exp(-0.2 * (L - L[:, usable].min(axis=1, keepdims=True))) * usable
        bounds = np.exp((weights * (T + units)).sum(axis=1) / weights.sum(axis=1) + corrected)
        np.testing.assert_allclose([p.mean - p.lower, p.upper - p.mean], bounds, rtol=1e-8)
        model.learn_one(X[t], y[t])
        if np.isnan(y[t]):
            np.testing.assert_array_equal(taken(state.trackers), T)
        elif state.kind_rows[0, 1] > 20 and np.abs(streaks).max() < 2:  # placed, and no bound follows at once
            steps += 1
            x = np.array([p.mean - y[t], y[t] - p.mean])
            rows = np.where(RELATIVE, state.kind_rows[0, 0], state.kind_rows[0, 1])
            aim = a * state.kind_rows[0, 1] / (state.kind_rows[0, 1] + 40)  # cautious while errors are few
            each = np.exp(T + units)
            rates = np.array([0.0, 0.02, 0.2, 0.02, 0.2])
            rates = np.where(usable & (rates > 0), np.maximum(rates, 3 / np.maximum(rows, 1)), 0.0)
            np.testing.assert_allclose(state.trackers[0], T + rates * ((x[:, None] > each) - aim), rtol=1e-8)
            mine, average = bounds + np.maximum(x - bounds, 0) / a, loss / recent
            lost = np.where(usable, each + np.maximum(x[:, None] - each, 0) / a, mine[:, None])
            expected = 0.98 * L + np.minimum(lost / average[:, None], 100)
            expected -= expected.min(axis=1, keepdims=True)
            np.testing.assert_allclose(state.losses[0], expected, rtol=1e-8, atol=1e-10)
            np.testing.assert_allclose(state.corrected[0], corrected + 0.05 * ((x > bounds) - aim), rtol=1e-8)
            np.testing.assert_allclose(state.loss[0], 0.98 * loss + np.minimum(mine, 100 * average), rtol=1e-8)
    assert steps > 300


def test_first_errors_place_all_trackers_by_the_mean_of_the_roots_of_their_sizes():
    errors = np.random.default_rng(0).normal(size=10)
    model = sg.Calibrated(sg.InputValue(0), **SETTINGS)
    for n in range(1, 11):
        model.learn_one([0.0], errors[n - 1])
        root = np.mean(np.sqrt(np.abs(errors[:n])))
        scale = (root / 0.8222089612166868) ** 2  # 0.822...: the mean of the root of the size of a standard Gaussian
        distance = np.exp(model._numbers.state.trackers[0, :, 3:] + model._numbers.state.log_unit[0])
        np.testing.assert_allclose(distance, scale * NormalDist().inv_cdf(0.9) * math.exp(1 / n), rtol=1e-8)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_the_fastest_tracker_goes_at_once_to_the_nearest_of_many_errors_beyond(sign):
    model = sg.Calibrated(sg.InputValue(0), **SETTINGS)
    model.learn_many(np.zeros((300, 1)), np.random.default_rng(0).normal(size=300))
    side, state = int(sign > 0), model._numbers.state
    for k, size in enumerate((7e3, 9e3, 5e3, 8e3, 6e3)):  # so many lie beyond by chance once in a thousand
        assert model.predict_one([0.0]).upper < 100
        assert np.exp(state.trackers[0, side, 4] + state.log_unit[0]) < 100, k
        model.learn_one([0.0], sign * size)
    steps = math.exp(5 * 0.2)  # of the tracker, meanwhile
    assert 5e3 < np.exp(state.trackers[0, side, 4] + state.log_unit[0]) < steps * 5e3
    assert state.losses[0, side].tolist() == [100.0, 100.0, 0.0, 100.0, 0.0]  # the others did not follow


def test_where_drift_is_confirmed_intervals_cover_on():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (1500, 1))
    y = np.where(np.arange(1500) < 750, 1, -1) * np.sin(X[:, 0]) + 0.1 * rng.standard_normal(1500)
    model = sg.Calibrated(sg.DriftAware(sg.Standardize(sg.KRLST(capacity=40, forgetting=1.0))))
    low, high = model.track(X, y).interval()
    assert [event.direction for event in model.inner.events] == ["raised", "kept"]
    row = model.inner.events[0].row
    assert evaluate.coverage(y[row:], low[row:], high[row:]) == pytest.approx(0.9, abs=0.04)


@pytest.mark.parametrize("size", [1e9, 1e30, 1e100])
@pytest.mark.parametrize("build", [sg.KRLST, sg.filters.QKLMS], ids=["KRLST", "QKLMS"])
def test_coverage_comes_back_after_an_error_of_any_size(build, size):
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (3000, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=3000)
    y[1000] = size  # the model within learns it, and is wrong by as much for thousands of rows
    low, high = sg.Calibrated(build()).track(X, y).interval()
    assert 0.85 <= evaluate.coverage(y[1300:2000], low[1300:2000], high[1300:2000]) <= 0.95
    assert 0.87 <= evaluate.coverage(y[2000:], low[2000:], high[2000:]) <= 0.93


def test_bounds_follow_when_errors_become_a_million_times_smaller():
    rng = np.random.default_rng(1)
    y = rng.normal(size=2000) * np.where(np.arange(2000) < 1000, 1.0, 1e-6)
    low, high = sg.Calibrated(sg.InputValue(0)).track(np.zeros((2000, 1)), y).interval()
    assert np.median((high - low)[900:1000]) == pytest.approx(3.3, rel=0.2)
    assert np.median((high - low)[1200:1300]) == pytest.approx(3.3e-6, rel=0.5)
    assert 0.85 <= evaluate.coverage(y[1200:], low[1200:], high[1200:]) <= 0.95


@pytest.mark.parametrize("level", [0.5, 0.9, 0.98])
@pytest.mark.parametrize(
    "build",
    [sg.KRLST, sg.filters.QKLMS, lambda: sg.Standardize(sg.ISSGPR(20)), lambda: sg.LWPR(init_D=2.0)],
    ids=["KRLST", "QKLMS", "Standardize", "LWPR"],
)
def test_intervals_hold_their_share_whatever_the_model_and_through_a_change(build, level):
    X, y = wrong_model_data()
    model = sg.Calibrated(build(), level=level)
    low, high = model.track(X, y).interval()
    assert evaluate.coverage(y[500:], low[500:], high[500:]) == pytest.approx(level, abs=0.02)
    for start in (500, 1000, 1500, 2000):
        held = evaluate.coverage(y[start : start + 1000], low[start : start + 1000], high[start : start + 1000])
        assert held == pytest.approx(level, abs=0.06)


def test_a_right_model_loses_next_to_nothing():
    rng = np.random.default_rng(1)
    X = rng.uniform(-3, 3, (6000, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=6000)
    p = sg.Calibrated(sg.KRLST(sg.SquaredExponential(1.0), noise=0.01)).track(X, y)
    scores = [evaluate.interval_score(y[500:], *q[500:].interval(0.9), 0.9) for q in (p, p.raw)]
    assert scores[0] < 1.01 * scores[1]


@pytest.mark.parametrize("unit", [-1e6, 1e-9, 1e9])
@pytest.mark.parametrize(
    "build",
    [sg.filters.QKLMS, lambda: sg.Standardize(sg.KRLST()), lambda: sg.Standardize(sg.filters.QKLMS())],
    ids=["", "S", "SQ"],
)
def test_the_units_of_the_target_do_not_matter(build, unit):
    X, y = wrong_model_data(200)
    y[:2], y[2:] = 0.0, y[2:] + 30.0  # at first there is no unit at all
    ends = [sg.Calibrated(build()).track(X, factor * y).interval() for factor in (1.0, unit)]
    expected = unit * np.sort(np.sign(unit) * np.array(ends[0]), axis=0) * np.sign(unit)
    np.testing.assert_allclose(ends[1], expected, rtol=1e-8)


@pytest.mark.parametrize("build", [sg.Standardize(sg.KRLST()), sg.filters.QKLMS()], ids=["Standardize", "QKLMS"])
def test_before_a_unit_is_known_nothing_is_claimed(build):
    model = sg.Calibrated(build)
    for p in (model.predict_one([0.0]), model.track(np.zeros((2, 1)), [5.0, 5.0])[0]):
        assert p.interval() == (-np.inf, np.inf)
        assert p.std == np.inf
        assert (p.cdf(7.0), p.pit(-1e9), p.p_value(3.0)) == (0.5, 0.5, 1.0)
        assert (p.quantile(0.3), p.quantile(0.9), p.crps(1.0), p.log_density(1.0)) == (-np.inf, np.inf, np.inf, -np.inf)
    model.learn_many(np.zeros((3, 1)), [6.0, 4.0, 5.5])
    assert np.isfinite(model.calibration.width)
    assert np.isfinite(model.predict_one([0.0]).interval()).all()


def test_before_any_data_the_interval_is_the_models_own():
    model = sg.Calibrated(sg.KRLST(), level=0.8)
    np.testing.assert_allclose(
        model.predict_one([1.0, 2.0]).interval(), sg.KRLST().predict_one([1.0, 2.0]).interval(0.8)
    )


def test_missing_targets_change_no_interval():
    X, y = wrong_model_data(400)
    model = sg.Calibrated(sg.KRLST())
    model.learn_many(X, y)
    before = model.predict_one(X[0])
    model.learn_many(X, np.full(400, np.nan))
    after = model.predict_one(X[0])
    assert (after.lower, after.upper, after.std) == (before.lower, before.upper, before.std)
    assert model.calibration.rows == 400


class Failing(sg.KRLST):
    """A model whose predictions are NaN for a while."""

    def __init__(self):
        super().__init__()

    def _pass(self, ops, X, *given):
        columns = super()._pass(ops, X, *given)
        rows = self.rows_seen - len(X) + np.arange(len(X))
        columns[0, (rows >= 200) & (rows < 250)] = np.nan
        return columns


def test_predictions_that_are_no_numbers_leave_no_trace():
    X, y = wrong_model_data(1000)
    p = sg.Calibrated(Failing()).track(X, y)
    assert np.isnan(p.upper[200:250]).all()
    assert np.isfinite(p.upper[250:]).all()
    assert evaluate.coverage(y[250:], p.lower[250:], p.upper[250:]) == pytest.approx(0.9, abs=0.03)


def test_an_exact_model_claims_nothing_until_an_error_tells_the_unit():
    X = np.linspace(0, 1, 2000)[:, None]
    y = np.where(np.arange(2000) < 1000, 0.0, np.random.default_rng(0).normal(size=2000))
    p = sg.Calibrated(sg.filters.QKLMS()).track(X, y)
    assert np.all(np.isinf(p.lower[:1001]))
    assert np.all(np.isfinite(p.lower[1001:]))
    assert evaluate.coverage(y[1300:], p.lower[1300:], p.upper[1300:]) == pytest.approx(0.9, abs=0.03)


def test_outputs_are_calibrated_each_for_itself():
    X, y = wrong_model_data(1500)
    both = np.column_stack([y, 1000.0 * np.roll(y, 7)])
    together = sg.Calibrated(sg.ISSGPR(20)).track(X, both)
    for j in range(2):
        alone = sg.Calibrated(sg.ISSGPR(20)).track(X, both[:, j])
        np.testing.assert_allclose(together.lower[:, j], alone.lower, rtol=1e-6, atol=1e-8)


# What is told.


def test_coverage_and_width_are_those_of_the_intervals_given():
    X, y = wrong_model_data(1000)
    y[::7] = np.nan
    model = sg.Calibrated(sg.KRLST(), memory=100)
    assert model.calibration.rows == 0
    assert math.isnan(model.coverage)
    p = model.track(X, y)
    known = ~np.isnan(y)
    inside = ((p.lower <= y) & (y <= p.upper))[known]
    told = model.calibration
    assert told.rows == known.sum()
    assert model.coverage == told.coverage == pytest.approx(inside.mean(), abs=1e-12)
    assert model.width == told.width == pytest.approx((p.upper - p.lower)[known].mean())
    weights = 0.99 ** np.arange(len(inside))[::-1]
    assert told.recent_coverage == pytest.approx(np.average(inside, weights=weights))
    assert told.recent_width == pytest.approx(np.average((p.upper - p.lower)[known], weights=weights))
    low, high = p.raw.interval(0.9)
    assert told.raw_coverage == pytest.approx(evaluate.coverage(y, low, high), abs=1e-12)
    assert told.raw_width == pytest.approx((high - low)[known].mean())
    filtered = sg.Calibrated(sg.filters.QKLMS())
    filtered.learn_many(X, y)
    assert math.isnan(filtered.calibration.raw_coverage)


# Late targets.


def test_of_a_late_target_the_prediction_that_was_issued_counts():
    X, y = wrong_model_data(600)
    model, prompt = (sg.Delayed(sg.Calibrated(sg.KRLST()), pending=20) for _ in range(2))
    waiting, inside = [], []
    for t in range(600):
        if t >= 12:
            target, issued = waiting.pop(0)
            model.resolve(issued.ticket, target)
            inside.append(issued.lower <= target <= issued.upper)
        waiting.append((y[t], model.issue(X[t])))
        prompt.resolve(prompt.issue(X[t]).ticket, y[t])
    assert model.inner.coverage == pytest.approx(np.mean(inside), abs=1e-12)
    direct = sg.Calibrated(sg.KRLST())
    direct.learn_many(X, y)
    assert prompt.inner.coverage == direct.coverage
    np.testing.assert_allclose(prompt.predict_one(X[0]).interval(), direct.predict_one(X[0]).interval(), rtol=1e-9)


# The prediction.


def prediction():
    raw = sg.Prediction(1.0, 0.3, 0.1)
    return sg.CalibratedPrediction(1.0, 1.5, 0.5, lower=0.0, upper=4.0, level=0.9, raw=raw)


def test_half_gaussians_are_a_density_with_the_quantiles_of_the_interval():
    p = prediction()
    for level in (0.5, 0.9, 0.99):
        low, high = p.interval(level)
        inside = (
            quad(lambda y: math.exp(p.log_density(y)), low, 1.0)[0]
            + quad(lambda y: math.exp(p.log_density(y)), 1.0, high)[0]
        )
        assert inside == pytest.approx(level, abs=1e-8)
    assert p.interval() == p.interval(0.9) == (0.0, 4.0)
    draws = p.sample(200_000, seed=3)
    assert np.mean(draws < 0.0) == pytest.approx(0.05, abs=0.003)
    assert np.mean(draws > 4.0) == pytest.approx(0.05, abs=0.003)
    assert evaluate.pit([0.0, 1.0, 4.0], p) == pytest.approx([0.05, 0.5, 0.95])


def test_the_deviation_is_that_of_two_halves_through_the_bounds():
    X, y = wrong_model_data(300)
    model = sg.Calibrated(sg.KRLST())
    model.learn_many(X, y)
    p = model.predict_one(X[0])
    sides = np.array([p.mean - p.lower, p.upper - p.mean]) / NormalDist().inv_cdf(0.95)
    assert p.std == pytest.approx(np.sqrt(np.mean(sides**2)))
    assert p.variance / p.noise == pytest.approx(p.raw.variance / p.raw.noise)


# The distribution.


def with_shape(level=0.9):
    """A distribution with a median that is not the mean, an upper tail that is heavy and a lower one that is not."""
    levels = ladder_levels(level)
    quantiles = np.where(levels < 0.5, 0.7, 1.3) * stats.t.ppf(levels, 4) + 0.2
    bound = 0.5 - level / 2
    lower, upper = np.interp([bound, 1 - bound], levels, quantiles)
    ratios = np.where(quantiles < 0, quantiles / -lower, quantiles / upper)
    raw = sg.Prediction(1.0, 0.3, 0.1)
    shape = (*ratios, 0.0, 0.8, 0.3, 1.1)
    return sg.CalibratedPrediction(1.0, 1.5, 0.5, 1.0 + lower, 1.0 + upper, level, raw, tuple(shape))


@pytest.mark.parametrize("build", [prediction, with_shape, lambda: with_shape(0.999), lambda: with_shape(0.37)])
def test_the_quantiles_are_a_distribution(build):
    p = build()
    q = np.concatenate([[1e-12, 1e-6, 4e-4], np.linspace(0.001, 0.999, 57), [1 - 4e-4, 1 - 1e-6]])
    y = p.quantile(q)
    assert np.all(np.diff(y) > 0)
    np.testing.assert_allclose(p.cdf(y), q, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(p.p_value(y, "upper"), 1 - q, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(
        p.quantile(p.cdf(np.linspace(-2, 4, 31))), np.linspace(-2, 4, 31), rtol=1e-10, atol=1e-10
    )
    assert p.interval() == pytest.approx([p.quantile(0.5 - p.level / 2), p.quantile(0.5 + p.level / 2)], rel=1e-10)
    for level in (0.2, 0.95, 0.9995):
        assert p.interval(level) == pytest.approx([p.quantile(0.5 - level / 2), p.quantile(0.5 + level / 2)], rel=1e-9)
    for at in (-6.0, -1.1, 0.31, 2.07, 9.0):  # away from the quantiles, at which it may jump
        slope = (p.cdf(at + 1e-6) - p.cdf(at - 1e-6)) / 2e-6
        assert math.exp(p.log_density(at)) == pytest.approx(slope, rel=1e-4)
    draws = p.sample(200_000, seed=3)
    np.testing.assert_allclose(np.mean(draws[:, None] < y[3:-3], axis=0), q[3:-3], atol=0.005)


@pytest.mark.parametrize("build", [prediction, with_shape])
def test_the_score_of_the_quantiles_is_the_integral_of_its_definition(build):
    p = build()
    few = np.logspace(-12, -3.4, 60)
    ends = p.quantile(np.array([*few, *np.linspace(0.0005, 0.9995, 1000), *(1 - few)]))
    for y in (-9.0, -0.4, 1.0, 2.3, 30.0):
        cuts = np.unique(np.concatenate([ends, p.quantile(ladder_levels(0.9)), [y, 1.0]]))
        nodes, weights = np.polynomial.legendre.leggauss(8)
        half, middle = 0.5 * np.diff(cuts)[:, None], 0.5 * (cuts[1:] + cuts[:-1])[:, None]
        x = middle + half * nodes
        squares = np.where(x < y, p.cdf(x), p.p_value(x, "upper")) ** 2
        assert p.crps(y) == pytest.approx(np.sum(half * weights * squares), rel=1e-8)


def test_rows_of_quantiles_are_those_of_each_row():
    X, y = wrong_model_data(400)
    model = sg.Calibrated(sg.filters.QKLMS(capacity=20))
    p = model.track(X, y)
    one = model.predict_one(X[0])
    assert len(one.shape) == len(p.shape) == len(ladder_levels(0.9)) + 4
    for name, value in (("cdf", 0.3), ("crps", 0.3), ("log_density", 0.3), ("p_value", 0.3), ("quantile", 0.93)):
        rows = p.quantile(value) if name == "quantile" else getattr(p, name)(np.full(400, value))
        assert rows.shape == (400,)
        assert rows[377] == pytest.approx(getattr(p[377], name)(value), rel=1e-12)
        assert isinstance(getattr(one, name)(value), float)
    both = sg.Calibrated(sg.filters.QKLMS(capacity=20)).track(X, np.column_stack([y, y]))
    assert both.quantile(0.99).shape == both.cdf(0.0).shape == (400, 2)
    np.testing.assert_array_equal(both.quantile([0.5, 0.93]), [both.quantile(0.5), both.quantile(0.93)])
    np.testing.assert_array_equal(both.interval([0.5, 0.9])[0], [both.interval(0.5)[0], both.lower])
    np.testing.assert_allclose(both[:, 1].quantile(0.99), p.quantile(0.99), rtol=1e-9)
    np.testing.assert_allclose(p._moved(3.0, 2.0).quantile(0.99), 3.0 + 2.0 * p.quantile(0.99), rtol=1e-12)


def test_every_level_covers_and_the_score_improves():
    rng = np.random.default_rng(5)
    n = 12_000
    size = np.exp(0.7 * np.sin(np.arange(n) / 300))  # drifts, lopsided, with heavy tails; the model knows none of it
    y = size * (stats.skewnorm.ppf(rng.random(n), 4) + 0.3 * rng.standard_t(3, n))
    p = sg.Calibrated(sg.SOGP(capacity=5)).track(np.zeros((n, 1)), y)[2000:]
    surprise = p.p_value(y[2000:])
    for level in (0.5, 0.8, 0.9, 0.95, 0.99):
        assert np.mean(surprise > 1 - level) == pytest.approx(level, abs=0.01)
    assert 0.997 <= np.mean(surprise > 0.001) <= 0.9997
    assert np.mean(surprise < 1e-4) < 5e-4
    assert np.mean(p.crps(y[2000:])) < np.mean(p.raw.crps(y[2000:]))
    histogram = np.histogram(evaluate.pit(y[2000:], p), bins=10, range=(0, 1))[0] / 10_000
    np.testing.assert_allclose(histogram, 0.1, atol=0.01)


def test_from_row_20_on_intervals_cover():
    rng = np.random.default_rng(2)
    streams, inside = 60, []
    for k in range(streams):
        y = 10.0 ** rng.uniform(-3, 3) * (rng.normal(size=120) if k % 2 else rng.standard_t(4, 120))
        low, high = sg.Calibrated(sg.InputValue(0)).track(np.zeros((120, 1)), y).interval()
        inside.append((low <= y) & (y <= high))
    for start in (20, 40, 80):
        assert 0.85 <= np.mean(np.array(inside)[:, start : start + 40]) <= 0.95


def test_both_ends_recover_together_after_errors_on_one_side():
    rng = np.random.default_rng(3)
    y = rng.normal(size=1200)
    y[600:640] += 30.0  # the model has not followed yet
    p = sg.Calibrated(sg.InputValue(0)).track(np.zeros((1200, 1)), y)
    below, above = p.mean - p.lower, p.upper - p.mean
    assert np.median(above[630:640]) > 20
    assert np.max(above[670:720]) < 5  # within 30 rows of the last large error
    assert np.max(below[670:720]) < 5
    assert 0.85 <= evaluate.coverage(y[680:900], p.lower[680:900], p.upper[680:900]) <= 0.96


def test_the_tails_and_their_evidence_can_be_read():
    rng = np.random.default_rng(4)
    model = sg.Calibrated(sg.InputValue(0))
    assert math.isnan(model.tails[0].xi)
    model.learn_many(np.zeros((8000, 1)), np.where(np.arange(8000) % 2, 1, -1) * rng.exponential(size=8000))
    for tail in model.tails:
        assert tail.level == 0.001
        assert tail.rows == pytest.approx(400, abs=60)
        assert 0 <= tail.xi < 0.25
    heavy = sg.Calibrated(sg.InputValue(0))
    heavy.learn_many(np.zeros((8000, 1)), rng.standard_t(2, 8000))
    assert all(tail.xi > 0.2 for tail in heavy.tails)


def test_some_rows_of_a_calibrated_prediction_are_one():
    X, y = wrong_model_data(50)
    p = sg.Calibrated(sg.KRLST()).track(X, y)
    assert p[3].interval() == (p.lower[3], p.upper[3])
    assert p[3].raw.mean == p.mean[3]
    assert isinstance(p[3].mean, float)
    np.testing.assert_array_equal(p[10:20].upper, p.upper[10:20])
    assert len(p[10:20]) == 10


def test_one_row_and_no_rows_are_calibrated_predictions_too():
    model = sg.Calibrated(sg.KRLST())
    assert isinstance(model.predict_one([1.0]), sg.CalibratedPrediction)
    assert isinstance(model.track(np.empty((0, 1)), np.empty(0)), sg.CalibratedPrediction)
    model.learn_one([1.0], [2.0, 3.0])
    assert model.predict_one([1.0]).lower.shape == model.predict_one([1.0]).raw.mean.shape == (2,)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"level": 1.0}, "level must be above 0 and below 1; got 1.0"),
        ({"level": 0.0}, "level must be a finite number above 0"),
        ({"rates": []}, "rates must be a positive number or a list"),
        ({"rates": [0.1, -0.1]}, "rates must be a positive number or a list"),
        ({"memory": 1}, "memory must be a whole number of at least 2"),
        ({"sharpness": -1.0}, "sharpness must be a finite number at least 0"),
        ({"correction": -0.1}, "correction must be a finite number at least 0"),
        ({"warmup": 0}, "warmup must be a whole number of at least 1"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(ValueError, match=message):
        sg.Calibrated(sg.KRLST(), **settings)


def test_a_model_that_has_learned_is_refused():
    model = sg.KRLST()
    model.learn_one(1.0, 2.0)
    with pytest.raises(
        ValueError, match="must have learned nothing, because Calibrated needs every row .* seen 1 rows"
    ):
        sg.Calibrated(model)
    with pytest.raises(TypeError, match="model must be a stream model"):
        sg.Calibrated(3)


@pytest.mark.parametrize(
    "model",
    [
        sg.Calibrated(sg.Standardize(sg.KRLST(capacity=15), warmup=40)),
        sg.Calibrated(sg.Standardize(sg.SOGP(capacity=15), warmup=40, screen=False)),
        sg.Standardize(sg.KRLST(capacity=15), warmup=40),
    ],
)
def test_a_row_in_one_compiled_call_equals_track(model):
    rng = np.random.default_rng(5)
    X = rng.normal(5, 2, (160, 3))
    y = 100 + 20 * np.sin(X[:, 0]) + rng.normal(0, 1, 160)
    y[[60, 90]] = np.nan
    if "screen=False" not in repr(model):
        y[120] = -1e9
    single = model.clone()
    p = model.track(X, y)
    for i, (x, target) in enumerate(zip(X, y, strict=True)):
        if i % 3:  # a row may be learned without having been predicted
            one = single.predict_one(x)
            for name in ("mean", "variance", "noise", *(("lower", "upper") if hasattr(p, "lower") else ())):
                np.testing.assert_allclose(getattr(one, name), getattr(p, name)[i], rtol=1e-12, err_msg=f"{name} {i}")
            if hasattr(p, "raw"):
                np.testing.assert_allclose([one.raw.mean, one.raw.std], [p.raw.mean[i], p.raw.std[i]], rtol=1e-12)
                np.testing.assert_allclose(one.shape, [part[i] for part in p.shape], rtol=1e-12)
        single.learn_one(x, target)
    assert single.health == model.health
    np.testing.assert_allclose(single.predict_one(X[0]).std, model.predict_one(X[0]).std, rtol=1e-12)


def test_a_row_that_is_refused_in_one_compiled_call_changes_nothing():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(60, 2))
    model = sg.Calibrated(sg.Standardize(sg.KRLST(capacity=10), warmup=20))
    model.learn_many(X, X.sum(axis=1))
    before = model.to_bytes()
    for x, y, sentence in (
        ([np.nan, 1.0], 0.0, "x has"),
        ([0.0, np.inf], 0.0, "x has"),
        ([0.0, 1.0], np.inf, "y has inf"),
        ([0.0], 0.0, "x must have 2 columns"),
    ):
        with pytest.raises(ValueError, match=sentence):
            model.learn_one(np.array(x), y)
    with pytest.raises(ValueError, match="x has"):
        model.predict_one(np.array([np.nan, 0.0]))
    assert model.to_bytes() == before


# Targets that come several rows late.


def random_walk(rows: int, seed: int) -> np.ndarray:
    return np.cumsum(np.random.default_rng(seed).standard_normal(rows))


def waiting_model(horizon: int) -> sg.Calibrated:
    """Predicts that a target is the input of its row."""
    model = sg.Calibrated(sg.InputValue(0))
    model._prepare(Shape(1, 1, scalar=True, certain=True, ahead=horizon))
    return model


def issue(model, x):
    """The prediction of a row whose target comes later, and its line."""
    line = np.full((1, model._kept_width), np.nan)
    return model._told(list(model._pass(ONE[ISSUE], x[None], None, None, line))), line


def resolve(model, x, y, line):
    model._pass(ONE[LEARN], x[None], y[None], None, line)


def intervals_ahead(y: np.ndarray, horizon: int) -> tuple[np.ndarray, np.ndarray]:
    model, (lower, upper), waiting = waiting_model(horizon), np.full((2, len(y)), np.nan), {}
    for t in range(len(y)):
        if t - horizon in waiting:
            resolve(model, y[t - horizon : t - horizon + 1], y[t : t + 1], waiting.pop(t - horizon))
        if t + horizon < len(y):
            p, waiting[t] = issue(model, y[t : t + 1])
            lower[t + horizon], upper[t + horizon] = p.lower[0, 0], p.upper[0, 0]
    return lower, upper


def test_trackers_lose_by_what_they_said_when_a_late_row_was_issued() -> None:
    horizon, y, rows = 4, random_walk(300, 0), 0
    model, waiting = waiting_model(horizon), {}
    for t in range(len(y)):
        state = model._numbers.state
        if t >= horizon:
            _, issued, trackers = waiting.pop(t - horizon)
            error = y[t] - y[t - horizon]
            losses, loss, recent = state.losses[0].copy(), state.loss[0].copy(), float(state.recent_rows[0])
            streaks = state.streaks[0].copy()
            resolve(model, y[t - horizon : t - horizon + 1], y[t : t + 1], issued)
            if t > 50 and np.abs(streaks).max() < 2:  # no bound follows at once, which would reset the losses
                rows += 1
                for side, sign in enumerate((-1.0, 1.0)):
                    average = loss[side] / recent
                    bounds = np.exp(trackers[side, 5:] + state.log_unit[0])
                    each = bounds + np.maximum(sign * error - bounds, 0.0) / 0.05
                    expected = (1.0 - 1.0 / 500) * losses[side, 5:] + np.minimum(each / average, 100.0)
                    found = state.losses[0, side, 5:]
                    np.testing.assert_allclose(found - found[0], expected - expected[0], rtol=1e-8, atol=1e-8)
        waiting[t] = (*issue(model, y[t : t + 1]), model._numbers.state.trackers[0].copy())
    assert rows > 50


def test_bounds_from_few_overlapping_errors_are_those_of_students_t() -> None:
    horizon, y = 6, random_walk(80, 1)
    model = waiting_model(horizon)
    for t in range(horizon, len(y)):
        x = y[t - horizon : t - horizon + 1]
        resolve(model, x, y[t : t + 1], issue(model, x)[1])
        wide = issue(model, y[t : t + 1])[0]
        model._ahead = 1
        plain = model._told(list(passing.predicted(model, y[None, t : t + 1])))
        model._ahead = horizon
        count = t - horizon + 1
        factor = stats.t.ppf(0.95, max(count / horizon, 1.0)) / stats.norm.ppf(0.95)
        np.testing.assert_allclose(wide.upper - y[t], factor * (plain.upper - y[t]), rtol=1e-8)
        np.testing.assert_allclose(y[t] - wide.lower, factor * (y[t] - plain.lower), rtol=1e-8)
        np.testing.assert_allclose(wide.std, factor * plain.std, rtol=1e-8)


def test_intervals_cover_ahead_of_time_from_the_first_errors_on() -> None:
    horizon, first, later = 12, [], []
    for seed in range(6):
        y = random_walk(2000, seed)
        lower, upper = intervals_ahead(y, horizon)
        inside = (lower <= y) & (y <= upper)
        first.append(np.mean(inside[20 + horizon : 200 + horizon]))
        later.append(np.mean(inside[500:]))
    assert np.mean(first) > 0.85
    assert 0.88 < np.mean(later) < 0.92
    assert min(later) > 0.86


def test_a_copy_of_a_model_ahead_of_time_goes_on_bit_for_bit() -> None:
    y, none = random_walk(200, 3), np.empty((100, 0))
    model = sg.Ahead(sg.Calibrated(sg.Lagged(sg.SeasonalValue(1), lags=1)), horizon=5)
    model.learn_many(none, y[:100])
    twin = model.copy()
    for ours, theirs in zip(model.track(none, y[100:]).interval(), twin.track(none, y[100:]).interval(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(("fill", "row"), [(3.4e38, 0), (1e30, 0), (-9999.0, 3), (-9999.0, 20)])
def test_a_fill_value_among_the_first_targets_leaves_no_wide_intervals(fill, row):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = 2.0 + X[:, 0] + 0.1 * rng.normal(size=300)
    widths = []
    for value in (fill, np.nan):
        targets = y.copy()
        targets[row] = value
        model = sg.Calibrated(sg.Standardize(sg.KRLST(capacity=30)))
        lower, upper = model.track(X, targets).interval()
        widths.append(np.mean((upper - lower)[120:]))
        covered = np.mean((lower <= y) & (y <= upper), where=np.arange(300) >= 120)
        assert 0.85 <= covered <= 0.98
    assert widths[0] <= 1.25 * widths[1]  # 1e7 and 40 times as wide where bounds do not follow at once
