"""Table 3 with the split and the recipe of the paper's public example, at its width and at those of Table 5.

The example trains on the rows up to 45%, validates on those up to 55% and scores the rest. Each part begins anew: a
window that reaches before its first row has zeros there, in standard units. Every window has one more row at its end,
of zeros. An embedding of one number, dropout 0.1, Adam at 0.01 with batches of 128; of the process a squared
exponential with lengthscale exp(-0.7), variance 1 and noise of standard deviation exp(-2) to start from, five steps on
them at the start of each epoch. Training stops after 10 epochs without a better validation error, and the best epoch
counts; at the end the hyperparameters alone are tuned for 100 iterations, on the training part.

The example has 16 units and is for Actuator with past targets alone; lags of 32 rows without them, ReLU of NARX and the
other width are the paper's. Differences: hyperparameters move by Adam, not conjugate gradients, and validation sees the
process at the weights of the epoch's end, not of its start.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from reproductions.data import load
from reproductions.framework import Cell, Expected, Experiment, Row, Settings, Table, Value
from streamgp import deep
from streamgp.evaluate.metrics import rmse

from .sysid import DATA, LAGS
from .table3_shuffled import errors_of
from .units import UNITS, Errors, fits, lines

MODELS = ("NARX", "LSTM", "GP-NARX", "GP-LSTM")
MODES = ("regression", "autoregression")
WIDTHS = {"Drives": 128, "Actuator": 256}  # of NARX and LSTM, Table 5
EXAMPLE = 16
TRAIN, VALIDATE = 45, 55  # percent of the rows, where each part ends


class ZeroRow(nn.Module):
    """A network over windows with one more row, of zeros, at their end."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, X: Tensor) -> Tensor:
        result: Tensor = self.network(nn.functional.pad(X, (0, 0, 0, 1)))
        return result


def cells(settings: Settings, rows: list[Row]) -> list[Cell]:
    return [
        {
            "data": data,
            "mode": mode,
            "model": model,
            "units": units,
            "epochs": settings["epochs"],
            "seed": settings["seed"] + number,
        }
        for number in range(settings["runs"])
        for wide in range(settings["widths"])
        for data in settings["data"].split()
        for mode in settings["modes"].split()
        for model in MODELS
        for units in [WIDTHS[data] if wide else EXAMPLE]
    ]


