"""streamgp with its defaults against River's regressors, on River's bundled streams and hourly bike rentals.

Writes benchmarks/results/river_streams.json and the table in docs/coming-from-river.md; with --render only the table,
from the file. The rentals need the environment variable STREAMGP_DATA (docs/data.md).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from statistics import NormalDist
from typing import Any

from river import base, datasets, forest, linear_model, preprocessing

import streamgp as sg
from streamgp.adapters.river import StreamRegressor

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "river_streams.json"
PAGE = ROOT / "docs" / "coming-from-river.md"
BEGIN, END = "<!-- table of river_streams.py -->", "<!-- end of table -->"
COLD = 100  # rows after which a second RMSE begins
LEVELS = (0.9, 0.95)
SEED = 0
BAR = "\\|"  # within a table

Stream = Iterator[tuple[dict[str, float], float]]


def water_flow() -> Stream:
    """The time stamp as numbers, and the flow an hour before."""
    previous = 0.0
    for x, y in datasets.WaterFlow():
        yield {"hour": x["Time"].hour, "weekday": x["Time"].weekday(), "previous": previous}, y
        previous = y


def bike_hourly() -> Stream:
    table = sg.data.load("bike_hourly")
    for x, y in zip(table.X.tolist(), table.Y.tolist(), strict=True):
        yield dict(zip(table.inputs, x, strict=True)), y


STREAMS: dict[str, Callable[[], Stream]] = {
    "trump_approval": lambda: iter(datasets.TrumpApproval()),
    "chick_weights": lambda: iter(datasets.ChickWeights()),
    "water_flow": water_flow,
    "bike_hourly": bike_hourly,
}

MODELS: dict[str, Callable[[], base.Regressor]] = {
    "Standardize(KRLST())": lambda: StreamRegressor(sg.Standardize(sg.KRLST())),
    "Standardize(KRLST(estimate_power=True))": lambda: StreamRegressor(sg.Standardize(sg.KRLST(estimate_power=True))),
    "Standardize(ISSGPR())": lambda: StreamRegressor(sg.Standardize(sg.ISSGPR(seed=SEED))),
    "StandardScaler() | LinearRegression()": lambda: preprocessing.StandardScaler() | linear_model.LinearRegression(),
    "BayesianLinearRegression()": linear_model.BayesianLinearRegression,
    "StandardScaler() | ARFRegressor()": lambda: preprocessing.StandardScaler() | forest.ARFRegressor(seed=SEED),
}


def run(name: str, rows: list[tuple[dict[str, float], float]]) -> dict[str, Any]:
    """Predict each row, then learn it: errors, how often intervals held the target, time."""
    model = MODELS[name]()
    how = {"with_dist": True} if name.startswith(("Standardize(", "Bayesian")) else {}
    said = []
    start = time.process_time()  # on a shared machine steadier than the clock, and there is one thread
    for x, y in rows:
        said.append(model.predict_one(x, **how))
        model.learn_one(x, y)
    seconds = time.process_time() - start
    means = [p.mu for p in said] if how else said
    squares = [(y - mean) ** 2 for mean, (_, y) in zip(means, rows, strict=True)]
    result: dict[str, Any] = {
        "model": name,
        "rmse": math.sqrt(sum(squares) / len(squares)),
        f"rmse_after_{COLD}": math.sqrt(sum(squares[COLD:]) / len(squares[COLD:])),
        "microseconds_per_row": 1e6 * seconds / len(rows),
    }
    for level in LEVELS if how else ():
        half = NormalDist().inv_cdf(0.5 + level / 2)
        inside = [abs(y - p.mu) <= half * p.sigma for p, (_, y) in zip(said, rows, strict=True)]
        result[f"coverage_{level}"] = sum(inside) / len(inside)
    return {key: value if isinstance(value, str) else float(f"{value:.4g}") for key, value in result.items()}


def measure() -> dict[str, Any]:
    report: dict[str, Any] = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, one thread",
        "versions": {"python": platform.python_version(), "streamgp": sg.__version__}
        | {name: version(name) for name in ("river", "numpy", "numba")},
        "seed": SEED,
        "streams": {},
    }
    for name in MODELS:  # so that nothing is compiled or imported within the measurements
        run(name, list(STREAMS["trump_approval"]())[: 2 * COLD])
    for stream, read in STREAMS.items():
        rows = list(read())
        report["streams"][stream] = {"rows": len(rows), "results": [run(name, rows) for name in MODELS]}
        for result in report["streams"][stream]["results"]:
            print(stream, result, flush=True)
    return report


def table(report: dict[str, Any]) -> str:
    """The report as a Markdown table; the best RMSE of a stream is bold."""
    levels = [f"coverage_{level}" for level in LEVELS]
    header = [
        "stream",
        "model",
        "RMSE",
        f"RMSE after {COLD} rows",
        *(f"{level:.0%} held" for level in LEVELS),
        "µs/row",
    ]
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    for stream, found in report["streams"].items():
        best = {key: min(r[key] for r in found["results"]) for key in ("rmse", f"rmse_after_{COLD}")}
        for i, r in enumerate(found["results"]):
            cells = [f"{stream}, {found['rows']} rows" if i == 0 else "", f"`{r['model'].replace('|', BAR)}`"]
            cells += [f"**{r[key]:.4g}**" if r[key] == least else f"{r[key]:.4g}" for key, least in best.items()]
            cells += [f"{r[key]:.1%}" if key in r else "-" for key in levels]
            cells.append(f"{r['microseconds_per_row']:.0f}")
            lines.append(f"| {' | '.join(cells)} |")
    versions = ", ".join(f"{name} {number}" for name, number in report["versions"].items())
    return "\n".join([*lines, "", f"One run on {report['machine']}; {versions}; seed {report['seed']}."])


def page_with(text: str, report: dict[str, Any]) -> str:
    """The page with the table between its markers."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{table(report)}\n\n{END}{rest.split(END)[1]}"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument(
        "--render", action="store_true", help="only write the table, from the results that are there"
    )
    if not arguments.parse_args().render:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(measure(), indent=1) + "\n")
    PAGE.write_text(page_with(PAGE.read_text(), json.loads(RESULTS.read_text())))


if __name__ == "__main__":
    main()
