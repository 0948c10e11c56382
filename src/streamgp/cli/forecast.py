"""``streamgp forecast``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamgp.cli.run import Follow, Report, Source
from streamgp.defaults import QUANTILES


def forecast(
    ctx: typer.Context,
    source: Source,
    target: Annotated[str, typer.Option(metavar="COLUMN", help="The column to forecast.")],
    ahead: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="How far ahead: 90min, 24h, 7d; or a number of rows if the table has no times."
        ),
    ],
    quantiles: Annotated[
        str, typer.Option(metavar="P,...", help="Probabilities; each is a column of the output.")
    ] = ",".join(map(str, QUANTILES)),
    seasons: Annotated[
        str | None,
        typer.Option(metavar="TIME,...", help="Periods such as 1d,1w, or none. Default: found in the data."),
    ] = None,
    inputs: Annotated[
        str | None,
        typer.Option(metavar="COLUMN,...", help="Columns that explain it. Default: those that --future has too."),
    ] = None,
    future: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A table with the time and the inputs ahead, such as a weather forecast."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the forecast to a .csv or .ndjson file.")
    ] = None,
    report: Report = None,
    follow: Follow = False,
    every: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="With --follow: the least time between two forecasts. Default: every row."),
    ] = None,
) -> None:
    """Forecast a column over time, with quantiles; seasons, trend and noise are found in its past."""
    from streamgp.cli.screen import Screen, stopping
    from streamgp.cli.settings import split_names
    from streamgp.job.forecast import Issued, forecast_table
    from streamgp.job.forecast_report import write_forecast_report
    from streamgp.tables.places import refuse_same

    read = {"source": 0 if source == "-" else source, "future": future}
    refuse_same({**read, "out": 1 if out is None else out, "report": report})

    def show(issued: Issued) -> None:
        if report is not None:
            write_forecast_report(report, issued, source)

    as_json = ctx.obj["json"]
    screen = Screen(quiet=as_json, to_terminal=out is None)
    periods = [] if seasons == "none" else split_names(seasons)
    with stopping(screen) as stop, screen:
        forecast_table(
            source,
            target,
            ahead,
            quantiles=split_names(quantiles) or [],
            seasons=periods,
            inputs=split_names(inputs),
            future=future,
            out=out,
            as_json=as_json,
            follow=follow,
            every=every,
            tell=screen.note,
            show=show,
            stop=stop,
        )
    for name, place in (("forecast", out), ("report", report)):
        if place is not None:
            screen.note(f"{name}: {place}")
