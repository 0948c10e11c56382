"""Forecasts of the series of M4 and M3, scored as the competitions were.

``python benchmarks/forecasts.py m4`` (or m4-weekly, m3-monthly) forecasts every series once with sg.Forecaster and
writes its scores to benchmarks/results/forecasts_NAME.json, some series at a time, so that a run that was stopped
continues. The series are those in the folder forecasting of STREAMGP_DATA. Nothing was chosen on them: the priors come
from M1 and from other series (streamgp/tuning/series.py).

With ``--rivals`` one series of seven (of M3 monthly, of eight; of M4 weekly, of six) is forecast by statsforecast's
models and, one step ahead, by skaters; the results have their scores beside ours. One step ahead, all rows after the
first half are scored: ours is a TimeGP whose kernel was found on that half, alone and within Calibrated.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import streamgp as sg
from record import measured_on
from rivals_of_series import one_step_ahead, statsforecast

RESULTS = Path(__file__).parent / "results"
QUANTILES = tuple(round(0.1 * k, 1) for k in range(1, 10))
LEVELS = (0.5, 0.8, 0.95)
COVERAGES = tuple(f"coverage {level}" for level in LEVELS)


class Competition(NamedTuple):
    """Its series, the seasons that a model is told, and the lag of the naive forecast that errors are scaled by."""

    series: Callable[[], Iterator[tuple[str, np.ndarray, np.ndarray]]]
    seasons: tuple[float, ...] | None
    lag: int
    every: int  # one series of so many is forecast by the rivals


def folder() -> Path:
    return Path(os.environ["STREAMGP_DATA"]) / "forecasting"


def m4(name: str) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    with np.load(folder() / f"m4_{name}.npz") as arrays:
        parts = {
            part: dict(
                zip(
                    arrays[f"{part}_id"].tolist(),
                    np.split(arrays[f"{part}_values"].astype(float), np.cumsum(arrays[f"{part}_length"])[:-1]),
                    strict=True,
                )
            )
            for part in ("train", "test")
        }
    for key, y in parts["train"].items():
        yield key, y, parts["test"][key]


def m3(period: str) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    with gzip.open(folder() / "M3.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            if row["period"] == period:
                yield row["sn"], *(np.array(row[part].split(";"), dtype=float) for part in ("x", "xx"))


COMPETITIONS = {
    "m4": Competition(lambda: m4("hourly"), (24.0, 168.0), 24, 7),
    "m4-weekly": Competition(lambda: m4("weekly"), (365.25 / 7.0,), 1, 6),
    "m3-monthly": Competition(lambda: m3("MONTHLY"), (12.0,), 12, 8),
}


# Their titles, rows ahead, and the MASE of AutoARIMA and ETS that statsforecast's experiments published.
TITLES = {
    "m4": ("M4 Hourly", 48, "0.92, 1.61"),
    "m4-weekly": ("M4 Weekly", 13, "2.34, 2.55"),
    "m3-monthly": ("M3 Monthly", 18, "\N{EN DASH}"),
}


def scores(y: np.ndarray, truth: np.ndarray, quantile: Callable[[float], np.ndarray], lag: int) -> dict[str, float]:
    """The scores of one forecast; quantile(level) has the forecast's quantiles at all steps."""
    median = quantile(0.5)
    errors = np.abs(truth - median)
    scale = naive_error(y, lag)
    pinball = [np.maximum(level * (truth - q), (level - 1) * (truth - q)).sum() for level, q in by_level(quantile)]
    covered = {
        f"coverage {level}": float(np.mean((quantile(0.5 - level / 2) <= truth) & (truth <= quantile(0.5 + level / 2))))
        for level in LEVELS
    }
    return {
        "mase": float(errors.mean() / scale),
        "smape": float(200.0 * np.mean(errors / np.maximum(np.abs(truth) + np.abs(median), 1e-300))),
        "wql": float(2.0 * np.mean(pinball) / np.maximum(np.abs(truth).sum(), 1e-300)),
        **covered,
    }


def naive_error(y: np.ndarray, lag: int) -> float:
    """The mean error of the naive forecast within a series, by which MASE scales errors."""
    return float(np.abs(y[lag:] - y[:-lag]).mean()) or 1.0


def by_level(quantile: Callable[[float], np.ndarray]) -> list[tuple[float, np.ndarray]]:
    return [(level, quantile(level)) for level in QUANTILES]


def forecast(job: tuple[str, str, np.ndarray, np.ndarray]) -> tuple[str, dict[str, Any]]:
    """Forecast one series and score it."""
    name, key, y, truth = job
    competition = COMPETITIONS[name]
    # A season that the series does not show twice is left out.
    seasons = [period for period in competition.seasons or () if 2 * period <= len(y)]
    began = time.process_time()
    forecaster = sg.Forecaster(y, seasons=seasons)
    ahead = forecaster.forecast(len(truth))
    seconds = time.process_time() - began
    found = scores(y, truth, ahead.quantile, competition.lag)
    forecaster.calibrate(y, steps=len(truth))
    calibrated = scores(y, truth, forecaster.forecast(len(truth)).quantile, competition.lag)
    found |= {f"calibrated {name}": calibrated[name] for name in ("wql", *COVERAGES)}
    structure = forecaster.chosen.structure
    about = {"trend": structure.trend, "log": structure.log, "coordinates": forecaster.model.size}
    return key, {**found, **about, "seconds": round(seconds, 3)}


