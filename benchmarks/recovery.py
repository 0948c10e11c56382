"""90% intervals after planted changes, with and without restarting the trackers when DriftAware swaps the model.

    python benchmarks/recovery.py [--jobs 16] [--render]

Changes and noises are those of benchmarks/drift.py. How trackers restart was tried out on seed 0; seeds 10 to 12 are
reported. Writes benchmarks/results/recovery.json and the table in docs/intervals.md; with --render only the table,
from the file.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

import streamgp as sg
from calibration import PAGE, replaced
from drift import CHANGES, ROWS, SEEDS, function, noises
from record import RESULTS as FOLDER
from record import environment, measured_on

RESULTS = FOLDER / "recovery.json"
BEGIN, END = "<!-- table of recovery.py -->", "<!-- end of the table of recovery -->"
LEVEL, AFTER = 0.9, ((0, 100), (100, 200), (200, 500))
WAYS = ("kept", "restarted")
JUMPS = ("abrupt", "abrupt, small", "recurring")


@contextmanager
def keeping() -> Iterator[None]:
    """Trackers go on as they are."""
    restart = sg.Calibrated._restart
    sg.Calibrated._restart = lambda *_: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        sg.Calibrated._restart = restart  # type: ignore[method-assign]


def run(change: str, seed: int) -> dict[str, list[list[list[float]]]]:
    """Coverage and interval scores in the rows after each change, by way."""
    rng = np.random.default_rng([seed, list(CHANGES).index(change)])
    X = rng.uniform(-2, 2, (ROWS, 2))
    y = function(change, rng, X)
    found: dict[str, list[list[list[float]]]] = {way: [] for way in WAYS}
    for noise in noises(rng).values():
        target = y + noise
        with keeping():
            kept = predicted(X, target)
        for way, (low, high) in zip(WAYS, (kept, predicted(X, target)), strict=True):
            inside = (low <= target) & (target <= high)
            outside = np.maximum(low - target, 0.0) + np.maximum(target - high, 0.0)
            score = high - low + 2.0 / (1.0 - LEVEL) * outside
            found[way] += [
                [[float(part[at + a : at + b].mean()) for a, b in AFTER] for part in (inside, score)]
                for at in CHANGES[change]
            ]
    return found


def predicted(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    model = sg.Calibrated(sg.DriftAware(sg.Standardize(sg.KRLST(capacity=50, forgetting=1.0))), level=LEVEL)
    low, high = model.track(X, y).interval()
    return low, high


def measure(jobs: int) -> dict[str, Any]:
    sg.Calibrated(sg.DriftAware(sg.Standardize(sg.KRLST(capacity=50))))  # compiled once
    result: dict[str, Any] = {}
    with ProcessPoolExecutor(jobs) as pool:
        cells = {change: [pool.submit(run, change, seed) for seed in SEEDS] for change in JUMPS}
        for change, runs in cells.items():
            parts = [one.result() for one in runs]
            each = {way: np.array([row for part in parts for row in part[way]]) for way in WAYS}
            result[change] = {
                way: {"coverage": rows[:, 0].mean(axis=0).tolist(), "score": rows[:, 1].mean(axis=0).tolist()}
                for way, rows in each.items()
            } | {"changes": len(each[WAYS[0]])}
            print(change, result[change], flush=True)
    return environment() | {"level": LEVEL, "after": AFTER, "changes": result}


def table(report: dict[str, Any]) -> str:
    """By change and rows after it: coverage of trackers that were kept and of restarted ones, ratio of the scores."""
    head = " | ".join(f"rows {first} to {last}" for first, last in report["after"])
    lines = [f"| change | {head} |", f"|{'---|' * (len(report['after']) + 1)}"]
    for change, found in report["changes"].items():
        kept, restarted = (found[way] for way in WAYS)
        cells = [f"{change}, {found['changes']} changes"]
        for k in range(len(report["after"])):
            ratio = restarted["score"][k] / kept["score"][k]
            cells.append(f"{kept['coverage'][k]:.1%}, {restarted['coverage'][k]:.1%}, {ratio:.2f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", measured_on(report)])


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
