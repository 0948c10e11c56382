"""Models are taken out of a fleet, put in, added and removed; and one thread at a time."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest

import streamgp as sg
from streamgp.fleet import cpu, workers
from tests.fleet.recipes import RECIPES, D, dense


def started(recipe=None, size=4, rows=30, seed=0):
    fleet = sg.Fleet(recipe or RECIPES["Calibrated Standardize"](), size=size)
    fleet.track(*dense(np.random.default_rng(seed), rows, size))
    return fleet


def states(fleet):
    return [fleet.model(i).to_bytes() for i in range(fleet.size)]


def test_a_model_taken_out_is_independent():
    fleet = started()
    before = fleet.to_bytes()
    model = fleet.model(1)
    model.learn_one(np.zeros(D), 5.0)
    assert fleet.to_bytes() == before
    fleet.replace(1, model)
    model.learn_one(np.zeros(D), 7.0)
    assert fleet.model(1).rows_seen == model.rows_seen - 1


def test_a_model_may_come_before_the_first_row_and_a_fresh_one_later():
    recipe = sg.KRLST(capacity=5)
    fleet, model = sg.Fleet(recipe, size=3), recipe.clone()
    model.learn_many(np.eye(D), [1.0, 2.0])
    fleet.replace(1, model)
    assert fleet.rows_seen.tolist() == [0, 2, 0]
    assert fleet.model(1).to_bytes() == model.to_bytes()
    fleet.replace(1, recipe)
    assert fleet.rows_seen.tolist() == [0, 0, 0]
    fleet.learn_many(np.ones((3, D)), np.ones(3))
    recipe.learn_one(np.ones(D), 1.0)
    assert set(states(fleet)) == {recipe.to_bytes()}


@pytest.mark.parametrize(
    "model", [sg.KRLST(capacity=9), sg.SOGP(capacity=5), sg.KRLST(sg.SquaredExponential([1.0, 2.0]), capacity=5), "no"]
)
def test_another_recipe_is_refused(model):
    fleet = started(sg.KRLST(capacity=5))
    with pytest.raises(ValueError, match="must have the settings of all: KRLST"):
        fleet.replace(0, model)


def test_a_model_of_other_rows_is_refused():
    fleet = started(sg.KRLST(capacity=5))
    wide, several = sg.KRLST(capacity=5), sg.KRLST(capacity=5)
    wide.learn_one([1.0, 2.0, 3.0], 1.0)
    several.learn_one([1.0, 2.0], [1.0, 2.0])
    before = fleet.to_bytes()
    for model, came in ((wide, "3 and 1"), (several, "2 and 2")):
        with pytest.raises(ValueError, match=f"2 inputs and 1 outputs; got a model with {came}"):
            fleet.replace(0, model)
    assert fleet.to_bytes() == before


def test_models_after_a_removed_one_move_up():
    fleet = started(size=6)
    before = states(fleet)
    fleet.remove([4, 1, 1])
    assert states(fleet) == [before[i] for i in (0, 2, 3, 5)]
    fleet.remove(0)
    assert states(fleet) == [before[i] for i in (2, 3, 5)]
    fleet.add(1)
    assert fleet.rows_seen.tolist() == [30, 30, 30, 0]


def test_an_empty_fleet_grows():
    fleet = sg.Fleet(sg.KRLST(capacity=3), size=0)
    assert fleet.predict_many(np.zeros((5, 0, D))).mean.shape == (5, 0)
    fleet.add(2)
    fleet.learn_many(np.eye(D), [1.0, 2.0], ids=[1, 1])
    assert fleet.rows_seen.tolist() == [0, 2]
    fleet.remove([0, 1])
    assert fleet.size == len(fleet) == 0
    assert sg.from_bytes(fleet.to_bytes()).size == 0


def test_copies_and_clones():
    fleet = started()
    for twin in (fleet.copy(), copy.copy(fleet), copy.deepcopy(fleet), pickle.loads(pickle.dumps(fleet))):
        assert twin.to_bytes() == fleet.to_bytes()
        twin.learn_many(np.zeros((4, D)), np.ones(4))
        assert twin.to_bytes() != fleet.to_bytes()
    assert fleet.clone().rows_seen.tolist() == [0] * 4
    fleet.remove(0)
    assert fleet.clone().size == 3


def test_settings_can_be_read():
    fleet = sg.Fleet(sg.KRLST(capacity=5), size=3, threads=1)
    fleet.learn_many(np.zeros((3, D)), np.ones(3))
    assert repr(fleet) == "Fleet(model=KRLST(capacity=5), size=3, threads=1)"
    params = fleet.get_params(deep=True)
    assert params["size"] == 3
    assert params["model__capacity"] == 5
    assert params["model"].rows_seen == 0


def test_the_recipe_handed_over_stays_the_callers():
    recipe = sg.KRLST(capacity=5)
    fleet = sg.Fleet(recipe, size=2)
    recipe.learn_one([1.0, 2.0], 3.0)
    assert fleet.rows_seen.tolist() == [0, 0]
    assert fleet.model(0).rows_seen == 0


def test_broken_models_are_found():
    fleet = started(sg.KRLST(capacity=5))
    model = fleet.model(2)
    model._state.mu[0] = np.nan
    fleet.replace(2, model)
    assert fleet.broken().tolist() == [2]


def test_a_second_thread_is_refused(monkeypatch):
    fleet = started(sg.KRLST(capacity=5))
    inside, done = threading.Event(), threading.Event()
    original = cpu.CpuEngine.run

    def slow(self, rows, kind):
        inside.set()
        done.wait(10)
        return original(self, rows, kind)

    monkeypatch.setattr(cpu.CpuEngine, "run", slow)
    first = threading.Thread(target=fleet.predict_many, args=(np.zeros((4, D)),))
    first.start()
    inside.wait(10)
    with pytest.raises(RuntimeError, match="this Fleet is in use by another thread"):
        fleet.learn_many(np.zeros((4, D)), np.zeros(4))
    assert fleet.size == 4
    done.set()
    first.join()
    fleet.learn_many(np.zeros((4, D)), np.zeros(4))


def test_a_forked_process_starts_threads_of_its_own(monkeypatch):
    monkeypatch.setattr(workers, "ROWS_PER_THREAD", 1)
    threads = started(sg.KRLST(capacity=5))._engine._workers
    pool = threads.pool()
    assert threads.pool() is pool
    threads._pool = (-1, pool)  # as a child finds it
    assert threads.pool() is not pool
