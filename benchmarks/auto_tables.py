"""What benchmarks/auto.py has measured: two folders of it side by side, and the tables in docs/main-job.md."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from auto_streams import CHANGES, HAD_A_PART, KINDS, MOST_ROWS, SEEDS, SOURCES, STEADY, planted_at

Scores = dict[str, Any]
Runs = dict[tuple[str, int], dict[str, Scores]]  # by stream and horizon, and by contestant


def read(*folders: Path | None) -> Runs:
    """All scores; where several folders have those of a contestant, the first one's."""
    found: Runs = {}
    for folder in folders:
        for path in sorted(folder.glob("*.json")) if folder else []:
            cell = json.loads(path.read_text())
            key = cell["stream"], cell["horizon"]
            found[key] = cell["scores"] | found.get(key, {})
    return {key: found[key] for name, source in SOURCES.items() for h in source.horizons if (key := (name, h)) in found}


def real(runs: Runs) -> Runs:
    """Those without planted faults."""
    return {
        key: run for key, run in runs.items() if "Auto" in run and SOURCES[key[0]].group not in ("glitches", "changes")
    }


def best(run: dict[str, Scores], contestant: str, score: str = "rmse after 500") -> float:
    """The least error of a contestant's kinds, in hindsight; NaN where it was not measured."""
    errors = [scores[score] for name, scores in run.items() if name.startswith(contestant)]
    return min((error for error in errors if error is not None), default=np.nan)


def over(value: float | None, other: float | None) -> float:
    """A ratio; NaN where one of them is missing or the other one nothing."""
    return value / other if value is not None and other else np.nan


def starred(name: str) -> str:
    return name if name in HAD_A_PART else f"{name} *"


# Planted faults.


def glitches(runs: Runs) -> dict[str, dict[str, float]]:
    """How much larger broken targets, or inputs, make the errors of all other rows, by stream."""
    found: dict[str, dict[str, float]] = {kind: {} for kind in KINDS[1:]}
    for (name, _), run in runs.items():
        stream, _, end = name.rpartition(", ")
        kind = end.removesuffix(" broken")
        if kind in found and (clean := runs.get((f"{stream}, {KINDS[0]} broken", 0))):
            found[kind][stream] = over(run["Auto"]["rmse from 20"], clean["Auto"]["rmse from 20"])
    return found


def changes(runs: Runs) -> dict[str, list[Scores]]:
    """The runs with each planted change."""
    found = {change: [runs.get((f"{change}, seed {seed}", 0)) for seed in SEEDS] for change in CHANGES}
    found["none"] = [runs.get((f"no change, {noise}", 0)) for noise in STEADY]
    return {change: [run["Auto"] for run in some if run] for change, some in found.items() if any(some)}


# Two trees compared.

# The head of a column, and what stands in it: of the former run, the new one and all.
Ratio = Callable[[Scores, Scores, dict[str, Scores]], float]


def of_former(score: str) -> Ratio:
    return lambda former, new, _: over(new[score], former[score])


def of_rival(contestant: str, score: str = "rmse after 500") -> Ratio:
    return lambda _, new, everybody: over(new[score], best(everybody, contestant, score))


RATIOS: dict[str, Ratio] = {
    "after 500": of_former("rmse after 500"),
    "from 20": of_former("rmse from 20"),
    "mae": of_former("mae"),
    "interval": of_former("interval score"),
    "coverage": lambda _, new, __: new["coverage"],
    "lowest": lambda _, new, __: new["lowest window"],
    "/ RLS": of_rival("RLS"),
    "/ LightGBM": of_rival("LightGBM"),
    "at first": of_rival("LightGBM", "rmse 501 to 1,500"),
    "at last": of_rival("LightGBM", "rmse last third"),
    "1,000 rows": of_former("seconds, first rows"),
    "4,000": of_former("seconds, more rows"),
    "settled": of_former("microseconds a row"),
    "snapshot": of_former("snapshot bytes"),
}
SPREAD = {"median": np.median, "mean": np.mean, "least": np.min, "most": np.max}
COSTS = "seconds, first rows", "seconds, more rows", "microseconds a row", "snapshot bytes"


