"""Who may do what: every route with every scope, and where a server may listen."""

from __future__ import annotations

import hmac
import socket
import time

import pytest
from typer.testing import CliRunner

from streamgp.cli.app import app
from streamgp.serve import access, server
from streamgp.serve.access import SCOPES, Access, create_token, digest_of, is_loopback, list_tokens, revoke_token
from streamgp.serve.app import ROUTES
from streamgp.serve.journal import NAME
from streamgp.serve.messages import RefusedError
from streamgp.serve.server import listening_on, serve
from tests.serve.killing import FLEET
from tests.serve.running import QUICK, created, in_process, rows

# What the least scope of each route must be, written out: a route that is missing here fails the test.
NEEDED = {
    ("GET", "/v1/streams"): "read",
    ("PUT", "/v1/streams/{name}"): "write",
    ("GET", "/v1/streams/{name}"): "read",
    ("DELETE", "/v1/streams/{name}"): "admin",
    ("POST", "/v1/streams/{name}/rows"): "write",
    ("POST", "/v1/streams/{name}/predict"): "write",
    ("POST", "/v1/streams/{name}/targets"): "write",
    ("GET", "/v1/streams/{name}/history"): "read",
    ("GET", "/v1/streams/{name}/forecast"): "read",
    ("GET", "/v1/streams/{name}/lines"): "read",
    ("POST", "/api/v2/write"): "write",
    ("GET", "/v1/streams/{name}/events"): "read",
    ("GET", "/v1/streams/{name}/snapshot"): "read",
    ("PUT", "/v1/streams/{name}/snapshot"): "admin",
    ("GET", "/v1/fleets"): "read",
    ("PUT", "/v1/fleets/{name}"): "write",
    ("GET", "/v1/fleets/{name}"): "read",
    ("DELETE", "/v1/fleets/{name}"): "admin",
    ("POST", "/v1/fleets/{name}/rows"): "write",
    ("POST", "/v1/fleets/{name}/predict"): "write",
    ("POST", "/v1/fleets/{name}/targets"): "write",
    ("GET", "/v1/fleets/{name}/ids"): "read",
    ("GET", "/v1/fleets/{name}/history"): "read",
    ("GET", "/v1/fleets/{name}/events"): "read",
    ("GET", "/v1/fleets/{name}/snapshot"): "read",
    ("GET", "/metrics"): "read",
    ("GET", "/healthz"): "",
    ("GET", "/readyz"): "",
    ("GET", "/openapi.json"): "",
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server with a token of each scope."""
    folder = tmp_path_factory.mktemp("data")
    tokens = {scope: create_token(folder, scope) for scope in SCOPES}
    with in_process(folder) as client:
        admin = {"Authorization": f"Bearer {tokens['admin']}"}
        client.put("/v1/streams/s", json=QUICK, headers=admin)
        client.post("/v1/streams/s/rows", json=rows(30), headers=admin)
        fill_fleet(client, admin)
        snapshot = client.get("/v1/streams/s/snapshot", headers=admin).content
        yield client, tokens | {"": "", "wrong": "sgp_nonsense"}, snapshot


def fill_fleet(client, headers):
    client.put("/v1/fleets/f", json=FLEET, headers=headers)
    client.post("/v1/fleets/f/rows", json=[{"id": "s3", "x": 1.0, "y": 2.0}] * 30, headers=headers)


def test_the_table_has_all_routes():
    assert {(route.method, route.path): route.scope for route in ROUTES} == NEEDED


@pytest.mark.parametrize("given", ["", "wrong", *SCOPES])
@pytest.mark.parametrize(("method", "path"), NEEDED)
def test_every_route_with_every_scope(guarded, method, path, given):
    client, tokens, snapshot = guarded
    needed = NEEDED[method, path]
    bodies = {
        "/v1/streams/{name}": {"json": QUICK},
        "/v1/streams/{name}/rows": {"json": rows(1)},
        "/v1/streams/{name}/predict": {"json": [{"x": 1.0}]},
        "/v1/streams/{name}/targets": {"json": [{"ticket": "t", "value": 1.0}]},
        "/v1/streams/{name}/snapshot": {"content": snapshot},
        "/v1/fleets/{name}": {"json": FLEET},
        "/v1/fleets/{name}/rows": {"json": [{"id": "s3", "x": 1.0, "y": 2.0}]},
        "/v1/fleets/{name}/predict": {"json": [{"id": "s3", "x": 1.0}]},
        "/v1/fleets/{name}/targets": {"json": [{"ticket": "t", "value": 1.0}]},
        "/api/v2/write": {"content": "s x=1.0,y=2.0"},
    }
    cannot_yet = ("/forecast", "/lines")  # too few rows, and rows without times
    headers = {"Authorization": f"Bearer {tokens[given]}"} if given else {}
    body = bodies.get(path, {}) if method in ("PUT", "POST") else {}
    url = path.format(name="f" if "fleets" in path else "s")
    with client.stream(method, url, params={"id": "s3"}, headers=headers, **body) as answer:
        status = answer.status_code
    if not needed:
        assert status == 200
    elif given not in SCOPES:
        assert status == 401
        assert answer.headers["www-authenticate"] == "Bearer"
    elif SCOPES.index(given) < SCOPES.index(needed):
        assert status == 403
    else:
        assert status in (200, 201, 204) or (path.endswith(cannot_yet) and status == 409)
    if method == "DELETE" and status == 204:
        client.put("/v1/streams/s/snapshot", content=snapshot, headers=headers)
        fill_fleet(client, headers)


def test_tokens_are_kept_as_digests_only_and_compared_in_constant_time(tmp_path, monkeypatch):
    token = create_token(tmp_path, "read")
    data = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert token.encode() not in data
    assert token[4:].encode() not in data
    assert digest_of(token) in data
    assert (tmp_path / NAME).stat().st_mode & 0o077 == 0
    compared = []
    monkeypatch.setattr(access.hmac, "compare_digest", lambda a, b: compared.append((a, b)) or a == b)
    with in_process(tmp_path) as client:
        assert client.get("/v1/streams", headers={"Authorization": f"Bearer {token}"}).status_code == 200
        assert client.get("/v1/streams", headers={"Authorization": f"Basic {token}"}).status_code == 401
    assert compared
    assert hmac is access.hmac


def test_a_token_has_a_name_and_the_day_of_its_last_use(tmp_path):
    token = create_token(tmp_path, "read", "dashboard")
    create_token(tmp_path, "write")
    assert [(one.name, one.used) for one in list_tokens(tmp_path)] == [("dashboard", ""), ("", "")]
    before = time.strftime("%Y-%m-%d", time.gmtime())
    with in_process(tmp_path) as client:
        headers = {"Authorization": f"Bearer {token}"}
        assert client.get("/v1/streams", headers=headers).status_code == 200
        assert client.delete("/v1/streams/s", headers=headers).status_code == 403
    used, unused = list_tokens(tmp_path)
    assert used.used in (before, time.strftime("%Y-%m-%d", time.gmtime()))
    assert unused.used == ""
    shown = CliRunner().invoke(app, ["token", "list", "--data", str(tmp_path)]).output.splitlines()
    assert shown[0].endswith(f"{used.used}  dashboard")
    assert shown[1].endswith("unused")
    for name in ("x" * 61, "two\nlines"):
        with pytest.raises(ValueError, match="the name of a token is one line of up to 60 characters"):
            create_token(tmp_path, "read", name)
    assert len(list_tokens(tmp_path)) == 2


def test_a_token_can_be_made_and_revoked_while_the_server_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(access, "LOOKED", 0.0)
    with in_process(tmp_path) as client:
        assert client.get("/v1/streams").status_code == 200
        token = create_token(tmp_path, "read")
        assert client.get("/v1/streams").status_code == 401
        headers = {"Authorization": f"Bearer {token}"}
        assert client.get("/v1/streams", headers=headers).status_code == 200
        (found,) = list_tokens(tmp_path)
        assert found.scope == "read"
        assert revoke_token(tmp_path, found.id) == 0
        assert client.get("/v1/streams", headers=headers).status_code == 401
    with pytest.raises(ValueError, match="there is no token 7"):
        revoke_token(tmp_path, 7)
    with pytest.raises(ValueError, match="scope must be"):
        create_token(tmp_path, "root")
    with pytest.raises(OSError, match="holds no data"):
        list_tokens(tmp_path / "elsewhere")


def test_a_folder_needs_tokens_from_the_first_one_on_also_when_all_are_revoked(tmp_path, monkeypatch):
    monkeypatch.setattr(access, "LOOKED", 0.0)
    create_token(tmp_path, "admin")
    assert revoke_token(tmp_path, 1) == 0
    assert list_tokens(tmp_path) == []
    with in_process(tmp_path) as client:
        for method, path in (("GET", "/v1/streams"), ("PUT", "/v1/streams/s"), ("DELETE", "/v1/streams/s")):
            assert client.request(method, path, headers={"Host": "localhost"}).status_code == 401
        assert client.get("/healthz").status_code == 200
        token = create_token(tmp_path, "read")
        assert [found.id for found in list_tokens(tmp_path)] == [2]  # a number means one token for ever
        assert client.get("/v1/streams", headers={"Authorization": f"Bearer {token}"}).status_code == 200
    with pytest.raises(ValueError, match="there is no token 1"):
        revoke_token(tmp_path, 1)


@pytest.mark.parametrize("given", ["", "Bearer sgp_nonsense"])
def test_a_public_address_needs_a_token_also_where_there_never_was_one(tmp_path, monkeypatch, given):
    monkeypatch.setattr(server, "is_public", lambda _: True)
    with in_process(tmp_path) as client:
        answer = client.get("/v1/streams", headers={"Host": "localhost", "Authorization": given})
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized")


def test_a_socket_is_public_unless_its_address_is_loopback():
    for host, public in (("127.0.0.1", False), ("localhost", False), ("0.0.0.0", True)):
        with listening_on(host, 0) as bound:  # bound, and not listening
            assert server.is_public(bound) is public


def test_without_tokens_only_this_machine_is_answered_and_no_proxy(tmp_path):
    with in_process(tmp_path) as client:
        for name in access.PROXIED:
            answer = client.get("/v1/streams", headers={name: "127.0.0.1"})
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "foreign_machine")
            assert "make a token first" in answer.json()["error"]["hint"]
        rule = Access(client.service.journal)
        rule.check("admin", {"host": "localhost"}, "127.0.0.1")
        with pytest.raises(RefusedError, match="only requests that come from its own machine"):
            rule.check("admin", {"host": "localhost"}, "192.0.2.1")


@pytest.mark.parametrize("host", ["127.0.0.2", "::1", "localhost"])
def test_a_server_answers_at_any_loopback_address_that_it_prints(tmp_path, host):
    try:
        listening_on(host, 0).close()
    except OSError:
        pytest.skip(f"this machine has no {host}")
    with in_process(tmp_path, host=host) as client:
        assert client.get("/v1/streams").status_code == 200
        assert client.get("/v1/streams", headers={"Origin": str(client.base_url)}).status_code == 200
        assert client.get("/v1/streams", headers={"Host": "127.0.0.2.example.org"}).status_code == 403


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_other_addresses_than_loopback_need_a_token(tmp_path, host):
    assert not is_loopback(host)
    with pytest.raises(ValueError, match="has no token; make one first: streamgp token create --data"):
        serve(tmp_path, host=host, port=0)


def test_a_port_that_is_taken_is_refused_with_a_sentence(tmp_path):
    taken = socket.create_server(("127.0.0.1", 0))
    with taken, pytest.raises(OSError, match="cannot listen on port .* give another --port"):
        serve(tmp_path, port=taken.getsockname()[1])


def test_answers_are_sent_at_once_and_not_after_40_ms():
    with listening_on("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP  # asyncio sets TCP_NODELAY on such sockets only


def test_loopback_is_known_by_its_names():
    assert all(map(is_loopback, ["127.0.0.1", "localhost", "::1", "127.1.2.3", "::ffff:127.0.0.1"]))
    assert not any(
        map(is_loopback, ["192.168.1.1", "::ffff:192.168.1.1", "example.org", "0.0.0.0", "", "127.0.0.1.example.org"])
    )


def test_the_commands_print_sentences(tmp_path):
    def run(*arguments):
        return CliRunner().invoke(app, ["token", *arguments, "--data", str(tmp_path)])

    assert run("create", "--scope", "read").output.startswith("sgp_")
    assert "read" in run("list").output
    wrong = run("create", "--scope", "root")
    assert wrong.exit_code == 2
    assert "scope must be" in wrong.output
    assert run("create").exit_code == 0
    assert run("revoke", "1").output == ""
    last = run("revoke", "2")
    assert last.exit_code == 0
    assert "the last token: the server now refuses every request" in last.output
    assert f"streamgp token create --data {tmp_path}" in last.output
    assert run("list").output == ""
    assert run("revoke", "1").exit_code == 2


def test_cross_origin_reading_can_be_asked_for(tmp_path):
    token = create_token(tmp_path, "read")
    site = {"Origin": "https://mine.example", "Authorization": f"Bearer {token}"}
    with in_process(tmp_path, origins=("https://mine.example",)) as client:
        assert client.get("/v1/streams", headers=site).headers["access-control-allow-origin"] == "https://mine.example"
        other = client.get("/v1/streams", headers=site | {"Origin": "https://other.example"})
        assert "access-control-allow-origin" not in other.headers
    with in_process(tmp_path / "local") as client:
        created(client)
        assert client.get("/v1/streams", headers={"Origin": str(client.base_url)}).status_code == 200
