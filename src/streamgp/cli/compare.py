"""``streamgp compare``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from streamgp.cli.run import Horizon, Inputs, Lags, OnError, Settings, Source


def compare(
    ctx: typer.Context,
    source: Source,
    target: Annotated[str, typer.Option(metavar="COLUMN", help="The column to predict.")],
    models: Annotated[
        str | None,
        typer.Option(metavar="NAME,...", help="Models, separated by commas. Default: KRLST,SOGP,ISSGPR,QKLMS."),
    ] = None,
    inputs: Inputs = None,
    lags: Lags = None,
    horizon: Horizon = 0,
    set_: Settings = None,
    by: Annotated[str, typer.Option(metavar="rmse|density", help="Rank by RMSE or by log density.")] = "rmse",
    on_error: OnError = "stop",
) -> None:
    """Run several models on the same rows and rank them, with confidence intervals."""
    from streamgp.cli.screen import show_table
    from streamgp.cli.settings import parse_settings, split_names
    from streamgp.job.comparison import DEFAULT, compare_models
    from streamgp.job.scores import shown
    from streamgp.tables.writing import finite

    result = compare_models(
        source,
        target,
        split_names(models) or DEFAULT,
        inputs=split_names(inputs),
        lags=lags,
        horizon=horizon,
        settings=parse_settings(set_),
        by=by,
        on_error=on_error,
    )
    known = {name: scores.summary() for name, scores in result.scores.items()}
    rows = [rank._asdict() | {"scores": known.get(rank.name, {})} for rank in result.ranking]
    if ctx.obj["json"]:
        for row in rows:
            typer.echo(json.dumps(finite(row)))
        return
    loss = "mean squared error" if by == "rmse" else "negative log density"
    lines = []
    for rank, row in zip(result.ranking, rows, strict=True):
        scores = row["scores"]
        cells = [
            shown(rank.loss**0.5 if by == "rmse" else scores["rmse"]),
            *(shown(scores[name]) if scores else "" for name in ("mean_log_density", "coverage", "mean_width")),
        ]
        beside = "" if rank is result.ranking[0] else f"{rank.excess:.3g} ({rank.low:.3g} to {rank.high:.3g})"
        lines.append([rank.name, *cells, beside])
    headings = ["model", "RMSE", "log density", "coverage", "width", f"{loss} above the best"]
    console = show_table(headings, lines, right=False)
    console.print(
        f"Scored on {result.rows} rows, from row {result.from_row} on. In brackets: 95% confidence interval of the "
        "paired difference; if it contains 0, the order is uncertain."
    )
    if result.skipped_rows:
        console.print(f"Skipped rows: {result.skipped_rows}.")
