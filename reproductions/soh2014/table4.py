"""Table IV, a stand-in: what a driver does, from what the car does; five-fold cross-validation over parts of records.

The paper's record of a wheelchair is not public. Here: the steering angle of a car from torque and speed, the five
parts of one record at 10 Hz being the folds, at most 2 000 rows of each; and the speed of another from satellites and
gyroscopes, one minute in five parts. Parts are learned in their order, once; the part left out is predicted without
learning. For each fold the settings are searched on the longest of its parts: the first 80% learned, the others
predicted. Errors are over the standard deviation of the target. Hyperparameters adapt at the paper's learning rate 1/j.
"""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np

import streamgp as sg
from reproductions.data import load
from reproductions.framework import Cell, Expected, Experiment, Row, Settings, Table, Value
from streamgp.evaluate.metrics import rmse
from streamgp.settings import FloatArray

DATA = {  # the rows that are kept: one in so many
    "driving_udacity/round2": 2,
    "comma2k19_segment/speed": 2,
}
METHODS = ("OESGP", "OIESGP", "LWPR")
FOLDS = 5
DECAY = 1.0  # the paper's learning rate 1/j: with longer steps hyperparameters follow the part that is learned last
Fold = tuple[FloatArray, FloatArray]

# The first candidate of each is the paper's.
CANDIDATES: dict[str, list[tuple[Any, ...]]] = {
    "OESGP": list(itertools.product((1.0, 3.0, 10.0), (0.0, 0.8))),
    "OIESGP": list(itertools.product((5.0, 2.0, 10.0), (5, 20))),
    "LWPR": list(itertools.product((0.5, 0.1, 3.0), (5, 1))),
}


def build(method: str, candidate: tuple[Any, ...], inputs: int) -> sg.StreamModel:
    if method == "OESGP":
        lengthscale, retention = candidate
        memory = sg.Reservoir(50, spectral_radius=0.9, retention=retention, connectivity=0.1, input_scale=0.5)
        return sg.OESGP(memory, lengthscale=lengthscale, capacity=100, noise=0.05, adapt=sg.SNGD(decay=DECAY))
    if method == "OIESGP":
        lengthscale, depth = candidate
        return sg.OIESGP(
            depth,
            lengthscale=[lengthscale] * inputs,
            temporal_lengthscale=1.2,
            capacity=100,
            noise=0.05,
            adapt=sg.SNGD(decay=DECAY),
        )
    init_D, depth = candidate
    return sg.LWPR(init_D, init_alpha=1.0, meta=True, depth=depth, capacity=300)


def folds(name: str, most: int) -> list[Fold]:
    """Five parts of a record, every column scaled to mean 0 and variance 1 over all of them."""
    table = load(name)
    X = (table.X - table.X.mean(axis=0)) / table.X.std(axis=0)
    Y = (table.Y - table.Y.mean()) / table.Y.std()
    first = table.starts if len(table.starts) == FOLDS else np.linspace(0, len(X), FOLDS, endpoint=False).astype(int)
    parts = zip(np.split(X, first[1:]), np.split(Y, first[1:]), strict=True)
    return [(x[:: DATA[name]][:most], y[:: DATA[name]][:most]) for x, y in parts]


def cells(settings: Settings, rows: list[Row]) -> list[Cell]:
    names = [name for name in DATA if name.split("/")[1] in settings["data"].split()]
    shared = {name: settings[name] for name in ("steps", "candidates")}
    return [
        {"data": name, "method": method, "fold": fold} | shared
        for name in names
        for method in METHODS
        for fold in range(FOLDS)
    ]


def run(cell: Cell) -> dict[str, Any]:
    """Search the settings on the longest of the other parts, then learn them all and predict the one left out."""
    parts = folds(cell["data"], cell["steps"])
    others = parts[: cell["fold"]] + parts[cell["fold"] + 1 :]
    inputs = others[0][0].shape[1]
    x, y = max(others, key=lambda part: len(part[0]))
    learned = int(0.8 * len(x))
    candidates = CANDIDATES[cell["method"]][: cell["candidates"]]
    errors = []
    for candidate in candidates:
        model = build(cell["method"], candidate, inputs)
        model.learn_many(x[:learned], y[:learned])
        errors.append(rmse(y[learned:], model.track(x[learned:]).mean))
    best = candidates[int(np.argmin(np.nan_to_num(errors, nan=np.inf)))]
    model = build(cell["method"], best, inputs)
    start = time.process_time()
    for x, y in others:
        model.reset_memory()
        model.track(x, y)
    microseconds = 1e6 * (time.process_time() - start) / sum(len(x) for x, _ in others)
    x, y = parts[cell["fold"]]
    model.reset_memory()
    mean = model.track(x).mean
    return {
        "best": list(best),
        "rmse": rmse(y, mean),
        "microseconds": round(microseconds, 1),
        "truth": np.round(y[:600:2], 3).tolist() if cell["fold"] == 1 else [],
        "mean": np.round(mean[:600:2], 3).tolist() if cell["fold"] == 1 else [],
    }


def summarize(rows: list[Row], expected: Expected) -> Table:
    lines: list[list[str | Value]] = []
    for name in dict.fromkeys(row["data"] for row in rows):
        line: list[str | Value] = [name]
        for method in METHODS:
            errors = [row["rmse"] for row in rows if (row["data"], row["method"]) == (name, method)]
            line.append(Value(f"{name} {method}", float(np.mean(errors)), float(np.std(errors))) if errors else "-")
        lines.append(line)
    steering = {
        method: [row["rmse"] for row in rows if (row["data"], row["method"]) == ("driving_udacity/round2", method)]
        for method in METHODS
    }
    if all(steering.values()):
        line = ["steering, over LWPR's"]
        for method, errors in steering.items():
            key = f"{method} over LWPR"
            line.append(Value(key, np.mean(errors) / np.mean(steering["LWPR"]), None, expected.get(key), digits=2))
        lines.append(line)
    line = ["microseconds of a row"]
    for method in METHODS:
        times = [row["microseconds"] for row in rows if row["method"] == method]
        key = f"{method} microseconds"
        line.append(Value(key, float(np.mean(times)), None, expected.get(key), digits=0) if times else "-")
    lines.append(line)
    notes = [
        "RMSE over the standard deviation of the target, mean (standard deviation) over five folds. Beside the ratios",
        "stand those of the paper's Y axis, with which the wheelchair is turned.",
    ]
    return Table(["record", *METHODS], lines, notes)


def plot(rows: list[Row], path: Path) -> None:
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(row["data"] for row in rows))
    figure, axes = plt.subplots(len(names), 1, figsize=(9, 2.3 * len(names)), layout="constrained", squeeze=False)
    for axis, name in zip(axes[:, 0], names, strict=True):
        shown = [row for row in rows if row["data"] == name and row["truth"]]
        for i, row in enumerate(shown):
            if i == 0:
                axis.plot(row["truth"], color="k", lw=2, alpha=0.4, label="measured")
            axis.plot(row["mean"], lw=1, label=row["method"])
        axis.set(title=name, ylabel="standard deviations")
    axes[0][0].legend(ncols=4, frameon=False)
    axes[-1][0].set_xlabel("row of the part left out")
    figure.savefig(path, dpi=110)
    plt.close(figure)


EXPERIMENT = Experiment(
    title="Table IV, a stand-in: what a driver does, from what the car does",
    full={"data": "round2 speed", "steps": 2000, "candidates": 6},
    quick={"data": "speed", "steps": 300, "candidates": 2},
    cells=cells,
    run=run,
    summarize=summarize,
    plot=plot,
)
