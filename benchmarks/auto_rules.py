"""The rules of Committee on the same predictions of the same experts, where streams stay, drift or change abruptly.

``python benchmarks/auto_rules.py`` writes benchmarks/results/auto_rules.json and the table in docs/models/committee.md;
with --render only the table. Beside our rules stands BOA [Wintenberger 2017], the usual alternative to ML-Poly, in
plain NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import streamgp as sg
from calibration import command
from main_job import filled
from record import ROOT, blas, environment, measured_on
from streamgp.evaluate.metrics import rmse
from tables import table

RESULTS = ROOT / "benchmarks" / "results" / "auto_rules.json"
ROWS, INPUTS, NOISE = 4000, 3, 0.1
SEEDS = range(5)
BORN = 100  # the Gaussian processes speak from this row on
AFTER = 200  # rows that do not count
FORGETTING = (1.0, 0.999, 0.99)  # of least squares
ASLEEP = 1e300  # Committee takes a mean as large as this for none


def stationary(X: np.ndarray, _: np.ndarray) -> np.ndarray:
    return np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2]


def drifting(X: np.ndarray, t: np.ndarray) -> np.ndarray:
    """The direction that matters turns once around."""
    angle = 2.0 * np.pi * t / len(t)
    return np.sin(2.0 * (np.cos(angle) * X[:, 0] + np.sin(angle) * X[:, 1])) + 0.5 * X[:, 2]


def abrupt(X: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Curved, straight, and curved in another way."""
    third = 3 * t // len(t)
    return np.select(
        [third == 0, third == 1],
        [np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1], X[:, 0] - X[:, 1] + 0.5 * X[:, 2]],
        np.cos(2.0 * X[:, 1]) - 0.5 * X[:, 2],
    )


