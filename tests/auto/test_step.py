"""What a row sees, beside a definition in Python that looks up every number in a list of all targets."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streamgp.auto import step
from streamgp.auto.features import BLOCK, Layout, Past


def seen(layout, targets, x, before, tick, known, gap):
    """The features of one row after so many targets, where so many further rows are missing before it."""
    told = targets[:known]

    def of(back):
        """The target so many rows back, 1 the last; the last known one stands for those of missing rows."""
        back -= gap
        return told[-1] if back < 1 else told[max(len(told) - back, 0)]

    features = list(x)
    features += [of(1 + lag) if told else math.nan for lag in range(layout.past)]
    at = tick[0] + layout.ahead * tick[1]
    features.append(at)
    for back in layout.backs:
        back = back - max(layout.ahead, 1) + 1
        there = told and back - gap <= len(told)
        features.append(of(back) if there else features[layout.newest])
    for season in layout.seasons:
        turns = (at / (season * tick[1])) % 1.0
        for k in range(1, step.HARMONICS + 1):
            features += [math.sin(2 * math.pi * k * turns), math.cos(2 * math.pi * k * turns)]
    return features + ([] if layout.ahead else list(before))


@pytest.mark.parametrize(
    "layout",
    [
        Layout(0, 1, (), 0),
        Layout(2, 3, (4,), 0),
        Layout(1, 5, (3, 12), 0),
        Layout(2, 2, (4, 7), 6),
        Layout(1, 2, (5,), 1),
    ],
)
def test_rows_see_what_the_definition_says(layout):
    rng = np.random.default_rng(0)
    targets = rng.normal(size=2500)
    past = Past(layout, 30)  # the ring comes round twice
    assert len(past.told) < 1200
    start = 0
    for n in (0, 1, 2, 1, 40, BLOCK, BLOCK, BLOCK, 300):
        past.tell(targets[start : start + n])
        start += n
        rows = 7
        known = np.sort(np.maximum(start - rng.integers(0, 10, rows), 0))
        X, before = rng.normal(size=(2, rows, layout.own))
        gaps = rng.choice([0, 0, 1, 3, 50], rows)
        ticks = np.column_stack([np.cumsum(rng.uniform(1, 3, rows)), np.full(rows, 1.5), gaps])
        found = past.see(X, ticks, known, gaps, before)
        assert found.shape == (rows, layout.width)
        told = targets.tolist()
        expected = [seen(layout, told, X[t], before[t], ticks[t], int(known[t]), int(gaps[t])) for t in range(rows)]
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_ahead_of_time_the_targets_of_missing_rows_lie_on_a_line():
    past = Past(Layout(0, 6, (), 2), 10)
    past.tell(np.array([1.0, 2.0, 8.0]))
    past.bridge(2)
    none = np.zeros(1, dtype=np.int64)
    lags = past.see(np.empty((1, 0)), np.ones((1, 3)), past.known, none, past.x)[0, :6]
    np.testing.assert_allclose(lags, [8.0, 6.0, 4.0, 2.0, 1.0, 1.0])
