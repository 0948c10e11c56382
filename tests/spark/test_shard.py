"""A shard computes what one model for each key does, whatever the batches are, and survives being written and read."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import streamgp as sg
from streamgp.contract.snapshot import SnapshotError
from streamgp.spark.plan import TIMESTAMP
from streamgp.spark.rows import NO_TIME, Batch
from streamgp.spark.shard import Shard
from tests.spark.streams import RECIPES, as_found, one_by_one, plan, rows, some


def cuts(seed, n):
    """Where batches of random size begin and end."""
    rng = np.random.default_rng(seed)
    edges = np.unique(np.concatenate([[0, n], rng.integers(0, n, 6)]))
    return list(itertools.pairwise(edges))


def equal(found, wanted):
    assert found.keys() == wanted.keys()
    for place, numbers in wanted.items():
        np.testing.assert_array_equal(found[place], numbers, err_msg=str(place))


@pytest.mark.parametrize("name", RECIPES)
def test_a_shard_is_the_loop_over_single_models(name):
    model, batch = RECIPES[name](), rows(0, 200)
    wanted, singles = one_by_one(model, batch)
    shard, found = Shard(plan(model)), {}
    rng = np.random.default_rng(1)
    for first, last in cuts(2, 200):
        found |= as_found(shard.take(some(batch, first + rng.permutation(last - first))))
        shard = Shard.from_bytes(shard.to_bytes(), plan(model))
    equal(found, wanted)
    assert len(shard) == len(singles)
    assert shard.rows == 200
    for key, single in singles.items():
        assert shard.snapshot(key) == single.to_bytes()


def test_rows_that_no_model_takes_come_back_without_a_prediction():
    model, batch = RECIPES["KRLST"](), rows(7, 40, missing=0.0)
    X, Y, time = batch.X.copy(), batch.Y.copy(), batch.time.copy()
    X[3, 1], X[9, 0], Y[12], time[20] = np.nan, np.inf, -np.inf, NO_TIME
    keys = [*batch.keys[:30], None, *batch.keys[31:]]
    refused = [3, 9, 12, 20, 30]
    shard = Shard(plan(model))
    found = shard.take(Batch(keys, time, X, Y))
    assert len(found.key) == 40
    np.testing.assert_array_equal(np.flatnonzero(found.row == 0), np.arange(35, 40))
    assert np.isnan(found.mean[35:]).all()
    assert found.key[35:] == [keys[i] for i in refused]
    assert shard.refused == 5
    kept = np.setdiff1d(np.arange(40), refused)
    wanted, _ = one_by_one(model, some(batch, kept))
    equal({place: numbers for place, numbers in as_found(found).items() if numbers[-1]}, wanted)


def test_classes_that_are_none_are_refused():
    shard = Shard(plan(sg.SOGP(capacity=5, likelihood=sg.Probit())))
    X = np.zeros((3, 2))
    found = shard.take(Batch(["a"] * 3, np.arange(3), X, np.array([0.0, 0.5, 1.0])))
    assert found.row.tolist() == [1, 2, 0]
    assert shard.refused == 1


def test_models_that_forget_by_time_count_and_drop_rows_of_the_past():
    model = sg.KRLST(capacity=6, half_life=1e-4)
    batch = rows(9, 60, keys=2, missing=0.0)
    shard = Shard(plan(model, clock=TIMESTAMP))
    shard.take(some(batch, np.arange(20, 60)))
    before = [shard.snapshot(key) for key in ("key 0", "key 1")]
    found = shard.take(some(batch, np.arange(20)))
    assert found.key == []
    assert shard.late == 20
    assert [shard.snapshot(key) for key in ("key 0", "key 1")] == before
    single = model.clone()
    mine = [i for i in range(20, 60) if batch.keys[i] == "key 1"]
    single.track(batch.X[mine], batch.Y[mine], time=batch.time[mine] / 1e6)
    assert before[1] == single.to_bytes()


def test_idle_keys_leave_with_their_snapshots_and_begin_again():
    model, batch = RECIPES["Calibrated Standardize"](), rows(10, 150)
    wanted, singles = one_by_one(model, batch)
    shard = Shard(plan(model))
    shard.take(batch)
    last = {key: max(t for k, t in wanted if k == key) for key in singles}
    before = sorted(last.values())[1]  # two of five
    gone, models = shard.expire(before)
    assert set(gone.key) == {key for key, time in last.items() if time <= before}
    for key, time, model in zip(gone.key, gone.time, models, strict=True):
        assert time == last[key]
        assert sg.from_bytes(model).to_bytes() == singles[key].to_bytes()
        with pytest.raises(KeyError, match="no model of the key"):
            shard.snapshot(key)
    for key in singles.keys() - set(gone.key):
        assert shard.snapshot(key) == singles[key].to_bytes()
    assert shard.expire(before)[1] == []
    again = Batch([gone.key[0]], np.array([10_000]), np.ones((1, 2)), np.ones(1))
    assert shard.take(again).row.tolist() == [1]
    assert len(shard) == 4


def test_late_targets_reach_their_rows_as_in_delayed_models():
    model = RECIPES["Calibrated Standardize"]()
    shard, singles, waiting = Shard(plan(model, pending=50, ticket="ticket")), {}, []
    rng = np.random.default_rng(12)
    for step in range(12):
        batch = rows(20 + step, 15, keys=3, missing=0.4)._replace(time=step * 1000 + np.arange(15))
        tickets = np.full(15, -1)
        for i in range(15):  # some rows of this batch are targets of earlier ones
            if waiting and rng.random() < 0.4:
                key, ticket, _ = waiting.pop(int(rng.integers(len(waiting))))
                batch.keys[i], tickets[i] = key, ticket
                batch.X[i] = np.nan
                batch.Y[i] = rng.standard_normal()
        found = shard.take(batch._replace(tickets=tickets))
        issued = {}
        predicted = as_found(found)
        theirs = dict(zip(zip(found.key, found.time.tolist(), strict=True), found.ticket.tolist(), strict=True))
        for key, time, x, y, ticket in zip(batch.keys, batch.time.tolist(), batch.X, batch.Y, tickets, strict=True):
            single, own = singles.setdefault(key, (sg.Delayed(model.clone(), pending=50), {}))
            if ticket >= 0:
                single.resolve(own.pop(ticket), y)
                assert (key, time) not in predicted
            elif np.isnan(y):
                p = single.issue(x)
                own[theirs[key, time]] = p.ticket
                issued[key, time] = theirs[key, time]
                np.testing.assert_array_equal(predicted[key, time][:3], (p.mean, *p.interval()))
            else:
                p = single.predict_one(x)
                single.learn_one(x, y)
                np.testing.assert_array_equal(predicted[key, time][:3], (p.mean, *p.interval()))
        waiting += [(key, ticket, None) for (key, _), ticket in issued.items()]
        shard = Shard.from_bytes(shard.to_bytes())
    assert shard.unmatched == 0
    for key, (single, _) in singles.items():
        assert shard.snapshot(key) == single.inner.to_bytes()


def test_targets_under_tickets_of_no_row_are_counted():
    shard = Shard(plan(RECIPES["KRLST"](), pending=4, ticket="ticket"))
    X, none = np.zeros((2, 2)), np.array([-1, -1])
    shard.take(Batch(["a", "b"], np.array([0, 0]), X, np.array([1.0, 1.0]), none))
    found = shard.take(Batch(["a", "b"], np.array([1, 1]), X, np.full(2, np.nan), none))
    of_a, of_b = (found.ticket[found.key.index(key)] for key in "ab")
    before = shard.snapshot("b")
    wrong = Batch(["a", "b", "a"], np.array([2, 2, 2]), np.zeros((3, 2)), np.ones(3), np.array([of_b, 99, of_a]))
    assert shard.take(wrong).key == []  # another key's, nobody's, and its own
    assert shard.unmatched == 2
    assert shard.snapshot("b") == before
    twice = Batch(["b", "b"], np.array([3, 3]), X, np.ones(2), np.array([of_b, of_b]))
    shard.take(twice)
    assert shard.unmatched == 3


def test_the_state_of_another_model_is_refused_with_the_way_to_change_it():
    data = Shard(plan(sg.KRLST(capacity=5))).to_bytes()
    for other in (plan(sg.KRLST(capacity=6)), plan(sg.KRLST(capacity=5), shards=8), plan(sg.SOGP(capacity=5))):
        with pytest.raises(ValueError, match="start a new query with a new checkpoint: learn the history with"):
            Shard.from_bytes(data, other)
    assert len(Shard.from_bytes(data, plan(sg.KRLST(capacity=5), idle=60.0))) == 0  # idle can change


def test_damaged_states_are_refused():
    shard = Shard(plan(RECIPES["KRLST"]()))
    shard.take(rows(13, 30))
    data = bytearray(shard.to_bytes())
    data[len(data) // 2] ^= 1
    for wrong in (bytes(data), b"", b"short", shard.to_bytes()[:-1]):
        with pytest.raises(SnapshotError, match="damaged"):
            Shard.from_bytes(wrong)


def test_states_of_another_format_are_refused(monkeypatch):
    data = Shard(plan(RECIPES["KRLST"]())).to_bytes()
    monkeypatch.setattr("streamgp.contract.snapshot.FORMAT", 9)
    with pytest.raises(SnapshotError, match="has format 4, this version of streamgp reads format 9.*a new checkpoint"):
        Shard.from_bytes(data)


def test_a_ticket_of_a_key_that_has_left_never_meets_a_new_row():
    shard = Shard(plan(RECIPES["KRLST"](), pending=4, ticket="ticket"))
    row = Batch(["a"], np.array([0]), np.zeros((1, 2)), np.array([np.nan]), np.array([-1]))
    (old,) = shard.take(row).ticket
    assert shard.expire(0)[0].key == ["a"]
    shard = Shard.from_bytes(shard.to_bytes())
    (new,) = shard.take(row._replace(time=np.array([5]))).ticket
    assert new > old
    before = shard.snapshot("a")
    shard.take(Batch(["a"], np.array([6]), np.zeros((1, 2)), np.ones(1), np.array([old])))
    assert shard.unmatched == 1
    assert shard.snapshot("a") == before
