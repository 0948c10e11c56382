"""Fig. 5: error on Mackey-Glass over starting lengthscale and temporal lengthscale, fixed and adapted.

RMSE of the last 2 000 rows against the noise-free next value; every row is predicted, then learned.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import streamgp as sg
from reproductions.framework import Cell, Expected, Experiment, Row, Settings, Table, Value
from streamgp.evaluate.metrics import rmse

LENGTHSCALES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
INVERSE_TEMPORAL = (0.1, 0.3, 0.5, 0.7, 0.9, 0.99)
KINDS = ("fixed", "adapted")


def cells(settings: Settings, rows: list[Row]) -> list[Cell]:
    return [
        {"rows": settings["steps"], "adapted": adapted, "lengthscale": lengthscale, "inverse_temporal": inverse}
        for adapted in (0, 1)
        for lengthscale in LENGTHSCALES[:: settings["every"]]
        for inverse in INVERSE_TEMPORAL[:: settings["every"]]
    ]


def run(cell: Cell) -> dict[str, float]:
    series = sg.data.mackey_glass(cell["rows"], seed=0)
    adapt = sg.SNGD() if cell["adapted"] else None
    model = sg.OIESGP(
        20,
        lengthscale=cell["lengthscale"],
        temporal_lengthscale=1.0 / cell["inverse_temporal"],
        capacity=100,
        noise=0.0025,
        adapt=adapt,
    )
    p = model.track(series.X, series.Y)
    return {"rmse": rmse(series.truth[-2000:], p.mean[-2000:])}


def surface(rows: list[Row], adapted: int) -> np.ndarray:
    """RMSE over starts; NaN where a cell is missing."""
    found = {(row["lengthscale"], row["inverse_temporal"]): row["rmse"] for row in rows if row["adapted"] == adapted}
    return np.array([[found.get((a, b), np.nan) for b in INVERSE_TEMPORAL] for a in LENGTHSCALES])


def summarize(rows: list[Row], expected: Expected) -> Table:
    lines: list[list[str | Value]] = []
    for adapted, kind in enumerate(KINDS):
        scores = surface(rows, adapted)
        scores = scores[~np.isnan(scores)]
        if len(scores):
            parts = {"lowest": scores.min(), "median": np.median(scores), "highest": scores.max()}
            lines.append([kind, *(Value(f"{kind} {name}", float(value)) for name, value in parts.items())])
    return Table(["hyperparameters", "lowest RMSE", "median", "highest"], lines)


def plot(rows: list[Row], path: Path) -> None:
    import matplotlib.pyplot as plt

    surfaces = [surface(rows, adapted) for adapted in (0, 1)]
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
    for axis, name, scores in zip(axes, KINDS, surfaces, strict=True):
        image = axis.imshow(scores, origin="lower", aspect="auto", vmin=np.nanmin(surfaces), vmax=np.nanmax(surfaces))
        axis.set_xticks(range(len(INVERSE_TEMPORAL)), INVERSE_TEMPORAL)
        axis.set_yticks(range(len(LENGTHSCALES)), LENGTHSCALES)
        axis.set(
            title=f"{name} hyperparameters", xlabel="1 / temporal lengthscale (start)", ylabel="lengthscale (start)"
        )
        for i, j in np.ndindex(scores.shape):
            axis.annotate(f"{scores[i, j]:.3f}", (j, i), ha="center", va="center", color="w", fontsize=7)
    figure.colorbar(image, ax=axes, label="RMSE of the last 2 000 rows")
    figure.savefig(path, dpi=110)
    plt.close(figure)


EXPERIMENT = Experiment(
    title="Fig. 5: error on Mackey-Glass over the start of the hyperparameters",
    full={"steps": 20_000, "every": 1},
    quick={"steps": 3000, "every": 4},
    cells=cells,
    run=run,
    summarize=summarize,
    plot=plot,
)
