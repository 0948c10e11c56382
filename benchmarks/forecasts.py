"""Coverage of forecasts whose trajectories follow one draw of the function, and of others for the file.

Writes benchmarks/results/forecasts.json and the table in docs/forecasts.md; with --render only the table, from the
file. The laser and the load need the environment variable STREAMGP_DATA (docs/data.md).

With m4, m4-weekly or m3-monthly instead: the series of these competitions (competitions.py). With gefcom: loads 24
hours ahead with the temperature (loads.py).
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
from reproductions.data import load
from streamgp.contract.freerun import Independent
from streamgp.process.function import Function

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(Path(__file__).parent))
import competitions  # noqa: E402
import loads  # noqa: E402
from calibration import command, one_run, replaced  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "forecasts.json"
PAGE = ROOT / "docs" / "forecasts.md"
BEGIN, END = "<!-- table of forecasts.py -->", "<!-- end of table -->"
LEVEL, STEPS, ORIGINS = 0.9, (10, 50), 40
WAYS = ("drawn anew", "one draw")


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
    "santafe_laser": (lambda: load("santafe_laser").Y, 8, 300, 23),
    "gefcom2012_load": (lambda: load("gefcom2012_load").Y.mean(1), 24, 500, 31),
}


# Series that follow a draw of the process that the model supposes: lengthscale and variance, noise, rows learned.
SUPPOSED, NOISE, LEARNED = 1.5, 0.0025, 12


def supposed(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of two lags and targets; the function is drawn as the series goes, by dense matrices of all rows so far."""
    rng = np.random.default_rng(seed)

    def kernel(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        return np.asarray(SUPPOSED * np.exp(-0.5 * ((A[:, None] - B) ** 2).sum(2) / SUPPOSED**2))

    y, X, f = list(0.5 * rng.standard_normal(2)), np.empty((0, 2)), np.empty(0)
    for _ in range(LEARNED + max(STEPS)):
        x = np.array([y[-1:-3:-1]])
        gain = np.linalg.solve(kernel(X, X) + 1e-9 * np.eye(len(X)), kernel(X, x))[:, 0]
        left = max(SUPPOSED - gain @ kernel(X, x)[:, 0], 1e-9)
        f = np.append(f, gain @ f + np.sqrt(left) * rng.standard_normal())
        X = np.vstack([X, x])
        y.append(f[-1] + np.sqrt(NOISE) * rng.standard_normal())
    return X, np.array(y[2:])


def learned_supposed(seed: int) -> tuple[sg.StreamModel, np.ndarray]:
    """A model that has learned such a series with the right kernel and noise, and the targets to come."""
    X, Y = supposed(seed)
    model = sg.SOGP(sg.SquaredExponential(SUPPOSED, variance=SUPPOSED), capacity=LEARNED, novelty=0, noise=NOISE)
    model.learn_many(X[:LEARNED], Y[:LEARNED])
    return model, Y[LEARNED:]


@contextmanager
def drawn_anew() -> Iterator[None]:
    """Every step draws the function anew."""
    kept = Function.trajectories
    Function.trajectories = lambda self, count, *_: Independent(self.model, count)  # type: ignore[method-assign]
    try:
        yield
    finally:
        Function.trajectories = kept  # type: ignore[method-assign]


def run(name: str) -> dict[str, Any]:
    series, lags, first, every = SERIES[name]
    y = series()[: first + ORIGINS * every + max(STEPS) + lags]
    X, Y = np.column_stack([y[lags - 1 - j : len(y) - 1 - j] for j in range(lags)]), y[lags:]
    model = sg.tune(sg.Standardize(sg.SOGP(capacity=100), warmup=first), X[:first], Y[:first])
    model.learn_many(X[:first], Y[:first])
    learned, last, found = first, first + ORIGINS * every, []
    ahead = intervals(model.copy().track(X[first:last], Y[first:last]), Y[first:last])
    for origin in range(first, last, every):
        model.learn_many(X[learned:origin], Y[learned:origin])
        learned = origin
        found.append(both_ways(model, lags, Y[origin : origin + max(STEPS)]))
    result = {"title": f"{name}, {lags} lags, from row {first} on", **summary(found, float(np.std(Y)))}
    for way in WAYS:  # all rows, one step ahead: there both ways are the same
        result[way]["1"] = {"coverage": float(ahead[0].mean()), "width": float(ahead[1].mean() / np.std(Y))}
    return result


def run_supposed() -> dict[str, Any]:
    series = [learned_supposed(seed) for seed in range(ORIGINS)]
    spread = float(np.std([truth for _, truth in series]))
    found = [both_ways(model, 2, truth) for model, truth in series]
    return {
        "title": f"{ORIGINS} draws of the supposed process, 2 lags, from row {LEARNED} on",
        **summary(found, spread),
    }


def both_ways(model: sg.StreamModel, lags: int, truth: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """What lies inside, and the widths, in each of WAYS."""
    with drawn_anew():
        before = scored(model, lags, truth)
    return [before, scored(model, lags, truth)]


def summary(found: list[Any], spread: float) -> dict[str, Any]:
    """Coverage and width by way and steps, over all forecasts."""
    inside, width = np.moveaxis(np.array(found, dtype=float), 2, 0)
    return {
        way: {
            str(n): {"coverage": float(inside[:, w, :n].mean()), "width": float(width[:, w, :n].mean() / spread)}
            for n in (1, *STEPS)
        }
        for w, way in enumerate(WAYS)
    }


def scored(model: sg.StreamModel, lags: int, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return intervals(model.forecast(len(truth), feedback=list(range(lags))), truth)


def intervals(prediction: sg.Prediction, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which targets lie inside, and the widths."""
    low, high = prediction.interval(LEVEL)
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
    for name in ("supposed", *SERIES):
        report["series"][name] = run_supposed() if name == "supposed" else run(name)
        print(name, report["series"][name], flush=True)
    return report


def table(report: dict[str, Any]) -> str:
    """One line for each series; by steps: coverage and width."""
    header = ["series", *("step 1" if n == 1 else f"1 to {n}" for n in (1, *STEPS))]
    rows = [header]
    for series in report["series"].values():
        found = (series["one draw"][str(n)] for n in (1, *STEPS))
        rows.append([series["title"], *(f"{one['coverage']:.1%}, {one['width']:.2f}" for one in found)])
    first, *lines = (f"| {' | '.join(cells)} |" for cells in rows)
    return "\n".join([first, f"|{'---|' * len(header)}", *lines, "", f"{one_run(report)}; seed 0."])


def page_with(text: str, report: dict[str, Any]) -> str:
    return replaced(text, BEGIN, END, table(report))


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in competitions.COMPETITIONS:
        competitions.command(sys.argv[1:])
    elif sys.argv[1:2] == ["gefcom"]:
        loads.command(sys.argv[1:])
    else:
        command(__doc__, measure, page_with, RESULTS, PAGE)