# What each is called with, for seasons in rows.
RIVALS: dict[str, Callable[[list[int]], Any]] = {
    "AutoETS": lambda seasons: statsforecast("AutoETS", seasons[0]),
    "AutoTheta": lambda seasons: statsforecast("AutoTheta", seasons[0]),
    "MSTL": lambda seasons: statsforecast("MSTL", seasons),
    "SeasonalNaive": lambda seasons: statsforecast("SeasonalNaive", seasons[0]),
    # Orders are compared by approximate fits where R's auto.arima does that: more than 150 rows, or seasons above 12.
    "AutoARIMA": lambda seasons: statsforecast("AutoARIMA", season_length=seasons[0], approximation=None),
}


def rival(job: tuple[str, str, str, np.ndarray, np.ndarray]) -> tuple[str, str, dict[str, Any]]:
    """Forecast one series with one of RIVALS and score it."""
    which, name, key, y, truth = job
    competition = COMPETITIONS[name]
    began = time.process_time()
    if which == "one step ahead":
        found: dict[str, Any] = one_step(y, competition)
    else:
        seasons = [round(period) for period in competition.seasons or () if 2 * period <= len(y)] or [1]
        try:
            answer = RIVALS[which](seasons).forecast(y, h=len(truth), level=[round(100 * level) for level in LEVELS])
        except ValueError as error:  # AutoARIMA: "No suitable ARIMA model found"
            return which, key, {"failed": str(error)}
        errors = np.abs(answer["mean"] - truth)
        found = {"mase": float(errors.mean() / naive_error(y, competition.lag))}
        for level in LEVELS:
            low, high = (answer[f"{side}-{100 * level:g}"] for side in ("lo", "hi"))
            found[f"coverage {level}"] = float(np.mean((low <= truth) & (truth <= high)))
    return which, key, {**found, "seconds": round(time.process_time() - began, 3)}


def one_step(y: np.ndarray, competition: Competition) -> dict[str, float]:
    """The mean log density of the targets after the first half, each given those before it."""
    half = len(y) // 2
    chosen = sg.Forecaster(y[:half], seasons=[p for p in competition.seasons or () if 2 * p <= half]).chosen
    positive = chosen.structure.log and bool(np.all(y > 0))
    within = (np.log(y) if positive else y) - chosen.center
    scale = np.log(y) if positive else 0.0 * y  # the density of y itself
    found = {}
    for name, model in (
        ("TimeGP", sg.TimeGP(chosen.kernel, noise=chosen.noise)),
        ("Calibrated(TimeGP)", sg.Calibrated(sg.TimeGP(chosen.kernel, noise=chosen.noise))),
    ):
        ahead = model.track(np.empty((len(y), 0)), within, time=np.arange(float(len(y))))
        found[name] = float(np.mean((np.asarray(ahead.log_density(within)) - scale)[half:]))
    return found | one_step_ahead(y, half)


def run_rivals(name: str, path: Path, jobs: int, which: list[str]) -> None:
    """Forecast a sample of series with all rivals, and add their scores to the results."""
    report = read(path)
    rivals = report.setdefault("rivals", {})
    sample = list(COMPETITIONS[name].series())[:: COMPETITIONS[name].every]
    todo = [(one, name, *series) for one in which for series in sample if series[0] not in rivals.get(one, {})]
    with get_context("spawn").Pool(jobs) as pool:
        for done, (one, key, found) in enumerate(pool.imap_unordered(rival, todo), 1):
            rivals.setdefault(one, {})[key] = found
            path.write_text(text_of(report))
            print(f"{name}: {done} of {len(todo)}: {one}, {key}", flush=True)
    print(table_of_rivals(report))


