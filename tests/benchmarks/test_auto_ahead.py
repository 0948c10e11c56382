"""The benchmark of auto ahead of time is fair, and its tables are those of its results; no rival runs."""

from __future__ import annotations

import numpy as np
import pytest

import auto
import auto_ahead


@pytest.fixture
def little():
    rng = np.random.default_rng(0)
    return auto.Stream(rng.normal(size=(900, 2)), rng.normal(size=900), (24,))


@pytest.mark.parametrize("horizon", [1, 6, 24, 30])
def test_nothing_is_known_of_rows_after_the_one_from_which_is_predicted(little, horizon):
    F, newest = auto_ahead.known_then(little, horizon)
    np.testing.assert_array_equal(newest[horizon:], little.y[:-horizon])
    np.testing.assert_array_equal(F[horizon:, :2], little.X[:-horizon])
    later = np.arange(900) >= 700
    changed = auto.Stream(little.X + later[:, None], little.y + later, little.seasons)
    again, _ = auto_ahead.known_then(changed, horizon)
    np.testing.assert_array_equal(F[: 700 + horizon], again[: 700 + horizon])
    assert np.any(F[700 + horizon] != again[700 + horizon])


def test_the_value_of_a_season_ago_is_known_when_it_is_used(little):
    for horizon, back in ((6, 24), (24, 24), (30, 48)):
        said = auto_ahead.by_value(little, horizon, 24).mean
        np.testing.assert_array_equal(said[back:], little.y[:-back])
        assert np.isnan(said[:horizon]).all()


@pytest.mark.parametrize("kind", auto_ahead.KINDS)
def test_as_many_rows_are_broken_as_the_page_says(little, kind):
    broken, rows = auto_ahead.planted(little, kind, 0)
    changed = np.flatnonzero((broken.X != little.X).any(axis=1) | (broken.y != little.y))
    assert changed.tolist() == rows.tolist()
    assert len(rows) == 12
    assert rows.min() >= 300


def test_tables_tell_who_was_better():
    scores = {"rmse": 2.0, "rmse after 500": 2.0, "coverage": 0.9, "coverage at first": 0.8}
    cell = {"stream": "kin40k", "horizon": 6, "auto": scores}
    cell |= {
        "experts": {"mean": scores | {"rmse after 500": 4.0}},
        "rivals": {"LightGBM, level": scores | {"rmse": 1.0}},
    }
    cells = {"kin40k; 6 ahead": cell, "silverbox; 6 ahead": cell | {"stream": "silverbox"}}
    results = {"cells": cells, "machine": "m", "versions": {}, "seed": 0}
    shown = auto_ahead.shown(results)
    assert "| kin40k * | 6 | mean | 0.50 | 1.00 | 1.00 | 2.00 | 80.0% | 90.0% |" in shown
    cells = [{"stream": "s", "broken": kind, "clean": 2.0, "with glitches": 2.02} for kind in auto_ahead.KINDS]
    assert "| targets | 1 | +1.0% | +1.0%, s |" in auto_ahead.shown_glitches(results | {"cells": cells})
