from __future__ import annotations

import math

import numpy as np
import pytest

import streamgp as sg
from streamgp.contract import passing
from streamgp.contract.conditions import TIME
from streamgp.fleet import alarms
from streamgp.fleet.alarms import Watch, discoveries, e_discoveries, level_of
from tests.fleet.recipes import RECIPES, dense


def rows(n, size, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, size, 1))
    return X, np.sin(X[:, :, 0]) + 0.1 * rng.standard_normal((n, size))


def fleet_of(size, **settings):
    return sg.Fleet(sg.ISSGPR(features=10, noise=0.01), size=size, **settings)


def told(fleet):
    return [(alarm.id, alarm.row, alarm.kind) for alarm in fleet.alarms()]


def standing_still(size, p=1):
    """Predictions of 0 with a standard deviation of 1."""
    return sg.Prediction(np.zeros((size, p)), np.full((size, p), 0.5), np.full((size, p), 0.5))


def test_discoveries_are_those_of_the_definition():
    rng = np.random.default_rng(1)
    for _ in range(50):
        p = np.concatenate([rng.uniform(size=20), 10.0 ** -rng.uniform(1, 6, 5)])
        sorted_ = np.sort(p)
        k = max((k for k in range(1, 26) if sorted_[k - 1] <= 0.1 * k / 25), default=0)
        np.testing.assert_array_equal(discoveries(p, 0.1), p <= (sorted_[k - 1] if k else -1))
        e = 1.0 / p
        largest = np.sort(e)[::-1]
        k = max((k for k in range(1, 26) if largest[k - 1] >= 25 / (0.1 * k)), default=0)
        np.testing.assert_array_equal(e_discoveries(e, 0.1, 25), e >= (largest[k - 1] if k else np.inf))


def test_a_hundred_thousand_sensors_keep_their_budget():
    rng, n, ticks, rate, count = np.random.default_rng(2), 100_000, 1500, 0.3, 0
    for _ in range(ticks):
        # Of uniform p-values only the smallest can be discoveries; those of at most 1e-3 are enough.
        small = rng.uniform(0, 1e-3, rng.binomial(n, 1e-3))
        count += np.count_nonzero(discoveries(np.concatenate([small, np.ones(n - len(small))]), level_of(rate)))
    assert count / (ticks * rate) == pytest.approx(1.0, abs=0.2)


def test_a_fleet_keeps_its_budget_and_each_sensor_may_have_its_own_scale():
    rng = np.random.default_rng(3)
    size, ticks, rate = 1000, 400, 0.2
    watch = Watch((rate, 0.0), size, 1)
    scale, still, ids = np.exp(rng.normal(size=size)), standing_still(size), np.arange(size)
    for t in range(ticks):
        watch.judge(ids, np.full(size, t), still, scale[:, None] * rng.standard_t(5, (size, 1)), None)
    kinds = [alarm.kind for alarm in watch.events()]
    expected = rate * (ticks - 101)
    assert 0.6 * expected < len(kinds) < 1.2 * expected


def test_a_faulty_sensor_and_a_shifted_one_are_told_with_their_ids():
    X, Y = rows(250, 40)
    Y[200, 7] += 3.0
    Y[210:, 11] += 1.0
    fleet = fleet_of(40, alarms=0.01)
    assert fleet.alarms() == []
    p = fleet.track(X, Y)
    assert str(p.alarm[200, 7]) == "spike"
    assert p.surprise.shape == (250, 40)
    told = {(alarm.id, alarm.kind): alarm for alarm in fleet.alarms()}
    spike, level = told[7, "spike"], told[11, "level"]
    assert (spike.row, spike.observed, spike.expected) == (200, Y[200, 7], p.mean[200, 7])
    assert 210 < level.row < 235
    assert {id_ for id_, _ in told} <= {7, 11}


def test_rows_that_come_together_or_one_by_one_raise_the_same_alarms():
    X, Y = rows(120, 20)
    Y[100, 3] += 3.0
    together, apart = fleet_of(20, alarms=0.01), fleet_of(20, alarms=0.01)
    p = together.track(X, Y)
    for t in range(120):
        q = apart.track(X[t], Y[t])
        np.testing.assert_allclose(q.surprise, p.surprise[t], rtol=1e-9)
    assert told(apart) == told(together)
    named = fleet_of(20, alarms=0.01)
    named.learn_many(np.tile(np.arange(20), 120), X.reshape(-1, 1), Y.ravel())
    assert told(named) == told(together)


