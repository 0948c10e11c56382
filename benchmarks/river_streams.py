"""streamgp with its defaults against River's regressors, on River's bundled streams and hourly bike rentals.

Writes benchmarks/results/river_streams.json. The rentals need the environment variable STREAMGP_DATA (docs/data.md).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from statistics import NormalDist
from typing import Any

from river import base, datasets, forest, linear_model, preprocessing

import streamgp as sg
from record import Record
from streamgp.adapters.river import StreamRegressor
from timing import figures, seconds

COLD = 100  # rows after which a second RMSE begins
LEVELS = (0.9, 0.95)
SEED = 0

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
    said: list[Any] = []

    def pass_over() -> None:
        for x, y in rows:
            said.append(model.predict_one(x, **how))
            model.learn_one(x, y)

    taken = seconds(pass_over)
    means = [p.mu for p in said] if how else said
    squares = [(y - mean) ** 2 for mean, (_, y) in zip(means, rows, strict=True)]
    result: dict[str, Any] = {
        "model": name,
        "rmse": math.sqrt(sum(squares) / len(squares)),
        f"rmse_after_{COLD}": math.sqrt(sum(squares[COLD:]) / len(squares[COLD:])),
        "microseconds_per_row": 1e6 * taken / len(rows),
    }
    for level in LEVELS if how else ():
        half = NormalDist().inv_cdf(0.5 + level / 2)
        inside = [abs(y - p.mu) <= half * p.sigma for p, (_, y) in zip(said, rows, strict=True)]
        result[f"coverage_{level}"] = sum(inside) / len(inside)
    return {key: value if isinstance(value, str) else figures(value) for key, value in result.items()}


def measure(stream: str) -> dict[str, Any]:
    rows = list(STREAMS[stream]())
    return {"rows": len(rows), "results": [run(name, rows) for name in MODELS]}


def main() -> None:
    record = Record("river_streams", ("river",), seed=SEED, cold=COLD, levels=LEVELS)
    for name in MODELS:  # so that nothing is compiled or imported within the measurements
        run(name, list(STREAMS["trump_approval"]())[: 2 * COLD])
    for stream in STREAMS:
        if stream == "bike_hourly" and "STREAMGP_DATA" not in os.environ:
            print("river_streams: bike_hourly is left out; it needs STREAMGP_DATA (docs/data.md)")
            continue
        record.cell(stream, measure, stream)
    record.finish()


if __name__ == "__main__":
    main()
