"""Inverse dynamics of robot arms: the streams, the methods and the cells that Figs. 5 to 8 share.

The rows before the stream choose the hyperparameters, by evidence, and teach GPR, which learns nothing afterwards; the
incremental methods start empty. Inputs and targets are scaled by the rows before. The evidence is that of evenly spaced
rows: neighbors in time share their noise, and a model that takes it as independent finds none. (Barrett, a third of
the 3 000 rows before, drawn at random: noise 1e-6, nMSE of GPR 3.7.)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import streamgp as sg
from reproductions.data import load
from reproductions.framework import Cell, Row, Settings
from streamgp.batch import SSGPR, FullGP
from streamgp.batch.exact import solve
from streamgp.settings import FloatArray

FEATURES = (50, 200, 25, 100)
CHUNK = 250  # rows that are timed together
REFERENCES = ("GPR", "LWPR", "previous value", "GPR, learning on")
# What an exact posterior of every row costs: above this many it is left out.
MOST_EXACT_ROWS = 10_000
# Tried one setting after the other, the first value of each being where the search starts.
LWPR_SEARCH: dict[str, tuple[Any, ...]] = {
    "init_D": (0.1, 0.3, 0.03, 0.01),
    "init_alpha": (1.0, 0.01, 50.0),
    "meta_rate": (0.0, 50.0, 250.0),
}
LWPR_SEARCH_ROWS = 1000


class Stream(NamedTuple):
    """Inputs and targets of three parts: what tunes, what comes before the stream, and the stream."""

    tuning: tuple[FloatArray, FloatArray]
    before: tuple[FloatArray, FloatArray]
    stream: tuple[FloatArray, FloatArray]


def sarcos() -> Stream:
    """The first 5 800 rows of the trajectory; then every tenth of all of them, the published test file."""
    before, stream = load("sarcos/first5800"), load("sarcos/test")
    return Stream((before.X, before.Y), (before.X, before.Y), (stream.X, stream.Y))


def sarcos_reversed() -> Stream:
    """As in the paper the published test file first; then the first 5 800 of the paper's 44 484 rows."""
    _, before, stream = sarcos()
    return Stream(stream, stream, before)


def barrett() -> Stream:
    """The 12 000 consecutive rows, a quarter of them before the stream; the published rows for hyperparameters."""
    table, tuning = load("barrett_wam"), load("barrett_wam/hyper")
    X, Y = table.X[: table.split], table.Y[: table.split]
    return Stream((tuning.X, tuning.Y), (X[:3000], Y[:3000]), (X[3000:], Y[3000:]))


def baxter() -> Stream:
    """Ten runs, two of them before the stream."""
    table = load("baxter_dynamics/inverse")
    first = table.starts[2]
    before = table.X[:first], table.Y[:first]
    return Stream(before, before, (table.X[first:], table.Y[first:]))


STREAMS: dict[str, Callable[[], Stream]] = {
    "Sarcos": sarcos,
    "Sarcos, reversed": sarcos_reversed,
    "Barrett": barrett,
    "Baxter": baxter,
}


def cells(settings: Settings, rows: list[Row], of: tuple[str, ...] = (*REFERENCES, "I-SSGPR")) -> list[Cell]:
    """Every method on every stream, or some of the methods."""
    shared = {name: settings[name] for name in ("steps", "training", "evidence")}
    features = [D for D in FEATURES if settings["most_features"] >= D]
    methods = [(name, 0, 0) for name in REFERENCES]
    methods += [("I-SSGPR", D, run) for run in range(settings["runs"]) for D in features]
    return [
        {"data": data, "method": method, "features": D, "run": run} | shared
        for method, D, run in methods
        if method in of
        for data in list(STREAMS)[: settings["streams"]]
    ]


