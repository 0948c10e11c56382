"""Requests that wait together are done together, and nobody can tell."""

from __future__ import annotations

import itertools
import threading
import time
from functools import partial

import pytest

from streamgp.job.pipeline import Pipeline
from streamgp.serve.learner import Learner
from streamgp.serve.messages import RefusedError, StreamSettings, encode
from streamgp.serve.ops import Note, Op
from tests.serve.running import asked, created, in_process, rows

SETTINGS = {"warmup": 20, "tune": False, "capacity": 10}


def learner(**settings):
    """One that has learned 60 rows."""
    own = {name: settings.pop(name) for name in ("warmup", "screen") if name in settings}
    found = Learner(StreamSettings("y", model="KRLST", settings=SETTINGS | own, **settings), "t")
    found.apply(Op("rows", rows=rows(60)))
    return found


def until(stream, waiting):
    """So many requests wait."""
    end = time.monotonic() + 30
    while stream.waiting < waiting and time.monotonic() < end:
        time.sleep(0.005)


@pytest.mark.parametrize("settings", [{}, {"lags": 2}, {"horizon": 2}, {"warmup": 80}], ids=str)
def test_requests_done_together_give_the_answers_and_the_state_of_one_after_the_other(settings):
    one_by_one, together = learner(**settings), learner(**settings)
    ops = [Op("rows", rows=rows(n, 60 + at)) for at, n in enumerate([1, 3, 1, 2, 15])]  # built from 64 of 80
    ops[1].rows[1]["x"] = None
    if not settings.get("horizon"):
        ops[2:2] = [Op("predict", rows=[{"x": 3.0}])]
    expected = [one_by_one.apply(op) for op in ops]
    found = together.apply_all(ops)
    assert [encode(outcome.answer) for outcome in found] == [encode(outcome.answer) for outcome in expected]
    assert [outcome.points.tobytes() for outcome in found] == [outcome.points.tobytes() for outcome in expected]
    assert together.to_bytes() == one_by_one.to_bytes()


@pytest.mark.parametrize(("model", "own"), [("auto", {}), ("KRLST", {"capacity": 10}), ("KRLST", {"screen": False})])
def test_few_rows_pass_one_by_one_as_they_do_in_a_block(model, own):
    settings = StreamSettings("y", model=model, settings={"warmup": 40, "tune": False} | own)
    table = rows(160)
    table[90]["y"], table[100]["x"], table[110]["y"] = None, 1e6, 1e5
    for row in table[120:]:
        row["y"] = 30.0 - 2.0 * row["y"]  # the stream changes

    def learned(parts):
        found, answers = Learner(settings, "t"), b""
        for start, stop in itertools.pairwise(parts):
            answers += encode(found.apply(Op("rows", rows=table[start:stop])).answer.rows)
        return answers.replace(b"][", b","), found.to_bytes()

    in_blocks = learned([0, 80, 160])
    assert learned([0, *range(50, 111), 113, 121, 160]) == in_blocks


def test_rows_with_other_columns_gaps_or_text_are_encoded_as_ever():
    encoder = learner(screen=False).pipeline.encoder
    whole = encoder.encode_complete([{"x": 1, "y": 2.5}, {"y": 3.0, "x": 4.0}])
    assert whole.X.tolist() == [[1.0], [4.0]]
    assert whole.y.tolist() == [2.5, 3.0]
    for row in ({"x": 1.0}, {"x": 1.0, "z": 2.0}, {"x": None, "y": 1.0}, {"x": "1", "y": 1.0}, {"x": 1e999, "y": 1.0}):
        assert encoder.encode_complete([row]) is None


def test_a_note_on_earlier_rows_is_told_with_the_last_of_several_requests(monkeypatch):
    found, note = learner(screen=False), Note("drift", 5, "a change")
    take = Learner._take
    monkeypatch.setattr(Learner, "_take", lambda self, new: (*take(self, new)[:2], [note, Note("drift", 61, "here")]))
    outcomes = found.apply_all([Op("rows", rows=rows(1, at)) for at in (60, 61, 62)])
    assert [[one.row for one in outcome.notes] for outcome in outcomes] == [[61], [], [5]]


def test_a_bad_row_among_requests_done_together_is_refused_alone():
    found = learner().apply_all([Op("rows", rows=[row]) for row in (*rows(1), {"x": "hot", "y": 1.0}, *rows(1, 1))])
    assert [isinstance(outcome, RefusedError) for outcome in found] == [False, True, False]
    assert "row 1 has 'hot' in the column 'x'" in found[1].message
    assert [outcome.answer.seen for outcome in (found[0], found[2])] == [61, 62]


def test_requests_that_wait_are_done_together_and_one_that_fails_spoils_no_other(tmp_path, monkeypatch):
    go, sizes, take = threading.Event(), [], Pipeline.take

    def failing(self, block, ahead=False):
        sizes.append(len(block.y))
        if 13.0 in block.y:
            take(self, block.part(0, 1), ahead)
            raise ValueError("halfway")
        return take(self, block, ahead)

    with in_process(tmp_path) as client:
        path, stream = created(client), client.service.streams["s"]
        client.post(f"{path}/rows", json=rows(60))
        monkeypatch.setattr(Pipeline, "take", failing)
        for bad in (2.0, 13.0):
            sizes.clear()
            go.clear()
            waiting = asked(client, lambda: stream.call(lambda: go.wait(30)))
            ops = [Op("rows", rows=[{"x": 1.0, "y": y}]) for y in (1.0, bad, 3.0)]
            found = [asked(client, partial(stream.ask, op)) for op in ops]
            until(stream, 3)
            go.set()
            assert waiting.result(30)
            problems = [one.exception(30) for one in found]
            assert [str(problem) for problem in problems if problem] == (["halfway"] if bad == 13.0 else [])
            assert sizes[0] == 3
        assert client.get(path).json()["rows"] == 65


def test_a_key_that_is_repeated_while_its_first_request_waits_is_done_once(tmp_path):
    go = threading.Event()
    with in_process(tmp_path) as client:
        path, stream = created(client), client.service.streams["s"]
        client.post(f"{path}/rows", json=rows(60))
        asked(client, lambda: stream.call(lambda: go.wait(30)))
        one = Op("rows", rows=rows(1))
        first, again = (asked(client, lambda: stream.ask(one, "k", b"digest")) for _ in range(2))
        other = asked(client, lambda: stream.ask(one, "k", b"another"))
        until(stream, 3)
        go.set()
        assert first.result(30) == again.result(30)
        assert other.exception(30).code == "key_reused"
        assert client.get(path).json()["rows"] == 61
