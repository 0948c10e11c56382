from __future__ import annotations

import itertools

import numpy as np
import pytest

import streamgp as sg
from streamgp.contract.lanes import ISSUE, LEARN, ONE
from streamgp.wrappers import aggregation
from streamgp.wrappers.aggregation import ISSUED
from tests.inside import Stopped, called

rng = np.random.default_rng(3)


def members():
    return [sg.KRLST(capacity=8), sg.OnlineGP(sg.Linear(), form="cholesky"), sg.ISSGPR(features=8)]


def stream(n=200, d=2):
    r = np.random.default_rng(0)
    X = r.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * r.normal(size=n)


def test_predictions_are_the_mixture_written_out():
    X, y = stream()
    y[50] = np.nan
    p = sg.Committee(members(), memory=20).track(X, y)
    each = [model.track(X, y) for model in members()]
    sums, rows = np.zeros(3), 0.0
    for t in range(len(y)):
        w = np.full(3, 1 / 3)
        if rows > 0:
            log = [-0.5 * rows * np.log(s / rows) for s in sums]
            w = np.array([1.0 / sum(np.exp(other - mine) for other in log) for mine in log])
        mean = sum(w[i] * each[i].mean[t] for i in range(3))
        second = sum(w[i] * (each[i].variance[t] + each[i].mean[t] ** 2) for i in range(3))
        assert p.mean[t] == pytest.approx(mean, abs=1e-10)
        assert p.variance[t] == pytest.approx(second - mean**2, abs=1e-8)
        assert p.noise[t] == pytest.approx(sum(w[i] * each[i].noise[t] for i in range(3)), abs=1e-10)
        if not np.isnan(y[t]):
            sums = 0.95 * sums + [(y[t] - each[i].mean[t]) ** 2 for i in range(3)]
            rows = 0.95 * rows + 1.0


def test_the_better_member_leads_and_the_lead_changes_with_the_world():
    n = 2000
    x = rng.uniform(-2, 2, n)
    y = np.where(np.arange(n) < 1000, 3.0 * x, np.sin(5.0 * x)) + 0.05 * rng.normal(size=n)
    model = sg.Committee([sg.KRLST(sg.SquaredExponential(0.3), capacity=40), sg.OnlineGP(sg.Linear(), form="cholesky")])
    model.learn_many(x[:900], y[:900])
    assert model.leader == 1
    assert model.weights[1] > 0.9
    model.learn_many(x[900:], y[900:])
    assert model.leader == 0
    assert model.hyperparameters.keys() == {"lengthscale", "variance", "noise"}


def test_equal_members_share_the_weight():
    X, y = stream(60)
    model = sg.Committee([sg.KRLST(capacity=8), sg.KRLST(capacity=8)])
    p = model.track(X, y)
    np.testing.assert_array_equal(p.mean, sg.KRLST(capacity=8).track(X, y).mean)
    np.testing.assert_array_equal(model.weights, [0.5, 0.5])


def test_outputs_have_weights_of_their_own():
    X, _ = stream(300)
    Y = np.column_stack([3.0 * X[:, 0], np.sin(3.0 * X[:, 1])])
    kernel = sg.SquaredExponential([100.0, 0.5])
    model = sg.Committee([sg.OnlineGP(sg.Linear(), form="cholesky"), sg.KRLST(kernel, capacity=60)])
    p = model.track(X, Y)
    for j, best in enumerate([sg.OnlineGP(sg.Linear(), form="cholesky"), sg.KRLST(kernel, capacity=60)]):
        np.testing.assert_allclose(p.mean[200:, j], best.track(X, Y).mean[200:, j], atol=1e-6)


class Absurd(sg.KRLST):
    """A model that loses its mind after a while."""

    said = np.nan

    def __init__(self, capacity=8):
        super().__init__(capacity=capacity)

    def _pass(self, ops, X, *given):
        columns = super()._pass(ops, X, *given)
        columns[0, np.arange(len(X)) + self.rows_seen - len(X) >= 20] = self.said
        return columns


@pytest.mark.parametrize("said", [np.nan, np.inf, 1e200, -1e80])
def test_a_member_that_loses_its_mind_has_no_say(monkeypatch, said):
    monkeypatch.setattr(Absurd, "said", said)
    X, y = stream(60)
    p = sg.Committee([Absurd(capacity=8), sg.KRLST(capacity=8)]).track(X, y)
    np.testing.assert_array_equal(p.mean[20:], sg.KRLST(capacity=8).track(X, y).mean[20:])
    assert np.all(np.isfinite(p.variance))


