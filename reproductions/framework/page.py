"""A page of documentation whose tables are rendered from the committed results."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from reproductions.framework import catalogue
from reproductions.framework.experiment import Experiment, Row, Table
from reproductions.framework.runner import files, finished

BLOCK = re.compile(r"(<!-- (result|table|short) ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
COUNTED = re.compile(r"(<!-- compared ([\w ]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def refreshed(text: str, folder: Path) -> str:
    """Return a page with every block between ``<!-- KIND NAME -->`` and ``<!-- end -->`` rendered anew.

    ``result`` is all that is known of an experiment, ``table`` its table and what stands below it, ``short`` only how
    many numbers are as good as the paper's; all have the plot. ``<!-- compared PAPER PAPER ... -->`` is a table of
    these counts.

    Args:
        text: the page.
        folder: where it stands; plots are linked from there.
    """
    text = BLOCK.sub(lambda block: f"{block[1]}{_rendered(block[2], catalogue.find(block[3]), folder)}{block[4]}", text)
    return COUNTED.sub(lambda block: f"{block[1]}{_compared(block[2].split())}{block[3]}", text)


def _compared(papers: list[str]) -> str:
    """A line for each paper: over its experiments, the numbers of the paper's that stand beside ours."""
    found = {paper: [0, 0, 0] for paper in papers}
    for name in catalogue.names():
        experiment = catalogue.find(name)
        if experiment.key not in found:
            continue
        if rows := finished(experiment, experiment.full, catalogue.ROOT):
            counts = _counts(experiment.summarize(rows, catalogue.expected(experiment)))
            found[experiment.key] = [a + b for a, b in zip(found[experiment.key], counts, strict=True)]
    lines = ["| paper | numbers compared | as good or better | worse, within tolerance | worse, reason given |"]
    lines.append("|---|---|---|---|---|")
    lines += [f"| {paper} | {sum(counts)} | {' | '.join(map(str, counts))} |" for paper, counts in found.items()]
    return "\n".join(lines) + "\n"


def _counts(table: Table) -> tuple[int, int, int]:
    """How many numbers are as good as the paper's or better, worse within tolerance, and worse than that."""
    beside = [value for value in table.values().values() if value.reference is not None and value.better != "neither"]
    near = sum(value.worse and value.near for value in beside)
    far = sum(value.worse and not value.near for value in beside)
    return len(beside) - near - far, near, far


def _told(table: Table) -> str:
    """How many numbers are as good as the paper's; empty where there is nothing to compare."""
    good, near, far = _counts(table)
    more = f", {near} more within tolerance" if near else ""
    return f": {good} of {good + near + far} as good as the paper's or better{more}" if good + near + far else ""


def _rendered(kind: str, experiment: Experiment, folder: Path) -> str:
    rows = finished(experiment, experiment.full, catalogue.ROOT)
    if not rows:
        return "Not run yet.\n"
    paths = files(experiment, catalogue.ROOT)
    table = experiment.summarize(rows, catalogue.expected(experiment))
    if kind == "result":
        parts = [table.markdown(), _how(experiment, rows, paths["json"])]
    else:
        parts = [f"`{experiment.name}`{_told(table)}."]
        if kind == "table":
            parts = [table.grid(), " ".join([*table.notes, f"`{experiment.name}`."])]
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
