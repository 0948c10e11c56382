"""Frames: rows as pandas, in the columns that the select in columns.py makes, and predictions as pandas."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from streamgp.spark.plan import NUMBER, Plan
from streamgp.spark.rows import NO_TICKET, Batch, Predictions

# Columns between Spark and Python; they do not depend on the names that users chose.
SHARD, KEY, TIME, TARGET, TICKET, SNAPSHOT = "shard", "key", "time", "target", "ticket", "snapshot"


def input_name(j: int) -> str:
    """The name of input j."""
    return f"x{j}"


def batch_of(plan: Plan, frame: pd.DataFrame) -> Batch:
    """The rows of a frame."""
    inputs = [_floats(frame[input_name(j)]) for j in range(len(plan.inputs))]
    tickets = None if plan.ticket is None else frame[TICKET].fillna(NO_TICKET).to_numpy(np.int64)
    keys, time = frame[KEY].tolist(), frame[TIME].to_numpy()
    return Batch(keys, time, np.column_stack(inputs), _floats(frame[TARGET]), tickets)


def frame_of(plan: Plan, found: Predictions, snapshots: Sequence[bytes | None] = ()) -> pd.DataFrame:
    """Predictions as a frame, with the columns of schema_of().

    Args:
        plan: of the query.
        found: the predictions.
        snapshots: of keys that leave.
    """
    frame = pd.DataFrame(found._asdict() | {KEY: pd.Series(found.key, dtype=object)})
    if not plan.pending:
        frame = frame.drop(columns=TICKET)
    if plan.idle is not None:
        frame[SNAPSHOT] = pd.Series(snapshots or [None] * len(frame), dtype=object)
    return frame


def schema_of(plan: Plan) -> str:
    """The columns of predictions, as Spark spells them."""
    numbers = ", ".join(f"{name} double" for name in ("mean", "lower", "upper", "std", "observed"))
    time = "double" if plan.clock == NUMBER else "bigint"
    ticket = f", {TICKET} bigint" if plan.pending else ""
    snapshot = f", {SNAPSHOT} binary" if plan.idle is not None else ""
    return f"{KEY} string, {TIME} {time}, {numbers}, row bigint{ticket}{snapshot}"


def _floats(column: pd.Series) -> np.ndarray:
    return np.asarray(column.to_numpy(np.float64, na_value=np.nan))
