"""Members are built in the background and join after fixed rows: the numbers are the same however long it takes."""

from __future__ import annotations

import os
import threading
from concurrent.futures import wait

import pytest

from streamgp.auto import background, tuned
from streamgp.auto.background import Job
from tests.auto.test_going_on import N, assert_same
from tests.auto.test_going_on import tuned as one
from tests.job.test_tuned import rows


@pytest.fixture(scope="module")
def stream():
    return rows(N)


@pytest.fixture(scope="module")
def expected(stream):
    """What is predicted of every row."""
    return one().track(*stream)


def test_rows_are_answered_while_members_are_built(stream, expected, monkeypatch):
    X, y = stream
    begun, go, found = threading.Event(), threading.Event(), tuned.hyperparameters

    def slowly(*given):
        if len(given[2]) > 20 and threading.current_thread() is not threading.main_thread():
            begun.set()
            assert go.wait(60)
        return found(*given)

    wait(list(background._thread(os.getpid())[1]))  # what models of other tests left behind
    monkeypatch.setattr(tuned, "hyperparameters", slowly)
    model = one()
    before = model.track(X[:99], y[:99])
    assert begun.wait(60)  # the thread may have been slow to begin
    assert not go.is_set()
    assert model._job._future.running()
    go.set()
    assert_same(before, expected[:99])
    assert_same(model.track(X[99:], y[99:]), expected[99:])


def test_what_fails_in_the_background_is_raised_when_it_is_due_and_changes_nothing(stream, monkeypatch):
    X, y = stream

    def broken(*_):
        raise FloatingPointError("no such luck")

    monkeypatch.setattr(tuned, "hyperparameters", broken)
    for model in (one(), one(background=False)):
        model.learn_many(X[:99], y[:99])
        state = model.to_bytes()
        with pytest.raises(FloatingPointError, match="no such luck") as caught:
            model.learn_one(X[99], y[99])
        assert caught.value.__notes__[-1] == "Tuned met this when it built a model from its first 80 rows."
        assert model.to_bytes() == state


@pytest.fixture
def busy():
    """The thread of the process, which waits for the end of the test."""
    begun, done = threading.Event(), threading.Event()
    first = Job(lambda: begun.set() or done.wait(60))
    assert begun.wait(60)
    yield first
    done.set()
    assert first.result()


@pytest.mark.usefixtures("busy")
def test_a_job_that_the_thread_has_not_begun_is_done_by_whoever_wants_it():
    assert Job(threading.current_thread).result() is threading.current_thread()


@pytest.mark.usefixtures("busy")
def test_a_busy_thread_gets_no_more_jobs_than_it_may_have_and_the_numbers_are_the_same(stream, expected):
    assert background.has_room()
    jobs = [Job(os.getpid) for _ in range(background.MOST_JOBS - 1)]
    assert not background.has_room()
    assert_same(one().track(*stream), expected)
    assert [job.result() for job in jobs] == [os.getpid()] * len(jobs)


def test_a_job_is_done_again_in_a_process_that_was_forked(busy, monkeypatch):
    job = Job(lambda: os.getpid())
    monkeypatch.setattr(os, "getpid", lambda: -1)  # threads do not survive a fork
    assert job.result() == -1
    assert Job(threading.current_thread).result() is not threading.main_thread()
    assert not busy._future.done()