def compare(former: Path, new: Path, rivals: Path | None) -> str:
    """Ratios new / former by stream and their spread, planted faults, and what rows cost."""
    before, after, everybody = read(former), read(new), read(new, former, rivals)
    lines: list[list[str]] = []
    groups: dict[str, list[list[float]]] = {}
    for key, run in real(after).items():
        if "Auto" in before.get(key, {}):
            ratios = [of(before[key]["Auto"], run["Auto"], everybody[key]) for of in RATIOS.values()]
            lines.append([starred(key[0]), str(key[1]), *map(ratio, ratios)])
            for streams in (SOURCES[key[0]].group, "all" if key[0] in HAD_A_PART else "without a part (*)", "all"):
                groups.setdefault(f"{streams}, {'ahead' if key[1] else 'now'}", []).append(ratios)
    spread = [
        [title, f"{word} of {len(group)}", *(ratio(across(column, of)) for column in zip(*group, strict=True))]
        for title, group in sorted(groups.items())
        for word, of in SPREAD.items()
    ]
    faults = [["former", *faults_of(before)], ["new", *faults_of(after)]]
    head = ["", *(f"{kind}: {word}" for kind in KINDS[1:] for word in ("median", "most")), "at most 2%"]
    head += ["rows to recover: median", "most", *COSTS]
    parts = (["stream", "ahead", *RATIOS], lines), (["streams", "", *RATIOS], spread), (head, faults)
    return "\n\n".join([*(shown(*part) for part in parts), "* had no part in a choice; costs are medians"])


def faults_of(runs: Runs) -> list[str]:
    """What broken readings cost the other rows, how long changes last, and what rows cost, of one folder."""
    each = [list(costs.values()) for costs in glitches(runs).values()]
    cells = [ratio(across(costs, of)) for costs in each for of in (np.median, np.max)]
    cells.append(f"{sum(cost <= 1.02 for costs in each for cost in costs)} of {sum(map(len, each))}")
    rows = [at for some in changes(runs).values() for scores in some for at in scores.get("rows to recover", [])]
    cells += [ratio(across(rows, of)) for of in (np.median, np.max)]
    now = [run["Auto"] for (_, horizon), run in real(runs).items() if not horizon]
    return [*cells, *(ratio(across([scores[cost] for scores in now], np.median)) for cost in COSTS)]


def across(values: Iterable[float | None], of: Callable[..., Any]) -> float:
    """What a function says of the values that there are; NaN without one."""
    known = [value for value in values if value is not None and not np.isnan(value)]
    return float(of(known)) if known else np.nan


def ratio(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3f}" if value < 10 else f"{value:,.0f}"


def shown(header: list[str], lines: list[list[str]]) -> str:
    """Columns side by side, as people read them in a terminal."""
    widths = [max(map(len, column)) for column in zip(header, *lines, strict=True)]
    marks = ["-" * width for width in widths]
    return "\n".join(f"| {' | '.join(map(str.ljust, cells, widths))} |" for cells in (header, marks, *lines))


# The tables of the page.


def gathered(folder: Path) -> dict[str, Any]:
    """All cells of a folder as one file of results."""
    from record import blas, environment

    if not (runs := read(folder)):
        raise SystemExit(f"{folder} holds no results; first: python benchmarks/auto.py run --out {folder}")
    cells = [{"stream": name, "horizon": horizon, "scores": run} for (name, horizon), run in runs.items()]
    return environment("lightgbm") | {"blas": blas(), "most rows": MOST_ROWS, "cells": cells}


def rendered(results: dict[str, Any]) -> dict[str, str]:
    from record import measured_on

    runs = {(cell["stream"], cell["horizon"]): cell["scores"] for cell in results["cells"]}
    tables = {
        "errors on streams": errors_table(real(runs)),
        "intervals on streams": intervals_table(real(runs)),
        "planted glitches": glitches_table(glitches(runs)),
        "planted changes": changes_table(changes(runs)),
    }
    return {name: f"{text}\n\n{measured_on(results)}" for name, text in tables.items()}


