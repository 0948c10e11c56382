"""How far apart rows usually are: one wrong time stamp, a pause and repeated times do not move it."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.contract import spacing
from tests.inside import called


def kept(times):
    """What a stream keeps of these times."""
    state = np.zeros(spacing.NUMBERS)
    for gap in np.diff(times):
        spacing.note(state, gap)
    return state


def plainly(times):
    """Usual gap of the last twenty, and the time in which no gap of the last twenty is counted for over 100 of it."""
    gaps = [gap for gap in np.diff(times) if gap > 0]
    left = 0.0
    for at in range(spacing.GAPS, len(gaps)):
        ring = sorted(gaps[at - spacing.GAPS : at])
        left += min(gaps[at - spacing.GAPS], 100 * ring[len(ring) // 2])
    ring = sorted(gaps[-spacing.GAPS :])
    usual = ring[len(ring) // 2] if ring else 0.0
    return usual, left + sum(min(gap, 100 * usual) for gap in ring)


@pytest.mark.parametrize("n", [0, 1, 2, 7, 20, 21, 22, 100])
def test_a_stream_keeps_the_median_of_its_last_gaps(n):
    times = np.cumsum(np.random.default_rng(n).exponential(size=n))
    usual, elapsed = plainly(times)
    assert spacing.usual(kept(times)) == usual
    assert called(spacing.elapsed)(kept(times)) == pytest.approx(elapsed, rel=1e-12)


def test_regular_rows_last_as_long_as_they_do():
    state = kept(3600.0 * np.arange(1000))
    assert spacing.usual(state) == 3600.0
    assert called(spacing.elapsed)(state) == pytest.approx(3600.0 * 999)


@pytest.mark.parametrize("at", [1, 2, 500, 999])
def test_one_jump_of_54_years_counts_as_a_hundred_rows(at):
    times = 3600.0 * np.arange(1000)
    times[at:] += 54 * 365.25 * 86400
    state = kept(times)
    assert spacing.usual(state) == 3600.0
    assert called(spacing.elapsed)(state) == pytest.approx(3600.0 * (998 + spacing.LONGEST))
    assert spacing.usual_gap(times) == 3600.0


def test_repeated_times_say_nothing():
    times = np.repeat(60.0 * np.arange(50), 2)
    assert spacing.usual(kept(times)) == spacing.usual_gap(times) == 60.0
    assert spacing.usual(kept(np.ones(5))) == spacing.usual_gap(np.ones(5)) == spacing.usual_gap([]) == 0.0
