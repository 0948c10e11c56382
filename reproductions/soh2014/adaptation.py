"""Rebase against rebuild, and starts that are ten times off, on Mackey-Glass, Lorenz, laser and NARMA-10.

One stream of 20 000 rows (laser: all of its 10 092), every row predicted, scored and then learned. RMSE is against the
noise-free next value, NLPD against the observation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import streamgp as sg
from reproductions.data import laser
from reproductions.framework import Cell, Expected, Experiment, Row, Settings, Table, Value
from streamgp.evaluate.metrics import nlpd

LASER_ROWS = 10_092
# Series, depth, and the lengthscale and temporal lengthscale that a coarse grid found best without adaptation.
SERIES: dict[str, tuple[Callable[..., sg.data.Series], int, float, float]] = {
    "mackey-glass": (sg.data.mackey_glass, 20, 5.0, 1.01),
    "lorenz": (sg.data.lorenz, 20, 1.0, 3.0),
    "laser": (laser, 10, 1.0, 1.2),
    "narma-10": (sg.data.narma10, 20, 5.0, 1.2),
}
START = {"ten times too long": 10.0, "ten times too short": 0.1}  # factor of the lengthscale
ADAPT = {"fixed": None, "rebuild": sg.SNGD(on_move="rebuild")}  # the others rebase
CASES = ("fixed", "rebase", "rebuild", "ten times too long", "ten times too short")


def cells(settings: Settings, rows: list[Row]) -> list[Cell]:
    return [
        {"rows": settings["steps"], "seed": settings["seed"], "series": series, "case": case}
        for series in SERIES
        for case in CASES
    ]


def run(cell: Cell) -> dict[str, Any]:
    make, depth, lengthscale, temporal = SERIES[cell["series"]]
    rows = min(cell["rows"], LASER_ROWS) if cell["series"] == "laser" else cell["rows"]
    series = make(rows, seed=cell["seed"])
    scales = np.full(series.X.shape[1], lengthscale * START.get(cell["case"], 1.0))
    adapt = ADAPT.get(cell["case"], sg.SNGD())
    model = sg.OIESGP(depth, lengthscale=scales, temporal_lengthscale=temporal, capacity=100, noise=0.0025, adapt=adapt)
    p = model.track(series.X, series.Y)
    squared = np.mean(((p.mean - series.truth) ** 2).reshape(len(series.X), -1), axis=1)
    found = {
        "rmse": float(np.sqrt(squared.mean())),
        "rmse_last_fifth": float(np.sqrt(squared[int(0.8 * len(squared)) :].mean())),
        "nlpd": nlpd(series.Y, p),
        "basis": model.size,
        "hyperparameters": {name: np.round(value, 4).tolist() for name, value in model.hyperparameters.items()},
        "reduced_steps": model.health.reduced_steps,
    }
    noise = p.noise.reshape(len(squared), -1)[:, 0]
    moves = np.flatnonzero(np.diff(noise))  # the move is made after this row was learned
    moves = moves[(moves >= 49) & (moves + 50 < len(squared))]
    if len(moves):
        ratios = [squared[t + 1 : t + 51].mean() / squared[t - 49 : t + 1].mean() for t in moves]
        found["after_over_before"] = float(np.median(ratios))
    return found


def summarize(rows: list[Row], expected: Expected) -> Table:
    lines: list[list[str | Value]] = []
    for row in rows:
        name = f"{row['series']}, {row['case']}"
        ratio = row.get("after_over_before")
        lines.append(
            [
                name,
                Value(f"{name} RMSE", row["rmse"]),
                Value(f"{name} RMSE of the last fifth", row["rmse_last_fifth"]),
                Value(f"{name} NLPD", row["nlpd"], digits=3),
                Value(f"{name} after/before", ratio, digits=2) if ratio is not None else "-",
            ]
        )
    notes = ["after/before: median, over the moves, of the squared error of the 50 rows after over the 50 before."]
    return Table(["series", "RMSE", "RMSE, last fifth", "NLPD", "after/before"], lines, notes)


EXPERIMENT = Experiment(
    title="Rebase against rebuild, and starts that are ten times off",
    full={"steps": 20_000, "seed": 1},
    quick={"steps": 1000},
    cells=cells,
    run=run,
    summarize=summarize,
)
