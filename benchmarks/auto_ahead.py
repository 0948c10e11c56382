"""Auto some rows ahead, beside experts of its own, LightGBM and skaters, and with planted glitches.

    python benchmarks/auto_ahead.py ahead [--jobs 16] [--only auto,experts,processes,lightgbm,skaters]
    python benchmarks/auto_ahead.py glitches [--jobs 16]
    python benchmarks/auto_ahead.py render

They write benchmarks/results/auto_ahead.json and auto_glitches.json and the tables in docs/main-job.md. ``ahead``
measures the groups of --only and keeps what the file has of the others. The data need the environment variable
STREAMGP_DATA (docs/data.md), the rivals ``lightgbm`` and ``skaters``. Six minutes on 16 cores.

Everybody predicts the target of a row from what was known ``horizon`` rows before it: the inputs of that row, its own
target, the ones before, and on hourly streams the values of the last day and week at the target's hour. Nobody learns
a target before it has come. Of the experts those stand here that are quick, and KRLST with lags; River is left out: it
takes minutes for each stream, and without a horizon it loses by far.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import auto
import streamgp as sg
from main_job import FROM, LEVEL, filled
from record import RESULTS, blas, environment, read, write
from rivals_of_rows import REFITTED
from streamgp.auto.building import View, views
from streamgp.auto.candidates import CANDIDATES, LEAST_SQUARES, candidate, least_squares
from streamgp.evaluate.metrics import coverage, interval_score
from streamgp.wrappers.lagged import bridged, lag_columns
from tables import table

HORIZONS = (1, 6, 24)
ROWS = 3000  # of a stream: skaters take up to 50 ms for each
LAGS = 10  # where there is no day of rows
PROCESSES = ("KRLST",)  # that are experts, of those that see lags
EARLY = 20  # errors count from here, and coverage at first up to FIRST
FIRST = 200
# Streams of which the target's own past is all that is known; skaters take no inputs.
ALONE = (
    "bike_hourly",
    "gefcom2012_load, total",
    "santafe_laser",
    "gefcom2012_wind, farm 1",
    "co2_mauna_loa",
    "comma2k19, yaw",
)
# Their rows have no order in time: only one row ahead.
UNORDERED = ("kin40k", "pm10_germany_2005", "uci_elevators")


class Task(NamedTuple):
    """One contestant on one stream."""

    stream: str
    alone: bool
    horizon: int
    group: str
    contestant: str
    predict: Callable[[auto.Stream, int], auto.Said]
    weight: float  # about how many seconds it takes

    @property
    def key(self) -> str:
        return f"{self.stream}{', no inputs' if self.alone else ''}; {self.horizon} ahead"


def stream(name: str, alone: bool, rows: int) -> auto.Stream:
    data = auto.stream(name, rows)
    return data._replace(X=np.empty((len(data.y), 0))) if alone else data


# Contestants: each returns what it predicted of every row, ``horizon`` rows before; NaN where it predicted nothing.


def lags_of(data: auto.Stream) -> int:
    return auto.DAY if data.seasons else LAGS


def known_then(data: auto.Stream, horizon: int) -> tuple[np.ndarray, np.ndarray]:
    """For the target of each row: inputs and past targets of the row ``horizon`` before; the newest target then.

    Rows that have none before them are 0, and predict nothing.
    """
    lags, n = lags_of(data), len(data.y)
    y = bridged(data.y[:, None])
    past = np.concatenate([np.full((lags + horizon - 1, 1), np.nan), y])
    lagged = lag_columns(past, lags, n)
    X = np.vstack([np.zeros((horizon, data.X.shape[1])), data.X])[:n]
    back = [-(-horizon // season) * season for season in data.seasons]
    seasons = [np.concatenate([np.full(min(rows, n), np.nan), y[:, 0]])[:n] for rows in back]
    seasons = [np.where(np.isnan(values), lagged[:, 0], values) for values in seasons]
    return np.column_stack([X, lagged, *seasons]), lagged[:, 0]


def by_auto(data: auto.Stream, horizon: int) -> auto.Said:
    return auto.auto(data, None, horizon)


def by_expert(data: auto.Stream, horizon: int, name: str, view: View) -> auto.Said:
    F, newest = known_then(data, horizon)
    F = F[:, view.columns]
    built = candidate(name, F.shape[1], {}) if name in CANDIDATES else least_squares(float(name.split()[-1]))
    model = sg.Ahead(sg.Tuned(built, drift=False, made_up=lags_of(data) - 1), horizon=horizon)
    # The model sees a row when it comes, and waits for the target itself.
    rows = np.vstack([F[horizon:], np.repeat(F[-1:], horizon, axis=0)])
    mean = model.track(np.ascontiguousarray(rows), data.y - newest if view.change else data.y).mean
    mean[:horizon] = np.nan
    return auto.Said(mean + newest if view.change else mean)


def by_value(data: auto.Stream, horizon: int, back: int) -> auto.Said:
    """The value of whole seasons before; of one row: the newest one."""
    rows = -(-horizon // back) * back
    mean = np.full(len(data.y), np.nan)
    mean[rows:] = bridged(data.y[:, None])[:-rows, 0]
    mean[horizon:rows] = known_then(data, horizon)[1][horizon:rows]
    return auto.Said(mean)


def by_mean(data: auto.Stream, horizon: int) -> auto.Said:
    before = sg.RunningMean().track(np.zeros(len(data.y)), data.y).mean
    return auto.Said(np.concatenate([np.full(horizon - 1, np.nan), before])[: len(data.y)])


def by_lightgbm(data: auto.Stream, horizon: int, change: bool) -> auto.Said:
    """Fitted anew after every 1 000 rows to those whose targets were known; before, the newest value."""
    from lightgbm import LGBMRegressor

    F, newest = known_then(data, horizon)
    y, mean = data.y - newest if change else data.y, by_value(data, horizon, 1).mean
    for start in range(REFITTED, len(y), REFITTED):
        block, past = slice(start, start + REFITTED), slice(horizon, start - horizon + 1)
        known = ~np.isnan(y[past])
        model = LGBMRegressor(random_state=auto.SEED, n_jobs=1, verbose=-1)
        fitted = model.fit(F[past][known], y[past][known]).predict(F[block])
        mean[block] = fitted + newest[block] if change else fitted
    return auto.Said(mean)


def by_skaters(data: auto.Stream, horizon: int) -> auto.Said:
    from skaters import laplace

    predict, state, y = laplace(k=horizon), None, bridged(data.y[:, None])[:, 0]
    mean, lower, upper = np.full((3, len(y)), np.nan)
    for t in range(len(y) - horizon):
        if not np.isnan(y[t]):
            ahead, state = predict(float(y[t]), state)
            one = ahead[horizon - 1]
            mean[t + horizon] = one.mean
            lower[t + horizon], upper[t + horizon] = one.quantile((1 - LEVEL) / 2), one.quantile((1 + LEVEL) / 2)
    return auto.Said(mean, lower, upper)


def contestants(data: auto.Stream, alone: bool) -> Iterator[tuple[str, str, Callable[..., auto.Said], float]]:
    yield "auto", "auto", by_auto, 16.0
    own = data.X.shape[1]
    for view in views(own, lags_of(data)):
        lines = [] if view.change and len(view.columns) > own else [f"least squares {f:g}" for f in LEAST_SQUARES]
        for name in [*lines, *(PROCESSES if len(view.columns) > own else ())]:
            label, group = f"{name} ({view.label})" if view.label else name, "experts" if name in lines else "processes"
            yield group, label, partial(by_expert, name=name, view=view), 1.0 if name in lines else 4.0
    for label, back in {"previous value": 1, **{f"value {rows} rows ago": rows for rows in data.seasons}}.items():
        yield "experts", label, partial(by_value, back=back), 0.0
    yield "experts", "mean", by_mean, 0.0
    for target, change in (("level", False), ("change", True)):
        yield "lightgbm", f"LightGBM, {target}", partial(by_lightgbm, change=change), 1.0
    if alone:
        yield "skaters", "skaters", by_skaters, 150.0


GROUPS = {"auto": "", "experts": "", "processes": "", "lightgbm": "lightgbm", "skaters": "skaters"}


def tasks(groups: list[str], names: list[str], rows: int) -> Iterator[Task]:
    for name in names:
        for alone in (False, True) if name in ALONE else (False,):
            for horizon in HORIZONS[:1] if name in UNORDERED else HORIZONS:
                data = stream(name, alone, rows)
                for group, contestant, predict, weight in contestants(data, alone):
                    if group in groups:
                        weight *= horizon / 24 if group == "skaters" else 1.0
                        yield Task(name, alone, horizon, group, contestant, predict, weight * len(data.y) / ROWS)


# Scores.


def scored(y: np.ndarray, said: auto.Said, horizon: int) -> dict[str, Any]:
    """Errors from row 20 after the first prediction, and after row 500; the rows that count most among the squares."""
    first = EARLY + horizon
    result: dict[str, Any] = {"rmse": auto.error(y[first:], said.mean[first:])}
    result["rmse after 500"] = auto.error(y[FROM:], said.mean[FROM:])
    squares = np.nan_to_num((y - said.mean)[first:] ** 2)
    largest = np.argsort(-squares)[:5]
    result["largest"] = [[int(at) + first, auto.figures(squares[at] / squares.sum())] for at in largest]
    if said.lower is not None and said.upper is not None:
        for name, part in {"coverage at first": slice(first, FIRST + horizon), "coverage": slice(FROM, None)}.items():
            known = ~np.isnan(y[part])
            result[name] = coverage(y[part][known], said.lower[part][known], said.upper[part][known])
        result["interval score"] = interval_score(
            y[part][known], said.lower[part][known], said.upper[part][known], LEVEL
        )
    return {key: auto.figures(value) if isinstance(value, float) else value for key, value in result.items()}


def run(task: Task, rows: int) -> dict[str, Any]:
    data, began = stream(task.stream, task.alone, rows), time.process_time()
    with np.errstate(all="ignore"):
        said = task.predict(data, task.horizon)
    seconds = auto.figures(time.process_time() - began)
    return scored(data.y, said, task.horizon) | {"seconds": seconds}


def in_parallel(jobs: int, function: Callable[..., Any], arguments: list[tuple[Any, ...]]) -> list[Any]:
    """What a function returns of each, in their order."""
    if jobs == 1:
        return [function(*one) for one in arguments]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        return [waiting.result() for waiting in [pool.submit(function, *one) for one in arguments]]


def measure(jobs: int, groups: list[str], names: list[str], rows: int, former: dict[str, Any]) -> dict[str, Any]:
    """Cells by stream and horizon, with what the former results have of other groups."""
    asked = sorted(tasks(groups, names, rows), key=lambda task: -task.weight)
    if "auto" in groups:
        auto.warm_up()
    print(f"{len(asked)} runs, {jobs} at a time", flush=True)
    found = in_parallel(jobs, run, [(task, rows) for task in asked])
    cells = former.get("cells", {})
    for task, scores in zip(asked, found, strict=True):
        data = stream(task.stream, task.alone, rows)
        described = {"stream": task.stream, "no inputs": task.alone, "horizon": task.horizon, "rows": len(data.y)}
        cell = cells.setdefault(task.key, described | {"auto": {}, "experts": {}, "rivals": {}})
        if task.group == "auto":
            cell["auto"] = scores
        else:
            cell["rivals" if GROUPS[task.group] else "experts"][task.contestant] = scores
    order = [task.key for task in tasks(["auto"], list(auto.STREAMS), rows)]
    measured = environment(*filter(None, (GROUPS[group] for group in groups)))
    versions = former.get("versions", {}) | measured["versions"]
    settings = {"seed": auto.SEED, "most rows": rows, "chosen on": list(auto.CHOSEN_AHEAD_ON)}
    return (
        measured
        | {"versions": versions, "blas": blas()}
        | settings
        | {"cells": {key: cells[key] for key in order if key in cells}}
    )


# Tables.


def best(found: dict[str, Any], score: str) -> tuple[str, float]:
    errors = {name: scores[score] for name, scores in found.items() if scores[score] is not None}
    name = min(errors, key=errors.__getitem__)
    return name, errors[name]


LEAST_COVERAGE = 0.87  # of 90% intervals; runs below are listed


def shown(results: dict[str, Any]) -> str:
    """A summary of all runs, and those in which auto is worse than another, or covers too little."""
    lines, ratios = [], {True: [], False: []}
    for key, cell in results["cells"].items():
        chosen = cell["stream"] in auto.HAD_A_PART
        each = []
        for score in ("rmse after 500", "rmse"):
            own = cell["auto"][score]
            each += [own / best(cell["experts"], score)[1], own / best(cell["rivals"], score)[1]]
        ratios[chosen].append([*each, cell["auto"]["coverage"], cell["auto"]["coverage at first"]])
        if max(each) < 1 and cell["auto"]["coverage"] > LEAST_COVERAGE:
            continue
        lines.append(
            [
                key.partition(";")[0] + ("" if chosen else " *"),
                str(cell["horizon"]),
                best(cell["experts"], "rmse after 500")[0],
                *(f"{ratio:.2f}" for ratio in each),
                f"{cell['auto']['coverage at first']:.1%}",
                f"{cell['auto']['coverage']:.1%}",
            ]
        )
    header = ["stream", "rows ahead", "best single expert", "auto / expert", "auto / LightGBM"]
    header += ["from row 20: auto / expert", "auto / LightGBM", "coverage up to row 200", "coverage"]
    summary = []
    for chosen, name in ((False, "the others (*)"), (True, "those that had a part in a choice")):
        columns = np.array(ratios[chosen]).T
        numbers = [f"{statistics.median(column):.2f}, {max(column):.2f}" for column in columns[:4]]
        spread = [f"{min(column):.1%} to {max(column):.1%}" for column in columns[4:]]
        summary.append([name, str(columns.shape[1]), *numbers, *spread])
    over = ["auto / expert: median, largest", "auto / LightGBM"]
    over += [f"from row 20: {over[0]}", "from row 20: auto / LightGBM", "coverage", "coverage up to row 200"]
    return f"{table(['runs', 'number', *over], summary)}\n\n{table(header, lines)}\n\n{auto.where(results)}"


# Glitches.

GLITCHED = tuple(auto.STREAMS)[:10]
BROKEN, QUIET, APART = 12, 300, 30  # rows that are broken, from which row on, and how far apart at least
KINDS = ("targets", "inputs")


def planted(data: auto.Stream, kind: str, seed: int) -> tuple[auto.Stream, np.ndarray]:
    """A stream in which some targets, or one input in some rows, are 10 to 1 000 standard deviations off; which."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    places = (len(data.y) - QUIET) // APART
    rows = QUIET + APART * np.sort(rng.choice(places, BROKEN, replace=False))
    sizes = rng.choice([-1.0, 1.0], BROKEN) * 10.0 ** rng.uniform(1, 3, BROKEN)
    X, y = data.X.copy(), data.y.copy()
    if kind == "targets":
        y[rows] += sizes * np.nanstd(y)
    else:
        columns = rng.integers(X.shape[1], size=BROKEN)
        X[rows, columns] += sizes * np.maximum(X.std(axis=0), 1e-6)[columns]
    return data._replace(X=X, y=y), rows


