"""Auto where the stream changes: how soon it errs as little as before, and what it tells of changes that are none.

``python benchmarks/auto.py drift`` writes benchmarks/results/auto_drift.json and the table in docs/main-job.md. Auto's
watch was chosen with seeds 0 and 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from joblib import Parallel, delayed

from drift import CHANGES, GRADUAL, ROWS, function, noises, surface
from record import blas, environment, measured_on
from streamgp.evaluate.metrics import rmse
from streamgp.job.pipeline import Pipeline
from streamgp.tables.columns import Column, Schema
from streamgp.tables.encoding import EncodedRows
from tables import table

SEEDS = (10, 11)
NEW_INPUT = "another input"
AT = CHANGES | {NEW_INPUT: (ROWS // 2,)}
NOISE, RECOVERED, WINDOW, WITHIN = 0.1, 1.5, 100, 500
DRIFT = {"on": True, "off": False}


def rows_of(change: str, noise: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Four inputs, of which two count; of a new one the others know nothing."""
    rng = np.random.default_rng([seed, 7])
    X = rng.uniform(-2, 2, (ROWS, 4))
    if change == NEW_INPUT:
        y = np.where(np.arange(ROWS) < AT[change][0], surface(rng, X[:, :2]), surface(rng, X[:, 1:3]))
    else:
        y = function(change, rng, X[:, :2])
    return X, y + noises(rng)[noise]


def run(change: str, noise: str, seed: int, drift: str) -> dict[str, Any]:
    """Errors after each change, rows until they are small again, and what was told."""
    X, y = rows_of(change, noise, seed)
    names = [f"x{i}" for i in range(X.shape[1])]
    schema = Schema(tuple(Column(name, "number") for name in [*names, "y"]), "y", tuple(names))
    pipeline = Pipeline(schema, settings={"drift": DRIFT[drift]}, lags=0)
    said = pipeline.take(EncodedRows(X, y, None, list(range(ROWS)), [])).mean
    told = list(pipeline.model.changes)
    late = GRADUAL if change == "gradual" else 0
    return {
        "rmse": rmse(y[500:], said[500:]),
        "recovered": [recovered(y[at + late :], said[at + late :]) for at in AT[change]],
        "found": [any(at < row <= at + late + WITHIN for row in told) for at in AT[change]],
        "false": sum(not any(at < row <= at + late + WITHIN for at in AT[change]) for row in told),
    }


def recovered(y: np.ndarray, said: np.ndarray) -> int:
    """The first row from which the next hundred have an error of at most 1.5 times the noise."""
    squares = np.convolve((y - said) ** 2, np.ones(WINDOW) / WINDOW, "valid")
    small = np.flatnonzero(squares <= (RECOVERED * NOISE) ** 2)
    return int(small[0]) if len(small) else len(y)


def measure(jobs: int) -> dict[str, Any]:
    kinds = [(change, "Gaussian") for change in AT if change != "none"]
    asked = [(*kind, drift) for kind in kinds for drift in DRIFT]
    asked += [("none", noise, "on") for noise in noises(np.random.default_rng(0))]
    tasks = [(change, noise, seed, drift) for change, noise, drift in asked for seed in SEEDS]
    found = Parallel(n_jobs=jobs)(delayed(run)(*task) for task in tasks)
    cells = [
        dict(zip(("change", "noise", "seed", "drift"), task, strict=True)) | result
        for task, result in zip(tasks, found, strict=True)
    ]
    return environment() | {"blas": blas(), "rows": ROWS, "seeds": list(SEEDS), "cells": cells}


def shown(results: dict[str, Any]) -> str:
    lines = []
    for change in dict.fromkeys(cell["change"] for cell in results["cells"]):
        cells = [cell for cell in results["cells"] if cell["change"] == change]
        noises = len({cell["noise"] for cell in cells})
        on, off = ([cell for cell in cells if cell["drift"] == drift] for drift in DRIFT)
        rows = results["rows"] * len(on)
        lines.append(
            [
                f"none, {noises} kinds of noise" if change == "none" else change,
                *(_recovery(part) for part in (on, off)),
                f"{sum(sum(cell['found']) for cell in on)} of {sum(len(cell['found']) for cell in on)}",
                f"{1e4 * sum(cell['false'] for cell in on) / rows:.1f}",
            ]
        )
    header = ["change", "rows to recover", "without the watch", "told within 500 rows", "told falsely in 10 000 rows"]
    return f"{table(header, lines)}\n\n{measured_on(results)}"


def _recovery(cells: list[dict[str, Any]]) -> str:
    rows = [rows for cell in cells for rows in cell["recovered"]]
    return f"{np.median(rows):.0f} ({max(rows)})" if rows else ""
