"""``streamgp push``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from streamgp.cli.errors import INTERRUPTED, reported
from streamgp.cli.run import Horizon, Inputs, Lags, Model, OnError, Schema, Settings, Source
from streamgp.cli.serve import installed
from streamgp.cli.settings import with_options

To = Annotated[str, typer.Option(metavar="URL", help="The server, such as http://127.0.0.1:8650.")]
Patience = Annotated[
    float, typer.Option(metavar="SECONDS", min=0, help="How long to wait for a server that does not answer.")
]


def push(
    source: Source,
    to: To,
    stream: Annotated[str, typer.Option(metavar="NAME", help="The stream that gets the rows.")],
    target: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column to predict; creates the stream if it is new.")
    ] = None,
    inputs: Inputs = None,
    lags: Lags = None,
    horizon: Horizon = 0,
    model: Model = "auto",
    set_: Settings = None,
    schema: Schema = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Wait for more rows at the end of the file; stop with Ctrl-C.")
    ] = False,
    batch: Annotated[int, typer.Option(metavar="ROWS", min=1, max=10_000, help="Rows of a request, at most.")] = 100,
    patience: Patience = 300.0,
    state: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to note progress. Default: a hidden file beside SOURCE.")
    ] = None,
    on_error: OnError = "stop",
) -> None:
    """Send the rows of a table to a server, each exactly once; run it again to go on where it stopped.

    If the server needs a token, put it into the variable STREAMGP_TOKEN.
    """
    with reported(), installed():
        from streamgp.cli.screen import Screen, stopping
        from streamgp.cli.settings import split_names
        from streamgp.job.job import ON_ERROR
        from streamgp.serve.push import Push
        from streamgp.settings import option
        from streamgp.tables.declared import read_schema

        option("on_error", on_error, ON_ERROR)
        settings = None
        if target is not None:
            settings = stream_settings(target, model, set_) | {
                "inputs": split_names(inputs),
                "lags": lags,
                "horizon": horizon,
                "schema": None if schema is None else read_schema(schema),
            }
        with stopping(Screen(quiet=True, to_terminal=False)) as stop:
            work = Push(
                source,
                to.rstrip("/"),
                stream,
                settings,
                os.environ.get("STREAMGP_TOKEN", ""),  # in an option every user of the machine could see it
                follow,
                batch,
                patience,
                on_error,
                state,
                stop,
                say,
            )
            sent = work.run()
        say(f"done: {sent:,} rows sent" + (f", {work.skipped:,} skipped" if work.skipped else ""))
        if stop.is_set():
            raise typer.Exit(INTERRUPTED)


def stream_settings(target: str, model: str, set_: list[str] | None) -> dict[str, Any]:
    """What a new stream is created with."""
    from streamgp.cli.settings import parse_settings

    given = parse_settings(set_)
    level = {"level": float(given.pop("level"))} if "level" in given else {}  # a field of its own there
    return {"target": target, "model": model, "settings": given, **level}


def say(sentence: str) -> None:
    """To people, on standard error."""
    typer.echo(f"streamgp: {with_options(sentence)}", err=True)
