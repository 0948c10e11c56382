"""The demo: it finds the change that it plants, and the pages show what it prints."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from streamgp.job.demonstration import write_demo
from tests.cli.test_run import streamgp

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo")
    done = streamgp("demo", "--out", out)
    assert done.exit_code == 0, done.stderr
    return out, done.stderr


def test_the_demo_fits_on_a_screen_and_says_that_the_data_are_made_up(demo):
    _, said = demo
    assert said.startswith("Synthetic data")
    assert len(said.splitlines()) <= 37  # the verdict has four
    assert max(len(line) for line in said.splitlines() if "demo" not in line) <= 120


def test_the_demo_finds_the_planted_change_and_nothing_else(demo):
    out, said = demo
    row, time = re.search(r"replaced at row (\d+), (.+?);", said).groups()
    planted = datetime.fromisoformat(time)
    assert (out / "demo.csv").read_text().splitlines()[int(row)].startswith(planted.isoformat())
    told = re.findall(r"^(?:A change at )?(20\S+ \S+): (.+?)\.?$", said, re.MULTILINE)
    assert len(told) == 2  # along the way, and in the verdict
    assert told[0] == told[1]
    assert abs(datetime.fromisoformat(told[0][0]) - planted) < timedelta(hours=30)
    assert told[0][1].endswith("lower than the same inputs gave before")
    assert {path.name for path in out.iterdir()} >= {"demo.csv", "demo-predictions.csv", "demo.sgp", "demo.html"}


def numbers(text):
    """The scores by name, from a printed table."""
    return {
        name.strip(): [float(figure) for figure in re.findall(r"[\d.]+", rest)]
        for name, rest in re.findall(r"^((?:MAE|RMSE|coverage|mean width).*?)  ([ \d.%]+)$", text, re.MULTILINE)
    }


def test_the_page_has_the_table_that_the_demo_prints(demo):
    shown, printed = numbers(PAGE.read_text()), numbers(demo[1])
    assert len(printed) == 8
    assert shown.keys() == printed.keys()
    for name, figures in printed.items():
        assert shown[name] == pytest.approx(figures, rel=0.02), name
    assert printed["MAE, streamgp"][1] < 0.6 * min(printed["MAE, least squares"][1], 20)


def test_the_change_comes_at_the_same_part_of_a_smaller_table(tmp_path):
    assert write_demo(tmp_path / "t.csv", rows=100) == 91
    assert len((tmp_path / "t.csv").read_text().splitlines()) == 101


def test_machines_get_one_object(tmp_path, monkeypatch):
    monkeypatch.setattr("streamgp.job.demonstration.write_demo", lambda path: write_demo(path, rows=150))
    done = streamgp("demo", "--out", tmp_path, "--json")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["summary"]["rows"] == 150
