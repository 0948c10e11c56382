from __future__ import annotations

import numpy as np
import pytest

from streamgp.contract.waiting import Waiting


def row(ticket):
    return np.array([ticket + 0.25, -ticket])


def test_rows_are_taken_in_any_order_and_each_once():
    """Beside a plain dictionary of at most five tickets."""
    rng = np.random.default_rng(0)
    delay, plain = Waiting(5, 2), {}
    for ticket in range(200):
        lost = min(plain) if len(plain) == 5 else -1
        plain.pop(lost, None)
        assert delay.put(ticket, row(ticket)) == lost
        plain[ticket] = row(ticket)
        for wanted in rng.permutation(list(plain))[: rng.integers(0, 2)].tolist():
            np.testing.assert_array_equal(delay[wanted], plain[wanted])
            np.testing.assert_array_equal(delay.take(wanted), plain.pop(wanted))
            assert wanted not in delay
        assert len(delay) == len(plain)
        np.testing.assert_array_equal(delay.rows(), np.reshape([plain[key] for key in sorted(plain)], (-1, 2)))
    assert all((ticket in delay) == (ticket in plain) for ticket in range(-3, 210))


def test_the_state_has_a_fixed_shape_and_nothing_is_left_of_what_was_taken():
    delay, fresh = Waiting(3, 2), Waiting(3, 2)
    for ticket in range(7):
        delay.put(ticket, row(ticket))
    for ticket in (5, 4, 6):
        delay.take(ticket)
    for name, array in fresh.arrays().items():
        np.testing.assert_array_equal(delay.arrays()[name], array)


def test_a_ticket_is_good_once_and_tickets_grow():
    delay = Waiting(2, 2)
    delay.put(0, row(0))
    delay.take(0)
    with pytest.raises(KeyError, match="no row waits under ticket 0: it was taken, or lost its place"):
        delay.take(0)
    delay.put(3, row(3))
    with pytest.raises(ValueError, match="tickets must grow from 0 on; got 1 after 3"):
        delay.put(1, row(1))
    with pytest.raises(ValueError, match="tickets must grow from 0 on; got -1 after 3"):
        delay.put(-1, row(1))
    with pytest.raises(ValueError, match="places must be a whole number of at least 1; got 0"):
        Waiting(0, 2)
    np.testing.assert_array_equal(delay.rows(), [row(3)])
