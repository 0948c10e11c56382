"""Coverage of forecasts whose trajectories follow one draw of the function, and of those that draw it anew every step.

Writes benchmarks/results/forecasts.json and the table in docs/forecasts.md; with --render only the table, from the
file. The laser and the load need the environment variable STREAMGP_DATA (docs/data.md).
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import streamgp as sg
from streamgp.contract.freerun import Independent

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(Path(__file__).parent))
from calibration import command, replaced  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "forecasts.json"
PAGE = ROOT / "docs" / "forecasts.md"
BEGIN, END = "<!-- table of forecasts.py -->", "<!-- end of table -->"
LEVEL, STEPS, ORIGINS = 0.9, (10, 50), 40


def synthetic() -> np.ndarray:
    """A noisy nonlinear oscillator: y_t = 1.8 tanh(1.6 y_(t-1)) - 0.9 y_(t-2) + 0.1 noise."""
    rng = np.random.default_rng(0)
    y = np.zeros(3000)
    for t in range(2, len(y)):
        y[t] = 1.8 * np.tanh(1.6 * y[t - 1]) - 0.9 * y[t - 2] + 0.1 * rng.standard_normal()
    return y


# The series, how many lags are inputs, after how many rows the first forecast begins, rows from one to the next.
SERIES: dict[str, tuple[Callable[[], np.ndarray], int, int, int]] = {
    "synthetic": (synthetic, 2, 50, 5),
    "santafe_laser": (lambda: sg.data.load("santafe_laser").Y, 8, 300, 23),
    "gefcom2012_load": (lambda: sg.data.load("gefcom2012_load").Y.mean(1), 24, 500, 31),
}


@contextmanager
def drawn_anew() -> Iterator[None]:
    """Every step draws the function anew."""
    kept = sg.OnlineGP._trajectories
    sg.OnlineGP._trajectories = lambda self, count, *_: Independent(self, count)  # type: ignore[method-assign]
    try:
        yield
    finally:
        sg.OnlineGP._trajectories = kept  # type: ignore[method-assign]


def run(name: str) -> dict[str, Any]:
    load, lags, first, every = SERIES[name]
    y = load()[: first + ORIGINS * every + max(STEPS) + lags]
    X, Y = np.column_stack([y[lags - 1 - j : len(y) - 1 - j] for j in range(lags)]), y[lags:]
    model = sg.tune(sg.Standardize(sg.SOGP(capacity=100), warmup=first), X[:first], Y[:first])
    found: dict[str, list[Any]] = {"one draw": [], "drawn anew": []}
    learnt = 0
    for origin in range(first, first + ORIGINS * every, every):
        model.learn_many(X[learnt:origin], Y[learnt:origin])
        learnt, truth = origin, Y[origin : origin + max(STEPS)]
        found["one draw"].append(scored(model, lags, truth))
        with drawn_anew():
            found["drawn anew"].append(scored(model, lags, truth))
    result: dict[str, Any] = {"lags": lags, "first": first, "every": every}
    for way, forecasts in found.items():
        inside, width = (np.array(part) for part in zip(*forecasts, strict=True))
        scale = float(np.std(Y))
        result[way] = {
            str(n): {"coverage": float(inside[:, :n].mean()), "width": float(width[:, :n].mean() / scale)}
            for n in STEPS
        }
    return result


def scored(model: sg.StreamModel, lags: int, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    low, high = model.forecast(len(truth), feedback=list(range(lags))).interval(LEVEL)
    return (low <= truth) & (truth <= high), np.asarray(high - low)


def measure() -> dict[str, Any]:
    report: dict[str, Any] = {
        "level": LEVEL,
        "origins": ORIGINS,
        "machine": platform.machine(),
        "versions": {"python": platform.python_version()}
        | {name: version(name) for name in ("numpy", "numba")}
        | {"streamgp": sg.__version__},
        "series": {},
    }
    for name in SERIES:
        report["series"][name] = run(name)
        print(name, report["series"][name], flush=True)
    return report


def table(report: dict[str, Any]) -> str:
    lines = [
        "| series | steps | coverage, drawn anew | coverage, one draw | width, drawn anew | width, one draw |",
        "|---|---|---|---|---|---|",
    ]
    for name, series in report["series"].items():
        title = f"{name}, {series['lags']} lags, from row {series['first']} on"
        for n in STEPS:
            old, new = series["drawn anew"][str(n)], series["one draw"][str(n)]
            shares = f"{old['coverage']:.1%}", f"{new['coverage']:.1%}", f"{old['width']:.2f}", f"{new['width']:.2f}"
            lines.append(f"| {' | '.join((title, f'1 to {n}', *shares))} |")
            title = ""
    versions = ", ".join(f"{name} {number}" for name, number in report["versions"].items())
    return "\n".join([*lines, "", f"One run on {report['machine']}; {versions}; seed 0."])


def page_with(text: str, report: dict[str, Any]) -> str:
    return replaced(text, BEGIN, END, table(report))


if __name__ == "__main__":
    command(__doc__, measure, page_with, RESULTS, PAGE)
