"""A stream goes on bit for bit wherever it is copied or saved, and a thread in the background changes no number."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import streamgp as sg
from tests.job.test_tuned import rows

N = 110
WAYS = [
    sg.StreamModel.copy,
    lambda model: pickle.loads(pickle.dumps(model)),
    lambda model: sg.from_bytes(model.to_bytes()),
]


def auto(**settings):
    return sg.Auto(warmup=100, lags=1, tune=False, candidates={"capacity": 8, "features": 8}, **settings)


def tuned(**settings):
    return sg.Tuned(sg.KRLST(capacity=8), warmup=100, **settings)


@pytest.fixture(scope="module")
def stream():
    return rows(N)


@pytest.fixture(scope="module", params=[auto, tuned])
def make(request):
    return request.param


@pytest.fixture(scope="module")
def expected(make, stream):
    """What is predicted of every row, and the state after all of them."""
    model = make()
    return model.track(*stream), model.to_bytes()


def assert_same(p, q):
    for name in ("mean", "variance", "noise", "lower", "upper"):
        np.testing.assert_array_equal(getattr(p, name), getattr(q, name))


@pytest.mark.parametrize("stops", [(18, 80, 97), pytest.param((25, 30, 100), marks=pytest.mark.more)])
def test_a_stream_goes_on_bit_for_bit_wherever_it_is_copied_or_saved(stops, make, stream, expected):
    X, y = stream
    prediction, state = expected
    model, start = make(), 0
    for stop, way in zip(stops, WAYS, strict=True):
        assert_same(model.track(X[start:stop], y[start:stop]), prediction[start:stop])
        assert way(model).to_bytes() == model.to_bytes()
        model, start = way(model), stop
    assert_same(model.track(X[start:], y[start:]), prediction[start:])
    assert model.to_bytes() == state


def test_a_thread_changes_no_number_nor_do_single_rows(make, stream, expected):
    X, y = stream
    assert_same(make(background=False).track(X, y), expected[0])
    model = make()
    for x, target, mean in zip(X, y.tolist(), expected[0].mean.tolist(), strict=True):
        assert model.predict_one(x).mean == pytest.approx(mean, rel=1e-9, abs=1e-9, nan_ok=True)
        model.learn_one(x, target)


def test_the_next_change_is_the_row_after_which_experts_are_built_or_join():
    X, y = rows(260)
    model, changes, before = auto(background=False, drift=False, trees=False), [], None
    announced = {model.next_change}
    for t in range(len(y)):
        model.learn_one(X[t], y[t])
        now = list(model.weights), model.chosen and model.chosen.names
        if before is not None and now != before:
            changes.append(t + 1)
        before = now
        announced.add(model.next_change)
        assert model.next_change > t + 1
    assert {20, 30, 100, 200} <= set(changes)
    assert set(changes) <= announced