def test_a_committee_that_is_stopped_between_two_members_is_as_it_was():
    X, y = stream(40)
    model = sg.Committee([sg.KRLST(capacity=8), Stopped(capacity=8)])
    model.learn_many(X[:4], y[:4])
    before = model.to_bytes()
    with pytest.raises(KeyboardInterrupt):
        model.learn_many(X[4:], y[4:])
    assert model.to_bytes() == before
    model.learn_many(X[4:8], y[4:8])
    assert model.rows_seen == 8


def test_all_members_forget_if_all_can():
    X, y = stream(100)
    model = sg.Committee(members())
    model.learn_many(X, y)
    before = model.predict_one(X[0]).variance
    model.forget(0.1)
    assert model.predict_one(X[0]).variance > before
    stubborn = sg.Committee([sg.KRLST(capacity=8), sg.filters.QKLMS(capacity=8)])
    with pytest.raises(ValueError, match="QKLMS has no posterior that could fade"):
        stubborn.forget(0.5)


def test_what_is_no_committee_is_refused():
    with pytest.raises(TypeError, match="models must be a list of stream models such as"):
        sg.Committee([sg.KRLST(), 3])
    with pytest.raises(ValueError, match="models is an empty list; give at least one stream model"):
        sg.Committee([])
    with pytest.raises(ValueError, match="memory must be a whole number of at least 2; got 1"):
        sg.Committee([sg.KRLST()], memory=1)
    learned = sg.KRLST()
    learned.learn_one(1.0, 2.0)
    with pytest.raises(ValueError, match="models must have learned nothing.*one that has seen 1 rows"):
        sg.Committee([learned])


@pytest.mark.parametrize("rows", [1, 3])
def test_a_number_that_one_member_refuses_changes_none(rows):
    X, y = stream(10)
    model = sg.Committee([sg.Standardize(sg.KRLST(capacity=8)), sg.KRLST(capacity=8)])
    model.learn_many(X, y)
    before = model.to_bytes()
    y[rows - 1] = 1e200
    with pytest.raises(ValueError, match="beyond 1e\\+150"):
        model.learn_many(X[:rows], y[:rows])
    with pytest.raises(ValueError, match="beyond 1e\\+150"):
        sg.Calibrated(model.clone()).learn_one(X[0], 1e200)
    assert model.to_bytes() == before


# ---- late targets ----


def walk(n=600, seed=5):
    """A random walk, and what was known of it 24 rows before."""
    y = np.cumsum(np.random.default_rng(seed).normal(size=n + 24))
    return np.column_stack([y[:-24], np.ones(n)]), y[24:]


def forgetful():
    return [sg.OnlineGP(sg.Linear(), noise=1.0), sg.Standardize(sg.KRLST(forgetting=0.99, capacity=20), warmup=20)]


@pytest.mark.parametrize("rule", ["recent", "ml-poly", "stacked"])
def test_members_are_judged_by_what_they_said_when_the_row_was_issued(rule):
    X, y = walk()
    model = sg.Delayed(sg.Committee(forgetful(), rule=rule))
    each = [sg.Delayed(member) for member in forgetful()]
    squares, rows = np.zeros(2), 0.0
    issued = []
    for t in range(len(y)):
        issued.append((model.issue(X[t]).ticket, [one.issue(X[t]).mean for one in each]))
        if t >= 24:
            ticket, means = issued[t - 24]
            for one in (model, *each):
                one.resolve(ticket, y[t - 24])
            squares, rows = 0.999 * squares + (y[t - 24] - np.array(means)) ** 2, 0.999 * rows + 1.0
    np.testing.assert_allclose(model.inner.errors, np.sqrt(squares / rows), rtol=1e-8)


