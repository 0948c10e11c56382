"""Intervals of Auto end where the range of the targets does, once enough of them are known."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from streamgp.auto.table import BOUNDED


@pytest.mark.parametrize("ahead", [0, pytest.param(4, marks=pytest.mark.more)])
def test_intervals_lie_within_the_range_of_the_targets_so_far_widened_by_a_tenth(ahead):
    rng = np.random.default_rng(3)
    n = BOUNDED + 100
    X = rng.normal(size=(n, 2))
    y = 5.0 + np.sin(X[:, 0]) + 0.5 * rng.standard_t(2, size=n)
    settings = {"warmup": 100, "tune": False, "drift": False, "screen": False, "trees": False}
    model = sg.Auto(candidates={"capacity": 10, "features": 10}, **settings)
    p = (sg.Ahead(model, horizon=ahead) if ahead else model).track(X, y)
    for t in range(BOUNDED + 2 * ahead + 1, n):
        seen = y[:t]
        margin = 0.1 * np.ptp(seen)
        assert p.lower[t] >= min(seen.min() - margin, p.mean[t]) - 1e-9
        assert p.upper[t] <= max(seen.max() + margin, p.mean[t]) + 1e-9
    assert (p.upper - p.lower)[BOUNDED + 2 * ahead + 1 :].min() > 0
