"""``python -m streamgp.reproduce NAME``: the same as ``streamgp reproduce NAME``."""

import typer

from streamgp.cli.reproduce import reproduce

typer.run(reproduce)
