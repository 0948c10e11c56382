"""A fleet's prior: auto begins with its hyperparameters."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from streamgp.job import Pipeline
from tests.job.test_pipeline import schema_of, taken
from tests.job.test_tuned import rows

SMALL = {"capacity": 10, "features": 10, "warmup": 100, "drift": False}


def prior(lengthscale=(0.7, 3.0), noise=0.02):
    return sg.Prior({"lengthscale": [lengthscale], "noise": [[noise]]}, shares=[1.0], best=0)


def test_krlst_joins_with_the_hyperparameters_of_the_fleet_before_any_are_tuned():
    X, y = rows(40)
    model = sg.Auto(warmup=100, drift=False, candidates={"capacity": 10, "features": 10}, prior=prior())
    model.learn_many(X[:20], y[:20])
    early = {line.name: line.process for line in model._models[0].bank.lines}
    assert {name for name in early if name.startswith("KRLST")} == {
        f"KRLST{view}" for view in ("", " (lags)", " (change, lags)")
    }
    found = early["KRLST (lags)"].hyperparameters
    lengths = next(value for name, value in found.items() if name.endswith("lengthscale"))
    np.testing.assert_allclose(lengths, [0.7, 3.0, *[np.sqrt(5)] * 3])
    assert found["noise"] == pytest.approx(0.02)
    again = sg.from_bytes(model.to_bytes())
    again.learn_many(X[20:], y[20:])
    model.learn_many(X[20:], y[20:])
    assert again.to_bytes() == model.to_bytes()


def test_a_prior_that_does_not_fit_is_refused():
    X, y = rows(5)
    with pytest.raises(ValueError, match="prior has lengthscales of 3 inputs, but rows have 2"):
        sg.Auto(prior=prior((1.0, 1.0, 1.0))).learn_many(X, y)
    with pytest.raises(TypeError, match="prior must be, for example, Prior.load"):
        sg.Auto(prior="prior.safetensors")
    with pytest.raises(ValueError, match="SOGP takes no `prior`; KRLST and auto do"):
        Pipeline(schema_of(2), "SOGP", {"prior": prior()})


@pytest.mark.parametrize("model", ["auto", "KRLST"])
def test_a_run_with_a_prior_is_saved_and_continued(model):
    X, y = rows(60)
    settings = SMALL if model == "auto" else {"capacity": 10, "warmup": 100}
    whole = Pipeline(schema_of(2), model, settings | {"prior": prior((1.5,))}, 0)
    taken(whole, X[:30], y[:30])
    again = Pipeline.from_bytes(whole.to_bytes())
    taken(whole, X[30:], y[30:])
    taken(again, X[30:], y[30:])
    assert again.to_bytes() == whole.to_bytes()
