"""The scores of the competitions, by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

import competitions


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


def test_the_page_shows_the_committed_scores():
    page = (competitions.RESULTS.parents[1] / "docs" / "next-24-hours.md").read_text()
    shown = page.partition("<!-- table of competitions.py -->\n")[2].partition("\n<!-- end of table -->")[0]
    assert shown == competitions.table()


def test_the_committed_forecasts_of_hours_are_better_than_the_published_ones():
    report = json.loads((competitions.RESULTS / "forecasts_m4.json").read_text())
    mean = competitions.summary(report)
    assert mean["series"] == 414
    assert mean["mase"] <= 0.84
    assert abs(mean["coverage 0.8"] - 0.8) <= 0.02
    assert abs(mean["coverage 0.95"] - 0.95) <= 0.02
