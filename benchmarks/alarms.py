"""sg.Alarms: false alarms on clean series, planted faults in real tables, and how soon changes are told.

    python benchmarks/alarms.py [--jobs 16] [--sample]

Writes benchmarks/results/alarms.json and the tables in docs/alarms.md; with --render only the tables, from the file;
with --sample it measures a tenth and writes nothing. Needs NumPy, SciPy, Numba and safetensors, and the data that
STREAMGP_DATA names (docs/data.md).
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import streamgp as sg

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT)]
from calibration import STREAMS, replaced, with_lags  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "alarms.json"
PAGE = ROOT / "docs" / "alarms.md"
HOW = ("given inputs", "without inputs")
RATES = (1e-2, 1e-3, 1e-4)
LAGS = 8
TABLES = ("bike_hourly", "gefcom2012_load", "sarcos", "barrett_wam", "silverbox")
ROWS, AFTER, FAULTS, FAULT_RATE = 6000, 2000, 40, 1e-4
# On the clean prefixes of all 250 series, published by microprediction/skaters (benchmarks/anomaly).
PUBLISHED = {"wald (timemachines)": (1.69, 1.86, 3.20), "DSPOT": (0.98, 1.95, 9.34)}
SHIFTS, SEEDS, CHANGE_AT, WITHIN = (1.0, 2.0, 4.0), range(20), 2000, 300


def series() -> dict[str, np.ndarray]:
    """The clean prefixes of the UCR archive, by number."""
    folder = Path(os.environ["STREAMGP_DATA"]) / "anomaly"
    with open(folder / "ucr_third.csv") as file:
        clean = {row["number"]: int(row["train_until"]) for row in csv.DictReader(file)}
    with np.load(folder / "ucr_third.npz") as data:
        found = {name.partition("_")[0].lstrip("0"): data[name].astype(float) for name in data}
    return {number: found[number][:until] for number, until in clean.items()}


def of_series() -> sg.StreamModel:
    return sg.Standardize(sg.KRLST(lengthscale=5.0, variance=25.0, noise=1e-3, capacity=40, forgetting=0.9999))


def clean(number: str, y: np.ndarray) -> dict[str, Any]:
    """Alarms on a series that has none to find, at every rate."""
    X, targets = with_lags(np.empty((len(y), 0)), y, LAGS)
    kinds = {}
    for rate in RATES:
        alarms = sg.Alarms(of_series(), rate=rate)
        alarms.learn_many(X, targets)
        kinds[str(rate)] = alarms.counts
    return {"series": number, "rows": len(X), "alarms": kinds}


def faults(table: str) -> dict[str, Any]:
    """Targets that are usual, but wrong for their inputs: how many are found with inputs and without.

    Each is planted alone, in a copy of the model at its row.
    """
    X, y = (part[:ROWS] for part in STREAMS[table]())
    rng = np.random.default_rng(0)
    rows = np.linspace(AFTER, len(y), FAULTS, endpoint=False).astype(int)
    low, high = np.quantile(y, [0.05, 0.95])
    usual = y[(y >= low) & (y <= high)]
    wrong = [rng.choice(usual[np.abs(usual - y[row]) > 0.5 * (high - low)]) for row in rows]
    found: dict[str, Any] = {"table": table, "rows": len(y), "faults": len(rows)}
    for name, model in zip(HOW, (sg.Auto(), sg.Calibrated(sg.RunningMean())), strict=True):
        alarms = sg.Alarms(model, rate=FAULT_RATE)
        alarms.learn_many(X[: rows[0]], y[: rows[0]])
        count = 0
        for row, following, target in zip(rows, [*rows[1:], len(y)], wrong, strict=True):
            faulty = alarms.copy()
            faulty.learn_one(X[row], target)
            count += faulty.last is not None and faulty.last.alarm == "spike"
            alarms.learn_many(X[row:following], y[row:following])
        found[name] = {"found": count, "others": sum(alarms.counts.values())}
    return found


def change(shift: float) -> dict[str, Any]:
    """After how many rows a shift of the level, in standard deviations of the noise, is told; None: not in time."""
    delays: dict[str, list[int | None]] = {"Alarms": [], "DriftAware": []}
    false = Counter[str]()
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        X = rng.uniform(-2, 2, (CHANGE_AT + WITHIN, 2))
        y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * rng.standard_normal(len(X))
        y[CHANGE_AT:] += 0.3 * shift
        inner = sg.Standardize(sg.KRLST(capacity=50, forgetting=1.0))
        alarms, aware = sg.Alarms(inner), sg.DriftAware(inner)
        alarms.learn_many(X, y)
        aware.learn_many(X, y)
        told = {
            "Alarms": [event.row for event in alarms.events if event.kind != "spike"],
            "DriftAware": [event.row for event in aware.events if event.direction == "raised"],
        }
        for name, at in told.items():
            delays[name].append(next((row - CHANGE_AT for row in at if row >= CHANGE_AT), None))
            false[name] += sum(row < CHANGE_AT for row in at)
    return {"shift": shift, "delays": delays, "false": dict(false)}


def measured(jobs: int, sample: bool) -> dict[str, Any]:
    prefixes = series()
    if sample:
        prefixes = dict(list(prefixes.items())[::10])
    work: list[tuple[str, Callable[..., dict[str, Any]], tuple[Any, ...]]] = [
        *(("clean", clean, item) for item in prefixes.items()),
        *(("faults", faults, (table,)) for table in (TABLES[2:3] if sample else TABLES)),
        *(("changes", change, (shift,)) for shift in (SHIFTS[-1:] if sample else SHIFTS)),
    ]
    sg.Alarms(of_series()), sg.DriftAware(of_series()), sg.Auto()  # compiled once, before there are many processes
    found: dict[str, Any] = {"clean": [], "faults": [], "changes": []}
    with ProcessPoolExecutor(jobs) as pool:
        for name, one in [(name, pool.submit(call, *args)) for name, call, args in work]:
            found[name].append(one.result())
            print(name, found[name][-1], flush=True)
    versions = {name: version(name) for name in ("numpy", "scipy", "numba")} | {"streamgp": sg.__version__}
    return found | {"machine": f"{platform.machine()}, {platform.system()}", "versions": versions}


def ratio(results: list[dict[str, Any]], rate: float, kinds: Iterable[str]) -> float:
    """False alarms over those that the rate allows, of all series together."""
    count = sum(one["alarms"][str(rate)][kind] for one in results for kind in kinds)
    return float(count / (rate * sum(one["rows"] for one in results)))


def table(header: list[str], lines: Iterable[Iterable[str]]) -> str:
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def tables(results: dict[str, Any]) -> dict[str, str]:
    everything = ("spike", "level", "relation")
    rates = [
        ["`sg.Alarms`", *(f"{ratio(results['clean'], rate, everything):.2f}" for rate in RATES)],
        ["of these spikes", *(f"{ratio(results['clean'], rate, everything[:1]):.2f}" for rate in RATES)],
        *([f"{name}, published", *(f"{value:.2f}" for value in values)] for name, values in PUBLISHED.items()),
    ]
    found = []
    for one in results["faults"]:
        shares = (f"{one[how]['found'] / one['faults']:.0%}" for how in HOW)
        found.append([one["table"], str(one["faults"]), *shares, str(one["given inputs"]["others"])])
    changes = []
    for one in results["changes"]:
        cells = [f"{one['shift']:g}"]
        for name in ("Alarms", "DriftAware"):
            delays = [WITHIN if delay is None else delay for delay in one["delays"][name]]
            cells += [f"{np.median(delays):g}", str(one["false"].get(name, 0))]
        changes.append(cells)
    return {
        "false alarms": table(["false alarms over nominal", *(f"{rate:g}" for rate in RATES)], rates),
        "planted faults": table(["table", "faults", *HOW, "other alarms"], found),
        "changes": table(["shift in noise std", "Alarms: rows", "before it", "DriftAware: rows", "before it"], changes),
    }


def render(results: dict[str, Any]) -> None:
    text = PAGE.read_text()
    for name, found in tables(results).items():
        text = replaced(text, f"<!-- {name} -->", f"<!-- end of {name} -->", found)
    PAGE.write_text(text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--render", action="store_true")
    args = parser.parse_args()
    if not args.render:
        results = measured(args.jobs, args.sample)
        print(*tables(results).values(), sep="\n\n")
    if not args.render and not args.sample:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    if not args.sample:
        render(json.loads(RESULTS.read_text()))
