"""The plugin for InfluxDB 3, in a stand-in of its processing engine: it writes bands and alarms, and keeps models."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

PLUGIN = Path(__file__).parents[2] / "examples" / "influxdb3" / "streamgp_alarms.py"
START = 1_700_000_000 * 10**9


class LineBuilder:
    """What the engine puts among the builtins, as far as it is needed."""

    def __init__(self, table):
        assert " " not in table
        self.table, self.tags, self.fields, self.time = table, {}, {}, None

    def tag(self, name, value):
        assert isinstance(value, str)
        self.tags[name] = value
        return self

    def float64_field(self, name, value):
        assert type(value) is float
        self.fields[name] = value
        return self

    def time_ns(self, time):
        self.time = time
        return self


class Local:
    """The interface of the engine."""

    def __init__(self):
        self.lines, self.log = [], []

    def write(self, line):
        assert line.fields
        self.lines.append(line)

    def info(self, *words):
        self.log.append(" ".join(map(str, words)))

    warn = error = info


def plugin():
    """As the engine loads it; a new one has nothing in memory."""
    spec = importlib.util.spec_from_file_location("streamgp_alarms", PLUGIN)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.LineBuilder = LineBuilder
    return module


def batch(start, n, spike=None, plant="north"):
    rng = np.random.default_rng(start)
    rows = []
    for i in range(start, start + n):
        x = float(i % 11)
        y = 100 + 3 * x + rng.normal() + (80 if i == spike else 0)
        rows.append({"time": START + i * 10**9, "plant": plant, "temperature": x, "power": y})
    return {"table_name": "boiler", "rows": rows}


def test_bands_and_alarms_are_written_and_models_go_on_after_a_restart(tmp_path):
    args = {"target": "power", "inputs": "temperature", "folder": str(tmp_path), "lags": "1"}
    local = Local()
    first = plugin()
    first.process_writes(local, [batch(0, 250), batch(0, 5, plant="south")], args)
    assert len(list(tmp_path.iterdir())) == 2  # a model for each set of tags
    local = Local()
    plugin().process_writes(local, [batch(250, 60, spike=300)], args)  # another process, which loads the models
    bands = [line for line in local.lines if line.table == "boiler_prediction"]
    assert [line.time for line in bands] == [START + i * 10**9 for i in range(250, 310)]
    assert all(line.fields["lower"] <= line.fields["mean"] <= line.fields["upper"] for line in bands)
    alarms = [line for line in local.lines if line.table == "boiler_alarm"]
    assert START + 300 * 10**9 in [line.time for line in alarms]
    assert {line.tags["plant"] for line in local.lines} == {"north"}
    again = Local()
    first.process_writes(again, [batch(250, 60, spike=300)], args)  # that never stopped: the same numbers
    assert [line.fields for line in again.lines] == [line.fields for line in local.lines]


def test_rows_without_numbers_are_told_and_what_it_wrote_itself_is_left_alone():
    local = Local()
    rows = [{"time": START, "power": "off", "temperature": 1.0}, {"time": START, "power": True}, {"time": START}]
    written = {"table_name": "boiler_prediction", "rows": [{"time": START, "power": 1.0}]}
    plugin().process_writes(local, [{"table_name": "boiler", "rows": rows}, written], {"target": "power"})
    assert local.lines == []
    assert local.log == ["streamgp: 3 rows of boiler lack power or an input"]


@pytest.mark.parametrize("args", [None, {}])
def test_a_trigger_without_a_target_is_told(args):
    local = Local()
    plugin().process_writes(local, [batch(0, 1)], args)
    assert local.log == ["streamgp: the trigger needs an argument target, the field to predict"]
