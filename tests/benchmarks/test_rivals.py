"""The comparison with rivals: scores equal slow formulas, nobody sees a target early, the pages are fresh."""

from __future__ import annotations

import json
import math
import subprocess
from datetime import date, datetime
from functools import partial
from itertools import pairwise
from statistics import NormalDist
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import main_job
import record
import rivals
import rivals_contestants
import rivals_tables
from rivals_scores import FEWEST_ERRORS, OfErrors, blocks, compared, crps, grid, scored
from rivals_streams import PROTOCOL, Stream, with_gaps

RESULTS = record.RESULTS / "rivals.json"
committed = pytest.mark.skipif(not RESULTS.exists(), reason="there are no committed results yet")


# Scores


def test_crps_is_the_integral_of_the_squared_distance_of_the_distribution_functions():
    rng = np.random.default_rng(0)
    for y in (-3.0, 0.2, 0.9, 4.0):
        atoms = np.sort(rng.normal(size=7))
        ends = np.sort(np.append(atoms, y))
        integral = 0.0
        for left, right in pairwise(ends):  # both are constant in between
            middle = 0.5 * (left + right)
            integral += (right - left) * (np.mean(atoms <= middle) - (y <= middle)) ** 2
        np.testing.assert_allclose(crps(atoms[:, None], np.array([y])), [integral], rtol=1e-10)


def test_crps_of_many_quantiles_is_that_of_a_gaussian():
    levels = grid(2000)
    quantiles = np.array([NormalDist(1.0, 2.0).inv_cdf(q) for q in levels])
    for y in (-1.0, 1.5):
        x = np.linspace(-30.0, 32.0, 200_001)
        truth = np.trapezoid((stats.norm.cdf(x, 1.0, 2.0) - (y <= x)) ** 2, x)
        np.testing.assert_allclose(crps(quantiles[:, None], np.array([y]))[0], truth, rtol=1e-3)


def test_the_distribution_of_errors_is_that_of_the_last_ones_known():
    rng = np.random.default_rng(1)
    n, window = 60, 25
    mean, y = rng.normal(size=n), rng.normal(size=n)
    y[[5, 30, 31]] = np.nan
    found = OfErrors(mean, y, window)
    for t in range(n):
        before = [y[s] - mean[s] for s in range(t) if not np.isnan(y[s])][-window:]
        if len(before) < FEWEST_ERRORS:
            assert np.isnan(found.quantile(0.3)[t])
            continue
        ordered, at = sorted(before), 0.3 * (len(before) + 1) - 1  # Weibull: the i-th of n lies at i / (n + 1)
        low = math.floor(at)
        expected = ordered[low] + (at - low) * (ordered[low + 1] - ordered[low])
        np.testing.assert_allclose(found.quantile(0.3)[t], mean[t] + expected, rtol=1e-9)
        if np.isnan(y[t]):
            continue
        quartiles = np.quantile(before, [0.25, 0.75], method="weibull")
        sd = np.std(before)
        width = 0.9 * min(sd, (quartiles[1] - quartiles[0]) / 1.34) * len(before) ** -0.2
        error = y[t] - mean[t]
        parts = [stats.norm.pdf(error, e, width) for e in before] + [stats.cauchy.pdf(error, 0.0, sd)]
        np.testing.assert_allclose(found.log_density(y)[t], math.log(np.mean(parts)), rtol=1e-8)


def test_errors_that_are_all_the_same_still_have_quantiles_and_a_density():
    found = OfErrors(np.zeros(40), np.ones(40), 30)
    assert found.quantile(0.9)[-1] == 1.0
    assert np.isfinite(found.log_density(np.ones(40))[-1])
    assert np.isnan(OfErrors(np.zeros(3), np.full(3, np.nan), 30).quantile(0.5)).all()


def test_blocks_and_wins_by_hand():
    assert blocks(np.array([1.0, 3.0, 2.0, 4.0, 10.0]), 2) == [2.0, 7.0]
    # differences -1, -2, -3: mean -2, standard error 1 / sqrt 3, ratio 3.46
    assert compared([1.0, 1.0, 1.0], [2.0, 3.0, 4.0], 3.4) == "win"
    assert compared([1.0, 1.0, 1.0], [2.0, 3.0, 4.0], 3.5) == "tie"
    assert compared([2.0, 3.0, 4.0], [1.0, 1.0, 1.0], 3.4) == "loss"
    assert compared([1.0, 2.0], [1.0, 2.0], 2.0) == "tie"


