"""Runs that tell abnormal rows."""

from __future__ import annotations

import csv
import datetime as dt
import re

import numpy as np
import pytest

from streamgp.job import Job
from streamgp.job.pipeline import Pipeline
from streamgp.job.recorder import Recorder
from streamgp.job.report import write_report
from streamgp.job.verdict import verdict
from streamgp.tables.source import RowsError
from streamgp.wrappers.surprise import CHANGES

SETTINGS = {"alarms": "1/year", "tune": False, "warmup": 40, "drift": False, "capacity": 15}


@pytest.fixture
def table(tmp_path):
    """Hourly rows; in row 300, counted from 1, the target is a usual one, but not for its x."""
    rng = np.random.default_rng(0)
    start = dt.datetime(2024, 3, 1)
    lines = ["at,u,x,y"]
    for t in range(400):
        u, x = rng.uniform(-3, 3, 2)
        y = np.sin(x) + 0.05 * rng.normal()
        if t == 299:
            x, y = 1.6, -0.9
        lines.append(f"{start + dt.timedelta(hours=t)},{u:.6f},{x:.6f},{y:.6f}")
    path = tmp_path / "table.csv"
    path.write_text("\n".join(lines))
    return path


def run(table, **asked):
    return Job(table, "y", inputs=["u", "x"], **({"model": "KRLST", "settings": SETTINGS} | asked)).run()


def test_a_run_tells_abnormal_rows_with_their_cause(table, tmp_path):
    recorder = Recorder()
    summary = run(table, out=tmp_path / "out.csv", observers=[recorder])
    with open(tmp_path / "out.csv") as file:
        rows = list(csv.DictReader(file))
    assert [i + 1 for i, row in enumerate(rows) if row["alarm"]] == [300]
    assert rows[299]["alarm"] == "spike"
    assert float(rows[299]["p_value"]) < 1e-3
    p_values = np.array([float(row["p_value"]) for row in rows[150:]])
    assert 0.35 < np.median(p_values) < 0.65
    row, sentence = summary.pipeline.strangest()[0]
    assert row == 300
    assert sentence.startswith("alarm, one row: -0.9 observed, ")
    assert sentence.endswith("; most unlike its usual effect: x")
    assert f"2024-03-13 11:00: {sentence}" in summary.notes  # row 300, told by its time
    assert summary.to_dict()["alarms"] == {"spike": 1, "level": 0, "relation": 0}
    write_report(tmp_path / "report.html", recorder, summary, "table.csv")
    assert f'"strangest":["2024-03-13 11:00: {sentence}"]' in (tmp_path / "report.html").read_text()


def test_a_change_that_is_an_alarm_is_told_and_not_denied(table):
    lines = table.read_text().splitlines()
    moved = [f"{line.rpartition(',')[0]},{float(line.rpartition(',')[2]) + 3.0:.6f}" for line in lines[351:]]
    table.write_text("\n".join(lines[:351] + moved))
    summary = run(table, settings=SETTINGS | {"alarms": 1e-3, "drift": True})
    assert summary.pipeline.alarm_counts["level"] == 1
    sentences = verdict(summary.pipeline)
    assert not any("No change" in sentence for sentence in sentences)
    assert re.fullmatch(r"\d+ alarms \(\d spikes, 1 change of the level\), the last at 2024-.*", sentences[-1])
    (change,) = [alarm for alarm in summary.pipeline.model.events if alarm.kind == "level"]
    assert change.p_value <= CHANGES * 1e-3  # what was compared with the budget
    (told,) = [sentence for row, sentence in summary.pipeline.alarms if row == change.row + 1]
    assert re.search(r"^alarm, the level changed: .* expected, by chance at most once in [\d,.]+ rows$", told)


def test_a_run_that_is_resumed_tells_the_same(table, tmp_path):
    whole = run(table, out=tmp_path / "whole.csv")
    lines = table.read_text().splitlines()
    first = tmp_path / "first.csv"
    first.write_text("\n".join(lines[:251]) + "\n")
    run(first, out=tmp_path / "parts.csv", save=tmp_path / "run.sgp")
    with open(first, "a") as file:
        file.write("\n".join(lines[251:]))
    resumed = Job(first, load=tmp_path / "run.sgp", out=tmp_path / "parts.csv").run()
    assert resumed.pipeline.alarms == whole.pipeline.alarms
    assert (tmp_path / "parts.csv").read_text() == (tmp_path / "whole.csv").read_text()


def test_alarms_ahead_of_time_and_with_late_targets(table, tmp_path):
    text = table.read_text()
    table.write_text(text.replace(",-0.900000", ",50.000000"))
    ahead = run(table, horizon=1, lags=2, settings=SETTINGS | {"alarms": 1e-3})
    assert 300 in [row for row, _ in ahead.pipeline.alarms]
    lines = ["id,x,y"]
    for number, line in enumerate(table.read_text().splitlines()[1:], 1):
        _, _, x, y = line.split(",")
        lines += [f"{number},{x},", f"{number},,{y}"]
    late = tmp_path / "late.csv"
    late.write_text("\n".join(lines))
    asked = {"model": "KRLST", "settings": SETTINGS | {"alarms": 1e-3}, "ticket": "id", "inputs": ["x"]}
    assert 300 in [row for row, _ in Job(late, "y", **asked).run().pipeline.alarms]


def test_a_rate_by_time_needs_a_time_column(table):
    text = table.read_text().replace("\n2024", "\n?2024")
    table.write_text(text)
    with pytest.raises(RowsError, match="a rate of alarms by time needs a column that says when each row was observed"):
        run(table, settings=SETTINGS)
    with pytest.raises(ValueError, match="alarms must be alarms for each row, such as 1e-3"):
        Pipeline(run(table, settings=SETTINGS | {"alarms": None}).pipeline.schema, settings={"alarms": "often"})
