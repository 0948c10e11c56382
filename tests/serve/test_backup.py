"""Backups and upgrades: a copy made while the server works is a whole data folder, and nobody else can read it."""

from __future__ import annotations

import sqlite3
import stat

import pytest

from streamgp.contract import snapshot
from streamgp.serve.backup import back_up
from streamgp.serve.journal import JournalError
from tests.serve.running import created, in_process, rows, settled


def test_a_copy_of_a_running_server_is_served_with_the_same_answers(tmp_path):
    with in_process(tmp_path / "data") as client:
        path = created(client)
        client.post(f"{path}/rows", json=rows(60))
        for _ in range(2):  # the second replaces the first
            copy = back_up(tmp_path / "data", tmp_path / "copy")
        assert stat.S_IMODE(copy.stat().st_mode) == 0o600
        assert [found.name for found in copy.parent.iterdir()] == ["streamgp.sqlite"]
        expected = client.post(f"{path}/rows", json=rows(5, 60)).json()
    with in_process(tmp_path / "copy") as client:
        assert settled(client)["rows"] == 60
        assert client.post(f"{path}/rows", json=rows(5, 60)).json() == expected


def test_the_files_of_several_workers_are_told_and_left_alone(tmp_path):
    with in_process(tmp_path):
        pass
    (tmp_path / "streamgp-1.sqlite").write_bytes(b"")
    with (
        pytest.raises(JournalError, match=r"the files of several workers \(streamgp-1.sqlite\); serve it once with"),
        in_process(tmp_path),
    ):
        pass
    assert (tmp_path / "streamgp-1.sqlite").read_bytes() == b""


def test_what_cannot_be_copied_is_told_and_the_last_copy_stays(tmp_path):
    with pytest.raises(JournalError, match="holds no data of streamgp serve; give the folder with --data"):
        back_up(tmp_path, tmp_path / "copy")
    data = tmp_path / "data"
    with in_process(data):
        pass
    copy = back_up(data, tmp_path / "copy")
    before = copy.read_bytes()
    with pytest.raises(JournalError, match="is the data folder itself; give another folder with --to"):
        back_up(data, data / ".." / "data")
    (data / "streamgp.sqlite").unlink()
    sqlite3.connect(data / "streamgp.sqlite").execute("CREATE TABLE other (x)").connection.close()
    with pytest.raises(JournalError, match="is not a file of streamgp serve"):
        back_up(data, copy.parent)
    assert copy.read_bytes() == before
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="could not be copied to"):
        back_up(copy.parent, tmp_path / "file")
    assert [found.name for found in copy.parent.iterdir()] == ["streamgp.sqlite"]


def test_a_stream_of_a_format_that_is_not_read_says_so_and_can_be_replaced_or_deleted(tmp_path, monkeypatch):
    with in_process(tmp_path, keep=0) as client:
        for name in ("a", "b", "c"):
            client.post(f"{created(client, name)}/rows", json=rows(30))
        saved = client.get("/v1/streams/c/snapshot").content
    with monkeypatch.context() as older:
        older.setattr(snapshot, "FORMAT", snapshot.FORMAT - 1)
        with in_process(tmp_path) as client:
            answer = client.post("/v1/streams/a/rows", json=rows(1))
            assert answer.status_code == 503
            error = answer.json()["error"]
            assert (
                "a cannot be loaded: the snapshot has format 4, this version of streamgp reads format 3"
                in error["message"]
            )
            assert error["hint"].startswith("serve the folder with the streamgp that wrote it, or DELETE the stream")
            assert settled(client, "a")["state"] == "failed"
            assert len(client.get("/v1/streams/a/history").json()["row"]) == 30
            assert client.delete("/v1/streams/a").status_code == 204
    with sqlite3.connect(tmp_path / "streamgp.sqlite") as db:
        db.execute("UPDATE snapshots SET state=x'00' WHERE stream=(SELECT id FROM streams WHERE name='b')")
    db.close()
    with in_process(tmp_path) as client:
        assert client.post("/v1/streams/b/rows", json=rows(1)).status_code == 503
        assert client.put("/v1/streams/b/snapshot", content=saved).status_code == 200
        expected = client.post("/v1/streams/c/rows", json=rows(2, 30)).json()
        assert client.post("/v1/streams/b/rows", json=rows(2, 30)).json() == expected
        created(client, "a")
