"""A page of documentation whose tables are rendered from the committed results."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from streamgp.reproduce import catalogue
from streamgp.reproduce.experiment import Experiment
from streamgp.reproduce.runner import files, finished

BLOCK = re.compile(r"(<!-- result ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def refreshed(text: str, folder: Path) -> str:
    """Return a page with every block between ``<!-- result NAME -->`` and ``<!-- end -->`` rendered anew.

    Args:
        text: the page.
        folder: where it stands; plots are linked from there.
    """
    return BLOCK.sub(lambda block: f"{block[1]}{_rendered(catalogue.find(block[2]), folder)}{block[3]}", text)


def _rendered(experiment: Experiment, folder: Path) -> str:
    rows = finished(experiment, experiment.full, catalogue.ROOT)
    if not rows:
        return "Not run yet.\n"
    paths = files(experiment, catalogue.ROOT)
    parts = [experiment.summarize(rows, catalogue.expected(experiment)).markdown(), _how(experiment, paths["json"])]
    if paths["png"].exists():
        link = Path(os.path.relpath(paths["png"], folder)).as_posix()
        parts.append(f"![{experiment.title}]({link})")
    return "\n\n".join(part for part in parts if part) + "\n"


def _how(experiment: Experiment, path: Path) -> str:
    """One line: the command, its settings, the time and the machine."""
    line = f"`streamgp reproduce {experiment.name}`"
    line += "".join(f", {name} {value}" for name, value in experiment.full.items())
    if path.exists():
        runs = json.loads(path.read_text(encoding="utf-8"))["runs"]
        minutes = sum(run["wall_seconds"] for run in runs) / 60
        jobs = max(run["jobs"] for run in runs)
        line += f"; {minutes:.1f} minutes with {jobs} process{'es' if jobs > 1 else ''} on {runs[-1]['machine']}"
    return line + "."
