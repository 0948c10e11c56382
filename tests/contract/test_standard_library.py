"""Models survive what other libraries do to objects: deep copies, and bytes sent to another process."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import streamgp as sg
from tests.contract.models import EXAMPLES, parameters
from tests.contract.test_contract import assert_same, stream


@pytest.mark.parametrize("name", parameters(EXAMPLES))
def test_a_duplicate_goes_on_like_the_original_and_shares_nothing_with_it(name):
    X, Y = stream(2)
    for rows in (0, 15, 40):
        model = EXAMPLES[name]()
        model.learn_many(X[:rows], Y[:rows])
        before = model.to_bytes()
        twins = {"copy": copy.deepcopy(model), "bytes": pickle.loads(pickle.dumps(model))}
        for kind, twin in twins.items():
            assert twin.to_bytes() == before, (kind, rows)
            twin.learn_many(X[rows:], Y[rows:])
            assert model.to_bytes() == before, (kind, rows)
        model.learn_many(X[rows:], Y[rows:])
        for kind, twin in twins.items():
            assert twin.to_bytes() == model.to_bytes(), (kind, rows)
            assert_same(twin.predict_many(X), model.predict_many(X))


def slope(X):
    return 2.0 * X[:, 0]


def test_a_prior_mean_comes_along():
    model = sg.RecursiveGP([[0.0], [1.0]], mean=slope)
    model.learn_one(0.5, 3.0)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert twin.predict_one(0.3).mean == model.predict_one(0.3).mean
        assert twin.predict_one(100.0).mean == pytest.approx(200.0)


def test_parts_and_models_follow_the_protocol_by_which_scikit_learn_clones():
    kernel = sg.SquaredExponential([1.0, 2.0])
    assert kernel.__sklearn_clone__() is kernel
    model = sg.SOGP(kernel)
    model.learn_one(np.ones(2), 1.0)
    fresh = model.__sklearn_clone__()
    assert fresh.rows_seen == 0
    assert fresh.get_params() == model.get_params()
