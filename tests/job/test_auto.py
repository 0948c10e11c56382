"""A run with Auto: which experts sit at its table when, and what a run says of them."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.auto.candidates import SIZES
from streamgp.job import Pipeline
from streamgp.tables.formats import Chunk
from streamgp.tables.recognizing import recognize
from tests.auto.test_predictions import small
from tests.job.test_pipeline import schema_of, taken
from tests.job.test_tuned import rows

SMALL = {"capacity": 10, "features": 10, "warmup": 100, "drift": False}
PROCESSES = ("KRLST", "SOGP", "ISSGPR")
OVER_TIME = ("Gaussian process (over time)", "least squares (over time)")
STAY = SIZES[200e-6].stay  # with the budget that there is if none is given


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
        for view in ("", " (lags)", " (24 lags)", " (lags, row before)", " (all)")
        for forgetting in ("1", "0.999", "0.99")
    ]
    assert processes(pipeline) == []
    taken(pipeline, X[20:30], y[20:30])
    early = [f"{name}{view}" for view in ("", " (lags)", " (change, lags)") for name in PROCESSES]
    assert processes(pipeline) == early
    assert pipeline.chosen is None
    taken(pipeline, X[30:90], y[30:90])
    assert sorted(processes(pipeline)) == sorted([*early, *OVER_TIME])
    taken(pipeline, X[90:100], y[90:100])
    scores = pipeline.chosen.scores
    assert pipeline.chosen.names == sorted(scores, key=scores.__getitem__)[: STAY[0]]
    assert sorted(processes(pipeline)) == sorted(pipeline.chosen.names)
    for start, stop, stay in ((100, 200, STAY[1]), (200, 400, STAY[2])):
        taken(pipeline, X[start:stop], y[start:stop])
        assert len(processes(pipeline)) == stay
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


def test_after_a_fill_value_among_the_first_targets_leaps_are_doubted_as_without():
    y = np.sin(0.05 * np.arange(200))
    y[150], doubted = 8.0, []
    for first in (np.nan, -9999.0):
        y[3] = first
        model = small(warmup=500)
        model.learn_many(np.empty((200, 0)), y)
        doubted.append(model.health.fill_values)
    assert doubted == [1, 2]
