"""Ctrl-C inside a call: one of many rows leaves the model as it was, one row is learned whole or not at all.

Python raises it where a function begins or one of C ends; sys.setprofile sees the same places.
"""

from __future__ import annotations

import inspect
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

import streamgp as sg
from tests.contract.models import EXAMPLES, D, parameters
from tests.contract.test_contract import stream

SOURCES = str(Path(sg.__file__).parent)
POINTS = 6  # at which each kind of call is interrupted


@pytest.fixture(autouse=True)
def handler():
    """Ctrl-C raises, also where the tests run in the background and ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(params=parameters(EXAMPLES))
def model(request, monkeypatch):
    # What a thread does meanwhile is no place of a call, and how far it comes differs from call to call.
    monkeypatch.setattr("streamgp.auto.choosing.has_room", lambda: False)
    monkeypatch.setattr("streamgp.auto.tuned.has_room", lambda: False)
    built = EXAMPLES[request.param]()
    built.learn_many(*stream(1, 33))
    return built


def places(call, act=None, at=-1):
    """In how many places of the library a call could be interrupted; act() is called at one of them."""
    count = 0

    def profile(frame, event, _):
        nonlocal count
        code = frame.f_code
        if code.co_flags & inspect.CO_GENERATOR:  # Python itself swallows what is raised while it closes one
            return
        if event in ("call", "c_return") and code.co_filename.startswith(SOURCES):
            count += 1
            if count == at:
                sys.setprofile(None)
                act()

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(before)
    return count


def some(count):
    return sorted({1 + k * (count - 1) // (POINTS - 1) for k in range(POINTS)})


def interrupt():
    raise KeyboardInterrupt


def test_a_call_of_many_rows_that_is_interrupted_changes_nothing(model):
    X, y = stream(1, 20, seed=1)
    before = model.to_bytes()
    for name in ("learn_many", "track"):
        getattr(model.copy(), name)(X, y)  # so that nothing is left to be done once
        twin = model.copy()
        # The last place is where the call hands over to its caller: all is done.
        for at in some(places(lambda: getattr(twin, name)(X, y)) - 1):  # noqa: B023
            copy = model.copy()
            with pytest.raises(KeyboardInterrupt):
                places(lambda: getattr(copy, name)(X, y), interrupt, at)  # noqa: B023
            assert copy.to_bytes() == before, (name, at)
        getattr(copy, name)(X, y)
        assert copy.to_bytes() == twin.to_bytes(), name


def test_a_row_that_is_interrupted_is_learned_whole_or_not_at_all(model):
    x, y = np.ones(D), 0.5
    model.copy().learn_one(x, y)  # so that nothing is left to be done once
    before, twin = model.to_bytes(), model.copy()
    count = places(lambda: twin.learn_one(x, y))
    after = twin.to_bytes()
    for at in some(count):
        copy = model.copy()
        with pytest.raises(KeyboardInterrupt):
            places(lambda: copy.learn_one(x, y), lambda: signal.raise_signal(signal.SIGINT), at)  # noqa: B023
        assert copy.to_bytes() in (before, after)
        assert copy.rows_seen == model.rows_seen + (copy.to_bytes() == after)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    "call",
    [
        lambda model: model.issue(np.ones(D)),
        lambda model: model.resolve(model.rows_seen - 1, 2.0),
        lambda model: model.reset_memory(),
        lambda model: model.forget(0.5),
    ],
    ids=["issue", "resolve", "reset_memory", "forget"],
)
@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.more)])
def test_other_calls_that_are_interrupted_are_done_whole_or_not_at_all(call, every):
    model = sg.Delayed(sg.Calibrated(sg.Standardize(sg.SOGP(capacity=8, depth=2), warmup=10)), pending=4)
    model.learn_many(*stream(1, 33))
    for _ in range(3):
        model.issue(np.zeros(D))
    before, twin = model.to_bytes(), model.copy()
    count = places(lambda: call(twin))
    for at in range(1, count + 1, every):
        copy = model.copy()
        with pytest.raises(KeyboardInterrupt):
            places(lambda: call(copy), lambda: signal.raise_signal(signal.SIGINT), at)  # noqa: B023
        assert copy.to_bytes() in (before, twin.to_bytes())


def test_a_handler_that_does_not_raise_is_called_once_the_row_is_done():
    model, seen = sg.Calibrated(sg.KRLST()), []
    model.learn_one([1.0], 2.0)
    signal.signal(signal.SIGINT, lambda *_: seen.append((copy.rows_seen, copy.to_bytes())))
    before, twin = model.to_bytes(), model.copy()
    for at in range(1, 1 + places(lambda: twin.learn_one([2.0], 3.0))):
        copy = model.copy()
        places(lambda: copy.learn_one([2.0], 3.0), lambda: signal.raise_signal(signal.SIGINT), at)  # noqa: B023
        assert copy.to_bytes() == twin.to_bytes()
    assert set(seen) == {(1, before), (2, twin.to_bytes())}


@pytest.mark.parametrize(
    "build",
    [
        lambda: sg.SOGP(capacity=40, adapt=sg.SNGD(interval=10)),
        lambda: sg.Delayed(sg.SOGP(capacity=40, adapt=sg.SNGD(interval=10))),
        lambda: sg.KRLST(capacity=40),
        lambda: sg.LWPR(init_D=2.0),
    ],
    ids=["adapting", "Delayed", "KRLST", "LWPR"],
)
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there is no timer that sends a signal here")
def test_a_signal_in_the_middle_of_many_rows_changes_nothing(build):
    def stop(*_):
        raise TimeoutError

    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=len(X))
    model = build()
    model.learn_many(X[:60], y[:60])
    state = model.to_bytes()
    before = signal.signal(signal.SIGALRM, stop)
    try:
        for _ in range(2):
            twin = model
            with pytest.raises(TimeoutError):  # noqa: PT012
                signal.setitimer(signal.ITIMER_REAL, 0.01)
                while True:  # on a quick machine one call may be over before the signal comes
                    twin = model.copy()
                    twin.learn_many(X, y)
            assert model.to_bytes() == state
            if twin.rows_seen != len(X) + 60:
                assert twin.to_bytes() == state
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
