"""The promises about speed, as ratios in one run; each with its target, what was measured, and whether it is met.

Writes benchmarks/results/must_show.json. With --quick it takes under a minute, prints and writes nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import allocation
import floor
import threads
from contestants import row_by_row, tracking
from timing import BLOCK_SECONDS, difference, interleaved, ratio, summary

SIZES = (100, 200, 400)
# Times of the floor of so many symmetric products and one rank-one update.
AGAINST_FLOOR = {
    "SOGP absorbing": (2, 1.5),
    "KRLST growing and pruning": (2, 3.0),
    "ISSGPR covariance": (1, 1.5),
    "ISSGPR Cholesky": (1, 4.0),
}
FLOORS: dict[str, Callable[[int, int], Any]] = {"python": floor.from_python, "compiled": floor.from_compiled}
ONE_ROW_SIZE, ONE_ROW_TARGET = 100, 25.0  # microseconds that two calls may add to the loop's row
THREADS_TARGET = 1.7


def against_floor(m: int, rounds: int) -> dict[str, Any]:
    works = {name: tracking(name, m) for name in AGAINST_FLOOR}
    works |= {f"{kind} {products}": FLOORS[kind](m, products) for kind in FLOORS for products in (2, 1)}
    times = interleaved(works, rounds)
    cells = {}
    for name, (products, target) in AGAINST_FLOOR.items():
        cells[name] = summary(times[name]) | {"products": products, "target": target}
        for kind in FLOORS:
            reference = times[f"{kind} {products}"]
            cells[name][f"floor {kind}"] = summary(reference)["median"]
            cells[name][f"ratio {kind}"] = ratio(times[name], reference)
    return cells


def one_row(rounds: int) -> dict[str, Any]:
    cells = {}
    for name in AGAINST_FLOOR:
        works = {"calls": row_by_row(name, ONE_ROW_SIZE), "loop": tracking(name, ONE_ROW_SIZE)}
        times = interleaved(works, rounds)
        above = difference(times["calls"], times["loop"])
        cells[name] = {kind: summary(times[kind])["median"] for kind in works} | {"above": above}
    return cells


def claims(rounds: int, rows: int) -> list[dict[str, Any]]:
    """Everything that must be shown, measured."""
    found: list[dict[str, Any]] = []

    def claim(what: str, at: str, target: float, measured: float, met: bool, **more: Any) -> None:
        found.append({"what": what, "at": at, "target": target, "measured": measured, "met": met} | more)
        print(f"{what:<44} {at:<22} {target:>7} {measured:>9.3g} {'yes' if met else 'NO':>4}  {more}", flush=True)

    print(f"{'':<44} {'':<22} {'target':>7} {'measured':>9}  met")
    for m in SIZES:
        for name, cell in against_floor(m, rounds).items():
            for kind in FLOORS:
                measured, what = cell[f"ratio {kind}"], f"{name} over BLAS from {kind}"
                more = {"microseconds": cell["median"], "floor": cell[f"floor {kind}"]}
                claim(what, f"m = {m}", cell["target"], measured, measured <= cell["target"], **more)
    for name, cell in one_row(rounds).items():
        met = cell["above"] <= ONE_ROW_TARGET
        claim(f"{name}: one-row calls less loop", f"m = {ONE_ROW_SIZE}, us", ONE_ROW_TARGET, cell["above"], met, **cell)
    for name in AGAINST_FLOOR:
        cell = threads.rates(name, 100, max(3, rounds // 4))
        claim(f"{name}: two threads", "m = 100", THREADS_TARGET, cell["ratio"], cell["ratio"] >= THREADS_TARGET, **cell)
    for name in AGAINST_FLOOR:
        cell = allocation.growth(name, rows)
        claim(f"{name}: bytes grown", f"{rows} rows", 0, cell["growth"], cell["growth"] <= 0, **cell)
    return found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="fewer blocks, fewer rows; nothing is written")
    quick = arguments.parse_args().quick
    claims(rounds=15 if quick else 100, rows=100_000 if quick else 1_000_000)


if __name__ == "__main__":
    main()
