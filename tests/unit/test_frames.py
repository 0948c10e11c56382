"""Rows by the names of columns, predictions as frames, pictures and words."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import streamgp as sg

nw = pytest.importorskip("narwhals", reason="needs narwhals, of the extra frames")
pd = pytest.importorskip("pandas", reason="needs pandas, of the extra tables")
N = 60


def table(n=N):
    rng = np.random.default_rng(3)
    wind, sun = rng.standard_normal((2, n))
    load = np.sin(wind) + 0.3 * sun + 0.1 * rng.standard_normal(n)
    return {
        "when": np.datetime64("2026-03-01T00:00", "us") + np.arange(n) * np.timedelta64(15, "m"),
        "wind": wind,
        "sun": sun,
        "load": load,
        "price": rng.standard_normal(n),
    }


def frame_of(kind, columns=None):
    pytest.importorskip(kind)
    columns = table() if columns is None else columns
    made = nw.from_dict(columns, backend=kind).to_native()
    if kind == "pandas":
        made.index = [f"row {i}" for i in range(len(made))]
    return made


KINDS = pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])


def parts(p):
    return np.array([p.mean, p.variance, p.noise])


@KINDS
def test_columns_by_name_are_the_arrays_of_these_columns_and_the_same_kind_comes_back(kind):
    columns, frame = table(), frame_of(kind)
    X, y = np.column_stack([columns["wind"], columns["sun"]]), columns["load"]
    model, by_hand = sg.KRLST(), sg.KRLST()
    p = model.track(frame, target="load", inputs=["wind", "sun"], time="when")
    expected = by_hand.track(X, y)
    np.testing.assert_array_equal(parts(p), parts(expected))
    made = p.to_frame()
    assert type(made) is type(frame)
    read = nw.from_native(made)
    assert read.columns == ["when", "mean", "lower", "upper", "std", "observed"]
    lower, upper = expected.interval(0.9)
    for name, values in {"mean": expected.mean, "lower": lower, "upper": upper, "std": expected.std}.items():
        np.testing.assert_array_equal(read.get_column(name).to_numpy(), values)
    np.testing.assert_array_equal(read.get_column("observed").to_numpy(), y)
    np.testing.assert_array_equal(read.get_column("when").to_numpy(), columns["when"])
    if kind == "pandas":
        assert list(made.index) == list(frame.index)


@KINDS
def test_a_model_finds_the_columns_it_has_learned_whatever_else_a_frame_has(kind):
    columns = table()
    model = sg.KRLST()
    model.learn_many(frame_of(kind), target="load", inputs=["sun", "wind"])
    X = np.column_stack([columns["sun"], columns["wind"]])
    again = sg.from_bytes(model.copy().to_bytes())
    turned = frame_of(kind, {name: columns[name] for name in ["price", "wind", "load", "sun"]})
    for one in (model, again):
        np.testing.assert_array_equal(one.predict_many(turned).mean, model.predict_many(X).mean)
    row = {"wind": columns["wind"][5], "price": 1.0, "sun": columns["sun"][5]}
    assert model.predict_one(row).mean == model.predict_one(X[5]).mean
    model.learn_one(row, 0.5)
    again.learn_one(X[5], 0.5)
    assert model.to_bytes() == again.to_bytes()
    model.track(turned, target="load")
    again.track(X, columns["load"])
    assert model.to_bytes() == again.to_bytes()


def test_missing_targets_and_inputs_of_every_kind_of_column():
    columns = table() | {"count": [None, *range(1, N)], "on": [True, False] * (N // 2)}
    columns["load"][3] = np.nan
    for kind in ("pandas", "polars", "pyarrow"):
        frame = frame_of(kind, columns)
        model = sg.KRLST()
        p = model.track(frame, target="load", inputs=["wind", "on"])
        by_hand = sg.KRLST().track(np.column_stack([columns["wind"], columns["on"]]), columns["load"])
        np.testing.assert_array_equal(p.mean, by_hand.mean)
        before = model.to_bytes()
        with pytest.raises(ValueError, match="X has NaN or inf in row 0"):
            sg.KRLST().learn_many(frame, target="load", inputs=["count"])
        assert model.to_bytes() == before
    nullable = frame_of("pandas", columns)
    nullable["count"] = nullable["count"].astype("Int64")
    p = sg.KRLST().track(nullable, target="count", inputs=["wind"])
    assert np.isnan(p.to_frame()["observed"].iloc[0])


def test_times_with_a_zone_are_the_same_moments_and_come_back_as_they_were():
    pl = pytest.importorskip("polars")
    zoned = frame_of("pandas").assign(when=lambda f: f["when"].dt.tz_localize("Europe/Berlin"))
    seconds = np.array([moment.timestamp() for moment in zoned["when"]])
    columns = table()
    build = lambda: sg.KRLST(time=sg.Matern(1.5, lengthscale="3h"))  # noqa: E731
    expected = build().track(columns["wind"][:, None], columns["load"], time=seconds)
    for frame in (zoned, pl.from_pandas(zoned)):
        p = build().track(frame, target="load", inputs=["wind"], time="when")
        np.testing.assert_allclose(p.mean, expected.mean, rtol=1e-12, atol=1e-12)
        assert str(p.to_frame()["when"].dtype) == str(frame["when"].dtype)


def test_several_targets_have_columns_of_their_own():
    frame = frame_of("pandas")
    p = sg.KRLST(outputs="separate").track(frame, target=["load", "price"], inputs=["wind"])
    made = p.to_frame(level=0.5)
    assert list(made.columns) == [f"{t}_{c}" for t in ("load", "price") for c in COLUMNS]
    np.testing.assert_array_equal(made["price_lower"], p.interval(0.5)[0][:, 1])
    np.testing.assert_array_equal(made["price_observed"], frame["price"])
    one = sg.KRLST().track(frame, target=["load"], inputs=["wind"])
    assert one.mean.shape == (N, 1)
    assert list(one.to_frame().columns) == list(COLUMNS)


COLUMNS = ("mean", "lower", "upper", "std", "observed")


def test_parts_of_a_prediction_know_their_rows():
    frame = frame_of("pandas")
    p = sg.KRLST().track(frame, target="load", inputs=["wind"], time="when")
    for rows in (slice(-5, None), np.array([3, 1]), np.arange(N) < 4):
        pd.testing.assert_frame_equal(p[rows].to_frame(), p.to_frame().iloc[rows], check_freq=False)
    assert p[7].to_frame().shape == (1, 4)


def test_predictions_of_arrays_become_frames_of_the_first_kind_that_is_installed():
    p = sg.KRLST().track(np.arange(5.0), np.arange(5.0))
    assert type(p.to_frame()) is pd.DataFrame
    assert list(p.to_frame().columns) == ["mean", "lower", "upper", "std"]
    pl = pytest.importorskip("polars")
    assert type(p.to_frame(backend="polars")) is pl.DataFrame
    with pytest.raises(ValueError, match="backend must be a package of data frames that is installed, such as pandas"):
        p.to_frame(backend="excel")
    assert len(sg.KRLST().track(frame_of("pandas").iloc[:0], target="load", inputs=["wind"]).to_frame()) == 0


def test_alarms_and_components_are_columns():
    frame = frame_of("pandas")
    p = sg.Alarms(sg.Calibrated(sg.KRLST()), rate=1e-2).track(frame, target="load", inputs=["wind"])
    assert {"surprise", "alarm"} <= set(p.to_frame().columns)
    model = sg.KRLST(time=sg.Matern(1.5, lengthscale="3h"))
    model.learn_many(frame.iloc[:20], target="load", inputs=["wind"], time="when")
    p = model.predict_many(frame.iloc[20:], time="when")
    named = [f"component_{name}" for name in p.components]
    assert named
    np.testing.assert_allclose(p.to_frame()[named].sum(axis=1), p.mean, atol=1e-8)


def test_a_frame_of_times_alone_is_forecast():
    frame = frame_of("pandas")
    model = sg.TimeGP(sg.Matern(1.5, lengthscale="3h"))
    model.learn_many(frame.iloc[:-5], target="load", inputs=[], time="when")
    p = model.predict_many(frame.iloc[-5:], time="when")
    assert list(p.to_frame().index) == list(frame.index[-5:])
    with pytest.raises(TypeError, match="the column 'when' holds dates; say time='when'"):
        sg.KRLST().learn_many(frame, target="load")


def test_what_cannot_be_is_refused_and_changes_nothing():
    frame, model = frame_of("pandas"), sg.KRLST()
    text = frame.assign(shift=["day", "night"] * (N // 2))
    twice = pd.DataFrame(np.zeros((3, 2)), columns=["a", "a"])
    model.learn_many(frame, target="load", inputs=["wind", "sun"])
    before = model.to_bytes()
    wrong = [
        (lambda: model.track(frame, target="laod"), "there is no column 'laod'. Did you mean 'load'?"),
        (lambda: model.track(frame[["wind"]]), "there is no column 'sun'. The columns are: wind"),
        (lambda: model.track(frame, target="load", inputs=["sun", "wind"]), "inputs of this model are wind, sun"),
        (lambda: model.track(frame, target="price"), "has learned load; got target=price"),
        (lambda: model.track(frame, frame["load"], target="load"), "give the targets once"),
        (lambda: model.track(frame, target="load", inputs=["load"]), "'load' is the target and cannot be an input"),
        (lambda: model.track(frame, target="load", inputs=["wind", "wind"]), "inputs names the column 'wind' twice"),
        (lambda: model.track(frame, target=3), "target must be the name of a column, or a list of names; got 3"),
        (lambda: model.track(np.zeros((3, 2)), target="load"), "target names columns, so X must be a data frame"),
        (lambda: model.learn_many(np.zeros((3, 2)), inputs=["a"]), "inputs names columns, so X must be a data frame"),
        (lambda: model.learn_many(frame), "learn_many needs targets"),
        (lambda: model.predict_one({"wind": 1.0, "sum": 2.0}), "there is no column 'sun'. Did you mean 'sum'?"),
        (lambda: sg.KRLST().learn_one({"a": 1.0}, 1.0), "does not know what its inputs are called"),
        (lambda: sg.KRLST().track(text, target="load", inputs=["shift"]), "the column 'shift' does not hold numbers"),
        (lambda: sg.KRLST().track(twice, target="a"), "cannot be read as a data frame|unique"),
        (lambda: sg.KRLST().track(pd.DataFrame(np.zeros((3, 2))), target="a"), "names of columns must be text; got 0"),
        (lambda: model.track(frame, target="load", time="wen"), "there is no column 'wen'. Did you mean 'when'?"),
    ]
    for call, message in wrong:
        with pytest.raises((TypeError, ValueError), match=message):
            call()
    assert model.to_bytes() == before
    pl = pytest.importorskip("polars")
    with pytest.raises(TypeError, match="X is a lazy frame"):
        sg.KRLST().track(pl.from_pandas(frame).lazy(), target="load")


def test_without_narwhals_frames_are_arrays_and_names_ask_for_the_extra(monkeypatch):
    frame = frame_of("pandas")
    monkeypatch.setitem(sys.modules, "narwhals", None)
    p = sg.KRLST().track(frame[["wind", "sun"]], frame["load"])
    with pytest.raises(ModuleNotFoundError, match=r'data frames need narwhals: pip install "streamgp\[frames\]"'):
        p.to_frame()
    with pytest.raises(ModuleNotFoundError, match="narwhals"):
        sg.KRLST().track(frame, target="load")


# Words, tables and pictures


def test_a_prediction_says_what_it_is_in_few_words():
    p = sg.Calibrated(sg.KRLST()).track(np.linspace(0, 1, 1000), np.zeros(1000))
    text = repr(p)
    assert text.startswith("CalibratedPrediction(1,000 rows, mean=[0, 0, 0, ..., 0, 0], lower=[")
    assert len(text) < 250
    assert repr(sg.Prediction(1.0, 0.03, 0.01)) == "Prediction(mean=1, lower=0.671, upper=1.329, std=0.2)"
    wide = sg.KRLST().track(np.arange(50.0), np.zeros((50, 30)))
    assert repr(wide).startswith("Prediction(50 rows of 30 outputs, mean=[[0, 0, 0, 0, ...], ")
    assert len(repr(wide)) < 400
    assert repr(sg.KRLST().track(np.zeros((0, 1)))).startswith("Prediction(0 rows")
    assert len(repr(sg.SOGP().predict_joint(np.arange(100.0)))) < 250


def test_tables_of_a_notebook_are_small_and_whole():
    from html.parser import HTMLParser

    def tags(text):
        found = []
        parser = HTMLParser()
        parser.handle_starttag = lambda tag, _: found.append(tag)
        parser.feed(text)
        return found

    frame = frame_of("pandas").rename(columns={"when": "<b>when</b>"})
    p = sg.KRLST().track(frame, target="load", inputs=["wind"], time="<b>when</b>")
    text = p._repr_html_()
    assert "<th>&lt;b&gt;when&lt;/b&gt;</th>" in text
    assert "60 rows, 90% interval" in text
    assert tags(text).count("tr") == 1 + 3 + 1 + 2
    assert "color" not in text
    assert "1 row," in p[0]._repr_html_()
    assert "<td>rows seen</td><td>0</td>" in sg.Standardize(sg.KRLST())._repr_html_()
    assert "&lt;lambda&gt;" in sg.RecursiveGP([[0.0], [1.0]], mean=lambda x: 0.0 * x[:, 0])._repr_html_()


@pytest.fixture
def pictures():
    matplotlib = pytest.importorskip("matplotlib", reason="needs matplotlib, of the extra plots")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    yield plt
    plt.close("all")


def test_a_picture_has_the_band_the_mean_the_targets_and_the_times(pictures):
    frame = frame_of("pandas")
    p = sg.Calibrated(sg.KRLST()).track(frame, target="load", inputs=["wind"], time="when")
    ax = p.plot()
    mean, observed = ax.lines
    np.testing.assert_array_equal(mean.get_ydata(), p.mean)
    np.testing.assert_array_equal(observed.get_ydata(), frame["load"])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("when", "load")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["90% interval", "mean", "observed"]
    assert mean.get_xdata()[0] == table()["when"][0]
    _, given = pictures.subplots()
    arrays = sg.KRLST().track(np.arange(5.0), np.arange(5.0))
    assert arrays.plot(np.arange(5.0), ax=given, level=0.5) is given
    assert given.get_xlabel() == "row"
    assert len(arrays.plot().lines) == 1
    both = sg.KRLST().track(frame, target=["load", "price"], inputs=["wind"]).plot()
    assert [ax.get_ylabel() for ax in both] == ["load", "price"]


def test_pictures_that_cannot_be_are_refused(monkeypatch):
    p = sg.KRLST().track(np.arange(5.0), np.arange(5.0))
    with pytest.raises(ValueError, match="plot shows many rows, and this is the prediction of one"):
        p[0].plot()
    with pytest.raises(ValueError, match=r"y must be like the mean, of shape \(5,\); got \(3,\)"):
        p.plot([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="time must be one time for each of the 5 rows"):
        p.plot(time=[1.0])
    with pytest.raises(ValueError, match="ax must be the axes of 1 output; got 2"):
        p.plot(ax=[None, None])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r'plot needs matplotlib: pip install "streamgp\[plots\]"'):
        p.plot()


# Settings as attributes


def test_settings_can_be_read_but_not_assigned():
    model = sg.SOGP(noise=[0.1])
    model.noise[0] = 2.0
    assert model.noise == [0.1]
    with pytest.raises(AttributeError, match=r"noise is a setting: change it before.*model.set_params\(noise=0.2\)"):
        model.noise = 0.2
