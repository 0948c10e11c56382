"""Latency of a row with and without adaptation, one call a row. Writes benchmarks/results/adaptation_latency.json."""

from __future__ import annotations

import json
import platform
import time
from pathlib import Path

import numpy as np

import streamgp as sg

ROWS, WIDTH = 20_000, 3
RESULTS = Path(__file__).parent / "results" / "adaptation_latency.json"


def latencies(model: sg.StreamModel, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    model.learn_many(X[:3000], y[:3000])  # the basis has filled
    times = np.empty(len(X) - 3000)
    for t in range(3000, len(X)):
        start = time.perf_counter()
        model.learn_one(X[t], y[t])
        times[t - 3000] = time.perf_counter() - start
    return 1e6 * times


def main() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (ROWS, WIDTH))
    y = np.sin(X).sum(1) + 0.1 * rng.normal(size=ROWS)
    report: dict[str, object] = {"rows": ROWS, "inputs": WIDTH, "machine": platform.machine(), "microseconds": {}}
    print(f"{'SOGP, microseconds a row':<28} {'median':>8} {'p99':>8} {'p99.9':>9} {'most':>9}")
    for m in (100, 200):
        for name, adapt in (("fixed", None), ("SNGD", sg.SNGD(tolerance=0.0))):
            model = sg.SOGP(sg.SquaredExponential([1.0] * WIDTH), capacity=m, noise=0.01, adapt=adapt)
            times = latencies(model, X, y)
            figures = [float(f) for f in (*np.percentile(times, [50, 99, 99.9]), times.max())]
            report["microseconds"][f"m = {m}, {name}"] = [round(f, 1) for f in figures]  # type: ignore[index]
            print(f"m = {m}, {name:<20} " + " ".join(f"{f:>8.0f}" for f in figures), flush=True)
    RESULTS.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