def test_scores_are_those_of_known_rows_from_the_first_scored_one_on():
    rng = np.random.default_rng(2)
    mean, deviation, y = rng.normal(size=80), rng.uniform(0.5, 2.0, 80), rng.normal(size=80)
    y[[3, 50]] = np.nan
    found = scored(y, rivals_contestants.gaussian(mean, deviation), 30, PROTOCOL)
    rows = [t for t in range(30, 80) if t != 50]
    assert found["rows"] == len(rows)
    np.testing.assert_allclose(found["rmse"], math.sqrt(sum((y[t] - mean[t]) ** 2 for t in rows) / len(rows)))
    np.testing.assert_allclose(found["mae"], sum(abs(y[t] - mean[t]) for t in rows) / len(rows))
    density = sum(math.log(NormalDist(mean[t], deviation[t]).pdf(y[t])) for t in rows) / len(rows)
    np.testing.assert_allclose(found["log density"], density, rtol=1e-9)
    inside = sum(abs(y[t] - mean[t]) <= 1.2815515655446004 * deviation[t] for t in rows) / len(rows)
    np.testing.assert_allclose(found["coverage 0.8"], inside)
    assert [len(losses) for losses in found["blocks"].values()] == [20, 20]
    mean[40] = np.inf
    assert scored(y, rivals_contestants.gaussian(mean, deviation), 30, PROTOCOL) is None


# Contestants


@pytest.fixture(scope="module")
def little():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(130, 2))
    return with_gaps(Stream(X, np.sin(X[:, 0]) + 0.1 * np.cumsum(rng.normal(size=130)), ()))


def test_a_fixed_part_of_the_rows_is_missing(little):
    assert np.flatnonzero(np.isnan(little.y[50:100])).tolist() == PROTOCOL["task"]["gap_rows"]


def test_regressors_get_inputs_and_past_targets_and_the_change_is_relative_to_the_last():
    y = np.arange(10.0)
    X, targets, previous = rivals_contestants.table(Stream(np.full((10, 1), 7.0), y, ()), True)
    assert X[5].tolist() == [7.0, 4.0, 3.0, 2.0]
    assert (targets[5], previous[5]) == (1.0, 4.0)
    assert np.isnan(targets[0])
    hourly = rivals_contestants.with_weeks(Stream(np.empty((200, 0)), np.arange(200.0), (24, 168)))
    assert hourly.X[190].tolist() == [22.0]


# Quick ones that need no package of their own; the same functions feed the others.
QUICK = {
    "previous value": rivals_contestants.by_previous,
    "KRLST, level": partial(rivals_contestants.by_krlst, change=False),
    "KRLST, change": partial(rivals_contestants.by_krlst, change=True),
    "SGD": partial(rivals_contestants.by_sgd, change=True),
    "GP": partial(rivals_contestants.by_sklearn_gp, change=False, window=20, optimized=50),
}


