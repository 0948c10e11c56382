"""Fig. 2: test error of SSGPR on the Cross data against the number of features, frequencies fixed or tuned.

500 noisy training rows, the noise-free grid as test set, hyperparameters by evidence maximization, 25 draws.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import streamgp as sg
from reproductions.framework import Cell, Expected, Experiment, Row, Settings, Table, Value
from streamgp.batch import SSGPR, FullGP
from streamgp.evaluate.metrics import nmse

DIMENSIONS = (2, 10, 20)
KINDS = ((25, "fixed"), (50, "fixed"), (100, "fixed"), (200, "fixed"), (25, "tuned"), (0, "GPR"))


def cells(settings: Settings, rows: list[Row]) -> list[Cell]:
    return [
        {"dimensions": dimensions, "features": features, "frequencies": frequencies, "draw": draw}
        for draw in range(settings["runs"])
        for features, frequencies in KINDS
        if features <= settings["most_features"]
        for dimensions in DIMENSIONS
        if dimensions <= settings["most_dimensions"]
    ]


def run(cell: Cell) -> dict[str, float]:
    """Fit one draw, score it on the grid."""
    dimensions, draw = cell["dimensions"], cell["draw"]
    data = sg.data.cross(500, dimensions=dimensions, seed=draw)
    test = sg.data.cross_grid(dimensions=dimensions, seed=draw)
    lengthscale, variance = np.full(dimensions, 0.5 * np.sqrt(dimensions / 2)), float(np.var(data.Y))
    model: FullGP | SSGPR
    if cell["frequencies"] == "GPR":
        model = FullGP(sg.SquaredExponential(lengthscale, variance=variance), noise=0.01)
    else:
        tuned = cell["frequencies"] == "tuned"
        model = SSGPR(
            cell["features"], lengthscale=lengthscale, variance=variance, noise=0.01, seed=draw, tune_frequencies=tuned
        )
    model.fit(data.X, data.Y, sg.Evidence(restarts=0, iterations=200))
    return {
        "nmse": nmse(test.truth, model.predict(test.X).mean),
        "train_nmse": nmse(data.Y, model.predict(data.X).mean),
        "evidence": model.log_marginal_likelihood(),
    }


def medians(rows: list[Row]) -> dict[tuple[int, int, str], tuple[float, float, int]]:
    """Median test and training error of every kind, and from how many draws."""
    kinds: dict[tuple[int, int, str], list[tuple[float, float]]] = {}
    for row in rows:
        kinds.setdefault((row["dimensions"], row["features"], row["frequencies"]), []).append(
            (row["nmse"], row["train_nmse"])
        )
    return {key: (*np.median(np.array(found), axis=0).tolist(), len(found)) for key, found in kinds.items()}


def summarize(rows: list[Row], expected: Expected) -> Table:
    lines: list[list[str | Value]] = []
    for (dimensions, features, frequencies), (test, train, count) in sorted(medians(rows).items()):
        name = f"cross{dimensions}-{frequencies}-{features}"
        paper = expected.get(name)
        lines.append(
            [
                f"{dimensions}D",
                str(features or "all rows"),
                frequencies,
                Value(name, test, None, paper),
                Value(f"{name} training", train),
                str(count),
            ]
        )
    return Table(["Cross", "features", "frequencies", "median nMSE", "on training rows", "draws"], lines)


def plot(rows: list[Row], path: Path) -> None:
    import matplotlib.pyplot as plt

    found = medians(rows)
    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    for dimensions, colour in zip(DIMENSIONS, ("tab:blue", "tab:orange", "tab:green"), strict=True):
        counts = [f for f, kind in KINDS if kind == "fixed" and (dimensions, f, kind) in found]
        errors = [found[dimensions, f, "fixed"][0] for f in counts]
        axis.plot(counts, errors, "o-", color=colour, label=f"{dimensions}D, fixed")
        if (dimensions, 25, "tuned") in found:
            axis.plot(25, found[dimensions, 25, "tuned"][0], "x", color=colour, label=f"{dimensions}D, tuned")
        if (dimensions, 0, "GPR") in found:
            axis.axhline(found[dimensions, 0, "GPR"][0], color=colour, ls=":", label=f"{dimensions}D, GPR")
    axis.set(xlabel="frequencies", ylabel="median nMSE", xscale="log", yscale="log")
    axis.legend(fontsize=7, ncols=3)
    figure.savefig(path, dpi=110)
    plt.close(figure)


EXPERIMENT = Experiment(
    title="Fig. 2: SSGPR on the Cross data against the number of features",
    full={"runs": 25, "most_features": 200, "most_dimensions": 20},
    quick={"runs": 1, "most_features": 50, "most_dimensions": 2},
    cells=cells,
    run=run,
    summarize=summarize,
    plot=plot,
)
