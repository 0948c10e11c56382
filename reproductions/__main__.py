"""``python -m reproductions``: list the papers' tables and figures, or run one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from reproductions import framework
from reproductions.framework import Outcome, Value
from streamgp.cli.errors import INTERRUPTED, reported

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def reproduce(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="What to reproduce, such as soh2014-table1. Default: list all.")
    ] = "",
    runs: Annotated[int | None, typer.Option(metavar="N", help="Independent runs, if it has several.")] = None,
    steps: Annotated[int | None, typer.Option(metavar="N", help="Rows of each stream.")] = None,
    seed: Annotated[int | None, typer.Option(metavar="N", help="Seed of the first run.")] = None,
    jobs: Annotated[int | None, typer.Option(metavar="N", help="Processes.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small version that takes seconds.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder for results; finished cells found there are kept.")
    ] = None,
    finished: Annotated[bool, typer.Option("--finished", help="Run nothing; show and write finished results.")] = False,
    names: Annotated[bool, typer.Option("--names", help="Only print the names.")] = False,
    page: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Only refresh the tables of this Markdown page.")
    ] = None,
) -> None:
    """List the papers' tables and figures, or reproduce one. An interrupted run can be resumed."""
    console = Console()
    if page is not None:
        page.write_text(framework.refreshed(page.read_text(encoding="utf-8"), page.parent), encoding="utf-8")
    elif names:
        print("\n".join(framework.names()))
    elif not name:
        listing = Table("name", "title", "settings")
        for experiment in framework.experiments():
            settings = ", ".join(f"{key} {value}" for key, value in experiment.full.items())
            listing.add_row(experiment.name, experiment.title, settings)
        console.print(listing)
    else:
        given = {"runs": runs, "steps": steps, "seed": seed}
        changes = {key: value for key, value in given.items() if value is not None}
        with reported():
            framework.find(name).settings(quick, **changes)
            outcome = _with_bar(name, quick, jobs, out, not finished, changes)
        shown = Table(*outcome.table.header, title=name)
        for row in outcome.table.rows:
            shown.add_row(*(escape(cell.text() if isinstance(cell, Value) else cell) for cell in row))
        console.print(shown)
        for sentence in [*outcome.table.notes, *outcome.table.explanations()]:
            console.print(sentence, markup=False)
        for path in outcome.files:
            console.print(f"wrote {path}", markup=False)


def _with_bar(
    name: str, quick: bool, jobs: int | None, out: Path | None, compute: bool, changes: dict[str, int]
) -> Outcome:
    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, transient=True) as bar:
            task = bar.add_task(name, total=None)
            return framework.reproduce(
                name,
                quick=quick,
                jobs=jobs,
                out=out,
                compute=compute,
                progress=lambda done, total: bar.update(task, completed=done, total=total),
                **changes,
            )
    except KeyboardInterrupt:
        typer.echo("stopped; finished cells are kept. Run the same command to resume", err=True)
        raise typer.Exit(INTERRUPTED) from None


if __name__ == "__main__":
    app(prog_name="python -m reproductions")
