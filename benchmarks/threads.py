"""Two models in two threads against one model in one: compiled loops release the interpreter's lock.

Writes benchmarks/results/threads.json.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from contestants import Rows, full
from timing import figures, seconds

BLOCK = 0.1  # seconds: long against starting a thread


def rates(name: str, m: int, rounds: int) -> dict[str, Any]:
    """Rows per second of one model alone and of two at once, and the ratio, a median over rounds."""
    rows = Rows()
    models = [full(name, m, rows) for _ in range(2)]
    X, y = rows.take(1000)
    count = max(1, round(BLOCK / seconds(lambda: models[0].track(X, y)) * 1000))
    X, y = rows.take(count)
    alone, together = np.empty(rounds), np.empty(rounds)
    with ThreadPoolExecutor(2) as pool:
        for i in range(rounds):
            alone[i] = seconds(lambda: pool.submit(models[0].track, X, y).result(), time.perf_counter)
            together[i] = seconds(lambda: list(pool.map(lambda model: model.track(X, y), models)), time.perf_counter)
    return {
        "one": figures(count / np.median(alone)),
        "two": figures(2 * count / np.median(together)),
        "ratio": figures(np.median(2 * alone / together)),
    }
