"""Table 3 in both units: the committed runs, as they are and scaled back to the units of the data.

A cell is one standard deviation, of the targets that a run learned: the first half of a series, or a random half. The
errors are those of the other tables' results.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reproductions.data import load
from reproductions.framework import Cell, Expected, Experiment, Row, Settings, Table, Value, find
from reproductions.framework.catalogue import ROOT
from reproductions.framework.runner import finished

from . import table3, table3_likelihood, table3_shuffled
from .sysid import DATA, MODES, NETWORKS, PROCESSES
from .units import UNITS, Errors, fits, lines

FIRST_HALF = -1  # in place of the seed of a draw
COLUMNS = [(data, mode) for data in DATA for mode in MODES]


def cells(settings: Settings, rows: list[Row]) -> list[Cell]:
    draws = (FIRST_HALF, *range(settings["seed"], settings["seed"] + settings["runs"]))
    return [{"data": data, "draw": draw} for data in DATA for draw in draws]


def run(cell: Cell) -> dict[str, Any]:
    table = load(DATA[cell["data"]])
    learned = (
        slice(table.split) if cell["draw"] == FIRST_HALF else table3_shuffled.halves(len(table.Y), cell["draw"])[0]
    )
    return {"spread": float(np.std(table.Y[learned]))}


def summarize(rows: list[Row], expected: Expected) -> Table:
    spreads = {(row["data"], row["draw"]): row["spread"] for row in rows}
    halves = {(data, seed): spreads[data, FIRST_HALF] for data in DATA for seed in range(len(rows))}
    made: list[tuple[str, Errors, dict[tuple[str, int], float]]] = [
        ("", table3.errors_of(_committed("table3")), halves),
        (" by likelihood", table3_likelihood.errors_of(_committed("table3_likelihood")), halves),
        (" with windows at random", table3_shuffled.errors_of(_committed("table3_shuffled")), spreads),
    ]
    table: list[list[str | Value]] = []
    notes = ["Mean (standard deviation) over the runs [the paper's]."]
    for suffix, found, known in made:
        models = (*NETWORKS, *PROCESSES, "mean", "linear")
        table += lines(found, known, COLUMNS, models, expected, UNITS[1], suffix)
        notes += fits(found, known, expected, f"Table 3{suffix}")
    return Table(["model", *(f"{data}, {mode}" for data, mode in COLUMNS)], table, notes)


def _committed(stem: str) -> list[Row]:
    experiment = find(f"alshedivat2017-{stem}")
    return finished(experiment, experiment.full, ROOT)


EXPERIMENT = Experiment(
    title="Table 3 in the units of the data",
    full={"runs": 5, "seed": 0},
    quick={},
    cells=cells,
    run=run,
    summarize=summarize,
)
