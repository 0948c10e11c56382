"""``streamgp cite``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from streamgp.cli.errors import reported


def cite(
    ctx: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The name of a model, such as KRLST.")],
) -> None:
    """Print BibTeX entries for a model's papers."""
    with reported():
        from streamgp.recipes.bibliography import citation, published

        text = citation(model)
        typer.echo(json.dumps({"papers": published(model).papers, "bibtex": text}) if ctx.obj["json"] else text)
