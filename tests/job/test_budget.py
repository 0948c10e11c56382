"""Auto's budget, as a run gives it, and what it decides."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

import streamgp as sg
from streamgp.auto.candidates import LARGEST, SIZES, sizes_of
from streamgp.job import Pipeline
from streamgp.job.request import Request
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


def test_a_run_hands_its_budget_to_auto_and_refuses_it_for_other_models():
    pipeline = Pipeline(schema_of(2), "auto", {"budget": "1ms"}, 0)
    assert pipeline.model.get_params()["budget"] == pytest.approx(1e-3)
    with pytest.raises(ValueError, match="`budget` is for auto"):
        Request("KRLST", {"budget": "1ms"})
    with pytest.raises(ValueError, match="budget must be a time for each row"):
        Request("auto", {"budget": "soon"})
