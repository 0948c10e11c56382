"""``streamgp compile``."""

from __future__ import annotations

import importlib

import typer

from streamgp.cli.errors import reported

MODULES = (
    "process.stream",
    "process.adapt.sngd",
    "filters.rules",
    "local.localgp",
    "local.lwpr",
    "wrappers.aggregation",
    "wrappers.conformal",
    "wrappers.drift",
    "wrappers.scaling",
    "fleet.calls",
)


def fill_cache(ctx: typer.Context) -> None:
    """Compile all models ahead of time, for container images and installers."""
    with reported():
        from streamgp.compiled import compile_now

        modules = [importlib.import_module(f"streamgp.{name}") for name in MODULES]
        things = [thing for module in modules for thing in vars(module).values()]
        entries = {id(thing): thing for thing in things if hasattr(thing, "types") and hasattr(thing, "py_func")}
        compile_now(*entries.values())
        if not ctx.obj["json"]:
            typer.echo(f"compiled: {len(entries)} functions")
