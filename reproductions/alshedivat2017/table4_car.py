"""Table 4, car, a stand-in: speed and yaw rate of another drive one row ahead, from 128 rows.

The two trips of the paper are not public. Here: one minute of another car, its speed at 83 Hz from satellite velocities
and gyroscopes, its yaw rate at 104 Hz from acceleration and compass. The first 3/4 of the rows are learned, the last
quarter of them for validation; the last quarter of all rows is scored, with the rows before it as the past. LSTM and
GP-LSTM are trained as in `table4` until validation no longer improves, and not anew after that: the paper's cars have
validation and test on another trip. Each takes the candidate that is best on validation with a seed of its own. Beside
them: the GP-LSTM that goes on learning in the scored rows (`online`), and Auto, which sees every row once, in order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import streamgp as sg
from reproductions.data import load
from reproductions.framework import Cell, Expected, Experiment, Row, Settings, Table, Value
from streamgp.contract.prediction import Prediction
from streamgp.evaluate.metrics import coverage, nlpd, rmse
from streamgp.settings import FloatArray

from .smartgrid import Part, Split, linear
from .table4 import CANDIDATES, MODELS, TUNING_SEED, best_candidates, trained

LAG = 128
FINE = {"rate": 3e-4, "refresh": 1}  # as for the load, on which it was chosen: here, too, the noise is small
CAPACITY = 200  # of the process that goes on learning
ONLINE = "GP-LSTM, online"
NETWORKS = (*MODELS, ONLINE)
OTHERS = ("Auto", "persistence", f"linear AR({LAG})", f"linear ARX({LAG})")
LEVEL = 0.9


def cells(settings: Settings, rows: list[Row]) -> list[Cell]:
    """Of each series the candidates, then the runs with the best of each model."""
    tuning: list[Cell] = []
    runs: list[Cell] = []
    for name in settings["data"].split():
        cell = {"data": name, "rows": settings["rows"], "units": settings["units"]}
        cell |= {"epochs": settings["epochs"], "fine_epochs": settings["fine_epochs"]}
        runs.append({"stage": "others", **cell, "candidate": -1, "seed": settings["seed"]})
        count = min(settings["candidates"], len(CANDIDATES))
        tuning += [{"stage": "tune", **cell, "candidate": i, "seed": TUNING_SEED} for i in range(count)]
        if len([row for row in rows if row["stage"] == "tune" and row["data"] == name]) == count:
            chosen = sorted(set(best_candidates(rows, name).values()))
            seeds = range(settings["seed"], settings["seed"] + settings["runs"])
            runs += [{"stage": "run", **cell, "candidate": one, "seed": seed} for seed in seeds for one in chosen]
    return runs + tuning


def divided(name: str, rows: int) -> tuple[Split, FloatArray, FloatArray]:
    """The parts of a series, and the whole of it; with rows, only its first ones."""
    table = load(f"comma2k19_segment/{name}")
    U, Y = table.X[: rows or None], table.Y[: rows or None]
    end = 3 * len(Y) // 4
    start = np.zeros(1, dtype=np.int64)
    past = (
        end + 1 - LAG
    )  # whole windows come before the scored rows, the first of which is the second of the last quarter
    learned, scored = Part(U[:end], Y[:end], start), Part(U[past:], Y[past:], start)
    return Split(learned, 3 * end // 4, scored, float(np.std(Y[:end]))), U, Y


def run(cell: Cell) -> dict[str, Any]:
    data, U, Y = divided(cell["data"], cell["rows"])
    end = len(data.learned.Y)
    if cell["stage"] == "others":
        before = np.concatenate([[np.nan], data.test.Y[:-1]])
        points = (before, linear(data, False, LAG), linear(data, True, LAG))
        found = {f"{name} rmse": error(data, said[LAG:]) for name, said in zip(OTHERS[1:], points, strict=True)}
        # Row t has the inputs of the row before it, as the networks have; Auto adds past targets by itself.
        return found | scores("Auto", data, sg.Auto(level=LEVEL).track(U[:-1], Y[1:])[end:])
    network, process = trained(cell, data, None, FINE, LAG)
    found = {}
    for name, model in (("LSTM", network), ("GP-LSTM", process)):
        best = min(model.history, key=lambda epoch: epoch.rmse)
        found |= {f"{name} validation": best.rmse, f"{name} epochs": best.epoch + 1}
    if cell["stage"] == "tune":
        return found
    found["LSTM rmse"] = error(data, network.predict(*data.test).mean[LAG:])
    found |= scores("GP-LSTM", data, process.predict(*data.test)[LAG:])
    rows, targets = process.rows(U, Y)
    stream = process.online(capacity=CAPACITY, seed=cell["seed"])
    return found | scores(ONLINE, data, stream.track(rows[end:-1], targets[end:-1]))


def error(data: Split, mean: FloatArray) -> float:
    """RMSE of the scored rows, in standard deviations of the learned ones."""
    return rmse(data.test.Y[LAG:], mean) / data.scale


def scores(name: str, data: Split, p: Prediction) -> dict[str, float]:
    """Error, NLPD in the same units, and coverage."""
    truth = data.test.Y[LAG:]
    return {
        f"{name} rmse": error(data, np.asarray(p.mean)),
        f"{name} nlpd": nlpd(truth, p) - float(np.log(data.scale)),
        f"{name} coverage": coverage(truth, *p.interval(LEVEL)),
    }


def summarize(rows: list[Row], expected: Expected) -> Table:
    lines: list[list[str | Value]] = []
    names = list(dict.fromkeys(row["data"] for row in rows))
    notes = [f"Mean (standard deviation) over the runs; intervals of {LEVEL:.0%}."] if rows else []
    for name in names:
        here = [row for row in rows if row["data"] == name]
        chosen = best_candidates(rows, name)
        found: dict[str, list[Row]] = {model: [row for row in here if row["stage"] == "others"] for model in OTHERS}
        for model in NETWORKS if chosen else ():
            candidate = chosen["GP-LSTM" if model == ONLINE else model]
            found[model] = [row for row in here if row["stage"] == "run" and row["candidate"] == candidate]
        for model in (*NETWORKS, *OTHERS):
            line: list[str | Value] = [name, model]
            for score, digits in (("rmse", 4), ("nlpd", 2), ("coverage", 3)):
                values = [row[f"{model} {score}"] for row in found.get(model, ()) if f"{model} {score}" in row]
                spread = float(np.std(values)) if len(values) > 1 else None
                key = f"{name} {model} {score}"
                line.append(Value(key, float(np.mean(values)), spread, None, digits=digits) if values else "-")
            lines.append(line)
        pair = [{row["seed"]: row[f"{model} rmse"] for row in found.get(model, ())} for model in ("GP-LSTM", "LSTM")]
        if both := sorted(set(pair[0]) & set(pair[1])):
            ratio = float(np.mean(list(pair[0].values())) / np.mean(list(pair[1].values())))
            key = f"{name} GP-LSTM over LSTM"
            lines.append([name, "GP-LSTM over LSTM", Value(key, ratio, None, expected.get(key), digits=2), "-", "-"])
            lower = sum(pair[0][seed] < pair[1][seed] for seed in both)
            notes.append(f"On {name} GP-LSTM is below LSTM with {lower} of {len(both)} seeds.")
    return Table(["series", "model", "RMSE", "NLPD", "coverage"], lines, notes)


EXPERIMENT = Experiment(
    title="Table 4, car, a stand-in: speed and yaw rate of another drive",
    full={
        "runs": 5,
        "seed": 0,
        "rows": 0,  # that are used, the first ones; 0: all
        "units": 32,
        "epochs": 20,
        "fine_epochs": 3,
        "candidates": 2,  # one layer, without dropout and with
        "data": "speed yaw",
    },
    quick={"runs": 1, "rows": 900, "units": 8, "epochs": 2, "fine_epochs": 1, "candidates": 1, "data": "speed"},
    cells=cells,
    run=run,
    summarize=summarize,
)
