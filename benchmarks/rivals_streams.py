"""The streams of rivals_protocol.toml: from measured tables, River and vega_datasets, or one packed file."""

from __future__ import annotations

import csv
import os
import tomllib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

PROTOCOL_FILE = Path(__file__).with_name("rivals_protocol.toml")
PROTOCOL: dict[str, Any] = tomllib.loads(PROTOCOL_FILE.read_text())
TASK = PROTOCOL["task"]
PACKED = "RIVALS_STREAMS"  # the environment variable that names a packed file


class Stream(NamedTuple):
    """Inputs (n, d), targets (n,), NaN where they are missing, and the rows of a day and a week."""

    X: np.ndarray
    y: np.ndarray
    seasons: tuple[int, ...]

    @property
    def alone(self) -> bool:
        """Whether there are no inputs."""
        return self.X.shape[1] == 0


Columns = dict[str, np.ndarray]


def measured(source: str) -> Columns:
    from reproductions.data import load

    table = load(source)
    Y = np.asarray(table.Y, float).reshape(len(table.X), -1)
    return dict(zip((*table.inputs, *table.targets), np.column_stack([table.X, Y]).T, strict=True))


def csv_columns(package: str, path: str, wanted: tuple[str, ...]) -> Columns:
    """Columns of a file that a package ships."""
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError(f"this stream comes with the package {package}: pip install {package}")
    with (Path(found.submodule_search_locations[0]) / path).open() as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([float(row[name]) for row in rows]) for name in wanted}


def river_table(name: str) -> Columns:
    from river import datasets

    rows = list({"trump_approval": datasets.TrumpApproval, "water_flow": datasets.WaterFlow}[name]())
    numbers = [key for key, value in rows[0][0].items() if isinstance(value, int | float)]
    target = next(stream["target"] for stream in PROTOCOL["streams"].values() if stream["source"] == f"river/{name}")
    return {key: np.array([float(x[key]) for x, _ in rows]) for key in numbers} | {
        target: np.array([float(y) for _, y in rows])
    }


def m4_hourly(name: str) -> Columns:
    from competitions import m4

    return next({"value": np.concatenate(parts)} for key, *parts in m4("hourly") if key == name)


def brent() -> Columns:
    columns = csv_columns("river", "drift/datasets/brent_crude_oil.csv", ("DPB",))
    return {"price": columns["DPB"]}


SOURCES: dict[str, Callable[[], Columns]] = {
    "vega_datasets/sf-temps": lambda: csv_columns("vega_datasets", "_data/sf-temps.csv", ("temp",)),
    "vega_datasets/seattle-weather": lambda: csv_columns(
        "vega_datasets", "_data/seattle-weather.csv", ("precipitation", "temp_min", "wind", "temp_max")
    ),
    "river/brent": brent,
    "river/water_flow": lambda: river_table("water_flow"),
    "river/trump_approval": lambda: river_table("trump_approval"),
    "m4_hourly/H414": lambda: m4_hourly("H414"),
}


def from_source(name: str) -> Stream:
    asked = PROTOCOL["streams"][name]
    source = asked["source"]
    columns = SOURCES[source]() if source in SOURCES else measured(source)
    y = columns.pop(asked["target"])[: TASK["rows"]]
    others = [] if asked["inputs"] == "none" else [key for key in columns if not key.startswith(("torque", "load"))]
    X = np.column_stack([columns[key][: TASK["rows"]] for key in others]) if others else np.empty((len(y), 0))
    known = np.isfinite(X).all(axis=1)
    return Stream(np.ascontiguousarray(X[known]), y[known], tuple(asked["seasons"]))


def with_gaps(data: Stream) -> Stream:
    """The targets of some rows of every few are missing."""
    missing = np.isin(np.arange(len(data.y)) % TASK["gap_period"], TASK["gap_rows"])
    return data._replace(y=np.where(missing, np.nan, data.y))


def stream(name: str) -> Stream:
    """A stream as contestants see it; its rows from the packed file if there is one."""
    if path := os.environ.get(PACKED):
        with np.load(path) as arrays:
            data = Stream(arrays[f"{name}/X"], arrays[f"{name}/y"], tuple(PROTOCOL["streams"][name]["seasons"]))
    else:
        data = from_source(name)
    return with_gaps(data) if PROTOCOL["streams"][name].get("gaps") else data


def pack(path: Path) -> None:
    """Write the rows of all streams into one file, for a machine that has neither the tables nor the packages."""
    arrays = {}
    for name in PROTOCOL["streams"]:
        data = from_source(name)
        arrays |= {f"{name}/X": data.X, f"{name}/y": data.y}
    np.savez_compressed(path, **arrays)
