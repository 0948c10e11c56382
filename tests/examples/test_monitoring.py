"""The monitoring example: its files fit together, and its metrics exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")
for package in ("starlette", "uvicorn", "msgspec", "httpx"):
    pytest.importorskip(package)

from tests.serve.running import created, in_process, rows  # noqa: E402

FOLDER = Path(__file__).parents[2] / "examples" / "monitoring"
DASHBOARD = FOLDER / "grafana" / "dashboards" / "streamgp.json"


def read(name):
    return yaml.safe_load((FOLDER / name).read_text())


def test_services_are_whole_and_reachable_from_this_machine_only():
    compose = read("compose.yaml")
    services, volumes = compose["services"], compose["volumes"]
    assert set(services) == {"tokens", "streamgp", "feeder", "prometheus", "grafana"}
    for name, service in services.items():
        assert service["image"], name
        assert not re.search(r":latest$", service["image"])
        assert service.get("depends_on", {}).keys() <= services.keys()
        for port in service.get("ports", []):
            assert re.fullmatch(r"127\.0\.0\.1:(\d+):\1", port), port
        for volume in service.get("volumes", []):
            source, target, *_ = volume.split(":")
            assert target.startswith("/")
            assert (FOLDER / source).exists() if source.startswith(".") else source in volumes, volume
    build = services["tokens"]["build"]
    assert (FOLDER / build["context"] / build["dockerfile"]).exists()
    scrape = read("prometheus.yml")["scrape_configs"][0]
    assert scrape["static_configs"] == [{"targets": ["streamgp:8650"]}]
    assert scrape["authorization"]["credentials_file"].startswith("/tokens/")
    source = read("grafana/provisioning/datasources/prometheus.yaml")["datasources"][0]
    assert source["url"] == "http://prometheus:9090"
    assert {panel["datasource"]["uid"] for panel in json.loads(DASHBOARD.read_text())["panels"]} == {source["uid"]}
    (provider,) = read("grafana/provisioning/dashboards/streamgp.yaml")["providers"]
    assert f"./grafana/dashboards:{provider['options']['path']}:ro" in services["grafana"]["volumes"]


def test_metrics_of_the_dashboard_and_the_rules_exist(tmp_path):
    with in_process(tmp_path) as client:
        path = created(client)
        client.post(f"{path}/rows", json=rows(40))
        client.get(path)
        told = client.get("/metrics?streams=*").text
        newest = client.get(f"{path}/history?rows=1").json()
    for name, key in (("target", "observed"), ("mean", "mean"), ("lower", "lower"), ("upper", "upper")):
        assert f'streamgp_last_{name}{{stream="s"}} {newest[key][-1]!r}\n' in told
    known = set(re.findall(r"^(streamgp_\w+)", told, re.MULTILINE))
    text = DASHBOARD.read_text() + (FOLDER / "rules.yml").read_text()
    used = set(re.findall(r"\bstreamgp_\w+", text))
    assert used
    assert used <= known
