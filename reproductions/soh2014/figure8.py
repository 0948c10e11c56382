"""Fig. 8: one observation of the rotating system leaves two states possible; one more tells them apart.

The text says angle 0.1 and noise N(0, 0.1), which is a variance or a standard deviation. With neither is the density
of the next observation bimodal: the two states differ by 2 sin(0.1) = 0.2 in it. With less noise, or an angle of a
tenth of a turn, it is. All readings are shown.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from reproductions.framework import Cell, Expected, Experiment, Row, Settings, Table, Value

from . import rotation

READINGS = {
    "as printed, variance 0.1": (0.1, np.sqrt(0.1)),
    "as printed, standard deviation 0.1": (0.1, 0.1),
    "standard deviation 0.05": (0.1, 0.05),
    "standard deviation 0.01": (0.1, 0.01),
    "angle of a tenth of a turn": (0.2 * np.pi, 0.1),
}
Y = np.linspace(-2.0, 2.0, 801)
SHOWN = 3  # of the densities one value in so many is kept


def cells(settings: Settings, rows: list[Row]) -> list[Cell]:
    return [{"reading": name, "steps": settings["steps"], "seed": settings["seed"]} for name in READINGS]


def run(cell: Cell) -> dict[str, Any]:
    """Count the modes of the next observation's density, at every row, from windows of one and two observations."""
    angle, noise_std = READINGS[cell["reading"]]
    y = rotation.observed(cell["steps"], angle, noise_std, cell["seed"])
    likelihood = rotation.likelihood(Y, angle, noise_std)
    found: dict[str, Any] = {}
    for depth, name in ((1, "one"), (2, "two")):
        windows = np.lib.stride_tricks.sliding_window_view(y, depth)
        weights = rotation.phase_given(windows, angle, noise_std)
        found[f"bimodal_{name}"] = float(np.mean(rotation.modes(weights @ likelihood) > 1))
    # At y_t = 0 from either side: state A is (0, 1), whose last observation was sin(angle).
    for window, name in (([0.0], "at_zero_one"), ([np.sin(angle), 0.0], "at_zero_two")):
        weights = rotation.phase_given(np.array([window]), angle, noise_std)
        density = weights @ likelihood
        found[f"modes_{name}"] = int(rotation.modes(density)[0])
        found[f"density_{name}"] = np.round(density[0, ::SHOWN], 3).tolist()
        found[f"other_{name}"] = float(np.sum(weights[0, np.sin(rotation.PHASES) < 0]))
    return found


def summarize(rows: list[Row], expected: Expected) -> Table:
    lines: list[list[str | Value]] = []
    for row in rows:
        name = row["reading"]
        lines.append(
            [
                name,
                Value(f"{name} modes", row["modes_at_zero_one"], None, expected.get("modes"), "neither", 0),
                Value(
                    f"{name} modes of two", row["modes_at_zero_two"], None, expected.get("modes of two"), "neither", 0
                ),
                Value(f"{name} bimodal", row["bimodal_one"], better="neither", digits=2),
                Value(f"{name} bimodal of two", row["bimodal_two"], better="neither", digits=2),
                Value(f"{name} other state", row["other_at_zero_two"], better="neither", digits=3),
            ]
        )
    header = ["reading", "modes of the next, at y = 0", "given one more observation", "share of rows with two modes"]
    notes = ["The paper: two modes from one observation, one from two. Other state: what is left to it at y = 0."]
    return Table([*header, "given one more", "other state's probability"], lines, notes)


def plot(rows: list[Row], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11, 4), layout="constrained")
    angle, noise_std = READINGS["standard deviation 0.05"]
    y = rotation.observed(1000, angle, noise_std, 0)
    axes[0].plot(y[:-1], y[1:], ".", ms=3, color="tab:gray")
    axes[0].axvline(0.0, color="tab:red", lw=1)
    axes[0].set(title="standard deviation 0.05", xlabel="observation", ylabel="next observation", aspect="equal")
    for row in rows:
        for axis, name in zip(axes[1:], ("one", "two"), strict=True):
            axis.plot(Y[::SHOWN], row[f"density_at_zero_{name}"], label=row["reading"], lw=1.3)
    titles = ("density of the next after y = 0", "the same, one more observation known")
    for axis, title in zip(axes[1:], titles, strict=True):
        axis.set(title=title, xlabel="next observation", yscale="log", ylim=(1e-2, 50), xlim=(-1.3, 1.3))
    figure.legend(*axes[1].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


EXPERIMENT = Experiment(
    title="Fig. 8: the rotating system, two modes and one",
    full={"steps": 1000, "seed": 0},
    quick={"steps": 200},
    cells=cells,
    run=run,
    summarize=summarize,
    plot=plot,
)
