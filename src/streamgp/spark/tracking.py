"""Tracking: frames of Spark in, frames of predictions out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from streamgp.contract.model import StreamModel
from streamgp.fleet.fleet import refuse_no_model
from streamgp.settings import duration, whole
from streamgp.spark import columns
from streamgp.spark.frames import SHARD, batch_of, frame_of, schema_of
from streamgp.spark.plan import Plan
from streamgp.spark.processor import Processor
from streamgp.spark.shard import Shard

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
STATES = "shard int, state binary"


def track(
    frame: DataFrame,
    *,
    key: str,
    target: str,
    inputs: list[str],
    time: str,
    model: StreamModel,
    shards: int = 64,
    idle: float | str | None = None,
    pending: int = 0,
    ticket: str | None = None,
    initial: DataFrame | None = None,
) -> DataFrame:
    """Predict each row of each key, then learn it.

    Args:
        frame: streaming or static. A watermark on the time column drops rows that come later, and Spark counts them.
        key: column that says which stream a row belongs to, text or whole numbers. New keys get a new model.
        target: column to predict; null or NaN: missing.
        inputs: columns to predict from.
        time: column that orders the rows of a key within a batch: a timestamp or a number.
        model: the recipe of every key, which has learned nothing.
        shards: groups of keys; the models of a group are kept together.
        idle: how long a key may have no rows before it expires, such as "2h"; None: for ever. Needs a watermark.
        pending: rows of a shard that can wait for late targets; 0: none.
        ticket: column with the ticket of a row whose target comes with this one; null: this is a row to predict.
        initial: what ``states`` returned: the models to start from.

    Returns:
        A frame with the columns key and time under their names, mean, lower, upper, std, observed and row (the number
        of the row among those of its key, from 1); ticket if rows can wait; snapshot if keys can expire.
    """
    plan, rows = _planned(frame, key, target, inputs, time, model, shards, idle, pending, ticket)
    _refuse_initial(initial)
    groups = rows.groupBy(SHARD)
    if not frame.isStreaming:
        found = _static(plan, groups, initial)
    else:
        _refuse_store(frame)
        found = groups.transformWithStateInPandas(
            statefulProcessor=Processor(plan),
            outputStructType=schema_of(plan),
            outputMode="Append",
            timeMode="EventTime" if columns.watermarked(frame, time) else "None",
            initialState=None if initial is None else initial.groupBy(SHARD),
        )
    return columns.named(plan, frame, found)


def states(
    frame: DataFrame,
    *,
    key: str,
    target: str,
    inputs: list[str],
    time: str,
    model: StreamModel,
    shards: int = 64,
    pending: int = 0,
    ticket: str | None = None,
    initial: DataFrame | None = None,
) -> DataFrame:
    """Learn a static frame; return the models, a frame that ``track`` takes as ``initial``.

    The arguments are those of ``track``, and must be the same where the result is used.
    """
    if frame.isStreaming:
        raise ValueError("states() learns a static frame; a streaming one keeps its state itself: use track()")
    plan, rows = _planned(frame, key, target, inputs, time, model, shards, None, pending, ticket)
    _refuse_initial(initial)

    def learn(number: int, before: pd.DataFrame, came: pd.DataFrame) -> pd.DataFrame:
        shard = _started(plan, before)
        if len(came):
            shard.take(batch_of(plan, came))
        return pd.DataFrame({SHARD: [number], "state": [shard.to_bytes()]})

    if initial is None:
        nothing = pd.DataFrame({"state": []})
        return rows.groupBy(SHARD).applyInPandas(lambda group, came: learn(group[0], nothing, came), STATES)
    pairs = initial.groupBy(SHARD).cogroup(rows.groupBy(SHARD))
    return pairs.applyInPandas(lambda group, before, came: learn(group[0], before, came), STATES)


def _static(plan: Plan, groups: Any, initial: DataFrame | None) -> DataFrame:
    def predict(before: pd.DataFrame, came: pd.DataFrame) -> pd.DataFrame:
        return frame_of(plan, _started(plan, before).take(batch_of(plan, came)))

    if initial is None:
        nothing = pd.DataFrame({"state": []})
        return groups.applyInPandas(lambda came: predict(nothing, came), schema_of(plan))
    return initial.groupBy(SHARD).cogroup(groups).applyInPandas(predict, schema_of(plan))


def _started(plan: Plan, before: pd.DataFrame) -> Shard:
    return Shard.from_bytes(before["state"].iloc[0], plan) if len(before) else Shard(plan)


def _planned(
    frame: DataFrame,
    key: str,
    target: str,
    inputs: list[str],
    time: str,
    model: StreamModel,
    shards: int,
    idle: float | str | None,
    pending: int,
    ticket: str | None,
) -> tuple[Plan, DataFrame]:
    """The plan, and the rows in the columns that it takes; whatever is wrong is refused here, before anything runs."""
    refuse_no_model(model)
    if model.rows_seen:
        raise ValueError(f"model must have learned nothing; got one that has seen {model.rows_seen} rows: clone() it")
    columns.refuse_unfit(frame, key, target, inputs, time, ticket)
    pending = whole("pending", pending, at_least=0)
    if (ticket is None) != (pending == 0):
        raise ValueError("pending= and ticket= belong together: how many rows can wait, and the column with tickets")
    seconds = None if idle is None else duration("idle", idle)
    if seconds is not None and frame.isStreaming and not columns.watermarked(frame, time):
        raise ValueError(
            f'idle= counts by the watermark, and the column {time!r} has none: call frame.withWatermark("{time}", '
            '"10 minutes") first, with the delay that rows can have'
        )
    plan = Plan(
        model=model,
        key=key,
        target=target,
        inputs=tuple(inputs),
        time=time,
        shards=whole("shards", shards),
        ticks=columns.ticks(frame, time),
        whole=columns.is_whole(frame, time),
        idle=seconds,
        pending=pending,
        ticket=ticket,
        key_type=columns.key_type(frame, key),
    )
    return plan, columns.selected(plan, frame)


def _refuse_initial(initial: DataFrame | None) -> None:
    if initial is not None and initial.columns != ["shard", "state"]:
        raise ValueError(f"initial must be what states() returned, with columns shard, state; got {initial.columns}")


def _refuse_store(frame: DataFrame) -> None:
    provider = frame.sparkSession.conf.get(PROVIDER, "")
    if provider is None or not provider.endswith("RocksDBStateStoreProvider"):
        raise ValueError(
            f'the state of a query needs the RocksDB state store: spark.conf.set("{PROVIDER}", "{ROCKSDB}")'
        )
