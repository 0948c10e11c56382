"""Broken readings: Auto takes readings far outside for missing ones, and believes a new level."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from tests.auto.test_predictions import small


def plant(n=400):
    """A slow signal that two inputs drive, one of them by its last value."""
    rng = np.random.default_rng(5)
    X = np.cumsum(rng.normal(size=(n, 2)), axis=0) / 10.0
    return X, 3.0 * X[:, 0] - X[:, 1] + 0.05 * rng.normal(size=n)


@pytest.mark.parametrize("ahead", [0, 3])
@pytest.mark.parametrize("what", ["target", "input"])
def test_a_broken_reading_costs_little_beyond_its_row(what, ahead):
    X, y = plant()
    broken, missed = np.arange(150, 400, 50), []
    for size in (0.0, 1e3):
        inputs, targets = X.copy(), y.copy()
        if what == "target":
            targets[broken] += size
        else:
            inputs[broken, 0] += size
        model = small()
        model = sg.Ahead(model, horizon=ahead) if ahead else model
        error = model.track(inputs, targets).mean - y
        error[broken + ahead] = 0.0
        missed.append(np.sqrt(np.mean(error[100:] ** 2)))
    assert missed[1] < 1.1 * missed[0]


def test_broken_readings_are_counted_and_a_new_level_is_learned():
    X, y = plant()
    y[200] = 1e3
    model = small()
    model.learn_many(X, y)
    assert model.health.fill_values == 1
    model.learn_many(X, y + 60.0)
    assert 3 <= model.health.fill_values <= 5
    assert abs(model.predict_one(X[-1]).mean - y[-1] - 60.0) < 5.0


@pytest.mark.parametrize("late", [False, True])
def test_broken_readings_are_met_alike_row_by_row_at_once_and_after_loading(late):
    X, y = plant(200)
    X[150, 1], y[[130, 170]] = -1e6, (np.nan, 1e5)
    whole, single = (sg.Ahead(small(), horizon=2) if late else small() for _ in range(2))
    at_once = whole.track(X, y).mean
    one_by_one = []
    for t in range(200):
        one_by_one.append(single.predict_one(X[t]).mean)
        single.learn_one(X[t], y[t])
        if t == 151:
            single = sg.from_bytes(single.to_bytes())
    np.testing.assert_allclose(one_by_one[3:], at_once[3:], rtol=1e-8)


def test_the_target_of_a_row_with_a_broken_input_is_a_lag():
    X, y = plant(200)
    X[150, 0] = 1e6
    said = []
    for change in (0.0, 0.3):
        model = small()
        model.learn_many(X[:150], y[:150])
        model.learn_one(X[150], y[150] + change)
        said.append(model.predict_one(X[151]).mean)
    assert said[0] != said[1]


def test_screening_can_be_switched_off():
    X, y = plant(200)
    y[150] = 1e3
    model = small(screen=False)
    model.learn_many(X, y)
    assert model.health.fill_values == 0
    with pytest.raises(ValueError, match=r"y has a number beyond 1e\+150, whose square would overflow"):
        model.learn_one(X[0], 1e308)


@pytest.mark.parametrize("row", [0, *(pytest.param(row, marks=pytest.mark.more) for row in (3, 7))])
def test_a_fill_value_among_the_first_targets_is_a_missing_one_as_soon_as_it_is_known(row):
    """-9999 is known for one at 64 targets, what lies absurdly far at 8, and what is beyond 1e150 at once."""
    X, y = plant(80)
    y[row] = np.nan
    expected = small(warmup=30)
    without = expected.track(X, y)
    for value, known in ((3.4e38, 8), (1e30, 8), (-9999.0, 64), (1e308, 0)):
        y[row] = value
        model = small(warmup=30)
        said = model.track(X, y)
        np.testing.assert_array_equal(said.mean[known:], without.mean[known:])
        np.testing.assert_array_equal(said.lower[known:], without.lower[known:])
        assert model.health.fill_values == expected.health.fill_values + 1
        if value == 1e30:
            single = small(warmup=30)
            for x, target in zip(X, y, strict=True):
                single.learn_one(x, target)
            assert single.to_bytes() == model.to_bytes()


def test_a_fill_value_of_one_output_is_struck_out_of_that_one():
    X, y = plant(20)
    Y = np.column_stack([y, 5.0 - y])
    Y[2, 1] = np.nan
    without = small(warmup=30).track(X, Y).mean
    Y[2, 1] = 1e30
    model = small(warmup=30)
    np.testing.assert_array_equal(model.track(X, Y).mean[8:], without[8:])
    assert model.health.fill_values == 1


def test_a_new_sequence_may_begin_anywhere():
    X, y = plant(120)
    models = [small(seasons=[12], warmup=40) for _ in range(2)]
    for model in models:
        model.learn_many(X, y)
        model.reset_memory()
    refused = models[0].health.fill_values
    models[0].learn_many(X[:5], 3.0 * np.ptp(y) + y[:5])
    assert models[0].health.fill_values <= refused + 2
    first = models[1].predict_one(X[0]).mean
    assert np.isfinite(first)
    assert models[1].copy().predict_one(X[0]).mean == first


def test_a_far_target_that_no_expert_explains_is_doubted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 20))
    y = 10.0 * X.sum(axis=1) + 0.1 * rng.normal(size=300)
    model = small(lags=0, trees=False)
    model.learn_many(X[:-1], y[:-1])
    before = model.health.fill_values
    model.learn_one(X[-1], 500.0)
    assert model.health.fill_values == before + 1
