"""streamgp with its defaults against River's regressors, on River's bundled streams and hourly bike rentals.

Writes benchmarks/results/river_streams.json. The rentals need the environment variable STREAMGP_DATA (docs/data.md).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from statistics import NormalDist
from typing import Any

from river import base, conf, datasets, forest, linear_model, preprocessing

import streamgp as sg
from record import Record
from reproductions.data import load
from streamgp.adapters.river import StreamRegressor
from timing import figures, seconds

COLD = 100  # rows after which a second RMSE begins
LEVEL = 0.9
SEED = 0

Stream = Iterator[tuple[dict[str, float], float]]


def water_flow() -> Stream:
    """The time stamp as numbers, and the flow an hour before."""
    previous = 0.0
    for x, y in datasets.WaterFlow():
        yield {"hour": x["Time"].hour, "weekday": x["Time"].weekday(), "previous": previous}, y
        previous = y


def bike_hourly() -> Stream:
    table = load("bike_hourly")
    for x, y in zip(table.X.tolist(), table.Y.tolist(), strict=True):
        yield dict(zip(table.inputs, x, strict=True)), y


STREAMS: dict[str, Callable[[], Stream]] = {
    "trump_approval": lambda: iter(datasets.TrumpApproval()),
    "chick_weights": lambda: iter(datasets.ChickWeights()),
    "water_flow": water_flow,
    "bike_hourly": bike_hourly,
}

MODELS: dict[str, Callable[[], base.Regressor]] = {
    "StreamRegressor()": StreamRegressor,
    "StreamRegressor(Standardize(KRLST()))": lambda: StreamRegressor(sg.Standardize(sg.KRLST())),
    "StreamRegressor(Calibrated(Standardize(ISSGPR())))": lambda: StreamRegressor(
        sg.Calibrated(sg.Standardize(sg.ISSGPR(seed=SEED)))
    ),
    "StandardScaler() | LinearRegression()": lambda: preprocessing.StandardScaler() | linear_model.LinearRegression(),
    "BayesianLinearRegression()": linear_model.BayesianLinearRegression,
    "StandardScaler() | ARFRegressor()": lambda: preprocessing.StandardScaler() | forest.ARFRegressor(seed=SEED),
}


def has_intervals(model: base.Regressor) -> bool:
    return isinstance(model, StreamRegressor | linear_model.BayesianLinearRegression)


def interval(model: base.Regressor, x: dict[str, float]) -> conf.Interval:
    """The central interval of one that has them."""
    if isinstance(model, StreamRegressor):
        return model.predict_one(x, with_interval=True)
    said = model.predict_one(x, with_dist=True)
    half = NormalDist().inv_cdf(0.5 + LEVEL / 2) * said.sigma
    return conf.Interval(said.mu - half, said.mu + half)


def run(name: str, rows: list[tuple[dict[str, float], float]]) -> dict[str, Any]:
    """Predict each row, then learn it: errors and time; once more, where there are intervals, how often they held."""
    model, squares = MODELS[name](), []

    def pass_over() -> None:
        for x, y in rows:
            squares.append((y - model.predict_one(x)) ** 2)
            model.learn_one(x, y)

    taken = seconds(pass_over)
    result: dict[str, Any] = {
        "model": name,
        "rmse": math.sqrt(sum(squares) / len(squares)),
        f"rmse_after_{COLD}": math.sqrt(sum(squares[COLD:]) / len(squares[COLD:])),
        "microseconds_per_row": 1e6 * taken / len(rows),
    }
    if has_intervals(model):
        model, inside = MODELS[name](), 0
        for x, y in rows:
            inside += y in interval(model, x)
            model.learn_one(x, y)
        result["coverage"] = inside / len(rows)
    return {key: value if isinstance(value, str) else figures(value) for key, value in result.items()}


def measure(stream: str) -> dict[str, Any]:
    rows = list(STREAMS[stream]())
    return {"rows": len(rows), "results": [run(name, rows) for name in MODELS]}


def main() -> None:
    record = Record("river_streams", ("river",), seed=SEED, cold=COLD, level=LEVEL)
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
