"""Rebase against rebuild, and starts that are ten times off, on Mackey-Glass, Lorenz, laser and NARMA-10.

One stream of 20 000 rows (laser: all of its 10 092), every row predicted, scored and then learnt. RMSE is against the
noise-free next value, NLPD against the observation. ``python reproductions/soh2014/adaptation.py``
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from pathlib import Path

import numpy as np

import streamgp as sg

ROWS, SEED = 20_000, 1
RESULTS = Path(__file__).parent / "results" / "adaptation.json"
# Series, depth, and the lengthscale and temporal lengthscale that a coarse grid found best without adaptation.
SERIES: dict[str, tuple[Callable[[], sg.data.Series], int, float, float]] = {
    "mackey-glass": (lambda: sg.data.mackey_glass(ROWS, seed=SEED), 20, 5.0, 1.01),
    "lorenz": (lambda: sg.data.lorenz(ROWS, seed=SEED), 20, 1.0, 3.0),
    "laser": (lambda: sg.data.laser(seed=SEED), 10, 1.0, 1.2),
    "narma-10": (lambda: sg.data.narma10(ROWS, seed=SEED), 20, 5.0, 1.2),
}


def run(series: sg.data.Series, depth: int, lengthscale: float, temporal: float, adapt: sg.SNGD | None) -> dict:
    scales = np.full(series.X.shape[1], lengthscale)
    model = sg.OIESGP(depth, scales, temporal, capacity=100, noise=0.0025, adapt=adapt)
    p = model.track(series.X, series.Y)
    squared = np.mean(((p.mean - series.truth) ** 2).reshape(len(series.X), -1), axis=1)
    last = squared[int(0.8 * len(squared)) :]
    scores = {
        "rmse": float(np.sqrt(squared.mean())),
        "rmse_last_fifth": float(np.sqrt(last.mean())),
        "nlpd": float(-np.mean(p.log_density(series.Y))),
        "basis": model.size,
        "hyperparameters": {name: np.round(value, 4).tolist() for name, value in model.hyperparameters.items()},
        "reduced_steps": model.health.reduced_steps,
    }
    noise = p.noise.reshape(len(squared), -1)[:, 0]
    moves = np.flatnonzero(np.diff(noise))  # the move is made after this row was learnt
    moves = moves[(moves >= 49) & (moves + 50 < len(squared))]
    if len(moves):
        ratios = [squared[t + 1 : t + 51].mean() / squared[t - 49 : t + 1].mean() for t in moves]
        scores["after_over_before"] = float(np.median(ratios))
    return scores


def main() -> None:
    report: dict[str, object] = {"rows": ROWS, "seed": SEED, "machine": platform.machine()}
    for name, (make, depth, lengthscale, temporal) in SERIES.items():
        series = make()
        cells = {
            "fixed": run(series, depth, lengthscale, temporal, None),
            "rebase": run(series, depth, lengthscale, temporal, sg.SNGD()),
            "rebuild": run(series, depth, lengthscale, temporal, sg.SNGD(on_move="rebuild")),
            "ten times too long": run(series, depth, 10 * lengthscale, temporal, sg.SNGD()),
            "ten times too short": run(series, depth, lengthscale / 10, temporal, sg.SNGD()),
        }
        report[name] = cells
        for cell, scores in cells.items():
            print(f"{name:>13} {cell:<20} {json.dumps(scores)}", flush=True)
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
