"""``streamgp mqtt``."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from streamgp.cli.errors import reported
from streamgp.cli.push import Patience, To, say, stream_settings
from streamgp.cli.run import Settings
from streamgp.cli.serve import installed


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
    patience: Patience = 300.0,
) -> None:
    """Send the messages of an MQTT broker to a server, each exactly once; run it again to go on where it stopped.

    If the server needs a token, put it into the variable STREAMGP_TOKEN, and a password of the broker into
    STREAMGP_MQTT_PASSWORD.
    """
    with reported(), installed():
        from streamgp.cli.screen import Screen, stopping
        from streamgp.serve.mqtt import Bridge, Bridging
        from streamgp.serve.sending import Sender

        bridging = Bridging(broker, tuple(topic), stream_settings(target, model, set_), prefix)
        with stopping(Screen(quiet=True, to_terminal=False)) as stop:
            sender = Sender(to.rstrip("/"), os.environ.get("STREAMGP_TOKEN", ""), patience, stop, say)
            with closing(sender):
                counts = Bridge(bridging, sender, state, stop, say).run()
        say("stopped: " + ", ".join(f"{number:,} messages {what}" for what, number in counts.items() if number))
