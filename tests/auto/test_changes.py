"""A stream that changes: Auto notices and learns anew, and takes bursts of noise for none."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import streamgp as sg
from streamgp.auto import choosing


def auto(**settings):
    return sg.Auto(warmup=200, lags=0, candidates={"capacity": 30, "features": 20}, **settings)


def changing(n=900, at=500, seed=0):
    """From row ``at`` on another input decides."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 3))
    y = np.where(np.arange(n) < at, np.sin(2 * X[:, 0]), np.sin(2 * X[:, 1] + 1.0)) + 0.05 * rng.normal(size=n)
    return X, y


def error(p, y, rows):
    return float(np.sqrt(np.mean((p.mean - y)[rows] ** 2)))


def test_a_change_is_told_and_learned():
    X, y = changing()
    watching, fixed = auto(), auto(drift=False)
    said, without = watching.track(X, y), fixed.track(X, y)
    (row,) = watching.changes
    assert 500 < row < 530
    assert fixed.changes == []
    assert error(said, y, slice(600, None)) < 0.5 * error(without, y, slice(600, None))


@pytest.mark.parametrize("view", ["", " (change)"])
def test_after_an_alarm_one_that_forgets_is_built_beside_those_that_stayed(view):
    X, y = changing(250)
    model = auto(tune=False)
    model.learn_many(X, y)
    table = model._models[0]
    table.chosen = table.chosen._replace(names=[f"ISSGPR{view}"])
    assert choosing._base(table) == [f"ISSGPR{view}", f"KRLST{view}"]
    table.chosen = table.chosen._replace(names=[f"SOGP{view}, from row 201", f"KRLST{view}", f"SOGP{view}"])
    assert choosing._base(table) == [f"SOGP{view}", f"KRLST{view}"]


@pytest.mark.more
@pytest.mark.parametrize(("horizon", "stops"), [(0, (520, 620)), (2, (520,))])
def test_a_change_is_met_alike_however_rows_are_handed_over_and_wherever_it_is_saved(horizon, stops):
    X, y = changing(760)
    y[[3, 480, 510, 640]] = np.nan

    def make():
        model = auto(tune=False)
        return sg.Ahead(model, horizon=horizon) if horizon else model

    if horizon:  # the target's future is in the inputs
        X = np.roll(X, -horizon, axis=0)
    whole = make()
    expected = whole.track(X, y).mean
    assert len((whole.inner if horizon else whole).changes) == 1
    pieces, cuts = make(), [0, 7, 333, 505, 506, 600, 701, 760]
    said = [pieces.track(X[start:stop], y[start:stop]).mean for start, stop in pairwise(cuts)]
    np.testing.assert_allclose(np.concatenate(said), expected, rtol=1e-8)
    for stop in stops:
        first = make()
        first.learn_many(X[:stop], y[:stop])
        second = sg.from_bytes(first.to_bytes())
        np.testing.assert_array_equal(second.track(X[stop:], y[stop:]).mean, expected[stop:])
        assert second.to_bytes() == whole.to_bytes()


@pytest.mark.more
def test_a_change_soon_after_another_is_answered_too():
    X, y = changing(1200)
    y = np.where(np.arange(1200) < 650, y, np.cos(3 * X[:, 2]) + 0.05 * np.random.default_rng(1).normal(size=1200))
    model = auto()
    said = model.track(X, y)
    first, *_, last = model.changes
    assert [500 < first < 530, 650 < last < 700] == [True, True]
    assert error(said, y, slice(800, None)) < 0.2


@pytest.mark.more
@pytest.mark.parametrize("seed", [1, 2])
def test_bursts_of_noise_are_told_as_no_change(seed):
    rng = np.random.default_rng(seed)
    X, y = changing(700, at=700, seed=seed)
    for start in (400, 600):
        y[start : start + 15] += rng.normal(size=15)
    model = auto()
    model.learn_many(X, y)
    assert model.changes == []
