"""The scores of the competitions, by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

import competitions
import loads


def test_scores_are_those_of_the_competitions():
    y, truth = np.array([1.0, 2.0, 4.0, 3.0, 5.0]), np.array([4.0, 7.0])
    found = competitions.scores(y, truth, lambda level: np.full(2, 4.0 + 10.0 * (level - 0.5)), lag=2)
    assert found["mase"] == pytest.approx(1.5 / np.mean([3.0, 1.0, 1.0]))
    assert found["smape"] == pytest.approx(100.0 * 3.0 / 11.0)
    pinball = []
    for level in np.arange(1, 10) / 10:
        errors = truth - (4.0 + 10.0 * (level - 0.5))
        pinball.append(np.sum(np.where(errors > 0, level * errors, (level - 1) * errors)))
    assert found["wql"] == pytest.approx(2 * np.mean(pinball) / 11.0)
    # 50%: 1.5 to 6.5; 80%: 0 to 8; 95%: -0.75 to 8.75.
    assert [found[f"coverage {level}"] for level in (0.5, 0.8, 0.95)] == [0.5, 1.0, 1.0]


def test_the_file_of_results_has_one_line_for_each_series():
    report = {"machine": "x", "series": {"b": {"mase": 1.0}, "a": {"mase": 2.0}}}
    text = competitions.text_of(report)
    assert json.loads(text) == report
    assert [line.strip()[:3] for line in text.splitlines() if "mase" in line] == ['"a"', '"b"']


def test_rivals_are_kept_beside_the_series(tmp_path):
    ours = {"mase": 1.0}
    theirs = {"mase": 2.0, "seconds": 3.0, "coverage 0.5": 0.4, "coverage 0.8": 0.7, "coverage 0.95": 0.9}
    step = {"TimeGP": -1.0, "Calibrated(TimeGP)": -0.9, "skaters": -1.5, "skaters, not sticky": -0.95}
    rivals = {"MSTL": {"a": theirs, "b": {"failed": "why"}}, "one step ahead": {"a": step}}
    report = {"machine": "x", "versions": {}, "series": {"a": ours, "b": ours}, "rivals": rivals}
    path = tmp_path / "results.json"
    path.write_text(competitions.text_of(report))
    assert competitions.read(path) == report
    shown = competitions.table_of_rivals(report)
    assert "| MSTL | 1 | 2.000 | 1.000 | 100% | 40.0%, 70.0%, 90.0% | 3.0 |" in shown
    assert "TimeGP over skaters, not sticky: 0%, " in shown


def test_loads_are_compared_on_the_days_that_all_have_forecast():
    load = np.full(loads.HOURS, 50.0)
    ours = {day: [np.full(loads.HOURS, error), load, np.ones(loads.HOURS)] for day, error in ((1, 1.0), (2, 3.0))}
    theirs = {2: [np.full(loads.HOURS, -2.0), load, np.full(loads.HOURS, np.nan)]}
    contestants = {"A": {"5": loads.summary(ours)}, "B": {"5": loads.summary(theirs)}}
    report = {"machine": "x", "versions": {"streamgp": "0.1.0", "numpy": "2.0.0"}, "contestants": contestants}
    assert loads.table(report).splitlines()[2:] == [
        "| A | 2 | 4.00% | 6.00% | 100.0%, 100.0%, 100.0% |",
        "| B | 1 | 4.00% | 4.00% |  |",
        "",
        "Measured on x; streamgp 0.1.0.",
    ]


def test_the_page_shows_the_committed_scores():
    page = (competitions.RESULTS.parents[1] / "docs" / "next-24-hours.md").read_text()
    of_rivals = competitions.table_of_rivals(competitions.read(competitions.RESULTS / "forecasts_m4.json"))
    of_loads = loads.table(json.loads(loads.RESULTS.read_text()))
    for title, table in {
        "table of competitions.py": competitions.table(),
        "table of loads.py": of_loads,
        "rivals on m4": of_rivals,
    }.items():
        assert page.partition(f"<!-- {title} -->\n")[2].partition("\n<!-- end of table -->")[0] == table


def test_the_committed_forecasts_of_hours_are_better_than_the_published_ones():
    report = json.loads((competitions.RESULTS / "forecasts_m4.json").read_text())
    mean = competitions.summary(report)
    assert mean["series"] == 414
    assert mean["mase"] <= 0.84
    assert abs(mean["coverage 0.8"] - 0.8) <= 0.02
    assert abs(mean["coverage 0.95"] - 0.95) <= 0.02
