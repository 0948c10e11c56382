"""The steps of a row: what predicting it costs, and what learning it adds.

Writes benchmarks/results/where_time_goes.json.
"""

from __future__ import annotations

from typing import Any

import contestants
from contestants import MODELS
from record import Record
from timing import interleaved, summary

SIZES = (100, 400)
ROUNDS = 60


def measure(m: int, rounds: int) -> dict[str, Any]:
    """Microseconds a row by predict_many and by track."""
    steps = {"predict_many": contestants.predicting, "track": contestants.tracking}
    works = {f"{name}: {step}": build(name, m) for name in MODELS for step, build in steps.items()}
    return {name: summary(taken) for name, taken in interleaved(works, rounds).items()}


def main() -> None:
    record = Record("where_time_goes")
    for m in SIZES:
        record.cell(str(m), measure, m, ROUNDS)
    record.finish()


if __name__ == "__main__":
    main()
