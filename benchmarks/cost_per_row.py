"""What a row costs, predicted and learned: our models, the BLAS floor, plain NumPy, and other libraries.

All of one size take turns in one process. Writes benchmarks/results/cost_per_row.json; the cost against the number of
weights is read from it too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import contestants
import floor
import other_libraries
import plain
from contestants import MODELS, PRODUCTS
from record import Record
from timing import Work, interleaved, ratio, summary

SIZES = (50, 100, 200, 400)
ROUNDS = 100
FLOORS: dict[str, Callable[[int, int], Work]] = {"called": floor.from_python, "compiled": floor.from_compiled}


def floor_name(kind: str, products: int) -> str:
    return f"BLAS {kind}, {products} dsymv + dsyr"


def plain_name(name: str) -> str:
    return f"NumPy {name}"


def measure(m: int, rounds: int, names: Iterable[str] = MODELS, others: bool = True) -> dict[str, Any]:
    """Microseconds a row of everyone, and of the models also the ratio to their floors and to plain NumPy."""
    works = {name: contestants.tracking(name, m) for name in names}
    works |= {floor_name(kind, n): build(m, n) for kind, build in FLOORS.items() for n in (1, 2)}
    if others:
        works |= {plain_name(name): plain.tracking(name, m) for name in names}
        works |= {name: build(m) for name, build in other_libraries.installed().items()}
    times = interleaved(works, rounds)
    cell: dict[str, Any] = {name: summary(taken) for name, taken in times.items()}
    for name in names:
        against = {kind: floor_name(kind, PRODUCTS[name]) for kind in FLOORS} | {"NumPy": plain_name(name)}
        cell[name]["ratio"] = {
            kind: ratio(times[name], times[other]) for kind, other in against.items() if other in times
        }
    return cell


def main() -> None:
    record = Record("cost_per_row", ("river", "reservoirpy", "padasip", "scikit-learn", "torch", "gpytorch"))
    for m in SIZES:
        record.cell(str(m), measure, m, ROUNDS)
    record.finish()


if __name__ == "__main__":
    main()
