"""The tables of the server are those of its committed results, and these hold what is promised; nothing runs."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

for package in ("starlette", "uvicorn", "msgspec", "httpx"):
    pytest.importorskip(package)


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("serve_results", ROOT / "benchmarks" / "serve.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def report(script):
    return json.loads(script.FILE.read_text())


def test_committed_tables_of_the_server_are_those_of_the_results(script, report):
    text = script.PAGE.read_text()
    assert script.page_with(text, report) == text
    assert len(re.findall(r"of the server -->\n\n\|", text)) == 3


def test_committed_results_have_a_server_that_was_killed_200_times_and_lost_nothing(report):
    assert report["kills"]["kills"] == 200
    assert report["kills"]["repeated"] > 200
    assert report["kills"]["differences"] == 0


def test_committed_results_have_a_full_disk_that_lost_nothing(report):
    assert report["disk"]["filled"] >= 5
    assert report["disk"]["repeated"] > 0
    assert report["disk"]["differences"] == 0


def test_committed_results_have_2000_malformed_requests_and_no_server_error(report):
    assert report["malformed"]["requests"] >= 2000
    assert all(int(status) < 500 for status in report["malformed"]["statuses"])


def test_committed_results_have_a_soak_without_lost_rows_or_growing_memory(report):
    soak = report["soak"]
    assert soak["streams"] == 100
    assert soak["failures"] == soak["rows_not_kept"] == 0
    assert soak["resident_MiB"]["at the end"] < 1.1 * soak["resident_MiB"]["after a third"]


def test_the_page_lists_every_route_with_its_scope():
    from streamgp.serve.routes import ROUTES

    text = (ROOT / "docs" / "serve.md").read_text()
    for route in ROUTES:
        if route.path not in ("/healthz", "/readyz", "/openapi.json"):
            found = re.search(rf"^\| `{route.method} {re.escape(route.path)}[^|]*\| (\w+) \|", text, re.MULTILINE)
            assert found, route.path
            assert found[1] == route.scope, route.path
