"""Several servers behind one address: a real proxy shares the streams among them by the path."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from streamgp.serve import server
from streamgp.serve.access import create_token
from tests.serve.killing import free_port
from tests.serve.running import QUICK, in_process, rows

DOCS = Path(__file__).parents[2] / "docs" / "serve.md"
NGINX = """
daemon off; master_process off; pid {folder}/pid; error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    {server}
}}
"""
CADDY = "{{\nadmin off\n}}\n{server}"
# Of each proxy: where the example listens, how the test says it, what is around the example, and how it starts.
PROXIES = {
    "nginx": ("listen 80;", "listen 127.0.0.1:{port};", NGINX, ["-p", "{folder}", "-c", "{file}"]),
    "caddy": (":80 {", "http://127.0.0.1:{port} {{", CADDY, ["run", "--adapter", "caddyfile", "--config", "{file}"]),
}


def example(name):
    """An example of the page on servers."""
    return re.search(rf"^```{name}\n(.*?)^```", DOCS.read_text(), re.MULTILINE | re.DOTALL)[1]


@pytest.fixture(params=PROXIES)
def proxy(request, tmp_path):
    """Two servers, and a client of the proxy before them that the documents describe."""
    name = request.param
    program = shutil.which(name) or shutil.which(name, path="/usr/sbin")
    if program is None:
        pytest.skip(f"the example is tested with {name}: apt-get install {name}")
    port, (listens, here, around, options) = free_port(), PROXIES[name]
    config = example({"caddy": "caddyfile"}.get(name, name)).replace(listens, here.format(port=port))
    with ExitStack() as open_:
        servers = {}
        for plant, at in (("north", "8651"), ("south", "8652")):
            token = create_token(tmp_path / plant, "admin")
            servers[plant] = open_.enter_context(in_process(tmp_path / plant))
            servers[plant].headers["Authorization"] = f"Bearer {token}"
            config = config.replace(f"127.0.0.1:{at}", f"127.0.0.1:{servers[plant].base_url.port}")
        file = tmp_path / "config"
        file.write_text(around.format(folder=tmp_path, server=config))
        command = [program, *(option.format(folder=tmp_path, file=file) for option in options)]
        homes = {"XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
        process = subprocess.Popen(command, env=os.environ | homes, stderr=subprocess.DEVNULL)
        open_.callback(process.wait, 30)
        open_.callback(process.terminate)
        client = open_.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60))
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                client.get("/")
                break
            except httpx.TransportError:
                time.sleep(0.05)
        yield client, servers


def test_a_proxy_shares_streams_among_servers_by_the_path(proxy):
    client, servers = proxy
    for name, one in servers.items():
        token = {"Authorization": one.headers["Authorization"]}
        path = f"/v1/streams/{name}-pump"
        assert client.put(path, json=QUICK, headers=token).status_code == 201
        assert client.post(f"{path}/rows", json=rows(30), headers=token).json()["seen"] == 30
        assert [stream["name"] for stream in one.get("/v1/streams").json()["streams"]] == [f"{name}-pump"]
        with client.stream("GET", f"{path}/events", headers=token) as events:  # nothing is held back
            lines = events.iter_lines()
            assert next(lines) == "retry: 2000"
            client.post(f"{path}/rows", json=rows(1, 30), headers=token)
            assert "event: rows" in lines
        page = client.get(f"/{name}/")
        assert page.status_code == 200
        for file in re.findall(r'(?:src|href)="(page/[^"]+)"', page.text):
            assert client.get(f"/{name}/{file}").content == one.get(f"/{file}").content
        found = client.get(f"/{name}/v1/streams", headers=token).json()["streams"]
        assert [stream["name"] for stream in found] == [f"{name}-pump"]
        assert client.get(f"/{name}/v1/streams").status_code == 401


def test_nothing_of_the_page_is_at_the_root(tmp_path):
    with in_process(tmp_path) as client:
        page = client.get("/").text
        names = re.findall(r'(?:src|href)="([^"#]+)"', page)
        assert len(names) >= 5
        assert all(name.startswith("page/") for name in names)
        script = client.get("/page/page.js").text
        assert not re.findall(r"""["'`]/(?:v1|page)""", script)


@pytest.mark.parametrize("way", ["/gp/", "/"])
def test_below_a_path_a_server_answers_whether_its_proxy_takes_the_path_off_or_not(tmp_path, way):
    with in_process(tmp_path, base="/gp/") as client:
        assert client.get(way).text.startswith("<!doctype html>")
        assert client.get(f"{way}page/page.js").status_code == 200
        assert client.put(f"{way}v1/streams/s", json=QUICK).status_code == 201
        assert client.post(f"{way}v1/streams/s/rows", json=rows(30)).json()["seen"] == 30
        assert client.get(f"{way}healthz").json()["streams"] == 1
        assert client.get(f"{way}v1/none").json()["error"]["code"] == "not_found"
        assert {"PUT", "GET", "DELETE"} <= set(client.patch(f"{way}v1/streams/s").headers["allow"].split(", "))
        assert client.get(f"{way}openapi.json").json()["servers"] == [{"url": "/gp"}]


@pytest.mark.parametrize("base", ["gp", "/gp", "gp/", "/g p/", "http://example.org/gp/", ""])
def test_a_base_url_that_is_no_path_is_refused(tmp_path, base):
    with pytest.raises(ValueError, match="--base-url takes the path below which a proxy shows the server"):
        server.serve(tmp_path, port=0, base=base)
    assert not list(tmp_path.iterdir())
