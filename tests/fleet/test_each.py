"""Models that the compiled loop cannot hold are in a fleet what they are alone, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from streamgp.fleet import each
from streamgp.fleet.cpu import CpuEngine
from streamgp.fleet.each import EachEngine
from tests.fleet.recipes import POINTS, D, dense, sparse
from tests.fleet.test_equality import assert_same

SIZE = 3


def auto(**settings):
    return sg.Auto(warmup=40, tune=False, candidates={"capacity": 8}, **settings)


MODELS = {
    "Auto": auto,
    "Tuned": lambda: sg.Tuned(sg.KRLST(capacity=5), warmup=20, tune=False),
    "DriftAware": lambda: sg.DriftAware(sg.SOGP(capacity=5), false_alarm_rate=0.3, trial=5, warmup=3),
    "Committee": lambda: sg.Committee([sg.KRLST(capacity=5), sg.ISSGPR(features=6), sg.filters.KLMS(capacity=5)]),
    "Lagged": lambda: sg.Lagged(sg.Calibrated(sg.Standardize(sg.KRLST(capacity=5), warmup=8), warmup=3), lags=2),
    "Ahead": lambda: sg.Ahead(sg.Lagged(sg.KRLST(capacity=5), lags=2), horizon=2),
    "Delayed": lambda: sg.Delayed(sg.KRLST(capacity=5), pending=3),
    "Columns": lambda: sg.Columns(sg.KRLST(capacity=5), columns=[1]),
    "KLMS": lambda: sg.filters.KLMS(capacity=5),
    "Standardize QKLMS": lambda: sg.Standardize(sg.filters.QKLMS(capacity=5), warmup=8),
    "SGDESN": lambda: sg.filters.SGDESN(units=6, feedback=0.2),
    "LWPR": lambda: sg.LWPR(init_D=2.0, capacity=5),
    "LocalGP": lambda: sg.LocalGP(experts=3, capacity=5),
    "SeasonalValue": lambda: sg.SeasonalValue(3),
    "mean function": lambda: sg.RecursiveGP(POINTS, mean=lambda X: X.sum(axis=1)),
}
# One object stands for all models of these.
TOGETHER = {"KLMS", "Standardize QKLMS", "SGDESN", "LWPR", "LocalGP", "mean function"}
SAVED = [name for name in MODELS if name not in ("Auto", "mean function")]


def singles(name, count=SIZE):
    return [MODELS[name]() for _ in range(count)]


def states(fleet):
    return [fleet.model(i).to_bytes() for i in range(fleet.size)]


SLOW = pytest.param("Auto", marks=pytest.mark.more)


@pytest.mark.parametrize("name", [SLOW, *(name for name in MODELS if name != "Auto")])
def test_a_fleet_of_any_model_is_the_loop_over_its_models(name):
    check_loop(name, ())
    check_loop(name, (2,))


def check_loop(name, outputs):
    rng = np.random.default_rng(1)
    fleet, models = sg.Fleet(MODELS[name](), size=SIZE), singles(name)
    for _ in range(2):
        X, Y = dense(rng, 16, SIZE, outputs)
        p = fleet.track(X, Y)
        for i, model in enumerate(models):
            assert_same(p[:, i], model.track(X[:, i], Y[:, i]))
        ids, X, Y = sparse(rng, 12, SIZE, outputs)
        p, q = fleet.predict_many(X, ids=ids), fleet.track(X, Y, ids=ids)
        for i in np.unique(ids):
            assert_same(p[ids == i], models[i].predict_many(X[ids == i]))
            assert_same(q[ids == i], models[i].track(X[ids == i], Y[ids == i]))
        X, Y = dense(rng, 1, SIZE, outputs)
        fleet.learn_many(X[0], Y[0])
        for i, model in enumerate(models):
            model.learn_one(X[0, i], Y[0, i])
    assert isinstance(fleet._engine, CpuEngine if name in TOGETHER else EachEngine)
    assert states(fleet) == [model.to_bytes() for model in models]
    np.testing.assert_array_equal(fleet.rows_seen, [model.rows_seen for model in models])
    np.testing.assert_array_equal(fleet.health.models, np.transpose([model.health for model in models]))
    assert fleet.health.total.repairs == sum(model.health.repairs for model in models)
    assert fleet.broken().tolist() == []


@pytest.mark.parametrize("name", [SLOW, "Tuned", "DriftAware", "Committee", "Lagged", "Ahead", "SGDESN", "LWPR"])
def test_late_targets_reach_any_model_as_they_reach_those_within_delayed(name):
    rng = np.random.default_rng(4)
    fleet = sg.Fleet(MODELS[name](), size=SIZE, pending=100)
    models = [sg.Delayed(model, pending=100) for model in singles(name)]
    X, Y = dense(rng, 5, SIZE)
    fleet.track(X, Y)
    for i, model in enumerate(models):
        model.track(X[:, i], Y[:, i])
    waiting = {}
    for step in range(9):
        ids = rng.integers(0, SIZE, size=6)
        X, Y = dense(rng, 6, 1)
        p = fleet.issue(X[:, 0], ids=ids)
        for row, i in enumerate(ids):
            q = models[i].issue(X[row, 0])
            np.testing.assert_array_equal([p.mean[row], p.std[row]], [q.mean, q.std])
            waiting[int(p.ticket[row])] = i, q.ticket, Y[row, 0]
        chosen = list(rng.permutation(list(waiting)))[: len(waiting) if step % 3 == 2 else 3]
        fleet.resolve(chosen, [waiting[ticket][2] for ticket in chosen])
        for ticket in chosen:
            i, theirs, y = waiting.pop(ticket)
            models[i].resolve(theirs, y)
        assert fleet.pending == len(waiting)
        if step == 4:
            fleet = sg.from_bytes(fleet.to_bytes())
    assert states(fleet) == [model.inner.to_bytes() for model in models]


@pytest.mark.parametrize("name", [SLOW, *SAVED])
def test_a_saved_fleet_of_any_model_resumes_bit_for_bit(name, tmp_path):
    rng = np.random.default_rng(3)
    fleet = sg.Fleet(MODELS[name](), size=SIZE)
    ids, X, Y = sparse(rng, 30, SIZE - 1)  # the last model has no row yet
    for part in (slice(0, 10), slice(10, 30)):
        fleet.track(X[part], Y[part], ids=ids[part])
        fleet.save(tmp_path / "fleet.sgp")
        resumed = sg.load(tmp_path / "fleet.sgp")
        assert resumed.to_bytes() == fleet.copy().to_bytes() == fleet.to_bytes()
    X, Y = dense(rng, 25, SIZE)
    assert_same(resumed.track(X, Y), fleet.track(X, Y))
    assert states(resumed) == states(fleet)


def test_models_of_any_kind_come_and_go():
    fleet = sg.Fleet(MODELS["Tuned"](), size=SIZE)
    X, Y = dense(np.random.default_rng(5), 45, SIZE)
    fleet.track(X, Y)
    before, model = states(fleet), fleet.model(1)
    model.learn_one(np.zeros(D), 5.0)
    assert states(fleet) == before
    fleet.replace(2, model)
    model.learn_one(np.zeros(D), 7.0)
    assert fleet.rows_seen.tolist() == [45, 45, 46]
    fleet.remove([0])
    assert fleet.add(1).tolist() == [2]
    assert states(fleet)[0] == before[1]
    fresh = MODELS["Tuned"]()
    p = fleet.track(X[:, 0], Y[:, 0], ids=np.full(45, 2))
    assert_same(p, fresh.track(X[:, 0], Y[:, 0]))
    assert fleet.model(2).to_bytes() == fresh.to_bytes()


def test_rows_without_columns_and_before_the_first_target():
    fleet, model = sg.Fleet(sg.Lagged(sg.KRLST(capacity=5), lags=2), size=2), sg.Lagged(sg.KRLST(capacity=5), lags=2)
    Y = np.sin(np.arange(20.0)).reshape(10, 2)
    assert fleet.predict_many(np.empty((2, 0))).mean.tolist() == [0.0, 0.0]
    fleet.track(np.empty((3, 2, 0)))
    fleet.track(np.empty((10, 2, 0)), Y)
    model.track(np.empty((3, 0)))
    model.track(np.empty((10, 0)), Y[:, 1])
    assert fleet.model(1).to_bytes() == model.to_bytes()
    with pytest.raises(ValueError, match="model 0: x is empty"):
        sg.Fleet(sg.filters.KLMS(), size=2).track(np.empty((3, 2, 0)), np.ones((3, 2)))


def test_noise_and_time_reach_models_of_any_kind():
    recipe = sg.DriftAware(sg.KRLST(capacity=5, half_life=3.0), warmup=3)
    fleet, models = sg.Fleet(recipe, size=SIZE), [recipe.clone() for _ in range(SIZE)]
    X, Y = dense(np.random.default_rng(2), 8, SIZE)
    noise, time = np.random.default_rng(3).uniform(0.01, 0.5, Y.shape), np.arange(8.0)
    p = fleet.track(X, Y, noise=noise, time=time)
    for i, model in enumerate(models):
        assert_same(p[:, i], model.track(X[:, i], Y[:, i], noise=noise[:, i], time=time))
    before = fleet.to_bytes()
    with pytest.raises(ValueError, match="model 1: time goes backwards: 3 after 7"):
        fleet.learn_many(X[0], np.ones(SIZE), time=[9.0, 3.0, 9.0])
    with pytest.raises(ValueError, match="model 0: KRLST has a half_life"):
        fleet.learn_many(X[0], np.ones(SIZE))
    assert fleet.to_bytes() == before
    with pytest.raises(ValueError, match="model 0: SeasonalValue cannot weigh a row by its noise"):
        sg.Fleet(sg.SeasonalValue(3), size=2).learn_many(X[:, :2], Y[:, :2], noise=0.1)


def test_one_model_that_fails_leaves_all_models_as_they_were(monkeypatch):
    fleet = sg.Fleet(sg.DriftAware(sg.SOGP(capacity=5), warmup=3), size=SIZE, pending=10)
    X, Y = dense(np.random.default_rng(6), 5, SIZE)
    fresh = fleet.to_bytes()
    original = sg.DriftAware._pass

    def failing(self, ops, X, Y, conditions, kept):
        if Y is not None and X[0, 0] == 99.0:
            raise ValueError("no memory left")
        return original(self, ops, X, Y, conditions, kept)

    monkeypatch.setattr(sg.DriftAware, "_pass", failing)
    bad = X.copy()
    bad[0, 2, 0] = 99.0
    with pytest.raises(ValueError, match="model 2: no memory left"):
        fleet.track(bad, Y)
    assert fleet.to_bytes() == fresh
    fleet.track(X, Y)
    tickets = fleet.issue(np.concatenate([X[0], bad[0, 2:]]), ids=[0, 1, 2, 2]).ticket
    before = fleet.to_bytes()
    with pytest.raises(ValueError, match="model 2: no memory left"):
        fleet.learn_many(bad, Y)
    with pytest.raises(ValueError, match="model 2: no memory left"):
        fleet.resolve(tickets, [1.0, 2.0, 3.0, 4.0])
    assert fleet.to_bytes() == before
    fleet.resolve(tickets[:3], [1.0, 2.0, 3.0])


def test_broken_models_of_any_kind_start_again():
    fleet = sg.Fleet(sg.DriftAware(sg.SOGP(capacity=5)), size=SIZE)
    fleet.track(*dense(np.random.default_rng(8), 9, SIZE))
    model = fleet.model(1)
    model._within._state.mu[0] = np.nan
    fleet.replace(1, model)
    assert fleet.broken().tolist() == [1]
    assert fleet.refresh().tolist() == [1]
    assert fleet.broken().tolist() == []
    assert fleet.rows_seen.tolist() == [9, 0, 9]


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("ends", lambda ends: ends[:-1], "does not hold 3 models one by one"),
        ("ends", lambda ends: ends[::-1], "do not lie one after the other"),
        ("models", lambda models: models[:-1], "do not lie one after the other"),
        ("models", lambda models: np.roll(models, 1), "not a streamgp snapshot, or it is cut short"),
    ],
)
def test_a_file_of_no_models_is_refused(name, change, reason, monkeypatch):
    fleet = sg.Fleet(sg.SeasonalValue(3), size=SIZE)
    fleet.track(*dense(np.random.default_rng(9), 9, SIZE))
    arrays = fleet._engine.arrays()
    arrays[name] = np.ascontiguousarray(change(arrays[name]))
    monkeypatch.setattr(fleet._engine, "arrays", lambda: arrays)
    with pytest.raises(sg.SnapshotError, match=reason):
        sg.from_bytes(fleet.to_bytes())


def test_ids_may_come_first():
    X, y, ids = np.ones((3, 2)), np.arange(3.0), [1, 0, 1]
    one, other = (sg.Fleet(sg.SOGP(capacity=4), size=2) for _ in range(2))
    np.testing.assert_array_equal(one.track(ids, X, y).mean, other.track(X, y, ids=ids).mean)
    one.learn_many(ids, X, y)
    other.learn_many(X, y, ids=ids)
    assert one.to_bytes() == other.to_bytes()
    with pytest.raises(TypeError, match="track takes X and Y, with ids= for some models only, or ids, X and Y; got 4"):
        one.track(ids, X, y, y)
    with pytest.raises(TypeError, match=r"learn_many needs targets: learn_many\(X, Y\)"):
        one.learn_many(X, ids=ids)


def test_single_rows_of_models_that_cannot_fail_are_learned_without_a_copy_of_their_states(monkeypatch):
    rng = np.random.default_rng(2)
    fleet, models = sg.Fleet(MODELS["Lagged"](), size=SIZE), singles("Lagged")
    X, Y = dense(rng, 14, SIZE, ())
    fleet.learn_many(X[:12], Y[:12])
    for i, model in enumerate(models):
        model.learn_many(X[:12, i], Y[:12, i])
    monkeypatch.setattr(each.atomic, "undo_of", None)
    for t in (12, 13):
        fleet.track(X[t : t + 1], Y[t : t + 1])
        for i, model in enumerate(models):
            model.learn_many(X[t : t + 1, i], Y[t : t + 1, i])
    assert states(fleet) == [model.to_bytes() for model in models]
