"""Cost and memory against the rows seen: neither may grow. A million rows of every model.

Writes benchmarks/results/rows_seen.json. Python's allocators are watched by tracemalloc, which sees arrays too;
compiled code makes none (machine/build_core.py).
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from contestants import MODELS, Rows, full
from record import Record
from timing import figures, seconds

SIZE = 20  # weights: few, so that a million rows take seconds
ROWS, BLOCK = 1_000_000, 20_000
WARM_UP = 60  # short blocks, after which Python has specialised the code that measures, and caches of NumPy are full
CALLED, CALLED_ROWS = "SOGP absorbing", 100_000  # by predict_one and learn_one


def held() -> int:
    """Bytes that Python's allocators hold."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def measure(names: Sequence[str], blocks: int, block: int, m: int = SIZE) -> dict[str, Any]:
    """Microseconds a row in each block, and bytes grown; models take turns."""
    rows = Rows()
    models = [full(name, m, rows) for name in names]
    # Filled in place, and nothing of the measurement lives between two readings: it would count.
    times = np.empty((len(models), WARM_UP + blocks))
    memory = np.zeros((2, *times.shape), dtype=np.int64)
    gc.freeze()  # collecting need not look at what was there before
    tracemalloc.start()
    for i in range(WARM_UP + blocks):
        X, y = rows.take(50 if i < WARM_UP else block)
        for j in range(len(models)):
            memory[0, j, i] = held()
            times[j, i] = seconds(partial(models[j].track, X, y))
            memory[1, j, i] = held()
    tracemalloc.stop()
    gc.unfreeze()
    return {
        name: {
            "rows": blocks * block,
            "microseconds": [figures(t) for t in 1e6 * times[j, WARM_UP:] / block],
            "bytes grown": int(np.diff(memory, axis=0)[0, j, WARM_UP:].sum()),
        }
        for j, name in enumerate(names)
    }


def calls_grow(name: str, rows: int, m: int = SIZE) -> dict[str, Any]:
    """Bytes grown by predicting and learning the rows one by one."""
    stream = Rows()
    model = full(name, m, stream)
    X, y = stream.take(rows // 2)
    targets = y.tolist()

    def run() -> None:
        for x, target in zip(X, targets, strict=True):
            model.predict_one(x)
            model.learn_one(x, target)

    tracemalloc.start()
    run()
    before = held()
    run()
    grown = held() - before
    tracemalloc.stop()
    return {"rows": rows, "bytes grown": grown}


def growth(times: Sequence[float]) -> float:
    """The median of the last fifth over that of the first."""
    fifth = max(1, len(times) // 5)
    return figures(np.median(times[-fifth:]) / np.median(times[:fifth]))


def main() -> None:
    record = Record("rows_seen", m=SIZE, rows=ROWS, block=BLOCK)
    record.cell("track", measure, list(MODELS), ROWS // BLOCK, BLOCK)
    record.cell("calls", calls_grow, CALLED, CALLED_ROWS)
    record.finish()


if __name__ == "__main__":
    main()
