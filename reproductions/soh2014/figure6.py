"""Fig. 6: processor time of each row while hyperparameters adapt, on the stream of Fig. 4.

Every row is predicted and learned by a call of its own. The same rows are run several times and the fastest time of
each counts, so that what else the machine did does not. Interval and step sizes are those of section V: 25 rows, 1 / j.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

import streamgp as sg
from reproductions.framework import Cell, Expected, Experiment, Row, Settings, Table, Value

INTERVAL = 25
ADAPT = {
    "fixed": None,
    "rebase": sg.SNGD(INTERVAL, decay=1.0),
    "rebuild": sg.SNGD(INTERVAL, decay=1.0, on_move="rebuild"),
}
BLOCK = 100  # rows that share a point of the plot
CLOSE_UP = slice(2000, 2200)  # rows shown one by one


def cells(settings: Settings, rows: list[Row]) -> list[Cell]:
    names = ("steps", "seed", "repeats")
    return [{"adapt": name} | {key: settings[key] for key in names} for name in ADAPT]


def run(cell: Cell) -> dict[str, Any]:
    """Microseconds of every row, and until which row the hyperparameters moved."""
    series = sg.data.narma10(cell["steps"], seed=cell["seed"], noise_std=0.1, irrelevant=2)
    fastest = np.full(cell["steps"], np.inf)
    for _ in range(cell["repeats"]):
        model = sg.OIESGP(
            20,
            lengthscale=[10.0, 10.0, 10.0],
            temporal_lengthscale=1.01,
            variance=1.0,
            capacity=100,
            noise=0.0228,
            adapt=ADAPT[cell["adapt"]],
        )
        last_move, noise = 0, 0.0228
        for t, (x, y) in enumerate(zip(series.X, series.Y, strict=True)):
            start = time.process_time_ns()
            model.predict_one(x)
            model.learn_one(x, y)
            fastest[t] = min(fastest[t], (time.process_time_ns() - start) / 1e3)
            if t % BLOCK == BLOCK - 1 and model.hyperparameters["noise"] != noise:
                last_move, noise = t + 1, float(model.hyperparameters["noise"])
    blocks = fastest[: cell["steps"] // BLOCK * BLOCK].reshape(-1, BLOCK)
    return {
        "last_move": last_move,
        "median": np.round(np.median(blocks, axis=1), 1).tolist(),
        "slowest": np.round(np.max(blocks, axis=1), 1).tolist(),
        "close_up": np.round(fastest[CLOSE_UP], 1).tolist(),
    }


def summarize(rows: list[Row], expected: Expected) -> Table:
    lines: list[list[str | Value]] = []
    for row in rows:
        name, median, slowest = row["adapt"], np.array(row["median"]), np.array(row["slowest"])
        moving = np.arange(1, len(median) + 1) * BLOCK <= (row["last_move"] or row["steps"])
        line: list[str | Value] = [name]
        for part, when in ((moving, "adapting"), (~moving, "after")):
            for values, what in ((median, "median"), (slowest, "slowest")):
                key = f"{name} {when} {what}"
                line.append(Value(key, float(np.median(values[part])), digits=0) if part.any() else "-")
        line.append(Value(f"{name} last move", row["last_move"], None, expected.get(f"{name} last move"), "neither", 0))
        lines.append(line)
    header = ["hyperparameters", "microseconds while adapting", "slowest of 100 rows", "after the last move"]
    notes = [
        "The paper: a spike at the end of each interval while the hyperparameters adapt, until about row 5 000, then",
        "the time of fixed ones.",
    ]
    return Table([*header, "slowest of 100 rows", "last move at row"], lines, notes)


def plot(rows: list[Row], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained", sharey=True)
    for row, colour in zip(rows, ("k", "tab:blue", "tab:orange"), strict=True):
        at = BLOCK * np.arange(1, len(row["median"]) + 1)
        axes[0].plot(at, row["median"], color=colour, label=row["adapt"])
        axes[0].plot(at, row["slowest"], color=colour, lw=0.6, alpha=0.6)
        close_up = row["close_up"]
        axes[1].plot(CLOSE_UP.start + np.arange(len(close_up)), close_up, color=colour, lw=0.9)
    axes[0].set(xlabel="row", ylabel="microseconds of a row", yscale="log", title="median and slowest of 100 rows")
    axes[1].set(xlabel="row", title="single rows")
    axes[0].legend(title="hyperparameters")
    figure.savefig(path, dpi=110)
    plt.close(figure)


EXPERIMENT = Experiment(
    title="Fig. 6: processor time of each row while hyperparameters adapt",
    full={"steps": 14_000, "seed": 0, "repeats": 2},
    quick={"steps": 1000, "repeats": 1},
    cells=cells,
    run=run,
    summarize=summarize,
    plot=plot,
)
