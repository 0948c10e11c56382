"""Auto: who predicts when, and that it is never worse than the obvious."""

from __future__ import annotations

import numpy as np
import pytest
from streamgp.auto.experts import MOST_PROCESSES

from streamgp.auto import experts
from streamgp.job import Pipeline
from streamgp.tables.formats import Chunk
from streamgp.tables.recognizing import recognize
from tests.auto.test_broken_readings import plant
from tests.auto.test_predictions import small
from tests.job.test_pipeline import assert_same, schema_of, taken
from tests.job.test_tuned import rows

SMALL = {"capacity": 10, "features": 10, "warmup": 100, "drift": False}
PROCESSES = ("fast KRLST", "KRLST", "SOGP", "ISSGPR")
OVER_TIME = ("Gaussian process (over time)", "least squares (over time)")


def processes(pipeline):
    return [name for name in pipeline.weights if name.startswith((*PROCESSES, *OVER_TIME))]


def test_experts_join_when_there_are_rows_for_them_and_leave_when_they_fall_behind():
    X, y = rows(450)
    pipeline = Pipeline(schema_of(2), "auto", SMALL, 2)
    taken(pipeline, X[:19], y[:19])
    assert list(pipeline.weights) == ["previous value", "mean"]
    taken(pipeline, X[19:20], y[19:20])
    assert [name for name in pipeline.weights if name.startswith("least squares")] == [
        f"least squares {forgetting}{view}"
        for view in ("", " (change)", " (lags)", " (24 lags)", " (lags, row before)")
        for forgetting in ("1", "0.999", "0.99")
    ]
    assert processes(pipeline) == []
    taken(pipeline, X[20:30], y[20:30])
    assert processes(pipeline) == [
        *(f"{name}{view}" for view in ("", " (change)", " (lags)", " (change, lags)") for name in PROCESSES),
        *OVER_TIME,
    ]
    assert pipeline.chosen is None
    taken(pipeline, X[30:100], y[30:100])
    assert sorted(processes(pipeline)) == sorted(pipeline.chosen.names)
    assert len(pipeline.chosen.names) == MOST_PROCESSES[1]
    assert (
        pipeline.chosen.names
        == sorted(pipeline.chosen.scores, key=pipeline.chosen.scores.__getitem__)[: MOST_PROCESSES[1]]
    )
    for start, times in ((100, 2), (200, 4)):
        taken(pipeline, X[start : times * 100], y[start : times * 100])
        assert len(processes(pipeline)) == MOST_PROCESSES[times]
        assert sorted(processes(pipeline)) == sorted(pipeline.chosen.names)
    assert {"previous value", "mean", "least squares 0.99 (lags)"} < set(pipeline.weights)


def test_without_lags_no_expert_sees_the_past_but_for_the_last_value():
    X, y = rows(120)
    pipeline = Pipeline(schema_of(2), "auto", SMALL, 0)
    taken(pipeline, X, y)
    assert not any("lags" in name for name in pipeline.weights)
    assert any("change" in name for name in pipeline.weights)
    assert Pipeline(schema_of(2), "auto", SMALL).lags == 3


@pytest.mark.parametrize(("hours", "seasons"), [(1, (24, 168)), (6, (4, 28)), (24, (7,)), (5, ())])
def test_seasons_are_found_in_the_time_column(hours, seasons):
    start = np.datetime64("2024-01-01T00", "h")
    moments = [str(start + np.timedelta64(hours * i, "h")) for i in range(60)]
    schema = recognize(Chunk({"at": moments, "x": list("12" * 30), "y": list("345" * 20)}, list(range(60))), "y")
    assert schema.seasons == seasons
    assert type(schema).from_dict(schema.to_dict()) == schema
    named = list(Pipeline(schema).weights)
    assert named == ["previous value", "mean", *[f"value {period} rows ago" for period in seasons]]
    assert Pipeline(schema).lags == (24 if hours == 1 else 4 if hours == 6 else 7 if hours == 24 else 3)


@pytest.mark.more
@pytest.mark.parametrize("horizon", [0, 3])
def test_a_committee_is_saved_and_continued_exactly(horizon):
    X, y = rows()
    whole = Pipeline(schema_of(2), "auto", SMALL, 1, horizon)
    expected = taken(whole, X, y)
    for stop in (25, 30, 100):
        first = Pipeline(schema_of(2), "auto", SMALL, 1, horizon)
        before = taken(first, X[:stop], y[:stop])
        second = Pipeline.from_bytes(first.to_bytes())
        after = taken(second, X[stop:], y[stop:])
        assert_same(expected, {name: np.concatenate([before[name], after[name]]) for name in before})
        assert second.to_bytes() == whole.to_bytes()
    assert sum(whole.weights.values()) == pytest.approx(1.0)
    assert set(whole.chosen.names) < set(whole.weights)