def run(cell: Cell) -> dict[str, Any]:
    table = load(DATA[cell["data"]])
    U, Y = table.X, table.Y
    train, tested = (len(Y) * percent // 100 for percent in (TRAIN, VALIDATE))
    stopped = build(cell, cell["epochs"]).fit(U[:tested], Y[:tested], starts=[0, train], validation=train)
    best = min(stopped.history, key=lambda epoch: epoch.rmse)
    # The same weights, batches and dropout up to the best epoch; the process then has the training part alone.
    model = build(cell, best.epoch + 1).fit(U[:train], Y[:train])
    spread = float(np.std(Y[:train]))
    found: dict[str, Any] = {
        "validation": best.rmse,
        "best_epoch": best.epoch,
        "stopped_epoch": len(stopped.history),
        "rmse": rmse(Y[tested + 1 :], model.predict(U[tested:], Y[tested:]).mean[1:]) / spread,
        "spread": spread,
    }
    if isinstance(model, deep.DeepKernelGP):
        found["noise"] = model.hyperparameters["noise"]
    return found


def build(cell: Cell, epochs: int) -> deep.model.DeepModel:
    """A model that has learned nothing."""
    depth, units, mode = LAGS[cell["mode"]], cell["units"], cell["mode"]
    process = cell["model"].startswith("GP-")
    embedding = 1 if process else None  # a network's linear output is one number, too
    encoder: deep.NARX | deep.LSTM
    if cell["model"].endswith("NARX"):
        encoder = deep.NARX(units, dropout=0.1, embedding=embedding)
    else:
        encoder = deep.LSTM(units, dropout=0.1, recurrent_dropout=0.0, embedding=embedding)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(cell["seed"])
        network = ZeroRow(encoder.build(1 if mode == "regression" else 2, depth + 1))
    training = deep.Training(
        epochs=epochs,
        batch=128,
        refresh=1.0,
        kernel_steps=5,
        rate=0.01,
        kernel_rate=0.05,
        validation=0.0,
        patience=10,
        finetune=100,
    )
    common: dict[str, Any] = {
        "depth": depth,
        "mode": mode,
        "padding": True,
        "training": training,
        "device": "cpu",
        "seed": cell["seed"],
    }
    if not process:
        return deep.Network(network, **common)
    start = {"lengthscale": math.exp(-0.7), "variance": 1.0, "noise": math.exp(-4.0)}
    return deep.DeepKernelGP(network, inference="exact", **start, **common)


def summarize(rows: list[Row], expected: Expected) -> Table:
    columns = [(data, mode) for data in DATA for mode in MODES]
    spreads = {(row["data"], row["seed"]): row["spread"] for row in rows}
    table: list[list[str | Value]] = []
    notes = ["Mean (standard deviation) over the runs [the paper's]."]
    for name, suffix, same in (
        (f"With {EXAMPLE} units", "", [row for row in rows if row["units"] == EXAMPLE]),
        ("With the units of Table 5", " of Table 5", [row for row in rows if row["units"] != EXAMPLE]),
    ):
        found = errors_of(same)
        table += lines(found, spreads, columns, MODELS, expected, UNITS[0], suffix)
        notes += fits(found, spreads, expected, name) + _orders(found, name) + _epochs(same)
    return Table(["model", *(f"{data}, {mode}" for data, mode in columns)], table, notes)


def _orders(found: Errors, name: str) -> list[str]:
    """In how many columns the process is below its network, on average over the seeds that both have."""
    said = []
    for network in ("NARX", "LSTM"):
        both = []
        for (data, mode, model), errors in found.items():
            other = found.get((data, mode, network), {})
            if model == f"GP-{network}" and (seeds := errors.keys() & other.keys()):
                both.append(float(np.mean([errors[seed] - other[seed] for seed in seeds])))
        if both:
            said.append(f"GP-{network} is below {network} in {sum(gap < 0 for gap in both)} of {len(both)} columns")
    return [f"{name} {' and '.join(said)}."] * bool(said)


def _epochs(rows: list[Row]) -> list[str]:
    """When training was best, by model."""
    said = []
    for model in MODELS:
        best = [row["best_epoch"] + 1 for row in rows if row["model"] == model]
        if best:
            said.append(f"{model} {np.median(best):.0f} ({min(best)} to {max(best)})")
    return [f"Best epoch, median (least to most): {', '.join(said)}."] * bool(said)


def plot(rows: list[Row], path: Path) -> None:
    """The error of every run."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(13, 3.5), layout="constrained")
    for axis, (data, mode) in zip(axes, ((data, mode) for data in DATA for mode in MODES), strict=True):
        for wide, name in enumerate((f"{EXAMPLE} units", "units of Table 5")):
            same = [row for row in rows if (row["units"] != EXAMPLE) == bool(wide)]
            found = errors_of(same)
            for i, model in enumerate(MODELS):
                errors = list(found.get((data, mode, model), {}).values())
                label = name if i == 0 else None
                axis.plot(np.full(len(errors), i + 0.2 * wide), errors, "os"[wide], color=f"C{wide}", label=label)
        axis.set_xticks(np.arange(len(MODELS)) + 0.1, MODELS)
        axis.set(title=f"{data}, {mode}", ylabel="RMSE, standard deviations", ylim=(0, None))
    axes[0].legend(frameon=False)
    figure.savefig(path, dpi=90)
    plt.close(figure)


EXPERIMENT = Experiment(
    title="Table 3 with the split and the recipe of the public example",
    full={"runs": 3, "seed": 0, "epochs": 100, "widths": 2, "data": " ".join(DATA), "modes": " ".join(MODES)},
    quick={"runs": 1, "epochs": 4, "widths": 1, "data": "Drives", "modes": "autoregression"},
    cells=cells,
    run=run,
    summarize=summarize,
    plot=plot,
)
