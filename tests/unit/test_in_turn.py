"""Rows in turn: one is learned by its late target, another one is issued. Many at once beside one after the other."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import streamgp as sg
from streamgp.contract.model import StreamModel
from streamgp.recipes.naive import InputValue, RunningMean

MEMBERS = (
    lambda: sg.Standardize(sg.KRLST(capacity=8), warmup=10),
    lambda: sg.Standardize(sg.KRLST(capacity=8, adapt=sg.SNGD(interval=5)), warmup=10),
    lambda: sg.Differenced(sg.Columns(sg.Standardize(sg.KRLST(capacity=8), warmup=10), columns=[1]), column=0),
    lambda: sg.Standardize(sg.OnlineGP(sg.Linear(), form="cholesky"), warmup=10),
    lambda: sg.Standardize(sg.ISSGPR(features=5), warmup=10),
    lambda: InputValue(1),
    lambda: RunningMean(),
    lambda: sg.LWPR(),
)


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    Y = np.sin(2 * X[:, :1]) + 0.5 * X[:, 1:] + 0.1 * rng.normal(size=(n, 1))
    Y[rng.random(n) < 0.1] = np.nan
    return X, Y


def started(model, h):
    """A model that has learned some rows, the rows that wait, and what they keep."""
    X, Y = rows(80)
    model._expect_late(h, 0)
    model.learn_many(X, Y[:, 0])
    X, Y = rows(60, seed=1)
    issued = np.zeros((60, model._issued_width(1)))
    for t in range(h):
        issued[t] = model._issue(X[t : t + 1])[1][0]
    return model, X, Y, issued


@pytest.mark.parametrize("h", [1, 4, 30])
@pytest.mark.parametrize("rule", ["recent", "stacked"])
def test_many_rows_in_turn_are_as_one_after_the_other(rule, h):
    """The oracle is what every model does by itself: learn one, issue one."""

    def committee():
        return sg.Calibrated(sg.Committee([make() for make in MEMBERS], rule=rule, reach=3.0))

    model, X, Y, issued = started(committee(), h)
    assert model._may_take_turns()
    other, _, _, alone = started(committee(), h)
    n = len(X) - h
    for start, stop in itertools.pairwise([0, 1, 1 + n // 3, n]):  # one row, and blocks
        given = X[start:stop], Y[start:stop], X[h + start : h + stop]
        p = model._in_turn(*given, issued[start : h + stop])
        same = StreamModel._in_turn(other, *given, alone[start : h + stop])
        for part, expected in zip(p._listed(), same._listed(), strict=True):
            np.testing.assert_allclose(part, expected, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(issued, alone, rtol=1e-9, atol=1e-10)
    for (name, array), expected in zip(model._all_arrays().items(), other._all_arrays().values(), strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-7, atol=1e-9, err_msg=name)


def table(n=420, d=2, seed=3, missing=0.05):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.sin(np.arange(n) / 7) + X[:, :1].sum(axis=1) + 0.1 * rng.normal(size=n)
    y[rng.random(n) < missing] = np.nan
    if d:
        X[[110, 111, n - 120], 0] = 1e4  # broken readings
    y[[n - 140, n - 70]] = 1e3
    return X, y


def times(kind, n):
    rng = np.random.default_rng(0)
    return {
        "none": None,
        "regular": 100.0 + 2.0 * np.arange(n),
        "irregular": np.cumsum(rng.uniform(0.3, 3.0, n)),
        "gaps": 2.0 * np.sort(rng.choice(n + n // 4, n, replace=False)),
    }[kind]


CASES = [
    pytest.param(1, 2, (), "regular"),
    pytest.param(6, 2, (), "none"),
    pytest.param(6, 1, (6,), "irregular"),
    pytest.param(24, 0, (12, 24), "gaps"),
    pytest.param(1, 1, (), "none", marks=pytest.mark.more),
    pytest.param(2, 0, (), "none", marks=pytest.mark.more),
    pytest.param(6, 1, (24,), "regular", marks=pytest.mark.more),
    pytest.param(6, 1, (), "gaps", marks=pytest.mark.more),
]


@pytest.mark.parametrize(("horizon", "d", "seasons", "kind"), CASES)
def test_auto_ahead_of_time_is_the_same_in_blocks_and_row_by_row(horizon, d, seasons, kind):
    X, y = table(d=d)
    at = times(kind, len(y))
    auto = sg.Auto(warmup=120, seasons=seasons, candidates={"capacity": 12}, background=False)
    whole, single = (sg.Ahead(auto.clone(), horizon=horizon) for _ in range(2))
    p = whole.track(X, y, time=at)
    for t in range(len(y)):
        now = None if at is None else at[t]
        one = single.predict_one(X[t], time=now)
        np.testing.assert_allclose(
            [p.mean[t], p.lower[t], p.upper[t]], [one.mean, one.lower, one.upper], rtol=1e-7, atol=1e-8
        )
        single.learn_one(X[t], y[t], time=now)
    for (name, array), expected in zip(whole._all_arrays().items(), single._all_arrays().values(), strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-7, atol=1e-8, err_msg=name)


MODELS = {
    "KRLST": lambda: sg.KRLST(capacity=8),
    "above a mean": lambda: sg.OnlineGP(sg.Linear(), mean=0.7, form="cholesky"),
    "weights in the mean": lambda: sg.KRLST(capacity=8, mean=sg.LinearMean()),
    "adapting": lambda: sg.SOGP(capacity=8, adapt=sg.SNGD(interval=5)),
    "in standard units": lambda: sg.Standardize(sg.ISSGPR(features=10), warmup=20),
    "calibrated": lambda: sg.Calibrated(sg.Standardize(sg.KRLST(capacity=8), warmup=20)),
    "calibrated as it is": lambda: sg.Calibrated(sg.KRLST(capacity=8)),
    "lagged": lambda: sg.Lagged(sg.KRLST(capacity=8), lags=3),
    "calibrated with lags": lambda: sg.Calibrated(sg.Lagged(sg.Standardize(sg.KRLST(capacity=8), warmup=20), lags=2)),
    "lags in standard units": lambda: sg.Standardize(sg.Lagged(sg.KRLST(capacity=8), lags=2), warmup=20),
    "lags of lags": lambda: sg.Lagged(sg.Lagged(sg.KRLST(capacity=8), lags=2), lags=3),
    "a season ago": lambda: sg.SeasonalValue(3, ahead=7),
    "the mean": RunningMean,
    "a column": lambda: InputValue(1),
    "least squares": lambda: sg.Lagged(sg.Standardize(sg.OnlineGP(sg.Linear(), form="cholesky")), lags=9),
    "a reservoir": lambda: sg.OESGP(units=5, capacity=8),
    "over time": lambda: sg.KRLST(capacity=8, half_life=20.0),
}


ALONE = {"weights in the mean", "a reservoir", "over time"}


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("horizon", [2, 7])
@pytest.mark.parametrize("name", MODELS)
def test_rows_ahead_of_time_are_the_same_in_blocks_and_each_alone(name, horizon, outputs):
    X, Y = rows(300)
    Y, at = np.hstack([Y, Y * X[:, :1]])[:, :outputs], 3.0 * np.arange(300.0)
    Y[:4] = np.nan
    whole, single = (sg.Ahead(MODELS[name](), horizon=horizon) for _ in range(2))
    single._together, went_alone, take_alone = (lambda *_: (0, None)), [], whole._alone
    whole._alone = lambda *given: went_alone.append(1) or take_alone(*given)
    for model in (whole, single):
        model.learn_many(X[:120], Y[:120], time=at[:120])
    went_alone.clear()
    p, alone = (model.track(X[120:], Y[120:], time=at[120:]) for model in (whole, single))
    assert bool(went_alone) == (name in ALONE or (outputs > 1 and name.startswith("calibrated")))
    for said, expected in zip(_numbers(p), _numbers(alone), strict=True):
        np.testing.assert_allclose(said, expected, rtol=1e-9, atol=1e-9)
    for (part, array), expected in zip(whole._all_arrays().items(), single._all_arrays().values(), strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-7, atol=1e-9, err_msg=part)


def _numbers(p):
    return p.mean, p.variance, p.noise, *((p.lower, p.upper) if hasattr(p, "lower") else ())


def test_several_outputs_go_in_turn_each_of_its_own():
    X, y = table(240, missing=0.0)
    Y = np.column_stack([y, np.roll(y, 3)])
    auto = sg.Auto(warmup=100, candidates={"capacity": 8}, tune=False, background=False)
    both, first = (sg.Ahead(auto.clone(), horizon=3) for _ in range(2))
    np.testing.assert_allclose(both.track(X, Y).mean[:, 0], first.track(X, y).mean, rtol=1e-8, atol=1e-8)


def test_one_row_ahead_a_row_has_its_own_time_not_that_of_its_target():
    X, y = table(200, missing=0.0)
    auto = sg.Auto(warmup=100, candidates={"capacity": 8}, tune=False, background=False)
    timed, counted = (sg.Ahead(auto.clone(), horizon=1) for _ in range(2))
    p = timed.track(X, y, time=np.arange(200.0))  # the times that rows without any are given
    np.testing.assert_allclose(p.mean, counted.track(X, y).mean, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("model", [sg.KRLST(capacity=8), sg.Lagged(sg.KRLST(capacity=8), lags=2)])
def test_one_row_ahead_rows_are_learned_as_ever_by_the_targets_after(model):
    X, Y = rows(80)
    ahead = sg.Ahead(model, horizon=1)
    p = ahead.track(X, Y[:, 0])
    lagged = model.clone()
    if isinstance(model, sg.Lagged):  # the first target has no row before it, but it is a lag
        lagged._begin(X[:1], Y[:1], True, True, many=True)
        lagged._note_target(Y[0])
    np.testing.assert_allclose(p.mean[1:], lagged.track(X[:-1], Y[1:, 0]).mean, rtol=1e-10, atol=1e-12)


def test_a_target_that_no_row_waits_for_is_a_lag_in_standard_units():
    X, Y = rows(80)
    y = 1e4 + 50.0 * np.nan_to_num(Y[:, 0])
    model = sg.Ahead(sg.Standardize(sg.Lagged(sg.KRLST(capacity=8), lags=2), warmup=20), horizon=3)
    model.learn_many(X, y)
    model.reset_memory()
    model.learn_many(X[:2], y[:2])
    units = model.inner.scaling
    expected = (y[:2] - units.target_shift) / units.target_scale
    np.testing.assert_allclose(model.inner.inner._past[:, 0], expected, rtol=1e-12)
