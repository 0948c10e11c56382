"""Forecasts of streams: by their own models over time, or by one of the last targets alone."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

import streamgp as sg
from streamgp.serve import forecasts
from streamgp.serve.forecasts import Forecasting, Series
from streamgp.serve.learner import Learner
from streamgp.serve.messages import ForecastQuery, RefusedError, StreamSettings
from streamgp.serve.ops import Op
from tests.serve.running import created, in_process

BEGIN = dt.datetime(2026, 3, 1)


def hourly(n, start=0, written=lambda moment: moment.isoformat()):
    """Rows of a load with a daily season, and an input that goes round."""
    noise = np.random.default_rng(3).normal(0, 0.3, 1000)
    return [
        {
            "when": written(BEGIN + dt.timedelta(hours=i)),
            "x": float(7 * i % 11),
            "y": float(50 + 10 * np.sin(np.pi * i / 12) + noise[i]),
        }
        for i in range(start, start + n)
    ]


def learned(rows, **settings):
    quick = {"model": "KRLST", "settings": {"warmup": 20, "tune": False, "capacity": 10}}
    learner = Learner(StreamSettings("y", **quick | settings), "t")
    learner.apply(Op("rows", rows=rows))
    return learner


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with in_process(tmp_path_factory.mktemp("data")) as client:
        yield client


def test_a_forecast_is_that_of_the_last_targets_over_time(client):
    path, rows = created(client, "load"), hourly(96)
    client.post(f"{path}/rows", json=rows)
    found = client.get(f"{path}/forecast", params={"ahead": "24h", "quantiles": "0.9,0.1"}).json()
    times = np.array([row["when"] for row in rows], dtype="datetime64[us]")
    ahead = times[-1] + np.arange(1, 25) * np.timedelta64(1, "h")
    y = [row["y"] for row in rows]
    model = sg.Forecaster(y, times)
    model.calibrate(y, times, steps=24)  # intervals are as wide as forecasts of the past tell
    wanted = model.forecast(ahead)
    assert found["issued"] == 96
    assert found["row"] == list(range(97, 121))
    assert found["time"] == [str(np.datetime64(one, "s")) for one in ahead]
    assert found["model"] == "over time"
    assert found["assumed"].startswith("inputs are not used: the last 96 targets go on over time")
    assert list(found["quantiles"]) == ["0.1", "0.9"]
    np.testing.assert_allclose(found["median"], wanted.median, rtol=1e-8)
    for level in (0.1, 0.9):
        np.testing.assert_allclose(found["quantiles"][f"{level}"], wanted.quantile(level), rtol=1e-8)
    # So many rows ahead are the same, and what was found on earlier rows goes on with later ones.
    assert client.get(f"{path}/forecast?ahead=24&quantiles=0.1,0.9").json() == found
    client.post(f"{path}/rows", json=hourly(1, 96))
    later = client.get(f"{path}/forecast?ahead=23").json()
    assert later["row"] == found["row"][1:]
    assert np.abs(np.subtract(later["median"], found["median"][1:])).max() < 1


def test_a_model_with_a_kernel_over_time_forecasts_itself(client):
    kernel = "Periodic('1d') + Matern(0.5, lengthscale='1d')"
    settings = {"warmup": 20, "tune": False, "drift": False, "capacity": 10, "time": kernel}
    path = created(client, "timed", settings=settings)
    client.post(f"{path}/rows", json=hourly(72))
    found = client.get(f"{path}/forecast?ahead=12h").json()
    assert found["model"] == "KRLST", found
    assert found["assumed"] == "inputs stay as they are in the last row"
    learner = learned(hourly(72), settings=settings)
    wanted = learner.pipeline.model.forecast(12)
    np.testing.assert_allclose(found["median"], wanted.quantile(0.5), rtol=1e-9)
    np.testing.assert_allclose(found["quantiles"]["0.9"], wanted.quantile(0.9), rtol=1e-9)


def test_bad_requests_get_a_sentence(client):
    path = created(client, "bad")
    answer = client.get(f"{path}/forecast")
    assert answer.status_code == 409
    assert answer.json()["error"]["message"] == "a forecast needs 10 rows with a target"
    client.post(f"{path}/rows", json=[{"x": float(i % 5), "y": float(i % 7)} for i in range(30)])
    for query, sentence in {
        "ahead=24h": "the stream has no times, so ahead must be a number of rows; got '24h'",
        "ahead=0": "ahead must be 1 to 2000 rows; '0' is 0 rows",
        "ahead=99999999999": "ahead must be 1 to 2000 rows; '99999999999' is more",
        "quantiles=0.5,1": "quantiles must be numbers above 0 and below 1, such as 0.1,0.5,0.9; got '0.5,1'",
        "quantiles=": "quantiles must be numbers above 0 and below 1, such as 0.1,0.5,0.9; got ''",
        "quantiles=" + ",".join(f"0.{i}" for i in range(10, 40)): "there may be 20 quantiles; got 30",
    }.items():
        answer = client.get(f"{path}/forecast?{query}")
        assert (answer.status_code, answer.json()["error"]["message"]) == (422, sentence)
    assert client.get("/v1/streams/nobody/forecast").status_code == 404
    series = Series([(i, 3600.0 * i, 1.0 * i) for i in range(20)], "1970-01-01T19:00:00")
    with pytest.raises(
        RefusedError, match="ahead must be a number of rows, or a length of time such as 90s, 24h or 2d"
    ):
        series.ahead("soon")


def test_rows_are_put_in_the_order_of_time_and_the_last_of_a_time_counts():
    rows = hourly(40)
    rows[20], rows[21] = rows[21], rows[20]
    rows[30]["when"] = rows[29]["when"]
    rows[25]["when"] = None
    rows[35]["y"] = None
    learner = learned(rows)
    series = Series(learner.past, learner.written)
    assert len(series.times) == 38
    assert np.all(np.diff(series.times) > 0)
    assert series.y[20] == rows[21]["y"]
    assert series.y[28] == rows[30]["y"]
    assert np.count_nonzero(np.isnan(series.y)) == 1
    assert series.ahead("2h")[-1] == (BEGIN.replace(tzinfo=dt.UTC) + dt.timedelta(hours=41)).timestamp()


@pytest.mark.parametrize(
    ("written", "next_one"),
    [
        (lambda one: one.isoformat(" "), "2026-03-02 06:00:00"),
        (lambda one: one.replace(tzinfo=dt.timezone(dt.timedelta(hours=2))).isoformat(), "2026-03-02T06:00:00+02:00"),
        (lambda one: one.replace(tzinfo=dt.UTC).timestamp(), "2026-03-02T06:00:00+00:00"),
    ],
)
def test_times_are_written_as_they_came(written, next_one):
    learner = learned(hourly(30, written=written))
    series = Series(learner.past, learner.written)
    assert series.shown(series.ahead("1")) == [next_one]


def test_what_forecasts_are_made_of_survives_a_restart():
    learner = learned(hourly(60))
    again = Learner.from_bytes(learner.settings, learner.tag, learner.to_bytes())
    assert (again.past, again.written) == (learner.past, learner.written)


def test_the_kernel_is_chosen_again_after_many_rows_or_when_logarithms_are_no_more(monkeypatch):
    chosen = []

    class Counting(sg.Forecaster):
        def __init__(self, y, time):
            chosen.append(len(y))
            super().__init__(y, time, seasons=[], trend=False, log=bool(np.nanmin(y) > 0))

    monkeypatch.setattr(forecasts, "Forecaster", Counting)
    monkeypatch.setattr(forecasts, "RENEWED", 15)
    past = [(i, np.nan, 5.0 + i % 4) for i in range(1, 100)]
    forecasting, asked = Forecasting(), ForecastQuery()
    for rows in (20, 30, 34, 35, 40):
        forecasting.over_time(Series(past[:rows], ""), asked)
    assert chosen == [20, 35]
    answer = forecasting.over_time(Series([*past[:40], (41, np.nan, -3.0)], ""), asked)
    assert chosen == [20, 35, 41]
    assert answer.time is None


def test_a_fill_value_does_not_make_the_kernel_be_chosen_again(monkeypatch):
    chosen = []

    class Counting(sg.Forecaster):
        def __init__(self, y, time):
            chosen.append(len(y))
            super().__init__(y, time, seasons=[], trend=False, log=True)

    monkeypatch.setattr(forecasts, "Forecaster", Counting)
    past = [(i, np.nan, 5.0 + i % 4 + 0.01 * (i % 7)) for i in range(1, 60)]
    past[40] = (41, np.nan, -1e9)
    forecasting, asked = Forecasting(), ForecastQuery()
    for rows in (50, 55):
        answer = forecasting.over_time(Series(past[:rows], ""), asked)
    assert chosen == [50]
    assert 4.0 < min(answer.median) < max(answer.median) < 9.0
