"""Our models as the benchmarks run them: with m weights, full from the start, fed with rows that never repeat."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import streamgp as sg
from timing import Work

WIDTH = 8
LENGTHSCALE = 3.0  # about the median distance of two inputs is 4: neither all alike nor all apart
NOISE = 0.01


class Rows:
    """An endless stream: normal inputs, a smooth function of them, noise."""

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)

    def take(self, rows: int) -> tuple[np.ndarray, np.ndarray]:
        X = self._rng.normal(size=(rows, WIDTH))
        return X, np.sin(X[:, 0]) + NOISE**0.5 * self._rng.normal(size=rows)


def kernel() -> sg.SquaredExponential:
    return sg.SquaredExponential(LENGTHSCALE)


# A basis that fills with the first rows and then changes no more: every row after them is absorbed.
ABSORBING: dict[str, Any] = {"novelty": 0.0, "evict": "never", "noise": NOISE}

MODELS: dict[str, Callable[[int], sg.StreamModel]] = {
    "SOGP absorbing": lambda m: sg.SOGP(kernel(), capacity=m, **ABSORBING),
    "KRLST growing and pruning": lambda m: sg.KRLST(kernel(), capacity=m, forgetting=0.999, noise=NOISE),
    "OIESGP depth 5 absorbing": lambda m: sg.OIESGP(5, lengthscale=LENGTHSCALE, capacity=m, **ABSORBING),
    "OIESGP depth 20 absorbing": lambda m: sg.OIESGP(20, lengthscale=LENGTHSCALE, capacity=m, **ABSORBING),
    "OESGP 100 units absorbing": lambda m: sg.OESGP(units=100, capacity=m, **ABSORBING),
    "RecursiveGP batch 1": lambda m: sg.RecursiveGP(Rows(1).take(m)[0], kernel=kernel(), noise=NOISE),
    "RecursiveGP batch 10": lambda m: sg.RecursiveGP(Rows(1).take(m)[0], kernel=kernel(), noise=NOISE, batch=10),
    "ISSGPR covariance": lambda m: sg.ISSGPR(m // 2, lengthscale=LENGTHSCALE, noise=NOISE, form="covariance"),
    "ISSGPR Cholesky": lambda m: sg.ISSGPR(m // 2, lengthscale=LENGTHSCALE, noise=NOISE, form="cholesky"),
    "KLMS": lambda m: sg.filters.KLMS(kernel(), step=0.1, capacity=m),
}

# Symmetric products that a row needs besides one rank-one update: two on a basis (with C and with the inverse of K),
# one on features whose prior is the identity, none without a matrix.
PRODUCTS = {name: 0 if name == "KLMS" else 1 if name.startswith("ISSGPR") else 2 for name in MODELS}


def full(name: str, m: int, rows: Rows) -> sg.StreamModel:
    """The model after m rows and a few more: its basis is full."""
    model = MODELS[name](m)
    model.learn_many(*rows.take(m + 20))
    assert model.size == m, f"{name} has {model.size} weights, not {m}"
    return model


def tracking(name: str, m: int) -> Work:
    """Predict and learn all rows of a block by one call."""
    return over_rows(name, m, lambda model, X, y: lambda: model.track(X, y))


def predicting(name: str, m: int) -> Work:
    """Predict all rows of a block by one call, and learn none."""
    return over_rows(name, m, lambda model, X, _: lambda: model.predict_many(X))


def row_by_row(name: str, m: int) -> Work:
    """Predict, then learn each row by calls of its own."""
    return over_rows(name, m, single_calls)


def single_calls(model: sg.StreamModel, X: np.ndarray, y: np.ndarray) -> Callable[[], object]:
    """Calls of predict_one and learn_one for each row."""
    pairs = list(zip(X, y.tolist(), strict=True))

    def run() -> None:
        for x, target in pairs:
            model.predict_one(x)
            model.learn_one(x, target)

    return run


def over_rows(
    name: str, m: int, ready: Callable[[sg.StreamModel, np.ndarray, np.ndarray], Callable[[], object]]
) -> Work:
    """What a full model does with every next block of rows."""
    rows = Rows()
    model = full(name, m, rows)
    return lambda count: ready(model, *rows.take(count))
