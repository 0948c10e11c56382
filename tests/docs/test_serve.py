"""The server's page lists every route, and its answers are those of a server."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import math
import re
import shlex
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "serve.md"

for package in ("starlette", "uvicorn", "msgspec", "httpx"):
    pytest.importorskip(package)


def test_the_page_lists_every_route_with_its_scope():
    from streamgp.serve.app import ROUTES

    text = PAGE.read_text()
    for route in ROUTES:
        if route.path not in ("/healthz", "/readyz", "/openapi.json"):
            found = re.search(rf"^\| `{route.method} {re.escape(route.path)}[^|]*\| (\w+) \|", text, re.MULTILINE)
            assert found, route.path
            assert found[1] == route.scope, route.path


def asked(page):
    """Each command of curl on the page, and the answer below it: in comments, or in a block of its own; "": none."""
    blocks = r"^```sh\n(.*?)^```(?:\n\n```json\n(.*?)^```)?"
    for commands, below in re.findall(blocks, page, re.DOTALL | re.MULTILINE):
        found = re.findall(r"^(curl (?:.*\\\n)*.*)\n((?:#.*\n)*)", commands, re.MULTILINE)
        for number, (command, comments) in enumerate(found, start=1):
            printed = comments.replace("#", "") or (below if number == len(found) else "")
            yield shlex.split(command.replace("\\\n", "")), re.sub(r"\n *", "", printed.strip())


def answered(client, command):
    """What a server answers to a command of curl."""
    options = {name: value for name, value in itertools.pairwise(command) if name.startswith("-")}
    headers = dict([options["-H"].split(": ")]) if "-H" in options else {}
    url = urlsplit(next(word for word in command if word.startswith("http")))
    answer = client.request(
        options.get("-X", "GET"), f"{url.path}?{url.query}", content=options.get("-d"), headers=headers
    )
    assert answer.status_code < 300, answer.text
    return answer


def section(title):
    return re.search(rf"{re.escape(title)}.*?(?=^## |^\*\*|\Z)", PAGE.read_text(), re.DOTALL | re.MULTILINE)[0]


def test_the_first_answers_of_the_page_are_those_of_a_server(tmp_path, monkeypatch):
    from streamgp.serve import service
    from tests.serve.running import in_process

    monkeypatch.setattr(service, "new_tag", lambda: "5c1f09ab")  # otherwise drawn at random
    compared = 0
    with in_process(tmp_path) as client:
        for command, printed in asked(section("## The first five minutes")):
            answer = answered(client, command)
            if printed:
                rounded = json.loads(answer.text, parse_float=lambda text: round(float(text), 2))
                assert json.loads(printed) == rounded, command
                compared += 1
    assert compared == 3


@pytest.mark.more
def test_the_forecast_of_the_page_has_the_form_of_a_servers(tmp_path):
    from tests.serve.running import created, in_process

    start = dt.datetime(2026, 11, 8)
    rows = [
        {
            "time": (start + i * dt.timedelta(minutes=15)).isoformat(),
            "temperature": 60.0 + i % 7,
            "power": 350 + 20 * math.sin(2 * math.pi * i / 96) + i % 5,
        }
        for i in range(960)
    ]
    with in_process(tmp_path) as client:
        created(client, "boiler", target="power")
        client.post("/v1/streams/boiler/rows", json=rows)
        ((command, printed),) = asked(section("**Forecasts.**"))
        parts = printed.split("...")
        assert len(parts) == 7
        assert re.fullmatch(".*".join(map(re.escape, parts)), answered(client, command).text)
