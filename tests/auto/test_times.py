"""Rows with times: seasons are found by the clock, and rows that are missing count as rows without a target."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from tests.auto.test_predictions import small
from tests.streams import TIMES

HOUR = 3600.0


def hours(n=400, seed=0, missing=0.0):
    """Hours of which some have no row, one input, and a day that repeats itself."""
    rng = np.random.default_rng(seed)
    at = np.flatnonzero(rng.random(2 * n) >= missing)[:n]
    X = rng.normal(size=(n, 1))
    y = 5.0 * np.sin(2 * np.pi * at / 24) + 3.0 * np.cos(6 * np.pi * at / 24) + X[:, 0] + 0.1 * rng.normal(size=n)
    return X, y, 1.7e9 + HOUR * at


def test_a_row_is_predicted_at_any_time_at_which_it_is_learned():
    rng = np.random.default_rng(1)
    y, times = rng.normal(size=60), TIMES["back by some rows"](rng, 60)
    model = small()
    for t in range(60):
        assert np.isfinite(model.predict_one((), time=times[t]).mean)
        model.learn_one((), y[t], time=times[t])
    said, latest = (model.predict_one((), time=at).mean for at in (times[0], times.max()))
    assert said == latest  # a time before the last counts as the last
    with_kernel = sg.Auto(warmup=30, tune=False, candidates={"capacity": 8, "time": sg.Trend("1d")})
    with_kernel.learn_many(np.empty((60, 0)), y, time=np.sort(times))
    said, latest = (with_kernel.predict_one((), time=at).mean for at in (times[0], times.max()))
    assert said == latest


def test_a_day_is_followed_where_hours_are_missing():
    X, y, times = hours(missing=0.15)
    errors = []
    for given in (times, None):
        error = small(seasons=[24]).track(X, y, time=given).mean - y
        errors.append(np.sqrt(np.mean(error[150:] ** 2)))
    assert errors[0] < 0.2
    assert errors[0] < 0.5 * errors[1]


@pytest.mark.parametrize("late", [0, 3])
def test_rows_with_times_are_met_alike_row_by_row_at_once_and_after_loading(late):
    X, y, times = hours(160, missing=0.1)
    y[[70, 71, 130]] = np.nan
    for t in range(90, 110, 4):  # more rows are missing than past targets are kept
        times[t:] += 900 * HOUR
    models = [small(seasons=[24], trees=False) for _ in range(2)]
    whole, single = (sg.Ahead(model, horizon=late) if late else model for model in models)
    at_once = whole.track(X, y, time=times).mean
    one_by_one = []
    for t in range(160):
        one_by_one.append(single.predict_one(X[t], time=times[t]).mean)
        single.learn_one(X[t], y[t], time=times[t])
        if t in (85, 120):
            single = sg.from_bytes(single.to_bytes())
    np.testing.assert_allclose(one_by_one[late + 1 :], at_once[late + 1 :], rtol=1e-8)


def test_late_targets_are_learned_at_the_times_of_their_rows():
    X, y, times = hours(200)
    model, said = sg.Delayed(small(seasons=[24])), []
    for t in range(200):
        said.append(model.issue(X[t], time=times[t]).mean)
        if t >= 2:
            model.resolve(t - 2, y[t - 2])
    assert np.sqrt(np.mean((np.array(said) - y)[150:] ** 2)) < 0.3
    order = np.random.default_rng(0).permutation(np.arange(198, 200))
    for ticket in order.tolist():  # one comes before its own turn
        model.resolve(ticket, y[ticket])
    assert np.isfinite(model.predict_one(X[0], time=times[-1] + HOUR).mean)


def series(n=220, first=130, seed=0):
    """A series that its own past tells, and which rows of it have come: all of the first ones."""
    rng = np.random.default_rng(seed)
    y = 20.0 + np.sin(0.7 * np.arange(n)) + np.cos(0.31 * np.arange(n)) + 0.1 * rng.normal(size=n)
    come = rng.random(n) >= 0.25
    come[[first + 20, first + 21, first + 22, first + 23]] = False
    come[:first] = come[-1] = True
    return y, come, 1.7e9 + HOUR * np.arange(n)
