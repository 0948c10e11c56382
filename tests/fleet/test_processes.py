"""Models in processes of their own are what they are alone, bit for bit; a call is done or undone as a whole."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pickle import loads

import numpy as np
import pytest

import streamgp as sg
from streamgp.compiled.sources import environment
from streamgp.fleet import holder, remote
from streamgp.fleet.each import MODELS_EACH, how_many
from tests.fleet.recipes import FAILS, OTHERS, WAITS, D, Touchy, dense
from tests.fleet.walk import Walk, states
from tests.same import assert_same

SIZE = 5


@pytest.fixture
def inside(monkeypatch):
    """What processes would do is done here, at once: all they are told and say goes through the same bytes."""
    monkeypatch.setattr(remote, "_started", holder.Holder)
    monkeypatch.setattr(remote, "_end", lambda *_: None)
    monkeypatch.setattr(remote, "_asked", lambda process, told: loads(process.reply(loads(told))))


def in_processes(fleet):
    return fleet._engine._remotes is not None


def both(recipe, **settings):
    """A fleet in one process, and one whose models three hold, after the same rows."""
    one, other = (sg.Fleet(recipe(), size=SIZE, threads=threads, **settings) for threads in (1, 3))
    for rows in range(1, 3):
        X, Y = dense(np.random.default_rng(rows), rows, SIZE)
        assert_same(one.track(X, Y), other.track(X, Y))
    assert in_processes(other)
    return one, other


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("name", ["DriftAware", "Committee", "Lagged", "Ahead", "Delayed", "SeasonalValue"])
def test_models_in_processes_are_those_of_one_process(name):
    fleet = sg.Fleet(OTHERS[name](), size=4, threads=3, pending=100)
    assert in_processes(Walk(fleet, OTHERS[name](), late=name != "Delayed").go().fleet)


@pytest.mark.usefixtures("inside")
def test_processes_hold_equally_many_models_and_broken_ones_start_again():
    fleet = both(OTHERS["SeasonalValue"])[1]
    fleet.remove([0, 3])
    assert fleet.add(4).tolist() == [3, 4, 5, 6]
    fleet.remove(6)
    assert np.bincount(fleet._engine._held_by).tolist() == [2, 2, 2]
    broken = fleet.model(2)
    broken._rows[:] = -1
    fleet.replace(2, broken)
    assert fleet.broken().tolist() == fleet.refresh().tolist() == [2]
    assert fleet.broken().tolist() == []
    assert fleet.rows_seen.tolist() == [3, 3, 0, 0, 0, 0]


@pytest.mark.usefixtures("inside")
def test_a_model_that_fails_in_its_process_leaves_all_models_as_they_were():
    fleet = both(lambda: Touchy(2), pending=10)[1]
    X, Y = dense(np.random.default_rng(6), 4, SIZE)
    fleet.learn_many(X[:2, [1, 3]].reshape(4, D), np.zeros(4), ids=[1, 3, 1, 3])  # only these say that they may fail
    tickets = fleet.issue(X[0]).ticket
    before = fleet.to_bytes()
    bad = X.copy()
    bad[0, [3, 1], 0] = FAILS
    for learned in ((bad, Y), (bad[0], Y[0])):
        with pytest.raises(ValueError, match="model 1: no memory left"):
            fleet.learn_many(*learned)
        assert fleet.to_bytes() == before
    fleet.resolve(tickets, Y[0])
    assert fleet.pending == 0


@pytest.mark.usefixtures("inside")
def test_an_error_that_is_not_the_fault_of_a_row_says_where_it_arose(monkeypatch):
    fleet = both(OTHERS["SeasonalValue"])[1]

    class OddError(Exception):
        def __init__(self, this, that):
            super().__init__(f"{this} and {that}")

    def failing(kind, *given):
        def fail(*_):
            raise kind(*given)

        monkeypatch.setattr(sg.SeasonalValue, "_pass", fail)

    failing(ZeroDivisionError, "nothing is left")
    with pytest.raises(ZeroDivisionError, match="nothing is left") as found:
        fleet.predict_many(np.zeros((SIZE, D)))
    assert "in fail" in found.value.__notes__[0]
    failing(OddError, "one", "two")
    with pytest.raises(RuntimeError, match="OddError: one and two"):
        fleet.predict_many(np.zeros((SIZE, D)))


@pytest.mark.usefixtures("inside")
def test_a_process_that_was_forked_does_not_speak_with_those_of_its_parent():
    fleet = both(OTHERS["SeasonalValue"])[1]
    fleet._engine._remotes._process = -1  # as a child finds it
    with pytest.raises(RuntimeError, match="held by processes that serve another process"):
        fleet.to_bytes()


def test_how_many_processes_hold_models_is_decided_before_the_first_row(monkeypatch):
    assert [how_many(Touchy(2), 5, threads, 16) for threads in (None, 1, 3, 9)] == [1, 1, 3, 5]
    sizes = [1, MODELS_EACH, 2 * MODELS_EACH, 1000]
    assert [how_many(Touchy(2), size, None, 16) for size in sizes] == [1, 1, 2, 16]
    recipe = sg.Lagged(sg.RecursiveGP(np.zeros((1, D + 1)), mean=lambda X: X.sum(axis=1)), lags=1)
    assert how_many(recipe, 1000, 4, 16) == 1
    monkeypatch.setattr(Touchy, "__module__", "__main__")
    assert how_many(Touchy(2), 1000, 4, 16) == 1


@pytest.mark.more
def test_ctrl_c_undoes_a_call_and_ended_processes_are_told():
    rng = np.random.default_rng(3)
    fleet = both(lambda: Touchy(2))[1]
    processes = list(fleet._engine._remotes._all)
    X, Y = dense(rng, 4, SIZE)
    before, slow = fleet.to_bytes(), X.copy()
    slow[0, :, 0] = WAITS
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # tests that run in the background ignore it
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            fleet.learn_many(slow, Y)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, handler)
    assert fleet.to_bytes() == before
    fleet.learn_many(X, Y)
    processes[1].kill()
    processes[1].wait()
    with pytest.raises(RuntimeError, match="a process that held models of this fleet has ended, and they are lost"):
        fleet.learn_many(X, Y)
    fleet.predict_many(X[0, :1], ids=[0])  # another process holds it
    del fleet
    gc.collect()
    assert [process.poll() is not None for process in processes] == [True] * 3


@pytest.mark.more
def test_auto_is_built_in_processes_as_it_is_alone():
    fleet, models = sg.Fleet(OTHERS["Auto"](), size=2, threads=2), [OTHERS["Auto"]() for _ in range(2)]
    rng = np.random.default_rng(4)
    for rows in (10, 30, 60, 1, 20):
        X, Y = dense(rng, rows, 2)
        p = fleet.track(X, Y)
        for i, model in enumerate(models):
            assert_same(p[:, i], model.track(X[:, i], Y[:, i]))
    assert in_processes(fleet)
    assert states(fleet) == [model.to_bytes() for model in models]


ENDLESS = """
import os, signal
import numpy as np
import streamgp as sg
from tests.fleet.recipes import Touchy, WAITS

fleet = sg.Fleet(Touchy(2), size=2, threads=2)
for _ in range(2):
    fleet.learn_many(np.zeros((2, 2)), np.zeros(2))
print(*(one.pid for one in fleet._engine._remotes._all), flush=True)
while True:
    fleet.learn_many(np.full((2, 2, 2), WAITS), np.zeros((2, 2)))
"""


@pytest.mark.more
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_processes_end_with_the_one_that_started_them():
    with subprocess.Popen([sys.executable, "-c", ENDLESS], env=environment(), stdout=subprocess.PIPE) as parent:
        found = [f"/proc/{number}" for number in parent.stdout.readline().decode().split()]
        assert len(found) == 2
        parent.kill()
    for _ in range(100):
        if not any(map(os.path.exists, found)):
            break
        time.sleep(0.1)
    assert not any(map(os.path.exists, found))
