"""Table 4: GEFCom2012, load and wind power one hour ahead from 48 hours, GP-LSTM beside LSTM and linear models.

One cell trains the LSTM until validation no longer improves, then the GP-LSTM from its weights (Algorithm 2, process
interpolated on a grid over an embedding of two numbers); then both anew on the whole training part, for as many epochs.
Each takes, for itself, the candidate that is best on validation with a seed of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reproductions.framework import Cell, Expected, Experiment, Row, Settings, Table, Value
from streamgp import deep
from streamgp.evaluate.metrics import nlpd, rmse

from .smartgrid import LAG, TABLES, Split, linear, split

MODELS = ("LSTM", "GP-LSTM")
BASELINES = ("persistence", "linear AR(48)", "linear ARX(48)")
CANDIDATES: list[dict[str, Any]] = [
    {"layers": layers, "dropout": dropout, "recurrent_dropout": dropout / 5}
    for layers, dropout in ((1, 0.0), (1, 0.2), (2, 0.2))
]
EPOCHS = {"load": 1.0, "wind": 0.3}  # times those of the settings: wind has 3.4 times the rows, and gets as many steps
FINE: dict[str, dict[str, Any]] = {  # a stale gradient does harm where the noise is small, as that of the load is
    "load": {"rate": 3e-4, "refresh": 1},
    "wind": {"rate": 1e-4, "refresh": 10, "kernel_steps": 2},
}
ROWS = {"load": None, "wind": 5000}  # that are learned, the latest of each farm; None: all
TUNING_SEED = 1000


def cells(settings: Settings, rows: list[Row]) -> list[Cell]:
    """Of each series the candidates, then the runs with the best of each model."""
    tuning: list[Cell] = []
    runs: list[Cell] = []
    for name in settings["data"].split():
        cell = {"data": name, "rows": settings["rows"], "units": settings["units"]}
        cell |= {"epochs": max(1, round(EPOCHS[name] * settings["epochs"])), "fine_epochs": settings["fine_epochs"]}
        runs.append({"stage": "linear", **cell, "candidate": -1, "seed": settings["seed"]})
        count = min(settings["candidates"], len(CANDIDATES))
        tuning += [{"stage": "tune", **cell, "candidate": i, "seed": TUNING_SEED} for i in range(count)]
        chosen = best_candidates(rows, name)
        if len([row for row in rows if row["stage"] == "tune" and row["data"] == name]) == count:
            runs += [
                {"stage": "run", **cell, "candidate": candidate, "seed": settings["seed"] + number}
                for number in range(settings["runs"])
                for candidate in sorted(set(chosen.values()))
            ]
    return runs + tuning


def best_candidates(rows: list[Row], data: str) -> dict[str, int]:
    """The candidate with the lowest validation error, by model."""
    tuned = [row for row in rows if row["stage"] == "tune" and row["data"] == data]
    return {
        model: min(tuned, key=lambda row: float(row[f"{model} validation"]))["candidate"] for model in MODELS if tuned
    }


def run(cell: Cell) -> dict[str, Any]:
    data = split(cell["data"], cell["rows"] or ROWS[cell["data"]])
    if cell["stage"] == "linear":
        before = np.concatenate([[np.nan], data.test.Y[:-1]])
        said = (before, linear(data, False), linear(data, True))
        return {f"{name} rmse": error(data, prediction) for name, prediction in zip(BASELINES, said, strict=True)}
    found: dict[str, Any] = {}
    epochs: dict[str, int] | None = None
    for stage in ("stopped", "rmse"):
        network, process = trained(cell, data, epochs, FINE[cell["data"]])
        if epochs is None:
            epochs = {}
            for name, model in zip(MODELS, (network, process), strict=True):
                best = min(model.history, key=lambda epoch: epoch.rmse)
                epochs[name] = best.epoch + 1
                found |= {f"{name} validation": best.rmse, f"{name} epochs": best.epoch + 1}
                found[f"{name} epoch_seconds"] = float(np.median([epoch.seconds for epoch in model.history]))
        if cell["stage"] == "tune":
            return found
        for name, model in zip(MODELS, (network, process), strict=True):
            p = model.predict(*data.test)
            found[f"{name} {stage}"] = error(data, p.mean)
            if name == "GP-LSTM":
                known = ~np.isnan(p.mean)
                found[f"{name} nlpd"] = nlpd(data.test.Y[known], p[known]) - float(np.log(data.scale))
    return found


def trained(
    cell: Cell, data: Split, epochs: dict[str, int] | None, fine: dict[str, Any], depth: int = LAG
) -> tuple[deep.Network, deep.DeepKernelGP]:
    """The LSTM and the GP-LSTM that starts from its weights; with epochs: on all rows, for so many."""
    encoder = deep.LSTM(cell["units"], embedding=2, **CANDIDATES[cell["candidate"]])
    whole = epochs is not None
    stop: dict[str, Any] = {"validation": 0.0, "patience": None} if whole else {"patience": 10}
    first = deep.Training(
        epochs=epochs["LSTM"] if epochs else cell["epochs"], batch=256, rate=0.005, decay=0.05, **stop
    )
    then = deep.Training(
        epochs=epochs["GP-LSTM"] if epochs else cell["fine_epochs"],
        batch=256,
        decay=0.05,
        kernel_rate=0.05,
        **fine,
        **stop,
    )
    validation = None if whole else data.validation
    network = deep.Network(encoder, depth=depth, training=first, seed=cell["seed"])
    network.fit(*data.learned, validation=validation)
    process = deep.DeepKernelGP(
        encoder, depth=depth, noise=0.02, inference="interpolated", training=then, seed=cell["seed"]
    )
    return network, process.fit(*data.learned, validation=validation, pretrained=network)


def error(data: Split, prediction: np.ndarray) -> float:
    """RMSE on the test part, where a whole window comes before, in units of the training part's spread."""
    age = np.arange(len(data.test.Y)) - np.repeat(
        data.test.starts, np.diff(np.append(data.test.starts, len(data.test.Y)))
    )
    known = age >= LAG
    return rmse(data.test.Y[known], prediction[known]) / data.scale


