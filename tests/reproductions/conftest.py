"""A workplace with one small experiment."""

from __future__ import annotations

import pytest

from reproductions.framework import catalogue

SCRIPT = """
from reproductions.framework import Experiment, Table, Value

def cells(settings, rows):
    first = [{"stage": "first", "number": i} for i in range(settings["runs"])]
    best = max((row["square"] for row in rows if row["stage"] == "first"), default=None)
    return first + ([{"stage": "second", "number": best}] if len(rows) >= len(first) else [])

def run(cell):
    with open(log, "a") as file:
        print(cell["stage"], cell["number"], file=file)
    if cell["number"] == fails:
        raise RuntimeError("this cell fails")
    return {"square": cell["number"] ** 2, "path": [1.5, cell["number"]], "word": "a, b"}

def summarize(rows, expected):
    total = sum(row["square"] for row in rows)
    return Table(["what", "sum"], [["all", Value("sum", float(total), None, expected.get("sum"))]])

def plot(rows, path):
    path.write_bytes(b"png")

EXPERIMENT = Experiment("squares", {"runs": 3}, {"runs": 2}, cells, run, summarize, plot)
"""


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """One experiment, paper-squares, whose sum the paper gives as 10; log.txt says which cells were run."""
    folder = tmp_path / f"experiments_{tmp_path.name}" / "paper"  # a package of its own for each test
    folder.mkdir(parents=True)
    log = tmp_path / "log.txt"
    (folder / "squares.py").write_text(f"log, fails = {str(log)!r}, None\n{SCRIPT}")
    (folder / "shared.py").write_text("NUMBER = 1\n")
    (folder / "expected.toml").write_text('[squares]\ntolerance = 0.1\n[squares.values]\n"sum" = 10.0\n')
    monkeypatch.setattr(catalogue, "ROOT", folder.parent)
    monkeypatch.syspath_prepend(tmp_path)
    catalogue.find.cache_clear()
    yield tmp_path
    catalogue.find.cache_clear()
