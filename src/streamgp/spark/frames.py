"""Frames: rows as pandas, in the columns that the select in columns.py makes, and predictions as pandas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from streamgp.spark.plan import Plan
from streamgp.spark.rows import NO_TICKET, Batch, Predictions
from streamgp.spark.shard import Expired

# Columns between Spark and Python; they do not depend on the names that users chose.
SHARD, KEY, TIME, TARGET, TICKET, SNAPSHOT = "shard", "key", "time", "target", "ticket", "snapshot"


def input_name(j: int) -> str:
    """The name of input j."""
    return f"x{j}"


def batch_of(plan: Plan, frame: pd.DataFrame) -> Batch:
    """The rows of a frame."""
    keys = frame[KEY].tolist()
    if plan.key_type == "bigint":
        keys = [None if key is None else int(key) for key in keys]
    inputs = [_floats(frame[input_name(j)]) for j in range(len(plan.inputs))]
    tickets = None if plan.ticket is None else frame[TICKET].fillna(NO_TICKET).to_numpy(np.int64)
    return Batch(keys, frame[TIME].to_numpy(), np.column_stack(inputs), _floats(frame[TARGET]), tickets)


def frame_of(plan: Plan, found: Predictions) -> pd.DataFrame:
    """Predictions as a frame, with the columns of schema_of()."""
    columns: dict[str, Any] = {
        KEY: pd.Series(found.key, dtype=object if plan.key_type == "string" else "Int64"),
        TIME: found.time,
        "mean": found.mean,
        "lower": found.lower,
        "upper": found.upper,
        "std": found.std,
        "observed": found.observed,
        "row": found.row,
    }
    if plan.pending:
        columns[TICKET] = found.ticket
    if plan.idle is not None:
        columns[SNAPSHOT] = pd.Series([None] * len(found.key), dtype=object)
    return pd.DataFrame(columns)


def frame_of_expired(plan: Plan, expired: list[Expired]) -> pd.DataFrame:
    """Keys that have left, in the same columns."""
    none = np.full(len(expired), np.nan)
    frame = frame_of(
        plan,
        Predictions(
            [one.key for one in expired],
            np.array([one.time for one in expired]),
            none,
            none,
            none,
            none,
            none,
            np.array([one.row for one in expired]),
            np.full(len(expired), NO_TICKET),
        ),
    )
    frame[SNAPSHOT] = pd.Series([one.snapshot for one in expired], dtype=object)
    return frame


def schema_of(plan: Plan) -> str:
    """The columns of predictions, as Spark spells them."""
    numbers = ", ".join(f"{name} double" for name in ("mean", "lower", "upper", "std", "observed"))
    time = "double" if plan.ticks is None and not plan.whole else "bigint"
    ticket = f", {TICKET} bigint" if plan.pending else ""
    snapshot = f", {SNAPSHOT} binary" if plan.idle is not None else ""
    return f"{KEY} {plan.key_type}, {TIME} {time}, {numbers}, row bigint{ticket}{snapshot}"


def _floats(column: pd.Series) -> np.ndarray:
    return np.asarray(column.to_numpy(np.float64, na_value=np.nan))
