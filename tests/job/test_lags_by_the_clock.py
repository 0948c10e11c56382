"""Lags by the clock: rows that are missing, where times are regular, count as rows without a target."""

from __future__ import annotations

import numpy as np
import pytest
from streamgp.auto.past import Past

import streamgp as sg
from streamgp.auto import clock
from streamgp.contract.model import Shape
from tests.auto.test_times import HOUR, series


def missing_of(times):
    return clock.advanced(clock.begin(), np.asarray(times, float))[:, 2]


# Which rows are missing.


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


# What is seen in their place.


class Seen(sg.InputValue):
    """Keeps the rows that it gets."""

    rows: list[np.ndarray] = []  # noqa: RUF012

    def _issue(self, X, conditions=None):
        self.rows.append(X.copy())
        return super()._issue(X, conditions)


def test_ahead_of_time_missing_targets_lie_on_a_line_between_those_around_them():
    y, _, times = series(n=60, first=0)
    come = np.ones(60, dtype=bool)
    come[[30, 41, 42, 43, 44, 45, 46]] = False
    Seen.rows = []
    past = Past(Seen(0), lags=4, ahead=2)
    past._prepare(Shape(clock.TICK, 1, scalar=False, certain=True))
    ticks = clock.advanced(clock.begin(), times[come])
    for tick, value in zip(ticks, y[come], strict=True):
        past._note_target(np.array([value]))
        past._issue(tick[None])
        past.note_missing(int(tick[2]))
    whole = np.interp(times, times[come], y[come])
    for row, t in zip(Seen.rows, np.flatnonzero(come), strict=True):
        if t >= 3:
            np.testing.assert_allclose(row[0, :4], whole[t - 3 : t + 1][::-1], rtol=1e-12)
