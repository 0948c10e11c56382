"""Fig. 4: GP-LSTM on Actuator, semi-stochastic against full-batch training (section 5.2.1).

Autoregression with windows of 10 rows, the first 512 rows learned, the other 512 scored after every epoch and never
used otherwise. Full batch: one step for all rows in an epoch. Semi-stochastic: 16 steps on mini-batches of 32 windows
with the kernel matrix of the epoch's start (Algorithm 2).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from reproductions.data import load
from reproductions.framework import Cell, Expected, Experiment, Row, Settings, Table, Value
from streamgp import deep

METHODS = ("semi-stochastic", "full")
SHOWN = (16, 64)  # units of the first two charts
SIZES = (2, 4, 8, 16, 32, 64)  # of the third


def cells(settings: Settings, rows: list[Row]) -> list[Cell]:
    sizes = [
        size for size in (*SHOWN, *(size for size in SIZES if size not in SHOWN)) if size <= settings["most_units"]
    ]
    return [
        {"units": size, "method": method, "epochs": settings["epochs"], "seed": seed}
        for size in sizes
        for seed in range(settings["runs"])
        for method in METHODS
    ]


def run(cell: Cell) -> dict[str, Any]:
    table = load("actuator")
    assert table.split is not None
    training = deep.Training(
        cell["method"], epochs=cell["epochs"], batch=32, refresh=1.0, kernel_rate=0.05, decay=0.01, patience=None
    )
    model = deep.GPLSTM(
        units=cell["units"], depth=10, training=training, inference="exact", device="cpu", seed=cell["seed"]
    ).fit(table.X, table.Y, validation=table.split)
    return {
        "rmse": [round(epoch.rmse, 5) for epoch in model.history],
        "nlml": [round(epoch.loss, 5) for epoch in model.history],
        "seconds_an_epoch": float(np.median([epoch.seconds for epoch in model.history])),
    }


def courses(rows: list[Row]) -> dict[tuple[int, str], dict[str, np.ndarray]]:
    """Errors and negative log marginal likelihoods, (runs, epochs), by size and method."""
    found: dict[tuple[int, str], dict[str, list[Any]]] = {}
    for row in rows:
        entry = found.setdefault((row["units"], row["method"]), {"rmse": [], "nlml": [], "seconds_an_epoch": []})
        for name, values in entry.items():
            values.append(row[name])
    return {key: {name: np.array(values) for name, values in entry.items()} for key, entry in found.items()}


def summarize(rows: list[Row], expected: Expected) -> Table:
    found = courses(rows)
    lines: list[list[str | Value]] = []
    for (units, method), entry in sorted(found.items()):
        other = found.get((units, "full"))
        reached = "-"
        if method != "full" and other is not None:  # epochs until the error at which full batch ends
            end = float(np.median(other["rmse"][:, -1]))
            below = np.flatnonzero(np.median(entry["rmse"], axis=0) <= end)
            reached = str(below[0] + 1) if below.size else "never"
        name = f"{units} units, {method}"
        lines.append(
            [
                str(units),
                method,
                Value(f"{name} RMSE", float(np.median(entry["rmse"][:, -1])), _range(entry["rmse"][:, -1])),
                Value(f"{name} NLML", float(np.median(entry["nlml"][:, -1])), _range(entry["nlml"][:, -1])),
                reached,
                f"{1000 * float(np.median(entry['seconds_an_epoch'])):.0f} ms",
            ]
        )
    count = max((len(entry["rmse"]) for entry in found.values()), default=0)
    notes = [f"Median (interquartile range) over {count} runs after the last epoch; NLML is of each row."]
    header = ["units", "training", "test RMSE", "NLML", "epochs to where full batch ends", "an epoch takes"]
    return Table(header, lines, notes if found else [])


def _range(values: np.ndarray) -> float | None:
    low, high = np.percentile(values, [25, 75])
    return float(high - low) if len(values) > 1 else None


def plot(rows: list[Row], path: Path) -> None:
    import matplotlib.pyplot as plt

    found = courses(rows)
    figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    colours = dict(zip(SHOWN, ("tab:blue", "tab:orange"), strict=True))
    styles = {"semi-stochastic": "-", "full": "--"}
    for (units, method), entry in sorted(found.items()):
        if units in SHOWN:
            for axis, name in zip(axes, ("rmse", "nlml"), strict=False):
                middle = np.median(entry[name], axis=0)
                label = f"{method}, {units}"
                axis.plot(1 + np.arange(len(middle)), middle, styles[method], color=colours[units], label=label)
    for method in METHODS:
        sizes = sorted(units for units, name in found if name == method)
        ends = [np.median(found[units, method]["rmse"][:, -1]) for units in sizes]
        axes[2].plot(sizes, ends, "o" + styles[method], color="k", label=method)
    axes[0].set(xlabel="epoch", ylabel="test RMSE", yscale="log")
    axes[1].set(xlabel="epoch", ylabel="NLML of each row")
    axes[2].set(xlabel="units", ylabel="test RMSE after the last epoch", xscale="log", yscale="log")
    for axis in axes:
        axis.legend(frameon=False)
    figure.savefig(path, dpi=100)
    plt.close(figure)


EXPERIMENT = Experiment(
    title="Fig. 4: semi-stochastic against full-batch training of GP-LSTM on Actuator",
    full={"runs": 5, "epochs": 100, "most_units": 64},
    quick={"runs": 1, "epochs": 5, "most_units": 16},
    cells=cells,
    run=run,
    summarize=summarize,
    plot=plot,
)
