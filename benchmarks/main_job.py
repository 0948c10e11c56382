"""The main job on six real tables: accuracy against simple predictions, coverage, throughput and memory.

    python benchmarks/main_job.py [tables|throughput|memory ...]

Each table is written as CSV and run as ``streamgp run`` would, with nothing set but what is to be predicted from what.
Writes benchmarks/results/main_job.json and the tables in docs/main-job.md; with --render the tables only.
The data need the environment variable STREAMGP_DATA (docs/data.md).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import tempfile
import threading
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import streamgp as sg
from record import measured_on
from reproductions.data import load
from streamgp.evaluate.metrics import coverage, interval_score, rmse
from streamgp.job import Block, Job, Observer
from streamgp.job.scores import shown
from streamgp.tables.writing import PredictedRows

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "main_job.json"
PAGES = (ROOT / "docs" / "main-job.md",)
FROM, WINDOW, LEVEL = 500, 1000, 0.9
FORGETTING = (1.0, 0.999, 0.99)  # of recursive least squares
FOLLOWED = 5_000_000


def bike_hourly() -> tuple[dict[str, np.ndarray], str, dict[str, Any]]:
    table = load("bike_hourly")
    return dict(zip(table.inputs, table.X.T, strict=True)) | {"cnt": table.Y}, "cnt", {"lags": 3}


def gefcom2012_load() -> tuple[dict[str, np.ndarray], str, dict[str, Any]]:
    table = load("gefcom2012_load")
    columns = dict(zip(table.inputs, table.X.T, strict=True)) | {"load": table.Y.sum(1)}
    return columns, "load", {"lags": 48, "horizon": 1}


def joint(name: str) -> tuple[dict[str, np.ndarray], str, dict[str, Any]]:
    table = load(name)
    return dict(zip(table.inputs, table.X.T, strict=True)) | {"torque1": table.Y[:, 0]}, "torque1", {}


def santafe_laser() -> tuple[dict[str, np.ndarray], str, dict[str, Any]]:
    table = load("santafe_laser")
    return {"intensity": np.append(table.X[:, 0], table.Y[-1])}, "intensity", {"lags": 20, "horizon": 1}


def silverbox() -> tuple[dict[str, np.ndarray], str, dict[str, Any]]:
    table = load("silverbox")
    return {"input_V": table.X[:20000, 0], "output_V": table.Y[:20000]}, "output_V", {"lags": 10}


TABLES = {
    "bike_hourly": bike_hourly,
    "gefcom2012_load": gefcom2012_load,
    "sarcos": lambda: joint("sarcos/test"),
    "barrett_wam": lambda: joint("barrett_wam"),
    "santafe_laser": santafe_laser,
    "silverbox": silverbox,
}


def write_csv(path: Path, columns: dict[str, np.ndarray]) -> None:
    with open(path, "w") as file:
        file.write(",".join(columns) + "\n")
        rows = zip(*(map(repr, values.tolist()) for values in columns.values()), strict=True)
        file.writelines(",".join(row) + "\n" for row in rows)


class Kept(Observer):
    """The predictions of a run."""

    def __init__(self) -> None:
        self.parts: list[PredictedRows] = []

    def block(self, block: Block) -> None:
        self.parts.append(block.predicted)

    def __getitem__(self, name: str) -> np.ndarray:
        return np.concatenate([getattr(part, name) for part in self.parts])


def least_squares(columns: dict[str, np.ndarray], target: str, lags: int, horizon: int) -> dict[str, np.ndarray]:
    """Recursive least squares on the same inputs, each prediction before its target: by forgetting."""
    y = columns[target]
    first = 0 if horizon else 1
    lagged = [np.roll(y, k) for k in range(first, first + lags)]
    X = np.column_stack([*(values for name, values in columns.items() if name != target), *lagged])
    start = lags if horizon == 0 else lags - 1
    X = X[start : len(y) - horizon]
    aim = y[start + horizon :]
    found = {}
    for forgetting in FORGETTING:
        scheme = None if forgetting == 1 else sg.Injection(forgetting)
        model = sg.Standardize(sg.OnlineGP(sg.Linear(0.01), noise=1.0, forgetting=scheme, form="cholesky"), warmup=FROM)
        found[f"{forgetting:g}"] = np.concatenate([np.full(start + horizon, np.nan), model.track(X, aim).mean])
    return found


def run_table(name: str, folder: Path) -> dict[str, Any]:
    columns, target, options = TABLES[name]()
    path = folder / f"{name}.csv"
    write_csv(path, columns)
    kept = Kept()
    began, busy = time.perf_counter(), time.process_time()
    summary = Job(path, target, observers=[kept], **options).run()
    seconds, cpu = time.perf_counter() - began, time.process_time() - busy
    later = slice(FROM, None)
    y, mean = kept["observed"][later], kept["mean"][later]
    bounds = kept["lower"][later], kept["upper"][later]
    raw = kept["raw_lower"][later], kept["raw_upper"][later]
    horizon = options.get("horizon", 0)
    previous = np.concatenate([np.full(max(horizon, 1), np.nan), columns[target]])[: len(columns[target])][later]
    linear = least_squares(columns, target, options.get("lags", 0), horizon)
    windows = np.convolve((bounds[0] <= y) & (y <= bounds[1]), np.ones(WINDOW) / WINDOW, "valid")
    chosen = summary.pipeline.chosen
    assert chosen is not None
    return {
        "rows": len(columns[target]),
        "inputs": len(summary.pipeline.input_names),
        "chosen": chosen.name,
        "compared": chosen.scores,
        "rmse": rmse(y, mean),
        "rmse_previous_value": rmse(y, previous),
        "rmse_least_squares": {forgetting: rmse(y, values[later]) for forgetting, values in linear.items()},
        "coverage": coverage(y, *bounds),
        "coverage_windows": [float(windows.min()), float(windows.max())],
        "interval_score": interval_score(y, *bounds, LEVEL),
        "width": float(np.mean(bounds[1] - bounds[0])),
        "raw_coverage": coverage(y, *raw),
        "raw_interval_score": interval_score(y, *raw, LEVEL),
        "mean_log_density": float(np.mean(kept["log_density"][later])),
        "seconds": seconds,
        "processor_seconds": cpu,
    }


def throughput(folder: Path) -> dict[str, Any]:
    """From CSV to CSV, 100 000 rows of 8 columns, no adaptation."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100_000, 8))
    columns = {f"x{i}": X[:, i].round(6) for i in range(8)} | {
        "y": (np.sin(X[:, 0]) + 0.1 * rng.normal(size=100_000)).round(6)
    }
    write_csv(folder / "wide.csv", columns)
    found = {}
    sg.Calibrated(sg.DriftAware(sg.KRLST()))  # loads the compiled core before the clock starts
    for name, settings in (("ISSGPR", {"features": 50}), ("KRLST", {"capacity": 100}), ("SOGP", {"capacity": 100})):
        began, busy = time.perf_counter(), time.process_time()
        Job(folder / "wide.csv", "y", model=name, settings=settings | {"tune": False}, out=folder / "out.csv").run()
        seconds, cpu = time.perf_counter() - began, time.process_time() - busy
        found[", ".join([name, *(f"{key}={value}" for key, value in settings.items())])] = {
            "rows_per_second": 100_000 / seconds,
            "rows_per_processor_second": 100_000 / cpu,
        }
    return found


