"""Repairs and models that diverge are told by every command that shows a run."""

from __future__ import annotations

import json
import re
import warnings

import numpy as np

from streamgp.auto.auto import Auto
from streamgp.contract.model import Health
from streamgp.job import Job, Pipeline
from streamgp.job.told import model_with
from streamgp.wrappers.calibrated import Calibrated
from tests.cli.test_run import SMALL, streamgp, table

TWO = ["--set", "warmup=200", "--set", "tune=off"]  # auto has two models before row 200


def test_repairs_are_in_the_summary_the_report_and_json(tmp_path, monkeypatch):
    monkeypatch.setattr(Calibrated, "health", Health(skipped_rows=3, capped_directions=1200))
    source, page = table(tmp_path / "a.csv"), tmp_path / "r.html"
    done = streamgp("run", source, "--target", "y", "--report", page, *SMALL)
    told = "numerical repairs: 3 (3 skipped rows); if predictions look wrong"
    assert told in done.stderr
    data = json.loads(re.search(r'type="application/json">(.*?)</script>', page.read_text(), re.DOTALL)[1])
    assert ["rows that needed a repair of rounding", "3"] in data["numbers"]
    last = streamgp("run", source, "--target", "y", "--json", *SMALL).stdout.splitlines()[-1]
    health = json.loads(last)["summary"]["health"]
    assert (health["repairs"], health["skipped_rows"], health["diverged"]) == (3, 3, [])
    assert health["capped_directions"] == 1200  # a part of forgetting, and no repair


def test_of_auto_the_summary_asks_for_no_setting(tmp_path, monkeypatch):
    monkeypatch.setattr(Auto, "health", Health(unresolved_rows=45))
    done = streamgp("run", table(tmp_path / "a.csv"), "--target", "y", *TWO)
    assert "numerical repairs: 45 (45 unresolved rows); in single members of auto" in done.stderr
    assert "raise noise" not in done.stderr


def test_a_run_without_repairs_says_nothing_of_them_but_in_json(tmp_path):
    source = table(tmp_path / "a.csv")
    done = streamgp("run", source, "--target", "y", *SMALL)
    assert "numerical repairs" not in done.stderr
    assert "diverged" not in done.stderr
    last = streamgp("run", source, "--target", "y", "--json", *SMALL).stdout.splitlines()[-1]
    assert json.loads(last)["summary"]["health"]["repairs"] == 0


def test_a_model_that_diverges_is_named(tmp_path, monkeypatch):
    take = Pipeline.take

    def diverging(self, *arguments, **options):
        lines = take(self, *arguments, **options)
        bank = model_with(self.model, "next_change")._models[0].bank
        bank.errors[2:4, 1] = 1e300, 1.0
        return lines

    monkeypatch.setattr(Pipeline, "take", diverging)
    source, page, saved = table(tmp_path / "a.csv"), tmp_path / "r.html", tmp_path / "m.sgp"
    done = streamgp("run", source, "--target", "y", "--save", saved, "--report", page, *TWO)
    assert done.exit_code == 0, done.stderr
    assert "diverged: mean (weight 0)" in done.stderr
    assert '["diverged, without weight","mean"]' in page.read_text()
    found = json.loads(streamgp("inspect", saved, "--json").stdout)
    assert found["health"]["diverged"] == ["mean"]


def test_one_model_that_diverges_is_named_too(tmp_path):
    source = table(tmp_path / "a.csv")
    settings = ("--set", "step=50", "--set", "tune=false")
    done = streamgp("run", source, "--target", "y", "--model", "KLMS", *settings, "--out", tmp_path / "o.csv")
    assert done.exit_code == 0, done.stderr
    assert "diverged: KLMS (errors beyond measure; try --model auto, or a smaller step)" in done.stderr


def test_a_jump_that_all_models_miss_is_no_divergence(tmp_path):
    source = tmp_path / "a.csv"
    rows = "".join(f"{i % 7},{i % 5 + (1e9 if i >= 95 else 0)}\n" for i in range(100))
    source.write_text("x,y\n" + rows)
    assert Job(source, "y", lags=0, settings={"warmup": 200, "tune": False}).run().pipeline.diverged == []


def test_numbers_at_the_end_of_the_range_give_no_warnings(tmp_path):
    source = tmp_path / "a.csv"
    rng = np.random.default_rng(0)
    source.write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in 1e308 * rng.uniform(-1, 1, (60, 2))))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        done = streamgp("run", source, "--target", "y", "--report", tmp_path / "r.html", *SMALL)
    assert done.exit_code == 0, done.exception
