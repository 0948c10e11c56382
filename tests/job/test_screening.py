"""A run counts fill values as missing targets: also as lags, for its scores and among its first rows."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from streamgp.contract import snapshot
from streamgp.job import Pipeline, verdict
from streamgp.job.refused import Refused
from tests.cli.test_run import streamgp
from tests.job import test_late as late
from tests.job.test_pipeline import SETTINGS, assert_same, schema_of, stream, taken

AUTO = {"warmup": 60, "tune": False, "capacity": 8}
CASES = [("KRLST", SETTINGS, 0, 0), ("KRLST", SETTINGS, 3, 0), ("KRLST", SETTINGS, 2, 3), ("auto", AUTO, 3, 0)]
MOST_IN_MORE = [CASES[2], *(pytest.param(case, marks=pytest.mark.more) for case in (CASES[0], CASES[1], CASES[3]))]


def build(case):
    model, settings, lags, horizon = case
    return Pipeline(schema_of(2), model, settings, lags, horizon)


def with_fill_values(n=160, rows=(110, 130, 131), value=1e30):
    X, y = stream(n)
    gaps = y.copy()
    y[list(rows)], gaps[list(rows)] = value, np.nan
    return X, y, gaps


@pytest.mark.parametrize("value", [-9999.0, 3.4e38, 1e300])
@pytest.mark.parametrize("case", MOST_IN_MORE, ids=str)
def test_a_fill_value_is_a_missing_target(case, value):
    X, y, gaps = with_fill_values(value=value)
    one, other = build(case), build(case)
    assert_same(taken(one, X, y), taken(other, X, gaps))
    assert repr(one.score_summary()) == repr(other.score_summary())  # NaN where there are no rows yet
    assert (one.health["fill_values"], other.health["fill_values"]) == (3, 0)
    assert one.refused.sentence().startswith(
        "3 targets lay far outside all before them and were not learned (first: row 111, value"
    )
    assert other.refused.sentence() == ""


@pytest.mark.parametrize("case", MOST_IN_MORE, ids=str)
def test_fill_values_among_the_first_rows_are_struck_out_when_they_are_known(case):
    X, y, gaps = with_fill_values(130, rows=(0, 4, 6))
    one, other = build(case), build(case)
    said, expected = taken(one, X, y), taken(other, X, gaps)
    assert_same({name: said[name] for name in ("mean", "lower", "upper")}, expected, slice(20 + case[3], None))
    assert one.model.to_bytes() == other.model.to_bytes()
    assert repr(one.score_summary()) == repr(other.score_summary())
    assert one.health["fill_values"] == 3
    assert "(first: row 1, value 1e+30)" in one.refused.sentence()


@pytest.mark.parametrize("case", MOST_IN_MORE, ids=str)
def test_it_does_not_matter_how_rows_are_handed_over_or_where_a_run_is_saved(case):
    X, y, _ = with_fill_values(140, rows=(2, 60, 110))
    whole = build(case)
    said = taken(whole, X, y)
    for stops in ([1, 2, 3, 19, 20, 99], [18, 105], [50, 100, 120]):
        parts, again, edges = [], build(case), [0, *stops, len(y)]
        for a, b in itertools.pairwise(edges):
            parts.append(taken(again, X[a:b], y[a:b]))
            again = Pipeline.from_bytes(again.to_bytes())
        assert_same(said, {name: np.concatenate([part[name] for part in parts]) for name in said})
        assert again.to_bytes() == whole.to_bytes()


@pytest.mark.more
def test_a_target_that_only_the_model_doubts_is_counted_once_and_told():
    X, y = stream(400)
    y[300] = y.max() + 3 * np.ptp(y)
    pipeline = Pipeline(schema_of(2), "auto", AUTO | {"warmup": 200}, 3)
    said = taken(pipeline, X, y)
    assert pipeline.model.health.fill_values == pipeline.health["fill_values"] == 1
    assert pipeline.refused.sentence().startswith("1 target lay far outside all before it and was not learned (first")
    assert "1 target lay far outside all before it and was not learned." in verdict.verdict(pipeline)
    assert said["observed"][300] == y[300]
    known = np.isfinite(said["mean"]) & np.isfinite(said["lower"]) & (np.arange(400) != 300)
    share = 1 - np.mean((y - said["mean"])[known] ** 2) / np.var(y[known])
    assert pipeline.score_summary()["start_up"]["explained"] == pytest.approx(share, abs=1e-8)


def test_late_targets_are_screened_when_they_come():
    X, y, gaps = with_fill_values()
    pipelines = [Pipeline(late.schema(2), "KRLST", late.QUIET, lags=1) for _ in range(2)]
    # None of these comes with its row, so that a gap would be a row which waits for ever.
    for pipeline, targets in zip(pipelines, (y, gaps), strict=True):
        events = [((f"id {t}", X[t], np.nan), (f"id {t}", np.full(2, np.nan), targets[t])) for t in range(len(y))]
        late.taken(pipeline, [event for both in events for event in both])
    assert pipelines[0].health["fill_values"] == 3
    assert pipelines[0].late == {"waiting": 0, "learned": 160, "expired": 0, "ignored": 0}
    one, other = (pipeline.model.predict_one(np.zeros(2)) for pipeline in pipelines)
    assert one.mean == other.mean
    waits = pipelines[0].issue(late.rows_of(X[:2], np.full(2, np.nan)))
    scored = pipelines[0].resolve(waits, np.array([1e30, 0.5]))
    assert np.isnan(scored.observed).tolist() == [True, False]


def test_screening_can_be_switched_off():
    X, y, _ = with_fill_values(value=1e6)
    pipeline = Pipeline(schema_of(2), "KRLST", SETTINGS | {"screen": False})
    taken(pipeline, X, y)
    assert pipeline.health["fill_values"] == 0
    assert pipeline.scores.summary()["rmse"] > 1e4
    with pytest.raises(TypeError, match="screen must be True or False; got 3"):
        Pipeline(schema_of(2), "KRLST", SETTINGS | {"screen": 3})


def test_the_summary_the_report_and_json_tell_of_fill_values(tmp_path):
    X, y, _ = with_fill_values(value=-9999.0)
    source, page = tmp_path / "a.csv", tmp_path / "r.html"
    rows = zip(X.tolist(), y.tolist(), strict=True)
    source.write_text("a,b,y\n" + "".join(f"{a},{b},{target}\n" for (a, b), target in rows))
    options = ["--target", "y", "--model", "KRLST", "--set", "tune=off", "--report", page]
    done = streamgp("run", source, *options)
    assert (
        "3 targets lay far outside all before them and were not learned (first: row 111, value -9999); to learn them "
        "all, use --set screen=off"
    ) in done.stderr
    assert "\n3 targets lay far outside all before them and were not learned.\n" in done.stderr  # the verdict
    assert '["targets far outside all before them, not learned","3"]' in page.read_text()
    last = streamgp("run", source, *options, "--json").stdout.splitlines()[-1]
    health = json.loads(last)["summary"]["health"]
    assert (health["fill_values"], health["repairs"]) == (3, 0)


def test_a_snapshot_with_another_screen_is_refused():
    pipeline = build(CASES[0])
    taken(pipeline, *stream(40))
    header, tensors = snapshot.unpacked(pipeline.to_bytes())
    for name, bad in (
        ("model/state.screen", np.full((1, 10), np.nan)),
        ("refused.first", np.zeros((3, 3))),
        ("refused.noted", np.zeros(2)),
    ):
        with pytest.raises(snapshot.SnapshotError, match="screen must be finite numbers|has shape"):
            Pipeline.from_bytes(snapshot.packed(header, tensors | {name: bad}))


def test_a_refused_target_counts_among_scores_unless_it_lies_where_no_observation_does():
    refused, nan = Refused(2, True), np.nan
    y = np.array([0.0, 1.0, 21.5, -19.0, 5.0, nan])
    learned = np.array([0.0, 1.0, nan, nan, 5.0, nan])
    left = refused.take(y, learned, 11)  # 20 widths beyond the range of 0 to 1
    np.testing.assert_array_equal(left, [0.0, 1.0, nan, -19.0, 5.0, nan])
    assert refused.count == 2
    assert refused.sentence().startswith(
        "2 targets lay far outside all before them and were not learned (first: row 13,"
    )
    np.testing.assert_array_equal(refused.take(np.array([90.0, 110.0]), np.full(2, nan), 17), [90.0, nan])  # 0 to 5
    rows = [refused.arrays()["refused.range"].tolist(), refused.count]
    assert rows == [[0.0, 5.0], 4]
    assert Refused(2, True).sentence() == Refused(2, True).sentence(where=False) == ""
