"""What calls from Python add: predict_one and learn_one against a row within track, and how long single calls take.

Auto apart, with and without a horizon, after it has settled; what building and tuning it take up to there, and the
longest that a row waits for its answer where rows come at a pace.

    python benchmarks/one_row.py [--only auto]

Writes benchmarks/results/one_row.json and auto_row.json.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import contestants
import streamgp as sg
from contestants import MODELS, Rows, full, single_calls
from record import Record
from streamgp.auto import choosing
from timing import calls, difference, figures, interleaved, seconds, summary

SIZE = 100
ROUNDS = 60
CALLS = 3000

AHEAD = 6  # rows
SETTLED = 4000  # rows: four times the warm-up
BLOCK = 100  # rows of a settled Auto
PACE = 0.005  # seconds between two rows
AUTO: dict[str, Callable[[], sg.StreamModel]] = {
    "Auto": sg.Auto,
    f"Auto, {AHEAD} rows ahead": lambda: sg.Ahead(sg.Auto(), horizon=AHEAD),
}


def measure(name: str, rounds: int, repeats: int) -> dict[str, Any]:
    """Microseconds: both calls, a row in track and in predict_many, the difference; single calls with their p99."""
    works = {
        "calls": contestants.row_by_row(name, SIZE),
        "loop": contestants.tracking(name, SIZE),
        "predict": contestants.predicting(name, SIZE),
    }
    times = interleaved(works, rounds)
    cell: dict[str, Any] = {kind: summary(taken) for kind, taken in times.items()}
    cell["above"] = difference(times["calls"], times["loop"])
    rows = Rows()
    model = full(name, SIZE, rows)
    X, y = rows.take(repeats)
    cell["predict_one"] = summary(calls(model.predict_one, [(x,) for x in X]))
    cell["learn_one"] = summary(calls(model.learn_one, list(zip(X, y.tolist(), strict=True))))
    return cell


def measure_auto(name: str, settled: int, rounds: int) -> dict[str, Any]:
    """Microseconds of a settled row: by both calls, and in track."""
    rows = Rows()
    model = AUTO[name]()
    model.learn_many(*rows.take(settled))
    taken: dict[str, list[float]] = {"calls": [], "loop": []}
    with threadpool_limits(limits=1):
        for _ in range(rounds):
            X, y = rows.take(BLOCK)
            for kind, run in (("calls", single_calls(model.copy(), X, y)), ("loop", partial(model.track, X, y))):
                taken[kind].append(1e6 * seconds(run) / BLOCK)
    return {kind: summary(np.array(times)) for kind, times in taken.items()}


def building(rows: int) -> dict[str, float]:
    """Seconds of processor time that Auto takes for so many rows, and how many of them to build and tune lines."""
    taken, change = [0.0], choosing.change

    def timed(table: Any) -> None:
        start = time.process_time()
        change(table)
        taken.append(time.process_time() - start)

    X, y = Rows().take(rows)
    choosing.change = timed
    try:
        start = time.process_time()
        sg.Auto(background=False).learn_many(X, y)
        whole = time.process_time() - start
    finally:
        choosing.change = change
    return {"all": figures(whole), "building and tuning": figures(sum(taken)), "longest step": figures(max(taken))}


def waiting(rows: int, pace: float, background: bool) -> dict[str, float]:
    """Milliseconds from a row to its answer, on the clock: the longest, and the median."""
    X, y = Rows().take(rows)
    model, taken = sg.Auto(background=background), []
    for x, target in zip(X, y.tolist(), strict=True):
        time.sleep(pace)
        start = time.perf_counter()
        model.predict_one(x)
        model.learn_one(x, target)
        taken.append(1e3 * (time.perf_counter() - start))
    return {"longest": figures(max(taken)), "median": figures(float(np.median(taken)))}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--only", choices=["auto"])
    if not arguments.parse_args().only:
        record = Record("one_row", m=SIZE)
        for name in MODELS:
            record.cell(name, measure, name, ROUNDS, CALLS)
        record.finish()
    record = Record("auto_row", rows=SETTLED, pace=PACE)
    for name in AUTO:
        record.cell(name, measure_auto, name, SETTLED, ROUNDS)
    record.cell("building", building, SETTLED)
    for background in (False, True):
        record.cell(f"background={background}", waiting, SETTLED, PACE, background)
    record.finish()


if __name__ == "__main__":
    main()
