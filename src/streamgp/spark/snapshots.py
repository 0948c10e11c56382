"""Snapshots: single models and counts out of the state of a query, while it runs or after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streamgp.spark.columns import shard_of
from streamgp.spark.processor import HEAD, LOG, WHOLE, opened
from streamgp.spark.shard import missing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OPERATOR = "transformWithStateInPandasExec"
COUNTS = "keys", "rows", "late", "refused", "unmatched"


def snapshot(spark: SparkSession, checkpoint: str, key: Any) -> bytes:
    """Return the model of a key as the last finished batch left it, as bytes that ``sg.from_bytes`` reads.

    Write them to a file, and ``sg.load`` reads it. The query may be running.

    Args:
        spark: the session.
        checkpoint: folder of the query's checkpoint.
        key: of the model.
    """
    from pyspark.sql import functions as F  # noqa: N812

    key = str(key)  # as columns.selected() has it
    operator, batch = _operator(spark, checkpoint)
    head = _state(spark, checkpoint, operator, batch, HEAD).select("value.*").first()
    whole = None
    if head is not None:
        number = spark.range(1).select(shard_of(F.lit(key), head.shards)).first()[0]
        whole = _state(spark, checkpoint, operator, batch, WHOLE).where(F.col("key.shard") == number).first()
    if whole is None:
        raise KeyError(missing(key))
    log = _state(spark, checkpoint, operator, batch, LOG).where(F.col("key.shard") == number).collect()
    return opened(whole.value.state, (row.list_element for row in log)).snapshot(key)


def shards(spark: SparkSession, checkpoint: str) -> DataFrame:
    """Return a frame with a row for each shard of a query: its keys, rows, and rows that were not learned."""
    from pyspark.sql import functions as F  # noqa: N812

    operator, batch = _operator(spark, checkpoint)
    heads = _state(spark, checkpoint, operator, batch, HEAD)
    return heads.select(F.col("key.shard"), *(F.col(f"value.{name}") for name in COUNTS))


def _operator(spark: SparkSession, checkpoint: str) -> tuple[int, int]:
    """The operator of the query that tracks, and its last finished batch."""
    found = spark.read.format("state-metadata").load(checkpoint).where(f"operatorName = '{OPERATOR}'").collect()
    if not found:
        raise ValueError(f"the checkpoint {checkpoint!r} is not of a query that streamgp.spark.track made")
    return found[0].operatorId, found[0].maxBatchId


def _state(spark: SparkSession, checkpoint: str, operator: int, batch: int, name: str) -> DataFrame:
    reader = spark.read.format("statestore").option("operatorId", operator).option("batchId", batch)
    return reader.option("stateVarName", name).load(checkpoint)
