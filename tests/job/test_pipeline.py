from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import os
import sys

import numpy as np
import pytest

import streamgp as sg
from streamgp.contract import snapshot
from streamgp.job import Pipeline
from streamgp.job.told import model_with
from streamgp.tables.columns import Column, Schema
from streamgp.tables.encoding import EncodedRows
from streamgp.tables.source import RowsError

SETTINGS = {"capacity": 8, "warmup": 30, "tune": False}


def schema_of(d, time=False):
    names = [f"x{i}" for i in range(d)]
    columns = [Column(name, "number") for name in [*names, "y"]] + ([Column("t", "time")] if time else [])
    return Schema(tuple(columns), "y", tuple(names), "t" if time else "")


def stream(n=80, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.sin(X[:, 0]) + np.sin(0.2 * np.arange(n)) + 0.1 * rng.normal(size=n)
    return X, y


def rows_of(X, y):
    return EncodedRows(X.copy(), y.copy(), None, list(range(2, len(y) + 2)), [])


def taken(pipeline, X, y, cuts=()):
    """All lines, with the rows handed over in pieces."""
    edges = [0, *cuts, len(y)]
    parts = [pipeline.take(rows_of(X[a:b], y[a:b])) for a, b in itertools.pairwise(edges)]
    return {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in parts[0]._fields
        if name not in ("time", "ticket", "p_value", "alarm")
    }


def assert_same(a, b, rows=slice(None)):
    for name, values in a.items():
        np.testing.assert_array_equal(values[rows], b[name][rows], err_msg=name)


LEFT_OUT = [(3, 0), (0, 1), (2, 1), (0, 3)]
CASES = [(0, 0), (3, 4), *(pytest.param(*case, marks=pytest.mark.more) for case in LEFT_OUT)]


@pytest.mark.parametrize(("lags", "horizon"), CASES)
def test_predictions_do_not_depend_on_how_rows_are_handed_over(lags, horizon):
    X, y = stream()
    y[[5, 40, 41]] = np.nan
    whole = taken(Pipeline(schema_of(2), "KRLST", SETTINGS, lags, horizon), X, y)
    for cuts in ([1, 2, 3, 50], [6, 30, 31], list(range(1, 80))):
        assert_same(whole, taken(Pipeline(schema_of(2), "KRLST", SETTINGS, lags, horizon), X, y, cuts))


@pytest.mark.parametrize("late", [0, 2])
@pytest.mark.parametrize(("lags", "horizon"), [(0, 0), (1, 0), (3, 0), (3, 1), (3, 2), (0, 2), (25, 0)])
def test_rows_with_lags_from_before_the_first_target_do_not_mislead_the_model_that_is_chosen(lags, horizon, late):
    X, y = stream(60)
    y += 100.0
    if lags:
        y[:late] = np.nan
    settings = {"capacity": 60, "novelty": 0.0, "tune": False, "drift": False, "warmup": 50}
    unready = (late + (horizon == 0)) if lags else 0
    pipeline = Pipeline(schema_of(2), "SOGP", settings, lags, horizon)
    lines = taken(pipeline, X[: 50 + unready + horizon], y[: 50 + unready + horizon], range(1, 50))
    assert pipeline.model.size == 50
    assert np.all(np.isfinite(lines["mean"][unready + horizon :]))
    assert np.abs(lines["mean"] - lines["observed"])[unready + horizon + 2 : 20].max() < 10.0  # they know its size


@pytest.mark.skipif("NUMBA_DISABLE_JIT" in os.environ, reason="counts calls of compiled code")
def test_one_row_takes_few_python_calls():
    X, y = stream(220, d=8)
    pipeline = Pipeline(schema_of(8), "KRLST", SETTINGS)
    taken(pipeline, X[:200], y[:200])  # the warm-up of least squares, too
    rows = [rows_of(X[t : t + 1], y[t : t + 1]) for t in range(200, 220)]
    pipeline.take(rows[0])
    calls = []
    sys.setprofile(lambda _, event, __: calls.append(event) if event.endswith("call") else None)
    try:
        for one in rows[1:]:
            pipeline.take(one)
    finally:
        sys.setprofile(None)
    assert len(calls) / 19 < 475  # the model alone takes half of them


@pytest.mark.parametrize(("lags", "horizon"), CASES)
def test_a_saved_run_goes_on_as_if_it_had_never_stopped(tmp_path, lags, horizon):
    X, y = stream()
    pipeline = Pipeline(schema_of(2), "KRLST", SETTINGS, lags, horizon)
    whole = taken(pipeline, X, y)
    for stop in (1, 4, 29, 30, 55):
        first = Pipeline(schema_of(2), "KRLST", SETTINGS, lags, horizon)
        before = taken(first, X[:stop], y[:stop])
        first.save(tmp_path / "run.sgp")
        second = Pipeline.load(tmp_path / "run.sgp")
        after = taken(second, X[stop:], y[stop:])
        assert_same(whole, {name: np.concatenate([before[name], after[name]]) for name in before})
        assert second.to_bytes() == pipeline.to_bytes(), stop
        np.testing.assert_array_equal(second.scores.sums, pipeline.scores.sums, str(stop))


TEN = np.linspace(1.0, 2.0, 10)


@pytest.mark.parametrize("stop", [3, 40])
@pytest.mark.parametrize(
    "settings",
    [
        {"lengthscale": list(TEN)},
        {"lengthscale": TEN},
        {"kernel": sg.SquaredExponential(TEN)},
        {"kernel": 2.0 * sg.Matern(2.5, lengthscale=TEN) + sg.LinearKernel()},
        {"noise": np.float32(0.1), "warmup": np.int64(30), "level": np.float64(0.8)},
        {"half_life": dt.timedelta(minutes=20)},
        {"half_life": np.timedelta64(20, "m")},
    ],
    ids=["list", "array", "kernel", "sum", "numbers", "timedelta", "timedelta64"],
)
def test_a_run_with_settings_of_python_and_numpy_resumes_bit_for_bit(tmp_path, settings, stop):
    X, y = stream(60, d=10)
    times = [f"2024-01-01T{i // 60:02d}:{i % 60:02d}" for i in range(len(y))]

    def part(pipeline, a, b):
        return pipeline.take(EncodedRows(X[a:b].copy(), y[a:b].copy(), times[a:b], list(range(a, b)), []))

    whole = Pipeline(schema_of(10, time=True), "KRLST", SETTINGS | settings)
    expected = part(whole, 0, len(y)).mean[stop:]
    first = Pipeline(schema_of(10, time=True), "KRLST", SETTINGS | settings)
    part(first, 0, stop)
    first.save(tmp_path / "run.sgp")
    second = Pipeline.load(tmp_path / "run.sgp")
    np.testing.assert_array_equal(part(second, stop, len(y)).mean, expected)
    assert second.to_bytes() == whole.to_bytes()


def test_a_run_keeps_its_settings_when_the_caller_changes_an_array():
    lengthscale = TEN.copy()
    pipeline = Pipeline(schema_of(10), "KRLST", SETTINGS | {"lengthscale": lengthscale})
    lengthscale[:] = -1.0
    X, y = stream(40, d=10)
    taken(pipeline, X, y)
    assert pipeline.request.settings["lengthscale"].tolist() == TEN.tolist()


@pytest.mark.parametrize(("lags", "horizon"), CASES)
def test_nothing_is_known_before_its_time(lags, horizon):
    """A target that changes at row t changes no prediction that was made before it came."""
    X, y = stream()
    t = 60
    changed = y.copy()
    changed[t] += 1.0
    one = taken(Pipeline(schema_of(2), "KRLST", SETTINGS, lags, horizon), X, y)
    other = taken(Pipeline(schema_of(2), "KRLST", SETTINGS, lags, horizon), X, changed)
    # Row t + horizon is the first whose prediction was made with the target of row t at hand.
    made_without = t + max(horizon, 1)
    assert np.array_equal(one["mean"][:made_without], other["mean"][:made_without], equal_nan=True)
    assert np.array_equal(one["lower"][:made_without], other["lower"][:made_without], equal_nan=True)
    assert one["mean"][made_without] != other["mean"][made_without]


def test_inputs_are_named_by_how_far_back_they_lie():
    assert Pipeline(schema_of(0), "KRLST", SETTINGS, lags=3).input_names == ["y[-1]", "y[-2]", "y[-3]"]
    assert Pipeline(schema_of(0), "KRLST", SETTINGS, lags=3, horizon=1).input_names == ["y", "y[-1]", "y[-2]"]


@pytest.mark.parametrize("horizon", [0, 1, 3])
def test_lines_are_those_of_the_library_used_by_hand(horizon):
    """The slow way: predict each row, wait for its target, learn it then."""
    X, y = stream(60)
    settings = {"capacity": 8, "warmup": 10**6, "tune": False}
    lines = taken(Pipeline(schema_of(2), "KRLST", settings, 0, horizon), X, y)
    pipeline = Pipeline(schema_of(2), "KRLST", settings, 0, horizon)
    within = model_with(pipeline.model, "chosen")._within.clone()
    model = sg.Ahead(within, horizon=horizon) if horizon > 1 else sg.Delayed(within, pending=horizon + 1)
    made = []
    for t in range(len(y)):
        if horizon > 1:
            model.learn_one(X[t], y[t])
            made.append(model.upcoming()[-1])
            continue
        if t >= horizon > 0:
            model.resolve(t - horizon, y[t])
        made.append(model.issue(X[t]))
        if horizon == 0:
            model.resolve(t, y[t])
    for t in range(horizon, len(y)):
        p = made[t - horizon]
        assert lines["mean"][t] == p.mean
        if np.isinf(p.std):  # before a scale is known nothing is claimed
            assert np.isnan([lines["lower"][t], lines["upper"][t], lines["std"][t], lines["log_density"][t]]).all()
            continue
        assert (lines["lower"][t], lines["upper"][t]) == (p.lower, p.upper)
        assert lines["log_density"][t] == pytest.approx(p.log_density(y[t]), abs=1e-12)
        assert lines["std"][t] == pytest.approx(p.std, abs=1e-12)
        assert (lines["raw_lower"][t], lines["raw_upper"][t]) == pytest.approx(p.raw.interval(0.9), abs=1e-12)
    assert np.all(np.isnan(lines["mean"][:horizon]))


@pytest.mark.parametrize(
    ("model", "horizon"),
    [
        ("KRLST", 150),
        *(pytest.param(*case, marks=pytest.mark.more) for case in [("KRLST", 600), ("auto", 150), ("auto", 600)]),
    ],
)
def test_a_horizon_longer_than_the_warmup_waits_for_the_targets(model, horizon):
    y = np.sin(0.3 * np.arange(horizon + 160))
    pipeline = Pipeline(schema_of(0), model, SETTINGS | {"warmup": 100}, 2, horizon)
    lines = taken(pipeline, np.empty((len(y), 0)), y, [horizon + 20])
    assert np.flatnonzero(np.isfinite(lines["mean"]))[0] == horizon
    assert len(pipeline.chosen.names) == (6 if model == "auto" else 1)


def test_predictions_of_rows_to_come_are_at_hand():
    X, y = stream(40)
    pipeline, live = (Pipeline(schema_of(2), "KRLST", SETTINGS, 1, 3) for _ in range(2))
    pipeline.take(rows_of(X, y))
    waiting = pipeline.outstanding()
    assert waiting.row.tolist() == [41, 42, 43]
    assert np.all(np.isfinite(waiting.mean))
    assert np.all(np.isnan(waiting.observed))
    at_once = live.take(rows_of(X, y), ahead=True)
    assert at_once.row.tolist() == list(range(4, 44))
    np.testing.assert_array_equal(at_once.mean[-3:], waiting.mean)
    assert Pipeline(schema_of(2), "KRLST", SETTINGS).outstanding().row.size == 0
    judged = Pipeline(schema_of(2), "KRLST", SETTINGS | {"alarms": 0.01}, 1, 3)
    judged.take(rows_of(X, y))
    assert np.isfinite(judged.outstanding().mean).all()


def test_after_the_warmup_the_model_is_the_one_that_has_learned_all_first_rows():
    X, y = stream(70)
    pipeline = Pipeline(schema_of(2), "KRLST", SETTINGS)
    lines = taken(pipeline, X, y)
    model = sg.Calibrated(sg.Standardize(sg.KRLST(sg.SquaredExponential([2**0.5] * 2), capacity=8), warmup=30))
    model.learn_many(X[:30], y[:30])
    np.testing.assert_array_equal(lines["mean"][30:], model.track(X[30:], y[30:]).mean)
    assert pipeline.chosen.name == "KRLST"
    assert pipeline.chosen.reason == "as requested"


def test_scores_are_those_of_all_rows_with_a_target_and_a_prediction():
    X, y = stream(60)
    y[7] = np.nan
    pipeline = Pipeline(schema_of(2), "KRLST", SETTINGS, 1)
    lines = taken(pipeline, X, y, [11, 12])
    known = np.isfinite(y) & np.isfinite(lines["lower"])  # before a scale is known nothing is claimed
    error = (lines["mean"] - y)[known]
    scores = pipeline.scores.summary()
    assert scores["rows"] == 56
    assert scores["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)), abs=1e-12)
    inside = (lines["lower"] <= y) & (y <= lines["upper"])
    assert scores["coverage"] == pytest.approx(np.mean(inside[known]), abs=1e-12)
    assert scores["mean_log_density"] == pytest.approx(np.mean(lines["log_density"][known]), abs=1e-12)
    last = np.array([np.nan, *y[:-1]])
    last[8] = y[6]
    both = known & np.isfinite(last)
    assert scores["rmse_previous_value"] == pytest.approx(np.sqrt(np.mean((last - y)[both] ** 2)), abs=1e-12)


def test_lags_have_a_default_where_there_is_nothing_else():
    assert Pipeline(schema_of(2), "KRLST", SETTINGS).lags == 0
    assert Pipeline(schema_of(0), "KRLST", SETTINGS).lags == 10
    assert Pipeline(schema_of(2), "KRLST", SETTINGS, horizon=2).lags == 10
    with pytest.raises(RowsError, match="nothing to predict from: the target is the only column in use"):
        Pipeline(schema_of(0), "KRLST", SETTINGS, lags=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"settings": {"capasity": 3}},
            "no candidate of auto has a setting 'capasity'.*Did you mean 'capacity'\\?",
        ),
        ({"model": "SOGP", "settings": {"forgetting": 1}}, "SOGP has no setting 'forgetting'"),
        ({"settings": {"level": 1.5}}, "level must be above 0 and below 1; got 1.5"),
        ({"settings": {"warmup": 3}}, "warmup must be a whole number of at least 10; got 3"),
        ({"settings": {"tune": "perhaps"}}, "tune must be True or False; got 'perhaps'"),
        ({"model": "KRLST", "settings": {"capacity": 0}}, "capacity must be"),
        ({"model": "RecursiveGP"}, "RecursiveGP needs basis: give `basis=...`, or use it from Python"),
        ({"model": "OESGP", "horizon": 3}, "OESGP keeps a memory of its inputs and cannot wait 3 rows for a target"),
        ({"lags": -1}, "lags must be a whole number of at least 0; got -1"),
        ({"horizon": -1}, "horizon must be a whole number of at least 0; got -1"),
        ({"horizon": 10**9}, "horizon must be a whole number of at most 100000; got 1000000000"),
    ],
)
def test_what_cannot_be_run_is_refused(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Pipeline(schema_of(2), **arguments)


def test_a_file_with_a_single_model_is_no_run_and_the_other_way_round(tmp_path):
    X, y = stream(20)
    model = sg.KRLST(capacity=5)
    model.learn_many(X, y)
    model.save(tmp_path / "model.sgp")
    with pytest.raises(sg.SnapshotError, match="holds a single KRLST, not a run; open it with sg.load"):
        Pipeline.load(tmp_path / "model.sgp")
    Pipeline(schema_of(2), "KRLST", SETTINGS).save(tmp_path / "run.sgp")
    with pytest.raises(sg.SnapshotError, match="holds a run over rows of a table; open it with streamgp.job.Pipeline"):
        sg.load(tmp_path / "run.sgp")
    with pytest.raises(RowsError, match="cannot be read: No such file"):
        Pipeline.load(tmp_path / "none.sgp")


def test_settings_are_given_as_text_or_values_and_may_be_parts():
    settings = SETTINGS | {"kernel": "2 * Matern(1.5, lengthscale=3.0)", "forgetting": "0.99", "mode": "injection"}
    pipeline = Pipeline(schema_of(1), "KRLST", settings)
    own = pipeline.model.get_params()["model"].get_params()
    assert own["kernel"] == 2.0 * sg.Matern(1.5, lengthscale=3.0)
    assert own["forgetting"] == 0.99
    adapting = Pipeline(schema_of(1), "SOGP", {"adapt": "SNGD(interval=20)"}).model.get_params()["model"]
    assert adapting.get_params()["adapt"] == sg.SNGD(20)
    with pytest.raises(ValueError, match="there is no part 'Mattern'. Did you mean 'Matern'\\?"):
        Pipeline(schema_of(1), "KRLST", {"kernel": "Mattern(1.5)"})


def test_a_run_whose_parts_do_not_fit_is_refused_with_a_sentence():
    X, y = stream()
    pipeline = Pipeline(schema_of(2), "KRLST", SETTINGS, lags=2, horizon=1)
    taken(pipeline, X, y)
    header, tensors = snapshot.unpacked(pipeline.to_bytes())
    for wrong, message in [
        ({"rows": -1}, "rows must be a whole number of at least 0; got -1"),
        ({"lags": 3}, r"the array yardsticks.last has shape"),
        ({"encoder": {"gaps": {"x0": -1}, "joined": [], "strangers": {}}}, "gaps must be a whole number"),
        ({"position": [1, 2, 3, 4]}, "does not describe a run.*start a new run, or resume it with the version that"),
    ]:
        with pytest.raises(sg.SnapshotError, match=message):
            Pipeline.from_bytes(snapshot.packed(header | {"run": header["run"] | wrong}, tensors))
    for name in header["run"]:
        for run in ({k: v for k, v in header["run"].items() if k != name}, header["run"] | {name: "junk"}):
            with contextlib.suppress(sg.SnapshotError):
                Pipeline.from_bytes(snapshot.packed(header | {"run": run}, tensors))
    for name in list(tensors)[::20]:  # of every part of the run some
        with pytest.raises(sg.SnapshotError):
            Pipeline.from_bytes(snapshot.packed(header, tensors | {name: np.zeros((2, 2, 2))}))
        with pytest.raises(sg.SnapshotError, match="does not describe a (run|model)|the snapshot's arrays are"):
            Pipeline.from_bytes(snapshot.packed(header, {k: v for k, v in tensors.items() if k != name}))
    other = sg.Calibrated(sg.KRLST())
    other.learn_one([1.0], 2.0)
    models, states = snapshot.nested({"model": snapshot.contents(other)})
    run = header["run"] | {"models": header["run"]["models"] | models}
    states |= {name: array for name, array in tensors.items() if not name.startswith("model/")}
    with pytest.raises(sg.SnapshotError, match="model is not the one that its settings say"):
        Pipeline.from_bytes(snapshot.packed(header | {"run": run}, states))


def test_runs_of_older_versions_are_refused_with_the_way_to_go(monkeypatch, tmp_path):
    with monkeypatch.context() as older:
        older.setattr("streamgp.contract.snapshot.FORMAT", 2)
        Pipeline(schema_of(2), "KRLST", SETTINGS).save(tmp_path / "run.sgp")
    for load in (Pipeline.load, sg.load):
        with pytest.raises(sg.SnapshotError, match="has format 2, this version .*: learn the stream again with this"):
            load(tmp_path / "run.sgp")