@pytest.mark.filterwarnings("ignore")  # of the other libraries
@pytest.mark.parametrize("name", QUICK)
def test_nobody_sees_a_target_before_it_was_predicted(name, little, monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.setattr(rivals_contestants, "FIRST", 100)
    later = little._replace(y=np.where(np.arange(130) >= 120, little.y + 5.0, little.y))
    with rivals_contestants.quiet():
        first, second = (QUICK[name](data).said for data in (little, later))
    np.testing.assert_array_equal(first.mean[:121], second.mean[:121])
    np.testing.assert_array_equal(first.quantile(0.9)[:121], second.quantile(0.9)[:121])
    assert first.mean[121] != second.mean[121]
    assert np.isfinite(first.mean[100:]).all()


def test_every_contestant_of_the_protocol_is_built_with_the_settings_that_stand_there():
    built = {one.title: one for one in rivals_contestants.contestants()}
    assert set(rivals_contestants.BUILDERS) == set(PROTOCOL["contestants"])
    assert built["LightGBM, change"].predict.keywords == {"refit": 100, "change": True}
    assert not rivals_contestants.takes("MSTL", True, False)
    assert not rivals_contestants.takes("skaters", False, True)
    assert rivals_contestants.takes("Auto", False, False)


def test_one_object_for_each_row_answers_as_an_array():
    rows = [None, SimpleNamespace(mean=1.0, quantile=lambda q: q, logpdf=lambda y: -y)]
    each = rivals_contestants.Each(rows)
    np.testing.assert_array_equal(each.mean, [np.nan, 1.0])
    np.testing.assert_array_equal(each.quantile(0.3), [np.nan, 0.3])
    np.testing.assert_array_equal(each.log_density(np.array([1.0, 2.0])), [np.nan, -2.0])


# Runs and pages


def cell(**changed):
    return {"stream": "water flow", "quick": False, "protocol": rivals.protocol_hash()} | changed


def test_results_that_do_not_belong_together_are_refused(tmp_path):
    with pytest.raises(SystemExit, match="holds no results; first: python benchmarks/rivals.py run"):
        rivals.gathered(tmp_path)
    (tmp_path / "a.json").write_text(json.dumps(cell(quick=True)))
    with pytest.raises(SystemExit, match="results of a quick run"):
        rivals.gathered(tmp_path)
    (tmp_path / "a.json").write_text(json.dumps(cell(protocol="other")))
    with pytest.raises(SystemExit, match="results of another protocol"):
        rivals.gathered(tmp_path)


def test_a_run_that_broke_off_is_tried_again_and_one_that_took_too_long_is_not(tmp_path):
    job = rivals.Job("water flow", rivals_contestants.contestants("Auto")[0], 1268)
    assert not rivals.done(job, tmp_path, False)
    for seconds, failed, expected in ((1.0, None, True), (None, rivals.OVER, True), (None, "KeyError", False)):
        job.path(tmp_path).write_text(json.dumps(cell(seconds=seconds, failed=failed)))
        assert rivals.done(job, tmp_path, False) == expected
    assert not rivals.done(job, tmp_path, True)


def run_of(scale, seconds=1.0):
    losses = [scale * (1.0 + 0.01 * k) for k in range(20)]
    scores = {"rows": 100, "rmse": scale, "mae": scale, "crps": scale, "log density": -scale}
    scores |= {f"coverage {level:g}": level for level in PROTOCOL["scores"]["levels"]}
    scores["blocks"] = {"squared error": losses, "crps": losses}
    return {"rows": 600, "seconds": seconds, "microseconds a row": seconds, "memory, MiB": 2.0, "failed": None} | {
        "scores": scores
    }


def made_up_results():
    failed = {"rows": 600, "seconds": None, "microseconds a row": None, "memory, MiB": None}
    failed |= {"failed": "took long", "scores": None}
    of = {"Auto": run_of(2.0), "LightGBM, level": run_of(3.0), "LightGBM, change": run_of(1.0, 4.0), "MSTL": failed}
    return {"runs": {"water flow": of}, "date": "2026-11-17", "machine": "m", "versions": {"streamgp": "9.9.9"}}


def test_tables_show_ratios_losses_and_failures():
    tables = rivals_tables.rendered(made_up_results())
    assert "| LightGBM | 1 | **0.50** | **0.50** | 90% to 90% | 0 / 0 / 1 |" in tables["rivals in short"]
    assert "| MSTL | 1 | failed | failed | \N{EN DASH} | 1 / 0 / 0 |" in tables["rivals in short"]
    lost = "- **water flow**: LightGBM, CRPS 0.50 (win); LightGBM, RMSE 0.50 (win)"
    assert tables["streams that rivals win"] == lost
    assert "| water flow | LightGBM | CRPS **0.50** | win |" in tables["losses in short"]
    assert tables["runs that failed"] == "- water flow: MSTL: took long"
    assert tables["rivals in short"].count("\n") <= 12


def test_no_table_shows_what_was_not_compared_fairly():
    results = made_up_results()
    results["runs"]["water flow"]["skaters"] = run_of(3.0, 7e6)
    results["runs"]["wing flutter"] = {"Auto": run_of(2.0), "skaters": run_of(3.0)}
    tables = rivals_tables.rendered(results)
    assert not any("flutter" in table for table in tables.values())
    (line,) = [line for line in tables["rivals in full"].splitlines() if line.startswith("| skaters |")]
    assert "7,000,000" not in line
    assert "\N{EN DASH} | 2.0 |" in line


def test_rendering_twice_changes_nothing():
    names = rivals_tables.rendered(made_up_results())
    page = "\n".join(f"<!-- {name} -->\nold\n<!-- end of {name} -->" for name in names)
    once = main_job.filled(page, names)
    assert "old" not in once
    assert main_job.filled(once, names) == once


def test_results_are_written_one_run_a_line_and_read_back():
    results = made_up_results()
    text = rivals.text_of(results)
    assert json.loads(text) == results
    assert sum(line.startswith('   "') for line in text.splitlines()) == 4


def test_memory_is_told_in_mebibytes():
    assert 1.0 < rivals.memory("VmRSS") <= rivals.memory("VmHWM") < 1e6


@committed
def test_committed_tables_of_the_pages_are_those_of_the_results():
    tables = rivals_tables.rendered(record.read("rivals"))
    for page in rivals_tables.PAGES:
        text = page.read_text()
        assert main_job.filled(text, tables) == text
    shown = "".join(page.read_text() for page in rivals_tables.PAGES)
    assert all(f"<!-- {name} -->" in shown for name in tables)


@committed
def test_committed_results_are_of_the_committed_protocol_and_not_older():
    results = record.read("rivals")
    assert results["protocol"] == rivals.protocol_hash()
    assert isinstance(PROTOCOL["date"], date)
    assert datetime.fromisoformat(results["first date"]).date() >= PROTOCOL["date"]


@committed
def test_committed_protocol_is_older_than_the_results_in_the_history():
    def committed_at(path):
        asked = ["git", "log", "--format=%ct", "--", str(path.relative_to(record.ROOT))]
        try:
            times = subprocess.run(asked, cwd=record.ROOT, capture_output=True, text=True, check=True).stdout.split()
        except (OSError, subprocess.CalledProcessError):
            times = []
        return [int(time) for time in times]

    protocol, results = committed_at(rivals.PROTOCOL_FILE), committed_at(RESULTS)
    if not protocol or not results:
        pytest.skip("this checkout has no history of both files")
    assert max(protocol) <= min(results)
