"""The online tail, not in the paper: a GP-LSTM trained on two thirds of a series learns the last third row by row.

Autoregression, one row ahead; predict, score, learn. The frozen model predicts the same rows and learns none of them.
Actuator has the exact process on the hidden vector; the load, of which the longest stretch without a gap is taken, an
embedding of two numbers, as in Table 4.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reproductions.data import load
from reproductions.framework import Cell, Expected, Experiment, Row, Settings, Table, Value
from streamgp import deep
from streamgp.evaluate.metrics import nlpd, rmse
from streamgp.settings import FloatArray

WAYS: dict[str, dict[str, Any]] = {"online": {}, "online, forgetting": {"forgetting": 0.999}}
CAPACITY = {"actuator": 400, "load": 200}


def cells(settings: Settings, rows: list[Row]) -> list[Cell]:
    return [
        {"data": name, "units": settings["units"], "epochs": settings["epochs"], "seed": settings["seed"] + number}
        for name in settings["data"].split()
        for number in range(settings["runs"])
    ]


def run(cell: Cell) -> dict[str, Any]:
    if cell["data"] == "actuator":
        table = load("actuator")
        U, Y = table.X, table.Y
    else:  # the longest stretch without a gap
        table = load("gefcom2012_load")
        ends = np.append(table.starts[1:], len(table.Y))
        longest = int(np.argmax(ends - table.starts))
        stretch = slice(table.starts[longest], ends[longest])
        U, Y = table.X[stretch], table.Y[stretch].sum(axis=1)
    split = 2 * len(Y) // 3
    model = trained(cell, U[:split], Y[:split])
    rows, targets = model.rows(U, Y)
    truth, spread = Y[split + 1 :], float(np.std(Y[:split]))
    said = {"frozen": model.predict(U, Y)[split + 1 :]}
    for name, way in WAYS.items():
        stream = model.online(capacity=CAPACITY[cell["data"]], seed=cell["seed"], **way)
        said[name] = stream.track(rows[split:-1], targets[split:-1])
    found: dict[str, Any] = {"rows": len(truth)}
    for name, p in said.items():
        found[f"{name} rmse"] = rmse(truth, p.mean) / spread
        found[f"{name} nlpd"] = nlpd(truth, p) - float(np.log(spread))
    return found


def trained(cell: Cell, U: FloatArray, Y: FloatArray) -> deep.DeepKernelGP:
    """A GP-LSTM; the last quarter of its rows says when to stop."""
    units, epochs, seed = cell["units"], cell["epochs"], cell["seed"]
    if cell["data"] == "actuator":
        training = deep.Training(
            epochs=3 * epochs, batch=32, refresh=1.0, rate=0.003, decay=0.01, kernel_rate=0.05, patience=50
        )
        return deep.GPLSTM(units, dropout=0.3, recurrent_dropout=0.06, depth=10, training=training, seed=seed).fit(U, Y)
    encoder = deep.LSTM(units, dropout=0.0, recurrent_dropout=0.0, embedding=2)
    first = deep.Training(epochs=epochs, batch=128, rate=0.005, decay=0.05, patience=10)
    then = deep.Training("alternating", epochs=3, batch=256, rate=3e-4, decay=0.05, kernel_rate=0.05)
    network = deep.Network(encoder, depth=48, training=first, seed=seed).fit(U, Y)
    process = deep.DeepKernelGP(encoder, depth=48, noise=0.02, inference="interpolated", training=then, seed=seed)
    return process.fit(U, Y, pretrained=network)


def summarize(rows: list[Row], expected: Expected) -> Table:
    lines: list[list[str | Value]] = []
    notes: list[str] = []
    for data in sorted({row["data"] for row in rows}):
        chosen = [row for row in rows if row["data"] == data]
        for name in ("frozen", *WAYS):
            line: list[str | Value] = [data, name]
            for score in ("rmse", "nlpd"):
                values = [row[f"{name} {score}"] for row in chosen]
                spread = float(np.std(values)) if len(values) > 1 else None
                line.append(Value(f"{data} {name} {score}", float(np.mean(values)), spread))
            lines.append(line)
        lower = [sum(row[f"{name} rmse"] <= row["frozen rmse"] for row in chosen) for name in WAYS]
        said = " and ".join(f"{count} ({name})" for count, name in zip(lower, WAYS, strict=True))
        notes.append(f"On {data} learning is at or below frozen in {said} of {len(chosen)} runs.")
    if rows:
        notes.insert(0, "Mean (standard deviation) over the runs, in standard deviations of the first two thirds.")
    return Table(["series", "model", "RMSE", "NLPD"], lines, notes)


EXPERIMENT = Experiment(
    title="A GP-LSTM that goes on learning online: the last third of Actuator and of the load",
    full={"runs": 5, "seed": 0, "units": 64, "epochs": 40, "data": "actuator load"},
    quick={"runs": 1, "units": 8, "epochs": 2, "data": "actuator"},
    cells=cells,
    run=run,
    summarize=summarize,
)
