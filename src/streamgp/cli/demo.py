"""``streamgp demo``."""

from __future__ import annotations

import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from streamgp.cli.run import run
from streamgp.cli.settings import TYPED

MODEL, LAGS = "SOGP", 3  # one model of its own: auto compiles and runs many


def demo(
    ctx: typer.Context,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder for the table, the predictions and the report.")
    ] = Path("out"),
) -> None:
    """Run on a synthetic table, print a summary and write a report."""
    from streamgp.job.demonstration import time_of, write_demo

    out.mkdir(parents=True, exist_ok=True)
    table = out / "demo.csv"
    changed = write_demo(table)
    ctx.meta[TYPED] = f"streamgp run {shlex.quote(str(table))} --target power --lags {LAGS} --model {MODEL}"
    if not ctx.obj["json"]:
        typer.echo(
            "Synthetic data: the hourly power of a plant, with time, temperature, shift and gaps.\n"
            f"A machine is replaced at row {changed}, {time_of(changed):%Y-%m-%d %H:%M}; nobody tells the model. "
            f"The same as:\n  {ctx.meta[TYPED]} --out {out / 'demo-predictions.csv'} ...\n",
            err=True,
        )
    run(
        ctx,
        str(table),
        "power",
        lags=LAGS,
        model=MODEL,
        out=out / "demo-predictions.csv",
        report=out / "demo.html",
        plot=out / "demo.png" if find_spec("matplotlib") else None,
        save=out / "demo.sgp",
    )
