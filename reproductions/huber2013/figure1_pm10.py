"""Fig. 1 (d)-(f): the same methods on PM10 over Germany, which stands in for the paper's satellite data.

The paper has 10 000 places on one day. Here 69 stations measured through the year 2005: the inputs are the station's
place (in units of 100 km), the output is log(1 + PM10) less its mean over the stations of that day, over its standard
deviation. 500 to 2000 rows are learned, 1000 predicted, s = 25 or 100 elements, the basis of RGP on a regular grid over
the rectangle that holds all stations.

Hyperparameters maximize the evidence of the full process on one row of each station at a time (20 such maps, drawn at
random, share them), as the paper's data have one row at each place: the lengthscale is 104 km then. With all rows
together the evidence prefers 23 km, an independent offset for each station, which no grid of 100 points can follow.

RGP_all, two to three seconds for 2000 rows, has 30 runs instead of 100.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

import streamgp as sg
from reproductions.data import load
from reproductions.framework import Cell, Expected, Experiment, Row, Settings, Table
from streamgp.batch import FullGP

from .rivals import Averages, Problem, block_cells, draw, header, lines, notes, run_block

SIZES = [500, 1000, 1500, 2000]
ELEMENTS = (25, 100)
TEST = 1000
TUNING_SEED = 10_000
MAPS = 20


@cache
def measurements() -> tuple[np.ndarray, np.ndarray]:
    """Places and what is predicted there."""
    table = load("pm10_germany_2005")
    day, level = table.X[:, 2].astype(int), np.log1p(table.Y)
    mean = np.bincount(day, level) / np.maximum(np.bincount(day), 1)
    deviation = level - mean[day]
    return table.X[:, :2] / 1e5, deviation / deviation.std()


@cache
def hyperparameters() -> tuple[float, float, float]:
    """Lengthscale, variance and noise that all methods are given."""
    X, Y = measurements()
    places, station = np.unique(X, axis=0, return_inverse=True)
    rng = np.random.default_rng(TUNING_SEED)
    maps = np.array([rng.choice(Y[station == i], MAPS, replace=False) for i in range(len(places))])
    start = FullGP(sg.SquaredExponential(1.0, variance=0.3), noise=0.7)
    found = start.fit(places, maps, sg.Evidence(restarts=1)).hyperparameters
    return float(found["lengthscale"]), float(found["variance"]), float(found["noise"])


def problem(run: int, most_rows: int) -> Problem:
    X, Y = measurements()
    order = np.random.default_rng(run).permutation(len(X))
    chosen = np.concatenate([order[:most_rows], order[-TEST:]])
    lengthscale, variance, noise = hyperparameters()
    kernel = sg.SquaredExponential(lengthscale, variance=variance)
    return Problem(kernel, noise, X.min(axis=0), X.max(axis=0), X[chosen], Y[chosen], Y[chosen], TEST)


def cells(settings: Settings, rows: list[Row]) -> list[Cell]:
    return block_cells(settings, ELEMENTS, most_rows=settings["most_rows"])


def sizes(most_rows: int) -> list[int]:
    return [n for n in SIZES if n <= most_rows]


def run(cell: Cell) -> dict[str, list[float]]:
    """A block of runs of one method."""
    most = cell["most_rows"]
    return run_block(cell, sizes(most), lambda run: problem(run, most))


def averages(rows: list[Row]) -> Averages:
    return Averages(rows, sizes(max((row["most_rows"] for row in rows), default=SIZES[-1])), ELEMENTS)


def summarize(rows: list[Row], expected: Expected) -> Table:
    found = averages(rows)
    return Table(header(found), lines(found, expected), notes(found))


def plot(rows: list[Row], path: Path) -> None:
    draw({"PM10": averages(rows)}, path)


EXPERIMENT = Experiment(
    title="Fig. 1 (d)-(f): runtime and nll on PM10 over Germany",
    full={"runs": 100, "runs_of_all": 30, "most_rows": 2000},
    quick={"runs": 1, "most_rows": 500},
    cells=cells,
    run=run,
    summarize=summarize,
    plot=plot,
)
