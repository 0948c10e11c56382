"""What a row of a fleet of Auto costs, by the number of threads.

    python benchmarks/auto_fleet.py [--size 1000] [--threads 1 2 4 8 16]

Prints microseconds a row, by the clock on the wall and of processor time, of models that have settled: their warm-up is
100 rows, nothing is tuned, and each has learned 400 rows, which all cores share.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np

import streamgp as sg
from streamgp.fleet.workers import Workers

WARMUP, LEARNED, INPUTS = 100, 400, 8
ROWS = 50  # of each model in the call that is measured


def rows(models: int, n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """n rows of each model, one after the other: ids, inputs and targets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(models * n, INPUTS))
    y = np.sin(X[:, 0]) + 0.3 * X[:, 1] * X[:, 2] + 0.2 * rng.normal(size=len(X))
    return np.tile(np.arange(models), n), X, y


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1000, help="models")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    asked = parser.parse_args()
    recipe = sg.Auto(warmup=WARMUP, tune=False, background=False)
    fleet = sg.Fleet(recipe, size=asked.size, threads=os.cpu_count())
    ids, X, y = rows(asked.size, LEARNED, 0)
    fleet.track(X, y, ids=ids)
    for threads in asked.threads:
        ids, X, y = rows(asked.size, ROWS, threads)
        fleet._engine._workers = Workers(threads)
        began, busy = time.perf_counter(), time.process_time()
        fleet.track(X, y, ids=ids)
        wall, processor = time.perf_counter() - began, time.process_time() - busy
        print(f"{threads} threads: {wall / len(y) * 1e6:.0f} us a row, processor {processor / len(y) * 1e6:.0f} us")


if __name__ == "__main__":
    main()
