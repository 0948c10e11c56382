from __future__ import annotations

import numpy as np
import pytest

from streamgp.job.lags import Lags

NAN = np.nan


def test_lags_are_the_last_targets_newest_first():
    y = np.arange(10.0, 16.0)
    np.testing.assert_array_equal(
        Lags(3).columns(y), [[NAN] * 3, [10, 10, 10], [11, 10, 10], [12, 11, 10], [13, 12, 11], [14, 13, 12]]
    )
    np.testing.assert_array_equal(
        Lags(3, horizon=1).columns(y),
        [[10, 10, 10], [11, 10, 10], [12, 11, 10], [13, 12, 11], [14, 13, 12], [15, 14, 13]],
    )


def test_a_missing_target_is_bridged_in_the_lags():
    y = np.array([1.0, NAN, 3.0, 4.0])
    np.testing.assert_array_equal(Lags(2).columns(y)[1:], [[1, 1], [1, 1], [3, 1]])


def test_the_previous_value_of_a_horizon_is_the_one_known_then():
    lags = Lags(1, horizon=4)
    lags.columns(np.arange(10.0))
    np.testing.assert_array_equal(lags.previous, [NAN] * 4 + [0, 1, 2, 3, 4, 5])
    now = Lags(0)
    assert now.columns(np.array([1.0, NAN, 3.0])).shape == (3, 0)
    np.testing.assert_array_equal(now.previous, [NAN, 1, 1])


@pytest.mark.parametrize(("count", "horizon"), [(0, 0), (3, 0), (1, 1), (4, 2), (2, 6)])
def test_lags_do_not_depend_on_how_rows_are_cut_into_blocks(count, horizon):
    y = np.random.default_rng(0).normal(size=40)
    y[[0, 1, 7, 8, 30]] = NAN
    whole, cut = Lags(count, horizon), Lags(count, horizon)
    expected, parts, previous = whole.columns(y), [], []
    for block in np.split(y, [1, 2, 2, 9, 31]):
        parts.append(cut.columns(block))
        previous.append(cut.previous)
    np.testing.assert_array_equal(np.concatenate(parts), expected)
    np.testing.assert_array_equal(np.concatenate(previous), whole.previous)
    np.testing.assert_array_equal(cut.arrays()["targets"], whole.arrays()["targets"])
