"""``streamgp models`` and ``streamgp cite``."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def models(ctx: typer.Context) -> None:
    """List the models: paper, memory, cost per row, and whether they predict a variance."""
    from streamgp.recipes.bibliography import PUBLISHED

    if ctx.obj["json"]:
        for entry in PUBLISHED:
            typer.echo(json.dumps(entry._asdict(), ensure_ascii=False))
        return
    from streamgp.cli.screen import show_table

    headings = ["model", "paper", "memory", "cost per row", "variance"]
    lines = (
        (
            one.name,
            ", ".join(one.papers) or "your own composition",
            one.memory,
            one.cost,
            "yes" if one.variance else "no",
        )
        for one in PUBLISHED
    )
    console = show_table(headings, lines, right=False)
    console.print(
        "m basis points or terms, D frequencies, N units, d inputs, q coordinates. streamgp cite NAME: the papers."
    )


def cite(
    ctx: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The name of a model, such as KRLST.")],
) -> None:
    """Print BibTeX entries for a model's papers."""
    from streamgp.recipes.bibliography import citation, published

    text = citation(model)
    typer.echo(json.dumps({"papers": published(model).papers, "bibtex": text}) if ctx.obj["json"] else text)
