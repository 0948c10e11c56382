"""Rows go through all members of a committee that are alike at once, as they go through each alone."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from streamgp.auto.preceded import Preceded
from streamgp.wrappers.panel import Panels
from tests.inside import Stopped

WARMUP = 20


def stream(n=120, seed=0):
    r = np.random.default_rng(seed)
    X = 3.0 + r.normal(size=(n, 3)) * [1.0, 5.0, 0.1]
    return X, 10.0 + np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * r.normal(size=n)


def line(forgetting=None):
    return sg.OnlineGP(sg.Linear(0.01), noise=1.0, forgetting=forgetting and sg.Injection(forgetting))


def units(model):
    return sg.Standardize(model, warmup=WARMUP)


def members():
    return [
        units(line()),
        sg.RunningMean(),
        sg.Columns(units(line(0.99)), columns=[1, 0]),
        sg.Differenced(units(line(0.9)), column=2),
        sg.Differenced(sg.Columns(units(line()), columns=[0, 2]), column=1),
        Preceded(units(line()), columns=2, sees=2),
        units(sg.KRLST(capacity=8)),
        units(sg.KRLST(capacity=8, forgetting=0.99)),
        units(sg.SOGP(capacity=6, adapt=sg.SNGD(interval=10))),
        sg.Lagged(sg.KRLST(capacity=6), lags=2),
    ]


def in_panels(model):
    """How many members are in the panels of a committee."""
    return [len(panel.numbers.records) for panel in model._panels._panels]


def told(model, X, y):
    """Predictions of rows that come one by one."""
    said = []
    for x, target in zip(X, y, strict=True):
        p = model.predict_one(x)
        said.append((p.mean, p.variance, p.noise))
        model.learn_one(x, target)
    return np.array(said)


def parts(p):
    return np.stack([p.mean, p.variance, p.noise], axis=1)


def same_state(one, other):
    for name, array in one._all_arrays().items():
        np.testing.assert_allclose(array, other._all_arrays()[name], rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.fixture(scope="module")
def settled():
    """A committee whose members have their units, and the rows after that."""
    X, y = stream()
    y[[50, 51]] = np.nan
    model = sg.Committee(members(), rule="stacked", reach=3.0)
    model.learn_many(X[:30], y[:30])
    return model, X[30:], y[30:]


def test_rows_one_by_one_are_as_rows_together(settled):
    model, X, y = settled
    one, many = model.copy(), model.copy()
    np.testing.assert_allclose(told(one, X, y), parts(many.track(X, y)), rtol=1e-9)
    assert in_panels(one) == in_panels(many) == [2, 2, 1, 2, 1]
    same_state(one, many)


@pytest.mark.parametrize("asleep", [False, True])
def test_rows_go_through_all_together_as_through_each_alone(settled, monkeypatch, asleep):
    model, X, y = settled
    together, alone, said = model.copy(), model.copy(), []
    for committee in (together, alone):
        if asleep:
            committee._models[5].note_broken()
        if committee is alone:
            monkeypatch.setattr(sg.Committee, "_together", lambda *_: None)
        parts_of_rows = [parts(committee.track(X[a:b], y[a:b])) for a, b in ((0, 2), (2, 3), (3, 90))]
        said.append(np.concatenate(parts_of_rows))
    np.testing.assert_allclose(said[0], said[1], rtol=1e-9)
    same_state(together, alone)


def test_a_copy_and_a_snapshot_go_on_alike_and_apart(settled):
    model, X, y = settled
    model = model.copy()
    told(model, X[:20], y[:20])
    before = model.to_bytes()
    twin, again = model.copy(), sg.from_bytes(before)
    expected = told(twin, X[20:40], y[20:40])
    assert model.to_bytes() == before
    np.testing.assert_array_equal(told(again, X[20:40], y[20:40]), expected)
    assert again.to_bytes() == twin.to_bytes()


def test_members_that_come_and_go_leave_the_others_as_they_are(settled):
    model, X, y = settled
    one, many = model.copy(), model.copy()
    newcomer = units(line(0.99))
    newcomer.learn_many(X[:30], y[:30])
    for committee in (one, many):
        learn = committee.learn_many if committee is many else lambda X, y: told(one, X, y)
        learn(X[:10], y[:10])
        committee.retire(0)
        learn(X[10:20], y[10:20])
        committee.replace(2, newcomer)
        committee.add(newcomer)
        learn(X[20:30], y[20:30])
    same_state(one, many)


def test_late_targets_are_learned_by_all_as_by_each(monkeypatch):
    X, y = stream()
    found = []
    for alone in (False, True):
        if alone:
            monkeypatch.setattr(sg.Committee, "_together", lambda *_: None)
        model = sg.Delayed(sg.Committee(members(), rule="stacked", reach=3.0))
        model.learn_many(X[:30], y[:30])
        said = []
        for t in range(30, 80):
            p = model.issue(X[t])
            said.append((p.mean, p.variance, p.noise))
            if t >= 34:
                model.resolve(t - 4, y[t - 4])
        found.append((np.array(said), model))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-9)
    same_state(found[0][1], found[1][1])


def test_a_call_that_raises_leaves_members_of_a_panel_as_they_were():
    X, y = stream(60)
    model = sg.Committee([units(line()), units(line(0.9)), Stopped(capacity=8)])
    told(model, X[:30], y[:30])
    assert in_panels(model) == [2]
    before = model.to_bytes()
    with pytest.raises(KeyboardInterrupt):
        model.learn_many(X, y)
    assert model.to_bytes() == before


def test_members_that_do_otherwise_are_in_no_panel():
    X, y = stream(40)
    unfit = [
        sg.KRLST(capacity=4),
        units(sg.KRLST(capacity=4, likelihood=sg.StudentT(0.3))),
        sg.Columns(sg.Columns(units(line()), columns=[0, 1]), columns=[0, 1]),
        sg.Differenced(sg.Differenced(units(line()))),
        sg.Standardize(line(), warmup=100),
        sg.Calibrated(units(line())),
    ]
    for model in unfit:
        model.learn_many(X, y)
    assert Panels(unfit, 3)._panels == []
