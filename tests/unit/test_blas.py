"""BLAS has one thread while hyperparameters are searched, and as many as before afterwards."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import streamgp as sg
from streamgp import blas
from streamgp.batch.evidence import Evidence

threadpoolctl = pytest.importorskip("threadpoolctl")


def threads():
    return {pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture
def two_threads():
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        if threads() != {2}:
            pytest.skip("this BLAS has one thread only")
        yield


@pytest.mark.usefixtures("two_threads")
def test_tuning_takes_one_thread_and_gives_it_back():
    X = np.linspace(0.0, 6.0, 40)
    seen = []
    sg.tune(sg.SOGP(), X, np.sin(X), Evidence(restarts=0, iterations=3, progress=lambda *_: seen.append(threads())))
    assert seen
    assert all(found == {1} for found in seen)
    assert threads() == {2}


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_whoever_leaves_last_the_number_from_before_is_restored(first):
    inside, leave, seen = threading.Event(), threading.Event(), []

    def other():
        with blas.one_thread():
            seen.append(threads())
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=other)
    with blas.one_thread():
        assert threads() == {1}
        thread.start()
        assert inside.wait(60)
        if first == "theirs":
            leave.set()
            thread.join()
    leave.set()
    thread.join()
    assert seen == [{1}]
    assert threads() == {2}


def test_without_threadpoolctl_nothing_is_set(monkeypatch):
    monkeypatch.setattr(blas, "_inside", lambda: None)
    before = threads()
    with blas.one_thread():
        assert threads() == before


def test_tuning_tells_how_it_goes_if_asked(capsys):
    X = np.linspace(0.0, 6.0, 40)
    sg.tune(sg.SOGP(), X, np.sin(X), Evidence(restarts=1, iterations=5), verbose=True)
    assert "tune: start 2 of 2, iteration 0, log evidence" in capsys.readouterr().err
    with pytest.raises(TypeError, match="evidence must be"):
        sg.tune(sg.SOGP(), X, np.sin(X), 3, verbose=True)


def test_a_forecaster_and_a_fleet_tell_it_too(capsys):
    hours = np.arange(72.0)
    sg.Forecaster(np.sin(hours / 24 * 2 * np.pi) + 2, seasons=[24.0], log=False, trend=False, verbose=True)
    assert "Forecaster: seasons 24: log evidence" in capsys.readouterr().err
    X = np.random.default_rng(0).normal(size=(12, 2, 1))
    sg.Fleet(sg.KRLST(capacity=5), size=2).tune(X, np.sin(X[:, :, 0]), verbose=True)
    assert "tune: candidate 1 of" in capsys.readouterr().err
