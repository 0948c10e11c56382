"""``streamgp run --model auto`` on 18 tables and series, beside each of its experts alone, LightGBM and River.

    python benchmarks/auto.py run --out FOLDER [--jobs 16] [--only auto,experts,lightgbm,river,river-change]
    python benchmarks/auto.py render --out FOLDER [--former FILE]
    python benchmarks/auto.py rules
    python benchmarks/auto.py drift [--jobs 2]

``run`` writes one file for each stream, lags and contestant; a run that was stopped goes on with the missing ones, and
our own are measured anew when the sources have changed. ``render`` writes benchmarks/results/auto.json and the tables
in docs/main-job.md; without a folder the tables only. ``rules`` compares the rules of Committee (auto_rules.py),
``drift`` plants changes (auto_drift.py). The data need the environment variable STREAMGP_DATA (docs/data.md), the
rivals ``lightgbm`` and ``river``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

import auto_drift
import auto_rules
import streamgp as sg
from main_job import FROM, LEVEL, WINDOW, filled
from record import RESULTS, ROOT, blas, environment, measured_on, read, write
from reproductions.data import load
from rivals_of_rows import SEED, Said, lightgbm, naive, past, river
from streamgp.auto.building import View, views
from streamgp.auto.candidates import CANDIDATES, LEAST_SQUARES, candidate, least_squares
from streamgp.evaluate.metrics import coverage, interval_score, rmse
from streamgp.job.job import BLOCK_ROWS
from streamgp.job.pipeline import Pipeline
from streamgp.job.scores import shown
from streamgp.tables.columns import Column, Schema
from streamgp.tables.encoding import EncodedRows
from tables import table

PAGES = ROOT / "docs" / "main-job.md", ROOT / "docs" / "models" / "committee.md"
MOST_ROWS = 6000  # of a stream; SRP takes 10 to 20 ms for each
AFTER = (20, FROM, 1000)  # rows after which errors count
FIRST = slice(20, 200)
FEW_LAGS, DAY, WEEK = 3, 24, 168


# The streams.


class Stream(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    seasons: tuple[int, ...]

    @property
    def lags(self) -> tuple[int, ...]:
        return 0, DAY if self.seasons else FEW_LAGS

    @property
    def schema(self) -> Schema:
        names = tuple(f"x{i}" for i in range(self.X.shape[1]))
        columns = tuple(Column(name, "number") for name in (*names, "y"))
        return Schema(columns, "y", names, seasons=self.seasons)


HOURLY = (DAY, WEEK)
# The table, which of its targets (None: their sum), and the rows of a day and a week.
STREAMS: dict[str, tuple[str, int | None, tuple[int, ...]]] = {
    "bike_hourly": ("bike_hourly", 0, HOURLY),
    "gefcom2012_load, total": ("gefcom2012_load", None, HOURLY),
    "barrett_wam": ("barrett_wam", 0, ()),
    "santafe_laser": ("santafe_laser", 0, ()),
    "driving_udacity": ("driving_udacity/round1", 0, ()),
    "gefcom2012_wind, farm 1": ("gefcom2012_wind/1", 0, HOURLY),
    "sarcos, IAS": ("sarcos/ias", 0, ()),
    "silverbox": ("silverbox", 0, ()),
    "baxter_dynamics": ("baxter_dynamics/inverse", 1, ()),
    "kin40k": ("kin40k", 0, ()),
    "comma2k19, yaw": ("comma2k19_segment/yaw", 0, ()),
    "gefcom2012_wind, farm 4": ("gefcom2012_wind/4", 0, HOURLY),
    "gefcom2012_load, zone 7": ("gefcom2012_load", 6, HOURLY),
    "pm10_germany_2005": ("pm10_germany_2005", 0, ()),
    "co2_mauna_loa": ("co2_mauna_loa", 0, ()),
    "sysid_classics, tank": ("sysid_classics/tank", 0, ()),
    "sarcos, torques": ("sarcos/torques", 0, ()),
    "uci_elevators": ("uci_elevators", 0, ()),
}
# Looked at while choosing: what auto consists of, what it does some rows ahead (auto_ahead.py), and how wide the first
# intervals are (first_rows.py). At the others we only looked afterwards.
CHOSEN_ON = tuple(STREAMS)[:6]
CHOSEN_AHEAD_ON = (*CHOSEN_ON, "silverbox", "co2_mauna_loa", "pm10_germany_2005")
CHOSEN_FIRST_ROWS_ON = tuple(STREAMS)[0::2]
HAD_A_PART = {*CHOSEN_AHEAD_ON, *CHOSEN_FIRST_ROWS_ON}


@cache
def stream(name: str, rows: int = MOST_ROWS) -> Stream:
    source, which, seasons = STREAMS[name]
    loaded = load(source)
    X, Y = np.asarray(loaded.X, float)[:rows], np.asarray(loaded.Y, float)[:rows].reshape(len(loaded.X[:rows]), -1)
    known = np.isfinite(X).all(axis=1)
    y = Y.sum(axis=1) if which is None else Y[:, which]
    return Stream(np.ascontiguousarray(X[known]), y[known], seasons)


# Contestants: each returns what it said of every row before it saw the target, NaN where it said nothing.


def auto(data: Stream, lags: int | None = None, horizon: int = 0) -> Said:
    pipeline = Pipeline(data.schema, lags=lags, horizon=horizon)
    parts = []
    for start in range(0, len(data.y), BLOCK_ROWS):
        block = slice(start, start + BLOCK_ROWS)
        X, y = data.X[block], data.y[block]
        parts.append(pipeline.take(EncodedRows(X, y, None, list(range(start, start + len(y))), [])))
    said = (np.concatenate([getattr(part, name) for part in parts]) for name in ("mean", "lower", "upper"))
    chosen = pipeline.chosen.names if pipeline.chosen else []
    return Said(*said, {"chosen": chosen, "drift": len(pipeline.drift), "own lags": Pipeline(data.schema).lags})


def expert(data: Stream, lags: int, name: str, view: View, drift: bool) -> Said:
    """As ``streamgp run --model NAME`` would: tuned on the first 200 rows, and for good on the first 1 000."""
    lagged, first = past(data, max(lags, 1))
    X = np.column_stack([data.X, lagged])
    sees_lags = len(view.columns) > data.X.shape[1]
    previous = lagged[:, 0] if view.change else np.zeros(len(data.y))
    X = np.ascontiguousarray(X[:, view.columns])
    y = data.y - previous
    built = candidate(name, X.shape[1], {}) if name in CANDIDATES else least_squares(float(name.split()[-1]))
    model = sg.Tuned(built, drift=drift, made_up=max(lags - 1, 0) if sees_lags else 0)
    mean = np.full(len(y), np.nan)
    start = first if sees_lags or view.change else 0
    mean[start:] = model.track(X[start:], y[start:]).mean
    return Said(mean + previous)


# How long they take, beside LightGBM's 0.5.
RIVER = {"River ARF": 10.0, "River SRP": 30.0, "River KNN": 10.0}


# Scores.


def scored(y: np.ndarray, said: Said) -> dict[str, Any]:
    result: dict[str, Any] = {f"rmse after {rows}": error(y[rows:], said.mean[rows:]) for rows in AFTER}
    if said.lower is not None and said.upper is not None:
        known = ~np.isnan(y[FROM:])
        later = y[FROM:][known], said.lower[FROM:][known], said.upper[FROM:][known]
        inside = (later[1] <= later[0]) & (later[0] <= later[2])
        window = min(WINDOW, len(inside))
        windows = np.convolve(inside, np.ones(window) / window, "valid")
        result |= {
            "coverage": coverage(*later),
            "coverage, lowest window": float(windows.min()),
            "coverage, highest window": float(windows.max()),
            "coverage, rows 20 to 200": coverage(y[FIRST], said.lower[FIRST], said.upper[FIRST]),
            "interval score": interval_score(*later, LEVEL),
        }
    return {key: value if value is None else figures(value) for key, value in result.items()} | said.about


def figures(value: float) -> float:
    """Six of them: ratios near 1 are compared."""
    return float(f"{value:.6g}")


def error(y: np.ndarray, mean: np.ndarray) -> float | None:
    """None where a prediction is missing, or is no number that could be squared."""
    known = ~np.isnan(y)
    with np.errstate(over="ignore"):
        found = rmse(y[known], mean[known]) if known.any() and np.isfinite(mean[known]).all() else np.inf
    return found if np.isfinite(found) else None


# Cells: one for each stream, lags and contestant.


class Cell(NamedTuple):
    stream: str
    lags: int
    group: str
    contestant: str
    measure: Callable[[Stream], Said]
    weight: float  # about how long it takes, beside others

    def path(self, folder: Path) -> Path:
        words = f"{self.stream} {self.lags} {self.contestant}"
        return folder / f"{re.sub(r'[^A-Za-z0-9.]+', '-', words).strip('-')}.json"


def contestants(data: Stream, lags: int) -> Iterator[tuple[str, str, Callable[[Stream], Said], float]]:
    """Group, name, what it says of a stream, and about how long that takes."""
    yield "auto", "auto", partial(auto, lags=lags), 4.0
    for view in views(data.X.shape[1], lags):
        sees_lags = len(view.columns) > data.X.shape[1]
        if lags and not sees_lags:
            continue  # the same as without lags
        lines = [] if view.change and sees_lags else [f"least squares {f:g}" for f in LEAST_SQUARES]
        for name in [*lines, *CANDIDATES]:
            for drift in (True, False):
                words = ", ".join(filter(None, [view.label, "" if drift else "drift off"]))
                measure = partial(expert, lags=lags, name=name, view=view, drift=drift)
                yield "experts", f"{name} ({words})" if words else name, measure, 0.5
    if not lags:
        simple = {"previous value": sg.SeasonalValue(1), "mean": sg.RunningMean()}
        simple |= {f"value {period} rows ago": sg.SeasonalValue(period) for period in data.seasons}
        for name, model in simple.items():
            yield "experts", name, partial(naive, model=model), 0.0
    for target, change in (("level", False), ("change", True)):
        yield "lightgbm", f"LightGBM, {target}", partial(lightgbm, lags=lags, change=change), 0.5
        for name, weight in RIVER.items():
            measure = partial(river, lags=lags, name=name, change=change)
            yield "river-change" if change else "river", f"{name}, {target}", measure, weight


def cells_of(name: str, rows: int) -> Iterator[Cell]:
    data = stream(name, rows)
    for lags in sorted({*data.lags, Pipeline(data.schema).lags}):
        for group, contestant, measure, weight in contestants(data, lags):
            yield Cell(name, lags, group, contestant, measure, weight * len(data.y) * (5 + data.X.shape[1] + lags))


# The package that a group needs.
GROUPS = {"auto": "", "experts": "", "lightgbm": "lightgbm", "river": "river", "river-change": "river"}


@cache
def sources() -> str:
    """Changes with our own code: rivals need not run anew when it does."""
    digest = hashlib.sha256()
    for path in sorted(ROOT.glob("src/**/*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def done(cell: Cell, folder: Path, rows: int) -> bool:
    path = cell.path(folder)
    if not path.exists():
        return False
    found = json.loads(path.read_text())
    return bool(found["most rows"] == rows and found["sources"] in ("", sources()))


def run_cell(cell: Cell, folder: Path, rows: int) -> None:
    data = stream(cell.stream, rows)
    began = time.perf_counter()
    with np.errstate(all="ignore"):
        said = cell.measure(data)
    seconds = time.perf_counter() - began
    package = GROUPS[cell.group]
    found = {
        "stream": cell.stream,
        "lags": cell.lags,
        "group": cell.group,
        "contestant": cell.contestant,
        "rows": len(data.y),
        "most rows": rows,
        "inputs": data.X.shape[1],
        "seconds": figures(seconds),
        "sources": "" if package else sources(),
        "environment": environment(*filter(None, [package])) | {"blas": blas()},
    }
    write(cell.path(folder), found | {"scores": scored(data.y, said)})
    print(f"{cell.stream}, {cell.lags} lags, {cell.contestant}: {seconds:.1f} s", flush=True)


def asked_groups(only: str, needed: dict[str, str] = GROUPS) -> list[str]:
    """Those that were asked for and can be run, of groups with the packages that they need."""
    groups = only.split(",") if only else list(needed)
    if unknown := set(groups) - set(needed):
        raise SystemExit(f"there is no group {', '.join(sorted(unknown))}; groups: {', '.join(needed)}")
    for group in groups:
        if needed[group] and find_spec(needed[group]) is None:
            print(f"{group} is left out: the package {needed[group]} is not installed (pip install {needed[group]})")
    return [group for group in groups if not needed[group] or find_spec(needed[group]) is not None]


def run(folder: Path, jobs: int, only: str, names: Iterable[str], rows: int) -> None:
    groups = asked_groups(only)
    cells = [cell for name in names for cell in cells_of(name, rows) if cell.group in groups]
    waiting = [cell for cell in cells if not done(cell, folder, rows)]
    waiting.sort(key=lambda cell: -cell.weight)  # so that none is left alone at the end
    print(f"{len(waiting)} of {len(cells)} cells to measure, {jobs} at a time", flush=True)
    if any(not GROUPS[cell.group] for cell in waiting):
        warm_up()
    if any(GROUPS[cell.group] == "river" for cell in waiting):
        print(expected([cell for cell in waiting if GROUPS[cell.group] == "river"], rows, jobs), flush=True)
    Parallel(n_jobs=jobs, batch_size=1)(delayed(run_cell)(cell, folder, rows) for cell in waiting)


def warm_up() -> None:
    """Compile before the clocks start, once for all processes."""
    t = np.arange(120.0)
    auto(Stream(np.sin(t)[:, None], np.sin(0.1 * t), ()), FEW_LAGS)


def expected(cells: list[Cell], rows: int, jobs: int) -> str:
    """How long River's regressors will take, from 1 000 rows of the widest stream."""
    total, lines = 0.0, []
    for name in RIVER:
        if mine := [cell for cell in cells if cell.contestant.startswith(name)]:
            first, whole = mine[0], stream(mine[0].stream, rows)
            data = Stream(whole.X[:1000], whole.y[:1000], whole.seasons)
            began = time.perf_counter()
            first.measure(data)
            each = (time.perf_counter() - began) / len(data.y)
            total += each * len(whole.y) * sum(cell.weight for cell in mine) / first.weight
            lines.append(f"{name} {1e3 * each:.1f} ms a row of {first.stream}")
    return f"{', '.join(lines)}: about {total / jobs / 60:.0f} minutes for {len(cells)} cells of River"


