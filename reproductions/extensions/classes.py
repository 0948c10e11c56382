"""Classes along a stream: a probit process against the online classifiers of River and scikit-learn.

Rows come in a random order. Each is predicted, then learned; the loss is the mean negative log probability of its
class, probabilities of all models being cut at 1e-6. Every model has a few settings: the one with the lowest loss over
the first fifth of the rows is scored on the others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from river import datasets, forest, linear_model, optim, preprocessing, tree
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import SGDClassifier

import streamgp as sg
from reproductions.framework import Cell, Expected, Experiment, Row, Settings, Table, Value

LEAST = 1e-6  # of a probability


@functools.cache
def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "breast cancer":
        found = load_breast_cancer()
        return found.data, found.target.astype(float)
    rows = list({"phishing": datasets.Phishing, "banana": datasets.Bananas}[name]())
    return np.array([list(x.values()) for x, _ in rows], dtype=float), np.array([float(y) for _, y in rows])


TABLES = ("phishing", "banana", "breast cancer")


def probit(X: np.ndarray, y: np.ndarray, relative: float, variance: float, seed: int) -> np.ndarray:
    model = sg.Standardize(
        sg.SOGP(likelihood=sg.Probit(), lengthscale=relative * X.shape[1] ** 0.5, variance=variance, capacity=100)
    )
    return np.asarray(model.track(X, y).probability)


def river(X: np.ndarray, y: np.ndarray, build: Callable[[int], Any], seed: int) -> np.ndarray:
    model, said = build(seed), np.empty(len(y))
    for t, (row, target) in enumerate(zip(X, y, strict=True)):
        x = dict(enumerate(row.tolist()))
        said[t] = model.predict_proba_one(x).get(True, 0.5)
        model.learn_one(x, bool(target))
    return said


def sgd(X: np.ndarray, y: np.ndarray, rate: float, seed: int) -> np.ndarray:
    """scikit-learn's, with running means and deviations in front of it."""
    model = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=rate, random_state=seed)
    said, total, squares = np.full(len(y), 0.5), np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for t, row in enumerate(X):
        n = max(t, 1)
        spread = np.sqrt(np.maximum(squares / n - (total / n) ** 2, 0.0))
        x = ((row - total / n) / np.where(spread > 0, spread, 1.0))[None]
        if t > 0:
            said[t] = model.predict_proba(x)[0, 1]
        model.partial_fit(x, y[t : t + 1], classes=[0.0, 1.0])
        total += row
        squares += row * row
    return said


def scaled(model: Any) -> Any:
    return preprocessing.StandardScaler() | model


MODELS: dict[str, dict[str, Callable[..., np.ndarray]]] = {
    "SOGP, probit": {
        f"lengthscale {relative:g} sqrt(d), variance {variance:g}": functools.partial(
            probit, relative=relative, variance=variance
        )
        for relative in (0.5, 1.0, 2.0)
        for variance in (1.0, 4.0, 16.0)
    },
    "River logistic regression": {
        f"rate {rate:g}": functools.partial(
            river, build=lambda _, rate=rate: scaled(linear_model.LogisticRegression(optim.SGD(rate)))
        )
        for rate in (0.003, 0.01, 0.03, 0.1, 0.3)
    },
    "scikit-learn SGDClassifier": {f"rate {rate:g}": functools.partial(sgd, rate=rate) for rate in (0.01, 0.03, 0.1)},
    "River Hoeffding tree": {
        f"grace period {grace}": functools.partial(
            river, build=lambda _, grace=grace: tree.HoeffdingTreeClassifier(grace_period=grace)
        )
        for grace in (25, 50, 200)
    },
    "River adaptive random forest": {
        "10 trees": functools.partial(river, build=lambda seed: forest.ARFClassifier(n_models=10, seed=seed))
    },
}


def cells(settings: Settings, rows: list[Row]) -> list[Cell]:
    return [
        {"rows": settings["rows"], "table": name, "seed": seed, "model": model}
        for name in TABLES
        for seed in range(settings["runs"])
        for model in MODELS
    ]


def run(cell: Cell) -> dict[str, Any]:
    X, y = table(cell["table"])
    order = np.random.default_rng(cell["seed"]).permutation(len(y))[: cell["rows"]]
    X, y = X[order], y[order]
    fifth, best = len(y) // 5, {"tuning": np.inf}
    for setting, track in MODELS[cell["model"]].items():
        said = np.clip(track(X, y, seed=cell["seed"]), LEAST, 1 - LEAST)
        loss = -np.log(np.where(y > 0.5, said, 1 - said))
        if loss[:fifth].mean() < best["tuning"]:
            best = {
                "tuning": float(loss[:fifth].mean()),
                "loss": float(loss[fifth:].mean()),
                "error": float(np.mean((said > 0.5) != (y > 0.5))),
                "setting": setting,
            }
    return best


def summarize(rows: list[Row], expected: Expected) -> Table:
    lines: list[list[str | Value]] = []
    for model in MODELS:
        line: list[str | Value] = [model]
        for name in TABLES:
            runs = [row for row in rows if (row["table"], row["model"]) == (name, model)]
            for what in ("loss", "error"):
                key, found = f"{name} {model} {what}", [row[what] for row in runs]
                spread = float(np.subtract(*np.percentile(found, [75, 25]))) if len(found) > 1 else None
                line.append(Value(key, float(np.median(found)), spread, expected.get(key)) if found else "-")
        lines.append(line)
    header = ["model", *(f"{name}: {what}" for name in TABLES for what in ("log loss", "error"))]
    notes = ["Median (interquartile range) over random orders. The error is the share of rows whose class was missed."]
    return Table(header, lines, notes)


EXPERIMENT = Experiment(
    title="Classes along a stream: a probit process against River and scikit-learn",
    full={"rows": 1000, "runs": 2},
    quick={"rows": 150, "runs": 1},
    cells=cells,
    run=run,
    summarize=summarize,
)
