"""What a row of a fleet of Auto costs, by the number of threads; building apart from rows of models that have settled.

    python benchmarks/auto_fleet.py [--size 1000] [--threads 1 2 4 8 16]

Some models are built from rows of their own, with a warm-up of 100 rows and without tuning; all others are copies of
them. Writes benchmarks/results/auto_fleet.json and the table in docs/models/auto.md; with --render the table only.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from typing import Any

import numpy as np

import streamgp as sg
from record import RESULTS, ROOT, environment, write
from streamgp.fleet.workers import Workers

PAGE, FILE = ROOT / "docs" / "models" / "auto.md", RESULTS / "auto_fleet.json"
WARMUP, LEARNED, INPUTS = 100, 400, 8
BUILT = 16  # models that are built; all others are copies of them
FIRST = 2  # rows of each model before those that are measured: a copy lays out its members when its first rows come
ROWS = 50  # of each model in a call that is measured


def rows(models: int, n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """n rows of each model, one after the other: ids, inputs and targets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(models * n, INPUTS))
    y = np.sin(X[:, 0]) + 0.3 * X[:, 1] * X[:, 2] + 0.2 * rng.normal(size=len(X))
    return np.tile(np.arange(models), n), X, y


def measured(fleet: sg.Fleet, n: int, seed: int) -> dict[str, float]:
    """Microseconds a row of a call with n rows of each model: on the clock, and of processor time."""
    ids, X, y = rows(len(fleet), n, seed)
    began, busy = time.perf_counter(), time.process_time()
    fleet.track(X, y, ids=ids)
    wall, processor = time.perf_counter() - began, time.process_time() - busy
    return {"us_per_row": 1e6 * wall / len(y), "processor_us_per_row": 1e6 * processor / len(y)}


def run(size: int, threads: list[int]) -> dict[str, Any]:
    """Build a fleet, then measure it with each number of threads."""
    fleet = sg.Fleet(sg.Auto(warmup=WARMUP, tune=False, background=False), size=size, threads=1)
    built = min(BUILT, size)
    began = time.process_time()
    ids, X, y = rows(built, LEARNED, 0)
    fleet.track(X, y, ids=ids)
    seconds = (time.process_time() - began) / built
    print(f"{built} models built: {seconds:.2f} s of processor time each", flush=True)
    engine = fleet._engine
    for i in range(built, size):
        engine.put(i, engine._models[i % built].copy())
    measured(fleet, FIRST, 0)
    found = {}
    for count in threads:
        engine._workers = Workers(count)
        found[str(count)] = cell = measured(fleet, ROWS, count)
        print(f"{count} threads: {', '.join(f'{name} {value:.0f}' for name, value in cell.items())}", flush=True)
    return {"size": size, "rows": ROWS, "learned": LEARNED, "seconds_to_build_one": seconds, "threads": found}


def table(report: dict[str, Any]) -> str:
    """For the page."""
    lines = ["| threads | microseconds a row | rows a second | processor time a row |", "| --- | --- | --- | --- |"]
    for count, cell in report["threads"].items():
        wall, busy = cell["us_per_row"], cell["processor_us_per_row"]
        lines.append(f"| {count} | {wall:.0f} | {1e6 / wall:,.0f} | {busy:.0f} µs |")
    return "\n".join(lines)


def page_with(page: str, report: dict[str, Any]) -> str:
    """The page with the table of these results."""
    block = f"<!-- fleet of auto -->\n\n{table(report)}\n\n<!-- end -->"
    return re.sub("<!-- fleet of auto -->.*?<!-- end -->", lambda _: block, page, flags=re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1000, help="models")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--render", action="store_true", help="write the table only")
    asked = parser.parse_args()
    if not asked.render:
        threads = [count for count in asked.threads if count <= (os.cpu_count() or 1)]
        write(FILE, environment() | run(asked.size, threads))
    if PAGE.exists():
        PAGE.write_text(page_with(PAGE.read_text(), json.loads(FILE.read_text())))


if __name__ == "__main__":
    main()
