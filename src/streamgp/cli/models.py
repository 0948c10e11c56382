"""``streamgp models``."""

from __future__ import annotations

import json

import typer

from streamgp.cli.errors import reported


def models(ctx: typer.Context) -> None:
    """List the models: paper, memory, cost per row, and whether they predict a variance."""
    with reported():
        from streamgp.recipes.bibliography import PUBLISHED

        if ctx.obj["json"]:
            for entry in PUBLISHED:
                typer.echo(json.dumps(entry._asdict(), ensure_ascii=False))
            return
        from rich import box
        from rich.console import Console
        from rich.table import Table

        shown = Table("model", "paper", "memory", "cost per row", "variance", box=box.SIMPLE)
        for entry in PUBLISHED:
            papers = ", ".join(entry.papers) or "your own composition"
            shown.add_row(entry.name, papers, entry.memory, entry.cost, "yes" if entry.variance else "no")
        console = Console()
        console.print(shown)
        console.print(
            "m basis points or terms, D frequencies, N units, d inputs, q coordinates. streamgp cite NAME: the papers."
        )
