"""Schemas of served streams, misspelled columns, and levels that come later."""

from __future__ import annotations

import json

import numpy as np
import pytest

from streamgp.serve.described import check_settings, settings_of
from streamgp.serve.learner import Learner
from streamgp.serve.messages import SETTINGS, RefusedError
from streamgp.serve.ops import Op

QUICK = {"target": "power", "model": "KRLST", "settings": {"tune": False, "warmup": 50, "capacity": 5}}
SCHEMA = {"note": "ignore", "mode": {"kind": "category", "levels": ["day", "off"]}, "t": {"missing": [-999, "x"]}}


def settings(**more):
    return SETTINGS.decode(json.dumps(QUICK | more).encode())


def rows(first, last, **more):
    rng = np.random.default_rng(first)
    return [
        {"time": f"2024-01-{1 + i // 24:02d}T{i % 24:02d}:00", "t": rng.normal(), "mode": "day", "power": i % 24} | more
        for i in range(first, last)
    ]


def test_a_stream_reads_columns_as_its_schema_says():
    learner = Learner(settings(schema=SCHEMA), "a")
    check_settings(learner.settings)
    learner.apply(Op("rows", rows(0, 30, note=5.0)))
    pipeline = learner.pipeline
    assert pipeline.schema.inputs == ("t", "mode")
    assert pipeline.encoder.input_names[:2] == ["t", "mode=off"]
    learner.apply(Op("rows", rows(30, 60, t=-999)))
    assert pipeline.encoder.gaps["t"] == 30
    data = learner.to_bytes()
    assert Learner.from_bytes(learner.settings, "a", data).to_bytes() == data
    assert settings_of(pipeline).schema == learner.settings.schema


def test_misspelled_columns_are_refused_also_among_the_first_rows():
    learner = Learner(settings(), "a")
    learner.apply(Op("rows", rows(0, 5)))
    for wrong, meant in (("mdoe", "mode"), ("tmie", "time"), ("powr", "power")):
        (row,) = rows(5, 6)
        row[wrong] = row.pop(meant)
        with pytest.raises(
            RefusedError, match=f"has '{wrong}', which is no column of the stream. Did you mean '{meant}'"
        ):
            learner.apply(Op("rows", [row]))
    assert learner.rows == 5


def test_a_level_that_comes_after_the_columns_are_fixed_joins():
    learner = Learner(settings(), "a")
    learner.apply(Op("rows", rows(0, 60, state="on")))
    (bad,) = rows(60, 61, state="broken", t="no number")
    with pytest.raises(RefusedError, match="which holds numbers"):
        learner.apply(Op("rows", [bad]))
    assert learner.pipeline.encoder.joined == []
    learner.apply(Op("rows", rows(60, 70, state="off")))
    assert learner.pipeline.encoder.joined == [("state", "off")]
    detail = learner.seen("a")
    assert "new level: off of state has an input of its own" in detail.columns
    assert detail.verdict[0].startswith("Predictions of power miss by ")
    assert detail.times[-1] == (70, 1704067200.0 + 69 * 3600)


def test_schemas_that_cannot_be_are_refused_before_the_first_row():
    for schema, message in (
        ({"power": "ignore"}, "'power' is 'ignore', but it is the target"),
        ({"x": "numbr"}, "Did you mean 'number'"),
    ):
        with pytest.raises(RefusedError, match=message):
            check_settings(settings(schema=schema))
    with pytest.raises(RefusedError, match="schema is a field of its own"):
        check_settings(settings(settings=QUICK["settings"] | {"schema": "a.toml"}))
