"""A fleet against the loop over single models: rows a second, one row of each model at a time and several.

Writes benchmarks/results/fleet.json, where each device has its own part: this one measures "cpu" and keeps the others.
Wall time: thread time would count what two threads do at once twice.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import streamgp as sg
from contestants import MODELS, Rows
from record import RESULTS, Record, environment, read, write
from streamgp.fleet.devices import cores
from timing import figures, seconds

RECIPES = "SOGP absorbing", "KRLST growing and pruning"
SIZES = 20, 50  # of a basis
MODELS_IN_FLEET = 1000
THREADS = tuple(n for n in (1, 2, 4, 8, 16) if n <= cores())
ROWS_AT_ONCE = 1, 16
ROUNDS = 40


def measure(name: str, m: int, size: int, rounds: int) -> dict[str, Any]:
    """Rows a second of all models together, medians over rounds; ratios to the loop, medians within rounds."""
    rows = Rows()
    fleets = {threads: sg.Fleet(MODELS[name](m), size=size, threads=threads) for threads in THREADS}
    for start in range(0, m + 20, 10):
        X, Y = of_all(rows, min(10, m + 20 - start), size)
        for fleet in fleets.values():
            fleet.learn_many(X, Y)
    singles = [fleets[1].model(i) for i in range(size)]
    assert all(model.size == m for model in singles)
    contestants: dict[str, Callable[[np.ndarray, np.ndarray], Callable[[], object]]] = {
        "loop": lambda X, Y: loop(singles, X[0], Y[0])
    }
    for threads, fleet in fleets.items():
        for at_once in ROWS_AT_ONCE:
            contestants[f"{threads} threads, {at_once} rows"] = tracking(fleet, at_once)
    taken: dict[str, list[float]] = {contestant: [] for contestant in contestants}
    for _ in range(rounds):
        X, Y = of_all(rows, max(ROWS_AT_ONCE), size)
        for contestant, ready in contestants.items():
            at_once = 1 if contestant == "loop" else int(contestant.split()[2])
            taken[contestant].append(seconds(ready(X, Y), time.perf_counter) / at_once / size)
    found = {contestant: np.array(values) for contestant, values in taken.items()}
    return {
        "models": size,
        "rows a second": {key: figures(1.0 / np.median(values)) for key, values in found.items()},
        "times the loop": {
            key: figures(np.median(found["loop"] / values)) for key, values in found.items() if key != "loop"
        },
        "bytes a model": bytes_of(singles[0]),
    }


def of_all(rows: Rows, count: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of every model, (count, size, d), and targets."""
    X, Y = rows.take(count * size)
    return X.reshape(count, size, -1), Y.reshape(count, size)


def tracking(fleet: sg.Fleet, at_once: int) -> Callable[[np.ndarray, np.ndarray], Callable[[], object]]:
    return lambda X, Y: lambda: fleet.track(X[:at_once], Y[:at_once])


def loop(models: Sequence[sg.StreamModel], X: np.ndarray, y: np.ndarray) -> Callable[[], None]:
    """Predict, then learn one row of each model by calls of its own."""
    pairs = list(zip(models, X, y.tolist(), strict=True))

    def run() -> None:
        for model, x, target in pairs:
            model.predict_one(x)
            model.learn_one(x, target)

    return run


def bytes_of(model: sg.StreamModel) -> int:
    """What one model takes in a fleet: all its numbers, work space included."""
    from streamgp.contract.stackable import stack_of

    return sum(array.nbytes for array in stack_of(model))


def on_cores(rounds: int = ROUNDS, size: int = MODELS_IN_FLEET) -> dict[str, Any]:
    return {f"{name}, m = {m}": measure(name, m, size, rounds) for name in RECIPES for m in SIZES}


def on_gpu(asked: list[str]) -> None:
    """Measure parts of what a GPU does; the others stay as they were."""
    import fleet_gpu

    results = read("fleet")
    cell = results["cells"].setdefault("cuda", {})
    for name in asked or list(fleet_gpu.PARTS):
        cell[name] = fleet_gpu.PARTS[name]()
        cell["environment"] = environment("numba-cuda", "jax", "torch") | {
            "gpu": str(fleet_gpu.cuda.get_current_device().name)
        }
        write(RESULTS / "fleet.json", results)
        print(name, cell[name], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "parts", nargs="*", help="of what a GPU does: kernel, whole, wrapped, loops, rivals, accuracy, updates"
    )
    asked = parser.parse_args()
    if asked.device == "cuda":
        on_gpu(asked.parts)
        return
    others = read("fleet")["cells"] if (RESULTS / "fleet.json").exists() else {}
    record = Record("fleet")
    record.cell("cpu", on_cores)
    for device in others.keys() - {"cpu"}:
        record.results["cells"][device] = others[device]
    record.finish()


if __name__ == "__main__":
    main()
