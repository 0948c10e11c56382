"""What a row costs with a wheel's machine code, beside the code that Numba compiles here; prints a table.

    python machine/build_core.py build/core
    python benchmarks/machine_code.py build/core [--pairs 3] [--rounds 40]

A pair is two fresh processes, one of each kind, that take blocks of the same rows in turn: other work on the machine
slows both alike, and where a process has its arrays is drawn anew for each pair. One thread, whose own time counts.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

SRC = Path(__file__).parents[1] / "src" / "streamgp"
WIDTH, NOISE, LENGTHSCALE = 8, 0.01, 3.0
SIZES = (100, 200, 400)
SETTLED = 1500  # rows of Auto before the first that is measured


def models(sg: Any) -> dict[str, tuple[Callable[[], Any], int, int]]:
    """By name: how it is built, the rows before those that are measured, and the rows of a block."""
    kernel, found = sg.SquaredExponential(LENGTHSCALE), {}
    for m in SIZES:
        absorbing = {"capacity": m, "noise": NOISE, "novelty": 0.0, "evict": "never"}
        rows, block = m + 20, 40_000 // m
        found |= {
            f"SOGP, m = {m}": (lambda given=absorbing: sg.SOGP(kernel, **given), rows, block),
            f"KRLST, m = {m}": (lambda m=m: sg.KRLST(kernel, capacity=m, forgetting=0.999, noise=NOISE), rows, block),
            f"ISSGPR, m = {m}": (lambda m=m: sg.ISSGPR(m // 2, noise=NOISE, form="covariance"), rows, block),
        }
    return found | {"Auto": (lambda: sg.Auto(trees=False, background=False), SETTLED, 40)}


def answer() -> None:
    """In a process of its own: for each line of its input, the name of a model, track a block; print microseconds."""
    import streamgp as sg
    from streamgp.compiled import way

    rng, built, started = np.random.default_rng(0), models(sg), {}

    def rows(n: int) -> tuple[np.ndarray, np.ndarray]:
        X = rng.normal(size=(n, WIDTH))
        return X, np.sin(X[:, 0]) + NOISE**0.5 * rng.normal(size=n)

    print(way.described() if hasattr(way, "found") else "Numba", flush=True)
    for line in sys.stdin:
        make, before, block = built[name := line.strip()]
        if name not in started:
            started[name] = make()
            started[name].learn_many(*rows(before))
        X, y = rows(block)
        started[name].track(X[:1], y[:1])  # its arrays are in the cache again
        began = time.thread_time()
        started[name].track(X[1:], y[1:])
        print(1e6 * (time.thread_time() - began) / (block - 1), flush=True)


class Process:
    """One that answers."""

    def __init__(self, environment: dict[str, str]) -> None:
        pipe: Any = subprocess.PIPE
        command = [sys.executable, __file__, "--answer"]
        self._running = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=os.environ | environment)
        self.said = self._line()

    def _line(self) -> str:
        assert self._running.stdout is not None
        return self._running.stdout.readline().strip()

    def block(self, name: str) -> float:
        assert self._running.stdin is not None
        print(name, file=self._running.stdin, flush=True)
        return float(self._line())

    def end(self) -> None:
        self._running.communicate()


def measured(environments: list[dict[str, str]], names: list[str], rounds: int) -> tuple[np.ndarray, list[str]]:
    """Microseconds a row, (models, rounds, 2), of a pair of processes, and what each says of its code."""
    pair = [Process(environment) for environment in environments]
    times = np.empty((len(names), rounds, 2))
    for i, name in enumerate(names):
        for each in pair:
            each.block(name)  # builds it
        for r in range(rounds):
            for k in (0, 1) if r % 2 else (1, 0):
                times[i, r, k] = pair[k].block(name)
    for each in pair:
        each.end()
    return times, [each.said for each in pair]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("core", nargs="?", type=Path, help="folder of machine/build_core.py")
    arguments.add_argument("--pairs", type=int, default=3)
    arguments.add_argument("--rounds", type=int, default=40)
    arguments.add_argument("--models", nargs="*", default=[], help="beginnings of names; default: all")
    arguments.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.answer:
        answer()
        return
    import streamgp as sg

    names = [name for name in models(sg) if name.startswith(tuple(given.models) or "")]
    with tempfile.TemporaryDirectory() as folder:
        installed = Path(folder) / "streamgp"
        shutil.copytree(SRC, installed, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copytree(given.core, installed / "core", ignore=shutil.ignore_patterns("objects"))
        one = {"OMP_NUM_THREADS": "1"}
        kinds = [one | {"PYTHONPATH": folder}, one | {"PYTHONPATH": str(SRC.parent), "STREAMGP_JIT": "1"}]
        kinds[0]["PYTHONPATH"] += os.pathsep + os.environ.get("PYTHONPATH", "")
        kinds[1]["PYTHONPATH"] += os.pathsep + os.environ.get("PYTHONPATH", "")
        pairs, said = zip(*(measured(kinds, names, given.rounds) for _ in range(given.pairs)), strict=True)
    if not said[0][0].startswith("machine code"):
        raise SystemExit(f"the library of {given.core} is not in use: was it built from these sources?")
    times = np.concatenate(pairs, axis=1)
    print(f"{said[0][0]}; medians of {given.pairs} pairs of processes, {given.rounds} blocks each; us a row")
    print(f"{'':<18}{'library':>10}{'Numba':>10}{'ratio':>8}   half of the ratios; ratio of each pair")
    for name, blocks in zip(names, times, strict=True):
        library, numba = np.median(blocks, axis=0)
        ratios = blocks[:, 0] / blocks[:, 1]
        low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
        each = " ".join(f"{np.median(part):.3f}" for part in np.split(ratios, given.pairs))
        print(f"{name:<18}{library:>10.2f}{numba:>10.2f}{middle:>8.3f}   {low:.3f} to {high:.3f}; {each}")


if __name__ == "__main__":
    main()
