"""What Calibrated, Alarms and DriftAware add to a row in track.

    python benchmarks/wrapper_cost.py [--render]

A model as it is and the same model in each wrapper take blocks of rows in turn, in one process. What a wrapper adds is
the median over rounds of the difference within a round, in microseconds of processor time. Writes
benchmarks/results/wrapper_cost.json and the table in docs/intervals.md; with --render only the table, from the file.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import streamgp as sg
from calibration import PAGE, command, replaced
from contestants import Rows
from record import RESULTS as FOLDER
from record import environment, measured_on
from timing import difference, seconds, summary

RESULTS = FOLDER / "wrapper_cost.json"
BEGIN, END = "<!-- table of wrapper_cost.py -->", "<!-- end of the table of costs -->"
ROUNDS, BLOCK, WARMUP = 31, 2000, 1000
ALONE = "alone"

MODELS: dict[str, Callable[[], sg.StreamModel]] = {
    "ISSGPR(10)": lambda: sg.ISSGPR(10),
    "ISSGPR(50)": lambda: sg.ISSGPR(50),
    "SOGP(capacity=50)": lambda: sg.SOGP(capacity=50),
    "Standardize(KRLST(capacity=50))": lambda: sg.Standardize(sg.KRLST(capacity=50)),
}
WRAPPERS: dict[str, Callable[[sg.StreamModel], sg.StreamModel]] = {
    ALONE: lambda model: model,
    "Calibrated": sg.Calibrated,
    "Alarms": sg.Alarms,
    "DriftAware": sg.DriftAware,
}


def measured(model: str) -> dict[str, Any]:
    models = {name: wrapper(MODELS[model]()) for name, wrapper in WRAPPERS.items()}
    rows, times = Rows(), {name: np.empty(ROUNDS) for name in WRAPPERS}
    X, y = rows.take(WARMUP)
    for one in models.values():
        one.learn_many(X, y)
    with threadpool_limits(limits=1):
        for i in range(ROUNDS):
            X, y = rows.take(BLOCK)
            for name, one in models.items():
                times[name][i] = 1e6 * seconds(partial(one.track, X, y)) / BLOCK
    added = {name: difference(taken, times[ALONE]) for name, taken in times.items() if name != ALONE}
    return {ALONE: summary(times[ALONE]), "added": added}


def measure() -> dict[str, Any]:
    return environment() | {"rounds": ROUNDS, "block": BLOCK, "models": {model: measured(model) for model in MODELS}}


def table(report: dict[str, Any]) -> str:
    wrappers = [name for name in WRAPPERS if name != ALONE]
    lines = [
        f"| model | alone, µs a row | {' | '.join(f'{name} adds' for name in wrappers)} |",
        f"|{'---|' * (2 + len(wrappers))}",
    ]
    for model, found in report["models"].items():
        added = " | ".join(f"{found['added'][name]:.1f}" for name in wrappers)
        lines.append(f"| `{model}` | {found[ALONE]['median']:.1f} | {added} |")
    return "\n".join([*lines, "", measured_on(report)])


def page_with(text: str, report: dict[str, Any]) -> str:
    return replaced(text, BEGIN, END, table(report))


if __name__ == "__main__":
    command(__doc__, measure, page_with, RESULTS, PAGE)
