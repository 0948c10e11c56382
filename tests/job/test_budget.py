"""Auto's budget: which members a time for each row pays for; and the search that they share."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from streamgp.auto.budget import LADDER, Budget, cost

import streamgp as sg
from streamgp.auto import search
from streamgp.auto.candidates import CANDIDATES, candidate
from streamgp.job import Pipeline
from streamgp.job.request import Request
from tests.job.test_pipeline import schema_of

WARMUP = 40


def settled(budget, n=4 * WARMUP, d=2):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    model = sg.Auto(budget=budget, warmup=WARMUP, tune=False, drift=False)
    model.learn_many(X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=n))
    return model


def processes(model):
    """Members that stayed, and the others."""
    names, members = model._shown.names, model._shown.committee._models
    chosen = [member for name, member in zip(names, members, strict=True) if name in model.chosen.names]
    return chosen, [member for name, member in zip(names, members, strict=True) if name not in model.chosen.names]


def test_a_budget_is_a_length_of_time_in_any_spelling():
    same = [Budget.of(value) for value in ("200us", "0.2ms", 0.0002, timedelta(microseconds=200))]
    assert all(budget == same[0] for budget in same)
    assert same[0].sizes == LADDER[200.0]
    assert Budget.of(None) == (np.inf, LADDER[1000.0])
    assert sg.Auto(budget="1ms").get_params()["budget"] == "1ms"
    assert "budget='1ms'" in repr(sg.Auto(budget="1ms"))


def test_processes_that_stay_cost_no_more_than_the_budget():
    for budget in ("60us", "200us"):
        model = settled(budget)
        stayed, others = processes(model)
        assert sum(map(cost, stayed)) <= Budget.of(budget).left(others) or len(stayed) == 1
    unlimited, _ = processes(settled(None))
    assert len(unlimited) == 4
    assert sum(map(cost, unlimited)) > sum(map(cost, stayed))


def test_the_table_knows_what_makes_a_row_dear():
    def price(name, d, least):
        model = candidate(name, d, {}, LADDER[least])
        model.learn_one(np.zeros(d), 0.0)
        return cost(model)

    for name in CANDIDATES:
        prices = [price(name, 8, least) for least in sorted(LADDER)]
        assert prices == sorted(prices)
        assert prices[0] < prices[-1]
    assert price("SOGP", 30, 200.0) > price("SOGP", 3, 200.0)  # one hyperparameter for each input


def test_a_model_with_a_budget_is_saved_and_continued_exactly():
    model = settled("150us", 2 * WARMUP)
    again = sg.from_bytes(model.to_bytes())
    assert again.get_params()["budget"] == "150us"
    X = np.random.default_rng(1).normal(size=(3 * WARMUP, 2))
    for one in (model, again):
        one.learn_many(X, X[:, 0])
    assert again.to_bytes() == model.to_bytes()


def test_a_run_hands_its_budget_to_auto_and_refuses_it_for_other_models():
    pipeline = Pipeline(schema_of(2), "auto", {"budget": "1ms"}, 0)
    assert pipeline.model.get_params()["budget"] == pytest.approx(1e-3)
    with pytest.raises(ValueError, match="`budget` is for auto"):
        Request("KRLST", {"budget": "1ms"})
    with pytest.raises(ValueError, match="budget must be a time for each row"):
        Request("auto", {"budget": "soon"})


def test_fourier_features_take_the_variance_and_the_noise_of_the_highest_evidence():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(30, 2)), rng.normal(size=(30, 1))
    features = sg.Fourier(8, lengthscale=[1.0, 2.0])
    distances = np.einsum("ijk,dk->ijd", X[:, None] - X, features.frequencies(2, 1))
    K = np.cos(distances).mean(axis=2)
    density = {
        (variance, noise): multivariate_normal(cov=variance * K + noise * np.eye(30)).logpdf(Y[:, 0])
        for variance in search.VARIANCES
        for noise in search.NOISES
    }
    *best, evidence = search._scales(features, X, Y)
    assert best == pytest.approx(max(density, key=density.__getitem__))
    assert evidence == pytest.approx(max(density.values()) + 15 * np.log(2 * np.pi))


def test_fourier_features_go_on_from_the_lengthscales_of_the_exact_process():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    found = search.exact(candidate("KRLST", 2, {}), None, X, np.sin(3 * X[:, 0]))
    lengths = search.tuned(candidate("ISSGPR", 2, {}, LADDER[200.0]), found).get_params()["lengthscale"]
    assert lengths[1] > 3 * lengths[0]
    given = candidate("ISSGPR", 2, {"frequencies": np.ones((5, 2))})
    assert search.tuned(given, found) is given


def test_a_later_search_goes_on_from_what_was_found():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.sin(3 * X[:, 0])
    start = candidate("KRLST", 2, {})
    first = search.exact(start, None, X, y)
    second = search.exact(start, search.tuned(start, first), X, y)
    assert second.maximum.value >= first.maximum.value
    assert search.exact(sg.LWPR(), None, X, y) is None  # the evidence says nothing of it
