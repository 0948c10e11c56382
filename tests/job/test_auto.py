"""Auto: who predicts when, and that it is never worse than the obvious."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg
from streamgp.auto import experts
from streamgp.auto.experts import MOST_PROCESSES
from streamgp.job import Pipeline
from streamgp.job.within import model_with
from streamgp.tables.formats import Chunk
from streamgp.tables.recognizing import recognize
from tests.job.test_pipeline import assert_same, schema_of, taken
from tests.job.test_tuned import rows

SMALL = {"capacity": 10, "features": 10, "warmup": 100, "drift": False}
PROCESSES = ("fast KRLST", "KRLST", "SOGP", "ISSGPR")
OVER_TIME = ("Gaussian process (over time)", "least squares (over time)")


def processes(pipeline):
    return [name for name in pipeline.weights if name.startswith((*PROCESSES, *OVER_TIME))]


def test_the_second_row_is_predicted_by_the_first_target():
    X, y = rows(20)
    for lags in (0, 3, None):
        said = taken(Pipeline(schema_of(2), "auto", SMALL, lags), X, 100.0 + y)["mean"]
        assert np.isnan(said[0])
        assert said[1] == 100.0 + y[0]
        assert np.isfinite(said[1:]).all()


def test_the_first_interval_is_in_the_units_of_the_target():
    X, y = rows(3)
    widths = []
    for scale in (1e-3, 1.0, 1e6):
        said = taken(Pipeline(schema_of(2), "auto", SMALL, 0), X, scale * (3.0 + y))
        widths.append((said["upper"] - said["lower"])[1:] / scale)
    assert widths[0][0] == pytest.approx(2 * 1.6448536 * abs(3.0 + y[0]))
    np.testing.assert_allclose(widths, np.tile(widths[0], (3, 1)))


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


def test_a_seasonal_signal_is_followed_by_its_season_before_anything_is_learned():
    day = np.random.default_rng(0).normal(size=24)
    start = np.datetime64("2024-01-01T00", "h")
    moments = [str(start + np.timedelta64(i, "h")) for i in range(80)]
    schema = recognize(Chunk({"at": moments, "y": ["1.5"] * 80}, list(range(80))), "y")
    pipeline = Pipeline(schema, settings=SMALL | {"warmup": 1000})
    said = taken(pipeline, np.zeros((80, len(schema.input_names))), np.tile(day, 4)[:80])
    np.testing.assert_allclose(said["mean"][60:], said["observed"][60:], atol=0.1)


@pytest.mark.parametrize("lags", [0, pytest.param(3, marks=pytest.mark.more)])
def test_a_slow_signal_is_predicted_as_well_as_by_its_previous_value(lags):
    rng = np.random.default_rng(0)
    y = 1e6 + np.cumsum(rng.normal(size=1500))
    said = taken(Pipeline(schema_of(2), "auto", SMALL, lags), rng.normal(size=(1500, 2)), y)["mean"]
    error, previous = ((value[20:] - y[20:]) ** 2 for value in (said, np.r_[np.nan, y[:-1]]))
    assert np.sqrt(error.mean()) < 1.1 * np.sqrt(previous.mean())
    assert np.sqrt(error[480:].mean()) < 1.02 * np.sqrt(previous[480:].mean())


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


def error(said, rows):
    return float(np.sqrt(np.mean((said["mean"] - said["observed"])[rows] ** 2)))


def test_a_new_generation_is_born_when_the_stream_has_changed():
    X, y = changing()
    pipeline = Pipeline(schema_of(3), "auto", CHANGE, 0)
    said = taken(pipeline, X, y)
    (row,) = pipeline.model.changes
    assert 500 < row < 530
    assert any(name.endswith(f", from row {row + 1}") for name in pipeline.chosen.names)
    assert len(processes(pipeline)) <= MOST_PROCESSES[1]
    fixed = Pipeline(schema_of(3), "auto", CHANGE | {"drift": False}, 0)
    without = taken(fixed, X, y)
    assert list(fixed.model.changes) == fixed.drift == []
    assert not fixed.changes.on
    assert error(said, slice(600, None)) < 0.5 * error(without, slice(600, None))


@pytest.mark.parametrize("at", [500, 900])
def test_a_generation_is_tuned_again_only_if_the_stream_has_changed(at, monkeypatch):
    monkeypatch.setattr(experts, "TOLERATED", 1.0)  # it stays up to the choice in any case
    X, y = changing(at=at)
    pipeline, told = Pipeline(schema_of(3), "auto", CHANGE | {"drift": False}, 0), []
    taken(pipeline, X[:510], y[:510])
    model_with(pipeline.model, "next_change")._set(generation=510)  # an alarm
    pipeline.report_to(told.append)
    taken(pipeline, X[510:], y[510:])
    searches = [sentence for sentence in told if sentence.startswith("tuning")]
    assert [sentence.endswith("160 rows") for sentence in searches] == [False, *([True] if at == 500 else [])]
    assert bool(pipeline.model.changes) == (at == 500)
    assert model_with(pipeline.model, "next_change")._now.generation == -1


@pytest.mark.more
@pytest.mark.parametrize(("horizon", "stops"), [(0, (520, 620)), (2, ())])
def test_a_change_is_met_alike_however_rows_are_handed_over_and_wherever_it_is_saved(horizon, stops):
    X, y = changing(760)
    untuned = CHANGE | {"tune": False}
    y[[3, 480, 510, 640]] = np.nan
    if horizon:  # the target's future is in the inputs
        X = np.roll(X, -horizon, axis=0)
    whole = Pipeline(schema_of(3), "auto", untuned, 1, horizon)
    expected = taken(whole, X, y)
    assert len(whole.model.changes if not horizon else whole.model.inner.changes) == 1
    pieces = Pipeline(schema_of(3), "auto", untuned, 1, horizon)
    assert_same(expected, taken(pieces, X, y, cuts=[7, 333, 505, 506, 600, 701]))
    for stop in stops:
        first = Pipeline(schema_of(3), "auto", untuned, 1, horizon)
        before = taken(first, X[:stop], y[:stop])
        second = Pipeline.from_bytes(first.to_bytes())
        after = taken(second, X[stop:], y[stop:])
        assert_same(expected, {name: np.concatenate([before[name], after[name]]) for name in before})
        assert second.to_bytes() == whole.to_bytes()


@pytest.mark.more
def test_a_change_soon_after_another_is_answered_too():
    X, y = changing(1200)
    y = np.where(np.arange(1200) < 650, y, np.cos(3 * X[:, 2]) + 0.05 * np.random.default_rng(1).normal(size=1200))
    pipeline = Pipeline(schema_of(3), "auto", CHANGE, 0)
    said = taken(pipeline, X, y)
    first, *_, last = pipeline.model.changes
    assert [500 < first < 530, 650 < last < 700] == [True, True]
    assert error(said, slice(800, None)) < 0.2
    assert len(processes(pipeline)) <= MOST_PROCESSES[1]


@pytest.mark.more
@pytest.mark.parametrize("seed", [1, 2])
def test_bursts_of_noise_are_told_as_no_change(seed):
    rng = np.random.default_rng(seed)
    X, y = changing(700, at=700, seed=seed)
    for start in (400, 600):
        y[start : start + 15] += rng.normal(size=15)
    pipeline = Pipeline(schema_of(3), "auto", CHANGE, 0)
    taken(pipeline, X, y)
    assert list(pipeline.model.changes) == pipeline.drift == []
    assert not any("from row" in name for name in pipeline.chosen.names)


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
    members = dict(zip(pipeline.weights, model_with(pipeline.model, "members").members, strict=True))
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


def plant(n=400):
    """A slow signal that two inputs drive, one of them by its last value."""
    rng = np.random.default_rng(5)
    X = np.cumsum(rng.normal(size=(n, 2)), axis=0) / 10.0
    return X, 3.0 * X[:, 0] - X[:, 1] + 0.05 * rng.normal(size=n)


def small(warmup=100, **settings):
    return sg.Auto(warmup=warmup, tune=False, drift=False, candidates={"capacity": 10, "features": 10}, **settings)


@pytest.mark.parametrize("ahead", [0, 3])
@pytest.mark.parametrize("what", ["target", "input"])
def test_a_broken_reading_costs_little_beyond_its_row(what, ahead):
    X, y = plant()
    broken, missed = np.arange(150, 400, 50), []
    for size in (0.0, 1e3):
        inputs, targets = X.copy(), y.copy()
        if what == "target":
            targets[broken] += size
        else:
            inputs[broken, 0] += size
        model = small()
        model = sg.Ahead(model, horizon=ahead) if ahead else model
        error = model.track(inputs, targets).mean - y
        error[broken + ahead] = 0.0
        missed.append(np.sqrt(np.mean(error[100:] ** 2)))
    assert missed[1] < 1.1 * missed[0]


def test_broken_readings_are_counted_and_a_new_level_is_learned():
    X, y = plant()
    y[200] = 1e3
    model = small()
    model.learn_many(X, y)
    assert model.health.fill_values == 1
    model.learn_many(X, y + 60.0)
    assert 3 <= model.health.fill_values <= 5
    assert abs(model.predict_one(X[-1]).mean - y[-1] - 60.0) < 5.0


@pytest.mark.parametrize("late", [False, True])
def test_broken_readings_are_met_alike_row_by_row_at_once_and_after_loading(late):
    X, y = plant(200)
    X[150, 1], y[[130, 170]] = -1e6, (np.nan, 1e5)
    whole, single = (sg.Ahead(small(), horizon=2) if late else small() for _ in range(2))
    at_once = whole.track(X, y).mean
    one_by_one = []
    for t in range(200):
        one_by_one.append(single.predict_one(X[t]).mean)
        single.learn_one(X[t], y[t])
        if t == 151:
            single = sg.from_bytes(single.to_bytes())
    np.testing.assert_allclose(one_by_one[3:], at_once[3:], rtol=1e-8)


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


def test_screening_can_be_switched_off():
    X, y = plant(200)
    y[150] = 1e3
    model = small(screen=False)
    model.learn_many(X, y)
    assert model.health.fill_values == 0
    with pytest.raises(ValueError, match=r"y has a number beyond 1e\+150, whose square would overflow"):
        model.learn_one(X[0], 1e308)


@pytest.mark.parametrize("row", [0, *(pytest.param(row, marks=pytest.mark.more) for row in (3, 7))])
def test_a_fill_value_among_the_first_targets_is_a_missing_one_as_soon_as_it_is_known(row):
    """-9999 is known for one at 64 targets, what lies absurdly far at 8, and what is beyond 1e150 at once."""
    X, y = plant(80)
    y[row] = np.nan
    expected = small(warmup=30)
    without = expected.track(X, y)
    for value, known in ((3.4e38, 8), (1e30, 8), (-9999.0, 64), (1e308, 0)):
        y[row] = value
        model = small(warmup=30)
        said = model.track(X, y)
        np.testing.assert_array_equal(said.mean[known:], without.mean[known:])
        np.testing.assert_array_equal(said.lower[known:], without.lower[known:])
        assert model.health.fill_values == expected.health.fill_values + 1
        if value == 1e30:
            single = small(warmup=30)
            for x, target in zip(X, y, strict=True):
                single.learn_one(x, target)
            assert single.to_bytes() == model.to_bytes()


def test_a_fill_value_of_one_output_is_struck_out_of_that_one():
    X, y = plant(20)
    Y = np.column_stack([y, 5.0 - y])
    Y[2, 1] = np.nan
    without = small(warmup=30).track(X, Y).mean
    Y[2, 1] = 1e30
    model = small(warmup=30)
    np.testing.assert_array_equal(model.track(X, Y).mean[8:], without[8:])
    assert model.health.fill_values == 1


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


def test_after_a_step_of_a_short_stream_predictions_stay_near_its_range():
    """Members that learned eight inputs from ten rows would be tens of thousands away."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=25) + 1000.0 * (np.arange(25) >= 12)
    error = small(warmup=10).track(rng.normal(size=(25, 8)), y).mean - y
    assert np.sqrt(np.mean(error[12:] ** 2)) < 2.0 * y.std()


