"""A call is a list of operations: however it is cut, and whenever a target comes, numbers are the same."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from streamgp.contract.lanes import (
    ISSUE,
    LEARN,
    ONE,
    PREDICT,
    SCREEN,
    TAKE,
    TELL,
    TRACK,
    listed,
    predicted_too,
    with_kinds,
)
from streamgp.contract.saved import Shape
from streamgp.contract.within import all_arrays
from streamgp.recipes.naive import InputValue, RunningMean


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    Y = np.sin(2 * X[:, :1]) + 0.5 * X[:, 1:] + 0.1 * rng.normal(size=(n, 1))
    Y[rng.random(n) < 0.1] = np.nan
    return X, Y


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
    "a window": lambda: sg.KRLST(capacity=8, depth=3),
    "a reservoir": lambda: sg.OESGP(units=5, capacity=8, feedback=0.3),
    "over time": lambda: sg.KRLST(capacity=8, half_life=20.0),
    "watched for drift": lambda: sg.DriftAware(sg.KRLST(capacity=8), false_alarm_rate=0.3, trial=5, warmup=4),
    "judged": lambda: sg.Alarms(sg.KRLST(capacity=8), rate=0.1, warmup=10),
    "a committee": lambda: sg.Committee(
        [sg.KRLST(capacity=8), sg.Lagged(sg.ISSGPR(features=5), lags=2), InputValue(1)], rule="stacked", reach=3.0
    ),
}


def _numbers(p):
    return p.mean, p.variance, p.noise, *((p.lower, p.upper) if hasattr(p, "lower") else ())


@pytest.mark.parametrize("name", [name for name in MODELS if name != "over time"])
def test_a_target_that_comes_before_the_next_row_is_learned_as_ever(name):
    """The oracle is to predict, advance and learn in one operation."""
    X, Y = rows(60)
    at_once, later = (started(MODELS[name](), X, Y[:30]) for _ in range(2))
    for t in range(30, 60):
        x, y, line = X[t : t + 1], Y[t : t + 1], np.full((1, later._kept_width), np.nan)
        expected = at_once._pass(ONE[TRACK], x, y.copy(), None, None)
        said = later._pass(ONE[ISSUE], x, None, None, line)
        later._pass(ONE[LEARN], x, y.copy(), None, line)
        np.testing.assert_allclose(said[:3], expected[:3], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "over time"])
def test_a_list_is_done_as_its_operations_one_after_the_other(name):
    X, Y = rows(90)
    together, alone = (started(MODELS[name](), X, Y[:30]) for _ in range(2))
    rng, ops, waiting = np.random.default_rng(1), [], []
    for t in range(60):
        late = rng.random() < 0.5
        ops.append((t, ISSUE if late else TRACK))
        waiting += [t] * late
        if waiting and rng.random() < 0.5:
            ops.append((waiting.pop(rng.integers(len(waiting))), LEARN))
    ops = np.array(ops)
    X, Y, lines = X[30:], Y[30:], np.full((2, 60, together._kept_width), np.nan)
    said = together._pass(ops, X, Y.copy(), None, lines[0])
    for t, kind in ops:
        one = alone._pass(ONE[kind], X[t : t + 1], Y[t : t + 1].copy(), None, lines[1, t : t + 1])
        if kind & PREDICT:
            np.testing.assert_allclose(said[:3, t], one[:3, 0], rtol=1e-9, atol=1e-10, err_msg=f"row {t}")
    np.testing.assert_allclose(lines[0], lines[1], rtol=1e-8, atol=1e-9)
    for (part, array), expected in zip(all_arrays(together).items(), all_arrays(alone).values(), strict=True):
        if name != "weights in the mean" or part != "clock":  # these are of no time
            np.testing.assert_allclose(array, expected, rtol=1e-7, atol=1e-9, err_msg=part)


def started(model, X, Y):
    """A model that has learned the first rows, with the shape that it has within a wrapper."""
    model._prepare(Shape(X.shape[1], Y.shape[1], scalar=False, certain=True))
    model._pass(listed(len(Y), TAKE), X[: len(Y)].copy(), Y.copy(), None, None)
    return model


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


def test_lists_are_made_and_changed_as_they_say():
    assert listed(3, TAKE).tolist() == [[0, TAKE], [1, TAKE], [2, TAKE]]
    assert listed(1, ISSUE) is ONE[ISSUE]
    ops = np.array([[0, TAKE], [1, ISSUE], [0, LEARN], [2, PREDICT]])
    assert predicted_too(ops)[:, 1].tolist() == [TRACK, ISSUE, LEARN, PREDICT]
    assert predicted_too(ONE[TAKE]) is ONE[TRACK]
    assert with_kinds(ops, np.array([PREDICT, 0, TELL, 0])).tolist() == [[0, PREDICT], [0, TELL]]


def test_an_empty_list_leaves_targets_as_they_are():
    model = sg.Calibrated(sg.Standardize(sg.KRLST(capacity=8), warmup=20))
    X, Y = rows(100)
    model.learn_many(X, Y[:, 0])
    broken = np.full((1, 1), 1e6)
    model._pass(np.array([[0, SCREEN | TAKE]])[:0], X[:1], broken, None, None)  # the memory behind it says to screen
    assert broken[0, 0] == 1e6


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("horizon", [1, 2, 7])
@pytest.mark.parametrize("name", MODELS)
def test_rows_ahead_of_time_are_the_same_in_blocks_and_each_alone(name, horizon, outputs):
    X, Y = rows(120)
    Y, at = np.hstack([Y, Y * X[:, :1]])[:, :outputs], 3.0 * np.arange(120.0)
    Y[:4] = np.nan
    whole, single = (sg.Ahead(MODELS[name](), horizon=horizon) for _ in range(2))
    p = whole.track(X, Y, time=at)
    for t in range(len(X)):
        alone = single.track(X[t : t + 1], Y[t : t + 1], time=at[t : t + 1])
        for said, expected in zip(_numbers(p), _numbers(alone), strict=True):
            np.testing.assert_allclose(said[t : t + 1], expected, rtol=1e-9, atol=1e-9, err_msg=f"row {t}")
    for (part, array), expected in zip(all_arrays(whole).items(), all_arrays(single).values(), strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-7, atol=1e-9, err_msg=part)


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("horizon", [1, 3])
@pytest.mark.parametrize("name", ["KRLST", "calibrated", "calibrated with lags", "a reservoir", "a committee"])
def test_single_rows_without_times_are_those_of_a_block(name, horizon, outputs):
    X, Y = rows(90)
    Y = np.hstack([Y, Y * X[:, :1]])[:, :outputs]
    whole, single = (sg.Ahead(MODELS[name](), horizon=horizon) for _ in range(2))
    p = whole.track(X, Y)
    for t in range(len(X)):
        said = single.predict_one(X[t]) if t else None
        single.learn_one(X[t], Y[t])
        if said is not None:
            for one, expected in zip(_numbers(said), _numbers(p), strict=True):
                np.testing.assert_allclose(one, expected[t], rtol=1e-9, atol=1e-9, err_msg=f"row {t}")
    for (part, array), expected in zip(all_arrays(whole).items(), all_arrays(single).values(), strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-7, atol=1e-9, err_msg=part)
