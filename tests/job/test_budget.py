"""Auto's budget and its trees, as a run gives them, and what the budget decides."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

import streamgp as sg
from streamgp.auto import forest
from streamgp.auto.candidates import LARGEST, SIZES, sizes_of
from streamgp.job import Pipeline
from streamgp.job.request import Request
from streamgp.job.summary import introduced
from tests.job.test_pipeline import schema_of


def test_a_budget_is_a_length_of_time_in_any_spelling():
    same = [sizes_of(value) for value in ("200us", "0.2ms", 0.0002, timedelta(microseconds=200))]
    assert same == [SIZES[200e-6]] * 4
    assert sizes_of(None) == sizes_of("1ms") == LARGEST
    assert sizes_of("199us") == SIZES[0.0]


@pytest.mark.parametrize("budget", ["60us", "200us", None])
def test_as_many_processes_stay_as_the_budget_pays_for(budget):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(160, 2))
    y, most = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=160), sizes_of(budget).stay
    small = {"capacity": 8, "features": 8}
    model, stop = sg.Auto(budget=budget, warmup=40, tune=False, drift=False, candidates=small), 0
    for rows, stay in zip((40, 80, 160), most, strict=True):
        model.learn_many(X[stop:rows], y[stop:rows])
        assert len(model.chosen.names) == stay
        stop = rows
    kept = sg.from_bytes(model.to_bytes())
    assert kept.get_params()["budget"] == budget
    assert kept.chosen == model.chosen


def test_a_run_hands_its_budget_and_its_trees_to_auto_and_refuses_them_for_other_models(monkeypatch):
    pipeline = Pipeline(schema_of(2), "auto", {"budget": "1ms", "trees": "off"}, 0)
    given = pipeline.model.get_params()
    assert (given["budget"], given["trees"]) == (pytest.approx(1e-3), False)
    assert introduced(pipeline)[-1] == "No trees, because trees=False."
    again = Pipeline.from_bytes(pipeline.to_bytes())
    assert again.model.get_params()["trees"] is False
    default, why = Pipeline(schema_of(2), "auto", {}, 0), "No trees, because LightGBM is not installed; nothing helps."
    monkeypatch.setattr(forest, "_library", lambda: why)
    assert default.model.get_params()["trees"] is None
    assert introduced(default)[-1] == why
    for model, settings, message in (
        ("KRLST", {"budget": "1ms"}, "`budget` is for auto, which chooses its models by it; KRLST takes the time"),
        ("KRLST", {"trees": False}, "`trees` is for auto, which has them among its experts; KRLST is a model of"),
        ("auto", {"budget": "soon"}, "budget must be a time for each row"),
        ("auto", {"trees": True}, f"`trees`: {why}"),
        ("auto", {"trees": 3}, "trees must be True or False, or None; got 3|trees must be True or False; got 3"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            Request(model, settings)


@pytest.mark.skipif(bool(forest.without_trees()), reason=forest.without_trees())
def test_a_run_says_that_it_has_trees():
    for settings in ({}, {"trees": True}):
        told = introduced(Pipeline(schema_of(2), "auto", settings, 0))
        assert told[-1] == "trees: among the experts, trained by LightGBM"
