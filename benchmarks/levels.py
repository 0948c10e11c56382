"""Coverage of Calibrated at six levels after row 2 000, on the streams of benchmarks/auto.py.

    python benchmarks/levels.py [--jobs 16] [--auto] [--render]

Writes benchmarks/results/levels.json and the table in docs/intervals.md; with --render only the table, from the file;
with --auto ``sg.Auto()``, too, which takes minutes for each stream. No setting was chosen here: the steps of the
quantiles were chosen on these streams with other models (docs/intervals.md). The streams need the environment
variable STREAMGP_DATA (docs/data.md).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

import streamgp as sg
from auto_streams import MEASURED, stream
from calibration import LEVELS, PAGE, SETTLED, levels_of, replaced, with_lags
from record import RESULTS as FOLDER
from record import environment, measured_on

RESULTS = FOLDER / "levels.json"
BEGIN, END = "<!-- table of levels.py -->", "<!-- end of the table of levels -->"
LAGS = 3
FEWEST = 1000  # targets after SETTLED that a stream must have

MODELS: dict[str, Callable[[], sg.StreamModel]] = {
    "Calibrated(Standardize(KRLST()))": lambda: sg.Calibrated(sg.Standardize(sg.KRLST())),
    "Calibrated(Standardize(SOGP()))": lambda: sg.Calibrated(sg.Standardize(sg.SOGP())),
}
SLOW: dict[str, Callable[[], sg.StreamModel]] = {"Auto()": sg.Auto}


def measured(model: str, name: str) -> dict[str, Any] | None:
    """Coverage by level and the CRPS beside that of the model itself; None: the stream is too short."""
    found = stream(name)
    known = np.isfinite(found.y)
    X, y = found.X[known], found.y[known]
    if model in MODELS:
        X, y = with_lags(X, y, LAGS)
    if len(y) < SETTLED + FEWEST:
        return None
    with np.errstate(all="ignore"):
        prediction = (MODELS | SLOW)[model]().track(X, y)[SETTLED:]
    y = y[SETTLED:]
    crps = float(np.mean(prediction.crps(y)) / np.mean(prediction.raw.crps(y)))
    return {"rows": len(y), "levels": levels_of(prediction, y), "crps ratio": crps}


def measure(jobs: int, models: list[str]) -> dict[str, Any]:
    for model in models:
        (MODELS | SLOW)[model]()  # compiled once, before there are many processes
    report: dict[str, Any] = environment() | {"after": SETTLED, "models": {model: {} for model in models}}
    with ProcessPoolExecutor(jobs) as pool:
        cells = {(model, name): pool.submit(measured, model, name) for model in models for name in MEASURED}
        for (model, name), cell in cells.items():
            if (found := cell.result()) is not None:
                report["models"][model][name] = found
                print(model, name, found, flush=True)
    return report


def table(report: dict[str, Any]) -> str:
    levels = [f"{level:g}" for level in LEVELS]
    head = ["model", "streams", "coverage", *(f"{100 * level:.4g}%" for level in LEVELS), "CRPS ratio"]
    lines = [head]
    for model, streams in report["models"].items():
        shares = {level: {name: 100 * one["levels"][level] for name, one in streams.items()} for level in levels}
        crps = {name: one["crps ratio"] for name, one in streams.items()}
        median = [f"{np.median(list(shares[level].values())):.2f}" for level in levels]
        lines.append([f"`{model}`", str(len(streams)), "median", *median, f"{np.median(list(crps.values())):.2f}"])
        worst = []
        for level in levels:
            name = max(shares[level], key=lambda name: abs(shares[level][name] - 100 * float(level)))
            worst.append(f"{shares[level][name]:.2f}")
        lines.append(["", "", "farthest", *worst, f"{max(crps.values()):.2f}"])
    first, *rows = (f"| {' | '.join(cells)} |" for cells in lines)
    return "\n".join([first, f"|{'---|' * len(head)}", *rows, "", measured_on(report)])


def render() -> None:
    report = json.loads(RESULTS.read_text())
    PAGE.write_text(replaced(PAGE.read_text(), BEGIN, END, table(report)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--auto", action="store_true")
    parser.add_argument("--render", action="store_true")
    args = parser.parse_args()
    if not args.render:
        found = measure(args.jobs, [*MODELS, *(SLOW if args.auto else [])])
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    render()