def memory(folder: Path) -> dict[str, Any]:
    """Follow a file of five million rows: resident memory along the way, in MiB."""
    path = folder / "long.csv"
    rng = np.random.default_rng(0)
    with open(path, "w") as file:
        file.write("a,b,c,y\n")
        for _ in range(FOLLOWED // 100_000):
            block = rng.normal(size=(100_000, 3))
            y = block[:, 0] - 0.5 * block[:, 1] ** 2
            file.write("".join(f"{a:.3f},{b:.3f},{c:.3f},{v:.3f}\n" for (a, b, c), v in zip(block, y, strict=True)))
    stop, found = threading.Event(), {}

    class Watch(Observer):
        def block(self, block: Block) -> None:
            rows = block.pipeline.rows
            if rows % 500_000 < len(block.predicted.row):
                found[str(rows // 500_000 * 500_000)] = resident()
            if rows >= FOLLOWED:
                stop.set()

    settings = {"features": 10, "tune": False}
    began = time.perf_counter()
    job = Job(path, "y", model="ISSGPR", settings=settings, out=folder / "o.csv", follow=True, stop=stop)
    job.observers = [Watch()]
    job.run()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"rows": FOLLOWED, "resident_MiB": found, "peak_MiB": peak, "seconds": time.perf_counter() - began}


def resident() -> float:
    text = Path("/proc/self/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024


PARTS = {"throughput": throughput, "memory": memory}


def rendered(report: dict[str, Any]) -> dict[str, str]:
    """The tables of the page by name."""
    errors = [
        "| table | rows | `--model auto` | previous value | least squares |",
        "|---|---|---|---|---|",
    ]
    intervals = ["| table | coverage | in 1 000 rows | score | own coverage | own score |", "|---|---|---|---|---|---|"]
    for name in TABLES:
        if name not in report.get("tables", {}):
            continue
        found = report["tables"][name]
        values = [found["rmse"], found["rmse_previous_value"], min(found["rmse_least_squares"].values())]
        best = min(values)
        cells = [f"**{shown(value)}**" if value == best else shown(value) for value in values]
        errors.append(f"| {name} | {found['rows']:,} | {' | '.join(cells)} |")
        low, high = found["coverage_windows"]
        scores = [found["interval_score"], found["raw_interval_score"]]
        scored = [f"**{shown(score)}**" if score == min(scores) else shown(score) for score in scores]
        intervals.append(
            f"| {name} | {100 * found['coverage']:.1f}% | {100 * low:.1f}% to {100 * high:.1f}% | {scored[0]} | "
            f"{100 * found['raw_coverage']:.1f}% | {scored[1]} |"
        )
    speed = ["| model | rows in a second of processor time |", "|---|---|"]
    for name, found in report.get("throughput", {}).items():
        speed.append(f"| {name} | {found['rows_per_processor_second']:,.0f} |")
    text = "\n".join(speed)
    if memory := report.get("memory"):
        found = memory["resident_MiB"].values()
        text += f"\n\nFollowing a file of {memory['rows']:,} rows, resident memory every 500 000 rows: "
        text += f"{min(found):.0f} to {max(found):.0f} MiB."
    tables = {"errors": "\n".join(errors), "intervals": "\n".join(intervals), "throughput": text}
    return {name: f"{found}\n\n{measured_on(report)}" for name, found in tables.items()}


def page_with(page: str, report: dict[str, Any]) -> str:
    return filled(page, rendered(report))


def filled(page: str, tables: dict[str, str]) -> str:
    """A page with those tables that it has room for."""
    for name, text in tables.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        if begin in page:
            before, _, rest = page.partition(begin)
            page = before + begin + text + "\n" + end + rest.partition(end)[2]
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", default=[], help="tables, a table, throughput or memory; nothing: all")
    parser.add_argument("--render", action="store_true", help="only write the tables from the saved results")
    arguments = parser.parse_args()
    report = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if not arguments.render:
        asked = arguments.what or [*TABLES, *PARTS]
        asked = [name for word in asked for name in (TABLES if word == "tables" else [word])]
        with tempfile.TemporaryDirectory() as folder:
            for name in asked:
                if name in TABLES and "STREAMGP_DATA" not in os.environ:
                    print(f"{name}: STREAMGP_DATA is not set")
                    continue
                found = run_table(name, Path(folder)) if name in TABLES else PARTS[name](Path(folder))
                if name in TABLES:
                    report.setdefault("tables", {})[name] = found
                else:
                    report[name] = found
                print(name, json.dumps(found))
                report |= {
                    "machine": f"{platform.machine()}, {os.cpu_count()} cores",
                    "versions": {p: version(p) for p in ("numpy", "numba", "scipy")} | {"streamgp": sg.__version__},
                }
                RESULTS.write_text(json.dumps(report, indent=1) + "\n")
    for path in PAGES:
        path.write_text(page_with(path.read_text(), report))


if __name__ == "__main__":
    main()
