"""Intervals of models as they are and in Calibrated, on six real streams.

Writes benchmarks/results/calibration.json and the table in docs/intervals.md; with --render only the table, from the
file. The streams need the environment variable STREAMGP_DATA (docs/data.md).
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import streamgp as sg
from reproductions.data import load
from streamgp.evaluate import scores_of

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "calibration.json"
PAGE = ROOT / "docs" / "intervals.md"
BEGIN, END = "<!-- table of calibration.py -->", "<!-- end of table -->"
LEVEL, SKIP, WINDOW = 0.9, 500, 1000
LEVELS, SETTLED = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999), 2000  # coverage of other levels counts from this row on

Rows = tuple[np.ndarray, np.ndarray]


def with_lags(X: np.ndarray, y: np.ndarray, lags: int) -> Rows:
    """Rows of X and the last values of y, newest first; the first rows, whose past is not known, are dropped."""
    past = [y[lags - 1 - lag : len(y) - 1 - lag] for lag in range(lags)]
    return np.column_stack([X[lags:], *past]), y[lags:]


def bike_hourly() -> Rows:
    table = load("bike_hourly")
    return with_lags(table.X, table.Y, 3)


def gefcom2012_load() -> Rows:
    """The total over all zones; no row has lags from before a gap."""
    table = load("gefcom2012_load")
    total = table.Y.sum(1) if table.Y.ndim == 2 else table.Y
    parts = [
        with_lags(X, y, 48)
        for X, y in zip(np.split(table.X, table.starts[1:]), np.split(total, table.starts[1:]), strict=True)
        if len(y) > 48
    ]
    return np.vstack([X for X, _ in parts]), np.concatenate([y for _, y in parts])


def first_joint(name: str) -> Rows:
    table = load(name)
    return table.X, table.Y[:, 0]


def santafe_laser() -> Rows:
    table = load("santafe_laser")
    return with_lags(np.empty((len(table.Y), 0)), table.Y, 20)


def silverbox() -> Rows:
    table = load("silverbox")
    return with_lags(table.X[:20_000], table.Y[:20_000], 10)


STREAMS: dict[str, Callable[[], Rows]] = {
    "bike_hourly": bike_hourly,
    "gefcom2012_load": gefcom2012_load,
    "sarcos": lambda: first_joint("sarcos"),
    "barrett_wam": lambda: first_joint("barrett_wam"),
    "santafe_laser": santafe_laser,
    "silverbox": silverbox,
}

MODELS: dict[str, Callable[[Rows], sg.StreamModel]] = {
    "Standardize(KRLST())": lambda _: sg.Standardize(sg.KRLST()),
    "Standardize(ISSGPR(50))": lambda _: sg.Standardize(sg.ISSGPR(50)),
    "the same, tuned": lambda first: sg.tune(sg.Standardize(sg.ISSGPR(50), warmup=SKIP), *first),
    "Standardize(QKLMS())": lambda _: sg.Standardize(sg.filters.QKLMS()),
}


def run(model: str, X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    calibrated = sg.Calibrated(MODELS[model]((X[:SKIP], y[:SKIP])), level=LEVEL)
    prediction = calibrated.track(X, y)
    result: dict[str, Any] = {"model": model}
    for name, predicted in (("raw", prediction.raw), ("calibrated", prediction)):
        scores = scores_of(predicted, y, LEVEL, SKIP, WINDOW)
        result["rmse"] = scores.rmse
        if np.isfinite(scores.coverage):
            result[name] = {
                "coverage": scores.coverage,
                "lowest": float(scores.windows.min()),
                "highest": float(scores.windows.max()),
                "width": scores.width,
                "interval_score": scores.interval_score,
                "nlpd": scores.nlpd,
                "crps": float(np.mean(predicted[SKIP:].crps(y[SKIP:]))),
                "levels": levels_of(predicted[SETTLED:], y[SETTLED:]),
            }
    return result


def levels_of(prediction: sg.Prediction, y: np.ndarray) -> dict[str, float]:
    """The share of the targets within the interval of each level."""
    surprise = prediction.p_value(y)
    return {f"{level:g}": float(np.mean(surprise > 1.0 - level)) for level in LEVELS}


def measure() -> dict[str, Any]:
    report: dict[str, Any] = {
        "level": LEVEL,
        "after": SKIP,
        "window": WINDOW,
        "machine": platform.machine(),
        "versions": {"python": platform.python_version()}
        | {name: version(name) for name in ("numpy", "numba")}
        | {"streamgp": sg.__version__},
        "streams": {},
    }
    for name, stream in STREAMS.items():
        X, y = stream()
        results = []
        for model in MODELS:
            results.append(run(model, X, y))
            print(name, results[-1], flush=True)
        report["streams"][name] = {"rows": len(y), "inputs": X.shape[1], "results": results}
    return report


def table(report: dict[str, Any]) -> str:
    """By model: the coverage over all streams, and the median gain over the model itself."""
    lines = [
        "| model | coverage, raw | coverage | in windows of 1000 | interval score ratio | CRPS ratio |",
        f"|{'---|' * 6}",
    ]
    for k, model in enumerate(MODELS):
        results = [stream["results"][k] for stream in report["streams"].values()]
        ours = [result["calibrated"] for result in results]
        raw = [result["raw"] for result in results if "raw" in result]
        before, *ratios = "-", "-", "-"
        if raw:
            before = spread([one["coverage"] for one in raw])
            ratios = [
                ratio_to([one[score] for one in ours], [one[score] for one in raw])
                for score in ("interval_score", "crps")
            ]
        windows = spread([one[side] for one in ours for side in ("lowest", "highest")])
        name = f"`{model}`" if "(" in model else model
        cells = name, before, spread([one["coverage"] for one in ours]), windows, *ratios
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"{one_run(report)}; no seeds are involved but the default 0."])


def spread(shares: list[float]) -> str:
    return f"{min(shares):.1%} to {max(shares):.1%}"


def ratio_to(ours: list[float], raw: list[float]) -> str:
    """The median of our scores over the model's own, and the worst."""
    ratios = np.divide(ours, raw)
    return f"{np.median(ratios):.2f} ({ratios.max():.2f})"


def one_run(report: dict[str, Any]) -> str:
    """Where it was measured; the file of results has the other versions."""
    versions = report["versions"]
    return f"One run on {report['machine']}; streamgp {versions['streamgp']}, python {versions['python']}"


def page_with(text: str, report: dict[str, Any]) -> str:
    return replaced(text, BEGIN, END, table(report))


def replaced(text: str, begin: str, end: str, table: str) -> str:
    """A page with another table between two marks."""
    before, rest = text.split(begin)
    return f"{before}{begin}\n\n{table}\n\n{end}{rest.split(end)[1]}"


def command(
    about: str | None,
    measure: Callable[[], dict[str, Any]],
    page_with: Callable[[str, dict[str, Any]], str],
    results: Path,
    page: Path,
) -> None:
    """Measure and write, or with --render write the page from the saved results."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--render", action="store_true", help="only write the table from the saved results")
    if not parser.parse_args().render:
        results.write_text(json.dumps(measure(), indent=1) + "\n")
    page.write_text(page_with(page.read_text(), json.loads(results.read_text())))


if __name__ == "__main__":
    command(__doc__, measure, page_with, RESULTS, PAGE)
