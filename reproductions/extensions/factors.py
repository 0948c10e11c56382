"""Factors: a relevant direction across the inputs, found by evidence where lengthscales alone cannot express it.

[soh2014] IV mentions the distance M = Lambda Lambda' + diag(l)^-2 without an experiment. Here y = sin(2 a'x) + noise
with a random direction a of six inputs, and KIN40K, whose relevant directions nobody knows.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import streamgp as sg
from reproductions.data import load
from reproductions.framework import Cell, Expected, Experiment, Row, Settings, Table, Value
from streamgp.batch import FullGP
from streamgp.batch.evidence import Evidence
from streamgp.evaluate.metrics import rmse
from streamgp.settings import FloatArray

KINDS = {"ARD": None, "1 factor": 1, "2 factors": 2}
D, NOISE = 6, 0.1
HELD_OUT = 1000


def cells(settings: Settings, rows: list[Row]) -> list[Cell]:
    common = {"restarts": settings["restarts"]}
    directions = [
        {"data": "direction", "seed": settings["seed"] + run, "rows": n, "kind": kind} | common
        for run in range(settings["runs"])
        for n in settings["rows"]
        for kind in KINDS
    ]
    tables = [
        {"data": "kin40k", "seed": settings["seed"] + run, "rows": settings["table_rows"], "kind": kind} | common
        for run in range(settings["splits"])
        for kind in KINDS
    ]
    return directions + tables


def drawn(cell: Cell) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray | None]:
    """Rows to learn, rows held out (of the direction: without noise), and the direction where it is known."""
    rng, n = np.random.default_rng(cell["seed"]), cell["rows"]
    if cell["data"] == "kin40k":
        table = load("kin40k")
        rows = rng.choice(len(table.X), n + HELD_OUT, replace=False)
        X, y = table.X[rows], table.Y[rows].ravel()
        return X[:n], y[:n], X[n:], y[n:], None
    a = rng.standard_normal(D)
    a /= np.linalg.norm(a)
    X = rng.standard_normal((n + HELD_OUT, D))
    truth = np.sin(2.0 * X @ a)
    return X[:n], truth[:n] + NOISE * rng.standard_normal(n), X[n:], truth[n:], a


def run(cell: Cell) -> dict[str, float | list[float]]:
    X, y, new, truth, a = drawn(cell)
    d = X.shape[1]
    kernel = sg.SquaredExponential(np.full(d, np.sqrt(d)), factors=KINDS[cell["kind"]])
    model = FullGP(kernel, noise=0.1).fit(X, y, Evidence(restarts=cell["restarts"]))
    named = model.hyperparameters
    loadings = np.asarray(named.get("factors", np.zeros((d, 1))))
    M = loadings @ loadings.T + np.diag(np.resize(named["lengthscale"], d) ** -2.0)
    found: dict[str, float | list[float]] = {
        "rmse": rmse(truth, model.predict(new).mean),
        "evidence": model.log_marginal_likelihood() / len(X),
    }
    if a is not None:
        first = np.linalg.eigh(M)[1][:, -1]  # along it the distance grows most
        found["angle"] = float(np.degrees(np.arccos(min(1.0, abs(first @ a)))))
    return found


def scores(finished: list[Row], name: str, **cell: object) -> FloatArray:
    return np.array([row[name] for row in finished if all(row[key] == value for key, value in cell.items())])


def summarize(rows: list[Row], expected: Expected) -> Table:
    lines: list[list[str | Value]] = []
    for data, n in dict.fromkeys((row["data"], row["rows"]) for row in rows):
        for kind in KINDS:
            cells: list[str | Value] = []
            for name, digits in (("rmse", 3), ("evidence", 2), ("angle", 1)):
                known = name != "angle" or data == "direction"
                values = scores(rows, name, data=data, rows=n, kind=kind) if known else np.empty(0)
                if len(values) == 0:
                    cells.append("-")
                    continue
                low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
                key = f"{data} {n} {kind} {name}"
                cells.append(Value(key, float(middle), float(high - low), better="neither", digits=digits))
            lines.append([data, str(n), kind, *cells])
    return Table(["data", "rows learned", "distance", "RMSE held out", "log evidence a row", "angle (degrees)"], lines)


def plot(rows: list[Row], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
    panels = (("direction", "rmse", "RMSE"), ("direction", "angle", "angle to the direction (degrees)"))
    for axis, (data, name, label) in zip(axes, (*panels, ("kin40k", "rmse", "RMSE")), strict=True):
        sizes = sorted({row["rows"] for row in rows if row["data"] == data})
        for i, kind in enumerate(KINDS):
            for j, n in enumerate(sizes):
                values = scores(rows, name, data=data, rows=n, kind=kind)
                at = j + 0.2 * (i - 1)
                axis.plot(np.full(len(values), at), values, "o", ms=4, color=f"C{i}", label=kind if j == 0 else None)
        axis.set_xticks(range(len(sizes)), sizes)
        axis.set(title=data, xlabel="rows learned", ylabel=label, xlim=(-0.6, len(sizes) - 0.4))
        axis.set_ylim(bottom=0.0)
    axes[0].legend()
    figure.savefig(path, dpi=100)
    plt.close(figure)


EXPERIMENT = Experiment(
    title="Factors: a direction across the inputs, by evidence",
    full={"runs": 4, "splits": 2, "rows": [60, 150], "table_rows": 150, "restarts": 1, "seed": 0},
    quick={"runs": 1, "splits": 0, "rows": [60], "restarts": 0},
    cells=cells,
    run=run,
    summarize=summarize,
    plot=plot,
)
