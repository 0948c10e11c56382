"""Clients that keep the server waiting lose their connection, and keep nobody out."""

from __future__ import annotations

import contextlib
import socket
import urllib.error
import urllib.request

import pytest

from tests.serve.running import created, in_process, rows

HALF = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
NO_BODY = b"POST /v1/streams/s/rows HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"


@contextlib.contextmanager
def connected(client, count, data=b""):
    """So many connections that have sent this and nothing more."""
    with contextlib.ExitStack() as all_of_them:
        found = []
        for _ in range(count):
            one = socket.create_connection((client.base_url.host, client.base_url.port), timeout=30)
            found.append(all_of_them.enter_context(one))
            if data:
                one.sendall(data)
        yield found


def ended(one):
    """Whether the server closes a connection; waits for it."""
    try:
        while one.recv(65536):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize(
    "data", [b"", HALF, HALF + b"\r\n" + HALF], ids=["nothing", "half a request", "one and a half"]
)
def test_a_connection_that_sends_no_headers_in_time_is_closed(tmp_path, data):
    with in_process(tmp_path, headers=1) as client, connected(client, 3, data) as silent:
        assert all(map(ended, silent))
        assert client.get("/healthz").status_code == 200


def test_headers_that_come_byte_by_byte_count_from_the_first(tmp_path):
    with in_process(tmp_path, headers=1) as client, connected(client, 1, HALF) as (slow,):
        slow.settimeout(0.1)
        for _ in range(300):
            try:
                slow.sendall(b"x")
                if not slow.recv(1):
                    return
            except TimeoutError:
                continue
            except ConnectionError:
                return
        pytest.fail("the connection is still open")


def test_headers_that_do_not_end_are_not_kept(tmp_path):
    with in_process(tmp_path) as client, connected(client, 1, HALF) as (endless,):
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                endless.sendall(b"x-more: " + b"x" * 8000 + b"\r\n")
        assert ended(endless)


@pytest.mark.parametrize("data", [b"", HALF, NO_BODY], ids=["nothing", "half a request", "no body"])
def test_idle_connections_beyond_the_limit_make_room_for_others(tmp_path, data):
    with in_process(tmp_path, connections=10, headers=60) as client, connected(client, 30, data) as idle:
        for _ in range(3):
            assert client.get("/healthz").status_code == 200
        assert ended(idle[0])  # the one that was waited for longest


def test_who_listens_to_events_is_neither_closed_nor_made_room_with(tmp_path):
    with in_process(tmp_path, connections=10, headers=1) as client:
        path = created(client)
        with client.stream("GET", f"{path}/events") as events, connected(client, 30) as idle:
            assert all(map(ended, idle))
            lines = events.iter_lines()
            client.post(f"{path}/rows", json=rows(3))
            assert any(line == "event: rows" for line in lines)


def test_requests_beyond_the_limit_are_answered_with_503_while_all_others_are_at_work(tmp_path):
    with in_process(tmp_path, connections=3) as client, contextlib.ExitStack() as listening:
        path = created(client)
        listen = f"GET {path}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        statuses = []
        for _ in range(4):
            (one,) = listening.enter_context(connected(client, 1, listen))
            statuses.append(one.recv(65536).split()[1])
    assert statuses == [b"200", b"200", b"200", b"503"]


@pytest.mark.parametrize("size", [2_000, 20_000_000])
def test_a_client_that_sends_all_before_it_listens_sees_why_its_body_is_refused(tmp_path, size):
    with in_process(tmp_path, body=1024) as client:
        created(client)
        for method, path in (("POST", "/v1/streams/s/rows"), ("PUT", "/v1/streams/s"), ("POST", "/v1/nothing")):
            url = f"{str(client.base_url).rstrip('/')}{path}"
            request = urllib.request.Request(url, bytes(size), {"Content-Type": "application/json"}, method=method)
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=30)
            assert refused.value.code == (404 if path == "/v1/nothing" else 413)
            refused.value.close()


def test_a_client_that_asks_before_it_sends_is_refused_at_once(tmp_path):
    ask = (
        b"POST /v1/streams/s/rows HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999\r\nExpect: 100-continue\r\n\r\n"
    )
    with in_process(tmp_path, body=1024) as client:
        created(client)
        with connected(client, 1, ask) as (one,):
            assert one.recv(65536).startswith(b"HTTP/1.1 413")
