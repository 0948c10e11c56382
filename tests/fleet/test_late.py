"""Rows that wait for their targets: tickets, places, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from tests.fleet.recipes import D, dense

SIZE = 3


def late(recipe, pending=100):
    return sg.Fleet(recipe, size=SIZE, pending=pending)


def test_the_oldest_rows_expire():
    fleet = late(sg.KRLST(), pending=3)
    tickets = [fleet.issue(np.ones((2, D)), ids=[0, 1]).ticket for _ in range(2)]
    assert [ticket.tolist() for ticket in tickets] == [[0, 1], [2, 3]]
    assert (fleet.pending, fleet.expired) == (3, 1)
    with pytest.raises(KeyError, match="no row waits under ticket 0: it is resolved, or expired when 3 newer"):
        fleet.resolve([0], [1.0])
    assert fleet.issue(np.ones((10, D)), ids=np.zeros(10, dtype=int)).ticket.tolist() == list(range(4, 14))
    assert (fleet.pending, fleet.expired) == (3, 11)
    fleet.resolve([13, 11, 12], [1.0, 2.0, np.nan])
    assert (fleet.pending, fleet.rows_seen.tolist()) == (0, [12, 2, 0])


def test_waiting_rows_follow_their_models():
    fleet = late(sg.KRLST(capacity=4))
    ticket = fleet.issue(np.eye(3, D), ids=[0, 1, 2]).ticket
    fleet.remove([1])
    assert fleet.pending == 2
    with pytest.raises(KeyError, match="no row waits under ticket 1"):
        fleet.resolve(ticket[1:2], [1.0])
    assert fleet.add(1).tolist() == [2]
    fleet.resolve(ticket[[2, 0]], [5.0, 1.0])
    single = sg.KRLST(capacity=4)
    single.learn_one(np.eye(3, D)[2], 5.0)
    assert fleet.model(1).to_bytes() == single.to_bytes()
    assert fleet.rows_seen.tolist() == [1, 1, 0]


def test_what_is_refused_changes_nothing():
    fleet = late(sg.KRLST(capacity=4))
    ticket = fleet.issue(np.ones((2, D)), ids=[0, 1]).ticket
    before = fleet.to_bytes()
    for tickets, Y, error, reason in (
        ([7], [1.0], KeyError, "ticket 7 has not been issued; the next one will be 2"),
        ([-1], [1.0], KeyError, "ticket -1 has not been issued"),
        ([0, 0], [1.0, 2.0], ValueError, "tickets has one of them twice"),
        ([0.0], [1.0], TypeError, "tickets must be whole numbers"),
        (ticket, [1.0], ValueError, r"shape \(2,\) or \(2, p\); got \(1,\)"),
        (ticket, [1.0, np.inf], ValueError, "model 1: y has inf"),
        (ticket, [[1.0, 2.0]] * 2, ValueError, "Y must have 1 targets"),
    ):
        with pytest.raises(error, match=reason):
            fleet.resolve(tickets, Y)
    with pytest.raises(ValueError, match="model 1: x has NaN"):
        fleet.issue([[1.0, 1.0], [np.nan, 1.0]], ids=[0, 1])
    with pytest.raises(ValueError, match="a fleet that issues rows before its first target has one output; got 2"):
        fleet.learn_many(np.ones((SIZE, D)), np.ones((SIZE, 2)))
    assert fleet.to_bytes() == before
    fleet.resolve([], [])
    assert fleet.issue(np.empty((0, D)), ids=[]).ticket.shape == (0,)
    assert fleet.to_bytes() == before


def test_a_fleet_that_keeps_no_rows():
    fleet = sg.Fleet(sg.KRLST(), size=2)
    with pytest.raises(ValueError, match="keeps no rows that wait: build it with pending="):
        fleet.issue([[1.0]], ids=[0])
    with pytest.raises(KeyError, match="no row has been issued"):
        fleet.resolve([0], [1.0])
    assert (fleet.pending, fleet.expired) == (0, 0)


@pytest.mark.parametrize(
    ("name", "where", "value", "reason"),
    [
        ("tickets", 1, 5, "tickets must be different whole numbers below 2"),
        ("rows", (0, 0), 9, "waiting.rows must be"),
        ("issued", 1, -1, "waiting.issued must be"),
    ],
)
def test_a_file_of_no_waiting_rows_is_refused(name, where, value, reason):
    fleet = late(sg.KRLST(capacity=4), pending=4)
    fleet.issue(np.ones((2, D)), ids=[0, 1])
    fleet._arrays()[f"waiting.{name}"][where] = value
    with pytest.raises(sg.SnapshotError, match=reason):
        sg.from_bytes(fleet.to_bytes())


def test_the_models_that_wait_under_tickets():
    fleet = late(sg.KRLST(capacity=5), pending=3)
    assert fleet.waiting([0, 1]).tolist() == [-1, -1]
    p = fleet.issue(np.zeros((3, D)), ids=[2, 0, 2])
    fleet.resolve(p.ticket[[1]], [1.0])
    assert fleet.waiting([*p.ticket, 99, -1]).tolist() == [2, -1, 2, -1, -1]
    fleet.issue(np.zeros((1, D)), ids=[1])  # in the place that is free
    assert fleet.waiting([*p.ticket, 3]).tolist() == [2, -1, 2, 1]
    fleet.issue(np.zeros((1, D)), ids=[1])  # in that of the oldest
    assert fleet.waiting([*p.ticket, 3]).tolist() == [-1, -1, 2, 1]
    fleet.remove(1)
    assert fleet.waiting([*p.ticket, 3]).tolist() == [-1, -1, 1, -1]
    with pytest.raises(TypeError, match="tickets must be whole numbers"):
        fleet.waiting([0.5])


def test_tickets_go_on_when_every_model_has_left():
    fleet = late(sg.KRLST(capacity=5))
    X, Y = dense(np.random.default_rng(10), SIZE, 1)
    fleet.issue(X[:, 0], ids=range(SIZE))
    fleet.remove(range(SIZE))
    assert fleet.pending == 0
    for resumed in (fleet.copy(), sg.from_bytes(fleet.to_bytes())):
        resumed.add(1)
        assert resumed.issue(X[0], ids=[0]).ticket.tolist() == [SIZE]
        with pytest.raises(KeyError, match="no row waits under ticket 0"):
            resumed.resolve([0], Y[0])


def test_tickets_go_on_when_the_first_targets_have_two_outputs():
    fleet = late(sg.KRLST(capacity=5))
    X, Y = dense(np.random.default_rng(11), 2, SIZE, (2,))
    fleet.issue(X[0, :1], ids=[0])
    fleet.remove(0)
    fleet.learn_many(X[:, 1:], Y[:, 1:])
    assert fleet.issue(X[0, :1], ids=[0]).ticket.tolist() == [1]
