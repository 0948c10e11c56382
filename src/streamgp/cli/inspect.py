"""``streamgp inspect``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from streamgp.cli.errors import reported


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
            typer.echo(f"{name:<{width}}  {_shown(value)}")
        if parts:
            show_scores(parts, found["level"], stderr=False)


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(inner)}" for name, inner in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(_shown(inner) for inner in value) or "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
