"""Upgrades: streams whose snapshots cannot be read are learned again from their rows, and old folders open."""

from __future__ import annotations

import sqlite3

import msgspec
import pytest

from streamgp.contract import snapshot
from streamgp.serve.access import digest_of, list_tokens
from streamgp.serve.journal import NAME
from tests.serve.running import created, in_process, rows, settled

# The tables of streamgp 0.3.
TABLES_OF_3 = """
CREATE TABLE streams (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, tag TEXT NOT NULL, settings BLOB NOT NULL,
    seq INTEGER NOT NULL);
CREATE TABLE ops (stream INTEGER, seq INTEGER, body BLOB, PRIMARY KEY (stream, seq)) WITHOUT ROWID;
CREATE TABLE keys (stream INTEGER, key TEXT, number INTEGER, digest BLOB, answer BLOB, PRIMARY KEY (stream, key))
    WITHOUT ROWID;
CREATE TABLE snapshots (stream INTEGER PRIMARY KEY, seq INTEGER, state BLOB);
CREATE TABLE points (stream INTEGER, row INTEGER, last INTEGER, seq INTEGER, data BLOB, PRIMARY KEY (stream, row))
    WITHOUT ROWID;
CREATE TABLE blocks (stream INTEGER, row INTEGER, level INTEGER, data BLOB, PRIMARY KEY (stream, row)) WITHOUT ROWID;
CREATE TABLE notes (stream INTEGER, seq INTEGER, number INTEGER, kind TEXT, row INTEGER, text TEXT,
    PRIMARY KEY (stream, seq, number)) WITHOUT ROWID;
CREATE TABLE tokens (id INTEGER PRIMARY KEY, digest BLOB NOT NULL, scope TEXT NOT NULL, created TEXT NOT NULL);
CREATE TABLE probe (id INTEGER PRIMARY KEY, filler BLOB);
"""


def tickets_of(client, path, count):
    return [row["ticket"] for row in client.post(f"{path}/predict", json=[{"x": 3.0}] * count).json()["rows"]]


def start(client, name, blocks):
    """A stream with so many blocks of ten rows, a ticket after each, of which every other one is resolved."""
    path, tickets = created(client, name), []
    for block in range(blocks):
        client.post(f"{path}/rows", json=rows(10, 10 * block))
        tickets += tickets_of(client, path, 1)
        if block % 2:
            client.post(f"{path}/targets", json=[{"ticket": tickets[-1], "value": 0.9}])
    return path, tickets


@pytest.fixture
def older(monkeypatch):
    """From now on snapshots have another format."""
    return lambda: monkeypatch.setattr(snapshot, "FORMAT", snapshot.FORMAT + 1)


def test_a_stream_whose_snapshot_cannot_be_read_is_learned_again_as_if_nothing_had_been(tmp_path, older):
    with in_process(tmp_path) as client:
        path, tickets = start(client, "s", 12)
        history = client.get(f"{path}/history").json()
        scores = client.get(path).json()["scores"]
        with in_process(tmp_path / "calm") as calm:
            _, others = start(calm, "s", 12)
            target = [{"ticket": others[0], "value": 0.5}]
            expected = [calm.post(f"{path}/rows", json=rows(5, 120)).json()]
            expected.append(calm.post(f"{path}/targets", json=target).json()["seen"])
    older()
    with in_process(tmp_path) as client:
        assert settled(client)["rows"] == 126
        assert client.get(f"{path}/history").json() == history
        assert client.get(path).json()["scores"] == scores
        assert client.post(f"{path}/rows", json=rows(5, 120)).json() == expected[0]
        answer = client.post(f"{path}/targets", json=[{"ticket": tickets[0], "value": 0.5}]).json()
        assert (answer["learned"], answer["seen"]) == (1, expected[1])
        last = int(tickets[-1].partition("-")[2])
        assert tickets_of(client, path, 1) == [f"{tickets[0].partition('-')[0]}-{last + 1}"]
        ((text,),) = client.service.journal.read("SELECT text FROM notes WHERE text LIKE 'the snapshot%'")
        assert text.endswith("the stream was learned again from its last 126 rows")
    with in_process(tmp_path) as client:  # from the snapshot that it took
        assert settled(client)["rows"] == 132


