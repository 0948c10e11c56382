"""Fig. 2: test error of SSGPR on the Cross data against the number of features, frequencies fixed or tuned.

500 noisy training rows, the noise-free grid as test set, hyperparameters by evidence maximisation, 25 draws. Finished
cells are kept: run it again and it goes on. ``python reproductions/gijsberts2013/figure2.py --draws 25``
"""

from __future__ import annotations

import argparse
import csv
import time
import tomllib
from pathlib import Path

import numpy as np

import streamgp as sg
from streamgp.batch import SSGPR, FullGP

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "figure2.csv"
FIELDS = ("dimensions", "features", "frequencies", "draw", "nmse", "train_nmse", "evidence", "seconds")
CELLS = [
    (dimensions, features, frequencies)
    for features, frequencies in (
        (25, "fixed"),
        (50, "fixed"),
        (100, "fixed"),
        (200, "fixed"),
        (25, "tuned"),
        (0, "GPR"),
    )
    for dimensions in (2, 10, 20)
]


def run(dimensions: int, features: int, frequencies: str, draw: int) -> dict[str, object]:
    """One cell: fit one draw, score it on the grid."""
    data = sg.data.cross(500, dimensions=dimensions, seed=draw)
    test = sg.data.cross_grid(dimensions=dimensions, seed=draw)
    lengthscale, variance = np.full(dimensions, 0.5 * np.sqrt(dimensions / 2)), float(np.var(data.Y))
    start = time.perf_counter()
    if frequencies == "GPR":
        model = FullGP(sg.SquaredExponential(lengthscale, variance), noise=0.01)
    else:
        tuned = frequencies == "tuned"
        model = SSGPR(features, lengthscale, variance, noise=0.01, seed=draw, tune_frequencies=tuned)
    model.fit(data.X, data.Y, sg.Evidence(restarts=0, iterations=200))
    seconds = time.perf_counter() - start

    def nmse(X, truth):
        return float(np.mean((model.predict(X).mean - truth) ** 2) / np.var(truth))

    return {
        "dimensions": dimensions,
        "features": features,
        "frequencies": frequencies,
        "draw": draw,
        "nmse": nmse(test.X, test.truth),
        "train_nmse": nmse(data.X, data.Y),
        "evidence": model.log_marginal_likelihood(),
        "seconds": seconds,
    }


def finished() -> list[dict[str, str]]:
    if not RESULTS.exists():
        return []
    with RESULTS.open() as file:
        return list(csv.DictReader(file))


def medians() -> dict[tuple[int, int, str], tuple[float, float, int]]:
    """Median test and training error of every cell, and from how many draws."""
    cells: dict[tuple[int, int, str], list[tuple[float, float]]] = {}
    for row in finished():
        key = (int(row["dimensions"]), int(row["features"]), row["frequencies"])
        cells.setdefault(key, []).append((float(row["nmse"]), float(row["train_nmse"])))
    return {key: (*np.median(np.array(rows), axis=0).tolist(), len(rows)) for key, rows in cells.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=25)
    draws = parser.parse_args().draws
    done = {tuple(row[name] for name in FIELDS[:4]) for row in finished()}
    new = not RESULTS.exists()
    with RESULTS.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if new:
            writer.writeheader()
        for draw in range(draws):
            for cell in CELLS:
                if tuple(str(value) for value in (*cell, draw)) not in done:
                    writer.writerow(run(*cell, draw))
                    file.flush()
    expected = tomllib.loads((HERE / "expected.toml").read_text())["figure2"]
    print(f"{'Cross':>6} {'features':>9} {'frequencies':>12} {'median nMSE':>12} {'training':>9} {'draws':>6} paper")
    for (dimensions, features, frequencies), (test, train, count) in sorted(medians().items()):
        printed = expected.get(f"cross{dimensions}-{frequencies}-{features}", "")
        print(f"{dimensions:>5}D {features:>9} {frequencies:>12} {test:>12.4f} {train:>9.4f} {count:>6}   {printed}")


if __name__ == "__main__":
    main()
