"""Targets that cannot be observations are told from those that can, whatever the stream."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgp.wrappers import outliers

N = 3000
FILL_VALUES = [-9999.0, 99999.0, 1e30, 9.97e36, 3.4e38, -1e308]


def refused(y):
    """Which targets are refused."""
    y = np.array(y, dtype=float).reshape(len(y), -1)
    left = outliers.screened(np.zeros((y.shape[1], outliers.NUMBERS)), y, False)
    return (np.isnan(left) & ~np.isnan(y))[:, 0]


def streams():
    rng = np.random.default_rng(0)
    t = np.arange(N)
    wet = rng.random(N) < 0.03
    return {
        "noise": rng.normal(size=N),
        "Student's, 2 degrees of freedom": rng.standard_t(2, size=N),
        "lognormal": np.exp(2.0 * rng.normal(size=N)),
        "random walk": np.cumsum(rng.normal(size=N)),
        "trend": 0.1 * t + rng.normal(size=N),
        "growth": np.exp(0.01 * t) * (1.0 + 0.1 * rng.normal(size=N)),
        "rain": np.where(wet, np.exp(1.5 * rng.normal(size=N)), 0.0),
        "a dry year, then a storm": np.where(t > 2900, 80.0 * rng.random(N), np.where(t % 100 == 0, 0.2, 0.0)),
        "counts with bursts": np.where(t % 500 < 3, 40.0, 0.0) + rng.poisson(1.0, size=N),
        "sun": np.maximum(np.sin(t / 4.0), 0.0) * rng.random(N),
        "on and off": np.where(t // 50 % 2, 0.0, 1000.0) + rng.normal(size=N),
        "growing waves": 1.01**t * np.sin(t / 5.0),
        "classes": rng.integers(0, 2, size=N).astype(float),
        "constant, then another": np.where(t < 1500, 20.0, 1e6),
        "constant up to rounding, then another": np.where(t < 1500, 20.0 * (1.0 + 1e-16 * rng.integers(0, 3, N)), 21.0),
    }


@pytest.mark.parametrize("name", streams())
def test_ordinary_streams_lose_nothing(name):
    assert not refused(streams()[name]).any()


@pytest.mark.parametrize("value", FILL_VALUES)
@pytest.mark.parametrize("share", [0.001, 0.2])
def test_fill_values_are_refused_however_often_they_come_and_nothing_else(value, share):
    rng = np.random.default_rng(1)
    y, filled = 20.0 + rng.normal(size=N), rng.random(N) < share
    y[filled] = value
    found = refused(y)
    assert not found[~filled].any()
    assert np.all(found[100:] == filled[100:])


@pytest.mark.parametrize("value", FILL_VALUES)
def test_a_fill_value_among_the_first_targets_does_not_let_later_ones_pass(value):
    y = np.random.default_rng(2).normal(size=200)
    y[[0, 3, 5, 150]] = value
    assert refused(y)[150]
    assert np.flatnonzero(np.isnan(outliers.without_fill_values(y[:, None], False)[:, 0])).tolist() == [0, 3, 5, 150]


def test_a_level_that_stays_is_learned_from_the_tenth_target_on():
    y = np.random.default_rng(3).normal(size=1000)
    y[500:] += 1e6
    assert np.flatnonzero(refused(y)).tolist() == list(range(500, 509))
    y[700:] -= 1e6  # the old level is still in the range
    assert np.flatnonzero(refused(y)).tolist() == list(range(500, 509))


def test_a_number_that_is_repeated_is_learned_after_a_hundred_unless_it_is_absurd():
    y = np.random.default_rng(4).normal(size=1000)
    y[500:800] = 1000.0
    assert np.flatnonzero(refused(y)).tolist() == list(range(500, 590))
    y[500:800] = 3.4e38
    assert np.flatnonzero(refused(y)).tolist() == list(range(500, 800))


def test_repeats_do_not_make_a_level_when_observations_come_between_them():
    y = np.random.default_rng(5).normal(size=3000)
    y[100::2] = -9999.0
    assert np.all(refused(y)[100::2])


@settings(max_examples=25, deadline=None)
@given(st.integers(-30, 30), st.integers(-8, 8), st.integers(0, 10_000))
def test_neither_units_nor_an_offset_matter(exponent, shift, seed):
    rng = np.random.default_rng(seed)
    y = np.round(rng.standard_t(3, size=400), 3)
    y[rng.integers(0, 400, size=5)] = -9999.0
    y[200:230] += rng.choice([0.0, 1e5])
    expected = refused(y)
    np.testing.assert_array_equal(refused(2.0**exponent * y), expected)
    np.testing.assert_array_equal(refused(y + 1024.0 * shift), expected)
    np.testing.assert_array_equal(refused(-y), expected)


def test_screening_in_pieces_is_screening_at_once():
    y = np.random.default_rng(6).standard_cauchy(size=(500, 2))
    y[[100, 300], [0, 1]] = 1e30
    state, again = np.zeros((2, outliers.NUMBERS)), np.zeros((2, outliers.NUMBERS))
    whole = outliers.screened(state, y, False)
    pieces = [outliers.screened(again, y[t : t + 1], False) for t in range(500)]
    np.testing.assert_array_equal(whole, np.vstack(pieces))
    np.testing.assert_array_equal(state, again)


def test_rows_whose_outputs_belong_together_lose_all_targets():
    y = np.random.default_rng(7).normal(size=(200, 2))
    y[150, 1] = 1e30
    for together in (False, True):
        left = outliers.screened(np.zeros((2, outliers.NUMBERS)), y, together)
        assert np.isnan(left[150]).tolist() == [together, True]


def doubted(y):
    """Which targets are doubted."""
    left = outliers.doubted(np.zeros((1, outliers.NUMBERS)), np.array(y, dtype=float)[:, None])
    return np.isnan(left[:, 0]) & ~np.isnan(y)


@pytest.mark.parametrize("name", streams())
def test_few_of_three_thousand_rows_of_an_ordinary_stream_are_doubted(name):
    assert doubted(streams()[name]).sum() <= 5


def test_single_broken_readings_are_doubted_and_nothing_else():
    rng = np.random.default_rng(3)
    y, rows = 20.0 + np.sin(np.arange(N) / 10.0), np.arange(300, N, 250)
    y += 0.1 * rng.normal(size=N)
    y[rows] += rng.choice([-1.0, 1.0], len(rows)) * 10.0 ** rng.uniform(1, 4, len(rows))
    assert np.flatnonzero(doubted(y)).tolist() == rows.tolist()


def test_the_third_row_of_a_new_level_is_believed():
    y = np.random.default_rng(4).normal(size=N)
    y[1000:] += 50.0
    assert np.flatnonzero(doubted(y)).tolist() == [1000, 1001]


def test_what_is_common_is_not_doubted_for_long():
    y = np.random.default_rng(5).normal(size=N)
    y[1000::20] += 50.0
    assert doubted(y).sum() < 40
