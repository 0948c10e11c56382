"""How many bytes a model takes, in memory and in a snapshot. Writes benchmarks/results/footprint.json."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

from contestants import MODELS, Rows
from record import Record

SIZES = (50, 100, 200, 400)


def measure(m: int) -> dict[str, Any]:
    return {name: size(name, m) for name in MODELS}


def size(name: str, m: int) -> dict[str, int]:
    """Bytes of Python's allocators, arrays included, from the construction to a full model; and of its snapshot."""
    X, y = Rows().take(m + 20)
    MODELS[name](m).learn_many(X, y)  # whatever is loaded or kept once
    gc.collect()
    tracemalloc.start()
    model = MODELS[name](m)
    model.learn_many(X, y)
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return {"memory": held, "snapshot": len(model.to_bytes())}


def main() -> None:
    record = Record("footprint")
    for m in SIZES:
        record.cell(str(m), measure, m)
    record.finish()


if __name__ == "__main__":
    main()
