from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from streamgp.auto import tuned
from streamgp.job import Pipeline
from tests.job.test_pipeline import schema_of, taken


def rows(n=160, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, 2.0 * X[:, 0] + np.sin(3.0 * X[:, 1]) + 0.05 * rng.normal(size=n)


def test_a_model_that_is_asked_for_is_tuned_on_the_rows_in_standard_units():
    X, y = rows(100)
    model, again = (sg.Tuned(sg.SOGP(capacity=10, lengthscale=[1.4, 1.4]), drift=False, warmup=100) for _ in range(2))
    model.learn_many(100.0 * X + 7.0, 50.0 * y - 3.0)
    again.learn_many(X, y)
    inner, other = (m._within._within._pristine.get_params() for m in (model, again))
    assert inner["noise"] == pytest.approx(other["noise"], rel=1e-6)
    assert inner["noise"] < 0.1
    chosen = model.chosen
    assert (chosen.names, chosen.reason, chosen.scores) == (["SOGP"], "as requested", {})


def test_a_model_that_cannot_forget_goes_without_the_detection_of_drift():
    watching, stubborn, off = (
        Pipeline(schema_of(2), name, {"warmup": 20} | more)
        for name, more in (("KRLST", {}), ("QKLMS", {}), ("KRLST", {"drift": "off"}))
    )
    inner = [isinstance(one.model._within._within, sg.DriftAware) for one in (watching, stubborn, off)]
    assert inner == [True, False, False]
    assert [one.changes.on for one in (watching, stubborn, off)] == [True, True, False]


@pytest.mark.parametrize("noise", [0.1, 1e-6])
def test_targets_without_noise_are_followed_closely(noise):
    # Without bounds the evidence takes the variance to 1e6, and a noise that suits it is ten times that of the target.
    t = np.arange(200)
    settings = {"warmup": 100, "noise": noise, "drift": False, "forgetting": 1.0}
    lines = taken(Pipeline(schema_of(0), "KRLST", settings, 2, 1), np.empty((200, 0)), np.sin(0.3 * t))
    assert np.abs(lines["mean"] - lines["observed"])[150:].max() < 2e-3


def test_only_a_model_without_evidence_goes_untuned(monkeypatch):
    X, y = np.zeros((5, 1)), np.zeros(5)
    assert tuned.hyperparameters(sg.LWPR(), X, y) is None

    def broken(*_, **__):
        raise TypeError("a mistake of ours")

    monkeypatch.setattr(tuned, "fit_prefix", broken)
    with pytest.raises(TypeError, match="a mistake of ours"):
        tuned.hyperparameters(sg.SOGP(), X, y)


def test_a_fill_value_among_the_first_targets_does_not_reach_the_search():
    X, y = rows(60)
    y[3] = np.nan
    expected = sg.Tuned(sg.KRLST(capacity=8), warmup=40)
    expected.learn_many(X, y)
    y[3] = 3.4e38
    model = sg.Tuned(sg.KRLST(capacity=8), warmup=40)
    model.learn_many(X, y)
    assert model.health.fill_values == 1
    assert model.hyperparameters == expected.hyperparameters
    np.testing.assert_array_equal(model.predict_many(X).mean, expected.predict_many(X).mean)


def test_targets_that_come_late_are_learned_across_the_change_of_models_as_those_that_come_in_time():
    X, y = rows(120)
    late, timely, said = (
        sg.Delayed(sg.Tuned(sg.KRLST(capacity=12), warmup=60)),
        sg.Tuned(sg.KRLST(capacity=12), warmup=60),
        [],
    )
    for t in range(120):
        said.append(late.issue(X[t]).mean)
        if t >= 4:
            late.resolve(t - 4, y[t - 4])
    timely.learn_many(X[:116], y[:116])
    np.testing.assert_allclose(late.predict_many(X).mean, timely.predict_many(X).mean, rtol=1e-8, atol=1e-8)
    assert np.sqrt(np.mean((np.array(said) - y)[80:] ** 2)) < 0.5 * y.std()


@pytest.mark.parametrize("stop", [11, 14, 50, 62])
def test_rows_that_wait_when_a_model_is_saved_are_learned_by_the_one_that_was_loaded(stop):
    X, y = rows(100)

    def run(saved):
        model, said = sg.Delayed(sg.Tuned(sg.KRLST(capacity=8), warmup=60, tune=False)), []
        for t in range(100):
            said.append(model.issue(X[t]).mean)
            if t >= 3:
                model.resolve(t - 3, y[t - 3])
            if t == saved:
                model = sg.from_bytes(model.to_bytes())
        return said, model.to_bytes()

    assert run(stop) == run(-1)
