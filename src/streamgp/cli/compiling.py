"""``streamgp compile``."""

from __future__ import annotations

import typer

from streamgp.cli.errors import reported


def fill_cache(ctx: typer.Context) -> None:
    """Compile everything ahead of time, for container images and installers."""
    with reported():
        from streamgp.compiled import way
        from streamgp.job.ahead import compile_all, every

        compile_all()
        if not ctx.obj["json"]:
            typer.echo(way.described(every()))