def table_of_rivals(report: dict[str, Any]) -> str:
    """Ours beside each rival, on the series that it forecast, in Markdown."""
    lines = [
        "| rival | series | its MASE | ours | ours is smaller | its coverage: 50%, 80%, 95% | seconds a series |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, found in report["rivals"].items():
        if name == "one step ahead":
            continue
        keys = [key for key, one in found.items() if key in report["series"] and "failed" not in one]
        if not keys:
            continue
        pairs = np.array([(found[key]["mase"], report["series"][key]["mase"]) for key in keys])
        covered = ", ".join(f"{100 * np.mean([found[k][f'coverage {level}'] for k in keys]):.1f}%" for level in LEVELS)
        seconds = np.mean([found[key]["seconds"] for key in keys])
        lines.append(
            f"| {name} | {len(keys)} | {pairs[:, 0].mean():.3f} | {pairs[:, 1].mean():.3f} | "
            f"{100 * np.mean(pairs[:, 1] < pairs[:, 0]):.0f}% | {covered} | {seconds:.1f} |"
        )
    steps = list(report["rivals"].get("one step ahead", {}).values())
    told = []
    for ours in ("TimeGP", "Calibrated(TimeGP)") if steps else ():
        for other in ("skaters", "skaters, not sticky"):
            gains = np.array([one[ours] - one[other] for one in steps])
            told.append(f"{ours} over {other}: {100 * np.mean(gains > 0):.0f}%, {np.median(gains):+.3f}")
    if told:
        lines.append(
            f"\nOf {len(steps)} series, those on which our log density one step ahead is larger, and the median "
            f"difference: {'; '.join(told)}."
        )
    return "\n".join([*lines, "", measured_on(report)])


def run(name: str, path: Path, jobs: int, every: int = 1) -> dict[str, Any]:
    """Forecast all series, or one of so many, that the file of results does not have yet."""
    report = read(path)
    report["machine"] = platform.machine()
    report["versions"] = {"python": platform.python_version(), "streamgp": sg.__version__} | {
        package: version(package) for package in ("numpy", "scipy", "numba")
    }
    todo = [(name, *one) for one in COMPETITIONS[name].series()][::every]
    todo = [one for one in todo if one[1] not in report["series"]]
    sg.Forecaster(np.sin(np.arange(60.0)), seasons=[6.0])  # compiles once, for all processes
    with get_context("spawn").Pool(jobs) as pool:
        for done, (key, found) in enumerate(pool.imap_unordered(forecast, todo), 1):
            report["series"][key] = found
            if done % 20 == 0 or done == len(todo):
                path.write_text(text_of(report))
                print(f"{name}: {done} of {len(todo)}: {summary(report)}", flush=True)
    return report


def text_of(report: dict[str, Any]) -> str:
    """JSON with one line for each series."""
    parts = {"series": report["series"]} | {f"rivals/{one}": by for one, by in report.get("rivals", {}).items()}
    head = {key: value for key, value in report.items() if key not in ("series", "rivals")}
    text = json.dumps(head, indent=2)[:-2]
    for name, series in parts.items():
        lines = ",\n".join(f"    {json.dumps(key)}: {json.dumps(found)}" for key, found in sorted(series.items()))
        text += f",\n  {json.dumps(name)}: {{\n{lines}\n  }}"
    return text + "\n}\n"


def read(path: Path) -> dict[str, Any]:
    """The results as they were, or none."""
    saved: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"series": {}}
    rivals = {key.partition("/")[2]: saved.pop(key) for key in list(saved) if key.startswith("rivals/")}
    return saved | ({"rivals": rivals} if rivals else {})


def summary(report: dict[str, Any]) -> dict[str, float]:
    """The means over all series."""
    series = list(report["series"].values())
    scored = "mase", "smape", "wql", *COVERAGES, "calibrated wql", *(f"calibrated {name}" for name in COVERAGES)
    names = [name for name in (*scored, "seconds") if all(name in one for one in series)]
    return {"series": len(series)} | {name: round(float(np.mean([one[name] for one in series])), 4) for name in names}


def table() -> str:
    """What the committed results say, in Markdown; published scores beside ours."""
    lines = [
        "| series | ahead | MASE | AutoARIMA, ETS | sMAPE | quantile loss | coverage: 50%, 80%, 95% | "
        "after `calibrate` | seconds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    places = []
    for name, (title, ahead, others) in TITLES.items():
        if (path := RESULTS / f"forecasts_{name}.json").exists():
            mean = summary(report := read(path))
            places.append(measured_on(report, title))
            covered, calibrated = (
                ", ".join(f"{100 * mean[head + name]:.1f}%" for name in COVERAGES if head + name in mean)
                for head in ("", "calibrated ")
            )
            cells = (
                f"{mean['mase']:.3f} | {others} | {mean['smape']:.2f} | {mean['wql']:.4f} | {covered} | {calibrated}"
            )
            lines.append(f"| {title}, {mean['series']} | {ahead} | {cells} | {mean['seconds']:.1f} |")
    return "\n".join([*lines, "", " ".join(places)])


def command(arguments: list[str]) -> None:
    """Run a competition from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=list(COMPETITIONS))
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="processes; one for each core if not given"
    )
    parser.add_argument("--every", type=int, default=1, help="forecast one series of so many")
    parser.add_argument("--out", type=Path, help="the file of results; benchmarks/results/forecasts_NAME.json")
    parser.add_argument("--rivals", action="store_true", help="forecast a sample with other packages instead")
    parser.add_argument("--only", action="append", choices=[*RIVALS, "one step ahead"], help="of the rivals")
    given = parser.parse_args(arguments)
    path = given.out or RESULTS / f"forecasts_{given.name}.json"
    if given.rivals:
        run_rivals(given.name, path, given.jobs, given.only or [*RIVALS, "one step ahead"])
        return
    print(summary(run(given.name, path, given.jobs, given.every)))
