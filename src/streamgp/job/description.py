"""What a saved run or model holds, for people and machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from streamgp.contract import snapshot
from streamgp.contract.model import StreamModel
from streamgp.job.pipeline import Pipeline
from streamgp.loading import from_bytes
from streamgp.tables.source import RowsError

MOST_INPUTS = 12


def described(path: str | Path) -> dict[str, Any]:
    """Return what a file written by ``Pipeline.save`` or ``model.save`` holds, by name.

    Args:
        path: the file.
    """
    try:
        data = snapshot.read(path)
    except OSError as error:
        raise RowsError(f"{path} cannot be read: {error.strerror}") from None
    header, _ = snapshot.unpacked(data)
    if "run" not in header:
        model = from_bytes(data)
        return {"holds": "a model", "written by": f"streamgp {header['library']}"} | _model(model, None)
    pipeline = Pipeline.from_bytes(data)
    schema, chosen = pipeline.schema, pipeline.chosen
    found: dict[str, Any] = {
        "holds": "a run over rows of a table",
        "written by": f"streamgp {header['library']}",
        "target": schema.target,
        "inputs": pipeline.input_names,
        "time": schema.time or "row numbers",
        "lags": pipeline.lags,
        "horizon": pipeline.horizon,
        **({} if pipeline.late is None else {"ticket column": schema.ticket, "late targets": pipeline.late}),
        "requested": pipeline.request.model,
        "chosen": "not yet: too few rows" if chosen is None else f"{chosen.name} ({chosen.reason})",
        "rows": pipeline.rows,
        "level": pipeline.level,
        "scores": pipeline.score_summary(),
        "gaps": pipeline.encoder.gaps,
    }
    return found | _model(pipeline.model, pipeline.input_names) | {"health": pipeline.health}


def _model(model: StreamModel, names: list[str] | None) -> dict[str, Any]:
    try:
        weights = model.relevance().inputs
    except ValueError:
        weights = np.zeros(0)
    labels = names if names is not None and len(names) == len(weights) else [f"x{i + 1}" for i in range(len(weights))]
    largest = np.argsort(-weights, kind="stable")[:MOST_INPUTS]
    return {
        "model": repr(model),
        "rows seen": model.rows_seen,
        "size": model.size,
        "hyperparameters": {name: np.asarray(value).tolist() for name, value in model.hyperparameters.items()},
        "relevance": {labels[i]: float(weights[i]) for i in largest},
        "health": model.health._asdict() | {"repairs": model.health.repairs},
    }
