"""Fig. 5: error on Mackey-Glass over starting lengthscale and temporal lengthscale, fixed and adapted.

RMSE of the last 2 000 rows against the noise-free next value; every row is predicted, then learnt. Finished cells are
kept. ``python reproductions/soh2014/figure5.py --rows 20000``
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import matplotlib as mpl
import numpy as np

import streamgp as sg

mpl.use("Agg")
import matplotlib.pyplot as plt

RESULTS = Path(__file__).parent / "results"
LENGTHSCALES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
INVERSE_TEMPORAL = (0.1, 0.3, 0.5, 0.7, 0.9, 0.99)
FIELDS = ("rows", "adapted", "lengthscale", "inverse_temporal", "rmse")


def run(rows: int, adapted: bool, lengthscale: float, inverse_temporal: float) -> float:
    series = sg.data.mackey_glass(rows, seed=0)
    model = sg.OIESGP(
        20, lengthscale, 1.0 / inverse_temporal, capacity=100, noise=0.0025, adapt=sg.SNGD() if adapted else None
    )
    p = model.track(series.X, series.Y)
    return float(np.sqrt(np.mean((p.mean - series.truth)[-2000:] ** 2)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    rows = parser.parse_args().rows
    path = RESULTS / "figure5.csv"
    RESULTS.mkdir(exist_ok=True)
    done: dict[tuple[str, ...], float] = {}
    if path.exists():
        with path.open() as file:
            done = {tuple(row[name] for name in FIELDS[:4]): float(row["rmse"]) for row in csv.DictReader(file)}
    surfaces = np.empty((2, len(LENGTHSCALES), len(INVERSE_TEMPORAL)))
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.writer(file)
        if new:
            writer.writerow(FIELDS)
        for a, adapted in enumerate((False, True)):
            for i, lengthscale in enumerate(LENGTHSCALES):
                for j, inverse in enumerate(INVERSE_TEMPORAL):
                    cell = (rows, int(adapted), lengthscale, inverse)
                    key = tuple(str(value) for value in cell)
                    if key not in done:
                        done[key] = run(rows, adapted, lengthscale, inverse)
                        writer.writerow((*cell, done[key]))
                        file.flush()
                    surfaces[a, i, j] = done[key]
    for name, surface in zip(("fixed", "adapted"), surfaces, strict=True):
        print(f"{name:>8}: RMSE from {surface.min():.4f} to {surface.max():.4f}, median {np.median(surface):.4f}")
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
    for axis, name, surface in zip(axes, ("fixed", "adapted"), surfaces, strict=True):
        image = axis.imshow(surface, origin="lower", aspect="auto", vmin=surfaces.min(), vmax=surfaces.max())
        axis.set_xticks(range(len(INVERSE_TEMPORAL)), INVERSE_TEMPORAL)
        axis.set_yticks(range(len(LENGTHSCALES)), LENGTHSCALES)
        axis.set(
            title=f"{name} hyperparameters", xlabel="1 / temporal lengthscale (start)", ylabel="lengthscale (start)"
        )
        for i, j in np.ndindex(surface.shape):
            axis.annotate(f"{surface[i, j]:.3f}", (j, i), ha="center", va="center", color="w", fontsize=7)
    figure.colorbar(image, ax=axes, label="RMSE of the last 2 000 rows")
    figure.savefig(RESULTS / "figure5.png", dpi=110)


if __name__ == "__main__":
    main()
