"""Fig. 4: online hyperparameters on NARMA-10 with two irrelevant inputs (section V-B).

Start: lengthscales 10, temporal lengthscale 1.01, variance 1, noise 0.0228 where the truth is 0.01. The first 80% of
the rows are learned, the last 20% predicted without learning and scored against the noise-free output.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import streamgp as sg
from reproductions.framework import Cell, Expected, Experiment, Row, Settings, Table, Value
from streamgp.evaluate.metrics import nlpd, rmse

ADAPT = {"fixed": None, "rebase": sg.SNGD(), "rebuild": sg.SNGD(on_move="rebuild")}
POINTS = 64  # of the paths of the hyperparameters are kept


def cells(settings: Settings, rows: list[Row]) -> list[Cell]:
    return [{"rows": settings["steps"], "seed": settings["seed"], "adapt": name} for name in ADAPT]


def run(cell: Cell) -> dict[str, Any]:
    series = sg.data.narma10(cell["rows"], seed=cell["seed"], noise_std=0.1, irrelevant=2)
    adapt = ADAPT[cell["adapt"]]
    model = sg.OIESGP(
        20,
        lengthscale=[10.0, 10.0, 10.0],
        temporal_lengthscale=1.01,
        variance=1.0,
        capacity=100,
        noise=0.0228,
        adapt=adapt,
    )
    learned = int(0.8 * cell["rows"])
    model.learn_many(series.X[:learned], series.Y[:learned])
    p = model.track(series.X[learned:])
    truth = series.truth[learned:]
    found: dict[str, Any] = {"rmse": rmse(truth, p.mean), "log_likelihood": -nlpd(truth, p)}
    found |= {name: np.round(value, 5).tolist() for name, value in model.hyperparameters.items()}
    found["reduced_steps"] = model.health.reduced_steps
    if adapt is not None:
        stride = max(1, len(model.trace["row"]) // POINTS)
        path = {name: np.round(values[::stride], 4).tolist() for name, values in model.trace.items()}
        found["path"] = path
    return found


def summarize(rows: list[Row], expected: Expected) -> Table:
    lines: list[list[str | Value]] = []
    for row in rows:
        name = row["adapt"]
        beside = "adapted" if name in ("rebase", "rebuild") else name
        lines.append(
            [
                name,
                Value(f"{name} RMSE", row["rmse"], None, expected.get(f"{beside} RMSE")),
                Value(
                    f"{name} log-likelihood",
                    row["log_likelihood"],
                    None,
                    expected.get(f"{beside} log-likelihood"),
                    better="higher",
                    digits=3,
                ),
                Value(f"{name} noise", row["noise"], None, expected.get(f"{beside} noise"), better="neither"),
                ", ".join(f"{value:.1f}" for value in row["lengthscale"]),
            ]
        )
    notes = ["The true noise is 0.01; the paper's lengthscales end at 11.2 and above 150 for both irrelevant inputs."]
    return Table(["hyperparameters", "RMSE", "log-likelihood", "noise", "lengthscales"], lines, notes)


def plot(rows: list[Row], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(4, 1, figsize=(9, 10), sharex=True, layout="constrained")
    for row in rows:
        if "path" not in row:
            continue
        name, trace = row["adapt"], {key: np.array(values) for key, values in row["path"].items()}
        style = "-" if name == "rebase" else ":"
        for i, colour in enumerate(("tab:blue", "tab:orange", "tab:green")):
            label = f"input {i + 1}, {name}"
            axes[0].semilogy(trace["row"], trace["lengthscale"][:, i], style, color=colour, label=label)
        axes[1].plot(trace["row"], trace["temporal_lengthscale"], style, color="k", label=name)
        axes[2].semilogy(trace["row"], trace["noise"], style, color="k", label=name)
        axes[3].plot(trace["row"], trace["log_density"], style, color="k", lw=0.8, label=name)
    axes[2].axhline(0.01, color="tab:red", lw=1, label="true noise")
    for axis, title in zip(axes, ("lengthscales", "temporal lengthscale", "noise", "running log density"), strict=True):
        axis.set_title(title)
        axis.legend(ncols=3, frameon=False)
    axes[3].set_xlabel("row")
    figure.savefig(path, dpi=110)
    plt.close(figure)


EXPERIMENT = Experiment(
    title="Fig. 4: online hyperparameters on NARMA-10 with two irrelevant inputs",
    full={"steps": 100_000, "seed": 0},
    quick={"steps": 4000},
    cells=cells,
    run=run,
    summarize=summarize,
    plot=plot,
)