def outliers(X: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Stationary, but one row in a hundred, always the same ones, is off by ten."""
    return stationary(X, t) + 10.0 * (np.random.default_rng(0).random(len(t)) < 0.01)


STREAMS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "stationary": stationary,
    "drifting": drifting,
    "abruptly changing": abrupt,
    "stationary, 1% outliers": outliers,
}


def rows_of(stream: str, seed: int, rows: int = ROWS) -> tuple[np.ndarray, np.ndarray]:
    """Inputs that wander slowly, each of variance 1, and targets."""
    rng = np.random.default_rng(seed)
    steps = rng.normal(size=(rows, INPUTS))
    X = steps.copy()
    for t in range(1, rows):
        X[t] = 0.9 * X[t - 1] + np.sqrt(1 - 0.9**2) * steps[t]
    return X, STREAMS[stream](X, np.arange(rows)) + NOISE * rng.normal(size=rows)


def least_squares(factor: float) -> sg.StreamModel:
    fading = None if factor == 1 else sg.Injection(factor)
    return sg.OnlineGP(sg.Linear(0.01), noise=1.0, forgetting=fading, form="cholesky")


def experts(X: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """What each said of every row before its target; NaN where it sleeps."""
    kernel = sg.SquaredExponential([1.0] * INPUTS)
    models: dict[str, Any] = {
        "previous value": sg.SeasonalValue(1),
        "mean": sg.RunningMean(),
        **{f"least squares {factor:g}": least_squares(factor) for factor in FORGETTING},
        "KRLST, 100 rows": sg.KRLST(kernel, capacity=100, forgetting=0.99, noise=0.01),
        "KRLST, 1 000 rows": sg.KRLST(kernel, capacity=100, forgetting=0.999, noise=0.01),
        "ISSGPR": sg.ISSGPR(100, lengthscale=[1.0] * INPUTS, noise=0.01),
    }
    said = {name: model.track(X, y).mean for name, model in models.items()}
    for name in list(said)[-3:]:
        said[name][:BORN] = np.nan
    specialist = sg.KRLST(kernel, capacity=50, forgetting=0.999, noise=0.01)
    awake = X[:, 0] > 0
    said["specialist, awake in half of the rows"] = np.full(len(y), np.nan)
    said["specialist, awake in half of the rows"][awake] = specialist.track(X[awake], y[awake]).mean
    return said


def by_committee(rule: str, P: np.ndarray, y: np.ndarray) -> np.ndarray:
    members = [sg.InputValue(k) for k in range(P.shape[1])]
    return np.asarray(sg.Committee(members, rule=rule).track(np.where(np.isnan(P), ASLEEP, P), y).mean)


def boa(P: np.ndarray, y: np.ndarray) -> np.ndarray:
    """BOA with learning rates and ranges of its own for each expert, nothing tuned [Wintenberger 2017].

    For the gradient of the squared error, l_j = 2 (m - y)(m_j - m) is how much worse expert j is than the mixture m.
    A sleeping expert has l_j = 0, and the others share its weight; one that has slept so far has the mean rate.
    """
    n, K = P.shape
    L, V, largest, eta = np.zeros(K), np.zeros(K), np.zeros(K), np.ones(K)
    said = np.full(n, np.nan)
    for t in range(n):
        awake = ~np.isnan(P[t])
        if not awake.any():
            continue
        log_weights = np.where(awake, np.log(eta) - eta * L, -np.inf)
        weights = np.exp(log_weights - log_weights.max())
        m = np.nan_to_num(P[t]) @ weights / weights.sum()
        said[t] = m
        loss = np.where(awake, 2.0 * (m - y[t]) * (np.nan_to_num(P[t]) - m), 0.0)
        largest, V = np.maximum(largest, np.abs(loss)), V + loss**2
        seen = largest > 0
        E = 2.0 ** (np.ceil(np.log2(largest, where=seen, out=np.zeros(K))) + 1.0)
        rates = np.minimum(1.0 / E, np.sqrt(np.log(K) / np.where(seen, V, 1.0)))
        known = np.where(loss**2 < V, eta, rates)  # an expert's first loss has no rate from before
        L += 0.5 * (loss * (1.0 + known * loss) + E * (known * loss > 0.5))
        eta = np.where(seen, rates, rates[seen].mean() if seen.any() else 1.0)
    return said


RULES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    'rule="recent"': lambda P, y: by_committee("recent", P, y),
    'rule="ml-poly"': lambda P, y: by_committee("ml-poly", P, y),
    'rule="stacked"': lambda P, y: by_committee("stacked", P, y),
    "BOA": boa,
    "mean of all": lambda P, _: np.nanmean(P, axis=1),
}


def compared(stream: str, seed: int, rows: int = ROWS) -> dict[str, Any]:
    """The error of every rule relative to that of the best single expert in hindsight."""
    X, y = rows_of(stream, seed, rows)
    said = experts(X, y)
    errors = {name: rmse(y[AFTER:], mean[AFTER:]) for name, mean in said.items() if not np.isnan(mean[AFTER:]).any()}
    best = min(errors, key=errors.__getitem__)
    P = np.column_stack(list(said.values()))
    return {
        "best": best,
        "rmse of the best": errors[best],
        "relative": {name: rmse(y[AFTER:], rule(P, y)[AFTER:]) / errors[best] for name, rule in RULES.items()},
    }


def measure() -> dict[str, Any]:
    cells = {stream: [compared(stream, seed) for seed in SEEDS] for stream in STREAMS}
    settings = {"rows": ROWS, "after": AFTER, "seeds": list(SEEDS)}
    return environment() | {"blas": blas()} | settings | {"cells": cells}


def shown(results: dict[str, Any]) -> str:
    """The mean over seeds, and the largest in brackets; the best rule of a stream is bold."""
    lines = []
    for stream, runs in results["cells"].items():
        ratios = {name: [run["relative"][name] for run in runs] for name in runs[0]["relative"]}
        least = min(float(np.mean(values)) for values in ratios.values())
        cells = []
        for values in ratios.values():
            text = f"{np.mean(values):.3f} ({max(values):.3f})"
            cells.append(f"**{text}**" if np.mean(values) == least else text)
        lines.append([stream, " / ".join(sorted({run["best"] for run in runs})), *cells])
    names = [
        name if name[0] != "r" else f"`{name}`"
        for name in results["cells"][next(iter(results["cells"]))][0]["relative"]
    ]
    return f"{table(['stream', 'best single expert', *names], lines)}\n\n{measured_on(results)}"


def page_with(text: str, results: dict[str, Any]) -> str:
    return filled(text, {"rules compared": shown(results)})


if __name__ == "__main__":
    command(__doc__, measure, page_with, RESULTS, ROOT / "docs" / "models" / "committee.md")
