"""sg.run: what the command line does, from a data frame or a file, in one call."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest

import streamgp as sg
from streamgp.job import Job
from streamgp.tables.source import RowsError

nw = pytest.importorskip("narwhals", reason="needs narwhals, of the extra frames")
pd = pytest.importorskip("pandas", reason="needs pandas, of the extra tables")
N = 150
QUICK = {"model": "KRLST", "tune": False}


def plant(n=N):
    rng = np.random.default_rng(5)
    speed, shift = rng.standard_normal(n), rng.choice(["day", "night", "off"], n)
    frame = pd.DataFrame({"when": pd.date_range("2026-01-01", periods=n, freq="h"), "speed": speed, "shift": shift})
    frame["load"] = np.sin(speed) + 2.0 * (shift == "day") + 0.1 * rng.standard_normal(n)
    frame.loc[7, "speed"] = np.nan
    frame.loc[9, "load"] = np.nan
    frame.loc[11, "shift"] = None
    return frame


@pytest.fixture(scope="module")
def done():
    return sg.run(plant(), "load", **QUICK)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_a_frame_is_predicted_as_the_file_of_its_rows(kind, tmp_path):
    module = pytest.importorskip(kind)
    frame = plant()
    frame.to_csv(tmp_path / "plant.csv", index=False)
    by_file = Job(tmp_path / "plant.csv", "load", model="KRLST", settings={"tune": False}, out=tmp_path / "out.csv")
    summary = by_file.run()
    if kind != "pandas":
        frame = module.from_pandas(frame) if kind == "polars" else module.Table.from_pandas(frame)
    run = sg.run(frame, "load", **QUICK)
    assert run.notes == summary.notes
    assert run.pipeline.encoder.gaps == summary.pipeline.encoder.gaps == {"speed": 1, "load": 1}
    written, made = pd.read_csv(tmp_path / "out.csv", float_precision="round_trip"), run.to_frame()
    assert type(made) is type(frame)
    read = nw.from_native(made)
    assert read.columns == ["when", "mean", "lower", "upper", "std", "observed"]
    for name in read.columns[1:]:
        np.testing.assert_array_equal(read.get_column(name).to_numpy(), written[name])
    assert [str(moment) for moment in read.get_column("when").to_list()] == written["time"].tolist()
    assert run.scores == pytest.approx(summary.pipeline.scores.summary(), nan_ok=True)


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "parquet"])
def test_durations_are_seconds_and_complex_numbers_are_told(kind, tmp_path):
    frame = plant()
    seconds = np.random.default_rng(7).integers(0, 10**6, len(frame)) / 1e3
    numbers = frame.assign(run=seconds)
    expected = sg.run(numbers, "load", **QUICK)
    frame = frame.assign(run=pd.to_timedelta(seconds, unit="s"))
    if kind == "parquet":
        frame.to_parquet(tmp_path / "plant.parquet")
        frame = tmp_path / "plant.parquet"
    elif kind != "pandas":
        module = pytest.importorskip(kind)
        frame = module.from_pandas(frame) if kind == "polars" else module.Table.from_pandas(frame)
    found = sg.run(frame, "load", **QUICK)
    np.testing.assert_allclose(found.rows.mean, expected.rows.mean, atol=1e-8)
    if kind == "pandas":
        notes = sg.run(numbers.assign(z=seconds + 1j), "load", **QUICK).notes
        assert "ignored: z (complex numbers; hand over real and imaginary parts as columns)" in notes


def test_a_run_writes_its_file_where_standard_output_takes_text_alone_as_in_a_notebook(tmp_path):
    with contextlib.redirect_stdout(io.StringIO()):
        sg.run(plant(), "load", out=tmp_path / "out.csv", **QUICK)
    assert len((tmp_path / "out.csv").read_text().splitlines()) == N + 1


def test_an_index_of_dates_is_the_time_and_stays_the_index(done):
    frame = plant().set_index("when")
    run = sg.run(frame, "load", **QUICK)
    made = run.to_frame()
    pd.testing.assert_index_equal(made.index, frame.index)
    np.testing.assert_array_equal(made["mean"], done.to_frame()["mean"])
    assert list(made.columns) == ["mean", "lower", "upper", "std", "observed"]


def test_further_rows_are_predicted_without_a_trace_and_tracked_as_if_they_had_come_at_once(done):
    frame = plant()
    run = sg.run(frame.iloc[:100], "load", **QUICK)
    before = run.pipeline.to_bytes()
    coming = run.predict_many(frame.iloc[100:103].drop(columns="load")).to_frame()
    assert run.pipeline.to_bytes() == before
    assert list(coming.index) == [100, 101, 102]
    assert coming["observed"].isna().all()
    rest = run.track(frame.iloc[100:])
    assert coming["mean"].iloc[0] == rest.to_frame()["mean"].iloc[0]
    np.testing.assert_array_equal(rest.to_frame()["mean"], done.to_frame()["mean"].iloc[100:])
    assert rest.scores == pytest.approx(done.scores, nan_ok=True)


def test_a_run_is_saved_and_goes_on(tmp_path, done):
    frame = plant()
    sg.run(frame.iloc[:100], "load", save=tmp_path / "plant.sgp", **QUICK)
    rest = sg.run(frame.iloc[100:], load=tmp_path / "plant.sgp", out=tmp_path / "rest.csv")
    np.testing.assert_array_equal(rest.to_frame()["mean"], done.to_frame()["mean"].iloc[100:])
    np.testing.assert_array_equal(
        pd.read_csv(tmp_path / "rest.csv", float_precision="round_trip")["mean"], rest.rows.mean
    )
    rest.save(tmp_path / "more.sgp")
    assert sg.run(frame.iloc[:2], load=tmp_path / "more.sgp").pipeline.rows == N + 2


def test_rows_that_cannot_be_used_are_refused_or_left_out_with_their_index():
    frame = plant().astype({"speed": object})
    frame.loc[20, "speed"] = "broken"
    with pytest.raises(ValueError, match="row 21 has 'broken' in the column 'speed', which holds numbers"):
        sg.run(frame, "load", **QUICK)
    run = sg.run(frame, "load", on_error="skip", **QUICK)
    assert list(run.to_frame().index) == [i for i in range(N) if i != 20]
    assert run.summary.skipped_rows == 1


def test_rows_to_come_of_a_horizon_are_a_frame_of_their_own():
    run = sg.run(plant(), "load", horizon=3, **QUICK)
    made = run.upcoming().to_frame()
    assert made["row"].tolist() == [N + 1, N + 2, N + 3]
    assert made["mean"].notna().all()
    assert len(run.to_frame()) == N


def test_what_cannot_be_run_is_refused(done):
    frame = plant()
    wrong = [
        (lambda: sg.run(frame, "laod", **QUICK), "there is no column 'laod'. Did you mean 'load'?"),
        (lambda: sg.run(frame, **QUICK), "`target` is missing; the columns are: when, speed, shift, load"),
        (lambda: sg.run(frame.iloc[:0], "load", **QUICK), "the data frame has a header but no rows"),
        (lambda: sg.run(frame, "load", modl="KRLST"), "setting 'modl'"),
        (lambda: sg.run(frame, "load", load=done.pipeline, lags=7), "the run was made with `lags=0`, not 7"),
        (lambda: Job(frame, "load", follow=True).run(), "a data frame has all its rows and cannot be followed"),
        (lambda: done.predict_many(frame.drop(columns="speed")), "the column 'speed' is missing; the run needs"),
        (lambda: done.predict_many(frame.assign(speed="x")), "row 1 has 'x' in the column 'speed'"),
        (lambda: done.predict_many("plant.csv"), "predict_many takes a data frame; got str"),
    ]
    for call, message in wrong:
        with pytest.raises((RowsError, ValueError, TypeError), match=message):
            call()


def test_a_run_says_what_it_did_in_few_words(done):
    assert repr(done).startswith("Run(150 rows of 'load', RMSE 0.")
    text = done._repr_html_()
    assert "<td>target</td><td>load</td>" in text
    assert "category: shift" in text
    assert len(text) < 3000
    assert repr(done.predict_many(plant().iloc[:2])) == "Predicted(2 rows of 'load')"


def test_a_run_is_drawn_over_its_times(done):
    matplotlib = pytest.importorskip("matplotlib", reason="needs matplotlib, of the extra plots")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    ax = done.plot()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("when", "load")
    assert ax.lines[0].get_xdata()[0] == np.datetime64("2026-01-01T00:00:00")
    plt.close("all")
