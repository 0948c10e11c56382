"""Fig. 7: final error of I-SSGPR against the processor time of a row, for 25 to 200 features. Cells of Fig. 5."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from reproductions.framework import Expected, Experiment, Row, Table, Value

from . import dynamics

FEATURES = sorted(dynamics.FEATURES)


def points(rows: list[Row]) -> dict[tuple[str, int], tuple[float, float]]:
    """Median error and time of a row for every stream and number of features."""
    found: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for row in rows:
        if row["method"] == "I-SSGPR":
            found.setdefault((row["data"], row["features"]), []).append((row["nmse"], row["microseconds"]))
    return {key: (float(np.median([e for e, _ in runs])), min(t for _, t in runs)) for key, runs in found.items()}


def summarize(rows: list[Row], expected: Expected) -> Table:
    found = points(rows)
    lines: list[list[str | Value]] = []
    for data in dict.fromkeys(data for data, _ in found):
        line: list[str | Value] = [data]
        for D in FEATURES:
            if (data, D) in found:
                error, time = found[data, D]
                line += [Value(f"{data} {D}", error), Value(f"{data} {D} microseconds", time, digits=0)]
            else:
                line += ["-", "-"]
        lines.append(line)
    header = ["stream", *(text for D in FEATURES for text in (f"nMSE, D = {D}", "microseconds"))]
    return Table(header, lines, ["The paper: the error falls with D until it reaches an asymptote."])


def plot(rows: list[Row], path: Path) -> None:
    import matplotlib.pyplot as plt

    found = points(rows)
    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    axis.set(xscale="log", yscale="log")
    for data in dict.fromkeys(data for data, _ in found):
        features = [D for D in FEATURES if (data, D) in found]
        errors, times = zip(*(found[data, D] for D in features), strict=True)
        axis.plot(times, errors, "o-", label=data)
    times_of = {D: max(time for (_, other), (_, time) in found.items() if other == D) for _, D in found}
    axis.set_xticks(list(times_of.values()), [f"{time:.0f}\nD = {D}" for D, time in times_of.items()])
    axis.minorticks_off()
    axis.set_yticks([0.03, 0.05, 0.1, 0.2, 0.3], ["0.03", "0.05", "0.1", "0.2", "0.3"])
    axis.set(xlabel="microseconds of a row", ylabel="final nMSE")
    axis.legend()
    figure.savefig(path, dpi=110)
    plt.close(figure)


EXPERIMENT = Experiment(
    title="Fig. 7: error of I-SSGPR against its cost",
    full=dynamics.FULL,
    quick=dynamics.QUICK,
    cells=partial(dynamics.cells, of=("I-SSGPR",)),
    run=dynamics.run,
    summarize=summarize,
    plot=plot,
    shares="figure5",
)
