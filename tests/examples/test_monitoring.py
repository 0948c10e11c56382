"""The monitoring example: its files fit together, its metrics exist, and Prometheus reads them from a real server."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")
for package in ("starlette", "uvicorn", "msgspec", "httpx"):
    pytest.importorskip(package)

from tests.serve.running import created, in_process, rows  # noqa: E402

FOLDER = Path(__file__).parents[2] / "examples" / "monitoring"
DASHBOARD = FOLDER / "grafana" / "dashboards" / "streamgp.json"
PROMTOOL, PROMETHEUS = shutil.which("promtool"), shutil.which("prometheus")


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


@pytest.mark.skipif(not PROMTOOL, reason="needs promtool")
def test_promtool_accepts_the_configuration_and_the_rules(tmp_path):
    for command in (["check", "config", "--syntax-only", "prometheus.yml"], ["check", "rules", "rules.yml"]):
        done = subprocess.run([PROMTOOL, *command], cwd=FOLDER, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    alarms = {
        "rule_files": [str(FOLDER / "rules.yml")],
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": 'streamgp_alarms_total{stream="a"}', "values": "0 0 0 1 1 1 1 1 1 1 1 1"}],
                "alert_rule_test": [
                    {"eval_time": "2m", "alertname": "StreamgpAlarm", "exp_alerts": []},
                    {
                        "eval_time": "4m",
                        "alertname": "StreamgpAlarm",
                        "exp_alerts": [
                            {
                                "exp_labels": {"stream": "a"},
                                "exp_annotations": {"summary": "a has rows that its model did not expect."},
                            }
                        ],
                    },
                    {"eval_time": "11m", "alertname": "StreamgpAlarm", "exp_alerts": []},
                ],
            }
        ],
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump(alarms))
    done = subprocess.run(
        [PROMTOOL, "test", "rules", "test.yml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.more
@pytest.mark.skipif(not PROMETHEUS, reason="needs prometheus")
def test_prometheus_reads_what_the_feeder_sends(tmp_path):
    import httpx

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with in_process(tmp_path / "data") as client:
        url = str(client.base_url).rstrip("/")
        sent = {"STREAMGP_URL": url, "FEEDER_HISTORY": "90", "FEEDER_ROWS": "3", "FEEDER_PAUSE": "0"}
        subprocess.run([sys.executable, FOLDER / "feeder.py"], env=os.environ | sent, check=True, timeout=300)
        assert client.get("/v1/streams/boiler").json()["rows"] == 93
        told = client.get("/v1/streams/boiler/history?rows=1").json()
        text = (FOLDER / "prometheus.yml").read_text().replace("streamgp:8650", url.removeprefix("http://"))
        text = text.replace("/tokens/read", str(tmp_path / "token")).replace("5s", "1s")
        (tmp_path / "token").write_text("none is needed")
        (tmp_path / "prometheus.yml").write_text(text)
        shutil.copy(FOLDER / "rules.yml", tmp_path)
        command = [
            PROMETHEUS, "--config.file=prometheus.yml", f"--web.listen-address=127.0.0.1:{port}",
            "--storage.tsdb.path=tsdb", "--log.level=error",
        ]  # fmt: skip
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            found, end = [], time.monotonic() + 60
            while not found and time.monotonic() < end:
                time.sleep(0.5)
                try:
                    answer = httpx.get(f"http://127.0.0.1:{port}/api/v1/query?query=streamgp_last_mean", timeout=10)
                    found = answer.json()["data"]["result"]
                except (httpx.HTTPError, KeyError, ValueError):
                    continue
            assert [one["metric"]["stream"] for one in found] == ["boiler"]
            assert float(found[0]["value"][1]) == told["mean"][-1]
            rules = httpx.get(f"http://127.0.0.1:{port}/api/v1/rules", timeout=10).json()["data"]["groups"][0]["rules"]
            assert {rule["health"] for rule in rules} <= {"ok", "unknown"}
        finally:
            process.terminate()
            process.wait(20)