def test_a_long_memory_is_found():
    """An echo of 20 rows before, which no Gaussian process sees."""
    rng = np.random.default_rng(6)
    y = rng.normal(size=400)
    for t in range(20, 400):
        y[t] += 0.9 * y[t - 20]
    X = rng.normal(size=(400, 1))
    error = small().track(X, y).mean - y
    assert np.sqrt(np.mean(error[200:] ** 2)) < 0.6 * y[200:].std()


def test_a_large_offset_of_the_target_costs_nothing():
    X, y = rows(300)
    plain, high, low = (sg.Auto(warmup=100).track(X, y + offset).mean[50:] - offset for offset in (0.0, 1e5, -1e8))
    np.testing.assert_allclose(high, low, rtol=0, atol=1e-3 * np.std(y))
    errors = [np.sqrt(np.mean((mean - y[50:]) ** 2)) for mean in (plain, high, low)]
    assert max(errors) < 1.05 * errors[0]


@pytest.mark.parametrize("value", [0.0, 0.1, -1e9 / 3])
def test_a_constant_target_is_predicted(value):
    X, _ = rows(150)
    np.testing.assert_allclose(sg.Auto(warmup=100).track(X, np.full(150, value)).mean[1:], value, rtol=1e-12)


def test_targets_may_come_out_of_order():
    X, y = rows(200)
    model, tickets, errors = sg.Delayed(sg.Auto(warmup=100)), {}, []
    for i in range(200):
        tickets[i] = model.issue(X[i]).ticket
        if i % 5 == 4:
            errors += [y[j] - model.resolve(tickets.pop(j), y[j]).mean for j in (i, i - 2, i - 4, i - 1, i - 3)]
    assert np.std(errors[100:]) < 0.5 * np.std(y)


def test_the_importance_of_groups_of_inputs_is_that_of_the_function():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = 2.0 * X[:, 0] - 2.0 * X[:, 1] + 0.05 * rng.normal(size=300)
    model = sg.Auto(warmup=100, tune=False, drift=False)
    assert model.importance([[0], [1], [2]]).size == 0
    model.learn_many(X, y)
    shares = model.importance([[0, 1], [2]])
    assert shares.shape == (3,)
    assert shares.sum() == pytest.approx(1.0)
    assert shares[0] > 0.95
    each = model.importance([[0], [1], [2]])
    assert each[0] == pytest.approx(each[1], abs=0.1)
