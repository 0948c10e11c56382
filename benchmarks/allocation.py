"""Memory over a long stream: it must not grow. Writes benchmarks/results/allocation.json."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

from contestants import Rows, full

BLOCK = 10_000  # rows of a call
SIZE = 20  # weights: small, so that a million rows take seconds


def growth(name: str, rows: int, m: int = SIZE) -> dict[str, Any]:
    """Bytes that Python's allocators hold after the rows, less those after the first blocks."""
    stream = Rows()
    model = full(name, m, stream)
    X, y = stream.take(BLOCK)
    tracemalloc.start()
    for _ in range(2):
        model.track(X, y)
    before = held()
    for _ in range(rows // BLOCK):
        model.track(X, y)
    after = held()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {"rows": rows, "m": m, "before": before, "after": after, "growth": after - before, "peak": peak}


def held() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