def test_a_member_that_joined_after_a_row_was_issued_is_not_judged_by_it():
    X, y = stream(60)
    one, other = (sg.Committee(members(), rule="stacked") for _ in range(2))
    for model in (one, other):
        model.learn_many(X[:40], y[:40])
    lines = [np.full((1, model._kept_width), np.nan) for model in (one, other)]
    for model, line in zip((one, other), lines, strict=True):
        model._pass(ONE[ISSUE], X[40:41], None, None, line)
    one.retire(0)
    one.add(sg.SOGP(capacity=8))
    issued = np.full((1, one._kept_width), np.nan)
    one.copy()._pass(ONE[ISSUE], X[40:41], None, None, issued)  # what the members themselves keep
    issued[:, :ISSUED] = lines[0][:, :ISSUED]
    one._pass(ONE[LEARN], X[40:41], y[40:41, None].copy(), None, issued)
    other._pass(ONE[LEARN], X[40:41], y[40:41, None].copy(), None, lines[1])
    np.testing.assert_array_equal(one._errors[:, 2:, :2], other._errors[:, 2:, 1:])  # of those who stayed
    before = one.copy()
    before._pass(ONE[LEARN], X[40:41], np.full((1, 1), np.nan), None, issued)
    np.testing.assert_array_equal(one._errors[:, :, 2], before._errors[:, :, 2])


def test_members_with_lags_learn_late_targets_at_the_lags_of_their_rows():
    X, y = stream(80)
    build = lambda: sg.Lagged(sg.KRLST(capacity=8), lags=2)  # noqa: E731
    model, alone = sg.Delayed(sg.Committee([build()])), sg.Delayed(build())
    for one in (model, alone):
        tickets = [one.issue(x).ticket for x in X[:3]]
        for t in range(3, len(y)):
            tickets.append(one.issue(X[t]).ticket)
            one.resolve(tickets[t - 3], y[t - 3])
    assert model.predict_one(X[0]).mean == pytest.approx(alone.predict_one(X[0]).mean, rel=1e-12)


# ---- where predictions may lie ----


def plain_limits(y, reach):
    """The limits before each row, one target after the other."""
    known, found = [], []
    for target in y:
        low, high = -np.inf, np.inf
        if len(known) >= 8:
            margin = 0.1 * (max(known) - min(known))
            step = reach * max(abs(b - a) for a, b in itertools.pairwise(known))
            low, high = min(min(known) - margin, known[-1] - step), max(max(known) + margin, known[-1] + step)
        found.append((low, high))
        if not np.isnan(target):
            known.append(target)
    return np.array(found).T


def test_limits_are_those_of_the_plain_loop():
    _, y = stream(120)
    y[[0, 1, 50, 51, 119]] = np.nan
    seen = np.zeros(aggregation.RANGE)
    found = [called(aggregation.limits)(3.0, target, seen) for target in y]
    np.testing.assert_array_equal(np.transpose(found), plain_limits(y, 3.0))


@pytest.mark.parametrize("late", [False, True])
def test_a_glitch_of_an_input_does_not_leave_the_range_of_the_targets(late):
    r = np.random.default_rng(0)
    X = np.column_stack([r.normal(size=400), 0.001 * r.normal(size=400)])
    y = X[:, 0] + 0.3 * r.normal(size=400)
    X[300, 1] = 10.0
    line = sg.Standardize(sg.OnlineGP(sg.Linear()), warmup=100)
    model: sg.StreamModel = sg.Committee([sg.RunningMean(), line], rule="stacked", reach=3.0)
    wild, model = line.clone(), sg.Ahead(model, horizon=1) if late else model
    if late:
        X = np.roll(X, -1, axis=0)
    p, alone = model.track(X, y), wild.track(X if not late else np.roll(X, 1, axis=0), y)
    assert np.abs(alone.mean[300]) > 10
    assert np.abs(p.mean).max() < 6
    assert model.health.limited_rows >= 1
    assert model.health.repairs == 0


def test_rows_beyond_the_limits_are_counted_once_however_they_come():
    X = np.random.default_rng(0).normal(size=(100, 2))
    y = np.sin(X[:, 0])
    X[::7, 1] = 1000.0

    def build():
        return sg.Committee([sg.RunningMean(), sg.InputValue(1)], rule="stacked", reach=3.0)

    late, single, whole = sg.Delayed(build()), build(), build()
    for x, target in zip(X, y, strict=True):
        late.resolve(late.issue(x).ticket, target)
        single.learn_one(x, target)
    whole.track(X, y)
    assert late.inner.to_bytes() == single.to_bytes() == whole.to_bytes()
    assert late.health.limited_rows == single.health.limited_rows > 10
