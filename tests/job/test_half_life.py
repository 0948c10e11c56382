"""Runs whose models forget by the time column."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

import streamgp as sg
from streamgp.contract.within import family
from streamgp.job import Job
from streamgp.job.pipeline import Pipeline
from streamgp.tables.source import RowsError

SETTINGS = {"half_life": "2h", "tune": False, "warmup": 40, "drift": False}


@pytest.fixture
def table(tmp_path):
    """A table with irregular times; one cannot be read and one goes back."""
    rng = np.random.default_rng(0)
    time = dt.datetime(2024, 3, 1)
    lines = ["at,x,y"]
    for t in range(120):
        time += dt.timedelta(minutes=float(rng.integers(1, 90)))
        said = {50: "?", 60: "2024-02-01 00:00:00"}.get(t, time.isoformat(" "))
        x = rng.uniform(-3, 3)
        lines.append(f"{said},{x:.6f},{np.sin(x) + 0.01 * t:.6f}")
    path = tmp_path / "table.csv"
    path.write_text("\n".join(lines))
    return path


def run(table, **settings):
    return Job(table, "y", inputs=["x"], **({"model": "KRLST", "settings": SETTINGS} | settings)).run()


def assert_is_the_model(pipeline, X, y, times, rtol=1e-9):
    """The run predicts as the model does that has learned these rows, in the units of those it was built from."""
    (rows,) = {start for start, due in pipeline.model._stages if due == 40}
    model = sg.Standardize(sg.KRLST(lengthscale=[1.0], half_life="2h"), warmup=rows)
    model.learn_many(X, y, time=times)
    at = np.linspace(-3, 3, 9)[:, None]
    np.testing.assert_allclose(pipeline.model.predict_many(at).mean, model.predict_many(at).mean, rtol=rtol)


def test_a_run_with_a_half_life_is_the_model_with_the_times_of_the_rows(table):
    pipeline = run(table).pipeline
    rows = [line.split(",") for line in table.read_text().splitlines()[1:]]
    times, last = [], -np.inf
    for at, _, _ in rows:
        last = last if at == "?" else max(last, dt.datetime.fromisoformat(at).replace(tzinfo=dt.UTC).timestamp())
        times.append(last)
    X, y = np.array([[float(x)] for _, x, _ in rows]), np.array([float(y) for _, _, y in rows])
    assert_is_the_model(pipeline, X, y, times)


@pytest.mark.parametrize(("unit", "start"), [(1, 0), (10**9, 1.7e9)])
def test_numbers_as_times_are_the_times_of_the_model(tmp_path, unit, start):
    rng = np.random.default_rng(3)
    times, x = np.cumsum(rng.integers(1, 5400, 120)), rng.uniform(-3, 3, 120)
    y = np.sin(x) + 0.01 * np.arange(120)
    path = tmp_path / "table.csv"
    path.write_text(
        "t,x,y\n"
        + "".join(
            f"{(int(start) + t) * unit},{a!r},{b!r}\n"
            for t, a, b in zip(times.tolist(), x.tolist(), y.tolist(), strict=True)
        )
    )
    pipeline = run(path).pipeline
    assert_is_the_model(pipeline, x[:, None], y, times, 1e-8)


@pytest.mark.parametrize("change", ["2024-03-31T01:00+00:00", "2024-10-27T01:00+00:00"])
def test_a_run_forgets_as_the_library_does_when_clocks_change(tmp_path, change):
    """Clocks go forward in March and back in October: what elapses is that of UTC, and times are shown as written."""
    rng = np.random.default_rng(1)
    change = dt.datetime.fromisoformat(change)
    before, after = (1, 2) if change.month == 3 else (2, 1)
    times = [change + dt.timedelta(minutes=11 * i) for i in range(-60, 60)]
    times = [t.astimezone(dt.timezone(dt.timedelta(hours=before if t < change else after))) for t in times]
    x = rng.uniform(-3, 3, len(times))
    y = np.sin(x) + 0.01 * np.arange(len(times))
    written = [t.isoformat() for t in times]
    path, out = tmp_path / "table.csv", tmp_path / "out.csv"
    path.write_text(
        "at,x,y\n"
        + "".join(f"{row[0]},{row[1]!r},{row[2]!r}\n" for row in zip(written, x.tolist(), y.tolist(), strict=True))
    )
    pipeline = run(path, out=out).pipeline
    assert_is_the_model(pipeline, x[:, None], y, times)
    assert [line.split(",")[1] for line in out.read_text().splitlines()[1:]] == written


@pytest.mark.parametrize("horizon", [0, 1, 3])
def test_a_run_that_forgets_by_time_resumes_where_it_stopped(table, tmp_path, horizon):
    lines = table.read_text().splitlines()
    part, place = tmp_path / "part.csv", tmp_path / "run.sgp"
    part.write_text("\n".join(lines[:70]))
    whole = run(table, horizon=horizon).pipeline
    run(part, horizon=horizon, save=place)
    part.write_text("\n".join(lines))
    again = Job(part, load=place).run().pipeline
    assert again.model.to_bytes() == whole.model.to_bytes()


def test_processes_of_auto_forget_by_time(table):
    model = run(table, model="auto").pipeline.model
    assert any("half_life" in repr(process) for process in family(model))
    assert model._needs_time


def test_a_half_life_needs_a_time_column_and_a_model_that_forgets_by_it(table, tmp_path):
    with pytest.raises(ValueError, match="SOGP cannot forget by the time between rows; use `half_life` with KRLST"):
        run(table, model="SOGP")
    plain = tmp_path / "plain.csv"
    plain.write_text("x,y\n" + "".join(f"{i % 7},{i % 5}\n" for i in range(50)))
    with pytest.raises(RowsError, match="half_life needs a column that says when each row was observed"):
        run(plain)
    with pytest.raises(
        RowsError, match="a kernel over time needs a column.*there is none; add the column, or drop `time`"
    ):
        run(plain, settings={"time": "Matern(0.5, lengthscale=3.0)", "tune": False})
    with pytest.raises(ValueError, match="by rows, a factor of 0.9, or by time, a half_life of 7200; give one"):
        run(table, settings=SETTINGS | {"forgetting": "0.9"})


def test_times_before_any_that_can_be_read_are_the_first_one():
    from streamgp.tables.columns import Column, Schema

    schema = Schema((Column("at", "time"), Column("x", "number"), Column("y", "number")), "y", ("x",), "at")
    pipeline = Pipeline(schema, "KRLST", SETTINGS)
    assert pipeline.times.moments(["?", ""]).tolist() == [0.0, 0.0]
    assert pipeline.times.moments(["?", "1970-01-02", "", "1970-01-01"]).tolist() == [86400.0] * 4