def summarize(rows: list[Row], expected: Expected) -> Table:
    lines: list[list[str | Value]] = []
    notes = ["Mean (standard deviation) over the runs [the paper's]."] if rows else []
    names = [name for name in TABLES if any(row["data"] == name for row in rows)]
    found: dict[tuple[str, str], dict[int, float]] = {}
    for name in names:
        chosen = best_candidates(rows, name)
        for row in rows:
            if row["data"] != name:
                continue
            for model in BASELINES if row["stage"] == "linear" else MODELS:
                if row["stage"] == "linear" or (row["stage"] == "run" and row["candidate"] == chosen[model]):
                    found.setdefault((model, name), {})[row["seed"]] = row[f"{model} rmse"]
    for model in (*MODELS, *BASELINES):
        line: list[str | Value] = [model]
        for name in names:
            errors = list(found.get((model, name), {}).values())
            spread = float(np.std(errors)) if len(errors) > 1 else None
            key = f"{name} {model}"
            line.append(Value(key, float(np.mean(errors)), spread, expected.get(key)) if errors else "-")
        lines.append(line)
    for name in names:
        pair = [found.get((model, name), {}) for model in ("GP-LSTM", "LSTM")]
        both = sorted(set(pair[0]) & set(pair[1]))
        if both:
            lower = sum(pair[0][seed] < pair[1][seed] for seed in both)
            notes.append(f"On {name} GP-LSTM is below LSTM with {lower} of {len(both)} seeds.")
    return Table(["model", *names], lines, notes)


EXPERIMENT = Experiment(
    title="Table 4: load and wind power of GEFCom2012 one hour ahead",
    full={
        "runs": 5,
        "seed": 0,
        "rows": 0,  # of the training part that are used; 0: as ROWS says
        "units": 128,
        "epochs": 50,
        "fine_epochs": 3,
        "candidates": len(CANDIDATES),
        "data": " ".join(TABLES),
    },
    quick={"runs": 1, "rows": 700, "units": 8, "epochs": 3, "fine_epochs": 2, "candidates": 1, "data": "load"},
    cells=cells,
    run=run,
    summarize=summarize,
)
