"""Fig. 7: processor time of a row, learned and predicted, for the methods and series of Tables I and II.

The models have the sizes of the tables and one setting each for all series; the Gaussian processes adapt throughout, as
they do while the tables' runs begin. Rows are learned, then predicted, in one call each: no time of calling is in it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from reproductions.framework import Cell, Expected, Experiment, Row, Settings, Table, Value

from .benchmarks import METHODS, SERIES, build

SETTINGS: dict[str, dict[str, Any]] = {
    "OESGP": {"spectral_radius": 0.9, "input_scale": 0.3, "lengthscale": 1.5},
    "OIESGP": {"depth": 20, "temporal_lengthscale": 1.2, "lengthscale": 1.0},
    "SOGP": {"depth": 10, "lengthscale": 1.5},
    "SOGP-ARD": {"depth": 10, "lengthscale": 1.5},
    "LWPR": {"depth": 10, "init_D": 3.0},
    "KLMS": {"depth": 10, "step": 0.1, "lengthscale": 1.0},
    "NORMA": {"depth": 10, "step": 0.1, "lengthscale": 1.0},
}
WHAT = {"learning": "learned", "predicting": "predicted"}


def cells(settings: Settings, rows: list[Row]) -> list[Cell]:
    return [
        {"series": name, "irrelevant": irrelevant, "method": method, "steps": settings["steps"]}
        for name in settings["series"].split()
        for irrelevant in (0, 1)
        for method in METHODS
    ]


def run(cell: Cell) -> dict[str, float]:
    """Microseconds of a row: 80% of the rows are learned, the others predicted."""
    make, noise = SERIES[cell["series"]]
    series = make(cell["steps"], seed=0, irrelevant=cell["irrelevant"])
    model = build(cell["method"], SETTINGS[cell["method"]], series.X.shape[1], noise, 0)
    learned = int(0.8 * len(series.X))
    model.learn_many(series.X[:10], series.Y[:10])  # what is allocated with the first row is not counted
    start = time.process_time()
    model.learn_many(series.X[10:learned], series.Y[10:learned])
    between = time.process_time()
    model.track(series.X[learned:])
    end = time.process_time()
    return {
        "learning": round(1e6 * (between - start) / (learned - 10), 2),
        "predicting": round(1e6 * (end - between) / (len(series.X) - learned), 2),
        "size": model.size,
    }


def summarize(rows: list[Row], expected: Expected) -> Table:
    lines: list[list[str | Value]] = []
    for what, title in WHAT.items():
        for irrelevant in (0, 1):
            line: list[str | Value] = [title, str(irrelevant)]
            for method in METHODS:
                found = [row for row in rows if (row["method"], row["irrelevant"]) == (method, irrelevant)]
                if found:
                    mean = float(np.mean([row[what] for row in found]))
                    line.append(Value(f"{method} {irrelevant} {what}", mean, digits=1))
            lines.append(line)
    sizes: list[str | Value] = ["size, on average", "both"]
    for method in METHODS:
        found = [row["size"] for row in rows if row["method"] == method]
        if found:
            sizes.append(Value(f"{method} size", float(np.mean(found)), better="neither", digits=0))
    lines.append(sizes)
    notes = [
        "Microseconds of a row, averaged over the series. The paper: LWPR is the fastest on most series; of the",
        "Gaussian processes SOGP-ARD is the dearest to learn and SOGP the cheapest; OIESGP predicts 20% faster than",
        "OESGP and learns slower. Here a kernel that looks back over 20 rows costs more than the state of 50 units,",
        "and LWPR is the fastest where the input is narrow only.",
    ]
    return Table(["row", "irrelevant inputs", *METHODS], [line for line in lines if len(line) > 2], notes)


def plot(rows: list[Row], path: Path) -> None:
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(row["series"] for row in rows))
    figure, axes = plt.subplots(2, 2, figsize=(11, 6), layout="constrained", sharex=True, sharey=True)
    width = 0.8 / len(METHODS)
    for line, what in zip(axes, WHAT, strict=True):
        for irrelevant, axis in enumerate(line):
            for i, method in enumerate(METHODS):
                found = {
                    row["series"]: row[what]
                    for row in rows
                    if (row["method"], row["irrelevant"]) == (method, irrelevant)
                }
                at = np.arange(len(names)) + (i - (len(METHODS) - 1) / 2) * width
                axis.bar(at, [found.get(name, np.nan) for name in names], width, label=method)
            axis.set_title(f"a row {WHAT[what]}" + (", one irrelevant input" if irrelevant else ""))
            axis.set_yscale("log")
            axis.set_xticks(range(len(names)), names, rotation=30, ha="right", rotation_mode="anchor")
        line[0].set_ylabel("microseconds")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(METHODS), frameon=False)
    figure.savefig(path, dpi=100)
    plt.close(figure)


EXPERIMENT = Experiment(
    title="Fig. 7: processor time of a row, learned and predicted",
    full={"steps": 2000, "series": " ".join(SERIES)},
    quick={"steps": 500, "series": "Henon NP2"},
    cells=cells,
    run=run,
    summarize=summarize,
    plot=plot,
)
