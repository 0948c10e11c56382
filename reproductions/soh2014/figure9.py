"""Fig. 9: mutual information of the next observation with windows, states and reservoirs, on the rotating system.

For windows it is exact up to the average over rows, since the phase is the only unknown; for the state it is the
entropy of an observation less that of the noise. For reservoirs, and once more for windows, it is estimated from
nearest neighbors [Kraskov et al. 2004]. Noise: standard deviation 0.1.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import digamma

import streamgp as sg
from reproductions.framework import Cell, Expected, Experiment, Row, Settings, Table, Value
from streamgp.process.memory import remembered
from streamgp.settings import FloatArray

from . import rotation

ANGLE, NOISE_STD = 0.1, 0.1
SIZES = tuple(range(1, 11))
NEIGHBORS = 4
WASHOUT = 200
KINDS = {"window": "window, exact", "window, estimated": "window, estimated", "reservoir": "reservoir, estimated"}


def cells(settings: Settings, rows: list[Row]) -> list[Cell]:
    kinds = [("state", 1, 0), *(("window", size, 0) for size in SIZES)]
    kinds += [("window, estimated", size, 0) for size in SIZES]
    kinds += [("reservoir", size, seed) for seed in range(settings["runs"]) for size in SIZES]
    return [
        {"of": kind, "size": size, "seed": seed, "steps": settings["steps"]}
        for kind, size, seed in kinds
        if size <= settings["most"]
    ]


def run(cell: Cell) -> dict[str, float]:
    """Mutual information in nats."""
    kind, size = cell["of"], cell["size"]
    y = rotation.observed(cell["steps"] + WASHOUT, ANGLE, NOISE_STD, seed=0)
    now, following = y[:-1], y[WASHOUT:]
    if kind in ("state", "window"):
        likelihood = rotation.likelihood(following, ANGLE, NOISE_STD).T
        entropy = -np.mean(np.log(np.mean(likelihood, axis=1)))
        if kind == "state":
            return {"information": float(entropy - 0.5 * np.log(2.0 * np.pi * np.e * NOISE_STD**2))}
        weights = rotation.phase_given(_windows(now, size), ANGLE, NOISE_STD)
        return {"information": float(entropy + np.mean(np.log(np.sum(weights * likelihood, axis=1))))}
    if kind == "reservoir":
        memory = sg.Reservoir(size, connectivity=1.0, augment=False, seed=cell["seed"])
        states = remembered(memory, now[:, None], np.zeros((len(now), 1)))[WASHOUT - 1 :]
    else:
        states = _windows(now, size)
    return {"information": estimated(states, following[:, None])}


def _windows(y: FloatArray, depth: int) -> FloatArray:
    """Those that end with the observation before each of the rows after the washout."""
    return np.lib.stride_tricks.sliding_window_view(y, depth)[WASHOUT - depth :]


def estimated(X: FloatArray, Y: FloatArray) -> float:
    """Mutual information from distances to neighbors: the first estimator of Kraskov et al. (2004)."""
    X, Y = ((Z - Z.mean(axis=0)) / Z.std(axis=0) for Z in (X, Y))
    joint = np.hstack([X, Y])
    radius = cKDTree(joint).query(joint, NEIGHBORS + 1, p=np.inf)[0][:, -1]
    inside = np.nextafter(radius, 0.0)
    counts = [cKDTree(Z).query_ball_point(Z, inside, p=np.inf, return_length=True) for Z in (X, Y)]  # the point too
    return float(digamma(NEIGHBORS) + digamma(len(X)) - np.mean(digamma(counts[0]) + digamma(counts[1])))


def curves(rows: list[Row]) -> dict[str, dict[int, list[float]]]:
    found: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        found.setdefault(row["of"], {}).setdefault(row["size"], []).append(row["information"])
    return found


def summarize(rows: list[Row], expected: Expected) -> Table:
    found = curves(rows)
    sizes = [size for size in SIZES if size in found.get("window", {})]
    lines: list[list[str | Value]] = []
    for kind, title in KINDS.items():
        if kind in found:
            values = {size: float(np.median(found[kind][size])) for size in sizes if size in found[kind]}
            cells = [Value(f"{kind} {size}", value, better="neither", digits=2) for size, value in values.items()]
            lines.append([title, *cells])
    state = [f"the state itself: {values[1][0]:.2f} nats" for kind, values in found.items() if kind == "state"]
    notes = [
        f"Mutual information in nats with the next observation; {', '.join(state)}; reservoirs: median over seeds.",
        "The paper: the window's grows towards the state's; the reservoir's jumps from 3 to 4 units. Here the median",
        "over reservoirs rises until 3 or 4 units, without a jump, and stays below the window's; it depends on the",
        "seed more than on the size. The estimate falls short where windows are long.",
    ]
    return Table(["of", *map(str, sizes)], lines, notes)


def plot(rows: list[Row], path: Path) -> None:
    import matplotlib.pyplot as plt

    found = curves(rows)
    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    for (kind, title), style in zip(KINDS.items(), ("-o", "--o", "-s"), strict=True):
        if kind in found:
            sizes = sorted(found[kind])
            axis.plot(sizes, [np.median(found[kind][size]) for size in sizes], style, label=title)
            if kind == "reservoir":
                low, high = ([np.percentile(found[kind][size], percent) for size in sizes] for percent in (25, 75))
                axis.fill_between(sizes, low, high, color="tab:green", alpha=0.2, lw=0)
    if "state" in found:
        axis.axhline(found["state"][1][0], color="k", ls=":", label="the state itself")
    axis.set(xlabel="observations in the window, or units", ylabel="mutual information with the next, nats")
    axis.legend()
    figure.savefig(path, dpi=110)
    plt.close(figure)


EXPERIMENT = Experiment(
    title="Fig. 9: what windows and reservoirs know of the next observation",
    full={"runs": 7, "steps": 2000, "most": 10},
    quick={"runs": 2, "steps": 500, "most": 4},
    cells=cells,
    run=run,
    summarize=summarize,
    plot=plot,
)
