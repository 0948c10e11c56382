"""Every model of a fleet computes what it would alone, bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import streamgp as sg
from streamgp.contract.within import family
from streamgp.fleet import devices, workers
from streamgp.fleet.cpu import CpuEngine
from streamgp.fleet.each import EachEngine
from tests.fleet.plain_place import columns
from tests.fleet.recipes import OTHERS, RECIPES, TIMED, TOGETHER, D, dense
from tests.fleet.walk import SIZE, Walk
from tests.same import assert_close, assert_same


@pytest.mark.parametrize("name", ["Standardize", "Calibrated Standardize", "Standardize Calibrated"])
def test_a_fleet_screens_targets_as_its_models_do(name):
    rng = np.random.default_rng(2)
    fleet, models = sg.Fleet(RECIPES[name](), size=SIZE), [RECIPES[name]() for _ in range(SIZE)]
    X, Y = dense(rng, 80, SIZE)
    Y[[3, 60, 70], [0, 0, 2]] = 1e30
    kept = Y.copy()
    p = fleet.track(X, Y)
    np.testing.assert_array_equal(Y, kept)
    for i, model in enumerate(models):
        assert_same(p[:, i], model.track(X[:, i], Y[:, i]))
        assert fleet.model(i).to_bytes() == model.to_bytes()
    assert fleet.health.models.fill_values.tolist() == [model.health.fill_values for model in models] == [2, 0, 1, 0]
    assert (fleet.health.total.fill_values, fleet.health.total.repairs) == (3, 0)


def each_way(recipes):
    """With one output and with two in turn; a row's noise may not be that of two."""
    return [(name, (2,) if i % 2 and name not in TIMED else ()) for i, name in enumerate(recipes)]


def made(recipes, name, outputs):
    recipe = recipes[name]()
    if "outliers" in name and outputs:  # a covariance for each output
        recipe = recipe.replaced(**{f"{'model__' * isinstance(recipe, sg.Standardize)}outputs": "separate"})
    return recipe


def walk(fleet, recipe, name, outputs=(), **settings):
    timed = name in TIMED
    late = not timed and "batch" not in fleet.get_params()["model"].get_params()
    return Walk(fleet, recipe, outputs=outputs, late=late, timed=timed, width=0 if name == "TimeGP" else D, **settings)


@pytest.mark.parametrize(("name", "outputs"), each_way(RECIPES))
def test_a_fleet_is_the_loop_over_its_models(name, outputs, monkeypatch):
    monkeypatch.setattr(workers, "ROWS_PER_THREAD", 1)
    recipe = made(RECIPES, name, outputs)
    fleet = sg.Fleet(recipe, size=SIZE, threads=1 + 2 * (len(name) % 2), pending=100)
    assert isinstance(walk(fleet, recipe, name, outputs).go(3).fleet._engine, CpuEngine)


SLOW = "Auto", "Tuned"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.more if name in SLOW else ()) for name in OTHERS]
)
def test_a_fleet_of_any_model_is_the_loop_over_its_models(name):
    for outputs in ((), (2,)):
        recipe = OTHERS[name]()
        fleet = sg.Fleet(recipe, size=SIZE, threads=1, pending=100)
        late = name not in ("Delayed", "mean function")
        fleet = Walk(fleet, recipe, outputs=outputs, late=late, saved=name != "mean function").go().fleet
        assert isinstance(fleet._engine, CpuEngine if name in TOGETHER else EachEngine)


COMPILED = {name: recipe for name, recipe in RECIPES.items() if not [*family(recipe())][-1]._needs_cores} | {
    "KLMS": lambda: sg.filters.KLMS(capacity=8),
    "NORMA": lambda: sg.filters.NORMA(capacity=8),
    "LWPR": sg.LWPR,
    "LocalGP": sg.LocalGP,
    "Calibrated LWPR": lambda: sg.Calibrated(sg.LWPR(), warmup=5),
}


@pytest.mark.parametrize(("name", "outputs"), each_way(COMPILED))
def test_columns_of_a_gpu_are_the_loop_over_their_models(name, outputs, monkeypatch):
    monkeypatch.setattr(devices, "engine", columns)
    recipe = made(COMPILED, name, outputs)
    walk(sg.Fleet(recipe, size=SIZE, pending=100), recipe, name, outputs, same=assert_close).go()


@pytest.mark.parametrize("name", ["KRLST", "Calibrated Standardize"])
def test_the_number_of_threads_changes_nothing(name, monkeypatch):
    monkeypatch.setattr(workers, "ROWS_PER_THREAD", 1)
    fleets = [sg.Fleet(RECIPES[name](), size=9, threads=threads) for threads in (1, 2, 5, None)]
    for k in range(3):
        X, Y = dense(np.random.default_rng(k), 10, 9)
        first, *others = [fleet.track(X, Y) for fleet in fleets]
        for other in others:
            assert_same(first, other)
    first, *others = [[fleet.model(i).to_bytes() for i in range(9)] for fleet in fleets]
    assert all(other == first for other in others)


def test_rows_without_targets_advance_the_memory():
    recipe = sg.OIESGP(depth=3, capacity=5)
    fleet, model = sg.Fleet(recipe, size=2), recipe.clone()
    X, Y = dense(np.random.default_rng(0), 8, 2, (2,))
    fleet.track(X)
    fleet.track(X, Y)  # two outputs are known only now
    model.track(X[:, 1])
    model.track(X[:, 1], Y[:, 1])
    assert fleet.model(1).to_bytes() == model.to_bytes()


INTERPRETED = """
import numpy as np
import streamgp as sg
from tests.fleet.recipes import dense
wrapped = sg.Calibrated(sg.Standardize(sg.KRLST(capacity=4), warmup=5))
for recipe in (wrapped, sg.SOGP(capacity=4, adapt=sg.SNGD(interval=4))):
    fleet, model = sg.Fleet(recipe, size=2, threads=2), recipe.clone()
    X, Y = dense(np.random.default_rng(0), 12, 2)
    fleet.track(X, Y)
    model.track(X[:, 1], Y[:, 1])
    assert fleet.model(1).to_bytes() == model.to_bytes()
"""


@pytest.mark.more
@pytest.mark.interpreted
def test_a_fleet_runs_without_compilation():
    subprocess.run(
        [sys.executable, "-c", INTERPRETED],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        check=True,
    )
