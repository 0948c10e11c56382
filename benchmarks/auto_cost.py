"""What a row of auto costs: each candidate beside the table of streamgp.auto.budget, and whole models by their budget.

    python benchmarks/auto_cost.py

Prints processor time. The table was made on one core of the machine named in the first line of auto.json.
"""

from __future__ import annotations

import time

import numpy as np

import streamgp as sg
from streamgp.auto.budget import LADDER, cost
from streamgp.auto.candidates import CANDIDATES, candidate, least_squares
from streamgp.contract.model import StreamModel

INPUTS = (3, 11, 24)
ROWS = 600
BUDGETS = ("100us", "300us", "1ms", None)


def rows(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, np.sin(X[:, 0]) + 0.3 * X[:, 1] * X[:, 2] + 0.2 * rng.normal(size=n)


def microseconds(model: StreamModel, d: int) -> float:
    """A row of a model that has learned as many rows before."""
    X, y = rows(2 * ROWS, d)
    model.learn_many(X[:ROWS], y[:ROWS])
    start = time.process_time()
    model.track(X[ROWS:], y[ROWS:])
    return (time.process_time() - start) / ROWS * 1e6


def main() -> None:
    print("microseconds a row: measured, table")
    for d in INPUTS:
        line = least_squares(0.99)
        print(f"{d} inputs, least squares: {microseconds(line, d):.1f}, {cost(line):.1f}")
        for least, sizes in LADDER.items():
            for name in CANDIDATES:
                model = candidate(name, d, {}, sizes)
                print(f"{d} inputs, {name}, from {least:g} us: {microseconds(model, d):.0f}, {cost(model):.0f}")
    X, y = rows(6000, 8)
    for budget in BUDGETS:
        model, taken, last = sg.Auto(budget=budget), [], time.process_time()
        for start in range(0, len(y), 100):
            model.track(X[start : start + 100], y[start : start + 100])
            taken.append(time.process_time() - last)
            last = time.process_time()
        print(
            f"Auto(budget={budget!r}), 8 inputs: first 4,000 rows {sum(taken[:40]):.1f} s, "
            f"later {np.median(taken[40:]) * 1e4:.0f} us a row"
        )


if __name__ == "__main__":
    main()
