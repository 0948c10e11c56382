"""Fig. 1: the largest error of random features as an approximation of the kernel, against their number.

The inputs are those of Cross 2D, the lengthscale is 0.3; the error is the largest over all pairs of inputs.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import streamgp as sg
from reproductions.framework import Cell, Expected, Experiment, Row, Settings, Table, Value

FEATURES = (10, 30, 100, 300, 1000, 3000)
LENGTHSCALE = 0.3


def cells(settings: Settings, rows: list[Row]) -> list[Cell]:
    return [
        {"features": D, "run": run, "steps": settings["steps"]}
        for run in range(settings["runs"])
        for D in FEATURES
        if settings["most_features"] >= D
    ]


def run(cell: Cell) -> dict[str, float]:
    """The largest |k - <phi, phi>| over all pairs of inputs, for one draw of the frequencies."""
    X = sg.data.cross(cell["steps"], seed=0).X
    angles = X @ sg.Fourier(cell["features"], lengthscale=LENGTHSCALE, seed=cell["run"]).frequencies(X.shape[1], 1).T
    Phi = np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(cell["features"])  # Eq. (6) with variance 1
    return {"error": float(np.max(np.abs(sg.SquaredExponential(LENGTHSCALE)(X) - Phi @ Phi.T)))}


def errors(rows: list[Row]) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for row in rows:
        found.setdefault(row["features"], []).append(row["error"])
    return dict(sorted(found.items()))


def slope(found: dict[int, list[float]]) -> float:
    """Of the logarithm of the mean error by the logarithm of D."""
    return float(np.polyfit(np.log(list(found)), np.log([np.mean(values) for values in found.values()]), 1)[0])


def summarize(rows: list[Row], expected: Expected) -> Table:
    found = errors(rows)
    lines: list[list[str | Value]] = [
        [str(D), Value(f"error {D}", float(np.mean(values)), float(np.std(values)))] for D, values in found.items()
    ]
    if found:
        lines.append(["slope", Value("slope", slope(found), None, expected.get("slope"), digits=2)])
    notes = ["In brackets the standard deviation over draws. The paper promises an error in O(1/sqrt(D)): slope -0.5."]
    return Table(["D", "largest error of the kernel"], lines, notes)


def plot(rows: list[Row], path: Path) -> None:
    import matplotlib.pyplot as plt

    found = errors(rows)
    D = np.array(list(found))
    mean = np.array([np.mean(values) for values in found.values()])
    figure, axis = plt.subplots(figsize=(5, 3.6), layout="constrained")
    axis.errorbar(D, mean, [np.std(values) for values in found.values()], fmt="o-", capsize=3, label="largest error")
    axis.plot(D, mean[0] * np.sqrt(D[0] / D), "k:", label="1 / sqrt(D)")
    axis.set(xlabel="features D", ylabel="largest error of the kernel", xscale="log", yscale="log", ylim=(0.01, 1))
    axis.legend()
    figure.savefig(path, dpi=110)
    plt.close(figure)


EXPERIMENT = Experiment(
    title="Fig. 1: random features as an approximation of the kernel",
    full={"runs": 10, "steps": 300, "most_features": 3000},
    quick={"runs": 3, "steps": 100, "most_features": 1000},
    cells=cells,
    run=run,
    summarize=summarize,
    plot=plot,
)
