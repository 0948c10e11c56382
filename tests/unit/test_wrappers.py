"""What models around models have in common: orders of wrapping, tuning through them, adapters, scores."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import streamgp as sg
from streamgp import evaluate
from streamgp.tuning.tune import tune
from streamgp.wrappers.standardize import rows_until_settled
from tests.inside import Stopped

rng = np.random.default_rng(4)
X = np.column_stack([1000.0 + 50.0 * rng.normal(size=400), 0.01 * rng.normal(size=400)])
Y = 5e4 + 3e3 * np.sin((X[:, 0] - 1000.0) / 25.0) + 300.0 * rng.normal(size=400)


def recipe():
    return sg.SOGP(sg.SquaredExponential([1.0, 1.0]), capacity=30, noise=0.3)


@cache
def tuned_by_hand():
    # In the units of the first 150 rows.
    first, targets = X[:150], Y[:150]
    Z = (X[:300] - first.mean(0)) / first.std(0, ddof=1)
    y = (Y[:300] - targets.mean()) / targets.std(ddof=1)
    return tune(recipe(), Z, y).get_params()


@pytest.mark.parametrize(
    "wrap",
    [
        pytest.param(lambda m: sg.Standardize(m, warmup=150), marks=pytest.mark.more),
        pytest.param(lambda m: sg.Calibrated(sg.Standardize(m, warmup=150), level=0.8), marks=pytest.mark.more),
        lambda m: sg.Calibrated(sg.DriftAware(sg.Standardize(m, warmup=150), trial=50)),
    ],
    ids=["Standardize", "Calibrated", "all"],
)
def test_tune_reaches_the_model_within_in_the_units_that_it_will_see(wrap):
    model = tune(wrap(recipe()), X[:300], Y[:300])
    assert type(model) is type(wrap(recipe()))
    assert model.rows_seen == 0
    found, within = tuned_by_hand(), model
    while not isinstance(within, sg.SOGP):
        within = within.get_params()["model"]
    assert within.get_params()["noise"] == pytest.approx(found["noise"], rel=1e-6)
    lengthscales = within.get_params()["kernel"].get_params()["lengthscale"]
    np.testing.assert_allclose(lengthscales, found["kernel"].get_params()["lengthscale"], rtol=1e-4)
    assert model.get_params() != wrap(recipe()).get_params()
    model.learn_many(X, Y)


def test_tuned_within_standardize_it_predicts_better():
    plain, tuned = sg.Standardize(recipe()), tune(sg.Standardize(recipe()), X[:200], Y[:200])
    errors = [evaluate.rmse(Y[200:], model.track(X, Y).mean[200:]) for model in (plain, tuned)]
    assert errors[1] < 0.8 * errors[0]


def test_tuning_through_standardize_checks_rows_as_ever():
    bad = Y.copy()
    bad[7] = np.inf
    with pytest.raises(ValueError, match="Y has inf in row 7"):
        tune(sg.Standardize(recipe()), X, bad)
    with pytest.raises(ValueError, match="every row of Y misses a target"):
        tune(sg.Standardize(recipe()), X, Y * np.nan)
    with pytest.raises(TypeError, match="LWPR has neither a kernel nor Fourier features"):
        tune(sg.Calibrated(sg.Standardize(sg.LWPR())), X, Y)


def test_settings_reach_through_all_wrappers():
    model = sg.Calibrated(sg.DriftAware(sg.Standardize(sg.KRLST(capacity=10))))
    model.set_params(level=0.8, model__trial=20, model__model__warmup=50, model__model__model__capacity=7)
    model.learn_many(X, Y)
    assert model.size == 7
    assert model.inner.inner.inner.size == 7
    assert model.predict_one(X[0]).level == 0.8
    again = sg.from_bytes(model.to_bytes())
    assert again.to_bytes() == model.to_bytes()
    assert model.basis[:, 0] == pytest.approx(1000.0, abs=300.0)  # in the units of the inputs


def test_the_basis_of_a_reservoir_keeps_its_width_within_two_wrappers():
    model = sg.Standardize(sg.Calibrated(sg.OESGP(units=5, capacity=6)), warmup=20)
    model.learn_many(X, Y)
    assert model.basis.shape == (6, 7)
    assert model.basis[:, 5] == pytest.approx(1000.0, abs=300.0)


def test_regressors_of_other_libraries_take_them():
    pytest.importorskip("sklearn")
    pytest.importorskip("river")
    from streamgp.adapters import river, sklearn

    model = sg.Calibrated(sg.DriftAware(sg.Standardize(sg.KRLST(capacity=20))))
    native = model.clone()
    native.learn_many(X, Y)
    expected = native.predict_one(X[0])
    mean, std = sklearn.StreamRegressor(model).fit(X, Y).predict(X[:1], return_std=True)
    assert (mean[0], std[0]) == (expected.mean, expected.std)
    regressor = river.StreamRegressor(model)
    for x, y in zip(X, Y, strict=True):
        regressor.learn_one({"a": x[0], "b": x[1]}, y)
    said = regressor.predict_one({"a": X[0, 0], "b": X[0, 1]}, with_dist=True)
    assert said.mu == expected.mean
    assert said.sigma == pytest.approx(expected.std)


def test_prequential_scores_are_those_of_the_metrics():
    y = Y.copy()
    y[5::9] = np.nan
    scores = evaluate.prequential(sg.Standardize(sg.KRLST()), X, y, level=0.8, skip=100, window=50)
    p = sg.Standardize(sg.KRLST()).track(X, y)
    low, high = p.interval(0.8)
    np.testing.assert_array_equal(scores.prediction.mean, p.mean)
    assert scores.rows == np.sum(~np.isnan(y[100:]))
    assert scores.rmse == evaluate.rmse(y[100:], p.mean[100:])
    assert scores.nlpd == evaluate.nlpd(y[100:], p[100:])
    assert scores.coverage == evaluate.coverage(y[100:], low[100:], high[100:])
    assert scores.width == pytest.approx((high - low)[100:][~np.isnan(y[100:])].mean())
    assert scores.interval_score == evaluate.interval_score(y[100:], low[100:], high[100:], 0.8)
    assert len(scores.windows) == 300 - 50 + 1
    for start in (0, 17, 250):
        part = slice(100 + start, 150 + start)
        assert scores.windows[start] == pytest.approx(evaluate.coverage(y[part], low[part], high[part]))


def test_prequential_scores_of_two_outputs_and_of_models_without_a_variance():
    both = np.column_stack([Y, -Y])
    scores = evaluate.prequential(sg.Calibrated(sg.Standardize(sg.SOGP(capacity=20))), X, both, skip=100, window=100)
    p = scores.prediction
    assert scores.rows == 300
    assert scores.coverage == evaluate.coverage(both[100:], p.lower[100:], p.upper[100:])
    assert scores.windows[100] == evaluate.coverage(both[200:300], p.lower[200:300], p.upper[200:300])
    blind = evaluate.prequential(sg.Standardize(sg.filters.QKLMS()), X, Y, skip=100)
    assert np.isfinite(blind.rmse)
    assert np.isnan([blind.nlpd, blind.coverage, blind.width, blind.interval_score]).all()
    assert blind.windows.size == 0


def test_an_encoded_model_that_is_stopped_between_two_outputs_is_as_it_was():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(40, 3)), rng.normal(size=(40, 2))
    encoder = sg.TrainedEncoder("gru", inputs=3, depth=3, units=4, weights=0.3 * rng.normal(size=12 * 9))
    model = sg.Encoded(encoder, model=[sg.KRLST(capacity=8), Stopped()])
    model.learn_many(X[:4], Y[:4])
    before = model.to_bytes()
    with pytest.raises(KeyboardInterrupt):
        model.learn_many(X[4:], Y[4:])
    assert model.to_bytes() == before
    model.learn_many(X[4:8], Y[4:8])
    assert model.rows_seen == 8


@pytest.mark.parametrize("rows", [1, 3])
def test_a_target_that_one_output_refuses_is_learned_by_none(rows):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(10, 3)), rng.normal(size=(10, 2))
    encoder = sg.TrainedEncoder("gru", inputs=3, depth=3, units=4, weights=0.3 * rng.normal(size=12 * 9))
    model = sg.Encoded(encoder, model=[sg.KRLST(capacity=8), sg.KRLST(capacity=8)])
    model.learn_many(X, Y)
    before = model.to_bytes()
    Y[rows - 1, 1] = 1e200
    with pytest.raises(ValueError, match="beyond 1e\\+150"):
        model.learn_many(X[:rows], Y[:rows])
    assert model.to_bytes() == before


def test_a_late_target_that_one_output_refuses_is_learned_by_none():
    model = sg.Delayed(sg.Encoded(encoder(), model=[sg.KRLST(capacity=8), sg.KRLST(capacity=8)]))
    model.learn_many(np.eye(3), np.eye(3)[:, :2])
    model.issue([0.5, 0.0, 0.0])
    before = model.to_bytes()
    with pytest.raises(ValueError, match="beyond 1e\\+150"):
        model.resolve(3, [1.0, 1e200])
    assert model.to_bytes() == before


def test_late_targets_within_encoded_are_judged_by_what_was_predicted():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    # Of two rows that wait, the first is judged by what was predicted before the second was learned.
    late = sg.Delayed(sg.Encoded(encoder(), model=sg.Calibrated(sg.KRLST(capacity=8))))
    inner = sg.Delayed(sg.Calibrated(sg.Encoded(encoder(), model=sg.KRLST(capacity=8))))
    for model in (late, inner):
        for t in range(0, 60, 2):
            model.issue(X[t])
            model.issue(X[t + 1])
            model.resolve(t + 1, y[t + 1])
            model.resolve(t, y[t])
    np.testing.assert_allclose(late.predict_one(X[0]).upper, inner.predict_one(X[0]).upper, rtol=1e-9)


def encoder(inputs=3, seed=0):
    weights = 0.3 * np.random.default_rng(seed).normal(size=12 * (inputs + 6))
    return sg.TrainedEncoder("gru", inputs=inputs, depth=3, units=4, weights=weights)


def refused(_rows):
    raise ArithmeticError("no mean today")


@pytest.mark.parametrize(
    ("build", "error"),
    [
        (lambda: sg.Committee([sg.KRLST(capacity=8), Stopped()]), KeyboardInterrupt),
        (lambda: sg.Calibrated(sg.Standardize(Stopped())), KeyboardInterrupt),
        (lambda: sg.Encoded(encoder(), model=[sg.KRLST(capacity=8), Stopped()]), KeyboardInterrupt),
        (lambda: sg.RecursiveGP(np.eye(3), mean=refused), ArithmeticError),
        (lambda: sg.DriftAware(sg.RecursiveGP(np.eye(3), mean=refused)), ArithmeticError),
    ],
    ids=["Committee", "Calibrated", "Encoded", "RecursiveGP", "DriftAware"],
)
def test_a_first_call_that_raises_leaves_a_model_that_has_seen_nothing(build, error):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(40, 3)), rng.normal(size=(40, 2))
    model = build()
    before = model.to_bytes()
    for call in (model.learn_many, model.track):
        with pytest.raises(error):
            call(X, Y)
        assert model.to_bytes() == before


def test_a_first_target_whose_call_raises_leaves_a_model_that_has_seen_none():
    X, Y = np.random.default_rng(0).normal(size=(2, 40, 3))
    model = sg.Committee([sg.KRLST(capacity=8), Stopped()])
    model.observe_one(X[0])
    before = model.to_bytes()
    with pytest.raises(KeyboardInterrupt):
        model.learn_many(X, Y)
    assert model.to_bytes() == before
    model.learn_one(X[1], 2.0)  # the number of outputs is still open


def test_a_first_target_that_is_refused_leaves_a_model_that_has_seen_nothing():
    model = sg.Encoded(encoder(), model=sg.KRLST(capacity=8))
    before = model.to_bytes()
    with pytest.raises(ValueError, match="beyond 1e\\+150"):
        model.learn_one(np.ones(3), 1e200)
    assert model.to_bytes() == before


def test_models_within_forget_together_or_not_at_all():
    X, Y = np.random.default_rng(0).normal(size=(2, 20, 3))
    model = sg.Encoded(encoder(), model=[sg.KRLST(capacity=8), sg.filters.QKLMS(capacity=8)])
    model.learn_many(X, Y[:, :2])
    before = model.to_bytes()
    with pytest.raises(ValueError, match="QKLMS has no posterior that could fade"):
        model.forget(0.5)
    assert model.to_bytes() == before


def test_both_models_of_a_trial_forget():
    series = sg.data.channel_switch(560, switch=500, seed=1)
    model = sg.DriftAware(sg.KRLST())
    model.learn_many(series.X, series.Y)
    assert model.on_trial
    before, x = model.copy(), series.X[0]
    model.forget(0.01)
    for name in ("_within", "_shadow"):
        assert getattr(model, name).predict_one(x).variance > getattr(before, name).predict_one(x).variance


def test_a_batch_is_found_however_deep_it_lies():
    batches = sg.RecursiveGP(np.eye(2), batch=5)
    for within in (batches, sg.Standardize(batches), sg.Committee([sg.KRLST(), batches])):
        with pytest.raises(ValueError, match="DriftAware looks at every row before it is learned: use batch=1"):
            sg.DriftAware(within)


def test_embeddings_in_a_basis_have_no_units():
    X, Y = np.random.default_rng(0).normal(size=(2, 30, 3))
    model = sg.Standardize(sg.Encoded(encoder(), model=sg.KRLST(capacity=8)), warmup=10)
    model.learn_many(X, Y[:, 0])
    np.testing.assert_array_equal(model.basis, model.inner.basis)


def test_a_warm_up_behind_an_encoder_is_waited_for():
    model = sg.DriftAware(sg.Encoded(encoder(), model=sg.Standardize(sg.KRLST(capacity=8), warmup=20)), warmup=10)
    assert rows_until_settled(model) == 20


def test_an_encoder_takes_no_model_that_has_learned():
    learned = sg.KRLST()
    learned.learn_one(1.0, 2.0)
    for model in (learned, [sg.KRLST(), learned]):
        with pytest.raises(ValueError, match="because Encoded needs every row .* seen 1 rows"):
            sg.Encoded(encoder(), model=model)
