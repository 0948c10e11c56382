"""The comparison on the page for River's users can be had again."""

from __future__ import annotations

import pytest

import record

script = pytest.importorskip("river_streams", reason="needs River")


@pytest.mark.parametrize("stream", ["trump_approval", "chick_weights", "water_flow"])
def test_the_streams_are_there_and_have_numbers_only(stream):
    for x, y in list(script.STREAMS[stream]()):
        assert all(isinstance(value, int | float) for value in (*x.values(), y))


def test_the_committed_results_can_be_had_again():
    rows = list(script.STREAMS["trump_approval"]())
    saved = record.read("river_streams")["cells"]["trump_approval"]["results"]
    for expected in saved[:3]:
        result = script.run(expected["model"], rows)
        for key in ("rmse", "rmse_after_100"):
            assert result[key] == pytest.approx(expected[key], rel=1e-2)
        assert result["coverage"] == pytest.approx(expected["coverage"], abs=0.01)