def test_alarms_are_saved_and_follow_models_that_come_and_go():
    X, Y = rows(100, 20)
    fleet = fleet_of(20, alarms="1/week")
    times = 3600.0 * np.arange(100)
    fleet.learn_many(X, Y, time=times)
    restored = sg.from_bytes(fleet.to_bytes())
    assert restored.to_bytes() == fleet.to_bytes()
    for one in (fleet, restored):
        one.remove([0, 5])
        one.add(1)
        one.replace(3, one.model(4))
        one.learn_many(X[:1, :19], Y[:1, :19] + 5.0, time=times[-1:] + 3600.0)
    assert restored.alarms() == fleet.alarms()
    assert {alarm.id for alarm in fleet.alarms()} == set(range(19)) - {3, 18}


SPIKES = 0.85  # of the budget


def judged_early(monkeypatch):
    monkeypatch.setattr(alarms, "WARMUP", 10)
    monkeypatch.setattr(alarms, "ENOUGH", 40.0)


def with_spikes(rows=30, size=6):
    X, Y = dense(np.random.default_rng(8), rows, size)
    Y[20, 1], Y[25, [1, 4]], Y[28, 0] = 40.0, [-30.0, 50.0], 1e6
    return X, Y


@pytest.mark.parametrize(
    "name",
    [
        "KRLST",
        "Calibrated Standardize",
        *(pytest.param(n, marks=pytest.mark.more) for n in ("several outputs", "each")),
    ],
)
def test_a_spike_is_learned_as_a_single_model_learns_a_row_of_less_weight(name, monkeypatch):
    judged_early(monkeypatch)
    make = {
        "several outputs": lambda: sg.KRLST(capacity=8, outputs="separate"),
        "each": lambda: sg.DriftAware(sg.Standardize(sg.KRLST(capacity=8), warmup=20)),
    }.get(name) or RECIPES[name]
    X, Y = with_spikes()
    if name == "several outputs":
        Y = np.stack([Y, 1.0 - X.sum(axis=-1)], axis=-1)
    n, size, rate = len(X), X.shape[1], 0.05
    fleet = sg.Fleet(make(), size=size, alarms=rate)
    p = fleet.track(X, Y)
    spikes = (p.alarm == "spike").reshape(n, size, -1)
    surprise, judged = p.surprise.reshape(n, size, -1), np.isfinite(p.surprise.reshape(n, -1)).sum(axis=1)
    assert spikes[28, 0].any()
    for i in range(size):
        single = make()
        for t in range(n):
            assert t == 0 or np.array_equal(single.predict_one(X[t, i]).mean, p.mean[t, i]), (i, t)
            weight = None
            if spikes[t, i].any():
                budget = rate * judged[t] / spikes[t].size
                limit = -math.log(SPIKES * budget / judged[t] * spikes[t].sum())
                weight = max(math.exp(min(limit - surprise[t, i][spikes[t, i]].max(), 0.0)), 1e-12)
            if weight is None:
                single.learn_one(X[t, i], Y[t, i])
            elif single._cannot("weigh"):
                single.learn_one(X[t, i], np.nan)
            else:
                y = np.reshape(Y[t, i], (1, -1))
                passing.learn(
                    single, X[t, i : i + 1], y, False, passing.conditions_of(single, 1, y, weight=weight, many=False)
                )
        assert single.to_bytes() == fleet.model(i).to_bytes()


def test_a_spike_leaves_a_model_almost_as_it_was_unless_all_rows_count_alike(monkeypatch):
    judged_early(monkeypatch)
    X, Y = with_spikes()
    without = np.where(np.abs(Y) < 10, Y, np.nan)
    discounting, taking, knowing = (
        sg.Fleet(sg.KRLST(capacity=8), size=6, **settings)
        for settings in ({"alarms": 0.05}, {"alarms": 0.05, "discount_spikes": False}, {})
    )
    p, q = discounting.track(X, Y), taking.track(X, Y)
    knowing.track(X, without)
    assert str(p.alarm[28, 0]) == str(q.alarm[28, 0]) == "spike"
    at = X[28]
    far = [np.abs(fleet.predict_many(at).mean - knowing.predict_many(at).mean)[0] for fleet in (discounting, taking)]
    assert far[0] < 1e-3
    assert far[1] > 1e3


