"""``streamgp serve`` and ``streamgp token``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamgp.cli.errors import reported

Data = Annotated[Path, typer.Option(metavar="DIR", help="Folder for the server's data; created if it is missing.")]


def serve(
    data: Data,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on; any but loopback needs a token.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Port to listen on; 0 takes any free one.")
    ] = 8650,
    retain: Annotated[
        int, typer.Option(metavar="ROWS", min=100, help="Newest rows of a stream to keep for its history.")
    ] = 100_000,
    keep_rows: Annotated[
        int, typer.Option(metavar="ROWS", min=0, help="Newest rows of a stream to keep for learning it again.")
    ] = 10_000,
    max_streams: Annotated[int, typer.Option(metavar="N", min=1, help="How many streams there may be.")] = 1000,
    max_body: Annotated[int, typer.Option(metavar="BYTES", min=1024, help="Largest request.")] = 8 << 20,
    threads: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="How many streams may do long work at once. Default: four per core."),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="A web site whose pages may read answers (CORS); may be repeated."),
    ] = None,
    base_url: Annotated[
        str, typer.Option(metavar="PATH", help="Path below which a proxy shows the server, such as /gp/.")
    ] = "/",
    webhook: Annotated[str, typer.Option(metavar="URL", help="Post each alarm there, as JSON.")] = "",
) -> None:
    """Serve streams over HTTP, with a live page; stop with Ctrl-C."""
    from streamgp.serve.server import serve as run
    from streamgp.serve.service import Limits

    limits = Limits(max_streams, max_body, retain, keep_rows, threads or Limits.threads)
    run(
        data,
        host,
        port,
        limits,
        tuple(allow_origin or ()),
        ready=lambda url: typer.echo(f"streamgp serves {data} on {url} (stop with Ctrl-C)", err=True),
        webhook=webhook,
        base=base_url,
    )


def backup(
    data: Data,
    to: Annotated[Path, typer.Option(metavar="DIR", help="Where the copy goes; an earlier one is replaced.")],
) -> None:
    """Copy a server's data, also while it runs; only you can read the copy."""
    from streamgp.serve.backup import back_up

    typer.echo(back_up(data, to))


token = typer.Typer(help="Make, list and revoke the tokens of a server.", no_args_is_help=True, rich_markup_mode=None)


@token.command()
@reported()
def create(
    data: Data,
    scope: Annotated[
        str, typer.Option(metavar="read|write|admin", help="What it may do; each includes the ones before.")
    ] = "write",
    name: Annotated[str, typer.Option(metavar="TEXT", help="For people: what or who will use it.")] = "",
) -> None:
    """Make a token and print it. Only its digest is kept, so it cannot be shown again."""
    from streamgp.serve.access import create_token

    typer.echo(create_token(data, scope, name))


@token.command("list")
@reported()
def list_(data: Data) -> None:
    """List the tokens: number, scope, when they were made, the day of the last use, name."""
    from streamgp.serve.access import list_tokens

    for found in list_tokens(data):
        typer.echo(
            f"{found.id}  {found.scope:<5}  {found.created}  {found.used or 'unused':<10}  {found.name}".rstrip()
        )


@token.command()
@reported()
def revoke(
    data: Data, number: Annotated[int, typer.Argument(metavar="NUMBER", help="From: streamgp token list.")]
) -> None:
    """Revoke a token; a running server forgets it within a second."""
    from streamgp.serve.access import revoke_token

    if not revoke_token(data, number):
        typer.echo(
            "this was the last token: the server now refuses every request, on loopback too. Make a new one: "
            f"streamgp token create --data {data}",
            err=True,
        )
