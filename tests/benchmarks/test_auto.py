"""The benchmark of auto runs, goes on where it was stopped, and its tables are those of its results; no rival runs."""

from __future__ import annotations

import json

import numpy as np
import pytest

import auto
import auto_rules
import main_job


@pytest.fixture(scope="module")
def little():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 1))
    y = np.sin(x[:, 0]) + 0.1 * rng.normal(size=90)
    y[[30, 40]] = np.nan
    return auto.Stream(x, y, ())


@pytest.fixture
def tiny(monkeypatch, little):
    """One stream of 90 rows, of which the first ones do not count, and few contestants."""
    monkeypatch.setattr(auto, "stream", lambda *_: little)
    monkeypatch.setattr(auto, "AFTER", (20, 50, 60))
    monkeypatch.setattr(auto, "FROM", 50)
    monkeypatch.setattr(auto, "warm_up", lambda: None)
    monkeypatch.setattr(auto, "STREAMS", {"tiny": ("tiny", 0, ())})
    kept = list(auto.contestants(little, 3))
    wanted = ("auto", "least squares 1 (lags)", "KRLST (change, lags)")
    few = [found for found in kept if found[1] in wanted]
    assert len(few) == len(wanted)
    naive = [found for found in auto.contestants(little, 0) if found[1] in ("auto", "previous value", "mean")]
    monkeypatch.setattr(auto, "contestants", lambda _, lags: iter(few if lags else naive))


@pytest.mark.usefixtures("tiny")
def test_a_run_that_was_stopped_goes_on_with_the_missing_cells(tmp_path, capsys):
    auto.run(tmp_path, 1, "experts,auto", ["tiny"], 90)
    assert "6 of 6 cells" in capsys.readouterr().out
    next(iter(tmp_path.glob("*mean.json"))).unlink()
    assert auto.missing(tmp_path, 90) == "experts (1)"
    auto.run(tmp_path, 1, "experts", ["tiny"], 90)
    assert "1 of 4 cells" in capsys.readouterr().out
    results = auto.gathered(tmp_path, {"tiny; 3 lags": 2.0})
    assert {"numpy", "numba", "streamgp"} <= set(results["versions"])
    run = results["cells"]["tiny; 3 lags"]
    assert run["auto"]["interval score of the former version"] == 2.0
    assert set(auto.experts_of(results, run)) == {
        "previous value",
        "mean",
        "least squares 1 (lags)",
        "KRLST (change, lags)",
    }
    assert "| tiny * |" in auto.errors_table(results)
    assert "| the others (*) | 1 |" in auto.intervals_table(results)  # with the lags that auto takes by itself


def test_where_a_rival_is_better_the_table_says_so():
    own = {"rmse after 500": 2.0, "rmse after 1000": 2.0}
    rivals = {"LightGBM, level": {"rmse after 500": 3.0, "rmse after 1000": 1.5, "seconds": 1.0}}
    results = {
        "cells": {"s; 3 lags": {"stream": "s", "lags": 3, "auto": own, "rivals": rivals}},
        "machine": "m",
        "versions": {},
        "seed": 0,
    }
    shown = auto.rivals_table(results)
    assert "| LightGBM, level | 1 | 0 | 1.50 | 1.50 | **1** | 0.75 | 0.75 | 1 |" in shown
    assert "- s, 3 lags: LightGBM, level, 25.0% lower" in shown


def test_an_expert_sees_no_target_before_it_has_predicted_it(little):
    later = auto.Stream(little.X, np.where(np.arange(90) >= 70, little.y + 5.0, little.y), ())
    view = auto.View("change, lags", [0, 1, 2, 3], True)
    first, second = (auto.expert(data, 3, "fast KRLST", view, True).mean for data in (little, later))
    np.testing.assert_array_equal(first[:71], second[:71])
    assert first[71] != second[71]
    assert np.isnan(first[0])
    assert not np.isnan(first[1:]).any()


def test_a_group_that_does_not_exist_is_refused():
    with pytest.raises(SystemExit, match="there is no group lightbgm; groups: auto, experts"):
        auto.asked_groups("lightbgm")


def test_a_missing_package_is_named(monkeypatch, capsys):
    monkeypatch.setattr(auto, "find_spec", lambda _: None)
    assert auto.asked_groups("auto,river") == ["auto"]
    assert "river is left out: the package river is not installed" in capsys.readouterr().out


def test_an_empty_folder_says_what_to_run_first(tmp_path):
    with pytest.raises(SystemExit, match="holds no results; first: python benchmarks/auto.py run"):
        auto.gathered(tmp_path, {})


@pytest.mark.usefixtures("tiny")
def test_a_run_without_its_experts_is_left_out(tmp_path, capsys):
    auto.run(tmp_path, 1, "auto", ["tiny"], 90)
    assert auto.gathered(tmp_path, {})["cells"] == {}
    assert "left out, as auto or its experts are missing: tiny; 0 lags, tiny; 3 lags" in capsys.readouterr().out


def test_results_of_different_rows_are_not_put_together(tmp_path):
    for rows in (1, 2):
        (tmp_path / f"{rows}.json").write_text(json.dumps({"sources": "a", "most rows": rows}))
    with pytest.raises(SystemExit, match="different sources or rows"):
        auto.gathered(tmp_path, {})


def test_boa_follows_the_better_expert_and_lets_sleepers_sleep():
    rng = np.random.default_rng(0)
    y = rng.normal(size=600)
    P = np.column_stack([y + 0.1 * rng.normal(size=600), y + 2.0, np.full(600, np.nan)])
    said = auto_rules.boa(P, y)
    assert np.sqrt(np.mean((said - y)[300:] ** 2)) < 0.11
    np.testing.assert_array_equal(auto_rules.boa(P[:1], y[:1]), P[:1, :2].mean(axis=1))


def test_boa_does_not_depend_on_the_units_of_the_target():
    rng = np.random.default_rng(1)
    y = rng.normal(size=200)
    P = y[:, None] + rng.normal(size=(200, 3)) * [0.1, 0.5, 1.0]
    P[:100, 0] = np.nan
    np.testing.assert_allclose(auto_rules.boa(4.0 * P, 4.0 * y), 4.0 * auto_rules.boa(P, y), rtol=1e-9)


def test_rules_are_compared_with_the_best_single_expert():
    found = auto_rules.compared("abruptly changing", 0, rows=400)
    assert set(found["relative"]) == set(auto_rules.RULES)
    assert found["relative"]["mean of all"] > found["relative"]['rule="stacked"']


def test_committed_tables_of_the_pages_are_those_of_the_results():
    for page in auto.PAGES:
        text = page.read_text()
        assert main_job.filled(text, auto.rendered()) == text
