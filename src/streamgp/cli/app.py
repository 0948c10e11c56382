"""The application: its commands and the option that all of them have."""

from __future__ import annotations

import shlex
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from streamgp.cli.cite import cite
from streamgp.cli.compare import compare
from streamgp.cli.compiling import fill_cache
from streamgp.cli.demo import demo
from streamgp.cli.doctor import doctor
from streamgp.cli.export import export
from streamgp.cli.forecast import forecast
from streamgp.cli.inspect import inspect
from streamgp.cli.models import models
from streamgp.cli.mqtt import mqtt
from streamgp.cli.push import push
from streamgp.cli.run import run
from streamgp.cli.serve import backup, serve, token
from streamgp.cli.settings import TYPED
from streamgp.version import __version__

HELP = """Gaussian processes that learn from a stream of rows, with calibrated intervals.

Exit codes: 0 success, 2 invalid option or setting, 3 unusable rows, 4 output that cannot be written,
130 stopped by Ctrl-C (the run is saved; the message says where)."""


class Group(TyperGroup):
    """Commands whose common option may stand anywhere."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[TYPED] = shlex.join(["streamgp", *args])
        if "--json" in args:
            args = ["--json", *(argument for argument in args if argument != "--json")]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=Group,
    help=HELP,
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def common(
    ctx: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")] = False,
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    ctx.obj = {"json": json}


# In the list of commands each has one line of 80 characters.
COMMANDS: dict[str, tuple[Any, str]] = {
    "run": (run, "Predict each row of a table, then learn from it."),
    "forecast": (forecast, "Forecast a column over time, with quantiles."),
    "demo": (demo, "Run on a synthetic table and write a report."),
    "serve": (serve, "Serve streams over HTTP, with a live page."),
    "push": (push, "Send the rows of a table to a server."),
    "mqtt": (mqtt, "Send the messages of an MQTT broker to a server."),
    "backup": (backup, "Copy a server's data, also while it runs."),
    "compare": (compare, "Run several models on the same rows and rank them."),
    "models": (models, "List the models."),
    "inspect": (inspect, "Show what a saved run, a model or a table holds."),
    "export": (export, "Write a model as one C file."),
    "cite": (cite, "Print BibTeX entries for a model's papers."),
    "doctor": (doctor, "Print versions and system, compile, and run a self-test."),
    "compile": (fill_cache, "Compile everything ahead of time."),
}
for name, (command, short) in COMMANDS.items():
    app.command(name, short_help=short)(command)
app.add_typer(token, name="token")
