from __future__ import annotations

import numpy as np
import pytest

from streamgp.contract.waiting import Tickets, Waiting


def row(ticket):
    return np.array([ticket + 0.25, -ticket])


def issue(waiting, *tickets):
    """How many rows expired."""
    return waiting.issue(np.array(tickets), np.array([row(ticket) for ticket in tickets]))[1]


@pytest.mark.parametrize("most", [1, 4, 9])
def test_rows_are_resolved_in_any_order_and_each_once(most):
    """Beside a plain dictionary of at most five tickets; up to so many rows are issued at a time."""
    rng = np.random.default_rng(0)
    waiting, plain, next_ticket = Waiting(5, 2), {}, 0
    for _ in range(100):
        tickets = range(next_ticket, next_ticket + rng.integers(1, most + 1))
        next_ticket = tickets.stop
        plain |= {ticket: row(ticket) for ticket in tickets}
        expired = sorted(plain)[:-5]
        for ticket in expired:
            del plain[ticket]
        assert issue(waiting, *tickets) == len(expired)
        wanted = rng.permutation(list(plain))[: rng.integers(0, 3)]
        places = waiting.find(wanted, next_ticket)
        for ticket, place in zip(wanted.tolist(), places, strict=True):
            np.testing.assert_array_equal(waiting[ticket], plain[ticket])
            np.testing.assert_array_equal(waiting.rows[place], plain.pop(ticket))
        waiting.resolve(places)
        assert len(waiting) == len(plain)
        everything = np.arange(-3, next_ticket + 3)
        assert [int(ticket) in waiting for ticket in everything] == [ticket in plain for ticket in everything]
        assert (waiting.search(everything) >= 0).tolist() == [ticket in plain for ticket in everything]


def test_the_state_has_a_fixed_shape_and_nothing_is_left_of_what_was_resolved():
    waiting, fresh = Waiting(3, 2), Waiting(3, 2)
    issue(waiting, *range(7))
    for ticket in (5, 4, 6):
        waiting.resolve(waiting.place(ticket))
    for name, array in fresh.arrays().items():
        np.testing.assert_array_equal(waiting.arrays()[name], array)


def test_a_ticket_is_good_once_and_tickets_grow():
    waiting = Waiting(2, 2)
    issue(waiting, 0)
    waiting.resolve(waiting.place(0))
    with pytest.raises(KeyError, match="no row waits under ticket 0: it is resolved, or expired when 2 newer ones"):
        waiting[0]
    issue(waiting, 3)
    with pytest.raises(ValueError, match="tickets must grow from 0 on; got 1 after 3"):
        issue(waiting, 1)
    with pytest.raises(ValueError, match="tickets must grow from 0 on; got -1 after 3"):
        issue(waiting, -1)
    with pytest.raises(ValueError, match="places must be a whole number of at least 1; got 0"):
        Waiting(0, 2)
    assert (len(waiting), 3 in waiting) == (1, True)


def test_tickets_that_are_text_are_known_while_they_wait_and_for_a_while_after():
    tickets = Tickets(2)
    for name in "abc":
        tickets.issue(name, np.array([float(ord(name))]))
    assert (len(tickets), tickets.expired, tickets.closed) == (2, 1, {"a": False})
    assert tickets.resolve("a") is None
    np.testing.assert_array_equal(tickets.resolve("c"), [float(ord("c"))])
    assert (tickets.resolve("c"), tickets.resolved) == (None, 1)
    tickets.close("d")  # the oldest closed one is no longer known
    assert [name for name in "abcd" if name in tickets] == ["b", "c", "d"]
