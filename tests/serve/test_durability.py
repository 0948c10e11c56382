"""What was answered is kept: through kill -9, full disks, restarts and other people's files."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from streamgp.cli.app import app
from streamgp.serve.journal import NAME
from streamgp.serve.messages import RefusedError
from tests.serve.killing import Killable, check, run, script
from tests.serve.running import Server, created, in_process, in_turn, rows, settled


def undisturbed(folder, scripts, seed=0):
    with in_process(folder) as client:

        class Never:
            url = str(client.base_url)

        return run(Never, scripts, 0, seed, 600)[:2]


def allow(journal, pages):
    """Let the file have no more than so many pages; those that it has, it keeps."""
    with contextlib.suppress(RefusedError):  # of others that are written in the same transaction
        journal.write(lambda cursor: cursor.execute(f"PRAGMA max_page_count={pages}").fetchall() and None)


@pytest.mark.more
def test_kill_9_at_random_moments_loses_and_doubles_nothing(tmp_path):
    scripts = {name: list(script(name, 60, seed=i)) for i, name in enumerate(["s0", "s1", "f2"])}
    expected = undisturbed(tmp_path / "calm", scripts)
    server = Killable(tmp_path / "killed")
    try:
        answers, left, kills, repeats = run(server, scripts, 6, seed=1, within=120)
    finally:
        server.close()
    assert kills >= 2
    assert repeats >= 2
    check((answers, left), expected, scripts)


@pytest.mark.more
def test_a_disk_that_fills_up_refuses_and_loses_nothing(tmp_path):
    scripts = {name: list(script(name, 60, seed=i)) for i, name in enumerate(["s0", "f1"])}
    expected = undisturbed(tmp_path / "calm", scripts)
    with in_process(tmp_path / "full") as client:
        journal = client.service.journal
        pages = iter([1, 10**6] * 10)

        class Full:
            url = str(client.base_url)

        # No page more than the file has, and then room again.
        disturb = lambda: allow(journal, next(pages))  # noqa: E731
        answers, left, _, repeats = run(Full, scripts, 20, seed=2, within=120, disturb=disturb)
        assert repeats > 0
    check((answers, left), expected, scripts)


def test_a_full_disk_is_a_sentence_with_507_and_healthz_knows(tmp_path):
    with in_process(tmp_path) as client:
        path = created(client)
        client.post(f"{path}/rows", json=rows(60))
        before = client.get(f"{path}/snapshot").content
        allow(client.service.journal, 1)
        answer = client.post(f"{path}/rows", json=rows(2000, 60))
        assert answer.status_code == 507
        assert "is full" in answer.json()["error"]["message"]
        assert client.get("/healthz").status_code == 503
        assert client.post(f"{path}/rows", json=rows(2000, 60)).status_code == 507
        assert client.get(f"{path}/snapshot").content == before
        allow(client.service.journal, 10**6)
        assert client.post(f"{path}/rows", json=rows(2000, 60)).json()["seen"] == 2060
        assert client.get("/healthz").status_code == 200


def test_a_restart_resumes_bit_for_bit_with_and_without_a_snapshot(tmp_path):
    with in_process(tmp_path) as client:
        path = created(client, lags=2)
        client.post(f"{path}/rows", json=rows(300))
        tickets = [row["ticket"] for row in client.post(f"{path}/predict", json=[{"x": 3.0}] * 3).json()["rows"]]
        stream = client.service.streams["s"]
        stream.save = lambda: b""  # as if it had been killed: there is no last snapshot
        state = client.get(f"{path}/snapshot").content
    for _ in range(2):  # the second start has the snapshot that the first stop took
        with in_process(tmp_path) as client:
            assert settled(client)["rows"] == 300
            assert client.get(f"{path}/snapshot").content == state
    with in_process(tmp_path) as client:
        answer = client.post(f"{path}/targets", json=[{"ticket": tickets[1], "value": 0.9}]).json()
        assert (answer["learned"], answer["seen"]) == (1, 301)


def test_a_repeated_key_gets_the_first_answer_also_after_a_restart(tmp_path):
    key = {"Idempotency-Key": "monday"}
    with in_process(tmp_path) as client:
        path = created(client)
        first = client.post(f"{path}/rows", json=rows(30), headers=key)
        assert client.post(f"{path}/rows", json=rows(30), headers=key).content == first.content
        other = client.post(f"{path}/rows", json=rows(31), headers=key)
        assert (other.status_code, other.json()["error"]["code"]) == (422, "key_reused")
        ticket = client.post(f"{path}/predict", json=[{"x": 1}], headers={"Idempotency-Key": "p"}).json()
        assert client.post(f"{path}/predict", json=[{"x": 1}], headers={"Idempotency-Key": "p"}).json() == ticket
    with in_process(tmp_path) as client:
        assert client.post(f"{path}/rows", json=rows(30), headers=key).content == first.content
        assert settled(client)["rows"] == 30
        too_long = client.post(f"{path}/rows", json=rows(1), headers={"Idempotency-Key": "k" * 201})
        assert too_long.status_code == 422


@pytest.mark.more
def test_a_second_process_is_refused_and_a_stopped_one_leaves_the_folder(tmp_path):
    server = Server(tmp_path)
    try:
        second = CliRunner().invoke(app, ["serve", "--data", str(tmp_path), "--port", "0"])
        assert second.exit_code == 3
        assert "belongs to another streamgp serve that is running" in second.output
    finally:
        server.stop()
    assert server.process.returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [NAME]


@pytest.mark.parametrize("content", [b"nonsense" * 1000, b"SQLite format 3\0" + bytes(4000)])
def test_a_damaged_file_is_refused_with_a_sentence(tmp_path, content):
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(OSError, match="is damaged"), in_process(tmp_path):
        pass


def test_damage_inside_the_file_is_found_at_the_start(tmp_path):
    with in_process(tmp_path) as client:
        client.post(f"{created(client)}/rows", json=rows(2000))
    data = bytearray((tmp_path / NAME).read_bytes())
    data[8192:40960] = os.urandom(32768)
    (tmp_path / NAME).write_bytes(data)
    with pytest.raises(OSError, match="is damaged"), in_process(tmp_path):
        pass


def test_the_file_of_another_program_is_refused(tmp_path):
    other = sqlite3.connect(tmp_path / NAME)
    other.execute("CREATE TABLE a (b)")
    other.close()
    with pytest.raises(OSError, match="not a file of streamgp serve"), in_process(tmp_path):
        pass
    (tmp_path / "new").mkdir()
    new = sqlite3.connect(tmp_path / "new" / NAME)
    new.executescript(f"PRAGMA application_id={0x73677031}; PRAGMA user_version=9; CREATE TABLE a (b);")
    new.close()
    with (
        pytest.raises(OSError, match="has version 9, this streamgp reads 3; serve it with the streamgp that wrote it"),
        in_process(tmp_path / "new"),
    ):
        pass


def test_a_folder_that_cannot_be_written_is_refused_with_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    done = CliRunner().invoke(app, ["serve", "--data", str(tmp_path / "file"), "--port", "0"])
    assert done.exit_code == 3
    assert "cannot be used" in done.output


def test_rows_beyond_the_retention_are_dropped_and_scores_of_all_stay(tmp_path):
    with in_process(tmp_path, retain=200, keep=0) as client:
        path = created(client)
        table = rows(3000)
        table[500]["y"] = 100.0
        for at in range(0, 3000, 50):
            client.post(f"{path}/rows", json=table[at : at + 50])
        stream = client.service.streams["s"]
        in_turn(client, stream, stream.save)
        journal = client.service.journal
        scores = client.get(path).json()["scores"]
        assert len(journal.points(stream.id, 10**6)) == 200
        assert journal.read("SELECT count(*) FROM ops") == [(0,)]  # the snapshot has all of them
        found = client.get(f"{path}/history", params={"rows": 3000, "points": 200}).json()
        assert found["rows"] == 200
        assert found["row"][-1] == 3000
        assert sum(part["rows"] for part in found["scores"]) == 200
    with in_process(tmp_path, retain=200) as client:
        assert settled(client)["rows"] == 3000
        assert client.get(path).json()["scores"] == scores


def test_requests_that_a_snapshot_has_are_forgotten_and_keys_history_and_events_stay(tmp_path):
    key = {"Idempotency-Key": "monday"}
    with in_process(tmp_path, keep=0) as client:
        path, stream = created(client), client.service.streams["s"]
        first = client.post(f"{path}/rows", json=rows(30), headers=key)
        in_turn(client, stream, stream.save)
        client.post(f"{path}/rows", json=rows(5, 30))
        assert client.service.journal.read("SELECT seq FROM ops") == [(2,)]
        stream.save = lambda: b""  # as after kill -9
        before = client.get(f"{path}/snapshot").content
    with in_process(tmp_path) as client:
        assert settled(client)["rows"] == 35
        assert client.get(f"{path}/snapshot").content == before
        assert client.post(f"{path}/rows", json=rows(30), headers=key).content == first.content
        assert client.get(f"{path}/history").json()["rows"] == 35
        with client.stream("GET", f"{path}/events", headers={"Last-Event-ID": "0"}) as events:
            assert "event: rows" in events.iter_lines()


def test_a_batch_that_fails_inside_leaves_the_stream_as_it_was(tmp_path, monkeypatch):
    from streamgp.job.pipeline import Pipeline

    with in_process(tmp_path) as client:
        path = created(client)
        client.post(f"{path}/rows", json=rows(60))
        before = client.get(f"{path}/snapshot").content
        take = Pipeline.take

        def half(self, block, ahead=False):
            take(self, block.part(0, 1), ahead)
            raise ValueError("halfway")

        monkeypatch.setattr(Pipeline, "take", half)
        answer = client.post(f"{path}/rows", json=rows(5, 60))
        monkeypatch.setattr(Pipeline, "take", take)
        assert (answer.status_code, answer.json()["error"]["message"]) == (422, "halfway")
        assert client.get(f"{path}/snapshot").content == before


def test_the_oldest_idempotency_keys_are_forgotten_by_number_and_by_size(tmp_path, monkeypatch):
    from streamgp.serve import journal

    with in_process(tmp_path) as client:
        path, stream = created(client), client.service.streams["s"]

        def known():
            stream._saved = -1
            in_turn(client, stream, stream.save)
            return [key for (key,) in client.service.journal.read("SELECT key FROM keys ORDER BY number")]

        for number in range(6):
            client.post(f"{path}/rows", json=rows(10, number), headers={"Idempotency-Key": f"k{number}"})
        assert len(known()) == 6
        monkeypatch.setattr(journal, "MOST_KEYS", 4)
        assert known() == ["k2", "k3", "k4", "k5"]
        size = len(client.post(f"{path}/rows", json=rows(10), headers={"Idempotency-Key": "k6"}).content)
        monkeypatch.setattr(journal, "MOST_ANSWERS", 2 * size + 20)
        assert known() == ["k5", "k6"]


def test_a_disk_that_cannot_be_written_is_a_sentence_with_503_and_reading_goes_on(tmp_path):
    with in_process(tmp_path) as client:
        path, journal = created(client), client.service.journal
        client.post(f"{path}/rows", json=rows(60))
        before = client.get(f"{path}/snapshot").content
        journal._writing.execute("PRAGMA query_only=ON")
        answer = client.post(f"{path}/rows", json=rows(5))
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "read_only")
        assert answer.headers["retry-after"]
        assert client.put("/v1/streams/other", json={"target": "y"}).status_code == 503
        assert len(client.get(f"{path}/history").json()["row"]) == 60
        assert client.get(f"{path}/snapshot").content == before
        journal._writing.execute("PRAGMA query_only=OFF")
        assert client.post(f"{path}/rows", json=rows(5)).json()["seen"] == 65


@pytest.mark.more
def test_many_streams_are_loaded_at_once_in_a_fresh_process():
    script = """
import sys, threading
sys.setswitchinterval(1e-6)
from streamgp.serve.learner import Learner
from streamgp.serve.ops import OPS, Op
from streamgp.serve.messages import SETTINGS, StreamSettings, Target, encode
import msgspec
settings = StreamSettings("y")
state, op = Learner(settings, "t").to_bytes(), msgspec.msgpack.encode([Op("targets", targets=[Target("a", 1.0)])])
together, done = threading.Barrier(16), []
def load():
    together.wait()
    Learner.from_bytes(settings, "t", state)
    done.append((OPS.decode(op)[0].kind, SETTINGS.decode(encode(settings)).target))
threads = [threading.Thread(target=load) for _ in range(16)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert done == [("targets", "y")] * 16
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
