"""Workers share streams by their names; clients see one server, and the data folder serves any number of them."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import httpx
import pytest

from streamgp.serve.journal import Journal, JournalError
from streamgp.serve.metrics import added
from streamgp.serve.sharing import Share, file_of, owner, redistribute
from tests.serve.running import QUICK, Server, created, in_process, rows, settled

NAMES = [f"s{i}" for i in range(6)]


def owners(folder, workers):
    """The streams in the file of each worker."""
    found = []
    for worker in range(workers):
        journal = Journal(folder, create=False, name=file_of(worker))
        found.append([stream.name for stream in journal.streams()])
        journal.close()
    return found


def test_streams_move_to_the_file_of_their_worker_and_back_with_all_they_have(tmp_path):
    with in_process(tmp_path) as client:
        for name in NAMES:
            path = created(client, name)
            client.post(f"{path}/rows", json=rows(60), headers={"Idempotency-Key": "k"})
            client.service.streams[name].save = lambda: b""  # as after kill -9
        before = {name: client.get(f"/v1/streams/{name}/snapshot").content for name in NAMES}
    for workers in (3, 2):
        redistribute(tmp_path, workers)
        assert owners(tmp_path, workers) == [
            [name for name in NAMES if owner(name, workers) == worker] for worker in range(workers)
        ]
        assert len(list(tmp_path.glob("*.sqlite"))) == workers
    redistribute(tmp_path, 1)
    with in_process(tmp_path) as client:
        for name in NAMES:
            assert settled(client, name)["rows"] == 60
            assert client.get(f"/v1/streams/{name}/snapshot").content == before[name]
            again = client.post(f"/v1/streams/{name}/rows", json=rows(60), headers={"Idempotency-Key": "k"})
            assert again.json()["seen"] == 60
            assert client.get(f"/v1/streams/{name}/history").json()["rows"] == 60


def test_a_move_that_was_stopped_halfway_is_finished(tmp_path):
    with in_process(tmp_path) as client:
        for name in NAMES:
            created(client, name)
    copy = (tmp_path / file_of(0)).read_bytes()
    redistribute(tmp_path, 2)
    (tmp_path / file_of(0)).write_bytes(copy)  # the copies were made, and nothing was removed
    redistribute(tmp_path, 2)
    assert owners(tmp_path, 2) == [[name for name in NAMES if owner(name, 2) == worker] for worker in range(2)]


def test_a_folder_that_is_served_is_not_moved(tmp_path):
    with in_process(tmp_path), pytest.raises(JournalError, match="belongs to another streamgp serve that is running"):
        redistribute(tmp_path, 2)


def test_metrics_of_workers_are_added_up():
    one = '# HELP a_total Of all.\n# TYPE a_total counter\na_total{x="1"} 2\n# HELP b B.\n# TYPE b gauge\nb 1\n'
    other = one.replace('x="1"} 2', 'x="1"} 3\na_total{x="2"} 5')
    assert added([one, other]) == (
        '# HELP a_total Of all.\n# TYPE a_total counter\na_total{x="1"} 5\na_total{x="2"} 5\n'
        "# HELP b B.\n# TYPE b gauge\nb 2\n"
    )


def test_shares_have_every_stream_once():
    for workers in (1, 2, 5):
        for name in NAMES:
            assert sum(Share(number, workers).has(name) for number in range(workers)) == 1


@pytest.mark.more
def test_workers_are_one_server_for_clients_and_keep_what_they_answered(tmp_path):
    server = Server(tmp_path, "--workers", "2", wait=240)
    try:
        client = server.client  # one connection, which goes from worker to worker
        for name in NAMES:
            assert client.put(f"/v1/streams/{name}", json=QUICK).status_code == 201
        for at in range(0, 80, 20):
            for name in NAMES:
                assert client.post(f"/v1/streams/{name}/rows", json=rows(20, at)).json()["seen"] == at + 20
        assert [stream["name"] for stream in client.get("/v1/streams").json()["streams"]] == NAMES
        assert client.get("/healthz").json()["streams"] == len(NAMES)
        text = client.get("/metrics").text
        assert [line for line in text.splitlines() if line.startswith("streamgp_up")] == ["streamgp_up 2"]
        assert all(f'streamgp_rows{{stream="{name}"}} 80' in text for name in NAMES)
        large = client.post(f"/v1/streams/{NAMES[0]}/rows", json=rows(8000))
        assert large.json()["seen"] == 8080
        with client.stream("GET", f"/v1/streams/{NAMES[1]}/events") as events:
            httpx.post(f"{server.url}/v1/streams/{NAMES[1]}/rows", json=rows(1), timeout=60)
            assert any(line == "event: rows" for line in events.iter_lines())
        assert client.get("/v1/streams/nothing").status_code == 404
        assert client.put("/v1/streams/bad%20name", json=QUICK).status_code == 422
        slow = socket.create_connection((client.base_url.host, client.base_url.port), timeout=30)
        for byte in b"GET /v1/streams/s3 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n":
            slow.sendall(bytes([byte]))
        assert slow.recv(100).startswith(b"HTTP/1.1 200")
        slow.close()
    finally:
        server.kill()
    end = time.monotonic() + 60  # the workers see that their parent is gone
    while any(tmp_path.glob(".*.lock")) and time.monotonic() < end:
        time.sleep(0.05)
    redistribute(tmp_path, 1)
    with in_process(tmp_path) as client:
        assert [settled(client, name)["rows"] for name in NAMES] == [8080, 81, 80, 80, 80, 80]


@pytest.mark.more
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc to find the workers")
def test_a_worker_that_dies_stops_the_server_with_a_sentence(tmp_path):
    server = Server(tmp_path, "--workers", "2", wait=240)
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    workers = [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(workers[0], signal.SIGKILL)
    server.process.wait(timeout=60)
    server.stop()
    assert server.process.returncode == 3
    assert any("a worker ended unexpectedly" in line for line in server.lines)
