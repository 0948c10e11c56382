"""Models alone and in DriftAware: six real streams, and a channel that is switched.

Writes benchmarks/results/drift.json and the table in docs/drift.md; with --render only the table, from the file. The
streams need the environment variable STREAMGP_DATA (docs/data.md).
"""

from __future__ import annotations

import platform
import sys
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import streamgp as sg
from streamgp.evaluate import rmse

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(Path(__file__).parent))
from calibration import STREAMS as TABLES  # noqa: E402
from calibration import command, replaced  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "drift.json"
PAGE = ROOT / "docs" / "drift.md"
BEGIN, END = "<!-- table of drift.py -->", "<!-- end of table -->"
SKIP = 500


def channel_switch() -> tuple[np.ndarray, np.ndarray]:
    series = sg.data.channel_switch(3000, switch=1500, seed=10)
    return series.X, series.Y


STREAMS = {"channel_switch": channel_switch} | TABLES
MODELS: dict[str, Callable[[], sg.StreamModel]] = {
    "Standardize(KRLST())": lambda: sg.Standardize(sg.KRLST()),
    "Standardize(KRLST(forgetting=0.999))": lambda: sg.Standardize(sg.KRLST(forgetting=0.999)),
    "Standardize(ISSGPR(50))": lambda: sg.Standardize(sg.ISSGPR(50)),
}


def run(name: str, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    alone, aware = MODELS[name](), sg.DriftAware(MODELS[name](), history=10_000)
    errors = [rmse(y[SKIP:], model.track(X, y).mean[SKIP:]) for model in (alone, aware)]
    return {"model": name, "alone": errors[0], "aware": errors[1]} | Counter(e.direction for e in aware.events)


def measure() -> dict[str, Any]:
    report: dict[str, Any] = {
        "after": SKIP,
        "machine": platform.machine(),
        "versions": {"python": platform.python_version()}
        | {name: version(name) for name in ("numpy", "numba")}
        | {"streamgp": sg.__version__},
        "streams": {},
    }
    for name, load in STREAMS.items():
        X, y = load()
        report["streams"][name] = {"rows": len(y), "results": [run(model, X, y) for model in MODELS]}
        print(name, report["streams"][name], flush=True)
    return report


def table(report: dict[str, Any]) -> str:
    lines = [
        "| stream | model | RMSE alone | RMSE in `DriftAware` | ratio | alarms | kept |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, stream in report["streams"].items():
        title = f"{name}, {stream['rows']} rows"
        for result in stream["results"]:
            errors = f"{result['alone']:.4g}", f"{result['aware']:.4g}", f"{result['aware'] / result['alone']:.2f}"
            counts = str(result.get("raised", 0)), str(result.get("kept", 0))
            cells = title, f"`{result['model']}`", *errors, *counts
            lines.append(f"| {' | '.join(cells)} |")
            title = ""
    versions = ", ".join(f"{name} {number}" for name, number in report["versions"].items())
    return "\n".join([*lines, "", f"One run on {report['machine']}; {versions}; seed 0, of the channel 10."])


def page_with(text: str, report: dict[str, Any]) -> str:
    return replaced(text, BEGIN, END, table(report))


if __name__ == "__main__":
    command(__doc__, measure, page_with, RESULTS, PAGE)