def run(cell: Cell) -> dict[str, Any]:
    """One method on one stream: the running error, and the processor time of a row as rows go by."""
    (H, T), (X, Y), (U, V) = STREAMS[cell["data"]]()
    X, Y, U, V = X[: cell["training"]], Y[: cell["training"]], U[: cell["steps"]], V[: cell["steps"]]
    of_inputs, of_targets = (X.mean(axis=0), X.std(axis=0)), (Y.mean(axis=0), Y.std(axis=0))
    spaced = np.linspace(0, len(H) - 1, min(cell["evidence"], len(H))).astype(int)
    H, X, U = (scaled(part, *of_inputs) for part in (H[spaced], X, U))
    T, Y, V = (scaled(part, *of_targets) for part in (T[spaced], Y, V))
    method = cell["method"]
    if method == "previous value":
        return scores(V, np.vstack([np.zeros(V.shape[1]), V[:-1]]))
    if method == "LWPR":
        chosen_settings = lwpr_settings(X[:LWPR_SEARCH_ROWS], Y[:LWPR_SEARCH_ROWS])
        model = sg.LWPR(**chosen_settings)
        return tracked(model, U, V) | chosen_settings | {"fields": model.size}
    if method == "I-SSGPR":
        batch = SSGPR(
            cell["features"], lengthscale=np.full(X.shape[1], np.sqrt(X.shape[1])), noise=0.01, seed=cell["run"]
        )
        batch.fit(H, T, sg.Evidence(restarts=0, iterations=40))
        return tracked(sg.ISSGPR.from_batch(batch), U, V) | {"noise": float(batch.hyperparameters["noise"])}
    start = FullGP(sg.SquaredExponential(np.full(X.shape[1], np.sqrt(X.shape[1]))), noise=0.01)
    tuned = start.fit(H, T, sg.Evidence(restarts=0, iterations=40))
    noise = float(tuned.hyperparameters["noise"])
    if method == "GPR, learning on":
        if len(U) > MOST_EXACT_ROWS:
            return {"nmse": None}
        # The factor of the covariance of all rows holds every one-step prediction: y_t - mean_t = L_tt (L^-1 y)_t.
        posterior = solve(tuned.kernel, noise, 0.0, U, V)
        return scores(V, V - np.diag(posterior.L)[:, None] * posterior.z) | {"noise": noise}
    gpr = FullGP(tuned.kernel, noise=noise).fit(X, Y)
    mean = np.concatenate([gpr.predict(part).mean for part in np.array_split(U, -(-len(U) // 1000))])
    start_of_timing = time.process_time()
    for row in U[:20]:
        gpr.predict(row[None])
    seconds = time.process_time() - start_of_timing
    return scores(V, mean) | {"noise": noise, "microseconds": round(1e6 * seconds / len(U[:20]), 2)}


def scaled(rows: FloatArray, centre: FloatArray, scale: FloatArray) -> FloatArray:
    return np.asarray((rows - centre) / np.where(scale > 0, scale, 1.0))


def scores(truth: FloatArray, mean: FloatArray) -> dict[str, Any]:
    """The running error of section 4.2.1: over the variance of the whole stream, averaged over the outputs."""
    errors = np.mean((truth - mean) ** 2 / np.var(truth, axis=0), axis=1)
    running = np.cumsum(errors) / np.arange(1, len(errors) + 1)
    rows = np.unique(np.geomspace(10, len(errors), 60).astype(int))
    return {
        "nmse": float(running[-1]),
        "rows": rows.tolist(),
        "running": [float(f"{value:.4g}") for value in running[rows - 1]],
    }


def tracked(model: sg.StreamModel, U: FloatArray, V: FloatArray) -> dict[str, Any]:
    """Predict and learn every row; the time of both together, a chunk of rows at a time."""
    means, times = [], []
    for first in range(0, len(U), CHUNK):
        start = time.process_time()
        means.append(model.track(U[first : first + CHUNK], V[first : first + CHUNK]).mean)
        times.append(1e6 * (time.process_time() - start) / len(means[-1]))
    found = scores(V, np.concatenate(means))
    return found | {"microseconds": round(float(np.median(times)), 2), "times": [round(t, 1) for t in times]}


def lwpr_settings(X: FloatArray, Y: FloatArray) -> dict[str, Any]:
    """Greedily: the distance metric, then the learning rate, then the rate of that, by the one-step error."""
    chosen = {name: values[0] for name, values in LWPR_SEARCH.items()}
    for name, values in LWPR_SEARCH.items():
        error = {}
        for value in values:
            found = chosen | {name: value}
            mean = sg.LWPR(**found, meta=found["meta_rate"] > 0).track(X, Y).mean
            error[value] = float(np.mean((Y - mean) ** 2))
        chosen[name] = min(error, key=lambda value: error[value])
    return chosen | {"meta": chosen["meta_rate"] > 0}


def by_method(rows: list[Row]) -> dict[tuple[str, str], list[Row]]:
    """The runs of every method on every stream; the number of features is part of the name."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row["data"], name_of(row)), []).append(row)
    return found


def name_of(row: Row) -> str:
    return f"{row['method']} {row['features']}" if row["features"] else str(row["method"])


FULL: Settings = {"runs": 3, "steps": 20_000, "training": 6000, "evidence": 600, "most_features": 200, "streams": 4}
QUICK: Settings = {"runs": 1, "steps": 300, "training": 300, "evidence": 100, "most_features": 50, "streams": 2}
