"""``streamgp run``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from streamgp.cli.errors import INTERRUPTED

Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE", help="A CSV, NDJSON, JSON or Parquet file (.gz, .bz2, .xz too), or - for standard input."
    ),
]
Inputs = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN,...", help="Columns to predict from, separated by commas. Default: all usable columns."
    ),
]
Lags = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Past values of the target to predict from. Default: auto decides; other models take none, or 10 with "
        "a horizon or without other inputs.",
    ),
]
Horizon = Annotated[
    int, typer.Option(metavar="N", help="Rows ahead; 0 predicts a row's target from its other columns.")
]
Ticket = Annotated[
    str | None,
    typer.Option(
        "--ticket-column",
        metavar="COLUMN",
        help="Identifies a row, so that a later row with the same value can bring its target.",
    ),
]
Model = Annotated[str, typer.Option(metavar="NAME", help="auto, or a name from: streamgp models.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting, such as capacity=200 or level=0.95; may be repeated."),
]
Schema = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="What columns are, in a .toml or .json file; streamgp inspect TABLE --write-schema FILE writes one.",
    ),
]
HalfLife = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Forget by the time column: half of what was learned is forgotten after 90s, 15min, 2h, 1d or 1w. "
        "For KRLST, RLSESN and auto's KRLST members.",
    ),
]
Budget = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="For auto: processor time of a row once models are chosen, such as 100us or 1ms. Default: 300us.",
    ),
]
Trees = Annotated[
    bool | None,
    typer.Option(
        "--trees/--no-trees",
        help="For auto: trees among its experts, which LightGBM trains. Default: if LightGBM is installed.",
    ),
]
PriorFile = Annotated[
    Path | None,
    typer.Option(
        "--prior",
        metavar="FILE",
        help="Start from hyperparameters that a fleet has learned (fleet.tune, prior.save). For KRLST and auto.",
    ),
]
Alarms = Annotated[
    str | None,
    typer.Option(
        metavar="RATE",
        help="Flag abnormal rows. RATE is how many false alarms you accept: 1e-3 of all rows, or 1/week if the table "
        "has times.",
    ),
]
Report = Annotated[Path | None, typer.Option(metavar="FILE", help="Write an HTML report with plots.")]
Follow = Annotated[bool, typer.Option("--follow", help="Wait for more rows at the end of the file; stop with Ctrl-C.")]
OnError = Annotated[
    str, typer.Option(metavar="stop|skip", help="What to do at a row that cannot be read: stop, or skip and count it.")
]


def run(
    ctx: typer.Context,
    source: Source,
    target: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column to predict. Required, except with --load.")
    ] = None,
    inputs: Inputs = None,
    lags: Lags = None,
    horizon: Horizon = 0,
    ticket: Ticket = None,
    model: Model = "auto",
    set_: Settings = None,
    schema: Schema = None,
    budget: Budget = None,
    trees: Trees = None,
    half_life: HalfLife = None,
    alarms: Alarms = None,
    prior: PriorFile = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write predictions to a .csv, .ndjson or .parquet file.")
    ] = None,
    report: Report = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a plot, such as plot.png.")] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save the run every minute and at the end, such as model.sgp.")
    ] = None,
    load: Annotated[Path | None, typer.Option(metavar="FILE", help="Resume a saved run where it stopped.")] = None,
    new_source: Annotated[
        bool,
        typer.Option("--new-source", help="With --load: SOURCE is another table; learn it from its first row."),
    ] = False,
    follow: Follow = False,
    on_error: OnError = "stop",
) -> None:
    """Predict each row of a table, then learn from it; write the predictions."""
    from streamgp.cli.screen import Screen, next_steps, stopping
    from streamgp.cli.settings import TYPED, parse_settings, split_names
    from streamgp.job import Job
    from streamgp.job.recorder import Recorder
    from streamgp.job.report import refuse_plot, write_plot, write_report
    from streamgp.process.prior import Prior
    from streamgp.tables.declared import read_schema
    from streamgp.tables.places import refuse_same
    from streamgp.tables.writing import finite

    read = {"source": 0 if source == "-" else source, "prior": prior, "schema": schema, "load": load}
    written = {"out": 1 if out is None else out, "save": save, "report": report, "plot": plot}
    refuse_same({**read, **written})  # 0 and 1: standard input and output
    if plot is not None:
        refuse_plot(plot)
    given: dict[str, Any] = {"budget": budget, "trees": trees, "half_life": half_life, "alarms": alarms}
    given["prior"] = None if prior is None else Prior.load(prior)
    given["schema"] = None if schema is None else read_schema(schema)
    as_json = ctx.obj["json"]
    screen = Screen(quiet=as_json, to_terminal=out is None)
    recorder = Recorder() if report or plot else None
    rescue = save or Path(f"{'stdin' if source == '-' else Path(source).stem}.interrupted.sgp")
    with stopping(screen) as stop, screen:
        summary = Job(
            source,
            target,
            inputs=split_names(inputs),
            lags=lags,
            horizon=horizon,
            ticket=ticket,
            model=model,
            settings=parse_settings(set_) | {name: value for name, value in given.items() if value is not None},
            out="-" if out is None else out,
            as_json=as_json,
            save=save,
            load=load,
            new_source=new_source,
            follow=follow,
            on_error=on_error,
            rescue=rescue,
            observers=[screen] if recorder is None else [recorder, screen],
            stop=stop,
        ).run()
    screen.finish(summary, out, save, rescue)
    if recorder is not None and report is not None:
        write_report(report, recorder, summary, source)
        screen.note(f"report: {report}")
    if recorder is not None and plot is not None:
        write_plot(plot, recorder, summary)
        screen.note(f"plot: {plot}")
    if not summary.interrupted and not follow:
        screen.note("\nNext:")
        for step in next_steps(summary.pipeline, source, ctx.meta[TYPED], save, load, report):
            screen.note(f"  {step}")
    if as_json:
        print(json.dumps({"summary": finite(summary.to_dict())}), flush=True)
    if summary.interrupted:
        raise typer.Exit(INTERRUPTED)
