"""Every model of a fleet computes what it would alone, bit for bit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streamgp as sg
from streamgp.fleet import devices, workers
from tests.fleet.plain_place import columns
from tests.fleet.recipes import RECIPES, D, dense, sparse

SIZE = 4


def assert_same(p, q):
    """Two predictions of one kind, bit for bit."""
    assert type(p) is type(q)
    assert p.law == q.law
    assert vars(p).keys() == vars(q).keys()
    for name, mine in vars(p).items():
        theirs = vars(q)[name]
        if isinstance(mine, sg.Prediction):
            assert_same(mine, theirs)
        else:
            np.testing.assert_array_equal(mine, theirs, err_msg=name)


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


def loop(models, ids, call):
    """What each model says of its own rows."""
    return {i: call(models[i], ids == i) for i in np.unique(ids).tolist()}


@pytest.mark.parametrize("outputs", [(), (2,)], ids=["one output", "two outputs"])
@pytest.mark.parametrize("name", RECIPES)
def test_a_fleet_is_the_loop_over_its_models(name, outputs, monkeypatch):
    monkeypatch.setattr(workers, "ROWS_PER_THREAD", 1)
    recipe = separate(RECIPES[name]()) if "outliers" in name and outputs else RECIPES[name]()
    assert_is_the_loop(sg.Fleet(recipe, size=SIZE, threads=1 + 2 * (len(name) % 2)), recipe, outputs)


COMPILED = {name: recipe for name, recipe in RECIPES.items() if not [*recipe()._family()][-1]._needs_cores} | {
    "KLMS": lambda: sg.filters.KLMS(capacity=8),
    "NORMA": lambda: sg.filters.NORMA(capacity=8),
    "LWPR": sg.LWPR,
    "LocalGP": sg.LocalGP,
    "Calibrated LWPR": lambda: sg.Calibrated(sg.LWPR(), warmup=5),
}


@pytest.mark.parametrize("outputs", [(), (2,)], ids=["one output", "two outputs"])
@pytest.mark.parametrize("name", COMPILED)
def test_columns_of_a_gpu_are_the_loop_over_their_models(name, outputs, monkeypatch):
    monkeypatch.setattr(devices, "engine", columns)
    recipe = separate(COMPILED[name]()) if "outliers" in name and outputs else COMPILED[name]()
    assert_is_the_loop(sg.Fleet(recipe, size=SIZE), recipe, outputs, assert_close)


def separate(recipe):
    """With a covariance for each output."""
    return recipe.replaced(**{f"{'model__' * isinstance(recipe, sg.Standardize)}outputs": "separate"})


def assert_close(p, q):
    """Two predictions of one kind, to rounding."""
    assert type(p) is type(q)
    for name in ("mean", "variance", "noise"):
        np.testing.assert_allclose(getattr(p, name), getattr(q, name), rtol=1e-9, atol=1e-12, err_msg=name)
    np.testing.assert_allclose(p.interval(), q.interval(), rtol=1e-9, atol=1e-12)


def assert_is_the_loop(fleet, recipe, outputs, assert_same=assert_same):
    rng = np.random.default_rng(1)
    models = [recipe.clone() for _ in range(SIZE)]
    for _ in range(3):
        X, Y = dense(rng, 11, SIZE, outputs)
        p = fleet.track(X, Y)
        for i, model in enumerate(models):
            assert_same(p[:, i], model.track(X[:, i], Y[:, i]))
        ids, X, Y = sparse(rng, 15, SIZE, outputs)
        p = fleet.predict_many(X, ids=ids)
        for i, q in loop(models, ids, lambda model, own: model.predict_many(X[own])).items():  # noqa: B023
            assert_same(p[ids == i], q)
        p = fleet.track(X, Y, ids=ids)
        for i, q in loop(models, ids, lambda model, own: model.track(X[own], Y[own])).items():  # noqa: B023
            assert_same(p[ids == i], q)
        X, Y = dense(rng, 1, SIZE, outputs)
        fleet.learn_many(X[0], Y[0])
        for i, model in enumerate(models):
            model.learn_one(X[0, i], Y[0, i])
    for i, model in enumerate(models):
        assert_same(fleet.model(i).predict_many(X[0]), model.predict_many(X[0]))
        assert assert_same is assert_close or fleet.model(i).to_bytes() == model.to_bytes()
    np.testing.assert_array_equal(fleet.rows_seen, [model.rows_seen for model in models])
    np.testing.assert_array_equal(fleet.health.models, np.transpose([model.health for model in models]))
    assert fleet.health.total.repairs == sum(model.health.repairs for model in models)
    assert len(fleet.broken()) == 0


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


@given(
    st.lists(
        st.tuples(st.sampled_from(["track", "learn_many", "predict_many"]), st.lists(st.integers(0, 3), max_size=6)),
        max_size=8,
    ),
    st.integers(0, 2**32 - 1),
)
def test_any_arrivals_are_those_of_the_models(calls, seed):
    rng = np.random.default_rng(seed)
    recipe = sg.Calibrated(sg.Standardize(sg.KRLST(capacity=3), warmup=4), warmup=2)
    fleet, models = sg.Fleet(recipe, size=SIZE), [recipe.clone() for _ in range(SIZE)]
    for call, ids in calls:
        X, Y = rng.normal(size=(len(ids), D)), rng.normal(size=len(ids))
        Y[rng.random(len(ids)) < 0.3] = np.nan
        p = getattr(fleet, call)(*((X,) if call == "predict_many" else (X, Y)), ids=ids)
        for i in set(ids):
            own = np.flatnonzero(np.array(ids) == i)
            rows = (X[own],) if call == "predict_many" else (X[own], Y[own])
            q = getattr(models[i], call)(*rows)
            if call != "learn_many" and fleet.rows_seen.any():
                np.testing.assert_array_equal(p.mean[own], q.mean)
                np.testing.assert_array_equal(p.lower[own], q.lower)
    for i, model in enumerate(models):
        if model.rows_seen:
            assert fleet.model(i).to_bytes() == model.to_bytes()


def test_before_the_first_row_predictions_are_the_priors():
    fleet, model = sg.Fleet(sg.KRLST(variance=2.0), size=3), sg.KRLST(variance=2.0)
    p = fleet.predict_many(np.zeros((2, 3, D)))
    assert p.mean.shape == (2, 3)
    np.testing.assert_array_equal(p.variance, model.predict_one(np.zeros(D)).variance)
    assert fleet.rows_seen.tolist() == [0, 0, 0]


def test_rows_without_targets_advance_the_memory():
    recipe = sg.OIESGP(depth=3, capacity=5)
    fleet, model = sg.Fleet(recipe, size=2), recipe.clone()
    X, Y = dense(np.random.default_rng(0), 8, 2, (2,))
    fleet.track(X)
    fleet.track(X, Y)  # two outputs are known only now
    model.track(X[:, 1])
    model.track(X[:, 1], Y[:, 1])
    assert fleet.model(1).to_bytes() == model.to_bytes()


@pytest.mark.parametrize("recipe", [sg.KRLST(capacity=5, half_life=3.0), sg.SOGP(capacity=5)], ids=["time", "no time"])
@pytest.mark.parametrize("wrap", [lambda model: model, lambda model: sg.Standardize(model, warmup=6)])
def test_noise_and_time_of_rows_reach_the_models(recipe, wrap):
    recipe = wrap(recipe)
    fleet, models = sg.Fleet(recipe, size=3), [recipe.clone() for _ in range(3)]
    rng = np.random.default_rng(2)
    for k in range(3):
        X, Y = dense(rng, 5, 3)
        noise, time = rng.uniform(0.01, 0.5, Y.shape), 10.0 * k + np.arange(5.0)
        p = fleet.track(X, Y, noise=noise, time=time)
        for i, model in enumerate(models):
            assert_same(p[:, i], model.track(X[:, i], Y[:, i], noise=noise[:, i], time=time))
        ids, X, Y = sparse(rng, 7, 3)
        fleet.learn_many(X, Y, ids=ids, noise=0.2, time=np.full(7, 10.0 * k + 6.0))
        for i, model in enumerate(models):
            own = ids == i
            model.learn_many(X[own], Y[own], noise=0.2, time=np.full(own.sum(), 10.0 * k + 6.0))
    assert [fleet.model(i).to_bytes() for i in range(3)] == [model.to_bytes() for model in models]


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
