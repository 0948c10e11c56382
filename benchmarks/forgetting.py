"""What forgetting by default gains and costs: calibrated KRLST with six factors, on streams that drift and that do not.

The default was chosen on one set of streams and is reported on another. Writes benchmarks/results/forgetting.json and
the table in docs/intervals.md; with --render only the table, from the file. Needs STREAMGP_DATA (docs/data.md).
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import streamgp as sg
from reproductions.data import load
from streamgp.evaluate import scores_of

sys.path.insert(0, str(Path(__file__).parent))
from calibration import STREAMS as TABLES
from calibration import Rows, command, first_joint, one_run, replaced, with_lags
from drift import PAGE, ROOT, function, surface
from drift import ROWS as PLANTED_ROWS

RESULTS = ROOT / "benchmarks" / "results" / "forgetting.json"
BEGIN, END = "<!-- forgetting by default -->", "<!-- end of forgetting by default -->"
ROWS, SKIP, LEVEL = 5000, 500, 0.9
FACTORS = (1.0, 0.9999, 0.9995, 0.999, 0.995, 0.99)
MODES = ("back-to-prior", "injection")


def planted(change: str, seed: int) -> Rows:
    """The functions of drift.py, under Gaussian noise."""
    rng = np.random.default_rng([seed, 100])
    X = rng.uniform(-2, 2, (PLANTED_ROWS, 2))
    return X, function(change, rng, X) + 0.1 * rng.normal(size=PLANTED_ROWS)


def turning(seed: int) -> Rows:
    """A surface that turns by half a circle within the stream, a little at every row."""
    rng = np.random.default_rng([seed, 101])
    X, angle = rng.uniform(-2, 2, (ROWS, 2)), np.linspace(0.0, np.pi, ROWS)
    z = (X[:, 0] + 1j * X[:, 1]) * np.exp(1j * angle)
    return X, surface(rng, np.column_stack([z.real, z.imag])) + 0.1 * rng.normal(size=ROWS)


def channel(seed: int) -> Rows:
    return rows_of(sg.data.channel_switch(ROWS, switch=ROWS // 2, seed=seed))


def shuffled(series: sg.data.Series) -> Rows:
    order = np.random.default_rng(0).permutation(len(series.Y))
    return series.X[order], series.Y[order]


def lagged(series: sg.data.Series) -> Rows:
    target = series.Y if series.Y.ndim == 1 else series.Y[:, 0]
    return with_lags(np.empty((len(target), 0)), target, 5)


def made(seed: int) -> dict[str, dict[str, Callable[[], Rows]]]:
    return {
        "drifts": {
            f"switched channel, seed {seed}": lambda: channel(seed),
            f"abrupt changes, seed {seed}": lambda: planted("abrupt", seed),
            f"gradual changes, seed {seed}": lambda: planted("gradual", seed),
            f"recurring changes, seed {seed}": lambda: planted("recurring", seed),
            f"turning function, seed {seed}": lambda: turning(seed),
        },
        "stays": {f"no change, seed {seed}": lambda: planted("none", seed)},
    }


def rows_of(series: sg.data.Series) -> Rows:
    return series.X, series.Y


def joined(*parts: dict[str, dict[str, Callable[[], Rows]]]) -> dict[str, dict[str, Callable[[], Rows]]]:
    return {kind: {name: stream for part in parts for name, stream in part.get(kind, {}).items()} for kind in KINDS}


KINDS = ("drifts", "stays", "real, in order of time")
SETS = {
    "chosen on": joined(
        made(0),
        {
            "stays": {
                "Mackey-Glass, 5 lags": lambda: lagged(sg.data.mackey_glass(ROWS)),
                "cross": lambda: rows_of(sg.data.cross(ROWS)),
                "pm10, shuffled": lambda: shuffled(load("pm10_germany_2005")),
            },
            "real, in order of time": {
                name: TABLES[name] for name in ("santafe_laser", "gefcom2012_load", "bike_hourly", "sarcos")
            },
        },
    ),
    "reported on": joined(
        made(10),
        {
            "stays": {
                "kin40k": lambda: rows_of(load("kin40k")),
                "elevators": lambda: rows_of(load("uci_elevators")),
                "pumadyn-32nm": lambda: rows_of(load("uci_pumadyn32nm")),
                "Lorenz, 5 lags": lambda: lagged(sg.data.lorenz(ROWS)),
            },
            "real, in order of time": {
                "barrett_wam": TABLES["barrett_wam"],
                "silverbox": TABLES["silverbox"],
                "gefcom2012_wind, farm 1": lambda: rows_of(load("gefcom2012_wind/1")),
                "baxter_dynamics": lambda: first_joint("baxter_dynamics/inverse"),
                "driving_udacity": lambda: rows_of(load("driving_udacity/round2")),
            },
        },
    ),
}


def run(X: np.ndarray, y: np.ndarray, factor: float, mode: str) -> dict[str, float]:
    model = sg.Calibrated(sg.Standardize(sg.KRLST(forgetting=factor, mode=mode)), LEVEL)
    scores = scores_of(model.track(X, y), y, LEVEL, SKIP, len(y))
    return {"rmse": scores.rmse, "coverage": scores.coverage}


def measure() -> dict[str, Any]:
    report: dict[str, Any] = {
        "rows": ROWS,
        "after": SKIP,
        "level": LEVEL,
        "factors": FACTORS,
        "machine": platform.machine(),
        "versions": {"python": platform.python_version()}
        | {name: version(name) for name in ("numpy", "numba")}
        | {"streamgp": sg.__version__},
        "streams": [],
    }
    for part, kinds in SETS.items():
        for kind, streams in kinds.items():
            for name, stream in streams.items():
                X, y = (column[:ROWS] for column in stream())
                # Without forgetting the modes are one model.
                results = {"1.0": run(X, y, 1.0, MODES[0])}
                for mode in MODES:
                    results |= {f"{factor}, {mode}": run(X, y, factor, mode) for factor in FACTORS[1:]}
                report["streams"].append({"set": part, "kind": kind, "stream": name, "results": results})
                print(report["streams"][-1], flush=True)
    return report


def means(report: dict[str, Any], part: str, kind: str, mode: str) -> np.ndarray:
    """RMSE over that without forgetting, by factor: the geometric mean over the streams of a kind."""
    streams = [s["results"] for s in report["streams"] if s["set"] == part and kind in (s["kind"], "all")]
    logs = [[np.log(s[f"{f}, {mode}"]["rmse"] / s["1.0"]["rmse"]) for f in report["factors"][1:]] for s in streams]
    return np.exp(np.mean(logs, axis=0))


def table(report: dict[str, Any]) -> str:
    factors = report["factors"][1:]
    lines = [
        f"| RMSE over that of `forgetting=1` | mode | {' | '.join(str(factor) for factor in factors)} |",
        "|---" * (len(factors) + 2) + "|",
    ]
    for part in SETS:
        for mode in MODES:
            for kind in (*KINDS, "all"):
                count = sum(s["set"] == part and kind in ("all", s["kind"]) for s in report["streams"])
                if kind != "all" and part == next(iter(SETS)):
                    continue  # the choice was made by the mean over all
                cells = [f"{part}: {kind} ({count})", mode, *(f"{m:.2f}" for m in means(report, part, kind, mode))]
                lines.append(f"| {' | '.join(cells)} |")
    covered = [found["coverage"] for s in report["streams"] for name, found in s["results"].items() if name != "1.0"]
    about = f"Coverage {min(covered):.1%} to {max(covered):.1%}. {one_run(report)}."
    return "\n".join([*lines, "", about])


def page_with(text: str, report: dict[str, Any]) -> str:
    return replaced(text, BEGIN, END, table(report))


if __name__ == "__main__":
    command(__doc__, measure, page_with, RESULTS, PAGE)
