"""Auto by the clock: experts over time, seasons where rows are missing, logarithms, few rows for many inputs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import lognorm
from streamgp.auto.logarithm import Logarithm
from streamgp.auto.past import HARMONICS, Past
from streamgp.auto.timed import Timed

import streamgp as sg
from streamgp.auto import clock
from streamgp.auto.candidates import least_squares
from streamgp.contract.spacing import usual_gap
from tests.auto.test_predictions import small
from tests.auto.test_times import HOUR, hours
from tests.streams import TIMES

# The clock.


@pytest.mark.parametrize("kind", ["none", "all", "some", "back", "irregular"])
def test_times_follow_each_other_alike_at_once_and_one_by_one(kind):
    rng = np.random.default_rng(0)
    times = np.cumsum(rng.choice([2.0, 2.0, 2.0, 6.0], 60))
    if kind == "none":
        times[:] = np.nan
    elif kind == "some":
        times[rng.random(60) < 0.3] = np.nan
    elif kind == "back":
        times[[10, 40]] -= 30.0
    elif kind == "irregular":
        times = TIMES[kind](rng, 60)
    whole, single = clock.begin(), clock.begin()
    at_once = np.vstack([clock.advanced(whole, times[:25]), clock.advanced(whole, times[25:])])
    expected = {"none": 1.0, "irregular": usual_gap(times[:21])}.get(kind, 2.0)
    one_by_one = []
    for t in range(60):
        said = clock.next_of(single, times[t : t + 1])
        one_by_one.append(clock.advanced(single, times[t : t + 1]))
        np.testing.assert_array_equal(said, one_by_one[-1])
    np.testing.assert_array_equal(at_once, np.vstack(one_by_one))
    np.testing.assert_array_equal(whole, single)
    assert (np.diff(at_once[:, 0]) >= 0).all()
    assert at_once[-1, 1] == expected


def test_a_time_that_is_known_later_corrects_the_last_one():
    given, corrected = clock.begin(), clock.begin()
    for time in (10.0, 12.0, 15.0):
        clock.advanced(given, np.array([time]))
        clock.advanced(corrected, np.array([np.nan]))
        clock.correct(corrected, time)
    np.testing.assert_array_equal(given, corrected)


@pytest.mark.parametrize("wrong", [2.0**32, 1e300])
@pytest.mark.parametrize("later", [False, True])
def test_one_wrong_time_is_not_believed_and_a_long_pause_is_from_its_second_row_on(wrong, later):
    times = HOUR * np.arange(60.0)
    expected = times.copy()
    times[40] = wrong
    if later:
        times[40:] = wrong + HOUR * np.arange(20)
        expected[41:] = times[41:]
    given, corrected = clock.begin(), clock.begin()
    ticks = clock.advanced(given, times)
    np.testing.assert_array_equal(ticks[:, 0], expected)
    assert ticks[-1, 1] == HOUR
    for time in times:
        clock.advanced(corrected, np.array([np.nan]))
        clock.correct(corrected, time)
    np.testing.assert_array_equal(given, corrected)


class Seen(sg.InputValue):
    """Keeps the rows that it gets."""

    rows: list[np.ndarray] = []  # noqa: RUF012

    def _follow(self, X, Y):
        self.rows.append(X.copy())
        return super()._follow(X, Y)


@pytest.mark.parametrize("cuts", [(300,), (1, 2, 30, 111, 300)])
def test_the_value_of_a_season_before_is_found_by_its_time(cuts):
    X, y, times = hours(300, missing=0.1)
    y[[50, 120]] = np.nan
    Seen.rows = []
    model = Past(Seen(0), lags=2, seasons=[24])
    ticks = clock.advanced(clock.begin(), times)
    rows = np.hstack([X, ticks])
    for start, stop in zip((0, *cuts), cuts, strict=False):
        model.track(rows[start:stop], y[start:stop])
    seen = np.vstack(Seen.rows)
    assert seen.shape == (300, 1 + 2 + 1 + 1 + 2 * HARMONICS)
    np.testing.assert_array_equal(seen[:, 3], times)
    known = {time: value for time, value in zip(times, y, strict=True) if not np.isnan(value)}
    for t in range(100, 300):
        expected = known.get(times[t] - 24 * HOUR, known.get(times[t] - 48 * HOUR))
        if expected is not None:
            assert seen[t, 4] == expected
    angle = 2 * np.pi * times[:, None] / (24 * HOUR) * np.arange(1, HARMONICS + 1)
    np.testing.assert_allclose(seen[30:, 5:], np.hstack([np.sin(angle), np.cos(angle)])[30:], atol=1e-6)


@pytest.mark.parametrize("when", ["irregular", "nanoseconds"])
def test_a_row_finds_the_value_of_a_season_before_among_what_one_by_one_would_be_kept(when):
    rng = np.random.default_rng(0)
    times, y, seen = TIMES[when](rng, 200), rng.normal(size=200), []
    if when == "irregular":  # closer than at first: a season ago is further back than what is kept
        times = np.where(np.arange(200) < 60, np.arange(200.0), 60 + 0.3 * times)
    y[rng.random(200) < 0.1] = np.nan
    rows = clock.advanced(clock.begin(), times)
    for cuts in ((200,), range(1, 201)):
        Seen.rows, model = [], Past(Seen(0), lags=2, seasons=[24])
        for start, stop in zip((0, *cuts), cuts, strict=False):
            model.track(rows[start:stop], y[start:stop])
        seen.append(np.vstack(Seen.rows))
    np.testing.assert_array_equal(*seen)
    assert seen[0][0, 3] == 0.0  # before the first target there is none


# Models within.


def test_times_in_a_column_are_the_times_of_a_kernel():
    X, y, times = hours(100, missing=0.2)
    kernel = sg.Matern(1.5, lengthscale=5 * HOUR) + sg.Periodic(24 * HOUR)
    bare = sg.TimeGP(kernel, noise=0.1)
    expected = bare.track(np.empty((100, 0)), y, time=times)
    model = Timed(sg.TimeGP(kernel, noise=0.1), column=1)
    said = model.track(np.column_stack([X, times]), y)
    np.testing.assert_allclose(said.mean, expected.mean, atol=1e-10)
    np.testing.assert_allclose(said.variance, expected.variance, atol=1e-10)
    later = times[-1] + 7 * HOUR
    assert model.predict_one([0.0, later]).mean == bare.predict_one((), time=later).mean
    again = sg.from_bytes(model.to_bytes())
    assert again.predict_one([0.0, later]).mean == model.predict_one([0.0, later]).mean


def test_a_logarithm_comes_back_with_the_moments_of_its_distribution():
    X, y, _ = hours(60)
    y[7] = np.nan
    seen, targets = np.log(np.maximum(X, 0.5)), np.log(np.maximum(y, 0.5))
    within = least_squares(1.0)
    m = within.track(seen, targets).mean
    error = targets - m
    square = np.nanmean(error**2 * 0.99 ** -np.cumsum(~np.isnan(error)))
    square /= np.mean(0.99 ** -np.cumsum(~np.isnan(error))[~np.isnan(error)])
    for cuts in ((60,), (1, 10, 60)):
        model, parts = Logarithm(least_squares(1.0), columns=[0], least=0.5), []
        for start, stop in zip((0, *cuts), cuts, strict=False):
            parts.append(model.track(X[start:stop], y[start:stop]).mean)
        said = np.concatenate(parts)
        assert np.isnan(said[0])
        np.testing.assert_allclose(said[1], np.exp(m[1] + 0.5 * error[0] ** 2))
    p = model.predict_one([2.0])
    expected = lognorm(np.sqrt(square), scale=np.exp(within.predict_one([np.log(2.0)]).mean))
    np.testing.assert_allclose([p.mean, p.std], [expected.mean(), expected.std()], rtol=1e-10)
    again = sg.from_bytes(model.to_bytes())
    assert again.predict_one([2.0]).mean == p.mean
    with pytest.raises(ValueError, match="least must be a finite number above 0"):
        Logarithm(least_squares(1.0), least=0.0)


# Auto.


def test_lines_for_the_logarithm_compete_where_targets_are_skewed_only():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 2))
    y = np.exp(X[:, 0] + 0.5 * X[:, 1] + 0.1 * rng.normal(size=150))
    skewed, plain = small(), small()
    error = skewed.track(X, y).mean - y
    plain.track(X, X[:, 0])
    assert any("log" in name for name in skewed.weights)
    assert not any("log" in name for name in plain.weights)
    assert np.sqrt(np.mean(error[120:] ** 2)) < 0.5 * y[120:].std()
    skewed.learn_many(X[:5], [0.0, -1.0, np.nan, 1e9, 1.0])
    assert np.isfinite(skewed.predict_one(X[0]).mean)


def test_lines_for_the_logarithm_join_while_rows_wait_for_their_targets():
    rng = np.random.default_rng(3)
    level = 0.05 * np.cumsum(rng.normal(size=160))
    y = np.exp(level + 0.8 * np.sin(np.arange(160) / 3) + 0.05 * rng.normal(size=160))
    X = rng.normal(size=(160, 1))
    model = sg.Ahead(small(), horizon=4)
    p = model.track(X, y)
    assert np.sqrt(np.mean((p.mean - y)[100:] ** 2)) < y[100:].std()
    assert not any(one._issued_width(1) for one in model._within._shown.committee._models)
