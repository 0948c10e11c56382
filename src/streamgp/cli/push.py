"""``streamgp push`` and ``streamgp mqtt``: clients of a server."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from streamgp.cli.errors import INTERRUPTED
from streamgp.cli.run import Follow, Horizon, Inputs, Lags, Model, OnError, Schema, Settings, Source
from streamgp.cli.settings import with_options
from streamgp.defaults import BATCH, PATIENCE

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
    follow: Follow = False,
    batch: Annotated[int, typer.Option(metavar="ROWS", min=1, max=10_000, help="Rows of a request, at most.")] = BATCH,
    patience: Patience = PATIENCE,
    state: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to note progress. Default: a hidden file beside SOURCE.")
    ] = None,
    on_error: OnError = "stop",
) -> None:
    """Send the rows of a table to a server, each exactly once; run it again to go on where it stopped.

    If the server needs a token, put it into the variable STREAMGP_TOKEN.
    """
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


def mqtt(
    broker: Annotated[str, typer.Option(metavar="mqtt://HOST", help="The broker; mqtts:// uses TLS.")],
    topic: Annotated[
        list[str],
        typer.Option(metavar="FILTER", help="Topics such as 'plant/+/power'; each is a stream. May be repeated."),
    ],
    to: To,
    state: Annotated[Path, typer.Option(metavar="FILE", help="Where to note progress; created if it is missing.")],
    target: Annotated[
        str, typer.Option(metavar="NAME", help="Where messages are JSON: the key that new streams predict.")
    ] = "value",
    model: Annotated[
        str, typer.Option(metavar="NAME", help="Of new streams: auto, or a name from: streamgp models.")
    ] = "auto",
    set_: Settings = None,
    prefix: Annotated[
        str,
        typer.Option(metavar="TOPIC", help="First part of the topics of predictions and alarms; '' publishes none."),
    ] = "streamgp",
    patience: Patience = PATIENCE,
) -> None:
    """Send the messages of an MQTT broker to a server, each exactly once; run it again to go on where it stopped.

    If the server needs a token, put it into the variable STREAMGP_TOKEN, and a password of the broker into
    STREAMGP_MQTT_PASSWORD.
    """
    from streamgp.cli.screen import Screen, stopping
    from streamgp.serve.mqtt import Bridge, Bridging
    from streamgp.serve.sending import Sender

    bridging = Bridging(broker, tuple(topic), stream_settings(target, model, set_), prefix)
    with stopping(Screen(quiet=True, to_terminal=False)) as stop:
        sender = Sender(to.rstrip("/"), os.environ.get("STREAMGP_TOKEN", ""), patience, stop, say)
        with closing(sender):
            counts = Bridge(bridging, sender, state, stop, say).run()
    told = ", ".join(f"{number:,} messages {what}" for what, number in counts.items() if number)
    say(f"stopped: {told or 'no messages'}")


def stream_settings(target: str, model: str, set_: list[str] | None) -> dict[str, Any]:
    """What a new stream is created with."""
    from streamgp.cli.settings import parse_settings

    given = parse_settings(set_)
    level = {"level": float(given.pop("level"))} if "level" in given else {}  # a field of its own there
    return {"target": target, "model": model, "settings": given, **level}


def say(sentence: str) -> None:
    """To people, on standard error."""
    typer.echo(f"streamgp: {with_options(sentence)}", err=True)
