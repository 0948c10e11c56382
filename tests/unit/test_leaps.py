"""Leaps: broken readings of smooth streams, which lie near the range of the others."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.auto import leaps
from streamgp.contract.snapshot import SnapshotError
from tests.unit.test_outliers import streams

N = 3000


def doubted(y):
    Y = np.array(y, dtype=float)[:, None]
    return np.flatnonzero(np.isnan(leaps.doubted(leaps.begin(1), Y, Y)) & ~np.isnan(Y))


def smooth(n=N):
    t = np.arange(n)
    return (1.0 + t / n) * np.sin(t / 10.0)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_a_reading_near_the_range_of_a_smooth_stream_is_doubted_in_every_unit(scale):
    y = smooth()
    y[[700, 1500, 2200]] += [2.5, -2.5, 3.0]
    assert doubted(scale * (5.0 + y)).tolist() == [700, 1500, 2200]


@pytest.mark.parametrize("name", streams())
def test_few_rows_of_an_ordinary_stream_are_doubted(name):
    assert len(doubted(streams()[name])) <= 5


def test_nothing_is_doubted_within_the_range_nor_of_a_trend_nor_of_repeated_numbers():
    y = smooth()
    y[1000] = 0.0
    for one in (y, np.arange(N) ** 2.0, np.repeat([1.0, 2.0, 50.0], 1000), np.zeros(N), np.full(N, np.nan)):
        assert not len(doubted(one))


def test_the_second_leap_is_believed_right_after_the_first_and_near_it_else_the_third_within_a_few_rows():
    y = smooth()
    y[1000:] += 50.0
    assert doubted(y).tolist() == [1000]
    y = smooth()
    y[1000] += 50.0
    y[1003:] += 50.0
    assert doubted(y).tolist() == [1000, 1003]


def test_what_another_rule_doubts_counts_among_those_of_which_the_third_is_believed():
    Y = smooth()[:, None]
    Y[1000:] += 50.0
    believed = Y.copy()
    believed[[1000, 1001]] = np.nan
    state = leaps.begin(1)
    np.testing.assert_array_equal(leaps.doubted(state, Y, believed), believed)
    assert leaps.refused(state) == 0


def test_rows_in_pieces_are_judged_as_at_once_and_targets_stay_as_they_were():
    Y = np.column_stack([smooth(), smooth()[::-1]])
    Y[[900, 2000], 0] += 9.0
    Y[50, 1] = np.nan
    state, again, given = leaps.begin(2), leaps.begin(2), Y.copy()
    whole = leaps.doubted(state, Y, Y)
    pieces = [leaps.doubted(again, Y[t : t + 7], Y[t : t + 7]) for t in range(0, N, 7)]
    np.testing.assert_array_equal(whole, np.vstack(pieces))
    np.testing.assert_array_equal(state, again)
    np.testing.assert_array_equal(Y, given)
    assert leaps.refused(state) == 2


def test_a_state_that_no_targets_lead_to_is_refused():
    state = leaps.begin(1)
    state[0, leaps.COUNT] = -1.0
    with pytest.raises(SnapshotError, match="leaps"):
        leaps.check(state)
