"""The verdict in words."""

from __future__ import annotations

import math

import numpy as np
import pytest

from streamgp.cli.screen import next_steps
from streamgp.job import Job, Observer, verdict
from streamgp.job.pipeline import Pipeline
from streamgp.job.verdict import leaders
from streamgp.tables.writing import PredictedRows

SMALL = {"capacity": 10, "tune": False, "warmup": 50}


def part(**changed):
    own = {"from_row": 501, "to_row": 900, "rows": 400, "compared_rows": 400, "rmse": 3.0, "mae": 2.0}
    own |= {"compared_mae": 2.0, "yardsticks_mae": {"previous value": 3.0}, "yardsticks": {"previous value": 5.0}}
    return own | {"coverage": 0.9, "explained": 0.93} | changed


def test_the_best_simple_prediction_is_named_and_who_was_better():
    for yardsticks, sentence in (
        (
            {"previous value": 3.0, "least squares": 2.5},
            "That is 20% less than the best simple prediction, least squares (2.5).",
        ),
        ({"least squares": 2.01}, "That is no better than the best simple prediction, least squares (2.01)."),
        ({"least squares": 1.5}, "A simple prediction was better: least squares misses by 25% less (1.5)."),
    ):
        (found,) = verdict._beside(part(yardsticks_mae=yardsticks, yardsticks=dict.fromkeys(yardsticks, 3.0)))
        assert sentence in found
    assert verdict._beside(part(yardsticks_mae={}, yardsticks={})) == []
    assert verdict._beside(part(compared_mae=math.inf)) == []
    assert verdict._beside(part(compared_mae=0.0, yardsticks_mae={"previous value": 0.0})) == []


def test_an_outlier_does_not_decide_who_was_better_and_is_told():
    _, told = verdict._beside(part(rmse=5.0, yardsticks={"previous value": 4.0, "least squares": 4.5}))
    assert told == "Where it misses, it misses by more: its RMSE is 5, that of previous value 4."
    _, told = verdict._beside(part(compared_mae=4.0, yardsticks={"previous value": 5.0}))
    assert told == "It avoids large errors better: its RMSE is 3, that of previous value 5."


def table(path, rows=900, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    y = 50 + 10 * x + rng.normal(size=rows)
    y[800:] *= 1.4
    times = [f"2024-01-{1 + t // 288:02d}T{t % 288 // 12:02d}:{t % 12 * 5:02d}:00+02:00" for t in range(rows)]
    lines = [f"{times[t]},{x[t]:.4f},{y[t]:.3f} kW\n" for t in range(rows)]
    path.write_text("at,x,load\n" + "".join(lines), encoding="utf-8")
    return path


def test_a_run_is_judged_in_words_with_times_and_units(tmp_path):
    source = table(tmp_path / "a.csv", 1500)
    summary = Job(source, "load", model="KRLST", settings=SMALL).run()
    run = summary.pipeline
    quality, beside, honesty, *changes = verdict.verdict(run)
    assert quality.startswith("Predictions of load miss by ")
    assert " kW on average and explain " in quality
    assert quality.endswith("of its variation, after the first 500 rows.")
    assert "simple prediction" in beside
    assert honesty.startswith("The 90% intervals held ")
    assert all(sentence.startswith("A change at 2024-01-0") for sentence in changes)
    assert changes
    steady = run.score_summary()["steady"]
    known = run.scores.arrays()["scores.targets"][1]
    assert known[0] == steady["rows"]
    assert 0 < steady["explained"] < 1
    assert leaders(run) == "KRLST 100%"
    assert run.importance().keys() == {"x", "time of day"}
    assert sum(run.importance().values()) == pytest.approx(1.0)
    again = Pipeline.from_bytes(run.to_bytes())
    assert verdict.verdict(again) == verdict.verdict(run)
    assert again.to_bytes() == run.to_bytes()
    steps = next_steps(run, "my table.csv", "streamgp run 'my table.csv' --target load")
    assert steps[0].endswith("streamgp run 'my table.csv' --target load --save model.sgp")
    assert any(step.endswith("--alarms 1/week") for step in steps)


def test_a_change_is_told_with_its_time_and_size(tmp_path):
    run = Job(table(tmp_path / "a.csv", 700), "load", model="KRLST", settings=SMALL).run().pipeline
    for shift, sentence in (
        (20.0, "A change at 2024-01-02 01:00: load is 20 kW (40%) higher than the same inputs gave before."),
        (-5.0, "A change at 2024-01-02 01:00: load is 5 kW (10%) lower than the same inputs gave before."),
        (0.5, "A change at 2024-01-02 01:00: load depends on its inputs otherwise than before."),
    ):
        run.changes._found = np.array([[301, run.times.moment(301), 600, 2.0, shift, 50.0]])
        assert sentence in verdict.verdict(run)


def test_the_share_that_is_explained_is_that_of_its_definition(tmp_path):
    source = table(tmp_path / "a.csv", 400)
    blocks = []

    class Keep(Observer):
        def block(self, block):
            blocks.append(block.predicted)

    run = Job(source, "load", model="KRLST", settings=SMALL, observers=[Keep()]).run().pipeline
    y, mean, lower = (np.concatenate([getattr(one, name) for one in blocks]) for name in ("observed", "mean", "lower"))
    known = np.isfinite(y) & np.isfinite(mean) & ~np.isnan(lower)
    expected = 1 - np.mean((y - mean)[known] ** 2) / np.var(y[known])
    assert run.score_summary()["start_up"]["explained"] == pytest.approx(expected, abs=1e-8)


def test_intervals_are_as_they_should_only_where_the_worst_window_holds(tmp_path):
    run = Job(table(tmp_path / "a.csv", 600), "load", model="KRLST", settings=SMALL).run().pipeline
    scored, level = run.scores, 0.9
    for outside, expected in ((100, None), (129, "but only 87.1% in the 1,000 rows up to row 2,500"), (128, None)):
        scores = run.scores = type(scored)(["previous value"])
        inside = np.ones(3000)
        inside[500 : 500 + 93], inside[1500 : 1500 + outside] = 0.0, 0.0
        inside[2500 : 2500 + 93] = 0.0
        rows, flat = np.arange(501, 3501), np.zeros(3000)
        for cut in np.split(np.arange(3000), [7, 1001, 1700]):
            y = np.where(inside[cut] > 0, 0.5, 2.0)
            columns = [flat[cut] + value for value in (0, -1, 1, 1)]
            scores.add(PredictedRows(rows[cut], None, *columns, y, *[flat[cut]] * 4, yardsticks=flat[cut, None]))
        told = verdict._honesty(run, part(coverage=np.mean(inside), rows=3000))
        assert told.endswith(f"{expected}." if expected else ", as they should.")
        assert scores.worst_window() == (1 - max(outside, 93) / 1000, 2500)
    assert verdict._tolerated(level, 1000) == pytest.approx(0.02846, abs=1e-5)


def test_too_few_rows_are_not_judged(tmp_path):
    summary = Job(table(tmp_path / "a.csv", 12), "load", model="KRLST", settings=SMALL).run()
    (sentence,) = verdict.verdict(summary.pipeline)
    assert sentence.startswith("Too few rows to judge: ")


def test_a_constant_target_is_told_as_such(tmp_path):
    path = tmp_path / "constant.csv"
    path.write_text("x,y\n" + "".join(f"{i % 7},5\n" for i in range(100)))
    run = Job(path, "y", model="KRLST", settings={"tune": False}).run().pipeline
    assert verdict.verdict(run) == ["Nothing could be judged: all targets so far are missing, or all are alike."]
