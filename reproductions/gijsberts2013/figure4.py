"""Fig. 4: how slowly LWPR converges on the Cross data: test error against passes over the 500 training rows.

Its settings are searched greedily, the distance metric, then the learning rate, then the rate of that, as the error on
100 of the rows after 20 passes over the other 400.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import streamgp as sg
from reproductions.framework import Cell, Expected, Experiment, Row, Settings, Table, Value
from streamgp.evaluate.metrics import nmse
from streamgp.settings import FloatArray

DIMENSIONS = (2, 10, 20)
SEARCH: dict[str, tuple[float, ...]] = {
    "init_D": (25.0, 5.0, 100.0),
    "init_alpha": (50.0, 250.0, 1000.0),
    "meta_rate": (0.0, 50.0, 250.0),
}
SEARCH_PASSES = 20


def cells(settings: Settings, rows: list[Row]) -> list[Cell]:
    return [
        {"dimensions": dimensions, "draw": draw, "passes": settings["passes"]}
        for draw in range(settings["runs"])
        for dimensions in DIMENSIONS
        if dimensions <= settings["most_dimensions"]
    ]


def learned(settings: dict[str, float], X: FloatArray, Y: FloatArray, after: list[int], draw: int) -> Any:
    """Yield the model after each of the numbers of passes; every pass has an order of its own."""
    model = sg.LWPR(**settings, meta=settings["meta_rate"] > 0)
    rng = np.random.default_rng(draw)
    for done in range(1, after[-1] + 1):
        order = rng.permutation(len(X))
        model.learn_many(X[order], Y[order])
        if done in after:
            yield model


def run(cell: Cell) -> dict[str, Any]:
    """Search the settings, then learn pass after pass and score on the grid."""
    dimensions, draw = cell["dimensions"], cell["draw"]
    data = sg.data.cross(500, dimensions=dimensions, seed=draw)
    test = sg.data.cross_grid(dimensions=dimensions, seed=draw)
    chosen = {name: values[0] for name, values in SEARCH.items()}
    searched = min(SEARCH_PASSES, cell["passes"])
    for name, values in SEARCH.items():
        error = {}
        for value in values:
            (model,) = learned(chosen | {name: value}, data.X[:400], data.Y[:400], [searched], draw)
            error[value] = nmse(data.Y[400:], model.predict_many(data.X[400:]).mean)
        chosen[name] = min(error, key=lambda value: error[value])
    after = np.unique(np.geomspace(1, cell["passes"], 25).round().astype(int)).tolist()
    errors = [
        nmse(test.truth, model.predict_many(test.X).mean) for model in learned(chosen, data.X, data.Y, after, draw)
    ]
    return chosen | {"nmse": errors[-1], "first": errors[0], "after": after, "errors": [round(e, 5) for e in errors]}


def summarize(rows: list[Row], expected: Expected) -> Table:
    lines: list[list[str | Value]] = []
    for dimensions in DIMENSIONS:
        found = [row for row in rows if row["dimensions"] == dimensions]
        if found:
            first, last = ([row[name] for row in found] for name in ("first", "nmse"))
            key = f"cross{dimensions}"
            lines.append(
                [
                    f"{dimensions}D",
                    Value(f"{key} first", float(np.median(first))),
                    Value(f"{key} last", float(np.median(last)), float(np.ptp(last)), expected.get(f"{key} last")),
                    str(len(found)),
                ]
            )
    notes = [
        "Medians over draws, the range in brackets. The paper has one draw and says that LWPR ultimately comes near",
        "GPR (0.02) on 2D and 10D, after many passes, and that further dimensions make it slower and worse.",
    ]
    return Table(["Cross", "nMSE after one pass", "after all passes", "draws"], lines, notes)


def plot(rows: list[Row], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    for dimensions in DIMENSIONS:
        found = [row for row in rows if row["dimensions"] == dimensions]
        if found:
            axis.plot(found[0]["after"], np.median([row["errors"] for row in found], axis=0), label=f"{dimensions}D")
    axis.axhline(0.02, color="k", ls=":", label="GPR, one pass")
    axis.set(xlabel="passes over the training rows", ylabel="test nMSE of LWPR", xscale="log", yscale="log")
    axis.legend()
    figure.savefig(path, dpi=110)
    plt.close(figure)


EXPERIMENT = Experiment(
    title="Fig. 4: LWPR on the Cross data, pass after pass",
    full={"runs": 2, "passes": 100, "most_dimensions": 20},
    quick={"runs": 1, "passes": 5, "most_dimensions": 10},
    cells=cells,
    run=run,
    summarize=summarize,
    plot=plot,
)
