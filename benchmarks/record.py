"""Where measurements go: one file for each script, with the machine and the versions, resumable cell by cell.

A finished cell is kept under out/bench until the whole suite has finished, so that a suite that was stopped goes on
where it stood; cells of other sources, versions or machines are measured anew.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

import streamgp as sg

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
UNFINISHED = ROOT / "out" / "bench"
PACKAGES = ("numpy", "scipy", "numba")


def told(versions: dict[str, str]) -> str:
    """The versions that a page names; the file of results also has those of NumPy, SciPy and Numba."""
    return ", ".join(f"{package} {version}" for package, version in versions.items() if package not in PACKAGES)


def where(results: dict[str, Any]) -> str:
    """Machine and versions."""
    return f"{results['machine']}; {told(results['versions'])}"


def measured_on(results: dict[str, Any], what: str = "") -> str:
    """The sentence that stands below every table of results; what: of them, where a table has several."""
    return f"{what}: measured on {where(results)}." if what else f"Measured on {where(results)}."


def environment(*packages: str) -> dict[str, Any]:
    """The machine, and the versions of everything that was measured; a package that is missing is left out."""
    found = {"streamgp": sg.__version__, "python": platform.python_version()}
    for package in (*PACKAGES, *packages):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return {"machine": f"{processor()}, {os.cpu_count()} cores, {platform.system()}", "versions": found}


def processor() -> str:
    """The name of the processor where Linux tells it, or its kind, with the kind that BLAS takes it for."""
    names = [line.split(":")[1].strip() for line in cpuinfo() if line.startswith("model name")]
    kinds = {str(library["architecture"]) for library in threadpool_info() if "architecture" in library}
    return ", ".join([names[0] if names else platform.machine(), *sorted(kinds)])


def cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def blas() -> str:
    """Name and version of the BLAS libraries in use."""
    found = {f"{library['internal_api']} {library['version']}" for library in threadpool_info()}
    return ", ".join(sorted(name for name in found if "blas" in name.lower() or "mkl" in name.lower()))


@cache
def fingerprint() -> str:
    """Of all that could change a measurement: the sources and where they run."""
    digest = hashlib.sha256(json.dumps(environment()).encode())
    for path in sorted([*ROOT.glob("src/**/*.py"), *ROOT.glob("benchmarks/*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


class Record:
    """The results of one script, measured cell by cell."""

    def __init__(self, name: str, packages: tuple[str, ...] = (), **settings: Any) -> None:
        self.name = name
        self.results: dict[str, Any] = environment(*packages) | {"blas": blas()} | settings | {"cells": {}}
        self._path = UNFINISHED / f"{name}.json"
        if self._path.exists():
            kept = json.loads(self._path.read_text())
            if kept["fingerprint"] == fingerprint():
                self.results["cells"] = kept["cells"]

    def cell(self, key: str, measure: Callable[..., Any], *arguments: Any) -> Any:
        """The cell of that key: measure(*arguments), unless a stopped run has done so."""
        cells = self.results["cells"]
        if key not in cells:
            print(f"{self.name}: {key}", flush=True)
            cells[key] = measure(*arguments)
            write(self._path, {"fingerprint": fingerprint(), "cells": cells})
        return cells[key]

    def finish(self) -> None:
        """Write the file of results."""
        write(RESULTS / f"{self.name}.json", self.results)


def write(path: Path, content: dict[str, Any]) -> None:
    """Write all or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(".part")
    half.write_text(json.dumps(content, indent=1) + "\n")
    half.replace(path)


def read(name: str) -> dict[str, Any]:
    results: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return results


def forget_unfinished() -> None:
    """The suite has finished: the next one measures everything anew."""
    shutil.rmtree(UNFINISHED, ignore_errors=True)
