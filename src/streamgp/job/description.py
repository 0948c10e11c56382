"""What a saved run or model holds, for people and machines."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from streamgp.contract import snapshot
from streamgp.contract.loading import from_bytes
from streamgp.contract.model import StreamModel
from streamgp.job.job import first_rows
from streamgp.job.pipeline import Pipeline
from streamgp.job.told import relevance
from streamgp.tables.columns import Schema, listed
from streamgp.tables.declared import as_toml
from streamgp.tables.formats import read_rows
from streamgp.tables.recognizing import recognize
from streamgp.tables.source import RowsError
from streamgp.tables.writing import writing

MOST_INPUTS = 12
TABLES = (".csv", ".tsv", ".txt", ".dat", ".json", ".ndjson", ".jsonl", ".parquet")


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


def is_table(path: Path) -> bool:
    """Whether a file is a table, by its name."""
    packed = path.suffix.lower() in (".gz", ".bz2", ".xz")
    return Path(path.stem if packed else path.name).suffix.lower() in TABLES


def described_table(path: str | Path) -> Schema:
    """What the columns of a table are; the last one that can be is taken for the target.

    Args:
        path: the table.
    """
    with closing(read_rows(path)) as reader:
        first, _, more = first_rows(reader.chunks(), reader.live)
    if not len(first):
        raise RowsError(f"{path} has no rows; the columns are: {listed(reader.names)}")
    problem: RowsError | None = None
    for target in reversed(reader.names):
        try:
            return recognize(first, target, growing=more)  # as a run does
        except RowsError as error:
            problem = problem or error
    raise problem or RowsError(f"{path} has no columns")


def write_columns(schema: Schema, place: Path) -> None:
    """Write what columns are to a .toml or .json file, as ``schema`` reads it."""
    kind, found = place.suffix.lower(), schema.declared()
    if kind not in (".toml", ".json"):
        raise ValueError(f"`write_schema` must be a .toml or .json file; got {str(place)!r}")
    text = as_toml(found) if kind == ".toml" else json.dumps(found, indent=2, ensure_ascii=False) + "\n"
    with writing(place):
        place.write_text(text, encoding="utf-8", newline="\n")


def _model(model: StreamModel, names: list[str] | None) -> dict[str, Any]:
    weights = relevance(model)
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
