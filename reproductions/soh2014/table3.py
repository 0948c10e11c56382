"""Table III, a stand-in: velocities of a pen from its positions, learned from demonstrations of a figure eight etc.

The paper's twelve demonstrations on a Nao arm are not public; here eleven of a drawn figure eight and seven each of
two drawn shapes. Each demonstration is left out in turn: the others are learned one after the other, once, and the one
left out is predicted without learning. "trajectory" sums the velocities predicted along the demonstration; "free run"
follows the model's own velocities from its first point. Errors are squared, over the variance of velocity or position.
The settings are searched on the first demonstration, which is then left out of the scores.
"""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np

import streamgp as sg
from reproductions.data import load
from reproductions.framework import Cell, Expected, Experiment, Row, Settings, Table, Value
from streamgp.evaluate.metrics import nmse
from streamgp.settings import FloatArray

DATA = {  # the rows of a demonstration that are kept: one in so many
    "hr_limit_cycles/infinity": 1,
    "lasa_handwriting/heee": 5,
    "lasa_handwriting/Snake": 5,
}
METHODS = ("OESGP", "OIESGP", "LWPR")
SCORES = ("velocity", "trajectory", "free run")
DECAY = 1.0  # the paper's learning rate 1/j
Demonstration = tuple[FloatArray, FloatArray]

# The first candidate of each is the paper's.
CANDIDATES: dict[str, list[tuple[Any, ...]]] = {
    "OESGP": list(itertools.product((1.0, 3.0, 10.0), (0.95, 0.5, 0.0))),
    "OIESGP": list(itertools.product((2.0, 0.5, 5.0), (1.2, 1.01, 1.5))),
    "LWPR": list(itertools.product((1.0, 0.1, 10.0), (20, 5, 1))),
}


def build(method: str, candidate: tuple[Any, ...]) -> sg.StreamModel:
    if method == "OESGP":
        lengthscale, retention = candidate
        memory = sg.Reservoir(50, spectral_radius=0.9, retention=retention, connectivity=0.1)
        return sg.OESGP(memory, lengthscale=lengthscale, capacity=100, noise=0.01, adapt=sg.SNGD(decay=DECAY))
    if method == "OIESGP":
        lengthscale, temporal = candidate
        return sg.OIESGP(
            20,
            lengthscale=[lengthscale] * 2,
            temporal_lengthscale=temporal,
            capacity=100,
            noise=0.01,
            adapt=sg.SNGD(decay=DECAY),
        )
    init_D, depth = candidate
    return sg.LWPR(init_D, meta=True, meta_rate=50.0, penalty=1e-4, depth=depth, capacity=300)


def demonstrations(name: str, most: int) -> list[Demonstration]:
    """Positions and the way to the next one, both scaled to variance 1 over all demonstrations."""
    table = load(name)
    paths = [path[:: DATA[name]] for path in np.split(table.X, table.starts[1:])][:most]
    positions, ways = [path[:-1] for path in paths], [np.diff(path, axis=0) for path in paths]
    centre, scale = np.mean(np.vstack(positions), axis=0), np.std(np.vstack(positions), axis=0)
    unit = np.std(np.vstack(ways), axis=0)
    return [((x - centre) / scale, y / unit) for x, y in zip(positions, ways, strict=True)]


def step_of(demonstration: Demonstration) -> FloatArray:
    """Positions per unit of velocity."""
    x, y = demonstration
    return np.asarray(np.sum(np.diff(x, axis=0) * y[:-1], axis=0) / np.sum(y[:-1] ** 2, axis=0))


def cells(settings: Settings, rows: list[Row]) -> list[Cell]:
    names = [name for name in DATA if name.split("/")[1] in settings["data"].split()]
    shared = {name: settings[name] for name in ("demonstrations", "candidates")}
    return [{"data": name, "method": method} | shared for name in names for method in METHODS]