# Results.


def gathered(folder: Path, former: dict[str, float]) -> dict[str, Any]:
    """All cells of a folder as one file of results."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    if not found:
        raise SystemExit(f"{folder} holds no results; first: python benchmarks/auto.py run --out {folder}")
    if len({cell["sources"] for cell in found} - {""}) > 1 or len({cell["most rows"] for cell in found}) > 1:
        raise SystemExit(f"{folder} holds results of different sources or rows; run the rest anew first")
    versions: dict[str, str] = {}
    for cell in found:
        versions |= cell["environment"]["versions"]
    runs: dict[str, Any] = {}
    order = list(STREAMS)
    for cell in sorted(found, key=lambda cell: (order.index(cell["stream"]), cell["lags"], cell["contestant"])):
        run = runs.setdefault(
            key_of(cell["stream"], cell["lags"]),
            {key: cell[key] for key in ("stream", "lags", "rows", "inputs")}
            | {"auto": {}, "experts": {}, "rivals": {}},
        )
        scores = cell["scores"] | {"seconds": cell["seconds"]}
        if cell["group"] == "auto":
            run["auto"] = scores
        else:
            run["experts" if cell["group"] == "experts" else "rivals"][cell["contestant"]] = scores
    for key, score in former.items():
        if key in runs:
            runs[key]["auto"]["interval score of the former version"] = score
    whole = {
        key: run for key, run in runs.items() if run["auto"] and runs.get(key_of(run["stream"], 0), {}).get("experts")
    }
    if left_out := set(runs) - set(whole):
        print(f"left out, as auto or its experts are missing: {', '.join(sorted(left_out))}")
    return {
        "machine": " and ".join(sorted({cell["environment"]["machine"] for cell in found})),
        "blas": found[0]["environment"]["blas"],
        "versions": versions,
        "seed": SEED,
        "most rows": found[0]["most rows"],
        "chosen on": list(CHOSEN_ON),
        "cells": whole,
    }


def missing(folder: Path, rows: int) -> str:
    """Which groups a folder does not have all cells of: the best expert may be among them."""
    cells = [cell for name in STREAMS for cell in cells_of(name, rows) if not cell.path(folder).exists()]
    counts = Counter(cell.group for cell in cells)
    return ", ".join(f"{group} ({count})" for group, count in counts.items())


def key_of(name: str, lags: int) -> str:
    return f"{name}; {lags} lags"


def experts_of(results: dict[str, Any], run: dict[str, Any]) -> dict[str, Any]:
    """Those that see no lags are the same with lags."""
    without = results["cells"].get(key_of(run["stream"], 0), {}).get("experts", {})
    return dict(without) | dict(run["experts"])


def best(found: dict[str, Any], rows: int) -> tuple[str, float]:
    """The lowest error of those that said something of every row."""
    errors = {name: scores[f"rmse after {rows}"] for name, scores in found.items()}
    name = min((name for name in errors if errors[name] is not None), key=errors.__getitem__)
    return name, errors[name]


def ratio_to_best(results: dict[str, Any], run: dict[str, Any], rows: int) -> float:
    return float(run["auto"][f"rmse after {rows}"] / best(experts_of(results, run), rows)[1])


def title(run: dict[str, Any]) -> str:
    return run["stream"] if run["stream"] in HAD_A_PART else f"{run['stream']} *"


def by_own_choice(results: dict[str, Any]) -> list[dict[str, Any]]:
    """The runs with as many lags as auto takes by itself."""
    return [run for run in results["cells"].values() if run["lags"] == run["auto"]["own lags"]]


def of_package(run: dict[str, Any], package: str) -> float:
    """The least error of the rivals of a package, in hindsight."""
    mine = {name: scores for name, scores in run["rivals"].items() if name.startswith(package)}
    usable = any(scores[f"rmse after {FROM}"] is not None for scores in mine.values())
    return best(mine, FROM)[1] if usable else np.inf


def errors_table(results: dict[str, Any]) -> str:
    """The best of a line is bold; a package shows the best of its models and of its two targets."""
    packages, lines = ("LightGBM", "River"), []
    for run in by_own_choice(results):
        name, least = best(experts_of(results, run), FROM)
        values = [run["auto"][f"rmse after {FROM}"], least, *(of_package(run, package) for package in packages)]
        errors = [
            "-" if value == np.inf else f"**{shown(value)}**" if value == min(values) else shown(value)
            for value in values
        ]
        errors[1] += f", {name.partition(' (')[0]}"
        lines.append([title(run), *errors, f"{ratio_to_best(results, run, FROM):.2f}"])
    header = ["stream", "auto", "best single expert", "LightGBM", "best of River", "auto / best expert"]
    return f"{table(header, lines)}\n\n{spread(results)}\n\n{where(results)}"


def spread(results: dict[str, Any]) -> str:
    """Auto relative to the best expert, by whether we chose on the stream and by lags."""
    lines = []
    for chosen in (False, True):
        for lagged in (False, True):
            group = [
                run
                for run in results["cells"].values()
                if (run["stream"] in HAD_A_PART) == chosen and bool(run["lags"]) == lagged
            ]
            if group:
                cells = [
                    "those that had a part in a choice" if chosen else "the others (*)",
                    "with" if lagged else "without",
                ]
                for rows in (FROM, AFTER[0]):
                    ratios = [ratio_to_best(results, run, rows) for run in group]
                    cells += [f"{statistics.median(ratios):.2f}", f"{max(ratios):.2f}"]
                lines.append([cells[0], cells[1], str(len(group)), *cells[2:]])
    return table(
        ["auto / best single expert", "lags", "runs", "median", "largest", "median from row 20", "largest from row 20"],
        lines,
    )


def intervals_table(results: dict[str, Any]) -> str:
    """The lowest and the highest of the streams; the score over that of the former version."""
    lines = []
    for chosen in (False, True):
        group = [run["auto"] for run in by_own_choice(results) if (run["stream"] in HAD_A_PART) == chosen]
        if not group:
            continue
        cells = ["those that had a part in a choice" if chosen else "the others (*)", str(len(group))]
        for names in (("",), (", lowest window", ", highest window"), (", rows 20 to 200",)):
            shares = [scores[f"coverage{name}"] for scores in group for name in names]
            cells.append(f"{min(shares):.1%} to {max(shares):.1%}")
        former = "interval score of the former version"
        ratios = [scores["interval score"] / scores[former] for scores in group if former in scores]
        cells.append(f"{statistics.median(ratios):.2f}, {max(ratios):.2f}" if ratios else "-")
        seconds = [scores["seconds"] for scores in group]
        lines.append([*cells, f"{min(seconds):.0f} to {max(seconds):.0f}"])
    header = ["streams", "number", "coverage", "in 1 000 rows", "rows 20 to 200"]
    header += ["interval score / former version's: median, largest", "seconds"]
    return f"{table(header, lines)}\n\n{where(results)}"


def rivals_table(results: dict[str, Any]) -> str:
    """Each rival against auto over all runs, and every run that auto loses."""
    names = list(dict.fromkeys(name for run in results["cells"].values() for name in sorted(run["rivals"])))
    lines, lost = [], []
    for name in names:
        runs = [run for run in results["cells"].values() if name in run["rivals"]]
        cells = [name, str(len(runs))]
        for rows in (FROM, 1000):
            pairs = [(run, run["rivals"][name][f"rmse after {rows}"] or np.inf) for run in runs]
            ratios = [(run, value / run["auto"][f"rmse after {rows}"]) for run, value in pairs]
            losses = [(run, ratio) for run, ratio in ratios if ratio < 1]
            finite = [ratio for _, ratio in ratios]
            count = str(len(losses)) if not losses else f"**{len(losses)}**"
            cells += [count, f"{statistics.median(finite):.2f}", f"{min(finite):.2f}"]
            if rows == 1000:
                lost += [f"- {run['stream']}, {run['lags']} lags: {name}, {1 - r:.1%} lower" for run, r in losses]
        seconds = statistics.median(run["rivals"][name]["seconds"] for run in runs)
        lines.append([*cells, f"{seconds:.0f}"])
    header = ["rival", "runs"]
    for rows in (FROM, 1000):
        header += [f"better than auto, after row {rows}", "median rival / auto", "smallest"]
    said = (
        "No rival is better after row 1 000." if not lost else "A rival's error is lower than auto's after row 1 000:"
    )
    return "\n\n".join(
        [table([*header, "median seconds"], lines), "\n".join([said, "", *lost]).strip(), where(results)]
    )


def where(results: dict[str, Any]) -> str:
    return f"{measured_on(results)[:-1]}; seed {results['seed']}."


def rendered() -> dict[str, str]:
    """The tables of the pages, of those results that there are."""
    tables = {}
    if (RESULTS / "auto.json").exists():
        results = read("auto")
        tables["errors on streams"] = errors_table(results)
        tables["intervals on streams"] = intervals_table(results)
        tables["rivals on streams"] = rivals_table(results)
    if (RESULTS / "auto_rules.json").exists():
        tables["rules compared"] = auto_rules.shown(read("auto_rules"))
    if (RESULTS / "auto_drift.json").exists():
        tables["planted changes"] = auto_drift.shown(read("auto_drift"))
    return tables


def render() -> None:
    for page in PAGES:
        page.write_text(filled(page.read_text(), rendered()))


def former_scores(path: Path | None) -> dict[str, float]:
    """From a file {"stream; 3 lags": interval score}; without one those of the committed results."""
    if path is not None:
        return dict(json.loads(path.read_text()))
    runs = read("auto")["cells"] if (RESULTS / "auto.json").exists() else {}
    name = "interval score of the former version"
    return {key: run["auto"][name] for key, run in runs.items() if name in run["auto"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run", help="measure what is missing in the folder")
    running.add_argument("--out", type=Path, required=True, help="folder of the cells")
    running.add_argument("--jobs", type=int, default=1, help="processes")
    running.add_argument("--only", default="", help=f"groups, of {','.join(GROUPS)}")
    running.add_argument("--streams", nargs="+", default=list(STREAMS), choices=list(STREAMS), metavar="NAME")
    running.add_argument("--rows", type=int, default=MOST_ROWS, help="most rows of a stream")
    rendering = commands.add_parser("render", help="write results and tables")
    rendering.add_argument("--out", type=Path, help="folder of the cells; nothing: only the tables")
    rendering.add_argument("--former", type=Path, help='{"stream; 3 lags": interval score} of an earlier version')
    commands.add_parser("rules", help="compare the rules of Committee; write results and the table")
    changing = commands.add_parser("drift", help="plant changes; write results and the table")
    changing.add_argument("--jobs", type=int, default=1, help="processes")
    asked = parser.parse_args()
    if asked.command == "run":
        run(asked.out, asked.jobs, asked.only, asked.streams, asked.rows)
        return
    if asked.command == "rules":
        write(RESULTS / "auto_rules.json", auto_rules.measure())
    elif asked.command == "drift":
        write(RESULTS / "auto_drift.json", auto_drift.measure(asked.jobs))
    elif asked.out is not None:
        results = gathered(asked.out, former_scores(asked.former))
        if absent := missing(asked.out, results["most rows"]):
            print(
                f"{asked.out} lacks cells of {absent}; to measure them: python benchmarks/auto.py run --out {asked.out}"
            )
        write(RESULTS / "auto.json", results)
    render()


if __name__ == "__main__":
    from auto import main as importable  # other processes find its functions by their module

    importable()