def glitched(name: str, kind: str, rows: int) -> dict[str, Any]:
    """The error of auto on rows that are not broken, and that of a run on the clean stream."""
    data = auto.stream(name, rows)
    with np.errstate(all="ignore"):
        broken, where = planted(data, kind, list(auto.STREAMS).index(name))
        whole = np.setdiff1d(np.arange(EARLY, len(data.y)), where)
        errors = [auto.error(data.y[whole], auto.auto(one).mean[whole]) for one in (data, broken)]
    return {"stream": name, "broken": kind, "clean": errors[0], "with glitches": errors[1]}


def measure_glitches(jobs: int, names: list[str], rows: int) -> dict[str, Any]:
    auto.warm_up()
    asked = [(name, kind, rows) for name in GLITCHED if name in names for kind in KINDS]
    cells = in_parallel(jobs, glitched, asked)
    settings = {"seed": auto.SEED, "most rows": rows, "chosen on": list(auto.CHOSEN_AHEAD_ON)}
    return environment() | {"blas": blas()} | settings | {"cells": cells}


def shown_glitches(results: dict[str, Any]) -> str:
    """What broken readings cost over all streams: the median and the largest, and where that is."""
    lines = []
    for kind in KINDS:
        costs = {
            cell["stream"]: cell["with glitches"] / cell["clean"] - 1
            for cell in results["cells"]
            if cell["broken"] == kind
        }
        most = max(costs, key=costs.__getitem__)
        lines.append(
            [kind, str(len(costs)), f"{statistics.median(costs.values()):+.1%}", f"{costs[most]:+.1%}, {most}"]
        )
    return f"{table(['broken', 'streams', 'median', 'largest'], lines)}\n\n{auto.where(results)}"