def run(cell: Cell) -> dict[str, Any]:
    """Search the settings on the first demonstration, then leave out each of the others."""
    demos = demonstrations(cell["data"], cell["demonstrations"])
    candidates = CANDIDATES[cell["method"]][: cell["candidates"]]
    errors = [nmse(demos[0][1], tested(build(cell["method"], c), demos, 0)[0]) for c in candidates]
    best = candidates[int(np.argmin(np.nan_to_num(errors, nan=np.inf)))]
    found: dict[str, list[float]] = {score: [] for score in SCORES}
    for left_out in range(1, len(demos)):
        x, y = demos[left_out]
        velocities, path = tested(build(cell["method"], best), demos, left_out)
        summed = x[0] + np.cumsum(np.vstack([np.zeros(2), velocities[:-1]]), axis=0) * step_of(demos[left_out])
        found["velocity"].append(float(np.mean((velocities - y) ** 2)))
        found["trajectory"].append(float(np.mean((summed - x) ** 2)))
        found["free run"].append(float(np.mean((path - x) ** 2)))
    model = build(cell["method"], best)
    start = time.process_time()
    for x, y in demos:
        model.track(x, y)
    microseconds = 1e6 * (time.process_time() - start) / sum(len(x) for x, _ in demos)
    scores = {score: [round(value, 5) for value in values] for score, values in found.items()}
    return {"best": list(best), "microseconds": round(microseconds, 1)} | scores


def tested(model: sg.StreamModel, demos: list[Demonstration], left_out: int) -> tuple[FloatArray, FloatArray]:
    """Learn all but one; the velocities predicted along that one, and the path of the model's own."""
    for i, (x, y) in enumerate(demos):
        if i != left_out:
            model.reset_memory()
            model.learn_many(x, y)
    x, _ = demos[left_out]
    model.reset_memory()
    free = model.copy()
    path, step = np.empty_like(x), step_of(demos[left_out])
    path[0] = x[0]
    for t in range(1, len(x)):
        velocity = free.predict_one(path[t - 1]).mean
        free.observe_one(path[t - 1])
        path[t] = np.clip(path[t - 1] + velocity * step, -10.0, 10.0)  # ten times the size of the figure is lost
    return model.track(x).mean, path


def summarize(rows: list[Row], expected: Expected) -> Table:
    lines: list[list[str | Value]] = []
    for name in dict.fromkeys(row["data"] for row in rows):
        for score in SCORES:
            line: list[str | Value] = [name, score]
            for row in rows:
                if row["data"] == name:
                    key = f"{name} {row['method']} {score}"
                    line.append(Value(key, float(np.mean(row[score])), float(np.std(row[score]))))
            lines.append(line)
    for what in ("velocity", "trajectory"):
        line = ["figure eight", f"{what}, over LWPR's"]
        for method in METHODS:
            ours = _ratio(rows, method, what)
            key = f"{method} over LWPR {what}"
            line.append(Value(key, ours, None, expected.get(key), digits=2) if ours is not None else "-")
        lines.append(line)
    line = ["all", "microseconds of a row"]
    for method in METHODS:
        times = [row["microseconds"] for row in rows if row["method"] == method]
        key = f"{method} microseconds"
        line.append(Value(key, float(np.mean(times)), None, expected.get(key), digits=0) if times else "-")
    lines.append(line)
    notes = [
        "Mean (standard deviation) over the demonstrations left out; the errors over the variance. The ratios are",
        "those of the figure eight, beside those in the paper's table of its own demonstrations.",
    ]
    return Table(["demonstrations", "error", *METHODS], lines, notes)


def _ratio(rows: list[Row], method: str, what: str) -> float | None:
    found = {row["method"]: float(np.mean(row[what])) for row in rows if row["data"] == "hr_limit_cycles/infinity"}
    return found[method] / found["LWPR"] if {method, "LWPR"} <= set(found) else None


def plot(rows: list[Row], path: Path) -> None:
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(row["data"] for row in rows))
    figure, axes = plt.subplots(
        1, len(names), figsize=(max(6.8, 3.4 * len(names)), 4), layout="constrained", squeeze=False
    )
    for axis, name in zip(axes[0], names, strict=True):
        demos = demonstrations(name, max(row["demonstrations"] for row in rows))
        x = demos[1][0]
        axis.plot(*x.T, color="k", lw=3, alpha=0.3, label="demonstrated")
        for row in rows:
            if row["data"] == name:
                own = tested(build(row["method"], tuple(row["best"])), demos, 1)[1]
                axis.plot(*own.T, lw=1.2, label=row["method"])
        axis.set(title=name.split("/")[1], aspect="equal", xlim=(-3.2, 3.2), ylim=(-3.2, 3.2))
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle("free runs from the first point of a demonstration left out")
    figure.savefig(path, dpi=110)
    plt.close(figure)


EXPERIMENT = Experiment(
    title="Table III, a stand-in: velocities learned from demonstrations",
    full={"data": "infinity heee Snake", "demonstrations": 20, "candidates": 9},
    quick={"data": "infinity", "demonstrations": 3, "candidates": 2},
    cells=cells,
    run=run,
    summarize=summarize,
    plot=plot,
)
