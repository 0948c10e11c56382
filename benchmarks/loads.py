"""Loads of GEFCom2012 with the temperature, 24 hours ahead at every midnight, beside rivals in the same run.

``python benchmarks/forecasts.py gefcom`` forecasts every day from February to December 2007 of eight zones and writes
errors and the coverage of 90% intervals at each hour ahead to benchmarks/results/forecasts_gefcom.json. The temperature
of the next day is taken to be known. Of the eleven stations each zone has the one whose temperature fits its load of
2006 best, by a cubic curve. What was chosen for these forecasts was chosen on other zones, in 2005.

- Forecaster: sg.Forecaster with two years of rows, found anew every 84 days; between these it learns every day. Its
  intervals go by its forecasts of the days before (``judge``).
- without temperature: the same.
- LightGBM: every fourth day, each time fitted anew on one year, with hour, weekday, temperature, its mean that fades
  over a day, and the loads 24, 48 and 168 hours before.
- MSTL: likewise on eight weeks, seasons of a day and a week (statsforecast).
- AutoARIMA: likewise of logarithms of eight weeks, season of a day, with the temperature and its square as regressors
  (statsforecast). It is slow: the model is found anew every four weeks, and applied to the eight weeks before each day.
  Days for which it finds none are left out.

All errors of the table are those of the days that all have forecast.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import streamgp as sg
from record import measured_on
from rivals_of_series import statsforecast

RESULTS = Path(__file__).parent / "results" / "forecasts_gefcom.json"
ZONES = (2, 5, 8, 12, 14, 17, 18, 20)
CHOSEN_ON = (1, 6, 11, 16)
HOURS, LEVEL = 24, 0.9
YEAR, WEEK, MONTHS, QUARTER = 365, 7, 56, 84  # days
SOME = 4  # every so many days
START = np.datetime64("2004-01-01")
Answer = tuple[np.ndarray, np.ndarray, np.ndarray]  # medians and both bounds, (days, HOURS)


class Zone(NamedTuple):
    """Hours of load, NaN where missing, and of temperature at the station that fits best."""

    load: np.ndarray
    temperature: np.ndarray


def day(text: str) -> int:
    return int((np.datetime64(text) - START).astype(int))


def zone(number: int, before: str = "2007-01-01") -> Zone:
    """A zone, numbered from 1; its station is chosen by the year before a day."""
    with np.load(Path(os.environ["STREAMGP_DATA"]) / "gefcom2012_load" / "gef_power_hourly.npz") as arrays:
        load, stations = arrays["load_kW"][:, number - 1].astype(float), arrays["temperature_F"].astype(float)
    load[load < 0] = np.nan
    rows = np.arange(len(load))
    for column in stations.T:
        known = column > -999
        column[:] = np.interp(rows, rows[known], column[known])
    year = slice(HOURS * (day(before) - YEAR), HOURS * day(before))
    known = ~np.isnan(load[year])

    def misfit(temperature: np.ndarray) -> float:
        z = (temperature[year][known] - 60.0) / 20.0
        y = load[year][known]
        return float(np.std(y - np.polyval(np.polyfit(z, y, 3), z)))

    return Zone(load, stations[:, min(range(stations.shape[1]), key=lambda j: misfit(stations[:, j]))])


def hours(days: int, first: int) -> slice:
    return slice(max(0, HOURS * first), HOURS * (first + days))


def forecaster(data: Zone, days: range, with_temperature: bool = True, judged: int = 60) -> Answer:
    """sg.Forecaster, with the forecasts of some days before for its intervals."""
    times = START + np.arange(len(data.load)).astype("timedelta64[h]")
    found, model = [], None
    for today in range(days.start - judged, days.stop):
        if model is None or (today - days.start) % QUARTER == 0:
            past = hours(2 * YEAR, today - 2 * YEAR)
            X = data.temperature[past, None] if with_temperature else None
            spread = None if model is None else model.spread
            model = sg.Forecaster(data.load[past], times[past], X, seasons=["1d", "1w"], trend=False)
            if spread is None:
                model.calibrate(data.load[past], times[past], X, steps=HOURS)
            else:
                model.spread = spread
        next_day = hours(1, today)
        X = data.temperature[next_day, None] if with_temperature else None
        ahead = model.forecast(times[next_day], X)
        found.append((ahead.median, *ahead.interval(LEVEL)))
        model.judge(ahead, data.load[next_day])
        model.learn(data.load[next_day], times[next_day], X)
    return tuple(np.array(found[judged:]).swapaxes(0, 1))


def time_alone(data: Zone, days: range) -> Answer:
    return forecaster(data, days, with_temperature=False)


def lightgbm(data: Zone, days: range) -> Answer:
    from lightgbm import Dataset, train

    load, rows = data.load, np.arange(len(data.load))
    mean = data.temperature.copy()
    for i in range(1, len(mean)):
        mean[i] += np.exp(-1.0 / HOURS) * (mean[i - 1] - mean[i])
    lags = [np.concatenate([np.full(lag, np.nan), load[:-lag]]) for lag in (24, 48, 168)]
    X = np.column_stack([rows % HOURS, rows // HOURS % WEEK, data.temperature, mean, *lags])
    found = []
    for today in days:
        past = hours(YEAR, today - YEAR)
        known = ~np.isnan(load[past])
        rows_of_year = Dataset(X[past][known], np.log(load[past][known]))
        model = train({"objective": "l1", "learning_rate": 0.05, "num_threads": 1, "verbose": -1}, rows_of_year, 300)
        found.append(np.exp(model.predict(X[hours(1, today)])))
    nothing = np.full((len(found), HOURS), np.nan)
    return np.array(found), nothing, nothing


def mstl(data: Zone, days: range) -> Answer:
    model = statsforecast("MSTL", [HOURS, HOURS * WEEK])
    return _each(
        days,
        lambda today: model.forecast(data.load[hours(MONTHS, today - MONTHS)], h=HOURS, level=[round(100 * LEVEL)]),
    )


def autoarima(data: Zone, days: range) -> Answer:
    """Found on the days before the first one, then applied to the days before each."""
    # Whether orders are compared by approximate fits is decided as R's auto.arima does: here they are.
    model = statsforecast("AutoARIMA", season_length=HOURS, approximation=None)
    z = (data.temperature - 60.0) / 20.0
    X, y = np.column_stack([z, z * z]), np.log(data.load)
    first = hours(MONTHS, days[0] - MONTHS)
    try:
        model.fit(y[first], X[first])
    except ValueError as error:  # "No suitable ARIMA model found"
        print(f"day {days[0]}: {error}", flush=True)
        return (np.full((len(days), HOURS), np.nan),) * 3

    def ahead(today: int) -> dict[str, np.ndarray]:
        past, next_day = hours(MONTHS, today - MONTHS), hours(1, today)
        answer = model.forward(y[past], HOURS, X[past], X[next_day], level=[round(100 * LEVEL)])
        return {name: np.exp(values) for name, values in answer.items()}

    return _each(days, ahead)


def _each(days: range, ahead: Callable[[int], dict[str, np.ndarray]]) -> Answer:
    names = ("mean", f"lo-{100 * LEVEL:g}", f"hi-{100 * LEVEL:g}")
    found = [[answer[name] for name in names] for answer in map(ahead, days)]
    return tuple(np.array(found).swapaxes(0, 1))


# Each with the days between two of its forecasts, and in how many pieces its days are forecast.
CONTESTANTS: dict[str, tuple[Callable[[Zone, range], Answer], int, int]] = {
    "Forecaster": (forecaster, 1, 1),
    "without temperature": (time_alone, 1, 1),
    "LightGBM": (lightgbm, SOME, 4),
    "MSTL": (mstl, SOME, 4),
    "AutoARIMA": (autoarima, SOME, 12),
}


def forecast(job: tuple[str, int, range]) -> tuple[str, int, list[int], dict[str, Any]]:
    """Forecast some days of a zone."""
    name, number, days = job
    data = zone(number, str(START + days[0] if days[0] < day("2007-01-01") else START + day("2007-01-01")))
    began = time.process_time()
    median, low, high = CONTESTANTS[name][0](data, days)
    seconds = time.process_time() - began
    y = np.array([data.load[hours(1, today)] for today in days])
    inside = np.where(np.isnan(low), np.nan, (low <= y) & (y <= high))
    return name, number, list(days), {"errors": median - y, "loads": y, "inside": inside, "seconds": seconds}


def run(
    zones: tuple[int, ...], days: range, names: list[str], jobs: int, save: Callable[[dict[str, Any]], None]
) -> None:
    """Forecast all days with all contestants; save is called with what there is after each piece."""
    work = []
    for name in names:
        _, apart, pieces = CONTESTANTS[name]
        own = days[::apart]
        size = -(-len(own) // pieces)
        work += [(name, number, own[i : i + size]) for number in zones for i in range(0, len(own), size)]
    found: dict[str, dict[int, dict[int, Any]]] = {name: {number: {} for number in zones} for name in names}
    with get_context("spawn").Pool(jobs) as pool:
        for done, (name, number, own, scores) in enumerate(pool.imap_unordered(forecast, work), 1):
            for i, one in enumerate(own):
                found[name][number][one] = [scores[key][i] for key in ("errors", "loads", "inside")]
            print(f"{done} of {len(work)}: {name}, zone {number}, {scores['seconds']:.0f} s", flush=True)
            save(
                {
                    name: {str(number): summary(by) for number, by in zones.items() if by}
                    for name, zones in found.items()
                }
            )


def summary(by_day: dict[int, Any]) -> dict[str, Any]:
    """Of one zone: the error of each day and of each hour ahead relative to the mean load, in percent; coverage."""
    days = [one for one in sorted(by_day) if not np.isnan(by_day[one][0]).any()]
    if not days:
        return {}
    errors, loads, inside = (np.array([by_day[one][k] for one in days]) for k in range(3))
    mean = float(loads.mean())
    return {
        "days": {
            str(one): round(float(100.0 * np.abs(e).mean() / mean), 4) for one, e in zip(days, errors, strict=True)
        },
        "error": _rounded(100.0 * np.abs(errors).mean(axis=0) / mean),
        "coverage": None if np.isnan(inside).any() else _rounded(inside.mean(axis=0)),
    }


def _rounded(values: np.ndarray) -> list[float]:
    return [round(float(value), 4) for value in values]


def table(report: dict[str, Any]) -> str:
    """Means over the zones that all have forecast, in Markdown."""
    lines = [
        "| forecast | days | error on all its days | on days of all | coverage: mean, lowest and highest hour |",
        "|---|---|---|---|---|",
    ]
    found = {name: zones for name, zones in report["contestants"].items() if zones}
    of_all = set.intersection(*({number for number, one in zones.items() if one} for zones in found.values()))
    contestants = {name: {number: zones[number] for number in sorted(of_all, key=int)} for name, zones in found.items()}
    common = {
        number: set.intersection(*(set(zones[number]["days"]) for zones in contestants.values())) for number in of_all
    }
    for name, zones in contestants.items():
        own = [float(np.mean(one["error"])) for one in zones.values()]
        same = [one["days"][day] for number, one in zones.items() for day in common[number]]
        cover = coverage(zones)
        shown = ", ".join(f"{100 * one:.1f}%" for one in (cover.mean(), cover.min(), cover.max())) if cover.size else ""
        days = sum(len(one["days"]) for one in zones.values())
        lines.append(f"| {name} | {days} | {np.mean(own):.2f}% | {np.mean(same):.2f}% | {shown} |")
    return "\n".join([*lines, "", measured_on(report)])


def coverage(zones: dict[str, Any]) -> np.ndarray:
    """By hours ahead, over all zones; empty where there are no intervals."""
    known = [one["coverage"] for one in zones.values() if one["coverage"] is not None]
    return np.mean(known, axis=0) if known else np.empty(0)


def command(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=["gefcom"])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--choose", action="store_true", help="the zones and the days on which settings were chosen")
    parser.add_argument("--days", type=int, help="the first so many only")
    parser.add_argument("--only", choices=list(CONTESTANTS), action="append")
    parser.add_argument("--zone", type=int, choices=ZONES, action="append", help="these only; the others stay")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    first, last = ("2006-01-08", "2006-02-12") if given.choose else ("2007-02-01", "2008-01-01")
    days = range(day(first), day(last))[: given.days]
    names = given.only or list(CONTESTANTS)
    report = {
        "machine": platform.machine(),
        "versions": {"python": platform.python_version(), "streamgp": sg.__version__}
        | {package: version(package) for package in ("numpy", "scipy", "numba")},
        "contestants": json.loads(given.out.read_text())["contestants"] if given.out.exists() else {},
    }

    def save(found: dict[str, Any]) -> None:
        for name, zones in found.items():
            report["contestants"][name] = report["contestants"].get(name, {}) | zones
        given.out.write_text(json.dumps(report) + "\n")

    run(CHOSEN_ON if given.choose else tuple(given.zone or ZONES), days, names, given.jobs, save)
    print(table(report))
    for name, zones in report["contestants"].items():
        if (cover := coverage(zones)).size:
            print(name, "coverage by hour:", " ".join(f"{100 * one:.1f}" for one in cover))
