"""Latency of a row with and without adaptation, one call a row. Writes benchmarks/results/adaptation_latency.json."""

from __future__ import annotations

from typing import Any

import numpy as np

import streamgp as sg
from record import Record
from timing import calls, figures

ROWS, FIRST, WIDTH = 20_000, 3000, 3  # after the first rows the basis is full
ADAPT: dict[str, sg.SNGD | None] = {"fixed": None, "adapting": sg.SNGD(tolerance=0.0)}


def measure(m: int, adapt: sg.SNGD | None) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (ROWS, WIDTH))
    y = np.sin(X).sum(1) + 0.1 * rng.normal(size=ROWS)
    model = sg.SOGP(sg.SquaredExponential([1.0] * WIDTH), capacity=m, noise=0.01, adapt=adapt)
    model.learn_many(X[:FIRST], y[:FIRST])
    times = calls(model.learn_one, list(zip(X[FIRST:], y[FIRST:].tolist(), strict=True)))
    names, values = ("median", "p99", "p99.9"), np.percentile(times, [50, 99, 99.9])
    return {name: figures(value) for name, value in zip(names, values, strict=True)} | {"most": figures(times.max())}


def main() -> None:
    record = Record("adaptation_latency", rows=ROWS, inputs=WIDTH)
    for m in (100, 200):
        for name, adapt in ADAPT.items():
            record.cell(f"m = {m}, {name}", measure, m, adapt)
    record.finish()


if __name__ == "__main__":
    main()
