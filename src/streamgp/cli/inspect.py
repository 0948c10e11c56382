"""``streamgp inspect``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

MOST = 12  # entries of a list that are shown
LONGEST = 200  # characters of a text


def inspect(
    ctx: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A saved run or model, FILE.sgp, or a table, such as FILE.csv.")
    ],
    write_schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write what the columns of a table are to a .toml or .json file."),
    ] = None,
) -> None:
    """Show what a saved run or model holds: settings, rows seen, basis, relevance, health; or a table's columns."""
    from streamgp.cli.screen import show_scores
    from streamgp.job.description import described, described_table, is_table, write_columns
    from streamgp.job.scores import PARTS
    from streamgp.tables.places import refuse_same
    from streamgp.tables.writing import finite

    refuse_same({"source": file, "write_schema": write_schema})
    if is_table(file):
        table = described_table(file)
        if write_schema is not None:
            write_columns(table, write_schema)
        if ctx.obj["json"]:
            typer.echo(json.dumps({"schema": table.declared()}))
            return
        for sentence in table.sentences():
            typer.echo(sentence)
        if write_schema is not None:
            typer.echo(f"schema: {write_schema} (use it with streamgp run {file} --schema {write_schema})")
        return
    if write_schema is not None:
        raise ValueError("`write_schema` is for tables; a saved run has its schema with it")
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
