"""Models that the compiled loop cannot hold are in a fleet what they are alone, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from tests.fleet.recipes import dense
from tests.fleet.walk import Walk

SIZE = 3


def test_rows_without_columns_and_before_the_first_target():
    fleet, model = sg.Fleet(sg.Lagged(sg.KRLST(capacity=5), lags=2), size=2), sg.Lagged(sg.KRLST(capacity=5), lags=2)
    Y = np.sin(np.arange(20.0)).reshape(10, 2)
    assert fleet.predict_many(np.empty((2, 0))).mean.tolist() == [0.0, 0.0]
    fleet.track(np.empty((3, 2, 0)))
    fleet.track(np.empty((10, 2, 0)), Y)
    model.track(np.empty((3, 0)))
    model.track(np.empty((10, 0)), Y[:, 1])
    assert fleet.model(1).to_bytes() == model.to_bytes()
    with pytest.raises(ValueError, match="model 0: x is empty"):
        sg.Fleet(sg.filters.KLMS(), size=2).track(np.empty((3, 2, 0)), np.ones((3, 2)))


def test_noise_and_time_reach_models_of_any_kind():
    recipe = sg.DriftAware(sg.KRLST(capacity=5, half_life=3.0), warmup=3)
    Walk(sg.Fleet(recipe, size=4), recipe, timed=True).go()
    fleet, (X, Y) = sg.Fleet(recipe, size=SIZE), dense(np.random.default_rng(2), 8, SIZE)
    fleet.learn_many(X, Y, time=np.arange(8.0))
    before = fleet.to_bytes()
    with pytest.raises(ValueError, match="model 1: time goes backwards: 3 after 7"):
        fleet.learn_many(X[0], np.ones(SIZE), time=[9.0, 3.0, 9.0])
    with pytest.raises(ValueError, match="model 0: KRLST has a half_life"):
        fleet.learn_many(X[0], np.ones(SIZE))
    assert fleet.to_bytes() == before
    with pytest.raises(ValueError, match="model 0: SeasonalValue cannot weigh a row by its noise"):
        sg.Fleet(sg.SeasonalValue(3), size=2).learn_many(X[:, :2], Y[:, :2], noise=0.1)


def test_one_model_that_fails_leaves_all_models_as_they_were(monkeypatch):
    fleet = sg.Fleet(sg.DriftAware(sg.SOGP(capacity=5), warmup=3), size=SIZE, pending=10)
    X, Y = dense(np.random.default_rng(6), 5, SIZE)
    fresh = fleet.to_bytes()
    original = sg.DriftAware._pass

    def failing(self, ops, X, Y, conditions, kept):
        if Y is not None and X[0, 0] == 99.0:
            raise ValueError("no memory left")
        return original(self, ops, X, Y, conditions, kept)

    monkeypatch.setattr(sg.DriftAware, "_pass", failing)
    bad = X.copy()
    bad[0, 2, 0] = 99.0
    with pytest.raises(ValueError, match="model 2: no memory left"):
        fleet.track(bad, Y)
    assert fleet.to_bytes() == fresh
    fleet.track(X, Y)
    tickets = fleet.issue(np.concatenate([X[0], bad[0, 2:]]), ids=[0, 1, 2, 2]).ticket
    before = fleet.to_bytes()
    with pytest.raises(ValueError, match="model 2: no memory left"):
        fleet.learn_many(bad, Y)
    with pytest.raises(ValueError, match="model 2: no memory left"):
        fleet.resolve(tickets, [1.0, 2.0, 3.0, 4.0])
    assert fleet.to_bytes() == before
    fleet.resolve(tickets[:3], [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("ends", lambda ends: ends[:-1], "does not hold 3 models one by one"),
        ("ends", lambda ends: ends[::-1], "do not lie one after the other"),
        ("models", lambda models: models[:-1], "do not lie one after the other"),
        ("models", lambda models: np.roll(models, 1), "not a streamgp snapshot, or it is cut short"),
    ],
)
def test_a_file_of_no_models_is_refused(name, change, reason, monkeypatch):
    fleet = sg.Fleet(sg.SeasonalValue(3), size=SIZE)
    fleet.track(*dense(np.random.default_rng(9), 9, SIZE))
    arrays = fleet._engine.arrays()
    arrays[name] = np.ascontiguousarray(change(arrays[name]))
    monkeypatch.setattr(fleet._engine, "arrays", lambda: arrays)
    with pytest.raises(sg.SnapshotError, match=reason):
        sg.from_bytes(fleet.to_bytes())


def test_ids_may_come_first():
    X, y, ids = np.ones((3, 2)), np.arange(3.0), [1, 0, 1]
    one, other = (sg.Fleet(sg.SOGP(capacity=4), size=2) for _ in range(2))
    np.testing.assert_array_equal(one.track(ids, X, y).mean, other.track(X, y, ids=ids).mean)
    one.learn_many(ids, X, y)
    other.learn_many(X, y, ids=ids)
    assert one.to_bytes() == other.to_bytes()
    with pytest.raises(TypeError, match="track takes X and Y, with ids= for some models only, or ids, X and Y; got 4"):
        one.track(ids, X, y, y)
    with pytest.raises(TypeError, match=r"learn_many needs targets: learn_many\(X, Y\)"):
        one.learn_many(X, ids=ids)
