"""Two models in two threads against one model in one: compiled loops release the interpreter's lock.

Writes benchmarks/results/threads.json. Wall time: thread time would count what two threads do at once twice.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import streamgp as sg
from contestants import MODELS, Rows, full
from record import Record
from timing import figures, seconds

BLOCK_SECONDS = 0.1  # seconds: long against handing work to a thread
SIZE = 100
ROUNDS = 20


def measure(name: str, rounds: int, m: int = SIZE) -> dict[str, Any]:
    """Rows per second of one model alone and of two at once, and the ratio, a median over rounds."""
    rows = Rows()
    models = [full(name, m, rows) for _ in range(2)]
    X, y = rows.take(500)
    count = max(1, round(500 * BLOCK_SECONDS / seconds(lambda: models[0].track(X, y))))
    alone, together = np.empty(rounds), np.empty(rounds)
    X, y = rows.take(count)
    with ThreadPoolExecutor(2) as pool:
        for i in range(rounds):
            alone[i] = seconds(lambda: run(pool, models[:1], X, y), time.perf_counter)
            together[i] = seconds(lambda: run(pool, models, X, y), time.perf_counter)
    return {
        "one": figures(count / np.median(alone)),
        "two": figures(2 * count / np.median(together)),
        "ratio": figures(np.median(2 * alone / together)),
    }


def run(pool: ThreadPoolExecutor, models: Sequence[sg.StreamModel], X: np.ndarray, y: np.ndarray) -> None:
    """All models track the rows, each in a thread of its own."""
    for done in [pool.submit(model.track, X, y) for model in models]:
        done.result()


def main() -> None:
    record = Record("threads", m=SIZE)
    for name in MODELS:
        record.cell(name, measure, name, ROUNDS)
    record.finish()


if __name__ == "__main__":
    main()
