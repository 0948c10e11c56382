"""``streamgp compile``."""

from __future__ import annotations

import importlib
from typing import Any

import typer

from streamgp.cli.errors import reported

MODULES = (
    "process.stream",
    "process.adapt.sngd",
    "process.memory",
    "process.temporal",
    "contract.checks",
    "contract.ladder",
    "kernels.program",
    "batch.spectrum",
    "filters.rules",
    "local.localgp",
    "local.lwpr",
    "recipes.naive",
    "wrappers.aggregation",
    "wrappers.conformal",
    "wrappers.drift",
    "wrappers.outliers",
    "wrappers.scaling",
    "wrappers.surprise",
)


def fill_cache(ctx: typer.Context) -> None:
    """Compile all models ahead of time, for container images and installers."""
    with reported():
        from streamgp.compiled import compile_now

        functions = all_entries()
        compile_now(*functions)
        if not ctx.obj["json"]:
            typer.echo(f"compiled: {len(functions)} functions")


def all_entries() -> list[Any]:
    """Every compiled function that Python calls when a model learns or predicts."""
    modules = [importlib.import_module(f"streamgp.{name}") for name in MODULES]
    found = [thing for module in modules for thing in vars(module).values()]
    return list({id(thing): thing for thing in found if hasattr(thing, "py_func") and hasattr(thing, "types")}.values())
