"""The streams that benchmarks/auto.py runs ``Auto`` on: rows of measured tables, and some with planted faults.

Most are read with the environment variable STREAMGP_DATA (docs/data.md); all of them may come from one packed file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

import rivals_streams
from reproductions.data import load

MOST_ROWS = 6000  # of a stream
PACKED = "AUTO_STREAMS"  # the environment variable that names a packed file
DAY, WEEK = 24, 168
HOURLY = (DAY, WEEK)
NONE: np.ndarray = np.empty(0, dtype=int)


class Stream(NamedTuple):
    """Inputs (n, d), targets (n,), NaN where they are missing, and what is known of them.

    Args:
        seasons: rows of a day and of a week.
        broken: rows that do not count.
        changes: rows from which the target is another function of the inputs, all of it.
    """

    X: np.ndarray
    y: np.ndarray
    seasons: tuple[int, ...] = ()
    broken: np.ndarray = NONE
    changes: tuple[int, ...] = ()


class Source(NamedTuple):
    """How a stream is read, to which group it belongs, and the horizons that it is run with; 0: none."""

    group: str
    read: Callable[[], Stream]
    horizons: tuple[int, ...] = (0,)


# Tables of the papers and their like.

# The table, which of its targets (None: their sum), the rows of a day and a week, and horizons.
MEASURED: dict[str, tuple[str, int | None, tuple[int, ...], tuple[int, ...]]] = {
    "bike_hourly": ("bike_hourly", 0, HOURLY, (0, 24)),
    "gefcom2012_load, total": ("gefcom2012_load", None, HOURLY, (0, 24)),
    "barrett_wam": ("barrett_wam", 0, (), (0, 6)),
    "santafe_laser": ("santafe_laser", 0, (), (0, 6)),
    "driving_udacity": ("driving_udacity/round1", 0, (), (0, 6)),
    "gefcom2012_wind, farm 1": ("gefcom2012_wind/1", 0, HOURLY, (0, 6)),
    "sarcos, IAS": ("sarcos/ias", 0, (), (0, 6)),
    "silverbox": ("silverbox", 0, (), (0, 6)),
    "baxter_dynamics": ("baxter_dynamics/inverse", 1, (), (0, 6)),
    "kin40k": ("kin40k", 0, (), (0,)),
    "comma2k19, yaw": ("comma2k19_segment/yaw", 0, (), (0, 6)),
    "gefcom2012_wind, farm 4": ("gefcom2012_wind/4", 0, HOURLY, (0, 24)),
    "gefcom2012_load, zone 7": ("gefcom2012_load", 6, HOURLY, (0, 6)),
    "pm10_germany_2005": ("pm10_germany_2005", 0, (), (0,)),
    "co2_mauna_loa": ("co2_mauna_loa", 0, (), (0, 6)),
    "sysid_classics, tank": ("sysid_classics/tank", 0, (), (0, 6)),
    "sarcos, torques": ("sarcos/torques", 0, (), (0, 6)),
    "uci_elevators": ("uci_elevators", 0, (), (0,)),
}
# Looked at while choosing: what auto consists of, what it does some rows ahead, how wide the first intervals are, and
# what became of two streams of rivals_protocol.toml. At the others we only looked afterwards.
CHOSEN_ON = tuple(MEASURED)[:6]
CHOSEN_AHEAD_ON = (*CHOSEN_ON, "silverbox", "co2_mauna_loa", "pm10_germany_2005")
CHOSEN_FIRST_ROWS_ON = tuple(MEASURED)[0::2]
CHOSEN_RULES_ON = "wing flutter", "water flow"
HAD_A_PART = {*CHOSEN_AHEAD_ON, *CHOSEN_FIRST_ROWS_ON, *CHOSEN_RULES_ON}


def measured(name: str, rows: int = MOST_ROWS) -> Stream:
    table, which, seasons, _ = MEASURED[name]
    loaded = load(table)
    X, Y = np.asarray(loaded.X, float)[:rows], np.asarray(loaded.Y, float)[:rows].reshape(len(loaded.X[:rows]), -1)
    known = np.isfinite(X).all(axis=1)
    y = Y.sum(axis=1) if which is None else Y[:, which]
    return Stream(np.ascontiguousarray(X[known]), y[known], seasons)


def of_rivals(name: str) -> Stream:
    return Stream(*rivals_streams.stream(name))


# Tables as users have them.

# The target, the rows ahead that a user asks for, and the rows of a day and a week.
TABLES: dict[str, tuple[str, int, tuple[int, ...]]] = {
    "appliances": ("Appliances", 6, (144, 1008)),
    "bidmc": ("PLETH", 5, ()),
    "debutanizer": ("y", 4, ()),
    "etth1": ("OT", 24, HOURLY),
    "exchange": ("gbr", 1, ()),
    "gas_turbine": ("NOX", 6, ()),
    "metro": ("traffic_volume", 24, ()),
    "occupancy": ("CO2", 15, ()),
    "pm25": ("pm2.5", 6, HOURLY),
    "river": ("flow", 7, ()),
    "sru": ("y2", 10, ()),
    "tailsitter": ("rate2", 2, ()),
    "wind": ("power", 6, (144, 1008)),
}
TIMES = "date", "date_time", "time", "Time [s]"
BY_THE_CLOCK = "metro", "occupancy"  # whose rows are no equal times apart


def of_table(name: str) -> Stream:
    """Numbers as they are, the last known one where one is missing; categories as columns of 0 and 1."""
    import pandas as pd

    target, _, seasons = TABLES[name]
    frame = pd.read_csv(Path(os.environ["STREAMGP_DATA"]) / "streams" / f"{name}.csv.gz", nrows=MOST_ROWS)
    y = frame.pop(target).to_numpy(float)
    times = [frame.pop(column) for column in list(frame) if column in TIMES]
    columns = [clock(pd.DatetimeIndex(times[0]))] if name in BY_THE_CLOCK else []
    for values in (frame[column] for column in frame):
        if pd.api.types.is_numeric_dtype(values):
            columns.append(values.ffill().fillna(0.0).to_numpy(float)[:, None])
        else:
            columns.append(pd.get_dummies(values).to_numpy(float))
    return Stream(np.ascontiguousarray(np.hstack(columns)), y, seasons)


def clock(times: object) -> np.ndarray:
    """The hour of the day and of the week, on circles."""
    hour = np.asarray(times.hour + times.minute / 60.0)  # type: ignore[attr-defined]
    angles = 2.0 * np.pi * np.column_stack([hour / DAY, (np.asarray(times.dayofweek) * DAY + hour) / WEEK])  # type: ignore[attr-defined]
    return np.hstack([np.sin(angles), np.cos(angles)])


# Planted faults.

GLITCHED, GLITCHED_ROWS = tuple(MEASURED)[:10], 2000
BROKEN, QUIET, APART = 12, 300, 30  # rows that are broken, from which row on, and how far apart at least
KINDS = ("nothing", "targets", "inputs")


def with_glitches(name: str, kind: str) -> Stream:
    """The first rows of a stream, in which some targets or inputs are 10 to 1 000 standard deviations off, or none."""
    data = measured(name, GLITCHED_ROWS)
    rng = np.random.default_rng(GLITCHED.index(name))
    places = (len(data.y) - QUIET) // APART
    rows = QUIET + APART * np.sort(rng.choice(places, BROKEN, replace=False))
    sizes = rng.choice([-1.0, 1.0], BROKEN) * 10.0 ** rng.uniform(1, 3, BROKEN)
    X, y = data.X.copy(), data.y.copy()
    if kind == "targets":
        y[rows] += sizes * np.nanstd(y)
    elif kind == "inputs":
        columns = rng.integers(X.shape[1], size=BROKEN)
        X[rows, columns] += sizes * np.maximum(X.std(axis=0), 1e-6)[columns]
    return data._replace(X=X, y=y, broken=rows)


# Auto's watch was chosen with seeds 0 and 1.
SEEDS = (10, 11)
NEW_INPUT = "another input"
CHANGES = ("abrupt", "abrupt, small", "gradual", "recurring", NEW_INPUT)
CHANGED_NOISE = 0.1  # the standard deviation
# Without a change; the last ones are no drift, either.
STEADY = "Gaussian", "heavy-tailed (Student, 2)", "bursts", "seasonal variance", "three times larger from the middle"


def planted_at(change: str) -> list[tuple[int, int]]:
    """The rows at which changes begin, and are complete."""
    from drift import CHANGES as PLANTED
    from drift import GRADUAL, ROWS

    return [(row, row + GRADUAL * (change == "gradual")) for row in PLANTED.get(change, (ROWS // 2,))]


def with_changes(change: str, seed: int, noise: str = STEADY[0]) -> Stream:
    """Four inputs, of which two count; of a new one the others know nothing."""
    from drift import ROWS, function, noises, surface

    rng = np.random.default_rng([seed, 7])
    X = rng.uniform(-2, 2, (ROWS, 4))
    if change == NEW_INPUT:
        new = np.arange(ROWS) >= planted_at(change)[0][0]
        before, after = surface(rng, X[:, :2]), surface(rng, X[:, 1:3])
        y = np.where(new, after, before)
    else:
        y = function(change, rng, X[:, :2])
    complete = tuple(end for _, end in planted_at(change))
    return Stream(X, y + noises(rng)[noise], changes=complete)


# All of them.

SOURCES: dict[str, Source] = {
    name: Source("measured", partial(measured, name), horizons) for name, (*_, horizons) in MEASURED.items()
}
SOURCES |= {name: Source("rivals", partial(of_rivals, name)) for name in rivals_streams.PROTOCOL["streams"]}
SOURCES |= {name: Source("tables", partial(of_table, name), (0, horizon)) for name, (_, horizon, _) in TABLES.items()}
SOURCES |= {
    f"{name}, {kind} broken": Source("glitches", partial(with_glitches, name, kind))
    for name in GLITCHED
    for kind in KINDS
}
SOURCES |= {
    f"{change}, seed {seed}": Source("changes", partial(with_changes, change, seed))
    for change in CHANGES
    for seed in SEEDS
}
SOURCES |= {
    f"no change, {noise}": Source("changes", partial(with_changes, "none", SEEDS[0], noise)) for noise in STEADY
}


@cache
def stream(name: str) -> Stream:
    """A stream by its name, from the packed file if there is one."""
    if not (path := os.environ.get(PACKED)):
        return SOURCES[name].read()
    with np.load(path) as arrays:
        X, y, *numbers = (arrays[f"{name}/{part}"] for part in Stream._fields)
    seasons, broken, changes = numbers
    return Stream(X, y, tuple(seasons.tolist()), broken, tuple(changes.tolist()))


def pack(path: Path, names: Iterable[str]) -> None:
    """Write streams into one file, for a machine that has neither the tables nor the packages to read them."""
    arrays = {}
    for name in names:
        data = stream(name)._asdict()
        for part, values in data.items():
            arrays[f"{name}/{part}"] = np.asarray(values, dtype=float if part in ("X", "y") else int)
    np.savez_compressed(path, **arrays)
