"""What a new sensor gains from a known fleet: rows it needs until its hyperparameters predict as well.

    python benchmarks/fleet_prior.py

Half of the zones (farms) of two real fleets give the prior; each of the others is a new sensor that chooses among the
same candidates by its own first rows, once with equal shares of all candidates and once with those of the fleet. Both
are then scored on the same later rows. Writes benchmarks/results/fleet_prior.json.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

import streamgp as sg
from record import Record
from streamgp.fleet.prior import candidates, learned
from streamgp.process.prior import with_own
from timing import figures

KNOWN, SEEN = 400, (5, 10, 25, 50, 100, 200, 400)  # rows of the known sensors, and of a new one
SCORED = 400  # rows after those that a new one has chosen by
RECIPE = sg.KRLST(capacity=40, forgetting=0.999, noise=0.1)


def data(name: str) -> np.lib.npyio.NpzFile:
    return np.load(Path(os.environ["STREAMGP_DATA"]) / name)


def load() -> tuple[np.ndarray, np.ndarray]:
    """Hourly load of 20 zones: the mean temperature, the hour as a place on a circle, the load of the hour before."""
    found = data("gefcom2012_load/gef_power_hourly.npz")
    load, hour = found["load_kW"][:5000].astype(float), found["stamp"][:5000] % 100
    usable = (load > 0).all(axis=0)
    load, temperature = load[:, usable], found["temperature_F"][:5000].mean(axis=1)
    angle = 2 * np.pi * hour / 24
    shared = np.stack([temperature, np.cos(angle), np.sin(angle)], axis=1)[1:]
    X = np.concatenate([np.repeat(shared[:, None], load.shape[1], 1), load[:-1, :, None]], axis=2)
    return X, load[1:]


def wind() -> tuple[np.ndarray, np.ndarray]:
    """Hourly power of 7 wind farms: the power of the two hours before and the hour as a place on a circle."""
    found = data("gefcom2012_wind/gef_wind.npz")
    power, hour = found["power_thousandths"][:5000] / 1000.0, found["power_stamp"][:5000] % 100
    angle = np.repeat((2 * np.pi * hour / 24)[2:, None], power.shape[1], 1)
    return np.stack([power[1:-1], power[:-2], np.cos(angle), np.sin(angle)], axis=2), power[2:]


def scaled(values: np.ndarray) -> np.ndarray:
    """By mean and standard deviation of the first rows of each sensor."""
    first = values[:KNOWN]
    return (values - first.mean(axis=0)) / np.maximum(first.std(axis=0), 1e-9)


def densities(X: np.ndarray, Y: np.ndarray, tried: dict[str, np.ndarray]) -> np.ndarray:
    """Of each row of each sensor under each candidate, (rows, sensors, candidates)."""
    runs = [with_own(RECIPE, {name: values[k] for name, values in tried.items()}) for k in range(len(tried["noise"]))]
    return np.stack([sg.Fleet(run, size=X.shape[1]).track(X, Y).log_density(Y) for run in runs], axis=2)


def measure(X: np.ndarray, Y: np.ndarray) -> dict[str, Any]:
    end = max(SEEN) + SCORED
    X, Y = scaled(X)[:end], scaled(Y)[:end]
    known, new = np.arange(X.shape[1]) % 2 == 0, np.arange(X.shape[1]) % 2 == 1
    tried = candidates(RECIPE, X.shape[2])
    prior, _ = learned(tried, densities(X[:KNOWN, known], Y[:KNOWN, known], tried).sum(axis=0))
    own, n = densities(X[:, new], Y[:, new], tried), len(prior.shares)
    flat = sg.Prior(tried, shares=np.full(n, 1.0 / n), best=prior.best)
    found: dict[str, Any] = {"sensors known": int(known.sum()), "new": int(new.sum()), "candidates": n}
    found["recipe"] = figures(nlpd(RECIPE, X[:, new], Y[:, new], 0))
    found["best for all"] = figures(nlpd(prior.applied(RECIPE), X[:, new], Y[:, new], 0))
    for rows in SEEN:
        cell = {}
        for name, before in (("unknown fleet", flat), ("known fleet", prior)):
            _, shares = learned(tried, own[:rows].sum(axis=0), before)
            fleet = sg.Fleet(RECIPE, size=int(new.sum()), **before.average(shares))
            cell[name] = figures(nlpd(fleet, X[:, new], Y[:, new], rows))
        found[f"{rows} rows"] = cell
    return found


def nlpd(model: Any, X: np.ndarray, Y: np.ndarray, rows: int) -> float:
    """Mean negative log density of the scored rows, after those that were seen."""
    fleet = model if isinstance(model, sg.Fleet) else sg.Fleet(model, size=X.shape[1])
    part = slice(rows, rows + SCORED)
    return float(-np.mean(fleet.track(X, Y).log_density(Y)[part]))


def main() -> None:
    record = Record("fleet_prior")
    for name, source in (("load, 20 zones", load), ("wind, 7 farms", wind)):
        print(name, record.cell(name, lambda source=source: measure(*source())), flush=True)
    record.finish()


if __name__ == "__main__":
    main()
