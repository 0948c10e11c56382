"""Fig. 3: a linear channel, then tanh; the channel changes after 500 rows.

Five random pairs of channels. At every tenth row the 200 rows of a test set are predicted, noise-free, through the
channel of that moment. The paper gives neither kernel nor settings; those here are of the figure that it repeats, in
the toolbox it used: lengthscale 1, noise 0.01, and for KRLS-T 50 bases and forgetting 0.999. The steps of KLMS and
KNLMS are the best of 0.1, 0.2, 0.5 and 0.9 before the change, on five other draws. KRLS-T that never forgets is there
for comparison.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import streamgp as sg
from reproductions.framework import Cell, Expected, Experiment, Row, Settings, Table, Value
from streamgp.filters import KLMS, KNLMS, BetaKLMS

KERNEL = sg.SquaredExponential(1.0, variance=1.0)
NOISE = 0.01
SWITCH, TEST, EVERY, WINDOW = 500, 200, 10, 50
BETAS = {f"beta = {beta:g}": beta for beta in (0.0, 0.1, 1.0)}
ALGORITHMS = ("KRLS-T", "KLMS", *BETAS, "KNLMS", "KRLS-T, never forgets")


def cells(settings: Settings, rows: list[Row]) -> list[Cell]:
    return [
        {"algorithm": algorithm, "run": run, "steps": settings["steps"]}
        for run in range(settings["runs"])
        for algorithm in ALGORITHMS
    ]


def model(algorithm: str, steps: int) -> Any:
    if algorithm.startswith("KRLS-T"):
        return sg.KRLST(KERNEL, capacity=50, forgetting=1.0 if "never" in algorithm else 0.999, noise=NOISE)
    if algorithm == "KLMS":
        return KLMS(KERNEL, step=0.5, capacity=steps)
    if algorithm == "KNLMS":
        return KNLMS(KERNEL, step=0.5, coherence=1.0, regularization=NOISE, capacity=steps)
    return BetaKLMS(KERNEL, beta=BETAS[algorithm], noise=NOISE, capacity=steps)


def run(cell: Cell) -> dict[str, list[float]]:
    """One algorithm on one pair of channels: the test error after every tenth row."""
    steps, seed = cell["steps"], cell["run"]
    stream = sg.data.channel_switch(steps, seed=seed, switch=SWITCH)
    # The same seed has the same channels and inputs: rows beyond the stream, all through the one or the other channel.
    before, after = (sg.data.channel_switch(steps + TEST, seed=seed, switch=n) for n in (steps + TEST, 0))
    learner, error = model(cell["algorithm"], steps), []
    for start in range(0, steps, EVERY):
        learner.learn_many(stream.X[start : start + EVERY], stream.Y[start : start + EVERY])
        now = before if start + EVERY <= SWITCH else after
        error.append(np.mean((learner.predict_many(now.X[steps:]).mean - now.truth[steps:]) ** 2))
    return {"mse": [float(f"{value:.4g}") for value in error]}


def errors(rows: list[Row]) -> dict[str, np.ndarray]:
    """Average error of each algorithm after every tenth row."""
    by_name = {name: [row["mse"] for row in rows if row["algorithm"] == name] for name in ALGORITHMS}
    return {name: np.mean(found, axis=0) for name, found in by_name.items() if found}


def to_decibels(error: np.ndarray) -> np.ndarray:
    return 10.0 * np.log10(error)


def summarize(rows: list[Row], expected: Expected) -> Table:
    steps = max((row["steps"] for row in rows), default=0)
    ends = [n for n in (100, SWITCH, SWITCH + WINDOW, 600, 1000, 1500) if n <= steps]
    lines: list[list[str | Value]] = []
    for name, error in errors(rows).items():
        decibels = {n: float(to_decibels(np.mean(error[(n - WINDOW) // EVERY : n // EVERY]))) for n in {*ends, steps}}
        shown = {f"{name} {n}": decibels[n] for n in ends} | {f"{name} lost": decibels[steps] - decibels[SWITCH]}
        lines.append([name, *(Value(key, value, None, expected.get(key), digits=1) for key, value in shown.items())])
    notes = [
        f"Test error in decibels, the average of {len({row['run'] for row in rows})} pairs of channels and of {WINDOW} "
        "rows. Lost: the last one less that before the change. The paper says in words that beta-KLMS tracks; ~0 is "
        "our reading: in the end it is as good as before."
    ]
    heads = [f"dB, {n - WINDOW} to {n}" for n in ends]
    return Table(["algorithm", *heads, "lost"], lines, notes)


def plot(rows: list[Row], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
    shades = dict(zip(ALGORITHMS, ("k", "tab:red", "#472f7d", "#21918c", "#5ec962", "tab:pink", "0.6"), strict=True))
    for name, error in errors(rows).items():
        style = "-" if name in BETAS or name == "KRLS-T" else "--"
        axis.plot(
            EVERY * np.arange(1, len(error) + 1), to_decibels(error), style, color=shades[name], label=name, lw=1.5
        )
    axis.axvline(SWITCH, color="0.8", lw=1, zorder=0)
    axis.set(xlabel="row", ylabel="test error in dB")
    axis.grid(alpha=0.3)
    axis.legend(ncols=2, frameon=False, fontsize=8)
    figure.savefig(path, dpi=90)
    plt.close(figure)


EXPERIMENT = Experiment(
    title="Fig. 3: a nonlinear channel with an abrupt change",
    full={"runs": 5, "steps": 1500},
    quick={"runs": 1, "steps": 600},
    cells=cells,
    run=run,
    summarize=summarize,
    plot=plot,
)
