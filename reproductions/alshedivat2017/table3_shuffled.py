"""Table 3 as it would be with windows drawn at random: half of all windows is learned, the other half scored.

The paper does not say how it divides its series. Neighbors of a window that is scored are learned here, so the errors
say little about what comes next; where they lie beside the paper's says something about the paper. Nothing is chosen;
a quarter of the windows that are learned, also at random, tells which epoch was the best. In free simulation the whole
series is run through once, fed with what was said before, by the model that was trained for autoregression.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from reproductions.data import load
from reproductions.framework import Cell, Expected, Experiment, Row, Settings, Table
from streamgp import deep
from streamgp.evaluate.metrics import rmse
from streamgp.settings import FloatArray

from .sysid import DATA, LAGS, MODES, build, with_past
from .table3 import Task, standing, tabulated

MODELS = ("LSTM", "GP-LSTM")
TRAINED = ("regression", "autoregression")


def cells(settings: Settings, rows: list[Row]) -> list[Cell]:
    return [
        {"data": data, "mode": mode, "model": model, "epochs": settings["epochs"], "seed": settings["seed"] + number}
        for number in range(settings["runs"])
        for data in settings["data"].split()
        for mode in settings["modes"].split()
        for model in MODELS
    ]


def run(cell: Cell) -> dict[str, Any]:
    table = load(DATA[cell["data"]])
    depth = LAGS[cell["mode"]]
    U, Y = with_past(table.X, table.Y, depth)
    learned, scored = (half + depth for half in halves(len(table.Y), cell["seed"]))
    training = deep.Training(
        "alternating", epochs=cell["epochs"], rate=0.003, decay=0.01, kernel_rate=0.05, validation=0.0, patience=None
    )
    settings = {"units": 64, "dropout": 0.1, "depth": depth}
    model = build(cell["model"], cell["mode"], settings, training, cell["seed"])
    model.fit(*windows(U, Y, learned, depth), validation=3 * len(learned) // 4 * (depth + 1))
    best = min(model.history, key=lambda epoch: epoch.rmse)
    spread = float(np.std(Y[learned]))
    means = model.predict(*windows(U, Y, scored, depth)).mean[depth :: depth + 1]
    found = {"validation": best.rmse, "best_epoch": best.epoch, "rmse": rmse(Y[scored], means) / spread}
    if cell["mode"] == "autoregression":
        found["simulated"] = rmse(Y[scored], model.simulate(U, Y, depth).mean[scored]) / spread
    return found


def halves(n: int, seed: int) -> list[np.ndarray]:
    """The rows whose windows are learned, and those whose windows are scored."""
    return np.split(np.random.default_rng(seed).permutation(n), [n // 2])


def windows(U: FloatArray, Y: FloatArray, rows: np.ndarray, depth: int) -> tuple[FloatArray, FloatArray, np.ndarray]:
    """Each row with those before it as a sequence of its own; and where they start."""
    index = (rows[:, None] + np.arange(-depth, 1)).ravel()
    return U[index], Y[index], np.arange(0, len(index), depth + 1)


def errors_of(rows: list[Row]) -> dict[Task, dict[int, float]]:
    """The errors of the runs by task and seed."""
    found: dict[Task, dict[int, float]] = {}
    for row in rows:
        found.setdefault((row["data"], row["mode"], row["model"]), {})[row["seed"]] = row["rmse"]
        if "simulated" in row:
            found.setdefault((row["data"], "simulation", row["model"]), {})[row["seed"]] = row["simulated"]
    return found


def summarize(rows: list[Row], expected: Expected) -> Table:
    found = errors_of(rows)
    columns = [(data, mode) for data in DATA for mode in MODES if any(task[:2] == (data, mode) for task in found)]
    note = f"Mean (standard deviation) over the runs [the paper's]. {standing(found, expected, {})}"
    return tabulated(found, columns, MODELS, expected, [note])


def plot(rows: list[Row], path: Path) -> None:
    """The error of every run."""
    import matplotlib.pyplot as plt

    found = errors_of(rows)
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    for axis, data in zip(axes, DATA, strict=True):
        for j, model in enumerate(MODELS):
            for i, mode in enumerate(MODES):
                errors = list(found.get((data, mode, model), {}).values())
                name = model if i == 0 else None
                axis.plot(np.full(len(errors), i + 0.2 * j), errors, "os"[j], color=f"C{j}", alpha=0.6, label=name)
        axis.set_xticks(np.arange(len(MODES)) + 0.1, MODES)
        axis.set(title=data, ylabel="RMSE", ylim=(0, None))
    axes[0].legend(frameon=False)
    figure.savefig(path, dpi=90)
    plt.close(figure)


EXPERIMENT = Experiment(
    title="Table 3 with windows drawn at random",
    full={"runs": 5, "seed": 0, "epochs": 200, "data": " ".join(DATA), "modes": " ".join(TRAINED)},
    quick={"runs": 1, "epochs": 4, "data": "Drives", "modes": "autoregression"},
    cells=cells,
    run=run,
    summarize=summarize,
    plot=plot,
)
