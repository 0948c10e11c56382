"""The command ``streamgp forecast`` as users call it."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from datetime import datetime, timedelta

import numpy as np
import pytest

from streamgp.job.forecast import BEYOND, Readings, forecast_table
from streamgp.tables.formats import read_rows
from streamgp.tables.source import RowsError
from tests.cli.test_run import predictions, streamgp


def rows_of(hours=24 * 8, seed=0):
    rng = np.random.default_rng(seed)
    start = datetime(2024, 3, 25)
    y = 500 + 100 * np.sin(2 * np.pi * np.arange(hours) / 24) + 5 * rng.standard_normal(hours)
    return [[str(start + timedelta(hours=h)), f"{y[h]:.2f}", "1.0"] for h in range(hours)]


def table(path, rows):
    path.write_text("time,load,weather\n" + "".join(",".join(row) + "\n" for row in rows))
    return path


def test_quantiles_of_the_times_ahead_are_written(tmp_path):
    out, page = tmp_path / "forecast.csv", tmp_path / "forecast.html"
    source = table(tmp_path / "a.csv", rows_of())
    done = streamgp("forecast", source, "--target", "load", "--ahead", "6h", "--seasons", "1d", "--out", out,
                    "--quantiles", "0.9,0.1,0.5", "--report", page)  # fmt: skip
    assert done.exit_code == 0, done.stderr
    found = predictions(out)
    assert list(found[0]) == ["issued", "time", "q0.1", "q0.5", "q0.9"]
    assert [row["time"] for row in found] == [f"2024-04-02 0{h}:00:00" for h in range(6)]
    assert {row["issued"] for row in found} == {"2024-04-01 23:00:00"}
    truth = 500 + 100 * np.sin(2 * np.pi * np.arange(6) / 24)
    for row, value in zip(found, truth, strict=True):
        assert float(row["q0.1"]) < float(row["q0.5"]) < float(row["q0.9"])
        assert float(row["q0.5"]) == pytest.approx(value, abs=12.0)
    assert "not used: weather" in done.stderr
    assert "inputs: none; the forecast is of the time alone" in done.stderr
    text = page.read_text()
    for words in ("load: forecast to 2024-04-02 05:00:00", "Components", "Coverage of past forecasts"):
        assert words in text
    shown = json.loads(re.search(r'type="application/json">(.*?)</script>', text, re.DOTALL)[1])
    assert shown["times"][-6:] == [row["time"] for row in found]
    assert shown["bands"][0][1] == pytest.approx([float(row["q0.9"]) for row in found])
    assert (len(shown["seen"]), len(shown["coverage"]), len(shown["quantiles"])) == (19, 6, 7)
    assert "http://" not in text
    assert "https://" not in text


def test_a_messy_table_is_put_in_order_and_the_notes_say_what_was_wrong(tmp_path):
    rows = rows_of()
    rows[20][1] = ""
    rows[3][1] = rows[150][1] = "-99999"
    rows[40], rows[42] = rows[42], rows[40]
    rows.insert(60, rows[59])
    rows[80][0] = "yesterday"
    del rows[100:104]
    notes = []
    issued = forecast_table(
        str(table(tmp_path / "a.csv", rows)), "load", "3h", seasons=["1d"], out=tmp_path / "f.csv", tell=notes.append
    )
    for note in (
        "rows left out because a time or a number cannot be read: 1",
        "rows earlier than the row before, sorted by time or left out while following: 2",
        "rows that repeat a time, the last of which counts: 1",
        "rows without a target, which the model passes over: 1",
        "targets that look like fill values, which count as missing: 2",
        "gaps in the times, whose lengths the model knows: 2",
    ):
        assert note in notes
    assert np.all(np.diff(issued.readings.times) > 0)
    np.testing.assert_allclose(issued.forecast.median, 500 + 100 * np.sin(2 * np.pi * np.arange(3) / 24), atol=15.0)


def test_zones_and_row_numbers_are_kept(tmp_path):
    rows = [[row[0].replace(" ", "T") + "+02:00", row[1], row[2]] for row in rows_of(48)]
    issued = forecast_table(str(table(tmp_path / "a.csv", rows)), "load", "1h", seasons=[], out=tmp_path / "f.ndjson")
    line = json.loads((tmp_path / "f.ndjson").read_text().splitlines()[0])
    assert line["time"] == "2024-03-27T00:00:00+02:00"
    assert len(issued.forecast.times) == 1
    plain = tmp_path / "b.csv"
    plain.write_text("y\n" + "".join(f"{row[1]}\n" for row in rows))
    issued = forecast_table(str(plain), "y", "5", seasons=[], out=tmp_path / "g.csv")
    np.testing.assert_array_equal(issued.forecast.times, 48.0 + np.arange(5))


@contextlib.contextmanager
def followed(folder, rows, **settings):
    """Forecasts of two hours, of a table that grows: how to add rows and wait for so many lines of forecasts."""
    source, out, stop = table(folder / "a.csv", rows), folder / "f.csv", threading.Event()
    asked = {"seasons": [], "out": out, "follow": True, "stop": stop} | settings
    job = threading.Thread(target=forecast_table, args=(str(source), "load", "2h"), kwargs=asked)

    def add(more, lines):
        with open(source, "a") as file:
            file.write("".join(",".join(row) + "\n" for row in more))
        end = time.monotonic() + 60
        while not out.exists() or len(out.read_text().splitlines()) < 1 + lines:
            assert time.monotonic() < end, f"{out} has fewer than {1 + lines} lines"
            time.sleep(0.05)

    job.start()
    try:
        add([], 2)
        yield add
    finally:
        stop.set()
        job.join(30)


def test_while_following_every_row_brings_a_forecast(tmp_path):
    rows = rows_of(30)
    with followed(tmp_path, rows[:28]) as add:
        add(rows[28:], 6)
    found = predictions(tmp_path / "f.csv")
    assert [row["issued"] for row in found] == [rows[i][0] for i in (27, 27, 28, 28, 29, 29)]


def test_while_following_fill_values_are_left_out_and_a_zero_ends_logarithms(tmp_path):
    rng = np.random.default_rng(0)
    y = np.exp(rng.normal(0, 1.0, 80))
    rows = [[row[0], f"{value:.4f}", "1"] for row, value in zip(rows_of(80), y, strict=True)]
    rows[70][1], rows[75][1] = "-99999999", "0"
    notes, made = [], []
    with followed(tmp_path, rows[:60], tell=notes.append, show=made.append) as add:
        assert made[0].forecaster.chosen.structure.log
        add(rows[60:], 2 * 21)
    assert not made[-1].forecaster.chosen.structure.log
    assert "a target is not above 0, so that logarithms no longer do: the model is found anew: 0" in notes
    assert made[-1].readings.refused == 1
    assert np.isnan(made[-1].readings.y[70])
    assert np.isfinite(made[-1].forecast.median).all()


def readings_of(path):
    reader = read_rows(str(path))
    try:
        (chunk,) = reader.chunks()
    finally:
        reader.close()
    readings = Readings(chunk, "load", ["weather"])
    return readings, readings.take(chunk)


def test_while_following_few_rows_are_kept_and_all_are_counted(tmp_path, monkeypatch):
    rows = rows_of(300)
    rows[70][1] = rows[200][1] = ""
    rows[150][0] = rows[149][0]
    del rows[100:104], rows[250:252]
    monkeypatch.setattr("streamgp.job.forecast.KEPT", 20)
    whole, (times, y, X) = readings_of(table(tmp_path / "a.csv", rows))
    followed, _ = readings_of(tmp_path / "a.csv")
    whole.sort([(times, y, X)])
    followed.sort([(times[:50], y[:50], X[:50])])
    last = {}
    for row in zip(times[50:], y[50:], X[50:], strict=True):
        assert followed.add(*row) == (row[0] not in last)
        last[row[0]] = row
        assert len(followed.times) <= 50
    assert followed.notes() == whole.notes()
    assert "rows: 293, from 2024-03-25 00:00:00 to 2024-04-06 11:00:00" in whole.notes()
    for name in ("times", "y", "columns"):
        kept = getattr(followed, name)
        np.testing.assert_array_equal(kept[-20:], getattr(whole, name)[-20:])


def test_a_row_far_beyond_all_others_is_left_out_and_told(tmp_path):
    rows, notes = rows_of(), []
    rows.insert(100, ["2106-02-07 06:28:15", "500", "1.0"])
    issued = forecast_table(
        str(table(tmp_path / "a.csv", rows)), "load", "2h", seasons=["1d"], out=tmp_path / "f.csv", tell=notes.append
    )
    assert [row["time"] for row in predictions(tmp_path / "f.csv")] == ["2024-04-02 00:00:00", "2024-04-02 01:00:00"]
    assert (
        "rows left out because their time is far beyond all others, such as 2106-02-07 06:28:15; check the clock: 1"
        in notes
    )
    assert "rows: 192, from 2024-03-25 00:00:00 to 2024-04-01 23:00:00" in notes
    readings, last = issued.readings, issued.readings.times[-1]
    far = 80 * 31557600.0
    assert not readings.add(last + far, 500.0, np.empty(0))
    assert readings.add(last + 3600.0, 500.0, np.empty(0))  # the rows after it are not
    # As many as a forecast needs are no mistake of the clock: the table goes on there.
    assert [readings.add(last + far + hour, 500.0, np.empty(0)) for hour in range(12)] == [False] * 9 + [True] * 3
    assert readings.counts[BEYOND] == 11


def test_a_pause_is_no_wrong_clock(tmp_path):
    for pause, left_out in ((24 * 14, 0), (24 * 100, 3)):  # of 8 days of hours, with three rows after it
        rows = rows_of(24 * 8 + pause + 3)
        rows = [*rows[: 24 * 8], *rows[-3:]]
        readings, taken = readings_of(table(tmp_path / "a.csv", rows))
        readings.sort([taken])
        assert (readings.counts[BEYOND], len(readings.times)) == (left_out, 24 * 8 + 3 - left_out)
    rows = rows_of(24 * 108 + 10)
    readings, taken = readings_of(table(tmp_path / "a.csv", [*rows[: 24 * 8], *rows[-10:]]))  # ten rows after it
    readings.sort([taken])
    assert readings.counts[BEYOND] == 0


def test_what_cannot_be_forecast_is_refused(tmp_path):
    same_time = [[rows_of(1)[0][0], *row[1:]] for row in rows_of(30)]
    for rows in (same_time, rows_of(5)):
        source = table(tmp_path / "a.csv", rows)
        few = streamgp("forecast", source, "--target", "load", "--ahead", "6h")
        assert few.exit_code == 3
        assert "fewer than 10 rows with a number in 'load' and times of their own" in few.stderr
    for options, code, words in (
        (["--target", "lode", "--ahead", "6h"], 3, "there is no column 'lode'"),
        (["--target", "load", "--ahead", "soon"], 2, "ahead must be a length of time"),
        (
            ["--target", "load", "--ahead", "6h", "--quantiles", "0.1,much"],
            2,
            "--quantiles are probabilities above 0 and below 1, such as 0.1,0.5,0.9; got 0.1,much",
        ),
        (
            ["--target", "load", "--ahead", "6h", "--quantiles", "1.5"],
            2,
            "above 0 and below 1, such as 0.1,0.5,0.9; got 1.5",
        ),
        (["--target", "load", "--ahead", "6h", "--out", tmp_path / "f.xlsx"], 3, "unknown output format"),
    ):
        done = streamgp("forecast", source, *options)
        assert done.exit_code == code, done.stderr
        assert words in done.stderr
    source = table(tmp_path / "b.csv", rows_of(30))
    far = streamgp("forecast", source, "--target", "load", "--ahead", "20000h", "--seasons", "none")
    assert far.exit_code == 2
    assert "the most is 10000" in far.stderr


def with_weather(hours=24 * 12, seed=1):
    """Rows whose load follows a temperature that changes from day to day, and all temperatures."""
    rng = np.random.default_rng(seed)
    warmth = np.repeat(rng.normal(10.0, 5.0, hours // 24), 24)
    y = 500 + 20 * np.sin(2 * np.pi * np.arange(hours) / 24) - 6 * warmth + rng.standard_normal(hours)
    start = datetime(2024, 3, 25)
    return [[str(start + timedelta(hours=h)), f"{y[h]:.2f}", f"{warmth[h]:.2f}"] for h in range(hours)]


def weather(path, rows):
    path.write_text("time,weather\n" + "".join(f"{row[0]},{row[2]}\n" for row in rows))
    return str(path)


def test_inputs_known_in_advance_come_from_another_table(tmp_path):
    rows = with_weather()
    source, future = table(tmp_path / "a.csv", rows[:-24]), weather(tmp_path / "w.csv", rows[-30:])
    out, page = tmp_path / "f.csv", tmp_path / "f.html"
    done = streamgp("forecast", source, "--target", "load", "--ahead", "24h", "--seasons", "1d", "--out", out,
                    "--future", future, "--report", page)  # fmt: skip
    assert done.exit_code == 0, done.stderr
    truth = np.array([float(row[1]) for row in rows[-24:]])
    assert np.abs([float(row["q0.5"]) for row in predictions(out)] - truth).mean() < 4.0
    assert f"inputs: weather; times ahead in {future}: 24 from its rows" in page.read_text()
    assert '"name":"inputs"' in page.read_text()
    assert "model: inputs, level, short memory, " in page.read_text()


def test_rows_of_the_future_that_do_not_fit_are_told(tmp_path):
    rows = with_weather()
    source = str(table(tmp_path / "a.csv", rows[:-24]))
    notes = []
    settings = {"seasons": ["1d"], "out": tmp_path / "f.csv", "tell": notes.append}
    thirds = weather(tmp_path / "w.csv", list(reversed(rows[-25:-4:3])))
    issued = forecast_table(source, "load", "24h", future=thirds, **settings)
    assert (
        f"inputs: weather; times ahead in {thirds}: 6 from its rows, 12 between two of its rows, where numbers "
        "are interpolated, 6 beyond its last row, whose values stay" in notes
    )
    truth = np.array([float(row[1]) for row in rows[-24:]])
    assert np.abs(issued.forecast.median - truth)[3:].mean() < 6.0
    forecast_table(source, "load", "2h", inputs=["weather"], **settings)
    assert "inputs: weather; their last values stay, because there is no table of future ones" in notes
    late = weather(tmp_path / "late.csv", rows[:20])
    with pytest.raises(RowsError, match=r"has no row after 2024-04-04 23:00:00, where the forecast begins"):
        forecast_table(source, "load", "24h", future=late, **settings)
    other = tmp_path / "other.csv"
    other.write_text("time,wind\n2024-04-05 00:00:00,3\n")
    with pytest.raises(RowsError, match="shares no column with the table but the time"):
        forecast_table(source, "load", "24h", future=str(other), **settings)
    with pytest.raises(RowsError, match="has no column 'weather', which the other table has"):
        forecast_table(source, "load", "24h", inputs=["weather"], future=str(other), **settings)


def test_while_following_the_table_of_the_future_is_read_anew(tmp_path):
    rows = with_weather(48)
    future, found = weather(tmp_path / "w.csv", rows[28:30]), []
    with followed(tmp_path, rows[:28], future=future, show=lambda issued: found.extend(issued.notes()[:1])) as add:
        weather(tmp_path / "w.csv", rows[29:30])
        add(rows[28:29], 4)
    told = f"inputs: weather; times ahead in {future}:"
    assert found == [f"{told} 2 from its rows", f"{told} 1 from its rows, 1 beyond its last row, whose values stay"]
