"""Fig. 1: what three algorithms take their own uncertainty to be, after 3, 8 and 25 points.

GP regression, KLMS of type I (beta = 0: a fixed covariance) and of type II (beta = 1). The paper does not give its
points or kernel; here they are a draw from the prior, k(x, z) = exp(-(x - z)^2 / 2), noise 0.01, x uniform in [-5, 5].
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import streamgp as sg
from reproductions.framework import Cell, Expected, Experiment, Row, Settings, Table, Value
from streamgp.batch import FullGP
from streamgp.filters import BetaKLMS

KERNEL = sg.SquaredExponential(1.0, variance=1.0)
NOISE = 0.01
POINTS = (3, 8, 25)
GRID = np.linspace(-5.0, 5.0, 101)


def cells(settings: Settings, rows: list[Row]) -> list[Cell]:
    return [{"points": points, "seed": settings["seed"]} for points in POINTS]


def run(cell: Cell) -> dict[str, list[float]]:
    """Learn the first points of the draw; standard deviations of an observation along the grid."""
    rng = np.random.default_rng(cell["seed"])
    x = rng.uniform(-5.0, 5.0, max(POINTS))
    factor = np.linalg.cholesky(KERNEL(x[:, None]) + NOISE * np.eye(x.size))
    y = factor @ rng.standard_normal(x.size)
    x, y = x[: cell["points"]], y[: cell["points"]]
    exact = FullGP(KERNEL, noise=NOISE).fit(x, y).predict(GRID)
    found = {"x": x, "y": y, "mean": exact.mean, "GP": exact.std}
    for beta in (0.0, 1.0):
        model = BetaKLMS(KERNEL, beta=beta, noise=NOISE, capacity=max(POINTS))
        model.learn_many(x, y)
        found[f"beta={beta:g}"] = np.sqrt([model.implied_variance(point) + NOISE for point in GRID])
    return {name: np.round(values, 5).tolist() for name, values in found.items()}


def summarize(rows: list[Row], expected: Expected) -> Table:
    lines: list[list[str | Value]] = []
    for row in rows:
        line: list[str | Value] = [str(row["points"])]
        for name in ("GP", "beta=0", "beta=1"):
            for what, of in (("least", min), ("largest", max)):
                key = f"{row['points']} points {name} {what}"
                line.append(Value(key, of(row[name]), None, expected.get(key), better="neither", digits=3))
        lines.append(line)
    heads = [f"{name}, {what}" for name in ("GP", "type I", "type II") for what in ("least", "largest")]
    notes = [
        "Standard deviation of an observation along the axis; the prior's is 1.005. As in the paper, the GP's shrinks "
        "around the data, type I's stays the prior's and type II's grows where data are."
    ]
    return Table(["points", *heads], lines, notes)


def plot(rows: list[Row], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(len(rows), 1, figsize=(7, 2.6 * len(rows)), sharex=True, layout="constrained")
    for axis, row in zip(np.atleast_1d(axes), rows, strict=True):
        mean, std = np.array(row["mean"]), np.array(row["GP"])
        axis.fill_between(GRID, mean - 2 * std, mean + 2 * std, color="0.85", label="GP")
        axis.plot(GRID, mean, color="k", lw=1.2)
        for name, style, label in (("beta=0", "--", "type I (beta = 0)"), ("beta=1", "-.", "type II (beta = 1)")):
            for sign in (-1.0, 1.0):
                edge = mean + sign * 2.0 * np.array(row[name])
                axis.plot(GRID, edge, style, color="tab:red", lw=1.0, label=label if sign > 0 else None)
        axis.plot(row["x"], row["y"], "x", color="tab:blue", ms=7)
        axis.set(title=f"{row['points']} points", xlim=(-5, 5))
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=90)
    plt.close(figure)


EXPERIMENT = Experiment(
    title="Fig. 1: the predictive variances of GP regression and of KLMS",
    full={"seed": 0},
    quick={},
    cells=cells,
    run=run,
    summarize=summarize,
    plot=plot,
)
