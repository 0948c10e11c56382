"""Tracking: frames of Spark in, frames of predictions out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pandas as pd

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


def track(frame: DataFrame, *, initial: DataFrame | None = None, **settings: Any) -> DataFrame:
    """Predict each row of each key, then learn it.

    Args:
        frame: streaming or static. A watermark on the time column drops rows that come later, and Spark counts them.
        initial: what ``states`` returned: the models to start from.
        settings: by name, ``key``, ``target``, ``inputs``, ``time``, ``model``, and if you like ``shards``, ``idle``,
            ``pending`` and ``ticket``; see :func:`streamgp.spark.columns.planned`.

    Returns:
        A frame with the columns key and time under their names, mean, lower, upper, std, observed and row (the number
        of the row among those of its key, from 1); ticket if rows can wait; snapshot if keys can expire.
    """
    plan = columns.planned(frame, initial, **settings)
    if not frame.isStreaming:
        return columns.named(plan, frame, _applied(plan, frame, initial, _predicted, schema_of(plan)))
    provider = frame.sparkSession.conf.get(PROVIDER, "")
    if provider is None or not provider.endswith("RocksDBStateStoreProvider"):
        raise ValueError(
            f'the state of a query needs the RocksDB state store: spark.conf.set("{PROVIDER}", "{ROCKSDB}")'
        )
    found = (
        columns.selected(plan, frame)
        .groupBy(SHARD)
        .transformWithStateInPandas(
            statefulProcessor=Processor(plan),
            outputStructType=schema_of(plan),
            outputMode="Append",
            timeMode="EventTime" if columns.watermarked(frame, plan.time) else "None",
            initialState=None if initial is None else initial.groupBy(SHARD),
        )
    )
    return columns.named(plan, frame, found)


def states(frame: DataFrame, *, initial: DataFrame | None = None, **settings: Any) -> DataFrame:
    """Learn a static frame; return the models, a frame that ``track`` takes as ``initial``.

    The arguments are those of ``track``, and must be the same where the result is used.
    """
    if frame.isStreaming:
        raise ValueError("states() learns a static frame; a streaming one keeps its state itself: use track()")
    plan = columns.planned(frame, initial, **settings)
    return _applied(plan, frame, initial, _state, STATES)


def _applied(
    plan: Plan, frame: DataFrame, initial: DataFrame | None, work: Callable[..., Any], schema: str
) -> DataFrame:
    """Give the rows of each shard, and the shard as it was before them, to a function."""
    groups = columns.selected(plan, frame).groupBy(SHARD)
    if initial is None:
        return groups.applyInPandas(lambda group, came: work(plan, group[0], Shard(plan), came), schema)

    def started(group: Any, before: pd.DataFrame, came: pd.DataFrame) -> pd.DataFrame:
        shard = Shard.from_bytes(before["state"].iloc[0], plan) if len(before) else Shard(plan)
        return work(plan, group[0], shard, came)

    return initial.groupBy(SHARD).cogroup(groups).applyInPandas(started, schema)


def _predicted(plan: Plan, _: int, shard: Shard, came: pd.DataFrame) -> pd.DataFrame:
    return frame_of(plan, shard.take(batch_of(plan, came)))


def _state(plan: Plan, number: int, shard: Shard, came: pd.DataFrame) -> pd.DataFrame:
    if len(came):
        shard.take(batch_of(plan, came))
    return pd.DataFrame({SHARD: [number], "state": [shard.to_bytes()]})
