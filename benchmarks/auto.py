"""``Auto`` of any tree of sources on many streams, beside least squares and LightGBM; two trees compared.

    python benchmarks/auto.py run --out FOLDER [--tree .] [--jobs 16] [--only WORD ...] [--contestants Auto RLS ...]
    python benchmarks/auto.py compare FORMER NEW [--rivals FOLDER]
    python benchmarks/auto.py render [--out FOLDER]
    python benchmarks/auto.py pack FILE [--only WORD ...]

``run`` writes one file for each stream (auto_streams.py), horizon and contestant; a run that was stopped goes on with
the missing ones. ``compare`` prints the errors of one folder over those of another, and over the best least squares in
hindsight. ``render`` writes benchmarks/results/auto.json from a folder, and the tables in docs/main-job.md. ``pack``
writes the streams into one file; where AUTO_STREAMS names it neither tables nor packages are needed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import auto_tables
from auto_streams import CHANGED_NOISE, DAY, SOURCES, Stream, pack, stream

ROOT = Path(__file__).parents[1]
BLOCK = 500  # rows of a call
LEVEL, WINDOW = 0.9, 1000
EARLY, FROM, LATER = 20, 500, 1500  # rows after which errors count
FIRST_ROWS, MORE_ROWS = 1000, 4000  # whose time is told
RECOVERED, RECOVERED_ROWS = 1.5, 100  # an error of so many times the noise over so many rows


class Said(NamedTuple):
    """What a contestant predicted of every row before it saw the target; NaN where it predicted nothing."""

    mean: np.ndarray
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None
    about: dict[str, Any] = {}  # noqa: RUF012 (never changed)


# Contestants.


def by_auto(data: Stream, horizon: int) -> dict[str, Said]:
    import streamgp as sg

    model: Any = sg.Auto(seasons=list(data.seasons))
    if horizon:
        model = sg.Ahead(model, horizon=horizon)
    parts, seconds = [], []
    for start in range(0, len(data.y), BLOCK):
        rows, began = slice(start, start + BLOCK), time.process_time()
        parts.append(model.track(data.X[rows], data.y[rows]))
        seconds.append(time.process_time() - began)
    lower, upper = (np.concatenate(ends) for ends in zip(*(part.interval(LEVEL) for part in parts), strict=True))
    return {
        "Auto": Said(np.concatenate([part.mean for part in parts]), lower, upper, cost(seconds, len(data.y), model))
    }


def cost(seconds: list[float], n: int, model: Any) -> dict[str, Any]:
    """Processor time, that of threads in the background included, by the rows of a stream."""
    settled = seconds[MORE_ROWS // BLOCK : n // BLOCK] or seconds[-2:]
    return {
        "seconds, first rows": sum(seconds[: FIRST_ROWS // BLOCK]),
        "seconds, more rows": sum(seconds[: MORE_ROWS // BLOCK]) if n >= MORE_ROWS else None,
        "microseconds a row": 1e6 * statistics.median(settled) / BLOCK,
        "seconds": sum(seconds),
        "snapshot bytes": len(model.to_bytes()),
        "changes told": [] if hasattr(model, "upcoming") else list(model.changes),
    }


LAGS, FORGETTING = (3, 10, 24), (1.0, 0.999)
SETTLED_ROWS = 50  # from which the units of least squares are taken
LARGEST = 1e6  # the prior variance of a coefficient in these units


def known_then(data: Stream, horizon: int, lags: int, before: bool = False) -> np.ndarray:
    """Inputs and past targets known when a row is predicted, newest first, and those a season before it.

    Args:
        data: the stream.
        horizon: rows between a prediction and its target; 0: the inputs of the row itself are known.
        lags: past targets.
        before: whether the inputs of the row before are added.
    """
    n, X = len(data.y), data.X
    held = np.maximum.accumulate(np.where(np.isnan(data.y), 0, np.arange(n)))
    y = np.nan_to_num(data.y[held])
    first = max(horizon, 1)
    back = [*range(first, first + lags), *(-(-first // season) * season for season in data.seasons)]
    shifts = [horizon, horizon + 1] if before else [horizon]
    columns = [np.vstack([np.repeat(X[:1], shift, axis=0), X])[:n] for shift in shifts]
    return np.column_stack([*columns, *(np.concatenate([np.full(rows, y[0]), y])[:n] for rows in dict.fromkeys(back))])


def by_least_squares(data: Stream, horizon: int) -> dict[str, Said]:
    """Recursive least squares on the inputs and past targets, with several numbers of lags and kinds of forgetting."""
    return {
        f"RLS, {lags} lags, {factor:g}": Said(least_squares(known_then(data, horizon, lags), data.y, horizon, factor))
        for lags in LAGS
        for factor in FORGETTING
    }


def least_squares(F: np.ndarray, y: np.ndarray, horizon: int, factor: float) -> np.ndarray:
    first, all_rows = F[:SETTLED_ROWS].std(axis=0), F.std(axis=0)
    scale = np.where(first > 1e-9 * all_rows, first, all_rows)  # a season before, there was nothing at first
    F = np.column_stack([np.ones(len(F)), (F - F[:SETTLED_ROWS].mean(axis=0)) / np.where(scale > 0.0, scale, 1.0)])
    offset, unit = np.nanmean(y[:SETTLED_ROWS]), np.nanstd(y[:SETTLED_ROWS]) or 1.0
    z, mean, d = (y - offset) / unit, np.empty(len(y)), F.shape[1]
    w, P = np.zeros(d), LARGEST * np.eye(d)
    for t in range(len(y)):
        known = t - max(horizon, 1)  # its target has come since the last row was predicted
        if known >= 0 and not np.isnan(z[known]):
            f = F[known]
            h = P @ f
            gain = h / (factor + f @ h)
            w = w + gain * (z[known] - w @ f)
            P = (P - np.outer(gain, h)) / factor
            P = 0.5 * (P + P.T)
            if factor < 1.0:
                P *= min(1.0, LARGEST * d / np.trace(P))
        mean[t] = offset + unit * (w @ F[t])
    return mean


REFITTED = 300  # after which LightGBM is fitted for the first time
TREES = {"num_leaves": 31, "learning_rate": 0.1, "min_data_in_leaf": 20, "deterministic": True, "force_row_wise": True}


def by_lightgbm(data: Stream, horizon: int) -> dict[str, Said]:
    """Fitted anew when the rows have grown by half, at most 2 000 rows apart, to the last 5 000."""
    import lightgbm

    F = known_then(data, horizon, DAY if DAY in data.seasons else LAGS[0], before=True)
    newest = known_then(data._replace(X=data.X[:, :0]), horizon, 1)[:, 0]
    found = {}
    for target, base in {"level": np.zeros(len(data.y)), "change": newest}.items():
        mean, at = newest.copy(), REFITTED
        while at < len(mean):
            until, learned = at + max(200, min(at // 2, 2000)), slice(max(0, at - 5000), at - max(horizon - 1, 0))
            known = ~np.isnan(data.y[learned])
            rows = lightgbm.Dataset(F[learned][known], (data.y - base)[learned][known])
            forest = lightgbm.train({"verbosity": -1, "num_threads": 1} | TREES, rows, 100)
            mean[at:until] = forest.predict(F[at:until]) + base[at:until]
            at = until
        found[f"LightGBM, {target}"] = Said(mean)
    return found


# What it takes, and whether planted changes and broken rows are of interest to it.
CONTESTANTS: dict[str, tuple[Callable[[Stream, int], dict[str, Said]], bool]] = {
    "Auto": (by_auto, True),
    "RLS": (by_least_squares, False),
    "LightGBM": (by_lightgbm, False),
}


# Scores.


def scored(data: Stream, horizon: int, said: Said) -> dict[str, Any]:
    y, n = data.y.copy(), len(data.y)
    y[data.broken] = np.nan
    counts, errors = ~np.isnan(y), y - said.mean
    parts = {"from 20": (EARLY + horizon, n), "after 500": (FROM, n), "501 to 1,500": (FROM, LATER)}
    found: dict[str, Any] = {}
    for name, (start, stop) in (parts | {"last third": (n - n // 3, n)}).items():
        squares = mean_of((errors**2)[start:stop], counts[start:stop])
        found[f"rmse {name}"] = None if squares is None else figures(squares**0.5)
    found["mae"] = mean_of(np.abs(errors[FROM:]), counts[FROM:])
    if said.lower is not None and said.upper is not None:
        lower, upper = said.lower, said.upper
        missed = np.maximum(lower - y, 0.0) + np.maximum(y - upper, 0.0)
        found["interval score"] = mean_of((upper - lower + 2.0 / (1.0 - LEVEL) * missed)[FROM:], counts[FROM:])
        inside = ((lower <= y) & (y <= upper))[FROM:][counts[FROM:]]
        window = min(WINDOW, len(inside))
        found["coverage"] = figures(inside.mean())
        found["lowest window"] = figures(np.convolve(inside, np.ones(window) / window, "valid").min())
    if data.changes:
        found["rows to recover"] = [recovered(errors[at:]) for at in data.changes]
    about = {key: figures(value) if isinstance(value, float) else value for key, value in said.about.items()}
    return found | about


def mean_of(values: np.ndarray, counts: np.ndarray) -> float | None:
    """Over the rows that count; None where there are none, or a prediction is missing or no number."""
    value = float(values[counts].mean()) if counts.any() else np.nan
    return figures(value) if np.isfinite(value) else None


def figures(value: float) -> float:
    """Six of them: ratios near 1 are compared."""
    return float(f"{value:.6g}")


def recovered(errors: np.ndarray) -> int:
    """The first row from which the next hundred have an error of at most 1.5 times the noise."""
    squares = np.convolve(errors**2, np.ones(RECOVERED_ROWS) / RECOVERED_ROWS, "valid")
    small = np.flatnonzero(squares <= (RECOVERED * CHANGED_NOISE) ** 2)
    return int(small[0]) if len(small) else len(errors)


# Cells: one for each stream, horizon and contestant.


class Cell(NamedTuple):
    stream: str
    horizon: int
    contestant: str

    def path(self, folder: Path) -> Path:
        words = f"{self.stream} {self.horizon} ahead {self.contestant}"
        return folder / f"{re.sub(r'[^A-Za-z0-9.]+', '-', words)}.json"


def cells(only: list[str], contestants: list[str]) -> Iterator[Cell]:
    """Those of the streams whose name has one of the words, or that are of this group."""
    for name, source in SOURCES.items():
        if not only or any(word in name or word == source.group for word in only):
            for contestant in contestants:
                if CONTESTANTS[contestant][1] or source.group not in ("glitches", "changes"):
                    for horizon in source.horizons:
                        yield Cell(name, horizon, contestant)


def measure(cell: Cell, folder: Path) -> str:
    data, began = stream(cell.stream), time.perf_counter()
    with np.errstate(all="ignore"):
        said = CONTESTANTS[cell.contestant][0](data, cell.horizon)
        scores = {name: scored(data, cell.horizon, one) for name, one in said.items()}
    found = cell._asdict() | {"rows": len(data.y), "inputs": data.X.shape[1], "scores": scores}
    half = cell.path(folder).with_suffix(".part")
    half.write_text(json.dumps(found, indent=1) + "\n")
    half.replace(cell.path(folder))
    return f"{cell.stream}, {cell.horizon} ahead, {cell.contestant}: {time.perf_counter() - began:.1f} s"


def warm_up(contestants: list[str]) -> None:
    """Load or compile what ``Auto`` needs before the clocks start."""
    if "Auto" in contestants:
        t = np.arange(1100.0)
        data = Stream(
            np.column_stack([np.sin(t), np.cos(0.3 * t)]), np.sin(0.1 * t) + np.cos(0.3 * t) * np.sin(t), (24,)
        )
        for horizon in (0, 6):
            by_auto(data, horizon)


def run(folder: Path, tree: Path, jobs: int, only: list[str], contestants: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    # Processes, those that compile too, take the sources of this tree.
    paths = [str(tree.resolve() / "src"), str(ROOT), str(ROOT / "benchmarks")]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    sys.path[:0] = paths
    waiting = [cell for cell in cells(only, contestants) if not cell.path(folder).exists()]
    waiting.sort(key=lambda cell: -stream(cell.stream).X.size * (1 + bool(cell.horizon)))  # none is left at the end
    print(f"{len(waiting)} cells to measure, {jobs} at a time", flush=True)
    with ProcessPoolExecutor(jobs, get_context("spawn"), warm_up, (contestants,)) as pool:
        for done in as_completed([pool.submit(measure, cell, folder) for cell in waiting]):
            print(done.result(), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run", help="measure what is missing in the folder")
    running.add_argument("--out", type=Path, required=True, help="folder of the cells")
    running.add_argument("--tree", type=Path, default=ROOT, help="folder whose src is measured")
    running.add_argument("--jobs", type=int, default=1, help="processes")
    running.add_argument("--contestants", nargs="+", default=["Auto"], choices=list(CONTESTANTS))
    comparing = commands.add_parser("compare", help="print ratios of two folders of cells")
    comparing.add_argument("former", type=Path)
    comparing.add_argument("new", type=Path)
    comparing.add_argument("--rivals", type=Path, help="folder with the cells of RLS and LightGBM")
    rendering = commands.add_parser("render", help="write results and tables")
    rendering.add_argument("--out", type=Path, help="folder of the cells; nothing: only the tables")
    packing = commands.add_parser("pack", help="write the streams into one file")
    packing.add_argument("file", type=Path)
    for command in (running, packing):
        command.add_argument(
            "--only", nargs="+", default=[], metavar="WORD", help="groups, or parts of a stream's name"
        )
    asked = parser.parse_args()
    if asked.command == "run":
        run(asked.out, asked.tree, asked.jobs, asked.only, asked.contestants)
    elif asked.command == "pack":
        pack(asked.file, dict.fromkeys(cell.stream for cell in cells(asked.only, ["Auto"])))
    elif asked.command == "compare":
        print(auto_tables.compare(asked.former, asked.new, asked.rivals))
    else:
        auto_tables.render(asked.out)


if __name__ == "__main__":
    main()