def test_a_call_that_raises_leaves_alarms_as_they_were():
    X, Y = rows(40, 3)
    fleet = sg.Fleet(sg.DriftAware(sg.KRLST(capacity=8)), size=3, alarms=0.1)
    fleet.learn_many(X, Y)
    before = fleet.to_bytes()
    bad = np.full((2, 3), 1.0)
    bad[1, 2] = 1e308
    with pytest.raises(ValueError, match="model 2"):
        fleet.track(X[:2], bad)
    assert fleet.to_bytes() == before


@pytest.mark.parametrize("recipe", [sg.ISSGPR(features=10, noise=0.01), sg.KRLST(capacity=10, noise=0.01)])
def test_late_targets_are_judged_as_those_that_come_with_their_rows(recipe):
    X, Y = rows(250, 20)
    Y[200, 7] += 50.0 * 0.1
    at_once, late = (sg.Fleet(recipe, size=20, alarms=0.01, pending=20) for _ in range(2))
    tracked = at_once.track(X, Y)
    late = sg.from_bytes(late.to_bytes())
    for t in range(len(X)):
        issued = late.issue(X[t])
        if t == 200:
            late = sg.from_bytes(late.to_bytes())
        late.resolve(issued.ticket, Y[t])
    assert (7, 200, "spike") in told(late)
    assert told(late) == told(at_once)
    np.testing.assert_allclose(late.predict_many(X[0]).mean, at_once.predict_many(X[0]).mean, rtol=1e-8)
    assert str(tracked.alarm[200, 7]) == "spike"


def test_one_wrong_time_stamp_does_not_change_the_budget_of_a_fleet():
    rng = np.random.default_rng(6)
    size, ticks = 50, 1500
    still, ids, errors = standing_still(size), np.arange(size), rng.standard_normal((ticks, size, 1))
    right = np.repeat(1.7e9 + 3600.0 * np.arange(ticks)[:, None], size, axis=1)
    first, ahead, sensor = right.copy(), right.copy(), right.copy()
    first[0], ahead[500], sensor[700, 3] = 0.0, 4.3e9, 4.3e9
    counts = {}
    for name, times in {"right": right, "1970": first, "2106": ahead, "one sensor in 2106": sensor}.items():
        watch = Watch((0.0, 2 / 86400), size, 1)
        for t in range(ticks):
            conditions = np.full((size, 3), np.nan)
            conditions[:, TIME] = times[t]
            watch.judge(ids, np.full(size, t), still, errors[t], conditions)
        counts[name] = int(watch.arrays()["alarms.noted"][0])
    assert 60 <= counts["right"] <= 180  # 2 a day for 58 days
    # A wrong one counts as a hundred hours of 1500, most at the beginning: not as 50 years.
    assert all(abs(count - counts["right"]) <= 0.25 * counts["right"] for count in counts.values()), counts


def test_what_cannot_be_judged_gets_a_sentence():
    X, Y = rows(3, 2)
    with pytest.raises(ValueError, match="this fleet raises no alarms: build it with alarms="):
        fleet_of(2).alarms()
    with pytest.raises(ValueError, match="alarms must be a finite number above 0 and at most 0.5; got 2"):
        fleet_of(2, alarms=2)
    with pytest.raises(ValueError, match="QKLMS has none; use Calibrated around a model of numbers"):
        sg.Fleet(sg.filters.QKLMS(), size=2, alarms=0.1)
    with pytest.raises(ValueError, match="before it is learned, to discount spikes: use batch=1, or discount_spikes="):
        sg.Fleet(RECIPES["RecursiveGP"](), size=2, alarms=0.1)
    sg.Fleet(RECIPES["RecursiveGP"](), size=2, alarms=0.1, discount_spikes=False)
    with pytest.raises(TypeError, match="discount_spikes must be True or False; got 1"):
        fleet_of(2, alarms=0.1, discount_spikes=1)
    fleet = fleet_of(2, alarms="1/day")
    with pytest.raises(ValueError, match="alarms='1/day' counts alarms by time, so that every row needs its own"):
        fleet.track(X, Y)
    assert fleet.rows_seen.tolist() == [0, 0]