def test_with_a_limit_the_last_rows_are_learned_again_and_tickets_keep_their_numbers(tmp_path, older):
    with in_process(tmp_path, keep=50) as client:
        path, tickets = start(client, "s", 12)
    older()
    with in_process(tmp_path, keep=50) as client:
        kept = settled(client)["rows"]
        assert 30 <= kept <= 50
        history = client.get(f"{path}/history").json()["row"]
        assert history == list(range(1, kept + 1))
        open_, closed = (
            client.post(f"{path}/targets", json=[{"ticket": ticket, "value": 0.5}]).json()["targets"][0]["status"]
            for ticket in (tickets[-2], tickets[-1])
        )
        assert (open_, closed) == ("learned", "known")
        assert tickets_of(client, path, 1)[0].endswith("-13")
        assert client.post(f"{path}/rows", json=rows(5)).json()["seen"] == kept + 6


def test_a_stream_that_began_with_a_file_or_keeps_no_rows_fails_alone_with_a_sentence(tmp_path, older):
    with in_process(tmp_path) as client:
        path = created(client)
        client.post(f"{path}/rows", json=rows(60))
        saved = client.get(f"{path}/snapshot").content
        assert client.put("/v1/streams/uploaded/snapshot", content=saved).status_code == 201
        client.post("/v1/streams/uploaded/rows", json=rows(20))
    older()
    with in_process(tmp_path, keep=0) as client:
        assert settled(client)["rows"] == 60
        error = client.post("/v1/streams/uploaded/rows", json=rows(1)).json()["error"]
        assert (
            "uploaded cannot be loaded: the snapshot has format 4, this version of streamgp reads" in error["message"]
        )
        client.post(f"{path}/rows", json=rows(30))
    older()
    with in_process(tmp_path, keep=0) as client:
        assert client.post(f"{path}/rows", json=rows(1)).status_code == 503


def test_a_folder_of_0_3_opens_and_streams_whose_rows_are_all_there_are_learned(tmp_path, older):
    with in_process(tmp_path / "new") as client:
        for name in ("fresh", "settled"):
            start(client, name, 8)
        expected = client.post("/v1/streams/fresh/rows", json=rows(5)).json()
        client.service.streams["fresh"].save = lambda: b""  # as after kill -9
    new = sqlite3.connect(tmp_path / "new" / NAME)
    (tmp_path / "old").mkdir()
    old = sqlite3.connect(tmp_path / "old" / NAME)
    old.executescript(f"{TABLES_OF_3} PRAGMA application_id={0x73677031}; PRAGMA user_version=2;")
    for table, columns in {
        "streams": "id, name, tag, settings, seq",
        "ops": "stream, seq, body",
        "snapshots": "stream, seq, state",
        "points": "stream, row, last, seq, data",
    }.items():
        for row in new.execute(f"SELECT {columns} FROM {table}").fetchall():
            if table == "ops":  # which had one request each
                row = (*row[:2], msgspec.msgpack.encode(msgspec.msgpack.decode(row[2])[0]))
            old.execute(f"INSERT INTO {table} ({columns}) VALUES ({', '.join('?' * len(row))})", row)
    old.execute("DELETE FROM ops WHERE stream IN (SELECT stream FROM snapshots)")  # as 0.3 did
    old.execute("INSERT INTO blocks VALUES (1, 1, 0, x'00')")
    old.execute("ALTER TABLE ops ADD COLUMN rows INTEGER")  # which files have that 0.2 made
    old.execute("INSERT INTO tokens VALUES (1, ?, 'admin', '2026-01-01T00:00:00Z')", (digest_of("sgp_old"),))
    old.commit()
    old.close()
    new.close()
    older()
    with in_process(tmp_path / "old") as client:
        client.headers["Authorization"] = "Bearer sgp_old"
        assert settled(client, "fresh")["rows"] == expected["seen"]
        error = client.post("/v1/streams/settled/rows", json=rows(1)).json()["error"]
        assert "settled cannot be loaded: the snapshot has format" in error["message"]
        assert "send its rows again" in error["hint"]
        assert len(client.get("/v1/streams/settled/history").json()["row"]) == 84
    assert [(token.name, token.scope) for token in list_tokens(tmp_path / "old")] == [("", "admin")]
    older()
    with in_process(tmp_path / "old") as client:  # the rows that were kept by 0.3 are learned again
        client.headers["Authorization"] = "Bearer sgp_old"
        assert settled(client, "fresh")["rows"] == expected["seen"]
