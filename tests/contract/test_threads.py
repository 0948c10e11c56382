"""One thread at a time: a second caller is refused, and nobody ever gets wrong numbers."""

from __future__ import annotations

import copy
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest

import streamgp as sg
from tests.contract.models import EXAMPLES, parameters
from tests.contract.test_contract import state, stream
from tests.same import assert_same

IN_USE = r"is in use by another thread.*its own model.copy\(\)"


@pytest.fixture(params=parameters(EXAMPLES))
def build(request):
    return EXAMPLES[request.param]


@contextmanager
def held(within, call):
    """Another thread in the middle of a call, for as long as the block lasts; yields what the call will return."""
    reached, leave = threading.Event(), threading.Event()
    original = within._pass

    def waiting(*given):
        reached.set()
        assert leave.wait(60)
        return original(*given)

    within._pass = waiting
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(call)
        assert reached.wait(60)
        del within._pass
        try:
            yield future
        finally:
            leave.set()


def calls(model, X, Y):
    return {
        "predict_one": lambda: model.predict_one(X[0]),
        "predict_many": lambda: model.predict_many(X),
        "learn_one": lambda: model.learn_one(X[0], Y[0]),
        "learn_many": lambda: model.learn_many(X, Y),
        "observe_one": lambda: model.observe_one(X[0]),
        "track": lambda: model.track(X, Y),
        "simulate": lambda: model.simulate(X[:2], [0], trajectories=2),
        "forecast": lambda: model.forecast(2, X[:2, 1:], [0], trajectories=2),
        "reset_memory": lambda: model.reset_memory(),
        "forget": lambda: model.forget(0.9),
        "relevance": lambda: model.relevance(),
        "copy": lambda: model.copy(),
        "deepcopy": lambda: copy.deepcopy(model),
        "pickle": lambda: pickle.dumps(model),
        "to_bytes": lambda: model.to_bytes(),
        "set_params": lambda: model.set_params(),
        "basis": lambda: model.basis,
        "hyperparameters": lambda: model.hyperparameters,
        "last_change": lambda: model.last_change,
    }


def test_a_second_thread_is_refused_and_the_first_undisturbed(build, tmp_path):
    X, Y = stream(1)
    model = build()
    model.learn_many(X, Y)
    before, expected = state(model), model.predict_many(X)
    with held(model, lambda: model.predict_many(X)) as first:
        for name, call in calls(model, X, Y).items():
            with pytest.raises(RuntimeError, match=f"this {type(model).__name__} {IN_USE}"):
                pytest.fail(f"{name} was served: {call()!r}")
        with pytest.raises(RuntimeError, match=IN_USE):
            model.save(tmp_path / "model.sgp")
        # A display in another thread may follow what goes on.
        assert model.rows_seen == len(X)
        assert model.health.repairs >= 0
        assert model.clone().rows_seen == 0
    assert_same(first.result(), expected)
    assert state(model) == before
    assert not (tmp_path / "model.sgp").exists()
    assert_same(model.predict_many(X), expected)


@pytest.mark.parametrize("name", ["Calibrated", "DriftAware", "Committee", "Encoded"])
def test_a_wrapper_is_refused_while_the_model_within_works(name):
    X, Y = stream(1)
    model = EXAMPLES[name]()
    model.learn_many(X, Y)
    within = next(iter(model._children().values()))
    with held(within, lambda: model.predict_many(X)) as first, pytest.raises(RuntimeError, match=IN_USE):
        model.learn_one(X[0], Y[0])
    assert first.result().mean.shape == (len(X),)


def test_a_call_may_call_others_and_one_that_raises_lets_the_next_thread_in():
    X, Y = stream(1)
    model = sg.RecursiveGP(X[:5], mean=lambda rows: np.full(len(rows), float(model.rows_seen + model.basis.size)))
    model.learn_many(X, Y)  # the prior mean asks the model, within a call of it
    with pytest.raises(ValueError, match="x has NaN"):
        model.predict_one([np.nan] * 3)
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(model.predict_many, X).result()
    assert_same(other, model.predict_many(X))


@pytest.mark.parametrize("twin", ["copy", "deepcopy", "pickle", "snapshot"])
def test_copies_and_snapshots_are_in_nobodys_use(twin):
    X, Y = stream(1)
    model = sg.Calibrated(sg.SOGP(capacity=8))
    model.learn_many(X, Y)
    make = {
        "copy": model.copy,
        "deepcopy": lambda: copy.deepcopy(model),
        "pickle": lambda: pickle.loads(pickle.dumps(model)),
        "snapshot": lambda: sg.from_bytes(model.to_bytes()),
    }[twin]
    other = make()
    with held(model, lambda: model.predict_many(X)) as first:
        mine = other.predict_many(X)
        other.learn_many(X, Y)
    assert_same(first.result(), mine)


@pytest.mark.parametrize("name", ["SOGP", "QKLMS", "Standardize", "Calibrated committee"])
def test_threads_that_learn_count_every_row_once(name):
    X, Y = stream(1)
    model, alone = EXAMPLES[name](), EXAMPLES[name]()
    start = threading.Barrier(3)

    def work(_):
        start.wait()
        learned = 0
        for _ in range(100):
            try:
                model.learn_many(X[:5], Y[:5])
            except RuntimeError:
                continue
            learned += 1
        return learned

    with ThreadPoolExecutor(3) as pool:
        learned = sum(pool.map(work, range(3)))
    for _ in range(learned):
        alone.learn_many(X[:5], Y[:5])
    assert state(model) == state(alone)
