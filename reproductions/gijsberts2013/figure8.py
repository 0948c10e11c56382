"""Fig. 8: how the cost of LWPR grows with the rows it has seen: time = c rows^e, fitted. Cells of Fig. 5."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from reproductions.framework import Expected, Experiment, Row, Table, Value

from . import dynamics

Curve = tuple[np.ndarray, np.ndarray]


def curves(rows: list[Row]) -> dict[str, Curve]:
    """Rows seen and microseconds of a row, by stream."""
    return {
        row["data"]: (dynamics.CHUNK * (np.arange(len(row["times"])) + 0.5), np.array(row["times"]))
        for row in rows
        if row["method"] == "LWPR"
    }


def growth(curve: Curve) -> tuple[float, float]:
    """The factor and the exponent of a power law, by least squares of logarithms."""
    seen, times = curve
    exponent, factor = np.polyfit(np.log(seen), np.log(times), 1)
    return float(np.exp(factor)), float(exponent)


def summarize(rows: list[Row], expected: Expected) -> Table:
    fields = {row["data"]: row["fields"] for row in rows if row["method"] == "LWPR"}
    lines: list[list[str | Value]] = []
    for data, curve in curves(rows).items():
        exponent = Value(f"{data} exponent", growth(curve)[1], None, expected.get(f"{data} exponent"), digits=2)
        at_end = Value(f"{data} fields", fields[data], better="neither", digits=0)
        lines.append([data, str(dynamics.CHUNK * len(curve[0])), exponent, at_end])
    notes = [
        "The paper's exponent is 0.76, on 72 850 rows of iCub; the cost of I-SSGPR has exponent 0. Here an output has",
        "at most 1 000 fields, which bounds the cost: Baxter's seven outputs come near that.",
    ]
    return Table(["stream", "rows", "exponent of LWPR's time", "fields at the end"], lines, notes)


def plot(rows: list[Row], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    for data, curve in curves(rows).items():
        factor, exponent = growth(curve)
        (line,) = axis.plot(*curve, ".", label=f"{data}, exponent {exponent:.2f}")
        axis.plot(curve[0], factor * curve[0] ** exponent, color=line.get_color(), lw=1)
    axis.set(xlabel="rows seen", ylabel="microseconds of a row of LWPR", yscale="log")
    axis.legend()
    figure.savefig(path, dpi=110)
    plt.close(figure)


EXPERIMENT = Experiment(
    title="Fig. 8: how the cost of LWPR grows",
    full=dynamics.FULL,
    quick=dynamics.QUICK,
    cells=partial(dynamics.cells, of=("LWPR",)),
    run=dynamics.run,
    summarize=summarize,
    plot=plot,
    shares="figure5",
)
