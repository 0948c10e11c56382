"""Models and runs as MLflow models; needs mlflow or mlflow-skinny (``pip install 'streamgp[mlflow]'``)."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

try:
    import pandas as pd
    from mlflow import pyfunc
    from mlflow.pyfunc.model import PythonModel
except ImportError as error:
    raise ImportError("streamgp.adapters.mlflow needs mlflow: pip install 'streamgp[mlflow]'") from error

from streamgp.contract.loading import load
from streamgp.contract.model import StreamModel
from streamgp.job.pipeline import Pipeline
from streamgp.settings import probability
from streamgp.tables.formats import Chunk
from streamgp.version import __version__

LEVEL = 0.9  # of the intervals, unless ``params`` says otherwise
RUN, MODEL = "a run", "a model"


class StreamPyfunc(PythonModel):
    """A model or a run, as MLflow calls it: a frame of rows in, a frame of predictions out; nothing is learned.

    Args:
        kind: of the file: "a run" or "a model".
        columns: the inputs of a model, in its order; None: all columns of the frame.
    """

    def __init__(self, kind: str, columns: Sequence[str] | None) -> None:
        self.kind, self.columns = kind, None if columns is None else list(columns)

    def load_context(self, context: Any) -> None:
        """Load the file that was saved."""
        path = context.artifacts["model"]
        self.model: Any = Pipeline.load(path) if self.kind == RUN else load(path)

    def predict(self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None) -> pd.DataFrame:
        """Predict rows, each as the next one.

        Args:
            context: of MLflow.
            model_input: rows with the columns that were learned.
            params: ``level`` is that of the intervals of a model, 0.9 by default; a run has its own.

        Returns:
            The columns mean, lower, upper and std, with the index of the rows.
        """
        params = params or {}
        if self.kind == RUN:
            if "level" in params and params["level"] != self.model.level:
                raise ValueError(f"the run has intervals of level {self.model.level}; got level={params['level']!r}")
            return _of_run(self.model, model_input)
        return _of_model(self.model, model_input, self.columns, probability("level", params.get("level", LEVEL)))


def _of_model(model: StreamModel, frame: pd.DataFrame, columns: list[str] | None, level: float) -> pd.DataFrame:
    names = list(frame.columns) if columns is None else columns
    if missing := [name for name in names if name not in frame.columns]:
        raise ValueError(f"the rows lack the columns {missing}; they need {names}")
    p = model.predict_many(frame[names].to_numpy(dtype=float))
    if np.ndim(p.mean) > 1:
        raise ValueError(f"the model has {np.shape(p.mean)[1]} outputs; MLflow gets models of one")
    told: dict[str, Any] = {"mean": p.mean}
    if model.has_variance:
        lower, upper = p.interval(level)
        told |= {"lower": lower, "upper": upper, "std": p.std}
    return pd.DataFrame(told, index=frame.index)


def _of_run(run: Pipeline, frame: pd.DataFrame) -> pd.DataFrame:
    known = run.schema.needed
    if missing := [name for name in known if name != run.schema.target and name not in frame.columns]:
        raise ValueError(
            f"the rows lack the columns {missing}; they need {[n for n in known if n != run.schema.target]}"
        )
    cells = frame.astype(object).where(frame.notna(), None)
    chunk = Chunk({str(name): cells[name].tolist() for name in frame.columns}, range(1, len(frame) + 1))
    chunk.columns.setdefault(run.schema.target, [None] * len(frame))
    rows = run.encoder.encode(chunk)
    if rows.bad:
        line, reason = rows.bad[0]
        raise ValueError(f"row {line} {reason}")
    p = run.issued(run.issue(rows))
    return pd.DataFrame({"mean": p.mean, "lower": p.lower, "upper": p.upper, "std": p.std}, index=frame.index)


def save_model(model: Any, path: str | Path, columns: Sequence[str] | None = None, **options: Any) -> None:
    """Write a model to a folder that ``mlflow.pyfunc.load_model`` loads.

    Args:
        model: a stream model of one output that has learned, or a run (``streamgp.job.Pipeline.load("run.sgp")``).
        path: the folder, which must not exist yet.
        columns: the inputs of a stream model in its order; None: all columns of a frame, in the frame's order. A run
            knows its columns.
        options: further arguments of ``mlflow.pyfunc.save_model``, such as ``signature`` or ``input_example``.

    Example:
        >>> import tempfile
        >>> import mlflow, numpy as np, pandas as pd
        >>> import streamgp as sg
        >>> from streamgp.adapters.mlflow import save_model
        >>> model = sg.Standardize(sg.KRLST())
        >>> x = np.linspace(0, 10, 200)
        >>> model.learn_many(x[:, None], 3 * x)
        >>> folder = tempfile.mkdtemp() + "/model"
        >>> save_model(model, folder, columns=["x"])
        >>> mlflow.pyfunc.load_model(folder).predict(pd.DataFrame({"x": [5.0]})).round()["mean"].tolist()
        [15.0]
    """
    with tempfile.TemporaryDirectory() as folder:
        pyfunc.save_model(str(path), **_arguments(model, columns, folder, options))


def log_model(model: Any, name: str = "model", columns: Sequence[str] | None = None, **options: Any) -> Any:
    """Log a model to the run of MLflow that is active.

    Args:
        model: as in ``save_model``.
        name: of the model.
        columns: as in ``save_model``.
        options: further arguments of ``mlflow.pyfunc.log_model``, such as ``registered_model_name``.

    Returns:
        What ``mlflow.pyfunc.log_model`` returns; its ``model_uri`` loads the model.
    """
    with tempfile.TemporaryDirectory() as folder:
        return pyfunc.log_model(name=name, **_arguments(model, columns, folder, options))


def _arguments(model: Any, columns: Sequence[str] | None, folder: str, options: dict[str, Any]) -> dict[str, Any]:
    is_run = not isinstance(model, StreamModel)
    if is_run and not isinstance(model, Pipeline):
        raise TypeError(f"model must be a stream model or a run; got {type(model).__name__}")
    if is_run and columns is not None:
        raise ValueError("a run knows its columns; leave columns out")
    if is_run and model.horizon:
        raise ValueError(f"the run predicts {model.horizon} rows ahead of rows that it learns; MLflow only predicts")
    path = Path(folder) / "model.sgp"
    model.save(path)
    own = {
        "python_model": StreamPyfunc(RUN if is_run else MODEL, columns),
        "artifacts": {"model": str(path)},
        "pip_requirements": [f"streamgp[mlflow]=={__version__}"],
    }
    return own | options
