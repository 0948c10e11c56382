"""``streamgp export``."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated

import typer

WRITTEN = b" * Written by streamgp "  # in the comment that a header begins with
LONGEST_ABOUT = 1 << 16  # bytes of a file in which it is looked for: before it the model is described, with its kernel


def export(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A saved model, FILE.sgp.")],
    c: Annotated[
        Path | None, typer.Option("--c", metavar="HEADER", help="Write a C99 header that predicts and learns.")
    ] = None,
    name: Annotated[str, typer.Option(help="Prefix of its functions.  [default: the header's name]")] = "",
    state: Annotated[
        Path | None, typer.Option(metavar="NUMBERS", help="Take over the state that the C code wrote, as doubles.")
    ] = None,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="Save the model with that state.")] = None,
) -> None:
    """Write a model as one C file that predicts and keeps learning, or take over what that file has learned."""
    import numpy as np

    from streamgp.contract.loading import load
    from streamgp.export.c import header, resumed

    if (c is None) == (state is None) or (state is None) != (save is None):
        raise ValueError("give --c HEADER to write C, or --state NUMBERS and --save FILE to take over its state")
    if c is not None and c.is_file():
        with c.open("rb") as before:
            if (found := before.read(LONGEST_ABOUT)) and WRITTEN not in found:
                raise ValueError(
                    f"{c} exists and is not a header that streamgp wrote; give --c another name, or remove it"
                )
    model = load(file)
    if c is not None:
        text = header(model, name or re.sub(r"\W", "_", c.stem))
        c.write_text(text, encoding="utf-8", newline="\n")
        told = {"header": str(c), "lines": text.count("\n"), "bytes": len(text.encode())}
    elif state is not None and save is not None:
        model = resumed(model, np.fromfile(state))
        model.save(save)
        told = {"saved": str(save), "rows_seen": model.rows_seen}
    if ctx.obj["json"]:
        typer.echo(json.dumps(told))
    else:
        typer.echo(", ".join(f"{key.replace('_', ' ')}: {value}" for key, value in told.items()))
