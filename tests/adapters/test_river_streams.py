"""The comparison on the page for River's users is the one in the file of results, and the script still runs."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "river_streams.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("river_streams", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_on_the_page_is_that_of_the_results(script):
    text = script.PAGE.read_text()
    assert script.page_with(text, json.loads(script.RESULTS.read_text())) == text


@pytest.mark.parametrize("stream", ["trump_approval", "chick_weights", "water_flow"])
def test_the_streams_are_there_and_have_numbers_only(script, stream):
    for x, y in list(script.STREAMS[stream]()):
        assert all(isinstance(value, int | float) for value in (*x.values(), y))


def test_the_results_can_be_had_again(script):
    rows = list(script.STREAMS["trump_approval"]())
    saved = json.loads(script.RESULTS.read_text())["streams"]["trump_approval"]["results"]
    for expected in saved[:3]:
        result = script.run(expected["model"], rows)
        for key in ("rmse", "rmse_after_100"):
            assert result[key] == pytest.approx(expected[key], rel=1e-2)
        for key in ("coverage_0.9", "coverage_0.95"):
            assert result[key] == pytest.approx(expected[key], abs=0.01)
