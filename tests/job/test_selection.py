from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from streamgp.job import Pipeline
from streamgp.job.candidates import CANDIDATES
from streamgp.job.request import Request
from streamgp.job.selection import choose
from tests.job.test_pipeline import assert_same, schema_of, taken

SMALL = {"capacity": 10, "features": 10, "warmup": 100}


def rows(n=160, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, 2.0 * X[:, 0] + np.sin(3.0 * X[:, 1]) + 0.05 * rng.normal(size=n)


def test_the_three_with_the_smallest_errors_on_the_second_half_are_taken():
    X, y = rows(100)
    _, choice = choose(Request("auto", SMALL), X, y)
    assert set(choice.scores) == set(CANDIDATES)
    assert choice.names == sorted(choice.scores, key=choice.scores.__getitem__)[:3]
    assert choice.reason.startswith("lowest RMSE on rows 51 to 100: " + choice.names[0])
    untuned = Request("auto", SMALL | {"tune": False})
    _, choice = choose(untuned, X, y)
    for name, score in choice.scores.items():
        mean = sg.Standardize(untuned.build(name, 2), warmup=50).track(X, y).mean
        assert score == pytest.approx(np.sqrt(np.mean((mean - y)[50:] ** 2)), abs=1e-12)


def test_candidates_of_a_family_have_the_same_hyperparameters_found_once():
    X, y = rows(100)
    model, choice = choose(Request("auto", SMALL), X, y)
    members = dict(zip(choice.names, model._within._within._pristine.get_params()["models"], strict=True))
    kernels = {repr(members[name].get_params()["kernel"]) for name in members if "kernel" in members[name].get_params()}
    assert len(kernels) == 1
    assert "lengthscale=[1.4142" not in kernels.pop()


def test_a_model_that_is_asked_for_is_tuned_on_the_rows_in_standard_units():
    X, y = rows(100)
    model, choice = choose(Request("SOGP", {"capacity": 10, "drift": False}), 100.0 * X + 7.0, 50.0 * y - 3.0)
    again, _ = choose(Request("SOGP", {"capacity": 10, "drift": False}), X, y)
    inner, other = (m._within._pristine.get_params() for m in (model, again))
    assert inner["noise"] == pytest.approx(other["noise"], rel=1e-6)
    assert inner["noise"] < 0.1
    assert (choice.names, choice.reason, choice.scores) == (["SOGP"], "as requested", {})


def test_a_model_that_cannot_forget_goes_without_the_detection_of_drift():
    watching, stubborn = (Pipeline(schema_of(2), name, {"warmup": 20}) for name in ("KRLST", "QKLMS"))
    assert watching.watches_drift
    assert not stubborn.watches_drift
    assert not Pipeline(schema_of(2), "KRLST", {"drift": "off"}).watches_drift
    assert stubborn.drift == []


@pytest.mark.parametrize("horizon", [0, 3])
def test_a_committee_is_saved_and_continued_exactly(horizon):
    X, y = rows()
    whole = Pipeline(schema_of(2), "auto", SMALL, 1, horizon)
    expected = taken(whole, X, y)
    for stop in (30, 120):
        first = Pipeline(schema_of(2), "auto", SMALL, 1, horizon)
        before = taken(first, X[:stop], y[:stop])
        second = Pipeline.from_bytes(first.to_bytes())
        after = taken(second, X[stop:], y[stop:])
        assert_same(expected, {name: np.concatenate([before[name], after[name]]) for name in before})
        assert second.to_bytes() == whole.to_bytes()
    assert sum(whole.weights.values()) == pytest.approx(1.0)
    assert list(whole.weights) == whole.chosen.names


def test_a_change_is_noticed_and_told_with_the_number_of_its_row():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 2))
    y = np.where(np.arange(900) < 600, 1.0, -1.0) * X[:, 0] + 0.05 * rng.normal(size=900)
    for lags, horizon in ((0, 0), (2, 0), (0, 2)):
        pipeline = Pipeline(schema_of(2), "KRLST", {"capacity": 10, "warmup": 100, "tune": False}, lags, horizon)
        taken(pipeline, X, np.concatenate([np.zeros(horizon), y[: 900 - horizon]]))
        (first, told), *_ = [event for event in pipeline.drift if event[0] > 400]
        assert 600 + horizon < first < 620 + horizon
        assert told == "drift suspected, forgetting faster"


@pytest.mark.parametrize("noise", [0.1, 1e-6])
def test_targets_without_noise_are_followed_closely(noise):
    # Without bounds the evidence takes the variance to 1e6, and a noise that suits it is ten times that of the target.
    t = np.arange(200)
    settings = {"warmup": 100, "noise": noise, "drift": False, "forgetting": 1.0}
    lines = taken(Pipeline(schema_of(0), "KRLST", settings, 2, 1), np.empty((200, 0)), np.sin(0.3 * t))
    assert np.abs(lines["mean"] - lines["observed"])[150:].max() < 2e-3
