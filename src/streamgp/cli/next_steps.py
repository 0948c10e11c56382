"""What can be typed after a run."""

from __future__ import annotations

import shlex
from pathlib import Path

from streamgp.job.pipeline import Pipeline

MOST = 3  # commands that are shown
RATE_BY_TIME, RATE_BY_ROW = "1/week", "1e-3"


def next_steps(
    run: Pipeline,
    source: str,
    typed: str,
    *,
    save: Path | None = None,
    load: Path | None = None,
    report: Path | None = None,
) -> list[str]:
    """Commands that can be typed next, each with what it is for.

    Args:
        run: that has ended.
        source: the table.
        typed: the command that has ended.
        save: where the run was saved; None: nowhere.
        load: the run that was continued, which has its own schema and settings; None: it was a new one.
        report: where its report is; None: nowhere.
    """
    table = shlex.quote(source)
    steps = []
    if (
        source != "-"
        and load is None
        and any("may stand for missing values" in column.note for column in run.schema.columns)
    ):
        steps.append(
            f"declare what stands for missing values: streamgp inspect {table} --write-schema schema.toml, "
            "then add --schema schema.toml"
        )
    if save is not None:
        steps.append(f"go on when there are more rows: streamgp run {table} --load {shlex.quote(str(save))}")
    else:
        steps.append(f"keep what was learned, to go on later: {typed} --save model.sgp")
    if report is None:
        steps.append(f"look at it: {typed} --report report.html")
    if load is None and run.request.run.alarms is None:
        rate = RATE_BY_TIME if run.schema.is_dated else RATE_BY_ROW
        steps.append(f"find abnormal rows: {typed} --alarms {rate}")
    return steps[:MOST]
