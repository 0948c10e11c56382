"""The bank of lines: rows at once are rows one by one, and lines keep what they earned when others come and go."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from streamgp.auto.bank import Bank, Line
from streamgp.auto.candidates import least_squares
from streamgp.auto.step import MEAN, PROCESS, VALUE
from streamgp.contract.lanes import PREDICT, TAKE, listed
from streamgp.contract.model import Shape

NOTHING = np.empty((0, 3))


def process(kind, columns):
    kind._prepare(Shape(columns, 1, scalar=False, certain=True))
    return kind


def lines():
    """Two processes among values; columns are two inputs, the last target and the time."""
    units = np.array([[0.1, -0.2], [1.5, 0.5]])
    target_units = np.array([0.3, 2.0])
    return [
        Line("previous value", VALUE, (2,)),
        Line("mean", MEAN),
        Line("straight", PROCESS, (0, 1), -1, process(least_squares(0.99, 1.0), 2), units, target_units),
        Line("change", PROCESS, (1, 0), 2, process(sg.KRLST(capacity=6), 2), units[:, ::-1].copy(), target_units),
    ]


def stream(n=60):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.1 * rng.normal(size=n)
    y[17] = np.nan
    last = np.r_[np.nan, np.where(np.isnan(y), 0.0, y)[:-1]]
    return np.column_stack([X, last, np.arange(n)]), y


def say(bank, F, y, kind=PREDICT | TAKE):
    mixed = np.full((3, len(F)), np.nan)
    bank.say(listed(len(F), kind), F, y, NOTHING, np.zeros((0, 0)), mixed)
    return mixed


def test_rows_at_once_are_rows_one_by_one():
    F, y = stream()
    whole, single = (Bank(3, 1.0).placed(lines()) for _ in range(2))
    at_once = say(whole, F, y)
    one_by_one = np.hstack([say(single, F[t : t + 1], y[t : t + 1]) for t in range(len(y))])
    np.testing.assert_array_equal(at_once, one_by_one)
    assert np.isfinite(at_once[0, 2:]).all()
    for name, array in whole.arrays().items():
        np.testing.assert_array_equal(array, single.arrays()[name], err_msg=name)


def test_a_line_of_the_bank_says_what_its_process_says_alone():
    F, y = stream()
    bank = Bank(3, 1e9).placed([lines()[3]])  # beyond no limits
    said = say(bank, F[1:], y[1:])[0]
    alone, (units, (shift, scale)) = lines()[3].process, lines()[3][5:7]
    X, base = (F[1:, [1, 0]] - units[0]) / units[1], F[1:, 2]
    expected = shift + scale * alone.track(X, (y[1:, None] - base[:, None] - shift) / scale).mean[:, 0] + base
    np.testing.assert_allclose(said[40:], expected[40:], rtol=1e-8)


def test_lines_that_join_and_leave_let_the_others_keep_what_they_earned():
    F, y = stream()
    bank = Bank(3, 1.0).placed(lines())
    say(bank, F, y)
    before = bank.by_name(bank.long_errors())
    recent = bank.by_name(bank.recent_errors())
    weights = bank.by_name(bank.weights())
    new = Line("new", PROCESS, (0,), -1, process(least_squares(1.0, 1.0), 1), np.array([[0.0], [1.0]]))
    more = bank.joined([new], {"new": np.full(30, 0.5)})
    assert more.names == [*bank.names, "new"]
    less = more.placed([line for line in more.lines if line.name in ("mean", "change")])
    for one in (more, less):
        for name, error, late in zip(one.names, one.long_errors(), one.recent_errors(), strict=True):
            assert (error, late) == ((before | {"new": 0.5})[name], (recent | {"new": 0.5})[name]) or name == "new"
        assert one.weights().sum() == pytest.approx(1.0)
    assert more.by_name(more.long_errors())["new"] == pytest.approx(0.5)
    again = say(more.placed([line for line in more.lines if line.name != "new"]), F[:5], y[:5], PREDICT)
    np.testing.assert_array_equal(again, say(bank, F[:5], y[:5], PREDICT))
    assert bank.by_name(bank.weights()) == weights


def test_the_mean_goes_on_where_other_lines_come_before_it():
    F, y = stream()
    bank = Bank(3, 1.0).placed(lines()[:2])
    say(bank, F, y)
    bank = bank.placed([bank.lines[1]])
    assert say(bank, F[:1], y[:1], PREDICT)[0, 0] == pytest.approx(np.nanmean(y))


def test_a_line_that_joins_untried_starts_behind_the_best():
    F, y = stream()
    bank = Bank(3, 1.0).placed(lines())
    say(bank, F, y)
    best = np.nanmin(bank.long_errors())
    fresh = lines()[2]._replace(name="fresh")
    assert bank.joined([fresh], {}).long_errors()[-1] == pytest.approx(np.sqrt(2.0) * best)
