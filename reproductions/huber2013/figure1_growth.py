"""Fig. 1 (a)-(c): runtime and nll of recursive and other Gaussian processes on the growth model's function.

y = x/2 + 25 x / (1 + x^2) cos(x) + e, x uniform in [-10, 10]; 50 to 200 rows are learned, 200 predicted, s = 20 or 40
elements, the basis of RGP equidistant. The paper says e ~ N(0, 0.1) and gives no hyperparameters: here they maximize
the evidence of the full process on 200 rows of a draw that is no run. It also says that 1 is added to the nll to make
it positive, but with a noise variance of 0.1 the nll of the truth itself is 0.27; with a standard deviation of 0.1 it
is -0.88. So both readings are run.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

import streamgp as sg
from reproductions.framework import Cell, Expected, Experiment, Row, Settings, Table
from streamgp.batch import FullGP

from .rivals import Averages, Problem, block_cells, draw, header, lines, notes, run_block

SIZES = [50, 100, 150, 200]
ELEMENTS = (20, 40)
TEST = 200
TUNING_SEED = 10_000
NOISES = (0.1, 0.01)


@cache
def hyperparameters(noise: float) -> tuple[float, float, float]:
    """Lengthscale, variance and noise that all methods are given."""
    data = sg.data.huber_function(200, seed=TUNING_SEED, noise_std=noise**0.5)
    start = FullGP(sg.SquaredExponential(1.0, variance=10.0), noise=noise)
    found = start.fit(data.X, data.Y, sg.Evidence(restarts=2)).hyperparameters
    return float(found["lengthscale"]), float(found["variance"]), float(found["noise"])


def problem(run: int, noise: float) -> Problem:
    data = sg.data.huber_function(SIZES[-1] + TEST, seed=run, noise_std=noise**0.5)
    lengthscale, variance, fitted = hyperparameters(noise)
    kernel = sg.SquaredExponential(lengthscale, variance=variance)
    low, high = np.array([-10.0]), np.array([10.0])
    return Problem(kernel, fitted, low, high, data.X, data.Y, data.truth, TEST)


def cells(settings: Settings, rows: list[Row]) -> list[Cell]:
    return [cell for noise in NOISES for cell in block_cells(settings, ELEMENTS, noise=noise)]


def run(cell: Cell) -> dict[str, list[float]]:
    """A block of runs of one method."""
    return run_block(cell, SIZES, lambda run: problem(run, cell["noise"]))


def grouped(rows: list[Row]) -> dict[float, Averages]:
    return {noise: Averages([row for row in rows if row["noise"] == noise], SIZES, ELEMENTS) for noise in NOISES}


def summarize(rows: list[Row], expected: Expected) -> Table:
    groups = grouped(rows)
    table = [[str(noise), *line] for noise, group in groups.items() for line in lines(group, expected, f"{noise} ")]
    return Table(["noise variance", *header(groups[NOISES[0]])], table, notes(groups[NOISES[0]]))


def plot(rows: list[Row], path: Path) -> None:
    draw({f"noise variance {noise}": group for noise, group in grouped(rows).items()}, path)


EXPERIMENT = Experiment(
    title="Fig. 1 (a)-(c): runtime and nll on the growth model's function",
    full={"runs": 100},
    quick={"runs": 1},
    cells=cells,
    run=run,
    summarize=summarize,
    plot=plot,
)
