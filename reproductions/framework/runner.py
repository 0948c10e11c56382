"""Running an experiment: the cells that are missing, in parallel, each kept as soon as it is finished."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import matplotlib as mpl
from joblib import Parallel, delayed

from reproductions.framework import catalogue
from reproductions.framework.experiment import Cell, Experiment, Row, Settings, Table
from reproductions.framework.results import Results
from streamgp.version import __version__

PACKAGES = ("numpy", "scipy", "numba", "scikit-learn", "torch")


@dataclass(frozen=True)
class Outcome:
    """What a run left behind.

    Attributes:
        table: ours beside the paper's.
        rows: the finished cells.
        files: what was written.
    """

    table: Table
    rows: list[Row]
    files: list[Path]


def default_folder(quick: bool = False) -> Path:
    """Return where results go: beside the scripts, or, for quick runs, into out/reproductions."""
    return Path("out") / "reproductions" if quick else catalogue.ROOT


def files(experiment: Experiment, folder: Path) -> dict[str, Path]:
    """Return the files of an experiment's results by suffix."""
    place = folder / experiment.key / "results"
    stems = dict.fromkeys(("csv", "json"), experiment.shares or experiment.stem)
    return {suffix: place / f"{stems.get(suffix, experiment.stem)}.{suffix}" for suffix in ("csv", "json", "md", "png")}


def finished(experiment: Experiment, settings: Settings, folder: Path) -> list[Row]:
    """Return the finished cells of an experiment with these settings."""
    return _gathered(experiment, settings, Results(files(experiment, folder)["csv"]))[0]


def _gathered(experiment: Experiment, settings: Settings, results: Results) -> tuple[list[Row], list[Cell]]:
    """The finished rows, and the cells that are missing; later cells may depend on rows."""
    rows: list[Row] = []
    while True:
        cells = experiment.cells(settings, rows)
        known, rows = len(rows), results.finished(cells)
        if len(rows) == known:
            return rows, results.missing(cells)


def reproduce(
    name: str,
    *,
    quick: bool = False,
    jobs: int | None = None,
    out: str | Path | None = None,
    compute: bool = True,
    progress: Callable[[int, int], None] | None = None,
    **changes: Any,
) -> Outcome:
    """Run what is missing of an experiment, and write its results, table and plot.

    Cells run through joblib: ``with joblib.parallel_config("dask"):`` around the call sends them elsewhere.

    Args:
        name: paper and table or figure, such as "soh2014-table1".
        quick: a run of seconds instead of the paper's.
        jobs: processes; None: what joblib is configured to use, else 1.
        out: folder for the results, ``<out>/<paper>/results/``; None: `default_folder`.
        compute: False runs nothing: only the table and the plot of what is finished are written.
        progress: called with (finished cells, cells) at the start and after each cell.
        changes: settings of the experiment, such as runs and steps.
    """
    experiment = catalogue.find(name)
    settings = experiment.settings(quick, **changes)
    folder = default_folder(quick) if out is None else Path(out)
    paths = files(experiment, folder)
    results = Results(paths["csv"])
    record = Record(paths["json"], settings, jobs)
    rows, missing = _gathered(experiment, settings, results)
    while missing and compute:
        if progress:
            progress(len(rows), len(rows) + len(missing))
        parallel = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
        for number, row in enumerate(parallel(delayed(run_cell)(name, cell) for cell in missing), 1):
            results.add(row)
            record.count()
            if progress:
                progress(len(rows) + number, len(rows) + len(missing))
        rows, missing = _gathered(experiment, settings, results)
    table = experiment.summarize(rows, {} if quick else catalogue.expected(experiment))
    paths["md"].parent.mkdir(parents=True, exist_ok=True)
    paths["md"].write_text(f"# {experiment.name}: {experiment.title}\n\n{table.markdown()}\n", encoding="utf-8")
    if experiment.plot is not None:
        with mpl.rc_context({"backend": "agg"}):
            experiment.plot(rows, paths["png"])
    return Outcome(table, rows, [path for path in paths.values() if path.exists()])


def run_cell(name: str, cell: Cell) -> Row:
    """Run one cell of an experiment; its row is the cell, what was found, and the seconds it took."""
    experiment = catalogue.find(name)
    start = time.perf_counter()
    found = dict(experiment.run(cell))
    return cell | found | {"seconds": round(time.perf_counter() - start, 3)}


class Record:
    """The runs that made the results, in a JSON file: settings, versions, machine and time of each.

    Args:
        path: of the file; this run is added when its first cell is finished.
        settings: of this run.
        jobs: processes; None: one.
    """

    def __init__(self, path: Path, settings: Settings, jobs: int | None) -> None:
        self._path, self._start = path, time.perf_counter()
        self._before = json.loads(path.read_text(encoding="utf-8"))["runs"] if path.exists() else []
        self._run: dict[str, Any] = {
            "settings": settings,
            "cells": 0,
            "jobs": jobs or 1,
            "wall_seconds": 0.0,
            "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
            "versions": {"python": platform.python_version(), "streamgp": __version__} | _versions(),
        }

    def count(self) -> None:
        """Count a finished cell, and write: a run that is killed has been recorded up to its last cell."""
        self._run["cells"] += 1
        self._run["wall_seconds"] = round(time.perf_counter() - self._start, 1)
        text = json.dumps({"runs": [*self._before, self._run]}, indent=1) + "\n"
        beside = self._path.with_suffix(".json.tmp")
        beside.write_text(text, encoding="utf-8")
        beside.replace(self._path)


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
