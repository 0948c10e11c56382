"""What can be typed after a run."""

from __future__ import annotations

import shlex
from pathlib import Path

from streamgp.job.reading import ReadableRun

MOST = 3  # commands that are shown
RATE_BY_TIME, RATE_BY_ROW = "1/week", "1e-3"


def next_steps(
    run: ReadableRun, source: str, *, save: Path | None = None, report: Path | None = None, judged: bool = False
) -> list[str]:
    """Commands that can be typed next, each with what it is for.

    Args:
        run: that has ended.
        source: the table.
        save: where the run was saved; None: nowhere.
        report: where its report is; None: nowhere.
        judged: whether rows were judged.
    """
    table = shlex.quote(source)
    again = f"streamgp run {table} --target {shlex.quote(run.schema.target)}"
    steps = []
    if source != "-" and any("may stand for missing values" in column.note for column in run.schema.columns):
        steps.append(
            f"declare what stands for missing values: streamgp inspect {table} --write-schema schema.toml, "
            "then add --schema schema.toml"
        )
    if save is not None:
        steps.append(f"go on when there are more rows: streamgp run {table} --load {shlex.quote(str(save))}")
    else:
        steps.append(f"keep what was learned, to go on later: {again} --save model.sgp")
    if report is None:
        steps.append(f"look at it: {again} --report report.html")
    if not judged:
        rate = RATE_BY_TIME if run.schema.is_dated else RATE_BY_ROW
        steps.append(f"find abnormal rows: {again} --alarms {rate}")
    return steps[:MOST]
