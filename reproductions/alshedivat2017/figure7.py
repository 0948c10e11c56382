"""Fig. 7: how the time of an epoch and of a prediction grow with the rows learned and with the grid (section 5.2.4).

GP-LSTM with an embedding of two numbers on the load of GEFCom2012, in place of the car's data, which are not public.
An epoch is one pass of mini-batches through the network and one renewal of the kernel matrix. A prediction is timed on
4000 test hours, network included. Times are of the processor. Rates are so small that the kernel stays as it is:
shorter lengthscales would need more directions of the grid, whatever the number of rows.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from reproductions.framework import Cell, Expected, Experiment, Row, Settings, Table, Value
from streamgp import deep

from .smartgrid import LAG, joined, split

PARTS = (10, 20, 40, 80)  # percent
GRIDS = (100, 200, 400)
PREDICTED = 4000


def cells(settings: Settings, rows: list[Row]) -> list[Cell]:
    return [
        {"grid": grid, "percent": percent, "units": settings["units"], "epochs": settings["epochs"], "seed": 0}
        for grid in GRIDS
        for percent in PARTS
        if grid <= settings["most_grid"] and percent <= settings["most_percent"]
    ]


def run(cell: Cell) -> dict[str, Any]:
    data = split("load")
    series = joined([data.learned, data.test])
    rows = int(len(series.Y) * cell["percent"] / 100)
    training = deep.Training(epochs=cell["epochs"], batch=256, refresh=1.0, rate=1e-6, kernel_rate=1e-6, validation=0.0)
    encoder = deep.LSTM(cell["units"], dropout=0.0, recurrent_dropout=0.0, embedding=2)
    moments: list[float] = []
    model = deep.DeepKernelGP(
        encoder, depth=LAG, inference="interpolated", grid=cell["grid"], training=training, seed=cell["seed"]
    ).fit(
        series.U[:rows],
        series.Y[:rows],
        series.starts[series.starts < rows],
        on_epoch=lambda _: moments.append(time.process_time()),
    )
    ahead = series.U[-PREDICTED:], series.Y[-PREDICTED:]
    model.predict(*ahead)
    taken = []
    for _ in range(5):
        began = time.process_time()
        model.predict(*ahead)
        taken.append(time.process_time() - began)
    return {
        "rows": rows,
        "epoch_seconds": float(np.median(np.diff(moments))),
        "prediction_microseconds": 1e6 * float(np.median(taken)) / PREDICTED,
        "device": str(model._device),
    }


def summarize(rows: list[Row], expected: Expected) -> Table:
    lines: list[list[str | Value]] = []
    for row in sorted(rows, key=lambda row: (row["grid"], row["percent"])):
        name = f"grid {row['grid']}, {row['percent']}%"
        lines.append(
            [
                str(row["grid"]),
                f"{row['percent']}%",
                Value(f"{name} rows", row["rows"], better="neither", digits=0),
                Value(f"{name} epoch", row["epoch_seconds"], better="neither", digits=3),
                Value(f"{name} prediction", row["prediction_microseconds"], better="neither", digits=1),
            ]
        )
    notes = [] if not rows else [_growth(rows)]
    header = ["points along each axis", "of the data", "rows", "epoch (s)", "prediction (microseconds a row)"]
    return Table(header, lines, notes)


def _growth(rows: list[Row]) -> str:
    """The power of n by which an epoch grows, and the range of the times of predictions, over all grids."""
    powers, ranges = [], []
    for grid in sorted({row["grid"] for row in rows}):
        chosen = sorted(
            (row["rows"], row["epoch_seconds"], row["prediction_microseconds"]) for row in rows if row["grid"] == grid
        )
        if len(chosen) > 1:
            n, epoch, prediction = np.array(chosen).T
            powers.append(float(np.polyfit(np.log(n), np.log(epoch), 1)[0]))
            ranges.append(float(prediction.max() / prediction.min()))
    if not powers:
        return f"On {rows[0]['device']}."
    said = ", ".join(f"{power:.2f}" for power in powers)
    return (
        f"On {rows[0]['device']}. The time of an epoch grows as n to the power {said} (one for each grid); the slowest "
        f"prediction takes {max(ranges):.2f} times the fastest, whatever the part of the data."
    )


def plot(rows: list[Row], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for grid in sorted({row["grid"] for row in rows}):
        chosen = sorted(
            (row["rows"], row["epoch_seconds"], row["prediction_microseconds"]) for row in rows if row["grid"] == grid
        )
        n, epoch, prediction = np.array(chosen).T
        axes[0].plot(n, epoch, "o-", label=f"{grid} points along each axis")
        axes[1].plot(n, prediction, "o-", label=f"{grid} points along each axis")
    axes[0].set(xlabel="rows learned", ylabel="seconds an epoch", ylim=(0, None))
    axes[1].set(xlabel="rows learned", ylabel="microseconds a prediction", ylim=(0, None))
    axes[0].legend(frameon=False)
    figure.savefig(path, dpi=100)
    plt.close(figure)


EXPERIMENT = Experiment(
    title="Fig. 7: time of an epoch and of a prediction against rows and grid",
    full={"units": 16, "epochs": 3, "most_grid": 200, "most_percent": 80},
    quick={"units": 4, "epochs": 2, "most_grid": 100, "most_percent": 10},
    cells=cells,
    run=run,
    summarize=summarize,
    plot=plot,
)
