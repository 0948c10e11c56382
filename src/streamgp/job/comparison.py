"""Several models on one stream: the same rows, the same inputs, each prediction before its row is learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from streamgp.evaluate.paired import BlockSums, Rank
from streamgp.job.job import ON_ERROR, BadRowError, first_rows
from streamgp.job.pipeline import Pipeline
from streamgp.job.request import setting_names, told_of_columns
from streamgp.job.scores import RunningScores
from streamgp.job.yardsticks import PREVIOUS
from streamgp.settings import nearest, option
from streamgp.tables.formats import read_rows
from streamgp.tables.recognizing import recognize
from streamgp.tables.writing import PredictedRows

BY = ("rmse", "density")
DEFAULT = ("KRLST", "SOGP", "ISSGPR", "QKLMS")  # a few models that differ


@dataclass
class Comparison:
    """How several models did.

    Args:
        ranking: best first, by mean squared error or by mean negative log density.
        scores: of every model.
        rows: that were compared.
        from_row: the first of them.
        skipped_rows: rows that were left out.
    """

    ranking: list[Rank]
    scores: dict[str, RunningScores]
    rows: int
    from_row: int
    skipped_rows: int


def compare_models(
    source: str | Path,
    target: str,
    models: Sequence[str],
    *,
    inputs: Sequence[str] | None = None,
    lags: int | None = None,
    horizon: int = 0,
    settings: Mapping[str, Any] | None = None,
    by: str = "rmse",
    on_error: str = "stop",
) -> Comparison:
    """Run several models over the same rows and rank them.

    The rows of the warm-up, on which hyperparameters are found, do not count.

    Args:
        source: a CSV, NDJSON or Parquet file, or "-" for standard input.
        target: the column to predict.
        models: names, or "auto".
        inputs: the columns to predict it from; None: all that can be.
        lags: past values of the target that are inputs.
        horizon: rows ahead.
        settings: given to every model that has them.
        by: "rmse", or "density" of the observations.
        on_error: "stop" at a row that cannot be used, or "skip" it.
    """
    option("by", by, BY)
    option("on_error", on_error, ON_ERROR)
    if len(set(models)) < max(len(models), 2):
        raise ValueError(f"give at least two different models, such as KRLST,ISSGPR; got {', '.join(models) or 'none'}")
    known = {name: setting_names(name) for name in models}
    for setting in settings or {}:
        if not any(setting.partition("__")[0] in names for names in known.values()):
            names = sorted(set().union(*known.values()))
            raise ValueError(f"none of the models has a setting {setting!r}.{nearest(setting, names)}")
    with closing(read_rows(source)) as reader:
        first, chunks, more = first_rows(reader.chunks(), reader.live)
        schema = recognize(first, target, inputs, growing=more, **told_of_columns(settings))
        pipelines = {
            name: Pipeline(
                schema,
                name,
                {key: value for key, value in (settings or {}).items() if key.partition("__")[0] in known[name]},
                lags,
                horizon,
            )
            for name in models
        }
        encoder = pipelines[models[0]].encoder
        warmup = max(pipeline.request.chosen_after() for pipeline in pipelines.values())
        sums = BlockSums()
        scores = {name: RunningScores([PREVIOUS]) for name in models}
        rows = skipped = 0
        for chunk in chain([first], chunks):
            if not (chunk.bad or len(chunk)):
                continue
            encoded = encoder.encode(chunk)
            if encoded.bad and on_error == "stop":
                line, reason = encoded.bad[0]
                raise BadRowError(f"{reader.unit} {line} {reason}; skip such rows with `on_error=skip`")
            skipped += len(encoded.bad)
            encoded = encoder.fill(encoded)
            start = max(0, min(len(encoded.y), warmup - rows))
            rows += len(encoded.y)
            parts = {name: pipeline.take(encoded).since(start) for name, pipeline in pipelines.items()}
            previous = np.asarray(parts[models[0]].yardsticks)[:, :1]
            losses = {name: _loss(part, by) for name, part in parts.items()}
            if by == "rmse":
                losses[PREVIOUS] = (previous[:, 0] - encoded.y[start:]) ** 2
            sums.add(losses)
            for name, part in parts.items():
                scores[name].add(part._replace(yardsticks=previous))
    if rows <= warmup:
        raise ValueError(
            f"the table has {rows} rows, but the first {warmup} only tune the models; use a shorter warm-up: "
            f"`warmup={rows // 3}`"
        )
    return Comparison(sums.ranking(), scores, rows - warmup, warmup + 1, skipped)


def _loss(predicted: PredictedRows, by: str) -> np.ndarray:
    return (predicted.mean - predicted.observed) ** 2 if by == "rmse" else -predicted.log_density
