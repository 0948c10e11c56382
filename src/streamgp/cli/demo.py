"""``streamgp demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamgp.cli.errors import INTERRUPTED, reported

MODEL, LAGS = "SOGP", 3  # one model of its own: auto compiles and runs many


def demo(
    ctx: typer.Context,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder for the table, the predictions and the report.")
    ] = Path("out"),
) -> None:
    """Run on a synthetic table, print a summary and write a report."""
    with reported():
        from streamgp.cli.screen import Screen, stopping
        from streamgp.job import Job
        from streamgp.job.demonstration import time_of, write_demo
        from streamgp.job.recorder import Recorder

        out.mkdir(parents=True, exist_ok=True)
        table, predictions, saved = out / "demo.csv", out / "demo-predictions.csv", out / "demo.sgp"
        changed = write_demo(table)
        as_json = ctx.obj["json"]
        screen = Screen(quiet=as_json, to_terminal=False)
        screen.note(
            "Synthetic data: the hourly power of a plant, with time, temperature, shift and gaps.\n"
            f"A machine is replaced at row {changed}, {time_of(changed):%Y-%m-%d %H:%M}; nobody tells the model. "
            "The same as:\n"
            f"  streamgp run {table} --target power --lags {LAGS} --model {MODEL} --out {predictions} ...\n"
        )
        recorder = Recorder()
        with stopping(screen) as stop, screen:
            summary = Job(
                table,
                "power",
                lags=LAGS,
                model=MODEL,
                out=predictions,
                save=saved,
                observers=[recorder, screen],
                stop=stop,
            ).run()
        screen.finish(summary, predictions, saved, saved)
        screen.pictures(recorder, summary, str(table), out / "demo.html", _picture(out))
        if as_json:
            screen.print_json(summary)
        if summary.interrupted:
            raise typer.Exit(INTERRUPTED)
        screen.note(
            f"\nOpen the report in a browser. Then let streamgp choose the models: streamgp run {table} --target power "
            f"--report {out / 'auto.html'}\nor try your own table: streamgp run TABLE --target COLUMN"
        )


def _picture(out: Path) -> Path | None:
    """Where the picture goes, if there is something to draw it with."""
    from importlib.util import find_spec

    return out / "demo.png" if find_spec("matplotlib") else None
