"""Predictions that need no model, and views of the same rows: each against the sentence that describes it."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg

rng = np.random.default_rng(0)
X, Y = rng.normal(size=(60, 3)), rng.normal(size=(60, 2))


@pytest.mark.parametrize(("period", "ahead"), [(1, 1), (5, 1), (5, 3), (2, 5)])
def test_a_seasonal_value_is_the_last_known_one_of_its_season(period, ahead):
    y = Y[:, 0].copy()
    said = sg.SeasonalValue(period, ahead=ahead).track(X, y).mean
    for t in range(60):
        # Before row t the targets up to t - 1 are learned; the prediction is for row t - 1 + ahead.
        back = next(k for k in range(period, 100, period) if t - 1 + ahead - k <= t - 1)
        at = t - 1 + ahead - back
        assert np.isnan(said[t]) if at < 0 else said[t] == y[at]


def test_a_missing_target_is_that_of_the_season_before():
    y = np.array([1.0, 2.0, np.nan, 4.0, np.nan, 6.0])
    np.testing.assert_array_equal(sg.SeasonalValue(2).track(X[:6], y).mean, [np.nan, np.nan, 1.0, 2.0, 1.0, 4.0])


@pytest.mark.parametrize("forgetting", [1.0, 0.9])
def test_a_running_mean_is_the_weighted_mean_written_out(forgetting):
    y = Y[:, 0].copy()
    y[[3, 10]] = np.nan
    said = sg.RunningMean(forgetting).track(X, y).mean
    assert np.isnan(said[0])
    for t in range(1, 60):
        known = y[:t][~np.isnan(y[:t])]
        weights = forgetting ** np.arange(len(known))[::-1]
        assert said[t] == pytest.approx(np.sum(weights * known) / weights.sum(), abs=1e-12)


def test_an_input_value_is_that_of_its_column():
    np.testing.assert_array_equal(sg.InputValue(2).track(X, Y).mean, np.column_stack([X[:, 2], X[:, 2]]))


def test_columns_hand_on_some_of_the_inputs():
    p, q = sg.Columns(sg.KRLST(capacity=9), columns=[2, 0]).track(X, Y), sg.KRLST(capacity=9).track(X[:, [2, 0]], Y)
    np.testing.assert_array_equal(p.mean, q.mean)
    np.testing.assert_array_equal(p.variance, q.variance)
    model = sg.Columns(sg.SOGP(lengthscale=[1.0, 3.0]), columns=[2, 0])
    model.learn_many(X, Y)
    np.testing.assert_allclose(model.relevance().inputs, [0.25, 0.0, 0.75])


def test_a_differenced_model_learns_the_change_since_a_column():
    p = sg.Differenced(sg.SOGP(capacity=9), column=1).track(X, Y)
    q = sg.SOGP(capacity=9).track(X, Y - X[:, 1:2])
    np.testing.assert_allclose(p.mean, q.mean + X[:, 1:2], atol=1e-12)
    np.testing.assert_array_equal(p.variance, q.variance)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sg.SeasonalValue(0), "period must be a whole number of at least 1"),
        (lambda: sg.RunningMean(1.5), "forgetting must be a finite number above 0 and at most 1"),
        (lambda: sg.InputValue(3).predict_one(X[0]), "column is 3, but there are 3 columns, the first one 0"),
        (lambda: sg.Columns(sg.KRLST(), columns=[]), "columns is an empty list; name at least one column"),
        (lambda: sg.Columns(sg.KRLST(), columns=[3]).predict_one(X[0]), "columns has 3, but there are 3 columns"),
        (lambda: sg.Differenced(sg.KRLST(), column=5).predict_one(X[0]), "column is 5, but there are 3 columns"),
    ],
)
def test_bad_settings_get_a_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_members_of_a_committee_come_and_go():
    model = sg.Committee([sg.SeasonalValue(), sg.KRLST(capacity=9)], rule="stacked")
    model.learn_many(X[:30], Y[:30])
    newcomer = sg.SOGP(capacity=9)
    newcomer.learn_many(X[:30], Y[:30])
    model.add(newcomer)
    assert model.weights[2] <= model.weights[:2].max()
    model.learn_many(X[30:], Y[30:])
    assert sg.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()
    weights = model.weights
    model.replace(1, sg.RunningMean())
    np.testing.assert_array_equal(model.weights, weights)
    assert [type(one).__name__ for one in model.members] == ["SeasonalValue", "RunningMean", "SOGP"]
    model.retire(0)
    assert model.weights.shape == (2,)
    np.testing.assert_allclose(model.weights.sum(), 1.0)
    assert np.isfinite(model.track(X, Y).mean[1:]).all()
    for call, kind, message in (
        (lambda: model.retire(2), IndexError, "there is no member 2; the committee has 2"),
        (lambda: model.add("KRLST"), TypeError, "model must be a stream model"),
        (
            lambda: model.add(learned_on_one_column()),
            ValueError,
            "takes 1 inputs and 1 targets, but the committee 3 and 2",
        ),
        (lambda: sg.Committee([sg.KRLST()]).retire(0), ValueError, "a committee needs at least one member"),
        (
            lambda: sg.Committee([sg.KRLST()], rule="best"),
            ValueError,
            "rule must be one of 'recent', 'ml-poly', 'stacked'",
        ),
    ):
        with pytest.raises(kind, match=message):
            call()


def test_one_lucky_row_does_not_make_a_newcomer_the_leader():
    y = np.tile([0.0, 1.0], 100)
    model = sg.Committee([sg.SeasonalValue(2), sg.RunningMean()])
    model.learn_many(np.zeros(201), np.append(y, 0.0) + 0.01 * np.random.default_rng(0).normal(size=201))
    model.add(sg.InputValue())
    model.learn_one(1.0, 1.0)  # the newcomer happens to be right
    assert model.leader == 0
    assert model.weights[2] < 0.05


def test_a_factor_out_of_range_is_refused_although_nothing_fades():
    with pytest.raises(ValueError, match="factor must be a finite number above 0 and at most 1"):
        sg.RunningMean().forget(1.5)


def learned_on_one_column():
    model = sg.KRLST()
    model.learn_one(1.0, 2.0)
    return model
