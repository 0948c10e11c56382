"""The promises about speed, each with its target, what was measured and whether it is met.

Read from the files of results; with --quick, from a measurement of under a minute that writes nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, NamedTuple

import cost_per_row
import one_row
import record
import rows_seen

# Times of the floor, BLAS called from Python, of a row within track.
OVER_FLOOR = {
    "SOGP absorbing": 1.2,
    "KRLST growing and pruning": 3.0,
    "ISSGPR covariance": 1.2,
    "ISSGPR Cholesky": 2.0,
}
OVER_FLOOR_SIZES = (100, 200, 400)
CALLS_ABOVE_LOOP = 25.0  # microseconds
BYTES_GROWN = 0
QUICK_ROUNDS, QUICK_BLOCKS = 15, 5


class Claim(NamedTuple):
    """One promise about one model."""

    what: str
    model: str
    at: str
    target: float
    measured: float

    @property
    def met(self) -> bool:
        return self.measured <= self.target


def claims(cost: Any, calls: Any, seen: Any) -> Iterator[Claim]:
    """From the cells of cost_per_row, one_row and rows_seen."""
    for model, target in OVER_FLOOR.items():
        for m in OVER_FLOOR_SIZES:
            measured = cost[str(m)][model]["ratio"]["called"]
            yield Claim("row in track / floor, BLAS called", model, f"m = {m}", target, measured)
    for model, cell in calls.items():
        what, at = "predict_one + learn_one - row in track, us", f"m = {one_row.SIZE}"
        yield Claim(what, model, at, CALLS_ABOVE_LOOP, cell["above"])
    for model, cell in seen["track"].items():
        what, at = f"bytes grown over {cell['rows']} rows", f"m = {rows_seen.SIZE}"
        yield Claim(what, model, at, BYTES_GROWN, cell["bytes grown"])


def from_results() -> list[Claim]:
    names = ("cost_per_row", "one_row", "rows_seen")
    return list(claims(*(record.read(name)["cells"] for name in names)))


def quick() -> Iterator[Claim]:
    models = list(OVER_FLOOR)
    cost = {str(m): cost_per_row.measure(m, QUICK_ROUNDS, models, others=False) for m in OVER_FLOOR_SIZES}
    calls = {name: one_row.measure(name, QUICK_ROUNDS, 100) for name in models}
    seen = {"track": rows_seen.measure(models, QUICK_BLOCKS, rows_seen.BLOCK)}
    for m, cell in cost.items():
        print(f"m = {m}: " + ", ".join(f"{name} {times['median']:.3g} us" for name, times in cell.items()))
    return claims(cost, calls, seen)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="measure now, with few blocks; writes nothing")
    for claim in quick() if arguments.parse_args().quick else from_results():
        verdict = "yes" if claim.met else "NO"
        print(f"{claim.what:<44} {claim.model:<26} {claim.at:<8} {claim.measured:>9.3g} <= {claim.target} {verdict}")


if __name__ == "__main__":
    main()
