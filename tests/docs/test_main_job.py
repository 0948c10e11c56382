"""The tables of the main job are those of its committed results, and these hold what is promised; nothing runs."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "main_job.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("main_job", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def report(script):
    return json.loads(script.RESULTS.read_text())


def test_committed_tables_on_the_pages_are_those_of_the_results(script, report):
    for path in script.PAGES:
        text = path.read_text()
        assert script.page_with(text, report) == text


def test_committed_results_have_auto_beat_the_previous_value_and_least_squares_on_every_table(script, report):
    assert set(report["tables"]) == set(script.TABLES)
    for found in report["tables"].values():
        assert found["rmse"] < min(found["rmse_previous_value"], *found["rmse_least_squares"].values())


def test_committed_results_have_the_promised_coverage_at_no_worse_a_score(report):
    for found in report["tables"].values():
        assert 0.88 <= found["coverage"] <= 0.92
        lowest, highest = found["coverage_windows"]
        assert lowest >= 0.80
        assert highest <= 0.97
        assert found["interval_score"] <= found["raw_interval_score"]


def test_committed_results_have_no_memory_growth_while_a_long_file_is_followed(report):
    resident = list(report["memory"]["resident_MiB"].values())
    assert report["memory"]["rows"] == 5_000_000
    assert max(resident) - min(resident) < 1.0
