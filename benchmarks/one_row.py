"""What calls from Python add: predict_one and learn_one against a row within track, and how long single calls take.

Writes benchmarks/results/one_row.json.
"""

from __future__ import annotations

from typing import Any

import contestants
from contestants import MODELS, Rows, full
from record import Record
from timing import calls, difference, interleaved, summary

SIZE = 100
ROUNDS = 60
CALLS = 3000


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


def main() -> None:
    record = Record("one_row", m=SIZE)
    for name in MODELS:
        record.cell(name, measure, name, ROUNDS, CALLS)
    record.finish()


if __name__ == "__main__":
    main()
