"""What a row of a fleet of Auto costs, by the number of threads; building apart from rows of models that have settled.

    python benchmarks/auto_fleet.py [--size 1000] [--threads 1 2 4 8 16]

Some models are built from rows of their own, with a warm-up of 100 rows and without tuning; all others are copies of
them. With several threads they are held by as many processes. Writes benchmarks/results/auto_fleet.json and the table
in docs/models/auto.md; with --render the table only.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import re
import time
from typing import Any

import numpy as np

import streamgp as sg
from record import RESULTS, ROOT, environment, measured_on, write

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


class Copied:
    """A copy of a model, made by the process that gets it.

    Args:
        model: to be copied.
    """

    def __init__(self, model: sg.StreamModel) -> None:
        self._written = pickle.dumps(model)

    def __reduce__(self) -> Any:
        return pickle.loads, (self._written,)


def measured(fleet: sg.Fleet, n: int, seed: int) -> float:
    """Microseconds a row of a call with n rows of each model, on the clock."""
    ids, X, y = rows(len(fleet), n, seed)
    began = time.perf_counter()
    fleet.track(X, y, ids=ids)
    return 1e6 * (time.perf_counter() - began) / len(y)


def filled(recipe: sg.StreamModel, built: list[sg.StreamModel], size: int, threads: int) -> sg.Fleet:
    """A fleet of copies of models, held by as many processes as threads, if there are several."""
    fleet = sg.Fleet(recipe, size=size, threads=threads)
    fleet.replace(0, built[0])
    engine: Any = fleet._engine
    elsewhere, written = engine._remotes is not None, [Copied(model) for model in built]
    for i in range(size):
        engine.put(i, written[i % len(built)] if elsewhere else built[i % len(built)].copy())
    return fleet


def run(size: int, threads: list[int]) -> dict[str, Any]:
    """Build models, then measure a fleet of their copies with each number of threads."""
    recipe = sg.Auto(warmup=WARMUP, tune=False, background=False)
    first = sg.Fleet(recipe, size=min(BUILT, size), threads=1)
    began = time.process_time()
    ids, X, y = rows(len(first), LEARNED, 0)
    first.track(X, y, ids=ids)
    seconds = (time.process_time() - began) / len(first)
    print(f"{len(first)} models built: {seconds:.2f} s of processor time each", flush=True)
    built = [first.model(i) for i in range(len(first))]
    found = {}
    for count in threads:
        fleet = filled(recipe, built, size, count)
        measured(fleet, FIRST, 0)
        found[str(count)] = {"us_per_row": measured(fleet, ROWS, 1)}
        print(f"{count} threads: {found[str(count)]['us_per_row']:.1f} microseconds a row", flush=True)
        del fleet
    return {"size": size, "rows": ROWS, "learned": LEARNED, "seconds_to_build_one": seconds, "threads": found}


def table(report: dict[str, Any]) -> str:
    """For the page."""
    lines = ["| threads | microseconds a row | rows a second | times as fast as one |", "| --- | --- | --- | --- |"]
    alone = report["threads"]["1"]["us_per_row"]
    for count, cell in report["threads"].items():
        wall = cell["us_per_row"]
        lines.append(f"| {count} | {wall:.0f} | {1e6 / wall:,.0f} | {alone / wall:.1f} |")
    return "\n".join([*lines, "", measured_on(report)])


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
