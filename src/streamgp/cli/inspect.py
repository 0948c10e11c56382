"""``streamgp inspect``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from streamgp.cli.errors import reported

MOST = 12  # entries of a list that are shown
LONGEST = 200  # characters of a text


def inspect(
    ctx: typer.Context, file: Annotated[Path, typer.Argument(metavar="FILE", help="A saved run or model, FILE.sgp.")]
) -> None:
    """Show what a saved run or model holds: settings, rows seen, basis, relevance, health."""
    with reported():
        from streamgp.cli.screen import show_scores
        from streamgp.job.description import described
        from streamgp.job.scores import PARTS
        from streamgp.tables.writing import finite

        found = described(file)
        if ctx.obj["json"]:
            typer.echo(json.dumps(finite(found)))
            return
        scores = found.get("scores", {})
        parts = {name: scores.pop(name) for name in PARTS if name in scores}
        width = max(len(name) for name in found)
        for name, value in found.items():
            typer.echo(f"{name:<{width}}  {_shown(_counted(value) if name == 'health' else value)}")
        if parts:
            show_scores(parts, found["level"], stderr=False)


def _counted(health: dict[str, object]) -> dict[str, object]:
    """What there was of it, and the number of repairs in any case."""
    return {name: count for name, count in health.items() if count or name == "repairs"}


def _shown(value: object) -> str:
    """A value in at most some lines; --json has all of it."""
    if isinstance(value, dict):
        return _listed([f"{name} {_shown(inner)}" for name, inner in value.items()])
    if isinstance(value, list):
        return _listed([_shown(inner) for inner in value])
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


def _listed(items: list[str]) -> str:
    if len(items) > MOST + 1:
        items = [*items[:MOST], f"{len(items) - MOST} more"]
    return ", ".join(items) or "none"
