"""The clock: times follow each other, wrong ones are not believed, and gaps of regular times are missing rows."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.auto import clock
from streamgp.contract.spacing import usual_gap
from tests.auto.test_times import HOUR
from tests.streams import TIMES


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
    one_by_one = [clock.advanced(single, times[t : t + 1]) for t in range(60)]
    np.testing.assert_array_equal(at_once, np.vstack(one_by_one))
    np.testing.assert_array_equal(whole, single)
    assert (np.diff(at_once[:, 0]) >= 0).all()
    assert at_once[-1, 1] == expected


@pytest.mark.parametrize("wrong", [2.0**32, 1e300])
@pytest.mark.parametrize("later", [False, True])
def test_one_wrong_time_is_not_believed_and_a_long_pause_is_from_its_second_row_on(wrong, later):
    times = HOUR * np.arange(60.0)
    expected = times.copy()
    times[40] = wrong
    if later:
        times[40:] = wrong + HOUR * np.arange(20)
        expected[41:] = times[41:]
    ticks = clock.advanced(clock.begin(), times)
    np.testing.assert_array_equal(ticks[:, 0], expected)
    assert ticks[-1, 1] == HOUR


def test_a_time_that_goes_back_has_no_rows_missing_before_it():
    times = np.append(np.arange(60.0), [50.0, 60.0, 61.0])
    assert not missing_of(times).any()


def missing_of(times):
    return clock.advanced(clock.begin(), np.asarray(times, float))[:, 2]


def test_rows_are_missing_where_a_regular_clock_has_gaps():
    at = np.delete(np.arange(200), [60, 90, 91, 92])
    expected = np.zeros(196)
    expected[[60, 89]] = 1, 3
    np.testing.assert_array_equal(missing_of(1.7e9 + HOUR * at), expected)
    jitter = 0.1 * np.random.default_rng(0).uniform(-1, 1, 196)
    np.testing.assert_array_equal(missing_of(5e-3 * (at + jitter)), expected)


@pytest.mark.parametrize(
    "times",
    [
        np.cumsum(np.random.default_rng(0).exponential(size=500)),  # as events come
        np.repeat(np.delete(np.arange(100.0), [50, 51]), 5),  # several rows at a time
        np.append(np.arange(15.0), 40.0 + np.arange(30)),  # too early to know
        np.append(np.arange(100.0), [1e300, np.finfo(float).max]),
        np.append(np.arange(100.0), 104.5 + np.arange(100.0)),  # no whole number
    ],
)
def test_no_rows_are_missing_where_the_clock_is_not_regular(times):
    assert not missing_of(times).any()


def test_a_clock_that_is_not_regular_any_more_has_no_missing_rows():
    rng = np.random.default_rng(0)
    times = np.append(np.arange(100.0), 100.0 + np.cumsum(rng.exponential(3.0, size=300)))
    missing = missing_of(times)
    assert missing[:130].any()
    assert not missing[150:].any()