def render() -> None:
    tables = {}
    for name, title, show in (
        ("auto_ahead", "errors ahead", shown),
        ("auto_glitches", "planted glitches", shown_glitches),
    ):
        if (RESULTS / f"{name}.json").exists():
            tables[title] = show(read(name))
    page = auto.PAGES[0]
    page.write_text(filled(page.read_text(), tables))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, about in (("ahead", "measure horizons"), ("glitches", "plant glitches")):
        measuring = commands.add_parser(name, help=about)
        measuring.add_argument("--jobs", type=int, default=1, help="processes")
        measuring.add_argument("--streams", nargs="+", default=list(auto.STREAMS), choices=list(auto.STREAMS))
        measuring.add_argument("--rows", type=int, default=ROWS, help="most rows of a stream")
        measuring.add_argument("--results", type=Path, default=RESULTS, help="folder of the results")
        if name == "ahead":
            measuring.add_argument("--only", default=",".join(GROUPS), help="groups")
    commands.add_parser("render", help="write the tables")
    asked = parser.parse_args()
    if asked.command == "ahead":
        path = asked.results / "auto_ahead.json"
        former = json.loads(path.read_text()) if path.exists() else {}
        groups = auto.asked_groups(asked.only, GROUPS)
        write(path, measure(asked.jobs, groups, asked.streams, asked.rows, former))
    elif asked.command == "glitches":
        write(asked.results / "auto_glitches.json", measure_glitches(asked.jobs, asked.streams, asked.rows))
    if asked.command == "render" or asked.results == RESULTS:
        render()


if __name__ == "__main__":
    from auto_ahead import main as importable  # other processes find its functions by their module

    importable()