def groups(runs: Runs) -> dict[str, Runs]:
    """The streams that had no part in a choice and the others, now and ahead."""
    found: dict[str, Runs] = {}
    for part in ("unseen", "used for choices"):
        for ahead in ("", ", ahead"):
            belongs = (part != "unseen"), bool(ahead)
            found[part + ahead] = {
                (name, horizon): run
                for (name, horizon), run in runs.items()
                if (name in HAD_A_PART, bool(horizon)) == belongs
            }
    return {title: some for title, some in found.items() if some}


LOST = 1.005  # the least ratio that the page calls a loss


def errors_table(runs: Runs) -> str:
    """Errors after row 500 over those of the best least squares and of LightGBM, and every loss by its name."""
    from tables import table

    lines = []
    for title, some in groups(runs).items():
        cells, lost = [], []
        for rival, who in (("RLS", "least squares"), ("LightGBM", "LightGBM")):
            ratios = {key: over(run["Auto"]["rmse after 500"], best(run, rival)) for key, run in some.items()}
            cells.append(f"{across(ratios.values(), np.median):.2f} ({across(ratios.values(), np.max):.2f})")
            lost += [f"{name} ({who}, {value:.2f})" for (name, _), value in ratios.items() if value >= LOST]
        lines.append([title, str(len(some)), *cells, "; ".join(lost) or "none"])
    return table(["streams", "number", "auto / least squares", "auto / LightGBM", "auto loses"], lines)


def intervals_table(runs: Runs) -> str:
    """The lowest and the highest of the streams."""
    from tables import table

    lines = []
    for title, some in groups(runs).items():
        scores = [run["Auto"] for run in some.values()]
        coverage, seconds = ([one[name] for one in scores] for name in ("coverage", "seconds"))
        spread = f"{min(coverage):.1%} to {max(coverage):.1%}"
        lowest, times = min(one["lowest window"] for one in scores), f"{min(seconds):.0f} to {max(seconds):.0f}"
        lines.append([title, str(len(some)), spread, f"{lowest:.1%}", times])
    return table(["streams", "number", "coverage", "lowest in 1 000 rows", "seconds"], lines)


def glitches_table(costs: dict[str, dict[str, float]]) -> str:
    from tables import table

    lines = []
    for kind, each in costs.items():
        if each:
            most, few = max(each, key=each.__getitem__), sum(cost <= 1.02 for cost in each.values())
            cells = [f"{statistics.median(each.values()) - 1:+.1%}", f"{each[most] - 1:+.1%}, {most}"]
            lines.append([kind, str(len(each)), *cells, f"{few} of {len(each)}"])
    return table(["broken", "streams", "median", "largest", "at most 2%"], lines)


def changes_table(runs: dict[str, list[Scores]]) -> str:
    from drift import WITHIN
    from tables import table

    lines = []
    for change, some in runs.items():
        rows = [at for scores in some for at in scores.get("rows to recover", [])]
        planted, told = planted_at(change), [scores["changes told"] for scores in some]
        found = sum(any(begin < at <= end + WITHIN for at in each) for each in told for begin, end in planted)
        false = sum(not any(begin < at <= end + WITHIN for begin, end in planted) for each in told for at in each)
        recovered = f"{np.median(rows):.0f} ({max(rows)})" if rows else ""
        title = change if rows else f"{change}, {len(some)} kinds of noise"
        lines.append([title, recovered, f"{found} of {len(rows)}", str(false)])
    return table(["change", "rows to recover", "found within 500 rows", "false alarms"], lines)


def render(folder: Path | None) -> None:
    from main_job import PAGES, filled
    from record import RESULTS, write
    from record import read as committed

    if folder is not None:
        write(RESULTS / "auto.json", gathered(folder))
    tables = rendered(committed("auto"))
    for page in PAGES:
        page.write_text(filled(page.read_text(), tables))
