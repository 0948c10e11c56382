"""The two parts of a run's scores, and what its predictions are compared with, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from streamgp.job import Pipeline
from streamgp.job.scores import RunningScores, shown
from streamgp.job.yardsticks import LINE, Yardsticks
from streamgp.tables.formats import Chunk
from streamgp.tables.recognizing import recognize
from streamgp.tables.writing import PredictedRows
from tests.job.test_pipeline import SETTINGS, schema_of, stream, taken

SMALL = {"KRLST": SETTINGS, "auto": {"capacity": 5, "features": 5, "warmup": 40, "tune": False}}


def seasonal_schema(*seasons):
    schema = schema_of(2)
    return type(schema)(schema.columns, schema.target, schema.inputs, seasons=seasons)


def pipeline_of(model, lags, horizon, seasons=(4, 12)):
    return Pipeline(seasonal_schema(*seasons), model, SMALL[model], lags, horizon)


def bridged(y, period):
    """Missing values are taken from as many rows ago."""
    y = list(y)
    for t in range(len(y)):
        if np.isnan(y[t]) and t >= period:
            y[t] = y[t - period]
    return y


def straight_line(rows, x):
    """What exponentially weighted ridge regression on these rows says of x, in the units of the first 2^k or 64 k."""
    rows = np.array([[*inputs, target] for inputs, target in rows if not np.isnan(target)])
    n = len(rows)
    afresh = max(m for m in range(1, n + 1) if m % 64 == 0 or m & (m - 1) == 0)
    older = 0.999 ** np.arange(afresh - 1.0, -1.0, -1.0)
    shift = np.average(rows[:afresh], axis=0, weights=older)
    scale = np.sqrt(np.average((rows[:afresh] - shift) ** 2, axis=0, weights=older))
    Z = (rows - shift) / scale
    Phi, older = np.column_stack([Z[:, :-1], np.ones(n)]), 0.999 ** np.arange(n - 1.0, -1.0, -1.0)
    A = 0.01 * 0.999**n * np.eye(len(x) + 1) + (older[:, None] * Phi).T @ Phi
    phi = np.array([*(np.array(x) - shift[:-1]) / scale[:-1], 1.0])
    return shift[-1] + scale[-1] * float(phi @ np.linalg.solve(A, Phi.T @ (older * Z[:, -1])))


def said_of(X, y, lags, horizon, seasons):
    """By yardstick, what it says of every row with what is known when the row is predicted."""
    n, ahead = len(y), max(horizon, 1)
    said = {"previous value": [np.nan] * n, "least squares": [np.nan] * n}
    for t in range(ahead, n):
        known = [value for value in y[: t - ahead + 1] if not np.isnan(value)]
        said["previous value"][t] = known[-1] if known else np.nan
    last = bridged(y, 1)
    # Row s predicts row s + horizon; with a horizon its own target is the newest lag.
    inputs = {}
    for s in range(n):
        past = [last[s - k + (horizon > 0)] if s - k + (horizon > 0) >= 0 else np.nan for k in range(1, lags + 1)]
        if not np.isnan(past).any():
            inputs[s] = [*X[s], *past]
    for t in range(horizon, n):
        s = t - horizon
        rows = [
            (inputs[r], y[r + horizon]) for r in range(s) if r in inputs and r + horizon <= (s if horizon else s - 1)
        ]
        if s in inputs and len(rows) >= 20 and (t < 60 or t % 7 == 0):  # every seventh row is enough
            said["least squares"][t] = straight_line(rows, inputs[s])
    for period in seasons:
        back = period * (1 + (ahead - 1) // period)
        past = bridged(y, back)
        said[f"value {back} rows ago"] = [past[t - back] if t >= back else np.nan for t in range(n)]
    return {name: np.array(values) for name, values in said.items()}


@pytest.mark.parametrize(
    ("model", "lags", "horizon"),
    [
        ("KRLST", 3, 0),
        ("KRLST", 3, 6),
        *(pytest.param("KRLST", *case, marks=pytest.mark.more) for case in [(0, 0), (2, 1)]),
        *(pytest.param("auto", *case, marks=pytest.mark.more) for case in [(0, 0), (3, 0), (2, 1), (3, 6)]),
    ],
)
def test_yardsticks_say_what_plain_loops_say(monkeypatch, model, lags, horizon):
    X, y = stream(540, seed=1)
    y = 50.0 + 3.0 * y
    y[[0, 33, 40, 41, 300]] = np.nan
    issued = []
    add = RunningScores.add
    monkeypatch.setattr(RunningScores, "add", lambda self, p: (issued.append(p.yardsticks), add(self, p)))
    pipeline = pipeline_of(model, lags, horizon)
    taken(pipeline, X, y, [1, 2, 25, 60, 400])
    expected = said_of(X, y, lags, horizon, (4, 12))
    said = dict(zip(pipeline.scores.names, np.concatenate(issued).T, strict=True))
    assert list(said) == list(expected)
    for name in expected:
        known = np.isfinite(expected[name])
        assert known.sum() > 60, name
        np.testing.assert_allclose(said[name][known], expected[name][known], rtol=0, atol=1e-8, err_msg=name)
        if name != "least squares":
            np.testing.assert_array_equal(np.isfinite(said[name]), known, err_msg=name)
    first = [np.flatnonzero(np.isfinite(values["least squares"]))[0] for values in (said, expected)]
    assert first[0] == first[1]


def test_a_part_compares_all_on_the_same_rows():
    rng = np.random.default_rng(0)
    n = 900
    y, mean, said = rng.normal(size=n), rng.normal(size=n), rng.normal(size=(n, 3))
    y[7], mean[[0, 9]] = np.nan, np.nan
    said[:30, 0], said[:100, 1], said[:300, 2] = np.nan, np.nan, np.nan
    said[600, 0] = np.nan
    width = rng.uniform(1.0, 3.0, size=n)
    nothing = np.full(n, np.nan)
    rows = PredictedRows(np.arange(1, n + 1), None, mean, mean - width, mean + width, nothing, y, *[nothing] * 4)
    scores = RunningScores(["a", "b", "c"])
    for a, b in ((0, 1), (1, 480), (480, 700), (700, n)):
        part = PredictedRows(*(None if column is None else column[a:b] for column in rows))
        scores.add(part._replace(yardsticks=said[a:b]))
    known = ~np.isnan(y) & ~np.isnan(mean)
    for name, rows_of_part, compared in (
        ("start_up", range(500), ["a", "b"]),  # c says nothing of most rows
        ("steady", range(500, n), ["a", "b", "c"]),
    ):
        found = scores.parts(n)[name]
        counted = [t for t in rows_of_part if known[t]]
        same = [t for t in counted if np.isfinite(said[t, : len(compared)]).all()]
        assert (found["rows"], found["compared_rows"]) == (len(counted), len(same))
        assert found["rmse"] == pytest.approx(np.sqrt(np.mean([(mean[t] - y[t]) ** 2 for t in same])), abs=1e-12)
        assert found["mae"] == pytest.approx(np.mean([abs(mean[t] - y[t]) for t in counted]), abs=1e-12)
        assert found["compared_mae"] == pytest.approx(np.mean([abs(mean[t] - y[t]) for t in same]), abs=1e-12)
        assert list(found["yardsticks"]) == list(found["yardsticks_mae"]) == compared
        for k, yardstick in enumerate(compared):
            expected = np.sqrt(np.mean([(said[t, k] - y[t]) ** 2 for t in same]))
            assert found["yardsticks"][yardstick] == pytest.approx(expected, abs=1e-12)
            expected = np.mean([abs(said[t, k] - y[t]) for t in same])
            assert found["yardsticks_mae"][yardstick] == pytest.approx(expected, abs=1e-12)
        assert found["coverage"] == pytest.approx(
            np.mean([abs(y[t] - mean[t]) <= width[t] for t in counted]), abs=1e-12
        )
        assert found["mean_width"] == pytest.approx(np.mean([2 * width[t] for t in counted]), abs=1e-12)


@pytest.mark.parametrize(
    ("model", "horizon"),
    [("KRLST", 0), *(pytest.param(*case, marks=pytest.mark.more) for case in [("KRLST", 3), ("auto", 0), ("auto", 1)])],
)
def test_parts_and_yardsticks_do_not_depend_on_blocks_and_are_resumed_exactly(model, horizon):
    X, y = stream(560)
    whole = pipeline_of(model, 2, horizon)
    taken(whole, X, y)
    for stop in (1, 30, 490, 520):
        first = pipeline_of(model, 2, horizon)
        taken(first, X[:stop], y[:stop], [1] if stop > 1 else [])
        second = Pipeline.from_bytes(first.to_bytes())
        taken(second, X[stop:], y[stop:])
        assert second.score_summary() == whole.score_summary()
        assert second.to_bytes() == whole.to_bytes()


def test_a_season_longer_than_the_horizon_is_counted_in_whole_seasons():
    assert pipeline_of("KRLST", 2, 6).scores.names == [
        "previous value",
        "least squares",
        "value 8 rows ago",
        "value 12 rows ago",
    ]
    assert pipeline_of("KRLST", 2, 12).scores.names[2:] == ["value 12 rows ago"]


def test_with_very_many_inputs_there_is_no_least_squares():
    X, y = stream(60)
    pipeline = Pipeline(schema_of(2), "QKLMS", {"warmup": 30, "tune": False}, 300)
    assert pipeline.scores.names == ["previous value"]
    taken(pipeline, X, y)
    assert list(pipeline.score_summary()["start_up"]["yardsticks"]) == ["previous value"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (31413.2, "31,410"), (15.1, "15.1"), (0.00042134, "0.0004213"), (9999.96, "10,000"), (-2.0, "-2"), (0.0, "0"),
        (1234567.0, "1,235,000"), (3e12, "3e+12"), (2e-7, "2e-07"), (float("inf"), "inf"), (float("nan"), "nan"),
        (None, ""),
    ],
)  # fmt: skip
def test_numbers_have_four_figures_and_no_exponent(value, text):
    assert shown(value) == text


def test_no_yardstick_counts_rows_of_a_season_where_times_are_uneven():
    rng = np.random.default_rng(0)
    hour = 3600.0
    gaps = {"even": np.full(200, hour), "gaps": np.where(np.arange(200) % 50, hour, 5 * hour)}
    gaps |= {"uneven": hour * rng.choice([1.0, 0.25, 2.5], 200, p=[0.6, 0.2, 0.2])}
    for name, between in gaps.items():
        at = 1.7e9 + np.cumsum(between)
        chunk = {"time": [f"{t:.0f}" for t in at], "y": [f"{v:.3f}" for v in rng.normal(size=200)]}
        schema = recognize(Chunk(chunk, range(2, 202)), "y")
        assert schema.seasons == (24, 168)
        names = Pipeline(schema, "KRLST", SETTINGS).scores.names
        assert ("value 24 rows ago" in names) == (name != "uneven")
        assert type(schema).from_dict(schema.to_dict()) == schema


def line_of(X, y):
    """Least squares after these rows, and what it says of one."""
    yardsticks = Yardsticks(X.shape[1], 0, 0, ())
    yardsticks.track(X, y)
    return yardsticks, lambda *x: yardsticks.issue(np.array([x]))[0, yardsticks.names.index(LINE)]


def test_least_squares_does_not_depend_on_units_or_offsets():
    rng = np.random.default_rng(3)
    X, n = rng.normal(size=(700, 3)), 700
    y = X @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=n)
    y[rng.random(n) < 0.2] = np.nan
    expected = line_of(X, y)[1](1.0, 1.0, 1.0)
    scale, offset = np.array([1e-9, 1.0, 1e9]), np.array([1e-6, -1e6, 1e12])
    found = line_of(X * scale + offset, 1e5 * y - 1e8)[1](*(scale + offset))
    assert (found + 1e8) / 1e5 == pytest.approx(expected, abs=1e-6)


def test_least_squares_survives_inputs_that_say_nothing_and_numbers_beyond_all_scales():
    rng = np.random.default_rng(4)
    x = rng.normal(size=12_000)
    X = np.column_stack([x, x, np.full(len(x), 7.0)])
    X[100, 0], X[600, 1] = 1e300, -1e150
    line, said = line_of(X, 3.0 * x + 1.0)
    assert said(2.0, 2.0, 7.0) == pytest.approx(7.0, abs=1e-3)
    line.track(np.array([[2.0, 2.0, 9.0]]), np.array([7.0]))  # an input that was constant begins to move
    assert said(2.0, 2.0, 9.0) == pytest.approx(7.0, abs=1e-3)


def test_yardsticks_of_issued_rows_are_those_of_rows_with_their_targets():
    X, y = stream(80)
    y[[3, 20]] = np.nan
    for horizon in (0, 3):
        plain, late, kept = Yardsticks(2, 2, horizon, (4,)), Yardsticks(2, 2, horizon, (4,)), []
        expected = plain.track(X, y)
        for x, target in zip(X, y, strict=True):
            if horizon:
                kept.append(late.track(x[None], np.array([target])))
                continue
            kept.append(late.issue(x[None]))
            late.resolve(kept[-1], np.array([target]))
        np.testing.assert_array_equal(np.concatenate(kept), expected)
        for name, array in plain.arrays().items():
            np.testing.assert_array_equal(late.arrays()[name], array, err_msg=name)
