"""A forest at the table of Auto: it joins when due, and goes on where LightGBM is not installed."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from streamgp.auto import forest
from streamgp.auto.choosing import LATER
from streamgp.auto.lines import TREES

FIRST, NEXT = forest.GROWING[:2]
needs_trees = pytest.mark.skipif(bool(forest.without_trees()), reason=forest.without_trees())


def auto(**settings):
    settings = {"warmup": 40, "tune": False, "drift": False, "candidates": {"capacity": 8, "features": 8}} | settings
    return sg.Auto(**settings)


def steps(n=FIRST + LATER + 90):
    """A target that only trees follow well."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, 2))
    return X, 3.0 * ((X[:, 0] > 0.2) ^ (X[:, 1] > -0.3)) + 0.05 * rng.normal(size=n)


@pytest.fixture
def no_library(monkeypatch):
    """LightGBM cannot be imported."""
    monkeypatch.setattr(forest, "_library", lambda: "No trees, because LightGBM is not installed; nothing helps.")


@needs_trees
def test_a_forest_joins_when_it_is_due_and_is_worth_it():
    X, y = steps()
    with_trees, without = auto(), auto(trees=False)
    said, plain = with_trees.track(X, y).mean, without.track(X, y).mean
    due = FIRST + LATER
    np.testing.assert_array_equal(said[:due], plain[:due])
    assert TREES in with_trees.weights
    assert TREES not in without.weights
    assert with_trees.without_trees == ""
    assert without.without_trees == "No trees, because trees=False."
    errors = [np.sqrt(np.mean((mean - y)[due + 10 :] ** 2)) for mean in (said, plain)]
    assert errors[0] < 0.8 * errors[1]


@needs_trees
@pytest.mark.parametrize("stop", [FIRST - 1, FIRST + 20, FIRST + LATER + 30])
def test_a_stream_with_a_forest_goes_on_bit_for_bit_where_it_was_saved(stop):
    X, y = steps()
    whole, first = auto(), auto()
    expected = whole.track(X, y).mean
    first.learn_many(X[:stop], y[:stop])
    again = sg.from_bytes(first.to_bytes())
    np.testing.assert_array_equal(again.track(X[stop:], y[stop:]).mean, expected[stop:])
    assert again.to_bytes() == whole.to_bytes()


@needs_trees
def test_a_forest_that_was_saved_goes_on_without_lightgbm_until_it_would_be_trained_anew(monkeypatch):
    X, y = steps(NEXT + LATER + 40)
    whole, first, stop = auto(), auto(), FIRST + LATER + 30
    expected = whole.track(X, y).mean
    first.learn_many(X[:stop], y[:stop])
    saved = first.to_bytes()
    monkeypatch.setattr(forest, "_library", lambda: "No trees.")
    again = sg.from_bytes(saved)
    said = again.track(X[stop:], y[stop:]).mean
    same = NEXT + LATER - stop
    np.testing.assert_array_equal(said[:same], expected[stop:][:same])
    assert np.isfinite(said).all()
    assert TREES in again.weights  # the old one stays


@pytest.mark.usefixtures("no_library")
def test_without_lightgbm_there_is_no_forest_and_one_that_is_asked_for_is_refused():
    with pytest.raises(ImportError, match="No trees, because LightGBM is not installed"):
        auto(trees=True)
    X, y = steps()
    model, other = auto(), auto(trees=False)
    X, y = X[:400], y[:400]
    np.testing.assert_array_equal(model.track(X, y).mean, other.track(X, y).mean)
    assert TREES not in model.weights
    assert model.without_trees.startswith("No trees, because LightGBM is not installed")
