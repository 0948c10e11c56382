"""Auto is never worse than the obvious: what it says of streams that a few lines make."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from tests.job.test_tuned import rows


def small(warmup=100, **settings):
    return sg.Auto(warmup=warmup, tune=False, drift=False, candidates={"capacity": 10, "features": 10}, **settings)


def test_the_second_row_is_predicted_by_the_first_target():
    X, y = rows(20)
    for lags in (0, 3, None):
        said = small(lags=lags).track(X, 100.0 + y).mean
        assert said[1] == 100.0 + y[0]
        assert np.isfinite(said[1:]).all()


def test_the_first_interval_is_in_the_units_of_the_target():
    X, y = rows(3)
    widths = []
    for scale in (1e-3, 1.0, 1e6):
        lower, upper = small(lags=0).track(X, scale * (3.0 + y)).interval()
        widths.append((upper - lower)[1:] / scale)
    assert widths[0][0] == pytest.approx(2 * 1.6448536 * abs(3.0 + y[0]))
    np.testing.assert_allclose(widths, np.tile(widths[0], (3, 1)))


def test_a_seasonal_signal_is_followed_by_its_season_before_anything_is_learned():
    day = np.tile(np.random.default_rng(0).normal(size=24), 4)[:80]
    said = small(warmup=1000, seasons=[24]).track(np.zeros((80, 0)), day).mean
    assert np.sqrt(np.mean((said[60:] - day[60:]) ** 2)) < 0.1


@pytest.mark.parametrize("lags", [0, pytest.param(3, marks=pytest.mark.more)])
def test_a_slow_signal_is_predicted_as_well_as_by_its_previous_value(lags):
    rng = np.random.default_rng(0)
    y = 1e6 + np.cumsum(rng.normal(size=1500))
    said = small(lags=lags).track(rng.normal(size=(1500, 2)), y).mean
    error, previous = ((value[20:] - y[20:]) ** 2 for value in (said, np.r_[np.nan, y[:-1]]))
    assert np.sqrt(error.mean()) < 1.1 * np.sqrt(previous.mean())
    assert np.sqrt(error[480:].mean()) < 1.02 * np.sqrt(previous[480:].mean())


def test_after_a_step_of_a_short_stream_predictions_stay_near_its_range():
    """Members that learned eight inputs from ten rows would be tens of thousands away."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=25) + 1000.0 * (np.arange(25) >= 12)
    error = small(warmup=10).track(rng.normal(size=(25, 8)), y).mean - y
    assert np.sqrt(np.mean(error[12:] ** 2)) < 2.0 * y.std()


def test_a_long_memory_is_found():
    """An echo of 20 rows before, which no Gaussian process sees."""
    rng = np.random.default_rng(6)
    y = rng.normal(size=400)
    for t in range(20, 400):
        y[t] += 0.9 * y[t - 20]
    X = rng.normal(size=(400, 1))
    error = small().track(X, y).mean - y
    assert np.sqrt(np.mean(error[200:] ** 2)) < 0.6 * y[200:].std()


def test_a_large_offset_of_the_target_costs_nothing():
    X, y = rows(300)
    plain, high, low = (sg.Auto(warmup=100).track(X, y + offset).mean[50:] - offset for offset in (0.0, 1e5, -1e8))
    np.testing.assert_allclose(high, low, rtol=0, atol=1e-3 * np.std(y))
    errors = [np.sqrt(np.mean((mean - y[50:]) ** 2)) for mean in (plain, high, low)]
    assert max(errors) < 1.05 * errors[0]


@pytest.mark.parametrize("value", [0.0, 0.1, -1e9 / 3])
def test_a_constant_target_is_predicted(value):
    X, _ = rows(150)
    np.testing.assert_allclose(sg.Auto(warmup=100).track(X, np.full(150, value)).mean[1:], value, rtol=1e-12)


def test_many_inputs_that_say_nothing_cost_little_at_first():
    rng = np.random.default_rng(2)
    y = np.cumsum(rng.normal(size=100))
    error = small().track(rng.normal(size=(100, 38)), y).mean - y
    previous = np.r_[np.nan, y[:-1]] - y
    assert np.sqrt(np.mean(error[20:] ** 2)) < 1.15 * np.sqrt(np.mean(previous[20:] ** 2))


def test_a_plant_whose_last_input_still_counts_is_followed():
    X = np.random.default_rng(0).normal(size=(200, 2))
    y = X[:, 0] - 2.0 * np.r_[X[0, 0], X[:-1, 0]]
    error = small().track(X, y).mean - y
    assert np.sqrt(np.mean(error[100:] ** 2)) < 0.05


def test_targets_may_come_out_of_order():
    X, y = rows(200)
    model, tickets, errors = sg.Delayed(sg.Auto(warmup=100)), {}, []
    for i in range(200):
        tickets[i] = model.issue(X[i]).ticket
        if i % 5 == 4:
            errors += [y[j] - model.resolve(tickets.pop(j), y[j]).mean for j in (i, i - 2, i - 4, i - 1, i - 3)]
    assert np.std(errors[100:]) < 0.5 * np.std(y)


def test_what_is_no_length_of_time_is_refused_with_a_sentence():
    for bad in ("fast", "", "3 parsecs", 0, -1.0, np.nan, np.inf, True, [1]):
        with pytest.raises((TypeError, ValueError), match="budget must be a time for each row such as '200us'"):
            sg.Auto(budget=bad)


def test_what_the_experts_claim_stays_unknown_until_one_of_them_knows_a_scale():
    model = sg.Auto()
    p = model.track(np.zeros((3, 1)), np.array([1.0, 1.5, -0.5]))
    assert np.isfinite(p.std[1])  # the first target gives an interval
    assert np.isnan(p.raw.std[1])  # which is no claim that alarms should count
    assert np.isfinite(p.raw.std[2])
