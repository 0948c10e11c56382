"""MLflow: a model that is saved and loaded predicts what it predicted before, and learns nothing."""

from __future__ import annotations

import numpy as np
import pytest

import streamgp as sg

pd = pytest.importorskip("pandas")
mlflow = pytest.importorskip("mlflow")
pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow warns of its own imports

from streamgp.adapters.mlflow import log_model, save_model  # noqa: E402
from streamgp.job.pipeline import Pipeline  # noqa: E402
from streamgp.tables.formats import Chunk  # noqa: E402
from streamgp.tables.recognizing import recognize  # noqa: E402


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(0, 10, (150, 2)), columns=["a", "b"])
    return frame, (100 + 10 * np.sin(frame["a"]) + frame["b"]).to_numpy()


@pytest.fixture(scope="module")
def model(rows):
    model = sg.Calibrated(sg.Standardize(sg.KRLST(capacity=20)))
    model.learn_many(rows[0].to_numpy(), rows[1])
    return model


def test_a_model_predicts_as_before_by_the_names_of_its_columns(tmp_path, rows, model):
    save_model(model, tmp_path / "m", columns=["a", "b"])
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    frame = rows[0][:7].set_index(np.arange(7) + 50)
    expected = model.predict_many(frame.to_numpy())
    for _ in range(2):
        said = loaded.predict(frame[["b", "a"]])
        assert list(said.columns) == ["mean", "lower", "upper", "std"]
        assert list(said.index) == list(frame.index)
        assert np.array_equal(said["mean"], expected.mean)
        assert np.array_equal(said[["lower", "upper"]].to_numpy().T, expected.interval(0.9))
    with pytest.raises(Exception, match="the rows lack the columns \\['b'\\]; they need \\['a', 'b'\\]"):
        loaded.predict(frame[["a"]])


def test_a_run_predicts_as_before_with_its_own_columns(tmp_path, rows):
    frame = rows[0].assign(state=np.where(rows[0]["b"] > 5, "on", "off"), y=rows[1])
    chunk = Chunk({name: frame[name].tolist() for name in frame}, range(1, len(frame) + 1))
    run = Pipeline(recognize(chunk, "y"), "KRLST", {"tune": False, "warmup": 20, "capacity": 10})
    run.take(run.encoder.fill(run.encoder.encode(chunk)))
    save_model(run, tmp_path / "m")
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    said = loaded.predict(frame.drop(columns="y")[:5])
    first = Chunk({name: values[:5] for name, values in chunk.columns.items()}, range(1, 6))
    expected = run.issued(run.issue(run.encoder.encode(first)))
    for name in ("mean", "lower", "upper", "std"):
        assert np.array_equal(said[name], getattr(expected, name))
    with pytest.raises(Exception, match="the rows lack the columns"):
        loaded.predict(frame[["a"]])


@pytest.mark.more
def test_a_logged_model_is_loaded_by_its_address(tmp_path, rows, model, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file://{tmp_path}/runs")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(f"file://{tmp_path}/runs")
    with mlflow.start_run():
        info = log_model(model, "boiler", columns=["a", "b"])
    said = mlflow.pyfunc.load_model(info.model_uri).predict(rows[0][:3])
    assert np.array_equal(said["mean"], model.predict_many(rows[0][:3].to_numpy()).mean)


def test_what_cannot_be_an_mlflow_model_is_refused(tmp_path):
    with pytest.raises(TypeError, match="model must be a stream model or a run; got str"):
        save_model("model", tmp_path / "m")
    run = Pipeline(recognize(Chunk({"a": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 4.0]}, range(1, 4)), "y"), "KRLST", {})
    with pytest.raises(ValueError, match="a run knows its columns; leave columns out"):
        save_model(run, tmp_path / "m", columns=["a"])
    assert not (tmp_path / "m").exists()
