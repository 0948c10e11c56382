"""Fig. 6: processor time of a row as rows go by. Prediction and learning together; of GPR the prediction alone.

The cells are those of Fig. 5. A call that tracks 250 rows is timed as a whole, so the time of calling is not in it.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from reproductions.framework import Expected, Experiment, Row, Table, Value

from . import dynamics

METHODS = {"I-SSGPR 50": "tab:orange", "I-SSGPR 200": "tab:red", "LWPR": "tab:blue"}


def times_of(rows: list[Row]) -> np.ndarray:
    """Microseconds of a row in each chunk of the stream, the fastest run of several."""
    return np.min([row["times"] for row in rows], axis=0)


def summarize(rows: list[Row], expected: Expected) -> Table:
    found = dynamics.by_method(rows)
    lines: list[list[str | Value]] = []
    for data in dynamics.STREAMS:
        for method in METHODS:
            if (data, method) in found:
                times = times_of(found[data, method])
                tenth = max(1, len(times) // 10)
                key = f"{data} {method}"
                first, last = float(np.median(times[:tenth])), float(np.median(times[-tenth:]))
                lines.append(
                    [
                        data,
                        method,
                        Value(f"{key} first", first, None, expected.get(f"{method} first"), digits=0),
                        Value(f"{key} last", last, None, expected.get(f"{method} last"), digits=0),
                        _fields(key, found[data, method][0]),
                    ]
                )
        if (data, "GPR") in found:
            time = found[data, "GPR"][0]["microseconds"]
            lines.append([data, "GPR", Value(f"{data} GPR", time, digits=0), "-", "-"])
    return Table(
        ["stream", "method", "microseconds, first tenth of the rows", "last tenth", "fields at the end"],
        lines,
        ["The paper's times of I-SSGPR are those of its machine in 2012, the same for all its streams."],
    )


def _fields(key: str, row: Row) -> str | Value:
    return Value(f"{key} fields", row["fields"], better="neither", digits=0) if "fields" in row else "-"


def plot(rows: list[Row], path: Path) -> None:
    import matplotlib.pyplot as plt

    found = dynamics.by_method(rows)
    data_sets = [data for data in dynamics.STREAMS if (data, "GPR") in found]
    figure, axes = plt.subplots(
        1, len(data_sets), figsize=(4 * len(data_sets), 3.4), layout="constrained", squeeze=False, sharey=True
    )
    for axis, data in zip(axes[0], data_sets, strict=True):
        for method, colour in METHODS.items():
            if (data, method) in found:
                times = times_of(found[data, method])
                axis.plot(dynamics.CHUNK * np.arange(1, len(times) + 1), times, color=colour, label=method)
        axis.axhline(found[data, "GPR"][0]["microseconds"], color="k", label="GPR, prediction alone")
        axis.set(title=data, xlabel="rows of the stream", yscale="log")
    axes[0][0].set_ylabel("microseconds of a row")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


EXPERIMENT = Experiment(
    title="Fig. 6: processor time of a row as rows go by",
    full=dynamics.FULL,
    quick=dynamics.QUICK,
    cells=partial(dynamics.cells, of=("GPR", "LWPR", "I-SSGPR")),
    run=dynamics.run,
    summarize=summarize,
    plot=plot,
    shares="figure5",
)
