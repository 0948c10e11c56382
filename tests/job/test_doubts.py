"""Broken readings stand alone; a new level is confirmed by the next row."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.auto import doubts, leaps
from streamgp.wrappers import outliers


def quiet(n=300, seed=0):
    return np.random.default_rng(seed).uniform(-1.0, 1.0, n)


def doubted_rows(y, cuts=()):
    """Rows that are doubted, by both rules, of a column that comes in parts."""
    states, wild, leaping = np.zeros((1, outliers.NUMBERS)), doubts.begin(1), leaps.begin(1)
    parts = np.split(y[:, None], cuts)
    left = [leaps.doubted(leaping, part, doubts.doubted(states, wild, part)) for part in parts]
    return np.flatnonzero(np.isnan(np.concatenate(left)[:, 0]) & ~np.isnan(y)).tolist()


@pytest.mark.parametrize("cuts", [(), (251,), (250, 252), tuple(range(1, 300))])
def test_a_single_reading_is_doubted_and_a_level_from_its_second_row_on_believed(cuts):
    single, level, smooth = quiet(), quiet(), np.sin(np.arange(300) / 50.0)
    single[250] = 100.0
    level[250:] += 50.0
    smooth[250:] += 3.0  # within the reach of the range, but a leap
    assert doubted_rows(single, cuts) == [250]
    assert doubted_rows(level, cuts) == [250]
    assert doubted_rows(smooth, cuts) == [250]


def test_neither_a_repeated_number_nor_one_on_the_other_side_confirms():
    repeated, both_sides, two = quiet(), quiet(), quiet()
    repeated[250:252] = -99.0
    both_sides[250:252] = 100.0, -100.0
    two[[250, 253]] = 100.0, 101.0
    assert doubted_rows(repeated) == doubted_rows(both_sides) == [250, 251]
    assert doubted_rows(two) == [250, 253]


def test_a_missing_number_between_two_changes_nothing():
    y = quiet()
    y[250:] += 50.0
    y[251:255] = np.nan
    assert doubted_rows(y) == [250]


def test_columns_are_doubted_each_by_itself():
    Y = np.column_stack([quiet(seed=1), quiet(seed=2), quiet(seed=3)])
    Y[250:, 0] += 50.0
    Y[251, 1] = 80.0
    states, wild = np.zeros((3, outliers.NUMBERS)), doubts.begin(3)
    found = np.argwhere(np.isnan(doubts.doubted(states, wild, Y))).tolist()
    assert found == [[250, 0], [251, 1]]
