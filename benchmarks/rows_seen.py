"""Cost of a row against the rows seen before it: it must be flat. Writes benchmarks/results/rows_seen.json."""

from __future__ import annotations

import json
import platform
import time
from pathlib import Path

import numba
import numpy as np

import streamgp as sg

ROWS, BLOCK, WIDTH = 200_000, 10_000, 8
RESULTS = Path(__file__).parent / "results" / "rows_seen.json"
MODELS = {
    "ISSGPR cholesky, D = 50": lambda: sg.ISSGPR(50, 3.0),
    "ISSGPR covariance, D = 50": lambda: sg.ISSGPR(50, 3.0, form="covariance"),
    "KRLST, m = 100, forgetting 0.999": lambda: sg.KRLST(sg.SquaredExponential(3.0), 100, 0.999),
    "SOGP, m = 100": lambda: sg.SOGP(sg.SquaredExponential(3.0), 100),
}


def main() -> None:
    rng = np.random.default_rng(0)
    X = 3.0 * rng.normal(size=(BLOCK, WIDTH))
    y = np.sin(X[:, 0])
    models = {name: build() for name, build in MODELS.items()}
    for model in models.values():
        model.track(X[:1000], y[:1000])
    times: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(ROWS // BLOCK):  # interleaved: a noisy moment hits all alike
        for name, model in models.items():
            start = time.perf_counter()
            model.track(X, y)
            times[name].append(1e6 * (time.perf_counter() - start) / BLOCK)
    report = {
        "rows": ROWS,
        "block": BLOCK,
        "inputs": WIDTH,
        "machine": platform.machine(),
        "versions": {"python": platform.python_version(), "numpy": np.__version__, "numba": numba.__version__},
        "microseconds_per_row": {name: [round(value, 2) for value in values] for name, values in times.items()},
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(report, indent=1) + "\n")
    print(f"{'microseconds a row':<36} {'first fifth':>12} {'last fifth':>12} {'ratio':>7}")
    for name, values in times.items():
        fifth = len(values) // 5
        first, last = np.median(values[:fifth]), np.median(values[-fifth:])
        print(f"{name:<36} {first:>12.1f} {last:>12.1f} {last / first:>7.2f}")


if __name__ == "__main__":
    main()
