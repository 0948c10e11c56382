"""The steps of SNGD: long ones follow a stream, those that die out carry over to rows unlike the last.

*learning on*: SOGP with 60 points and one long lengthscale to start from, over the first rows of eight tables in
standard units; each row is predicted, then learned, and the NLPD counts from row 500 on. *part left out*: OIESGP on the
steering of a car as in `soh2014-table4`, five parts of a record, one of them predicted without learning; RMSE.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import streamgp as sg
from reproductions.data import load
from reproductions.framework import Cell, Expected, Experiment, Row, Settings, Table, Value
from streamgp.evaluate.metrics import nlpd, rmse
from streamgp.settings import FloatArray

STEPS = {
    "fixed": None,
    "default": sg.SNGD(),
    "clip 0.1": sg.SNGD(clip=0.1),
    "clip 0.05": sg.SNGD(clip=0.05),
    "decay 1": sg.SNGD(decay=1.0),
}
TABLES = (
    "bike_hourly",
    "gefcom2012_wind",
    "gefcom2012_load",
    "sarcos",
    "barrett_wam",
    "silverbox",
    "uci_elevators",
    "uci_pumadyn32nm",
)
RECORDS = ("driving_udacity/round2", "driving_udacity/round1")
STARTS = ((5.0, 5), (2.0, 20))  # lengthscale and depth of OIESGP
FOLDS, MOST, FIRST = 5, 2000, 500


def cells(settings: Settings, rows: list[Row]) -> list[Cell]:
    base = {"rows": settings["rows"]}
    on = [
        base | {"stage": "learning on", "data": name, "start": -1, "steps": steps}
        for name in TABLES[: settings["tables"]]
        for steps in STEPS
    ]
    out = [
        base | {"stage": "part left out", "data": name, "start": start, "steps": steps}
        for name in RECORDS[: settings["records"]]
        for start in range(len(STARTS))
        for steps in STEPS
    ]
    return on + out


def standard(values: FloatArray) -> FloatArray:
    scaled: FloatArray = (values - values.mean(axis=0)) / np.maximum(values.std(axis=0), 1e-12)
    return scaled


def run(cell: Cell) -> dict[str, Any]:
    adapt, table = STEPS[cell["steps"]], load(cell["data"])
    Y = table.Y if table.Y.ndim == 1 else table.Y[:, 0]
    if cell["stage"] == "learning on":
        X, y = standard(table.X[: cell["rows"]]), standard(Y[: cell["rows"]])
        inputs = X.shape[1]
        kernel = sg.SquaredExponential(np.full(inputs, 2.0 * np.sqrt(inputs)))
        p = sg.SOGP(kernel, capacity=60, noise=0.05, adapt=adapt).track(X, y)
        first = min(FIRST, len(y) // 2)
        return {"score": nlpd(y[first:], p[first:]), "rmse": rmse(y[first:], p[first:].mean)}
    lengthscale, depth = STARTS[cell["start"]]
    X, y = standard(table.X), standard(Y)
    starts = table.starts if len(table.starts) == FOLDS else np.linspace(0, len(X), FOLDS, endpoint=False).astype(int)
    most = min(MOST, cell["rows"])
    parts = [
        (x[::2][:most], t[::2][:most]) for x, t in zip(np.split(X, starts[1:]), np.split(y, starts[1:]), strict=True)
    ]
    errors = []
    for left_out, (x, t) in enumerate(parts):
        model = sg.OIESGP(
            depth,
            lengthscale=[lengthscale] * X.shape[1],
            temporal_lengthscale=1.2,
            capacity=100,
            noise=0.05,
            adapt=adapt,
        )
        for learned in parts[:left_out] + parts[left_out + 1 :]:
            model.reset_memory()
            model.learn_many(*learned)
        model.reset_memory()
        errors.append(rmse(t, model.track(x).mean))
    return {"score": float(np.mean(errors)), "rmse": float(np.mean(errors))}


def summarize(rows: list[Row], expected: Expected) -> Table:
    found = {(row["stage"], row["data"], row["start"], row["steps"]): row["score"] for row in rows}
    lines: list[list[str | Value]] = []
    for stage, name, start in dict.fromkeys(key[:3] for key in found):
        label = f"{name}, NLPD" if start < 0 else "{}, lengthscale {:g}, depth {}, RMSE".format(name, *STARTS[start])
        scores = [found.get((stage, name, start, steps)) for steps in STEPS]
        lines.append(
            [
                stage,
                label,
                *(
                    "-" if score is None else Value(f"{label} {steps}", score, digits=3)
                    for steps, score in zip(STEPS, scores, strict=True)
                ),
            ]
        )
    return Table(["rows", "data, score", *STEPS], lines, ["Lower is better; default is clip 0.2, decay 0.25."])


EXPERIMENT = Experiment(
    title="The steps of SNGD: learning on, and a part left out",
    full={"rows": 6000, "tables": len(TABLES), "records": len(RECORDS)},
    quick={"rows": 700, "tables": 1, "records": 1},
    cells=cells,
    run=run,
    summarize=summarize,
)