CHANGE = {"capacity": 30, "features": 20, "warmup": 200}


def changing(n=900, at=500, seed=0):
    """From row ``at`` on another input decides."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 3))
    y = np.where(np.arange(n) < at, np.sin(2 * X[:, 0]), np.sin(2 * X[:, 1] + 1.0)) + 0.05 * rng.normal(size=n)
    return X, y


@pytest.mark.parametrize("at", [500, 900])
def test_a_generation_is_tuned_again_only_if_the_stream_has_changed(at, monkeypatch):
    monkeypatch.setattr(experts, "TOLERATED", 1.0)  # it stays up to the choice in any case
    X, y = changing(at=at)
    pipeline, told = Pipeline(schema_of(3), "auto", CHANGE | {"drift": False}, 0), []
    taken(pipeline, X[:510], y[:510])
    pipeline._staged._set(generation=510)  # an alarm
    pipeline.report_to(told.append)
    taken(pipeline, X[510:], y[510:])
    searches = [sentence for sentence in told if sentence.startswith("tuning")]
    assert [sentence.endswith("160 rows") for sentence in searches] == [False, *([True] if at == 500 else [])]
    assert bool(pipeline.model.changes) == (at == 500)
    assert pipeline._staged._now.generation == -1


def with_outliers(share):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (700, 2))
    clean = np.sin(2 * X[:, 0]) + X[:, 1]
    y = clean + 0.05 * rng.normal(size=700)
    y[rng.random(700) < share] += 30.0
    pipeline = Pipeline(schema_of(2), "auto", SMALL | {"capacity": 40, "warmup": 300}, 0)
    taken(pipeline, X, y)
    return pipeline, X, y, clean


@pytest.mark.more
def test_a_robust_member_joins_where_there_are_outliers_and_is_not_swayed():
    pipeline, X, y, clean = with_outliers(0.05)
    members = dict(zip(pipeline.weights, pipeline._innermost().members, strict=True))
    predicted = {
        name: model.predict_many(np.column_stack([X[-100:], y[-101:-1], np.arange(100.0)])).mean
        for name, model in members.items()
    }
    error = {name: float(np.sqrt(np.mean((mean - clean[-100:]) ** 2))) for name, mean in predicted.items()}
    robust = error.pop("robust KRLST")
    assert robust < 0.1 * min(error.values())


@pytest.mark.more
def test_no_robust_member_joins_where_there_are_none():
    pipeline, *_ = with_outliers(0.0)
    assert not any("robust" in name for name in pipeline.weights)


def test_a_row_with_a_broken_input_is_not_learned_but_its_target_is_a_lag():
    X, y = plant(200)
    X[150, 0] = 1e6
    model, other = small(), small()
    model.learn_many(X[:151], y[:151])
    y[150] += 0.3
    other.learn_many(X[:151], y[:151])
    lags = [one._outputs[0]._past[-1, 0] for one in (model, other)]
    assert lags[1] - lags[0] == pytest.approx(0.3)
    assert model.weights == other.weights
    assert model.errors == other.errors


def test_after_a_fill_value_among_the_first_targets_leaps_are_doubted_as_without():
    y = np.sin(0.05 * np.arange(200))
    y[150], doubted = 8.0, []
    for first in (np.nan, -9999.0):
        y[3] = first
        model = small(warmup=500)
        model.learn_many(np.empty((200, 0)), y)
        doubted.append(model.health.fill_values)
    assert doubted == [1, 2]


def test_a_new_sequence_knows_no_last_rows_and_may_begin_anywhere():
    X, y = plant(120)
    models = [small(seasons=[12], warmup=40) for _ in range(2)]
    for model in models:
        model.learn_many(X, y)
        model.reset_memory()
    past = models[0]._outputs[0]
    assert np.isneginf(past._times).all()
    assert not past._values.any()
    assert not past._x.any()
    refused = models[0].health.fill_values
    models[0].learn_many(X[:5], 3.0 * np.ptp(y) + y[:5])
    assert models[0].health.fill_values <= refused + 2
    first = models[1].predict_one(X[0]).mean
    assert np.isfinite(first)
    assert models[1].copy().predict_one(X[0]).mean == first
