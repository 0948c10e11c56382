"""A page of documentation whose tables are rendered from the committed results."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from reproductions.framework import catalogue
from reproductions.framework.experiment import Experiment, Row
from reproductions.framework.runner import files, finished

BLOCK = re.compile(r"(<!-- result ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
COUNTED = re.compile(r"(<!-- compared (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def refreshed(text: str, folder: Path) -> str:
    """Return a page with every block between ``<!-- result NAME -->`` and ``<!-- end -->`` rendered anew.

    Between ``<!-- compared PAPER -->`` and ``<!-- end -->`` stands how many of a paper's numbers ours are as good as.

    Args:
        text: the page.
        folder: where it stands; plots are linked from there.
    """
    text = BLOCK.sub(lambda block: f"{block[1]}{_rendered(catalogue.find(block[2]), folder)}{block[3]}", text)
    return COUNTED.sub(lambda block: f"{block[1]}{_compared(block[2])}{block[3]}", text)


def _compared(paper: str) -> str:
    """A line for each experiment of a paper that has numbers of the paper's beside ours."""
    lines = ["| experiment | numbers compared | as good or better | worse, within tolerance | worse, reason given |"]
    lines.append("|---|---|---|---|---|")
    for name in catalogue.names():
        experiment = catalogue.find(name)
        rows = finished(experiment, experiment.full, catalogue.ROOT) if experiment.key == paper else []
        values = experiment.summarize(rows, catalogue.expected(experiment)).values().values() if rows else []
        beside = [value for value in values if value.reference is not None and value.better != "neither"]
        if beside:
            near = sum(value.worse and value.near for value in beside)
            far = sum(value.worse and not value.near for value in beside)
            counts = f"{len(beside)} | {len(beside) - near - far} | {near} | {far}"
            lines.append(f"| {experiment.title} | {counts} |")
    return "\n".join(lines) + "\n"


def _rendered(experiment: Experiment, folder: Path) -> str:
    rows = finished(experiment, experiment.full, catalogue.ROOT)
    if not rows:
        return "Not run yet.\n"
    paths = files(experiment, catalogue.ROOT)
    parts = [
        experiment.summarize(rows, catalogue.expected(experiment)).markdown(),
        _how(experiment, rows, paths["json"]),
    ]
    if paths["png"].exists():
        link = Path(os.path.relpath(paths["png"], folder)).as_posix()
        parts.append(f"![{experiment.title}]({link})")
    return "\n\n".join(part for part in parts if part) + "\n"


def _how(experiment: Experiment, rows: list[Row], path: Path) -> str:
    """One line: the command, its settings, the time and the machine."""
    line = f"`python -m reproductions {experiment.name}`"
    line += "".join(f", {name} {value}" for name, value in experiment.full.items())
    if seconds := sum(row.get("seconds", 0.0) for row in rows):
        line += f"; {seconds / 60:.1f} minutes in {len(rows)} cells"
    if path.exists():
        run = json.loads(path.read_text(encoding="utf-8"))["runs"][-1]
        line += f", {run['jobs']} at a time, on {run['machine']}"
    return line + "."
