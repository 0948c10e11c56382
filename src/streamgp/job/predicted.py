"""What the stream model of a run predicts, in columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamgp.job.reading import ReadableRun
from streamgp.settings import FloatArray
from streamgp.tables.writing import PredictedRows
from streamgp.wrappers.alarms import words


def in_columns(
    run: ReadableRun,
    p: Any,
    row: np.ndarray,
    y: FloatArray,
    judged: FloatArray | None = None,
    time: list[str] | None = None,
    ticket: list[str] | None = None,
) -> PredictedRows:
    """What the model and the yardsticks beside it predict, in columns, scored.

    Args:
        run: whose model predicted.
        p: of n rows, with the means of the yardsticks.
        row: (n,) their numbers.
        y: (n,) their targets, NaN where unknown.
        judged: (2, n) surprises and kinds of alarms, where the run judges rows.
        time: as the table writes it.
        ticket: names of the rows.
    """
    density, pit = p.law.ladder(p).scored(y[:, None] - p.mean)
    columns = p.lower, p.upper, p.std, density, *p.raw.interval(run.level), pit
    if (unknown := np.isinf(columns[2])).any():  # before a scale is known there is nothing to write or to score
        columns = tuple(np.where(unknown, np.nan, column) for column in columns)
    mean, lower, upper, std, density, raw_lower, raw_upper, pit = [column[:, 0] for column in (p.mean, *columns)]
    p_value = alarm = None
    if judged is not None and run._alarms is not None:
        p_value, alarm = np.exp(-judged[0]), words(judged[1]).tolist()
    scored = mean, lower, upper, std, y, density, raw_lower, raw_upper, pit
    return PredictedRows(row, time, *scored, ticket, p_value, alarm, np.concatenate(p.yardsticks, axis=1))


def nothing(run: ReadableRun) -> PredictedRows:
    """The prediction of no rows."""
    return in_columns(run, run.stream._empty(), np.arange(0), np.empty(0), np.empty((2, 0)))
