"""Coverage of forecasts by steps ahead: of a model as it is, and in CalibratedForecasts.

    python benchmarks/horizons.py [--jobs 6] [--render]

Series of past values alone; a model forecasts 50 rows after every tenth row, and learns all of them. Nothing was chosen
on these series: the settings of the trackers are those of Calibrated. What chance does to the coverage of one step is
told by blocks of 20 forecasts that follow each other: the standard error of the mean over all is that of the means of
the blocks. A step is outside by more than chance if it lies outside 88 to 92% by more than two standard errors.

Writes benchmarks/results/horizons.json and the table in docs/forecasts.md; with --render only the table, from the file.
The series need the environment variable STREAMGP_DATA (docs/data.md).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

import streamgp as sg
from auto_streams import stream
from calibration import replaced
from forecasts import PAGE, synthetic
from record import RESULTS as FOLDER
from record import environment, measured_on

RESULTS = FOLDER / "horizons.json"
BEGIN, END = "<!-- table of horizons.py -->", "<!-- end of the table of horizons -->"
LEVEL, STEPS, EVERY, FIRST, FORECASTS, SETTLED, TRAJECTORIES = 0.9, 50, 10, 300, 500, 100, 30
BLOCK, ALLOWED, ERRORS = 20, (0.88, 0.92), 2.0
GROUPS = (1, 1), (2, 5), (6, 10), (11, 25), (26, 50)

# The series, and how many lags are inputs.
SERIES: dict[str, tuple[Callable[[], np.ndarray], int]] = {
    "synthetic": (synthetic, 2),
    "santafe_laser": (lambda: stream("santafe_laser").y, 8),
    "gefcom2012_load, total": (lambda: stream("gefcom2012_load, total").y, 24),
    "gefcom2012_wind, farm 1": (lambda: stream("gefcom2012_wind, farm 1").y, 3),
    "bike_hourly": (lambda: stream("bike_hourly").y, 24),
    "driving_udacity": (lambda: stream("driving_udacity").y, 3),
    "barrett_wam": (lambda: stream("barrett_wam").y, 3),
}


def measured(name: str) -> dict[str, Any]:
    series, lags = SERIES[name]
    y = series()
    y = y[np.isfinite(y)]
    X, Y = np.column_stack([y[lags - 1 - j : len(y) - 1 - j] for j in range(lags)]), y[lags:]
    tuned = sg.tune(sg.Standardize(sg.SOGP(capacity=50), warmup=FIRST), X[:FIRST], Y[:FIRST])
    model = sg.CalibratedForecasts(tuned, steps=STEPS, level=LEVEL)
    model.learn_many(X[:FIRST], Y[:FIRST])
    count = min(FORECASTS, (len(Y) - FIRST - STEPS) // EVERY)
    inside, scores = np.empty((2, count, STEPS)), np.empty((2, count, STEPS))
    for i in range(count):
        at = FIRST + i * EVERY
        p = model.issue_forecast(STEPS, feedback=list(range(lags)), trajectories=TRAJECTORIES)
        target = Y[at : at + STEPS]
        for k, (low, high) in enumerate((p.raw.interval(LEVEL), p.interval(LEVEL))):
            inside[k, i] = (low <= target) & (target <= high)
            outside = np.maximum(low - target, 0.0) + np.maximum(target - high, 0.0)
            scores[k, i] = high - low + 2.0 / (1.0 - LEVEL) * outside
        model.learn_many(X[at : at + EVERY], Y[at : at + EVERY])
    groups = {}
    for first, last in GROUPS:
        part = slice(first - 1, last)
        groups[f"{first} to {last}" if last > first else f"{first}"] = {
            "raw": float(inside[0, SETTLED:, part].mean()),
            "calibrated": float(inside[1, SETTLED:, part].mean()),
            "score ratio": float(scores[1, SETTLED:, part].mean() / scores[0, SETTLED:, part].mean()),
        }
    by_step = inside[1, SETTLED:].mean(axis=0)
    blocks = inside[1, SETTLED:][: (count - SETTLED) // BLOCK * BLOCK].reshape(-1, BLOCK, STEPS).mean(axis=1)
    errors = blocks.std(axis=0, ddof=1) / np.sqrt(len(blocks))
    below, above = ALLOWED[0] - ERRORS * errors, ALLOWED[1] + ERRORS * errors
    single = {
        "lowest step": float(by_step.min()),
        "highest step": float(by_step.max()),
        "standard error": float(np.median(errors)),
        "beyond": int(np.sum((by_step < ALLOWED[0]) | (by_step > ALLOWED[1]))),
        "outside": int(np.sum((by_step < below) | (by_step > above))),
    }
    return {"forecasts": count - SETTLED, "lags": lags, "groups": groups} | single


def measure(jobs: int) -> dict[str, Any]:
    sg.CalibratedForecasts(sg.Standardize(sg.SOGP()))  # compiled once, before there are many processes
    with ProcessPoolExecutor(jobs) as pool:
        cells = {name: pool.submit(measured, name) for name in SERIES}
        found = {}
        for name, cell in cells.items():
            found[name] = cell.result()
            print(name, found[name], flush=True)
    return environment() | {"level": LEVEL, "every": EVERY, "series": found}


SHOWN = ("1", "6 to 10", "26 to 50")  # groups of steps on the page; the file of results has all


def table(report: dict[str, Any]) -> str:
    """One line for each series; by steps: coverage as it is, coverage when calibrated, and the ratio of the scores."""
    header = ["series", *(f"step {steps}" if steps == "1" else f"{steps}" for steps in SHOWN)]
    rows = [[*header, "calibrated, any one step"]]
    for name, one in report["series"].items():
        found = (one["groups"][steps] for steps in SHOWN)
        cells = (f"{group['raw']:.1%}, {group['calibrated']:.1%}, {group['score ratio']:.2f}" for group in found)
        extremes = f"{one['lowest step']:.1%} to {one['highest step']:.1%}"
        rows.append([f"{name}, {one['lags']} lags", *cells, extremes])
    first, *lines = (f"| {' | '.join(cells)} |" for cells in rows)
    return "\n".join([first, f"|{'---|' * (len(header) + 1)}", *lines, "", measured_on(report)])


def render() -> None:
    PAGE.write_text(replaced(PAGE.read_text(), BEGIN, END, table(json.loads(RESULTS.read_text()))))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--render", action="store_true")
    args = parser.parse_args()
    if not args.render:
        RESULTS.write_text(json.dumps(measure(args.jobs), indent=1) + "\n")
    render()
